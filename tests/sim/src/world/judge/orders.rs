//! What the judge sees in the orders of the machine.

use std::collections::BTreeSet;

use buzz_proto::action::Action;
use buzz_proto::ids::TurnId;
use buzz_proto::relay::{self, ChannelState};
use buzz_proto::schedule::{self, Scope, Session, SessionRef, WorkerId};
use buzz_proto::wire::Event;

use super::Judge;
use super::room::{Given, Leaves, Running};

impl Judge {
    pub(super) fn watch(&mut self, action: &Action) {
        match action {
            Action::Relay(relay::Action::Verify { ticket, event }) => {
                self.arrivals.asked(*ticket, event);
            }
            Action::Relay(relay::Action::Channel {
                channel,
                state: ChannelState::Left,
            }) => {
                self.controlled.insert(*channel);
            }
            Action::Schedule(schedule::Action::Start {
                turn,
                session,
                scope,
                batch,
                ..
            }) => self.start(*turn, *session, *scope, batch),
            Action::Schedule(schedule::Action::Kill { worker }) => {
                if let Some(post) = self.workers.get_mut(worker) {
                    post.is_killed = true;
                }
            }
            Action::Schedule(schedule::Action::CancelTurn { turn }) => {
                let room = self.turns.get(turn).and_then(|it| self.rooms.get_mut(it));
                if let Some(running) = room.and_then(|room| room.turn.as_mut()) {
                    running.is_cancelled = true;
                }
            }
            Action::Schedule(schedule::Action::CloseSession { session }) => {
                self.close_session(*session);
            }
            Action::Note(note) => self.read(note),
            Action::Relay(_)
            | Action::Publish(_)
            | Action::Schedule(_)
            | Action::Ended
            | Action::WakeAt(_) => {}
        }
    }

    /// A turn begins for the scheduler: from now on scope and worker have one.
    pub(super) fn claim(&mut self, told: TurnId, scope: Scope, worker: WorkerId, events: u32) {
        self.let_go(scope);
        self.end_wait(scope);
        self.verdict.turns = self.verdict.turns.saturating_add(1);
        let is_free = self.workers.get(&worker).is_some_and(|it| it.is_free());
        if !is_free {
            self.fault(format_args!(
                "turn {} is for a worker that is not free: {worker:?}",
                told.0
            ));
        }
        let leaves = self.leaves(scope, worker);
        let now = self.now;
        let room = self.rooms.entry(scope).or_default();
        let (is_running, is_early) = (room.turn.is_some(), now < room.retry_at);
        let batch = room.oldest(usize::try_from(events).unwrap_or(usize::MAX));
        let running = Running {
            told,
            claimed: now,
            worker,
            batch,
            given: None,
            leaves,
            is_stranded: false,
            is_crashed: false,
            is_cancelled: false,
            reserved: Some(now),
        };
        self.outcomes.claim(told, running.ids());
        room.turn = Some(running);
        if let Some(post) = self.workers.get_mut(&worker) {
            post.busy = Some(scope);
        }
        if is_running {
            self.fault(format_args!("{scope} has two turns"));
        }
        if is_early {
            self.fault(format_args!("{scope} is tried before its wait is over"));
        }
    }

    /// Whether a turn on this worker leaves a session behind that lives elsewhere.
    fn leaves(&self, scope: Scope, worker: WorkerId) -> Option<Leaves> {
        let session = self.rooms.get(&scope)?.session?;
        let post = self.workers.get(&session.worker)?;
        if session.worker == worker || post.is_killed {
            return None;
        }
        let is_busy = post.busy.is_some_and(|other| other != scope);
        Some(if is_busy { Leaves::Busy } else { Leaves::Free })
    }

    fn start(&mut self, turn: TurnId, session: Session, scope: Scope, batch: &[Event]) {
        let ids: Vec<_> = batch.iter().map(Event::id).collect();
        if self.turns.insert(turn, scope).is_some() || !self.outcomes.give(turn, ids.clone()) {
            self.fault(format_args!("two turns have the id {}", turn.0));
        }
        let worker = session.reference().worker;
        let room = self.rooms.entry(scope).or_default();
        let newest = room.session;
        let Some(running) = room.turn.as_mut() else {
            return self.fault(format_args!("turn {} was not claimed", turn.0));
        };
        let (claimed_for, leaves) = (running.worker, running.leaves);
        let before = running.given;
        let fresh = match session {
            Session::Fresh(session) => Some(session),
            Session::Resume(_) => None,
        };
        running.given = Some(Given {
            turn,
            fresh,
            is_over: false,
            is_reopened: false,
        });
        running.reserved = None;
        let own: BTreeSet<_> = running.ids().into_iter().collect();
        let is_same = own == ids.iter().copied().collect();
        let is_first = before.is_none();
        let missing = is_first && room.remove(&ids).len() != ids.len();
        if let Some(post) = self.workers.get_mut(&worker) {
            post.busy = Some(scope);
        }
        if before.is_some_and(|before| !before.is_reopened) {
            self.fault(format_args!("turn {} begins while another runs", turn.0));
        }
        if claimed_for != worker {
            self.fault(format_args!("turn {} was for another worker", turn.0));
        }
        if !is_same || missing {
            self.fault(format_args!(
                "turn {} is not for the oldest events of {scope}",
                turn.0
            ));
        }
        match session {
            Session::Resume(session) => self.resume(turn, session, newest),
            Session::Fresh(session) => {
                self.open_elsewhere(turn, session, leaves.filter(|_| is_first))
            }
        }
    }

    fn resume(&mut self, turn: TurnId, session: SessionRef, newest: Option<SessionRef>) {
        if newest != Some(session) {
            self.verdict.stale_resumes = self.verdict.stale_resumes.saturating_add(1);
            self.fault(format_args!(
                "turn {} goes on in {session:?}, and the newest is {newest:?}",
                turn.0
            ));
        }
    }

    fn open_elsewhere(&mut self, turn: TurnId, session: SessionRef, leaves: Option<Leaves>) {
        if !self.epochs.insert(session.epoch) {
            self.fault(format_args!("{session:?} is no new session"));
        }
        match leaves {
            Some(Leaves::Busy) => self.verdict.forks = self.verdict.forks.saturating_add(1),
            Some(Leaves::Free) => self.fault(format_args!(
                "turn {} leaves a session whose worker is free",
                turn.0
            )),
            None => {}
        }
    }
}
