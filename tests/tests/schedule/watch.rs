//! What must hold whatever happens, told from inputs and actions alone.

use std::collections::{BTreeMap, BTreeSet};

use buzz_proto::ids::{ChannelId, EventId, JobId, Ticket, TurnId};
use buzz_proto::note::{Note, TurnFailure, TurnOutcome};
use buzz_proto::publish::{self, Class, Mark};
use buzz_proto::relay::{ChannelKind, Disposal};
use buzz_proto::schedule::{
    Action, Config, Input, Limits, RespondTo, Scope, Session, SessionRef, WorkerId,
};
use buzz_proto::time::MonoTime;
use buzz_proto::wire::Event;

use crate::calls::Calls;
use crate::support::{Script, config, life};

/// Few, so that chance comes to the last of them.
const ATTEMPTS_MAX: u16 = 4;
const CRASHES_MAX: u16 = 2;
const CHANNEL_MAX: usize = 12;
const BATCH_MAX: usize = 3;

/// What must be true, kept by watching inputs and actions alone.
pub(super) struct Watch {
    pub(super) script: Script,
    pub(super) workers: BTreeMap<WorkerId, Standing>,
    /// Turns that workers were given.
    pub(super) turns: BTreeMap<TurnId, Given>,
    /// Turns that have a worker and were not given to it yet, as the notes know them.
    pub(super) reserved: BTreeMap<Scope, (TurnId, WorkerId)>,
    pub(super) over: BTreeSet<TurnId>,
    /// Turns that the notes say began and did not end.
    told: BTreeSet<TurnId>,
    /// Those of them of which a worker may have the prompt.
    pub(super) prompted: BTreeSet<TurnId>,
    /// Scopes that were told to be held, since when.
    pub(super) held: BTreeMap<Scope, MonoTime>,
    /// Scopes whose next turn goes to a fresh session.
    pub(super) rotated: BTreeSet<Scope>,
    /// Sessions that were asked for and not given up, and the one that each scope goes on in.
    pub(super) sessions: BTreeMap<SessionRef, Scope>,
    pub(super) directory: BTreeMap<Scope, SessionRef>,
    pub(super) jobs: BTreeSet<JobId>,
    pub(super) calls: Calls,
    /// Events without an outcome and their scopes, and those among them that wait for a turn.
    pub(super) owed: BTreeMap<EventId, Scope>,
    pub(super) queued: BTreeMap<EventId, Scope>,
    /// Those that were not let in yet, with their channels and roots: their scopes may change.
    pub(super) unjudged: BTreeMap<EventId, (ChannelId, EventId)>,
    /// What each message bears.
    pub(super) marked: BTreeMap<EventId, Mark>,
    /// What was refused for now comes again.
    pub(super) known: BTreeMap<EventId, Event>,
    pub(super) refused: Vec<Event>,
    /// Events that were told as begun.
    pub(super) begun: BTreeSet<EventId>,
    /// Those of the turn that is to start next in each scope.
    announced: BTreeMap<Scope, Vec<EventId>>,
    /// The events of each turn that was told, its attempts in vain and ends of workers with each.
    batches: BTreeMap<TurnId, Vec<EventId>>,
    tries: BTreeMap<EventId, (u16, u16)>,
    beginning: Option<(TurnId, Scope)>,
    pub(super) kind: ChannelKind,
    pub(super) is_half_full: bool,
    pub(super) arrived: u32,
    pub(super) left: u32,
    /// How many were handed back of each scope.
    pub(super) handed_back: BTreeMap<Scope, u32>,
    pub(super) is_ending: bool,
    pub(super) has_ended: bool,
}

/// A turn as its worker knows it.
#[derive(Clone, Copy)]
pub(super) struct Given {
    pub(super) scope: Scope,
    pub(super) session: Session,
    /// As the notes know it.
    pub(super) told: TurnId,
    pub(super) is_cancelled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    Starting,
    Up,
    Stopping,
}

