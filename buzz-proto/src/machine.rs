//! The whole machine: the parts, the facts that pass between them, and the single exit.

mod admit;
mod end;
mod route;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::ToString;
use alloc::vec::Vec;

use crate::action::Action;
use crate::config::{Config, ConfigError, Consumer};
use crate::input::{Command, Input};
use crate::limiter::Limiter;
use crate::note::{Note, StaleWhat};
use crate::publish::{self, Publisher};
use crate::quotas::Quotas;
use crate::relay::{self, Relay};
use crate::schedule::{self, Scheduler};
use crate::seed::Seed;
use crate::step::Step;
use crate::time::{MonoTime, Now, UnixTime, WallClock, Why};
use end::{End, SHUTDOWN_GRACE};

/// An agent's connection to a relay, its workers and its outbox, as one deterministic value.
///
/// ```no_run
/// # use std::sync::mpsc::{Receiver, RecvTimeoutError};
/// # use std::time::Duration;
/// # use buzz_proto::{action::Action, config::{Config, ConfigError}, input::Input};
/// # use buzz_proto::{machine::Machine, time::MonoTime};
/// # fn drive(config: Config, facts: Receiver<Input>, now: impl Fn() -> MonoTime,
/// #     perform: impl Fn(Action)) -> Result<(), ConfigError> {
/// let mut machine = Machine::new(config, now())?;
/// let mut wake = None::<MonoTime>;
/// loop {
///     let span = wake.map_or(Duration::MAX, |at| at.saturating_since(now()));
///     let fact = match facts.recv_timeout(span) {
///         Ok(fact) => fact,
///         Err(RecvTimeoutError::Timeout) => Input::Tick,
///         Err(RecvTimeoutError::Disconnected) => return Ok(()),
///     };
///     for action in machine.handle_input(fact, now()) {
///         match action {
///             Action::WakeAt(at) => wake = at,
///             Action::Ended => return Ok(()),
///             // Its outcome comes back as a fact.
///             order => perform(order),
///         }
///     }
/// }
/// # }
/// ```
///
/// # Contract
/// - [`handle_input`](Self::handle_input) is the only call that changes it. It takes one fact and
///   the present, and returns orders, to be carried out in the order given.
/// - The outcome of an order comes back as a fact that echoes its id. A fact with an unknown id
///   changes nothing and yields a note.
/// - The driver keeps one timer. [`Action::WakeAt`] sets it; when that instant has come, and not
///   before, it feeds [`Input::Tick`]. Ticks that are early, late or doubled are harmless.
/// - The wall clock is fed before the first `Connected` and every 10 s.
/// - After [`Action::Ended`] no input changes anything.
#[derive(Clone, Debug)]
pub struct Machine {
    step: Step,
    quotas: Quotas,
    relay: Relay,
    publisher: Publisher,
    scheduler: Option<Scheduler>,
    /// Facts from one part for another, in the order in which they arose.
    routed: VecDeque<Input>,
    limiter: Limiter<&'static str>,
    /// The last note of each kind that was held back.
    held_back: BTreeMap<&'static str, Note>,
    wall: Option<WallClock>,
    end: End,
    /// Reused between calls.
    buffers: Buffers,
}

#[derive(Clone, Debug, Default)]
struct Buffers {
    relay: Vec<relay::Action>,
    publish: Vec<publish::Action>,
    schedule: Vec<schedule::Action>,
}

/// A wall clock further from its extrapolation than this was set.
const CLOCK_STEP_SECONDS: u64 = 5;
impl Machine {
    /// A machine that dials at its first input.
    ///
    /// # Errors
    /// When a setting cannot work.
    pub fn new(config: Config, now: MonoTime) -> Result<Self, ConfigError> {
        config.validate()?;
        let seed = Seed(config.seed);
        let scheduler = match &config.consumer {
            Consumer::External { .. } => None,
            Consumer::Workers(schedule) => Some(Scheduler::new(
                (**schedule).clone(),
                config.me,
                seed.derive(13),
                now,
            )?),
        };
        let calls_max = config.publish.in_flight_max;
        Ok(Self {
            step: Step::new(now),
            quotas: Quotas::new(seed.derive(10), calls_max),
            relay: Relay::new(
                config.relay,
                config.me,
                &config.consumer,
                seed.derive(11),
                now,
            )?,
            publisher: Publisher::new(config.publish, seed.derive(12), now)?,
            scheduler,
            routed: VecDeque::new(),
            limiter: Limiter::new(),
            held_back: BTreeMap::new(),
            wall: None,
            end: End::Running,
            buffers: Buffers::default(),
        })
    }

    /// Takes one fact in; returns what must be done, in order.
    #[must_use = "an action that is dropped is I/O that never happens"]
    pub fn handle_input(&mut self, input: Input, now: MonoTime) -> Vec<Action> {
        let mut out = Vec::new();
        self.handle_input_into(input, now, &mut out);
        out
    }

    /// As [`handle_input`](Self::handle_input), into a buffer that the caller reuses.
    pub fn handle_input_into(&mut self, input: Input, now: MonoTime, out: &mut Vec<Action>) {
        let time = self.step.enter(now);
        if self.end == End::Ended {
            return;
        }
        if let Some(input) = self.admit(input, time, out) {
            self.apply(input, time, out);
        }
        let mut step = self.step.clone();
        step.settle(|now| self.round(now, out));
        self.step = step;
        out.extend(self.step.leave().map(Action::WakeAt));
    }

