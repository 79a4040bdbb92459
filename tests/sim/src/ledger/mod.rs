//! Books of what is owed, kept beside a machine: what must hold of any facts in any order.
//!
//! Every call is entered; the first entry that contradicts the books is a fault. Nothing is taken
//! from the machine's own state: the books know only what went in and what came out.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "books are kept of a few facts and orders, and the others change nothing in them"
)]

mod calls;
mod deliveries;
mod jobs;
mod line;
mod workers;

use std::collections::BTreeSet;

use buzz_proto::action::Action;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::JobId;
use buzz_proto::input::{Command, Input};
use buzz_proto::time::MonoTime;

use calls::Calls;
use deliveries::Deliveries;
use jobs::Jobs;
use line::Line;
use workers::Workers;

/// What contradicts the books, in a sentence for people.
pub type Fault = String;

/// The books of one life of a machine.
///
/// ```
/// use buzz_proto::input::Input;
/// use buzz_sim::ledger::Ledger;
/// use buzz_sim::machine::{config, external, machine};
/// use buzz_sim::script::ms;
///
/// let config = config(external());
/// let mut ledger = Ledger::new(&config);
/// let actions = machine(config).handle_input(Input::Tick, ms(1));
/// assert_eq!(ledger.enter(ms(1), &Input::Tick, &actions), Ok(()));
/// ```
#[derive(Clone, Debug)]
pub struct Ledger {
    line: Line,
    calls: Calls,
    jobs: Jobs,
    desk: Desk,
    /// The earliest time by which the whole was told to end.
    end_by: Option<MonoTime>,
    has_ended: bool,
}

/// Who takes the events.
#[derive(Clone, Debug)]
enum Desk {
    Consumer(Deliveries),
    Workers(Box<Workers>),
}

impl Ledger {
    /// Books of a machine with these settings, before its first call.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let desk = match &config.consumer {
            Consumer::External { slots } => Desk::Consumer(Deliveries::new(*slots)),
            Consumer::Workers(schedule) => Desk::Workers(Box::new(Workers::new(schedule))),
        };
        Self {
            line: Line::default(),
            calls: Calls::default(),
            jobs: Jobs::default(),
            desk,
            end_by: None,
            has_ended: false,
        }
    }

    /// Enters one call.
    ///
    /// # Errors
    /// When an order contradicts what was entered before.
    pub fn enter(&mut self, now: MonoTime, input: &Input, actions: &[Action]) -> Result<(), Fault> {
        self.learn(now, input);
        for action in actions {
            self.order(now, action)
                .map_err(|fault| format!("{fault}: {action:?}"))?;
        }
        Ok(())
    }

    /// Jobs that were handed over and have no verdict.
    #[must_use]
    pub const fn unsettled(&self) -> &BTreeSet<JobId> {
        self.jobs.open()
    }

    /// Whether the machine has said that it has ended.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// By when it was told to end, if it was.
    #[must_use]
    pub const fn end_by(&self) -> Option<MonoTime> {
        self.end_by
    }

    fn learn(&mut self, now: MonoTime, input: &Input) {
        // A machine that has ended takes nothing in.
        if self.has_ended {
            return;
        }
        if let Input::Command(Command::Shutdown { grace }) = input {
            let by = now.after(*grace);
            self.end_by = Some(self.end_by.map_or(by, |earlier| earlier.min(by)));
        }
        self.line.learn(input);
        self.calls.learn(input);
        self.jobs.learn(input);
        match &mut self.desk {
            Desk::Consumer(deliveries) => deliveries.learn(input),
            Desk::Workers(workers) => workers.learn(input),
        }
    }

    fn order(&mut self, now: MonoTime, action: &Action) -> Result<(), Fault> {
        if let Action::Note(_) | Action::WakeAt(None) = action {
            return Ok(());
        }
        if self.has_ended {
            return Err("an order after the end".to_owned());
        }
        if let Action::Ended = action {
            self.has_ended = true;
        }
        self.line.order(action)?;
        self.calls.order(action)?;
        self.jobs.order(action)?;
        match &mut self.desk {
            Desk::Consumer(deliveries) => deliveries.order(action, &self.calls),
            Desk::Workers(workers) => workers.order(now, action, &self.calls),
        }
    }
}
