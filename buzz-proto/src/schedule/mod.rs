//! Workers: who may address the agent, what is one conversation, which worker takes it, and what
//! becomes of it.
//!
//! An arrived event is refused, obeyed or queued; one on which work was begun in several lives and
//! never ended is reported. Queued events wait in the row of their scope.
//! A scope with waiting events and no turn is ready; the scope that has waited longest gets a
//! worker that is idle, in the session it had there before if that still lives. A turn ends once:
//! with an answer, a failure, or because its owner discarded it. Answers and failures are
//! published in the order of their turns, one message of a scope at a time, and only the verdict
//! on the last of them disposes of the events. Every wait has a limit, so that no worker that
//! hangs, dies or answers late can hold a scope for ever.

mod admit;
mod config;
mod control;
mod cosmetic;
mod interface;
mod outcome;
mod pool;
mod queue;
mod scope;
mod text;
mod turn;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

pub use config::{Config, Limits, Policy, RespondTo};
pub use interface::{
    Action, Command, DownCause, FailureClass, Input, OpenCause, Scope, Session, SessionRef,
    StopReason, Target, TurnEnd, Want, WorkerId,
};

use self::control::Life;
use self::cosmetic::Cosmetics;
use self::outcome::Outcomes;
use self::pool::Pool;
use self::queue::Queue;
use self::turn::Turn;
use crate::config::ConfigError;
use crate::ids::{ChannelId, JobId, PubKey, TurnId};
use crate::note::{Note, StaleWhat};
use crate::relay::ChannelKind;
use crate::seed::Seed;
use crate::step::Step;
use crate::time::{MonoTime, Now, UnixTime, WallClock, Why};

/// Hands events to workers and publishes what they answer.
#[derive(Clone, Debug)]
pub struct Scheduler {
    config: Config,
    me: PubKey,
    step: Step,
    wall: Option<WallClock>,
    life: Life,
    channels: BTreeMap<ChannelId, ChannelKind>,
    queue: Queue,
    pool: Pool,
    turns: BTreeMap<TurnId, Turn>,
    next_turn: TurnId,
    outcomes: Outcomes,
    cosmetics: Cosmetics,
}

/// What a scheduler holds at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Events that wait for a turn.
    pub queued: usize,
    /// Turns under way.
    pub running: usize,
    /// Ended turns whose answer or notice has no verdict yet.
    pub answering: usize,
    /// Workers that are ready or at work.
    pub workers_up: usize,
    /// Sessions that live or open.
    pub sessions: usize,
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
            me,
            step: Step::new(now),
            wall: None,
            life: Life::Working,
            channels: BTreeMap::new(),
            queue: Queue::new(&config.limits),
            pool: Pool::new(config.workers, &config.limits, seed, now),
            turns: BTreeMap::new(),
            next_turn: TurnId::default(),
            outcomes: Outcomes::new(&config),
            cosmetics: Cosmetics::new(&config),
            config,
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
        let now = self.step.enter(now);
        self.apply(input, now, out);
        let mut step = self.step.clone();
        step.settle(|now| self.pump(now, out));
        out.extend(step.leave().map(Action::WakeAt));
        self.step = step;
    }

    /// When `Tick` is wanted, and why. Always later than the last `now`.
    #[must_use]
    pub const fn next_deadline(&self) -> Option<(MonoTime, Why)> {
        self.step.wake()
    }

    /// What it holds at present.
    #[must_use]
    pub fn view(&self) -> View {
        View {
            queued: self.queue.len(),
            running: self.turns.len(),
            answering: self.outcomes.len(),
            workers_up: self.pool.up(),
            sessions: self.pool.sessions(),
            is_ended: matches!(self.life, Life::Ended),
        }
    }

    /// Records a fact, and does what follows from it alone.
    pub(crate) fn apply(&mut self, input: Input, now: MonoTime, out: &mut Vec<Action>) {
        match input {
            Input::Tick => {}
            Input::WallClock(seen) => self.wall = Some(WallClock::new(seen, now)),
            Input::Arrived { sub, event, lives } => self.arrived((sub, event), lives, now, out),
            Input::Command(Command::Control { target, want }) => self.control(target, want, out),
            Input::Command(Command::Shutdown { grace }) => self.shut_down(grace, now, out),
            Input::Channel { channel, state } => self.channel(channel, state, out),
            Input::Link { live } => self.cosmetics.linked(live, now),
            Input::WorkerUp { worker } => self.worker_up(worker, out),
            Input::WorkerDown { worker, cause } => self.worker_down(worker, cause, now, out),
            Input::SessionOpened { turn } => self.session_opened(turn, now, out),
            Input::SessionFailed { turn, cause } => self.session_failed(turn, cause, now, out),
            Input::Progressed { turn } => self.progressed(turn, now, out),
            Input::Finished { turn, end } => self.finished(turn, end, now, out),
            Input::Settled { job, verdict } => {
                if !self.cosmetics.settled(job) {
                    let at = (self.life, self.unix_time(now));
                    self.outcomes.settled(job, verdict, at, out);
                }
            }
        }
    }

    /// Decides from the whole state; whether anything moved.
    pub(crate) fn pump(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let ended = self.pump_ending(now, out);
        let workers = self.pump_workers(now, out);
        let turns = self.pump_turns(now, out);
        let starts = self.pump_starts(now, out);
        let sessions = self.pool.close_unused(now, out);
        let dated = self.unix_time(now.time());
        let outcomes = self.outcomes.pump(dated, out);
        let cosmetics = self.pump_cosmetics(now, dated, out);
        ended | workers | turns | starts | sessions | outcomes | cosmetics
    }

    /// The wall clock at `now`; the epoch while nobody has told it.
    fn unix_time(&self, now: MonoTime) -> UnixTime {
        self.wall.map_or(UnixTime(0), |wall| wall.at(now))
    }
}

fn stale(what: StaleWhat, out: &mut Vec<Action>) {
    out.push(Action::Note(Note::Stale { what }));
}
