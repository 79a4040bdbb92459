//! Workers: who may address the agent, what is one conversation, which worker takes it, and what
//! becomes of it.
//!
//! An arrived event is refused, obeyed or queued, at once or when its author was looked up; one on
//! which work was begun in several lives and never ended is reported. Queued events wait in the row
//! of their scope. A scope with waiting events and no turn is ready; the scope that has waited
//! longest gets a worker that is idle, in the session it had there before if that still lives. A
//! thread whose session lives on a busy worker is held for a while before it goes elsewhere. A turn
//! ends once: with an answer, because its owner discarded it, or with a failure. What may pass is
//! tried again after a rest; any other failure, and the last attempt, is reported. Answers and
//! failures are published in the order of their turns, one message of a scope at a time, and only
//! the verdict on the last of them disposes of the events. Every wait has a limit, so that no worker
//! that hangs, dies or answers late can hold a scope for ever.
//!
//! `admit` and `authors` let events in, `queue` keeps them and `hold` says which may start,
//! `start` starts them on a worker of `slots` in a session of `sessions`, with what `context`
//! has read; `turn` watches them, `finish` ends them, `retry` decides what is tried again, and
//! `outcome` says the rest. `control` is what owners and channels want, `marks` and
//! `cosmetic` what people see meanwhile.

mod admit;
mod authors;
mod config;
mod context;
mod control;
mod cosmetic;
mod finish;
mod hold;
mod interface;
mod limits;
mod marks;
mod outcome;
mod part;
mod queue;
mod retry;
mod scope;
mod sessions;
mod slots;
mod start;
mod text;
mod turn;

use alloc::vec::Vec;

pub use config::{Config, Policy, RespondTo};
pub use interface::{
    Action, Command, Context, DownCause, FailureClass, Input, OpenCause, Scope, Session,
    SessionRef, StopReason, Target, TurnEnd, Want, WorkerId,
};
pub use limits::Limits;

use self::part::Part;
use crate::config::ConfigError;
use crate::ids::{JobId, PubKey};
use crate::note::{Note, StaleWhat};
use crate::quotas::Quotas;
use crate::seed::Seed;
use crate::step::Step;
use crate::time::{MonoTime, Now, Why};

/// Calls over HTTP at a time, of a scheduler without a machine.
const CALLS_MAX: u32 = 4;

/// Hands events to workers and publishes what they answer.
#[derive(Clone, Debug)]
pub struct Scheduler {
    part: Part,
    step: Step,
    /// Used only where no machine lends its own.
    quotas: Quotas,
}

/// What a scheduler holds at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Events that wait for a turn.
    pub queued: usize,
    /// Scopes that wait for the worker of their session.
    pub held: usize,
    /// Scopes that rest before the next attempt.
    pub resting: usize,
    /// Turns under way.
    pub running: usize,
    /// Ended turns whose answer or notice has no verdict yet.
    pub answering: usize,
    /// Workers that are ready or at work.
    pub workers_up: usize,
    /// Sessions that live or open.
    pub sessions: usize,
    /// Whether no turn starts because the workers' account has used up its allowance.
    pub is_usage_limited: bool,
    /// Whether it has ended: it starts and submits nothing any more. What is still `answering` has
    /// its outcome with its verdict.
    pub is_ended: bool,
}

/// The jobs that a scheduler submits have the upper half of the numbers; the application's have the
/// lower.
#[must_use]
pub const fn is_own_job(job: JobId) -> bool {
    job.0 >> 63 == 1
}

impl Scheduler {
    /// A scheduler with no worker yet; the first input starts them. `me` is the agent's key.
    ///
    /// # Errors
    /// When a setting cannot work.
    pub fn new(config: Config, me: PubKey, seed: Seed, now: MonoTime) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            part: Part::new(config, me, seed, now),
            step: Step::new(now),
            quotas: Quotas::new(seed, CALLS_MAX),
        })
    }

    /// Takes one fact in; returns what must be done, in order.
    #[must_use = "an action that is dropped is I/O that never happens"]
    pub fn handle_input(&mut self, input: Input, now: MonoTime) -> Vec<Action> {
        let mut out = Vec::new();
        self.handle_input_into(input, now, &mut out);
        out
    }

    /// As [`handle_input`](Self::handle_input), for drivers that reuse a buffer.
    pub fn handle_input_into(&mut self, input: Input, now: MonoTime, out: &mut Vec<Action>) {
        let Self { part, step, quotas } = self;
        let now = step.enter(now);
        part.apply(input, now, quotas, out);
        step.settle(|now| part.pump(now, quotas, out) | quotas.choose(now));
        out.extend(step.leave().map(Action::WakeAt));
    }

    /// When `Tick` is wanted, and why. Always later than the last `now`.
    #[must_use]
    pub const fn next_deadline(&self) -> Option<(MonoTime, Why)> {
        self.step.wake()
    }

    /// What it holds at present.
    #[must_use]
    pub fn view(&self) -> View {
        self.part.view()
    }

    /// Records a fact, and does what follows from it alone.
    pub(crate) fn apply(
        &mut self,
        input: Input,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        self.part.apply(input, now, quotas, out);
    }

    /// Decides from the whole state; whether anything moved.
    pub(crate) fn pump(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        self.part.pump(now, quotas, out)
    }
}

fn stale(what: StaleWhat, out: &mut Vec<Action>) {
    out.push(Action::Note(Note::Stale { what }));
}
