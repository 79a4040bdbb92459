//! Publishing: an outbox of jobs, each of which gets exactly one verdict.
//!
//! A job comes in with a limit of its own, waits its turn, is signed if it came as a draft, and goes
//! out as an HTTP post or as an EVENT on the socket. What comes back is its verdict, or it waits its
//! turn again with the same event id, so that a repeat is harmless. A failure that may pass shuts
//! the gate of its quota for all jobs; when the gate opens one job goes alone to test it. `Durable`
//! jobs go before `Latest` ones, and of each key only the newest `Latest` job waits. A job that may
//! be stored, and whose event would be refused for its age or has been, is first looked up.
//!
//! Marks are states instead of jobs: what each message is to bear as a reaction is compared with what
//! it bears, and one step at a time leads there, behind all that people wait for.
//!
//! Nothing is awaited without a limit, no job outlives its own, and an outbox that has no room says
//! so at once.

mod answers;
mod calls;
mod config;
mod farewell;
mod interface;
mod job;
mod marks;
mod outbox;
mod part;
mod pump;
mod retry;
pub(crate) mod settle;
mod turns;

use alloc::vec::Vec;

pub use config::*;
pub use interface::*;
pub(crate) use job::AHEAD_MAX;

use self::part::Part;
use crate::config::ConfigError;
use crate::quotas::Quotas;
use crate::seed::Seed;
use crate::step::Step;
use crate::time::{MonoTime, Now, Why};

/// The publisher.
///
/// Feed it facts with [`handle_input`](Self::handle_input) and carry out the actions in the order
/// given. Every `Sign`, `Post`, `Query` and `Send` is answered by a fact with its ticket, late or never;
/// after an `Abort` an answer is not needed. `Link` says when the socket can carry EVENTs.
#[derive(Clone, Debug)]
pub struct Publisher {
    part: Part,
    step: Step,
    /// Used only where no machine lends its own.
    quotas: Quotas,
}

/// Numbers of a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Jobs that are not out.
    pub waiting: u32,
    /// Calls over HTTP and EVENTs that await their answer.
    pub in_flight: u32,
    /// `Durable` jobs without a verdict.
    pub durable: u32,
    /// Messages whose mark is wanted, or shown.
    pub marks: u32,
    /// Whether every job has its verdict and none will be taken.
    pub is_ended: bool,
}

impl Publisher {
    /// An empty outbox.
    ///
    /// # Errors
    /// When a setting cannot work; the error names it.
    pub fn new(config: Config, seed: Seed, now: MonoTime) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            quotas: Quotas::new(seed, config.in_flight_max),
            step: Step::new(now),
            part: Part::new(config, seed),
        })
    }

    /// Takes a fact and gives the orders that follow from it, at most a few per job.
    #[must_use]
    pub fn handle_input(&mut self, input: Input, now: MonoTime) -> Vec<Action> {
        let mut out = Vec::new();
        self.handle_input_into(input, now, &mut out);
        out
    }

    /// The same, with a buffer to append to.
    pub fn handle_input_into(&mut self, input: Input, now: MonoTime, out: &mut Vec<Action>) {
        let Self { part, step, quotas } = self;
        let now = step.enter(now);
        part.apply(input, now, quotas, out);
        step.settle(|now| part.pump(now, quotas, out) | quotas.choose(now));
        if let Some(wake) = step.leave() {
            out.push(Action::WakeAt(wake));
        }
    }

    /// When the next `Tick` is wanted, and why.
    #[must_use]
    pub const fn next_deadline(&self) -> Option<(MonoTime, Why)> {
        self.step.wake()
    }

    /// What it looks like from outside.
    #[must_use]
    pub fn view(&self) -> View {
        self.part.view()
    }

    /// Records a fact; writes only notes.
    pub(crate) fn apply(
        &mut self,
        input: Input,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        self.part.apply(input, now, quotas, out);
    }

    /// Decides from the whole state. Whether anything moved.
    pub(crate) fn pump(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        self.part.pump(now, quotas, out)
    }
}
