//! What must hold whatever happens, told from inputs and actions alone.

use std::collections::{BTreeMap, BTreeSet};

use buzz_proto::ids::{EventId, JobId, TurnId};
use buzz_proto::note::{Note, TurnFailure, TurnOutcome};
use buzz_proto::publish::{self, Class};
use buzz_proto::relay::ChannelKind;
use buzz_proto::schedule::{Action, Config, Input, Limits, Scope, Session, SessionRef, WorkerId};
use buzz_proto::wire::Event;

use crate::support::{Script, config, life};

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
    /// Events without an outcome, the scopes of those that were queued.
    pub(super) owed: BTreeSet<EventId>,
    pub(super) queued: BTreeMap<EventId, Scope>,
    pub(super) kind: ChannelKind,
    pub(super) arrived: u32,
    pub(super) left: u32,
    pub(super) handed_back: usize,
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
            ..Limits::default()
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
            owed: BTreeSet::new(),
            queued: BTreeMap::new(),
            kind: ChannelKind::Stream,
            arrived: 0,
            left: 0,
            handed_back: 0,
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
        let ready = self.queued.values().find(|scope| is_ready(scope));
        assert!(
            !has_idle || ready.is_none(),
            "{ready:?} waits beside an idle worker"
        );
        assert_eq!(self.script.scheduler.view().queued, self.queued.len());
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
            } => {
                self.see_start(turn, session, scope, &batch);
            }
            Action::Started { .. } => {}
            Action::Left { count, .. } => self.left += count,
            Action::Dispose { event, .. } => {
                assert!(self.owed.remove(&event), "{event} has two outcomes");
                self.queued.remove(&event);
            }
            Action::Publish(publish::Command::Submit {
                job,
                class: Class::Durable,
                ..
            }) => {
                assert!(!self.has_ended && self.jobs.insert(job));
            }
            Action::Note(Note::WorkerDown { worker, .. }) => {
                self.workers.remove(&worker);
                self.end_turns(|(_, busy)| *busy == worker);
            }
            Action::Note(Note::HandedBack { scope, count }) => {
                self.handed_back += usize::try_from(count).expect("a small count");
                self.queued.retain(|_, queued| *queued != scope);
            }
            Action::Note(Note::TurnStarted { turn, .. }) => assert!(self.told.insert(turn)),
            Action::Note(Note::TurnEnded { turn, outcome, .. }) => {
                let why = TurnFailure::Interrupted;
                let never_began = outcome == TurnOutcome::Unreported { why };
                assert!(
                    self.told.remove(&turn) || never_began,
                    "{turn:?} {outcome:?}"
                );
            }
            Action::Ended => self.has_ended = true,
            Action::CancelTurn { turn } => assert!(self.turns.contains_key(&turn)),
            Action::CloseSession { session } => {
                assert_eq!(self.sessions.insert(session, false), Some(true));
                assert!(
                    self.workers.contains_key(&session.worker),
                    "nobody is there to close it"
                );
            }
            Action::Publish(_)
            | Action::ShutdownRequested
            | Action::Note(_)
            | Action::WakeAt(_) => {}
        }
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
        for event in batch {
            self.queued.remove(&event.id());
            assert!(self.owed.contains(&event.id()));
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