impl Watch {
    /// Whether a fresh session is told what was said before, whether strangers are looked up, and
    /// whether failures are published, is left to chance.
    pub(super) fn new(how: u8) -> Self {
        let limits = Limits {
            sessions_max: 2,
            batch_max: 3,
            channel_max: 12,
            attempts_max: ATTEMPTS_MAX,
            crashes_max: CRASHES_MAX,
            context_max: if how & 1 == 0 { 0 } else { 12 },
            ..Limits::default()
        };
        let respond_to = if how & 2 == 0 {
            RespondTo::Anyone
        } else {
            RespondTo::OwnerOnly
        };
        let script = Script::new(Config {
            workers: 2,
            cosmetics: how & 4 == 0,
            notices: how & 24 != 0,
            marks: true,
            respond_to,
            limits,
            ..config()
        });
        let workers = (0..2)
            .map(|slot| (life(slot, 1), Standing::Starting))
            .collect();
        Self {
            script,
            workers,
            turns: BTreeMap::new(),
            reserved: BTreeMap::new(),
            over: BTreeSet::new(),
            told: BTreeSet::new(),
            prompted: BTreeSet::new(),
            held: BTreeMap::new(),
            rotated: BTreeSet::new(),
            sessions: BTreeMap::new(),
            directory: BTreeMap::new(),
            jobs: BTreeSet::new(),
            calls: Calls::default(),
            owed: BTreeMap::new(),
            queued: BTreeMap::new(),
            unjudged: BTreeMap::new(),
            marked: BTreeMap::new(),
            known: BTreeMap::new(),
            refused: Vec::new(),
            begun: BTreeSet::new(),
            announced: BTreeMap::new(),
            batches: BTreeMap::new(),
            tries: BTreeMap::new(),
            beginning: None,
            kind: ChannelKind::Stream,
            is_half_full: false,
            arrived: 0,
            left: 0,
            handed_back: BTreeMap::new(),
            is_ending: false,
            has_ended: false,
        }
    }

    pub(super) fn give(&mut self, input: Input) {
        let actions = self.script.give(input);
        self.see(actions);
    }

    pub(super) fn see(&mut self, actions: Vec<Action>) {
        for action in actions {
            self.see_one(action);
        }
        let view = self.script.scheduler.view();
        assert_eq!(view.queued, self.queued.len());
        assert!(view.sessions <= 2 * 2);
        self.see_marks();
        if !self.is_ending {
            // A turn that is reserved for longer than an input goes to a fresh session.
            assert_eq!(view.sessions, self.sessions.len() + self.reserved.len());
            assert_eq!(view.running, self.turns.len() + self.reserved.len());
            self.see_waits();
        }
    }

    fn see_one(&mut self, action: Action) {
        assert!(!self.has_ended || !matches!(action, Action::Spawn { .. } | Action::Ended));
        match action {
            Action::Spawn { worker } => {
                self.workers.insert(worker, Standing::Starting);
            }
            Action::Kill { worker } => {
                let standing = self.workers.insert(worker, Standing::Stopping);
                assert!(matches!(standing, Some(Standing::Starting | Standing::Up)));
            }
            Action::Start {
                turn,
                session,
                scope,
                batch,
                context: _,
            } => {
                self.see_start(turn, session, scope, &batch);
            }
            Action::Started { events, target } => self.see_started(&events, target),
            Action::Left { count, .. } => self.left += count,
            Action::Dispose { event, how } => self.see_end(event, how),
            Action::Publish(order) => self.see_published(order),
            Action::Query { ticket, body } => self.calls.ask(ticket, &body),
            Action::Verify { ticket, .. } => assert!(self.calls.checks.insert(ticket)),
            Action::Abort { ticket } => self.see_aborted(ticket),
            Action::Note(note) => self.see_note(note),
            Action::Ended => self.has_ended = true,
            Action::CancelTurn { turn } => {
                let turn = self.turns.get_mut(&turn).expect("a turn under way");
                assert!(!turn.is_cancelled, "it was asked to end twice");
                turn.is_cancelled = true;
            }
            Action::CloseSession { session } => {
                self.give_up(session);
                assert!(
                    self.workers.contains_key(&session.worker),
                    "nobody is there to close it"
                );
            }
            Action::ShutdownRequested | Action::WakeAt(_) => {}
        }
    }

