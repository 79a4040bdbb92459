//! A judge of the scheduler: it watches what the machine is told and what it orders, and knows by
//! itself what should follow.
//!
//! It keeps its own books: which events wait in which scope, which session of a scope is the newest,
//! which workers are free. Of the machine's notes it takes what nobody else can know: when a turn is
//! claimed before its worker is told, and how long an attempt is put off. What the notes say of holds
//! it compares with its own. Answers and notices are counted in the relay's store.

mod arrivals;
mod facts;
mod notes;
mod orders;
mod outcomes;
mod room;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::{ChannelId, EventId, PubKey, TurnId};
use buzz_proto::schedule::{self, Scope, SessionRef, WorkerId};
use buzz_proto::time::{MonoTime, UnixTime, WallClock};

use super::{Said, Told, World};
use arrivals::Arrivals;
use outcomes::Outcomes;
use room::{Room, is_thread};

/// Deadlines are in whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);

/// What the judge found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Events that reached the scheduler and are for it.
    pub accepted: u64,
    /// Those of them that one stored answer names, by itself or with its batch.
    pub answered: u64,
    /// Those that one stored notice tells of.
    pub notices: u64,
    /// Those that their owner discarded, or that went with their channel.
    pub discarded: u64,
    /// Those that were handed back at the end.
    pub handed_back: u64,
    /// Those with no outcome at all.
    pub lost: u64,
    /// Those with more than one.
    pub doubled: u64,
    /// Turns that began.
    pub turns: u64,
    /// Turns in a fresh session while the scope's older one lived on a busy worker.
    pub forks: u64,
    /// Turns that went on in another session than the newest of their scope.
    pub stale_resumes: u64,
    /// Times that a thread began to wait for the worker of its session.
    pub holds: u64,
    /// Turns that were tried again.
    pub retries: u64,
    /// The longest time that a conversation was ready and a worker free.
    pub conversation_wait: Duration,
    /// The longest time that a worker was free from a thread's first hold to its next turn.
    pub thread_wait: Duration,
    /// The longest time that a thread was ready, not held, and a worker free.
    pub ready_wait: Duration,
    /// All else that is wrong, in sentences for people.
    pub faults: Vec<String>,
}

impl Verdict {
    /// Events that were answered for otherwise than by an answer.
    #[must_use]
    pub const fn reported(&self) -> u64 {
        let told = self.notices.saturating_add(self.discarded);
        told.saturating_add(self.handed_back)
    }
}

/// The judge, as far as it has heard.
#[derive(Clone, Debug)]
pub struct Judge {
    limits: schedule::Limits,
    owner: Option<PubKey>,
    owed: BTreeMap<EventId, Scope>,
    now: MonoTime,
    wall: Option<WallClock>,
    arrivals: Arrivals,
    arrived: u64,
    workers: BTreeMap<WorkerId, Post>,
    rooms: BTreeMap<Scope, Room>,
    /// Which turn of a worker belongs to which scope.
    turns: BTreeMap<TurnId, Scope>,
    epochs: BTreeSet<u64>,
    outcomes: Outcomes,
    gate: Option<Gate>,
    /// Channels in which an owner's command or a departure came with this fact.
    controlled: BTreeSet<ChannelId>,
    is_ending: bool,
    verdict: Verdict,
}

/// A worker that is up.
#[derive(Clone, Copy, Debug, Default)]
struct Post {
    is_killed: bool,
    busy: Option<Scope>,
}

/// A usage limit: nothing is expected before it ends, and then one turn that tries.
#[derive(Clone, Copy, Debug)]
struct Gate {
    since: MonoTime,
    /// It has ended by then at the latest.
    until: MonoTime,
}

impl Judge {
    /// A judge of an agent with these settings, to whom these events are owed, in these scopes.
    #[must_use]
    pub fn new(config: &schedule::Config, owed: BTreeMap<EventId, Scope>) -> Self {
        Self {
            limits: config.limits.clone(),
            owner: config.owner,
            owed,
            now: MonoTime::ZERO,
            wall: None,
            arrivals: Arrivals::default(),
            arrived: 0,
            workers: BTreeMap::new(),
            rooms: BTreeMap::new(),
            turns: BTreeMap::new(),
            epochs: BTreeSet::new(),
            outcomes: Outcomes::default(),
            gate: None,
            controlled: BTreeSet::new(),
            is_ending: false,
            verdict: Verdict::default(),
        }
    }

    /// A fact and what was ordered upon it, in order of time.
    pub fn hear(&mut self, told: &Told) {
        self.pass_to(told.at);
        self.controlled.clear();
        self.learn(&told.input);
        for action in &told.actions {
            self.watch(action);
        }
        self.settle();
    }

    /// What it found, with what the relay stores at the end.
    #[must_use]
    pub fn close(mut self, said: &[Said]) -> Verdict {
        for scope in self.rooms.keys().copied().collect::<Vec<_>>() {
            self.end_wait(scope);
        }
        self.outcomes.close(said, &mut self.verdict);
        self.verdict
    }

    /// Time passes in which nothing is told.
    fn pass_to(&mut self, at: MonoTime) {
        let (from, window) = (self.now, self.limits.hold);
        self.now = at;
        let is_free = self.workers.values().any(|it| it.is_free());
        if !is_free || self.is_ending {
            return;
        }
        let from = match self.gate {
            Some(gate) if self.is_tried(gate) => return,
            Some(gate) => from.max(gate.until),
            None => from,
        };
        for room in self.rooms.values_mut().filter(|room| room.is_pending()) {
            room.pass(from, at, window);
        }
    }

