//! `sim`: a scenario in virtual time, with a verdict.
//!
//! The machine and the relay's rules are the real ones; time, links and people are made up. Nothing
//! is drawn but from the seed, so the same arguments print the same figures.

use buzz_sim::scenario::overload::{Figures, Overload};
use buzz_sim::scenario::{self, ScenarioError};

use crate::args::{OverloadArgs, Scenario, SimArgs};
use crate::exit::{Exit, Failure};
use crate::ui::Ui;

/// Plays a scenario, or says which there are. The exit code says whether its figures are clean.
pub(crate) fn run(args: &SimArgs, ui: Ui) -> Result<Exit, Failure> {
    let Some(Scenario::Overload(args)) = &args.scenario else {
        list(ui);
        return Ok(Exit::Done);
    };
    let played = settings(args).play(|line| ui.progress(line));
    ui.progress_done();
    let figures = played.map_err(|error| failure(&error))?;
    for (name, count, meaning) in figures.rows() {
        ui.line(format_args!("{name:>13} {count:>6}  {meaning}"));
    }
    ui.json(&figures);
    Ok(exit_of(&figures))
}

fn list(ui: Ui) {
    for (name, what) in scenario::ALL {
        ui.line(format_args!("{name:>13}  {what}"));
    }
    ui.line("buzz-agent sim SCENARIO --help names the settings of one");
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