    fn see_aborted(&mut self, ticket: Ticket) {
        let asked = self.calls.queries.remove(&ticket);
        assert!(asked.is_some(), "{ticket:?} was not under way");
        self.calls.over.push(ticket);
    }

    /// A session is resumed no more.
    pub(super) fn give_up(&mut self, session: SessionRef) {
        let scope = self.sessions.remove(&session);
        let scope = scope.expect("a session that was there");
        if self.directory.get(&scope) == Some(&session) {
            self.directory.remove(&scope);
        }
    }

    fn see_end(&mut self, event: EventId, how: Disposal) {
        let owed = self.owed.remove(&event);
        assert!(owed.is_some(), "{event} has two outcomes");
        self.queued.remove(&event);
        self.unjudged.remove(&event);
        if how == Disposal::RefusedForNow {
            assert!(!self.marked.contains_key(&event), "it was let in");
            self.refused.extend(self.known.get(&event).cloned());
        }
    }

    fn see_published(&mut self, order: publish::Command) {
        match order {
            publish::Command::Submit {
                job,
                class: Class::Durable,
                ..
            } => {
                assert!(!self.has_ended && self.jobs.insert(job));
            }
            publish::Command::React { message, mark, .. } => match mark {
                Some(mark) => {
                    assert!(self.owed.contains_key(&message), "it has its outcome");
                    if self.marked.insert(message, mark).is_none() {
                        self.see_let_in(message);
                    }
                }
                None => assert!(self.marked.remove(&message).is_some(), "it bore no mark"),
            },
            publish::Command::Submit { .. }
            | publish::Command::Cancel { .. }
            | publish::Command::Shutdown { .. } => {}
        }
    }