    /// Whether a turn tries if a usage limit has ended.
    fn is_tried(&self, gate: Gate) -> bool {
        let mut turns = self.rooms.values().filter_map(|room| room.turn.as_ref());
        turns.any(|turn| turn.claimed >= gate.since)
    }

    /// All orders of a fact are heard.
    fn settle(&mut self) {
        for scope in self.rooms.keys().copied().collect::<Vec<_>>() {
            self.let_go(scope);
            self.look_at_reserve(scope);
            if is_thread(scope) {
                self.look_at_hold(scope);
            }
        }
    }

    /// A worker that is reserved is told something soon.
    fn look_at_reserve(&mut self, scope: Scope) {
        let (now, limit) = (self.now, self.limits.context);
        let room = self.rooms.get_mut(&scope);
        let Some(turn) = room.and_then(|room| room.turn.as_mut()) else {
            return;
        };
        let limit = limit.saturating_add(ROUNDING);
        let is_overdue = |since: &mut MonoTime| since.after(limit) < now;
        if turn.reserved.take_if(is_overdue).is_some() {
            let told = turn.told.0;
            self.fault(format_args!("turn {told} was claimed and does not begin"));
        }
    }

    /// Whether a thread waits for the worker of its session, by what is true now, and whether the
    /// notes say the same.
    fn look_at_hold(&mut self, scope: Scope) {
        let (now, window) = (self.now, self.limits.hold);
        let Some(room) = self.rooms.get_mut(&scope) else {
            return;
        };
        let owner = room.session.and_then(|it| self.workers.get(&it.worker));
        let owner = owner.filter(|it| !it.is_killed);
        let is_ready = room.is_pending() && now >= room.retry_at;
        let is_busy = owner.is_some_and(|it| it.busy.is_some_and(|other| other != scope));
        let has_run_out = room.hold_began.after(window) <= now;
        if is_ready && is_busy && window > Duration::ZERO {
            if room.hold(now) {
                self.verdict.holds = self.verdict.holds.saturating_add(1);
            }
        } else if owner.is_none() || !room.is_pending() {
            room.release();
        }
        let (is_held, is_told) = (room.held_since.is_some(), room.is_told_held);
        // That a hold has run out may be told until the thread goes elsewhere.
        if is_held != is_told && !(has_run_out && is_told && room.is_pending()) && !self.is_ending {
            room.is_told_held = is_held;
            let not = if is_held { "" } else { "not " };
            self.fault(format_args!(
                "{scope} is {not}held, and the notes say otherwise"
            ));
        }
    }

    /// A turn that has ended, and is neither begun again nor tried again, waits for its outcome.
    fn let_go(&mut self, scope: Scope) {
        if let Some(room) = self.rooms.get_mut(&scope) {
            room.turn.take_if(|turn| turn.is_over());
        }
    }

    /// A scope is not kept waiting any more.
    fn end_wait(&mut self, scope: Scope) {
        let Some(room) = self.rooms.get_mut(&scope) else {
            return;
        };
        let waited = room.end_wait();
        let verdict = &mut self.verdict;
        let (open, most) = if is_thread(scope) {
            verdict.thread_wait = verdict.thread_wait.max(waited.held);
            (waited.open, &mut verdict.ready_wait)
        } else {
            (waited.open, &mut verdict.conversation_wait)
        };
        *most = open.max(*most);
        if open >= ROUNDING {
            self.fault(format_args!("{scope} waited {open:?} beside a free worker"));
        }
    }

    /// A worker runs no turn any more.
    fn free(&mut self, worker: WorkerId) {
        if let Some(post) = self.workers.get_mut(&worker) {
            post.busy = None;
        }
    }

    fn close_session(&mut self, session: SessionRef) {
        for room in self.rooms.values_mut() {
            room.session.take_if(|newest| *newest == session);
        }
    }

    fn unix(&self) -> UnixTime {
        self.wall.map_or(UnixTime(0), |wall| wall.at(self.now))
    }

    fn fault(&mut self, words: core::fmt::Arguments<'_>) {
        let seconds = self.now.saturating_since(MonoTime::ZERO).as_secs_f64();
        self.verdict.faults.push(format!("{seconds:.3} s: {words}"));
    }
}

impl Post {
    const fn is_free(self) -> bool {
        !self.is_killed && self.busy.is_none()
    }
}

impl World {
    /// Judges the workers by all that was told since [`World::listen`], which must be before the
    /// first moment, and by what the relay stores now. Nothing where there are no workers.
    #[must_use]
    pub fn judge(&self) -> Option<Verdict> {
        let mut judge = self.judge_begun()?;
        for told in self.told() {
            judge.hear(told);
        }
        Some(judge.close(&self.said()))
    }

    /// A judge who has heard nothing yet. Nothing where there are no workers.
    #[must_use]
    pub fn judge_begun(&self) -> Option<Judge> {
        let Config { consumer, .. } = self.agent.config();
        match consumer {
            Consumer::Workers(schedule) => Some(Judge::new(schedule, self.scopes().collect())),
            Consumer::External { .. } => None,
        }
    }
}
