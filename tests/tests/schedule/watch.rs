//! What must hold whatever happens, told from inputs and actions alone.

use std::collections::{BTreeMap, BTreeSet};

use buzz_proto::ids::{EventId, JobId, Ticket, TurnId};
use buzz_proto::note::{Note, TurnFailure, TurnOutcome};
use buzz_proto::publish::{self, Class};
use buzz_proto::relay::ChannelKind;
use buzz_proto::schedule::{Action, Config, Input, Limits, Scope, Session, SessionRef, WorkerId};
use buzz_proto::wire::Event;

use crate::support::{Script, config, life, limits};

/// Few, so that chance comes to the last of them.
const ATTEMPTS_MAX: u16 = 4;
const CRASHES_MAX: u16 = 2;

/// What must be true, kept by watching inputs and actions alone.
pub(super) struct Watch {
    pub(super) script: Script,
    pub(super) workers: BTreeMap<WorkerId, Standing>,
    pub(super) turns: BTreeMap<TurnId, (Scope, WorkerId)>,
    pub(super) over: BTreeSet<TurnId>,
    /// Turns that the notes say began and did not end.
    pub(super) told: BTreeSet<TurnId>,
    /// Sessions that were asked for, and whether they may still be resumed.
    pub(super) sessions: BTreeMap<SessionRef, bool>,
    pub(super) jobs: BTreeSet<JobId>,
    /// Events without an outcome and their scopes, and those among them that wait for a turn.
    pub(super) owed: BTreeMap<EventId, Scope>,
    pub(super) queued: BTreeMap<EventId, Scope>,
    /// Events that were told as begun, each once.
    begun: BTreeSet<EventId>,
    /// Those of the turn that is to start next.
    announced: Vec<EventId>,
    /// The events of each turn that was told, its attempts in vain and ends of workers with each.
    batches: BTreeMap<TurnId, Vec<EventId>>,
    tries: BTreeMap<EventId, (u16, u16)>,
    beginning: Option<TurnId>,
    /// Calls to be answered.
    pub(super) queries: Vec<Ticket>,
    pub(super) kind: ChannelKind,
    pub(super) arrived: u32,
    pub(super) left: u32,
    /// How many were handed back of each scope.
    pub(super) handed_back: BTreeMap<Scope, u32>,
    pub(super) has_ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    Starting,
    Up,
    Stopping,
}

