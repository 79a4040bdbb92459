//! `sim`: a scenario in virtual time, with a verdict.
//!
//! The machine and the relay's rules are the real ones; time, links and people are made up. Nothing
//! is drawn but from the seed, so the same arguments print the same figures.

use std::fmt::Display;

use buzz_sim::scenario::fleet::{self, Fleet};
use buzz_sim::scenario::hold::Hold;
use buzz_sim::scenario::overload::{Figures, Overload};
use buzz_sim::scenario::storm::Storm;
use buzz_sim::scenario::{self, ScenarioError};

use crate::args::{FleetArgs, HoldArgs, OverloadArgs, Scenario, SimArgs, StormArgs};
use crate::exit::{Exit, Failure};
use crate::ui::{Look, Ui};

/// Plays a scenario, or says which there are. The exit code says whether its figures are clean.
pub(crate) fn run(args: &SimArgs, ui: Ui) -> Result<Exit, Failure> {
    match &args.scenario {
        None => {
            list(ui);
            Ok(Exit::Done)
        }
        Some(Scenario::Overload(args)) => overload(args, ui),
        Some(Scenario::Storm(args)) => storm(args, ui),
        Some(Scenario::Fleet(args)) => fleet(args, ui),
        Some(Scenario::Hold(args)) => hold(args, ui),
    }
}

fn list(ui: Ui) {
    for (name, what) in scenario::ALL {
        ui.line(format_args!("{name:>13}  {what}"));
    }
    ui.line("buzz-agent sim SCENARIO --help names the settings of one");
}

fn overload(args: &OverloadArgs, ui: Ui) -> Result<Exit, Failure> {
    let figures = played(settings(args).play(|line| ui.progress(line)), ui)?;
    show(&figures.rows(), ui);
    ui.json(&figures);
    Ok(exit_of(&figures))
}

fn storm(args: &StormArgs, ui: Ui) -> Result<Exit, Failure> {
    let &StormArgs { seed, jobs, .. } = args;
    let figures = played(Storm { seed, jobs }.play(|line| ui.progress(line)), ui)?;
    show(&figures.rows(), ui);
    ui.json(&figures);
    Ok(verdict(figures.is_whole(), &figures.misses(), ui))
}

fn fleet(args: &FleetArgs, ui: Ui) -> Result<Exit, Failure> {
    let &FleetArgs { seed, agents, .. } = args;
    let figures = played(Fleet { seed, agents }.play(|line| ui.progress(line)), ui)?;
    show_both(&figures, ui);
    ui.json(&figures);
    Ok(verdict(figures.is_whole(), &figures.misses(), ui))
}

fn hold(args: &HoldArgs, ui: Ui) -> Result<Exit, Failure> {
    let &HoldArgs { seed, workers, .. } = args;
    let figures = played(Hold { seed, workers }.play(|line| ui.progress(line)), ui)?;
    show(&figures.rows(), ui);
    ui.json(&figures);
    Ok(verdict(figures.is_whole(), &figures.misses(), ui))
}

fn played<T>(result: Result<T, ScenarioError>, ui: Ui) -> Result<T, Failure> {
    ui.progress_done();
    result.map_err(|error| failure(&error))
}

fn show(rows: &[(&str, impl Display, &str)], ui: Ui) {
    for (name, figure, meaning) in rows {
        ui.line(format_args!("{name:>13} {figure:>6}  {meaning}"));
    }
}

/// The figures of two runs beside each other.
fn show_both(figures: &fleet::Figures, ui: Ui) {
    ui.line(format_args!("{:>13} {:>7} {:>7}", "", "wide", "tight"));
    for ((name, wide, meaning), (_, tight, _)) in
        figures.wide.rows().iter().zip(figures.tight.rows())
    {
        ui.line(format_args!("{name:>13} {wide:>7} {tight:>7}  {meaning}"));
    }
}

/// The exit code, and a line for each promise that was not kept.
fn verdict(is_whole: bool, misses: &[String], ui: Ui) -> Exit {
    for miss in misses {
        ui.styled(Look::Bad, format_args!("missed: {miss}"));
    }
    match (is_whole, misses) {
        (false, _) => Exit::Lost,
        (true, []) => Exit::Done,
        (true, _) => Exit::Other,
    }
}

const fn settings(args: &OverloadArgs) -> Overload {
    Overload {
        seed: args.seed,
        slots: args.slots,
        subscriptions: args.subscriptions,
        rounds: args.rounds,
        events: args.events,
    }
}

const fn exit_of(figures: &Figures) -> Exit {
    if figures.is_clean() {
        Exit::Done
    } else {
        Exit::Lost
    }
}

fn failure(error: &ScenarioError) -> Failure {
    if let ScenarioError::Setting { .. } = error {
        return Failure::settings(error);
    }
    Failure::other(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_post_has_the_exit_code_of_a_loss_and_a_missed_bound_that_of_anything_else() {
        let ui = Ui::new(false);
        let missed = ["drain_ratio is 2, above 1.25".to_owned()];

        assert_eq!(verdict(true, &[], ui), Exit::Done);
        assert_eq!(verdict(true, &missed, ui), Exit::Other);
        assert_eq!(verdict(false, &missed, ui), Exit::Lost);
    }

    #[test]
    fn one_wrong_figure_makes_the_exit_code_that_of_a_loss() {
        let clean = Figures {
            owed: 977,
            delivered: 977,
            ..Figures::default()
        };
        let lacking = Figures {
            delivered: 976,
            ..clean.clone()
        };
        let doubled = Figures {
            duplicates: 1,
            ..clean.clone()
        };
        let gaping = Figures {
            gaps: 1,
            ..clean.clone()
        };

        assert_eq!(exit_of(&clean), Exit::Done);
        for wrong in [lacking, doubled, gaping] {
            assert_eq!(exit_of(&wrong), Exit::Lost, "{wrong:?}");
        }
    }
}
