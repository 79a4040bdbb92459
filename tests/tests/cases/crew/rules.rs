//! What holds of every transcript of a scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use buzz_proto::ids::{EventId, TurnId};
use buzz_proto::note::Note;
use buzz_proto::schedule::{Action, Input, Scope, Session, SessionRef, WorkerId};
use buzz_proto::time::MonoTime;
use buzz_proto::wire::Event;
use buzz_sim::toy::{self, channel};

use super::{ANNE, BERT, CARA, Crew, ROOM};
use crate::whole::OWNER;

/// A life in a slot.
#[derive(Clone, Copy, Debug)]
enum Life {
    Starting,
    Up,
    Ending(MonoTime),
    Over,
}

/// A turn under way.
#[derive(Clone, Debug)]
struct Turn {
    session: Session,
    scope: Scope,
    events: Vec<EventId>,
    is_open: bool,
}

/// What a transcript has told so far.
struct Told<'a> {
    crew: &'a Crew,
    now: MonoTime,
    lives: BTreeMap<u16, (WorkerId, Life)>,
    turns: BTreeMap<TurnId, Turn>,
    /// Workers that a turn is meant for, while what was said before it is read.
    reserved: BTreeSet<WorkerId>,
    sessions: BTreeMap<SessionRef, Scope>,
    /// The newest session that opened in a scope.
    current: BTreeMap<Scope, SessionRef>,
    epochs: BTreeSet<u64>,
    held: BTreeMap<Scope, MonoTime>,
    /// The allowance is used up: nothing starts but what tries it.
    is_limited: bool,
    /// The outbox has no room for what a turn would say.
    is_stopped_up: bool,
    arrived: u64,
    left: u64,
    /// Events without an outcome.
    owed: BTreeSet<EventId>,
    /// Those of the owner that no worker was given yet.
    unread: BTreeMap<EventId, Scope>,
}

/// Fails where a rule was broken.
pub(super) fn check(crew: &Crew) {
    let mut told = Told::new(crew);
    for (at, input, actions) in crew.script.calls() {
        told.hear(at, &input, &actions);
        told.nothing_is_held_too_long();
    }
    told.demand(told.held.is_empty(), "a hold has no end");
    told.demand(
        told.left == told.arrived,
        "room is not given back once an event",
    );
}

/// Fails where the owner's first word in a scope waits though a worker is idle. Not for cases in
/// which something holds it back.
pub(crate) fn check_promptness(crew: &Crew) {
    let mut told = Told::new(crew);
    for (at, input, actions) in crew.script.calls() {
        told.hear(at, &input, &actions);
        let is_free = |scope: &Scope| !told.turns.values().any(|turn| turn.scope == *scope);
        let waits = told.unread.values().any(is_free);
        told.demand(
            !waits || !told.is_one_idle(),
            "work waits beside an idle worker",
        );
    }
}

impl<'a> Told<'a> {
    const fn new(crew: &'a Crew) -> Self {
        Self {
            crew,
            now: MonoTime::ZERO,
            lives: BTreeMap::new(),
            turns: BTreeMap::new(),
            reserved: BTreeSet::new(),
            sessions: BTreeMap::new(),
            current: BTreeMap::new(),
            epochs: BTreeSet::new(),
            held: BTreeMap::new(),
            is_limited: false,
            is_stopped_up: false,
            arrived: 0,
            left: 0,
            owed: BTreeSet::new(),
            unread: BTreeMap::new(),
        }
    }
}