    /// When `Tick` is wanted, and why. Always later than the last `now`.
    #[must_use]
    pub const fn next_deadline(&self) -> Option<(MonoTime, Why)> {
        self.step.wake()
    }

    /// Numbers of the relay part.
    #[must_use]
    pub fn relay(&self) -> relay::View {
        self.relay.view()
    }

    /// Numbers of the publisher.
    #[must_use]
    pub fn publisher(&self) -> publish::View {
        self.publisher.view()
    }

    /// Numbers of the scheduler, where there are workers.
    #[must_use]
    pub fn scheduler(&self) -> Option<schedule::View> {
        self.scheduler.as_ref().map(Scheduler::view)
    }

    /// Whether it has ended: no input changes it any more.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.end == End::Ended
    }

    /// Records a fact in the part that it belongs to.
    fn apply(&mut self, input: Input, now: MonoTime, out: &mut Vec<Action>) {
        match input {
            Input::Tick => {}
            Input::WallClock(seen) => self.set_clock(seen, now, out),
            Input::Command(Command::Shutdown { grace }) => self.shut_down(grace, now),
            Input::Relay(input) => {
                if input == relay::Input::ConsumerGone {
                    self.shut_down(SHUTDOWN_GRACE, now);
                }
                let buffer = &mut self.buffers.relay;
                self.relay.apply(input, now, &mut self.quotas, buffer);
            }
            Input::Publish(input) => {
                let buffer = &mut self.buffers.publish;
                self.publisher.apply(input, now, &mut self.quotas, buffer);
            }
            Input::Schedule(input) => match &mut self.scheduler {
                Some(scheduler) => {
                    let buffer = &mut self.buffers.schedule;
                    scheduler.apply(input, now, &mut self.quotas, buffer);
                }
                None => out.push(Action::Note(Note::Stale {
                    what: StaleWhat::Part,
                })),
            },
        }
    }

    fn set_clock(&mut self, seen: UnixTime, now: MonoTime, out: &mut Vec<Action>) {
        if let Some(wall) = self.wall {
            let expected = wall.at(now);
            let forward = seen.saturating_since(expected).as_secs();
            let backward = expected.saturating_since(seen).as_secs();
            if forward.max(backward) > CLOCK_STEP_SECONDS {
                let forward = i64::try_from(forward).unwrap_or(i64::MAX);
                let backward = i64::try_from(backward).unwrap_or(i64::MAX);
                let seconds = forward.saturating_sub(backward);
                out.push(Action::Note(Note::ClockStepped { seconds }));
            }
        }
        self.wall = Some(WallClock::new(seen, now));
        let Buffers {
            relay,
            publish,
            schedule,
        } = &mut self.buffers;
        self.relay
            .apply(relay::Input::WallClock(seen), now, &mut self.quotas, relay);
        self.publisher.apply(
            publish::Input::WallClock(seen),
            now,
            &mut self.quotas,
            publish,
        );
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.apply(
                schedule::Input::WallClock(seen),
                now,
                &mut self.quotas,
                schedule,
            );
        }
    }

    /// One round: what was routed, each part in turn, what they said. True when anything moved.
    fn round(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        if self.end == End::Ended {
            return false;
        }
        let mut moved = self.take_routed(now.time(), out);
        // What follows from the last verdicts reaches the relay part before it may end.
        self.lift_schedule(now, out);
        moved |= self.take_routed(now.time(), out);
        moved |= self
            .relay
            .pump(now, &mut self.quotas, &mut self.buffers.relay);
        self.lift_relay(now, out);
        moved |= self.take_routed(now.time(), out);
        if let Some(scheduler) = &mut self.scheduler {
            moved |= scheduler.pump(now, &mut self.quotas, &mut self.buffers.schedule);
        }
        self.lift_schedule(now, out);
        moved |= self.take_routed(now.time(), out);
        moved |= self
            .publisher
            .pump(now, &mut self.quotas, &mut self.buffers.publish);
        self.lift_publish(now, out);
        moved |= self.quotas.choose(now);
        moved |= self.keep_deadline(now);
        moved |= !self.routed.is_empty();
        self.summarise(now, out);
        moved | self.say_end(out)
    }

    fn take_routed(&mut self, now: MonoTime, out: &mut Vec<Action>) -> bool {
        let moved = !self.routed.is_empty();
        while let Some(input) = self.routed.pop_front() {
            self.apply(input, now, out);
        }
        moved
    }

    /// Outcomes and progress pass; of anything else the first of its kind, later ones as a summary.
    fn note(&mut self, note: Note, now: &Now, out: &mut Vec<Action>) {
        let kind = note.kind();
        if note.is_outcome() || note.is_progress() || self.limiter.admit(kind, now) {
            out.push(Action::Note(note));
        } else {
            self.held_back.insert(kind, note);
        }
    }

    fn summarise(&mut self, now: &mut Now, out: &mut Vec<Action>) {
        while let Some((kind, count)) = self.limiter.due(now) {
            let Some(last) = self.held_back.remove(kind) else {
                continue;
            };
            let (kind, last) = (kind.to_string(), Box::new(last));
            out.push(Action::Note(Note::Repeated { kind, count, last }));
        }
    }
}