impl Watch {
    pub(super) fn new() -> Self {
        let limits = Limits {
            sessions_max: 2,
            batch_max: 3,
            channel_max: 12,
            attempts_max: ATTEMPTS_MAX,
            crashes_max: CRASHES_MAX,
            ..limits()
        };
        let script = Script::new(Config {
            workers: 2,
            cosmetics: true,
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
            over: BTreeSet::new(),
            told: BTreeSet::new(),
            sessions: BTreeMap::new(),
            jobs: BTreeSet::new(),
            owed: BTreeMap::new(),
            queued: BTreeMap::new(),
            begun: BTreeSet::new(),
            announced: Vec::new(),
            batches: BTreeMap::new(),
            tries: BTreeMap::new(),
            beginning: None,
            queries: Vec::new(),
            kind: ChannelKind::Stream,
            arrived: 0,
            left: 0,
            handed_back: BTreeMap::new(),
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
        let has_idle = self.workers.iter().any(|(worker, standing)| {
            *standing == Standing::Up && !self.turns.values().any(|(_, busy)| busy == worker)
        });
        let is_ready = |scope: &Scope| !self.turns.values().any(|(running, _)| running == scope);
        let waiting: BTreeSet<&Scope> = self
            .queued
            .values()
            .filter(|scope| is_ready(scope))
            .collect();
        let view = self.script.scheduler.view();
        assert!(
            !has_idle || view.is_usage_limited || waiting.len() == view.held + view.resting,
            "one of {waiting:?} waits beside an idle worker: {view:?}"
        );
        assert_eq!(view.queued, self.queued.len());
        assert_eq!(self.script.scheduler.view().running, self.turns.len());
        assert!(self.script.scheduler.view().sessions <= 2 * 2);
    }

    pub(super) fn see_one(&mut self, action: Action) {
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
            Action::Started { events, target } => self.see_started(events, target),
            Action::Left { count, .. } => self.left += count,
            Action::Dispose { event, .. } => {
                let owed = self.owed.remove(&event);
                assert!(owed.is_some(), "{event} has two outcomes");
                self.queued.remove(&event);
            }
            Action::Publish(publish::Command::Submit {
                job,
                class: Class::Durable,
                ..
            }) => {
                assert!(!self.has_ended && self.jobs.insert(job));
            }
            Action::Query { ticket, .. } => self.queries.push(ticket),
            Action::Verify { .. } | Action::Abort { .. } => {}
            Action::Note(note) => self.see_note(note),
            Action::Ended => self.has_ended = true,
            Action::CancelTurn { turn } => assert!(self.turns.contains_key(&turn)),
            Action::CloseSession { session } => {
                assert_eq!(self.sessions.insert(session, false), Some(true));
                assert!(
                    self.workers.contains_key(&session.worker),
                    "nobody is there to close it"
                );
            }
            Action::Publish(_) | Action::ShutdownRequested | Action::WakeAt(_) => {}
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "other notes say nothing of these"
    )]
    fn see_note(&mut self, note: Note) {
        match note {
            Note::WorkerDown { worker, .. } => {
                self.workers.remove(&worker);
                self.end_turns(|(_, busy)| *busy == worker);
            }
            Note::HandedBack { scope, count } => {
                *self.handed_back.entry(scope).or_default() += count;
                self.queued.retain(|_, queued| *queued != scope);
            }
            Note::TurnStarted { turn, .. } => {
                assert!(self.told.insert(turn));
                self.beginning = Some(turn);
            }
            Note::TurnRetried {
                turn, scope, why, ..
            } => self.see_retried(turn, scope, &why),
            Note::TurnEnded { turn, outcome, .. } => {
                let never_began = matches!(
                    outcome,
                    TurnOutcome::Reported { why } | TurnOutcome::Unreported { why }
                        if why == TurnFailure::Interrupted
                );
                // A turn of several events may end for each of them in its own way.
                assert!(
                    self.batches.contains_key(&turn) || never_began,
                    "{turn:?} had no beginning"
                );
                self.told.remove(&turn);
            }
            _ => {}
        }
    }

    /// What a turn was to answer waits again, as far as it is not given up.
    fn see_retried(&mut self, turn: TurnId, scope: Scope, why: &TurnFailure) {
        assert!(self.told.remove(&turn), "{turn:?} had another end");
        let is_attempt = !matches!(why, TurnFailure::UsageLimit | TurnFailure::Renewed);
        let is_crash = *why == TurnFailure::WorkerGone;
        for event in &self.batches[&turn] {
            let (attempts, crashes) = self.tries.entry(*event).or_default();
            *attempts += u16::from(is_attempt);
            *crashes += u16::from(is_crash);
            if *attempts < ATTEMPTS_MAX && *crashes < CRASHES_MAX {
                self.queued.insert(*event, scope);
            }
        }
    }

    /// Work begins on what waits, and its turn starts next.
    fn see_started(&mut self, events: Vec<EventId>, target: EventId) {
        assert_eq!(events.last(), Some(&target));
        for event in &events {
            assert!(self.queued.remove(event).is_some(), "{event} never waited");
            self.begun.insert(*event);
        }
        assert_eq!(self.announced, [], "these did not start");
        let turn = self.beginning.take().expect("a turn that was told");
        self.batches.insert(turn, events.clone());
        self.announced = events;
    }

    pub(super) fn see_start(
        &mut self,
        turn: TurnId,
        session: Session,
        scope: Scope,
        batch: &[Event],
    ) {
        let worker = session.reference().worker;
        match session {
            Session::Fresh(fresh) => assert!(self.sessions.insert(fresh, true).is_none()),
            Session::Resume(resumed) => assert!(self.sessions[&resumed]),
        }
        assert_eq!(self.workers.get(&worker), Some(&Standing::Up));
        assert!(
            !self
                .turns
                .values()
                .any(|(s, w)| *s == scope || *w == worker)
        );
        assert!(!batch.is_empty() && batch.len() <= 3);
        assert!(!self.over.contains(&turn));
        assert!(self.turns.insert(turn, (scope, worker)).is_none());
        let events: Vec<EventId> = batch.iter().map(Event::id).collect();
        let is_again = self.announced.is_empty();
        assert!(is_again || self.announced == events);
        self.announced.clear();
        for event in &events {
            assert!(self.begun.contains(event) && self.owed.contains_key(event));
        }
    }

    pub(super) fn end_turns(&mut self, is_over: impl Fn(&(Scope, WorkerId)) -> bool) {
        let over: Vec<TurnId> = self
            .turns
            .iter()
            .filter(|(_, turn)| is_over(turn))
            .map(|(turn, _)| *turn)
            .collect();
        for turn in over {
            self.turns.remove(&turn);
            self.over.insert(turn);
        }
    }
}