impl Told<'_> {
    fn hear(&mut self, at: MonoTime, input: &Input, actions: &[Action]) {
        self.now = at;
        self.input(input);
        for action in actions {
            self.action(action);
        }
    }

    fn demand(&self, holds: bool, what: &str) {
        if !holds {
            self.crew.script.fail(&format!("{}: {what}", self.now));
        }
    }

    fn input(&mut self, input: &Input) {
        match input {
            Input::Arrived { event, .. } => {
                self.arrived += 1;
                self.owed.insert(event.id());
                if event.author() == toy::key(OWNER) {
                    self.unread
                        .extend(scope_of(event).map(|it| (event.id(), it)));
                }
            }
            Input::WorkerUp { worker } => {
                if let Some((life, phase)) = self.lives.get_mut(&worker.slot)
                    && life == worker
                    && matches!(phase, Life::Starting)
                {
                    *phase = Life::Up;
                }
            }
            Input::WorkerDown { worker, .. } => self.end_worker(*worker),
            Input::SessionOpened { turn } => {
                if let Some(turn) = self.turns.get_mut(turn) {
                    turn.is_open = true;
                    let session = turn.session.reference();
                    self.sessions.insert(session, turn.scope);
                    self.current.insert(turn.scope, session);
                }
            }
            Input::SessionFailed { turn, .. } => {
                let is_opening = self.turns.get(turn).is_some_and(|turn| !turn.is_open);
                if is_opening && let Some(turn) = self.turns.remove(turn) {
                    self.sessions.remove(&turn.session.reference());
                }
            }
            Input::Finished { turn, .. } => {
                self.turns.remove(turn);
            }
            Input::Outbox { is_half_full } => self.is_stopped_up = *is_half_full,
            Input::Tick
            | Input::WallClock(_)
            | Input::Command(_)
            | Input::Channel { .. }
            | Input::Link { .. }
            | Input::Progressed { .. }
            | Input::Settled { .. }
            | Input::RelayKey { .. }
            | Input::Answered { .. }
            | Input::Broke { .. }
            | Input::Verified { .. } => {}
        }
    }

    /// A worker is gone, with its turn and its sessions.
    fn end_worker(&mut self, worker: WorkerId) {
        let Some((life, phase)) = self.lives.get_mut(&worker.slot) else {
            return;
        };
        if *life != worker {
            return;
        }
        *phase = Life::Over;
        self.turns
            .retain(|_, turn| turn.session.reference().worker != worker);
        self.sessions.retain(|session, _| session.worker != worker);
    }

    fn action(&mut self, action: &Action) {
        match action {
            Action::Spawn { worker } => self.spawned(*worker),
            Action::Kill { worker } => {
                let now = self.now;
                if let Some((_, phase)) = self.lives.get_mut(&worker.slot) {
                    *phase = Life::Ending(now);
                }
            }
            Action::Start {
                turn,
                session,
                scope,
                batch,
                ..
            } => {
                let turn_of = Turn {
                    session: *session,
                    scope: *scope,
                    events: batch.iter().map(Event::id).collect(),
                    is_open: false,
                };
                self.started(*turn, turn_of);
            }
            Action::CancelTurn { turn } => {
                self.demand(self.turns.contains_key(turn), "a cancel of no turn");
            }
            Action::CloseSession { session } => {
                let is_used = |turn: &Turn| turn.session.reference() == *session;
                let is_idle = !self.turns.values().any(is_used);
                self.demand(is_idle, "a session is closed under its turn");
                self.sessions.remove(session);
            }
            Action::Left { count, .. } => self.left += u64::from(*count),
            Action::Dispose { event, .. } => {
                let was_owed = self.owed.remove(event);
                self.unread.remove(event);
                self.demand(was_owed, "an event has two outcomes");
                let is_at_work = |turn: &Turn| turn.events.contains(event);
                let is_over = !self.turns.values().any(is_at_work);
                self.demand(is_over, "an event has its outcome while it is worked on");
            }
            Action::Note(note) => self.noted(note),
            Action::Started { .. }
            | Action::Publish(_)
            | Action::Query { .. }
            | Action::Verify { .. }
            | Action::Abort { .. }
            | Action::ShutdownRequested
            | Action::Ended
            | Action::WakeAt(_) => {}
        }
    }

    /// A worker counts as gone: it is, or had its time to end.
    fn given_up(&mut self, worker: WorkerId) {
        let exit = self.crew.config.limits.exit;
        if let Some((life, phase)) = self.lives.get(&worker.slot)
            && *life == worker
        {
            let is_over = match phase {
                Life::Starting | Life::Up => false,
                Life::Ending(since) => self.now.saturating_since(*since) >= exit,
                Life::Over => true,
            };
            self.demand(is_over, "a worker counts as gone that is not");
            self.end_worker(worker);
        }
    }

    /// One life at a time in each slot.
    fn spawned(&mut self, worker: WorkerId) {
        if let Some((life, phase)) = self.lives.get(&worker.slot).copied() {
            let is_free = matches!(phase, Life::Over);
            self.demand(is_free, "two lives in one slot");
            let is_next = worker.incarnation > life.incarnation;
            self.demand(is_next, "a life has the name of another");
        }
        let is_known = worker.slot < self.crew.config.workers;
        self.demand(is_known, "more workers than there may be");
        self.lives.insert(worker.slot, (worker, Life::Starting));
    }

    fn started(&mut self, id: TurnId, turn: Turn) {
        let session = turn.session.reference();
        self.reserved.remove(&session.worker);
        let life = self.lives.get(&session.worker.slot);
        let is_up = matches!(life, Some((worker, Life::Up)) if *worker == session.worker);
        self.demand(is_up, "a turn on a worker that is not up");
        for other in self.turns.values() {
            let worker = other.session.reference().worker;
            self.demand(worker != session.worker, "two turns on one worker");
            self.demand(other.scope != turn.scope, "two turns in one scope");
        }
        let max = self.crew.config.limits.batch_max as usize;
        let size = turn.events.len();
        self.demand(size > 0 && size <= max, "a batch of illegal size");
        for event in &turn.events {
            self.unread.remove(event);
        }
        let mut once = self.owed.clone();
        let each = turn.events.iter().all(|event| once.remove(event));
        self.demand(each, "work on what is not owed, or twice");
        match turn.session {
            Session::Fresh(session) => {
                let is_new = self.epochs.insert(session.epoch);
                self.demand(is_new, "two sessions of one name");
                let of_worker = |other: &&SessionRef| other.worker == session.worker;
                let live = self.sessions.keys().filter(of_worker).count();
                let max = usize::from(self.crew.config.limits.sessions_max);
                self.demand(live < max, "more sessions than a worker may have");
            }
            Session::Resume(session) => {
                let is_there = self.sessions.get(&session) == Some(&turn.scope);
                self.demand(is_there, "a turn in a session that is not there");
                let is_current = self.current.get(&turn.scope) == Some(&session);
                self.demand(is_current, "a turn in a session that has a successor");
            }
        }
        self.turns.insert(id, turn);
    }

    fn noted(&mut self, note: &Note) {
        if let Note::WorkerDown { worker, .. } = note {
            self.given_up(*worker);
        }
        if let Note::TurnStarted { worker, .. } = note {
            self.reserved.insert(*worker);
        }
        if matches!(note, Note::UsageLimited { .. } | Note::UsageRestored) {
            self.is_limited = *note != Note::UsageRestored;
        }
        if let Note::Held { scope, .. } = note {
            let is_news = self.held.insert(*scope, self.now).is_none();
            self.demand(is_news, "a hold within a hold");
        }
        if let Note::HoldEnded { scope, wait, .. } = note {
            let since = self.held.remove(scope);
            let lasted = since.map(|since| self.now.saturating_since(since));
            self.demand(lasted == Some(*wait), "a hold of another length");
        }
    }

    /// Past its limit nothing is held beside a worker that could take it.
    fn nothing_is_held_too_long(&self) {
        let limit: Duration = self.crew.config.limits.hold;
        let is_late = |since: &MonoTime| self.now > since.after(limit);
        let waits = self.held.values().any(is_late) && self.is_one_idle();
        let is_barred = self.is_limited || self.is_stopped_up;
        self.demand(is_barred || !waits, "held beside an idle worker");
    }

    fn is_one_idle(&self) -> bool {
        let is_idle = |(worker, life): &(WorkerId, Life)| {
            let of_worker = |turn: &Turn| turn.session.reference().worker == *worker;
            matches!(life, Life::Up)
                && !self.reserved.contains(worker)
                && !self.turns.values().any(of_worker)
        };
        self.lives.values().any(is_idle)
    }
}

/// The scope of an event, if it lies in a channel of the cases.
fn scope_of(event: &Event) -> Option<Scope> {
    let place = event.channel()?;
    if place == channel(ROOM) {
        let root = event.thread().root.unwrap_or_else(|| event.id());
        return Some(Scope::Thread(place, root));
    }
    let is_direct = [ANNE, BERT, CARA].map(channel).contains(&place);
    is_direct.then_some(Scope::Conversation(place))
}