    /// A message waits for a turn from now on.
    fn see_let_in(&mut self, message: EventId) {
        self.unjudged.remove(&message);
        let scope = self.owed[&message];
        let channel = scope.channel();
        let of_channel = |scope: &&Scope| scope.channel() == channel;
        let count = self.queued.values().filter(of_channel).count();
        assert!(count < CHANNEL_MAX, "the channel was full");
        self.queued.insert(message, scope);
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "other notes say nothing of these"
    )]
    fn see_note(&mut self, note: Note) {
        match note {
            Note::WorkerDown { worker, .. } => self.see_worker_gone(worker),
            Note::HandedBack { scope, count } => {
                *self.handed_back.entry(scope).or_default() += count;
                self.queued.retain(|_, queued| *queued != scope);
            }
            Note::TurnStarted {
                turn,
                scope,
                worker,
                ..
            } => {
                assert!(!self.is_half_full, "there is no room for its answer");
                assert!(self.told.insert(turn));
                assert!(!self.is_running(scope), "two turns of {scope}");
                assert!(self.workers_at_work().all(|busy| busy != worker));
                self.reserved.insert(scope, (turn, worker));
                self.beginning = Some((turn, scope));
            }
            Note::Held { scope, .. } => {
                let before = self.held.insert(scope, self.script.now());
                assert_eq!(before, None, "it is held twice");
            }
            Note::HoldEnded { scope, .. } => {
                assert!(self.held.remove(&scope).is_some(), "it was not held");
            }
            Note::TurnRetried {
                turn,
                scope,
                why,
                attempts,
                ..
            } => self.see_retried((turn, scope), &why, attempts),
            Note::TurnEnded {
                turn,
                outcome,
                scope,
            } => self.see_outcome((turn, scope), &outcome),
            _ => {}
        }
    }

    fn see_outcome(&mut self, (turn, scope): (TurnId, Scope), outcome: &TurnOutcome) {
        let why = match outcome {
            TurnOutcome::Reported { why } | TurnOutcome::Unreported { why } => Some(why),
            TurnOutcome::Answered | TurnOutcome::Discarded => None,
        };
        // A turn of several events may end for each of them in its own way.
        assert!(
            self.batches.contains_key(&turn) || why == Some(&TurnFailure::Interrupted),
            "{turn:?} had no beginning"
        );
        if why == Some(&TurnFailure::Poisonous) {
            // The last of these ends was told by no note.
            let crashes = |event| self.tries.get(event).map_or(0, |(_, crashes)| *crashes);
            let most = self.batches[&turn].iter().map(crashes).max();
            assert!(most >= Some(CRASHES_MAX - 1), "it took down {most:?}");
        }
        self.told.remove(&turn);
        self.unreserve(scope, turn);
    }

    fn unreserve(&mut self, scope: Scope, turn: TurnId) -> bool {
        let is_it = matches!(self.reserved.get(&scope), Some((told, _)) if *told == turn);
        if is_it {
            self.reserved.remove(&scope);
            self.announced.remove(&scope);
        }
        is_it
    }

    fn see_worker_gone(&mut self, worker: WorkerId) {
        self.workers.remove(&worker);
        let of_it = |turn: &Given| turn.session.reference().worker == worker;
        let over = self.turns.iter().filter(|(_, turn)| of_it(turn));
        let over: Vec<TurnId> = over.map(|(id, _)| *id).collect();
        for turn in over {
            self.turns.remove(&turn);
            self.over.insert(turn);
        }
        let lost = self
            .sessions
            .keys()
            .filter(|session| session.worker == worker);
        for session in lost.copied().collect::<Vec<_>>() {
            self.give_up(session);
        }
    }

    /// What a turn was to answer waits again, as far as it is not given up.
    fn see_retried(&mut self, (turn, scope): (TurnId, Scope), why: &TurnFailure, told: u16) {
        assert!(self.told.remove(&turn), "{turn:?} had another end");
        let was_reserved = self.unreserve(scope, turn);
        let is_free = matches!(why, TurnFailure::UsageLimit | TurnFailure::Renewed);
        let is_attempt = !is_free && !was_reserved;
        let is_crash = *why == TurnFailure::WorkerGone && self.prompted.contains(&turn);
        let mut most = 0;
        for event in &self.batches[&turn] {
            let (attempts, crashes) = self.tries.entry(*event).or_default();
            *attempts += u16::from(is_attempt);
            *crashes += u16::from(is_crash);
            if *attempts < ATTEMPTS_MAX && *crashes < CRASHES_MAX {
                self.queued.insert(*event, scope);
                most = most.max(*attempts);
            }
        }
        assert_eq!(told, most, "attempts at {turn:?}: {why:?}");
    }

    /// Work begins on what waits, and its turn starts next.
    fn see_started(&mut self, events: &[EventId], target: EventId) {
        assert_eq!(events.last(), Some(&target));
        for event in events {
            assert!(self.queued.remove(event).is_some(), "{event} never waited");
            self.begun.insert(*event);
        }
        let (turn, scope) = self.beginning.take().expect("a turn that was told");
        self.batches.insert(turn, events.to_vec());
        let before = self.announced.insert(scope, events.to_vec());
        assert_eq!(before, None, "these did not start");
    }

    fn see_start(&mut self, id: TurnId, session: Session, scope: Scope, batch: &[Event]) {
        let (told, worker) = self.reserved.remove(&scope).expect("it was told");
        let reference = session.reference();
        let is_rotated = self.rotated.remove(&scope);
        assert!(!is_rotated || matches!(session, Session::Fresh(_)));
        match session {
            Session::Fresh(fresh) => {
                assert!(self.sessions.insert(fresh, scope).is_none());
            }
            Session::Resume(resumed) => {
                assert_eq!(
                    self.directory.get(&scope),
                    Some(&resumed),
                    "it was replaced"
                );
                // It is known to be there only by what it says to the prompt.
                self.prompted.insert(told);
            }
        }
        assert_eq!(reference.worker, worker);
        assert_eq!(self.workers.get(&worker), Some(&Standing::Up));
        assert!(!self.is_running(scope));
        assert!(self.workers_at_work().all(|busy| busy != worker));
        assert!(!batch.is_empty() && batch.len() <= BATCH_MAX);
        assert!(!self.over.contains(&id));
        let events: Vec<EventId> = batch.iter().map(Event::id).collect();
        assert_eq!(events, self.batches[&told]);
        self.announced.remove(&scope);
        for event in &events {
            assert!(self.begun.contains(event) && self.owed.contains_key(event));
        }
        let given = Given {
            scope,
            session,
            told,
            is_cancelled: false,
        };
        assert!(self.turns.insert(id, given).is_none());
    }
}
