//! Workers: one life at a time in a slot, one turn at a time on a worker and in a scope, and no
//! session beyond the life of its worker.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::ids::{EventId, TurnId};
use buzz_proto::input::Input;
use buzz_proto::schedule::{self, Scope, Session, SessionRef, WorkerId};
use buzz_proto::time::MonoTime;

use super::Fault;
use super::calls::Calls;

#[derive(Clone, Debug)]
pub(super) struct Workers {
    slots: u16,
    /// After a kill a worker is given up so long after.
    exit: Duration,
    posts: BTreeMap<u16, Post>,
    /// The newest life of each slot.
    lives: BTreeMap<u16, u32>,
    turns: BTreeMap<TurnId, Running>,
    last_turn: Option<TurnId>,
    last_epoch: Option<u64>,
    sessions: BTreeSet<SessionRef>,
}

#[derive(Clone, Copy, Debug)]
struct Post {
    worker: WorkerId,
    is_up: bool,
    killed: Option<MonoTime>,
}

#[derive(Clone, Debug)]
struct Running {
    session: SessionRef,
    scope: Scope,
    events: BTreeSet<EventId>,
}

impl Workers {
    pub(super) fn new(config: &schedule::Config) -> Self {
        Self {
            slots: config.workers,
            exit: config.limits.exit,
            posts: BTreeMap::new(),
            lives: BTreeMap::new(),
            turns: BTreeMap::new(),
            last_turn: None,
            last_epoch: None,
            sessions: BTreeSet::new(),
        }
    }

    pub(super) fn learn(&mut self, input: &Input) {
        let Input::Schedule(input) = input else {
            return;
        };
        match input {
            schedule::Input::WorkerUp { worker } => {
                if let Some(post) = self.post(*worker) {
                    post.is_up = true;
                }
            }
            schedule::Input::WorkerDown { worker, .. } if self.post(*worker).is_some() => {
                self.posts.remove(&worker.slot);
                self.forget(*worker);
            }
            schedule::Input::SessionFailed { turn, .. }
            | schedule::Input::Finished { turn, .. } => {
                self.turns.remove(turn);
            }
            _ => {}
        }
    }

    pub(super) fn order(
        &mut self,
        now: MonoTime,
        action: &Action,
        calls: &Calls,
    ) -> Result<(), Fault> {
        use schedule::Action as A;
        let Action::Schedule(action) = action else {
            return Ok(());
        };
        match action {
            A::Spawn { worker } => self.spawn(now, *worker),
            A::Kill { worker } => match self.post(*worker) {
                Some(post) if post.killed.is_none() => {
                    post.killed = Some(now);
                    Ok(())
                }
                _ => Err("a worker is ended that is not there, or twice".to_owned()),
            },
            A::Start {
                turn,
                session,
                scope,
                batch,
                ..
            } => {
                if batch.is_empty() || !batch.iter().all(|event| calls.is_genuine(event)) {
                    return Err("a batch that is empty, or not verified".to_owned());
                }
                let events: BTreeSet<_> = batch.iter().map(buzz_proto::wire::Event::id).collect();
                if events.len() < batch.len() {
                    return Err("an event twice in a batch".to_owned());
                }
                let running = Running {
                    session: session.reference(),
                    scope: *scope,
                    events,
                };
                self.start(*turn, *session, running)
            }
            A::CloseSession { session } => {
                if !self.sessions.remove(session) {
                    return Err("a session is closed that nobody opened, or twice".to_owned());
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn spawn(&mut self, now: MonoTime, worker: WorkerId) -> Result<(), Fault> {
        if worker.slot >= self.slots {
            return Err("a worker in a slot that does not exist".to_owned());
        }
        let post = Post {
            worker,
            is_up: false,
            killed: None,
        };
        if let Some(before) = self.posts.insert(worker.slot, post) {
            let is_given_up = |killed: MonoTime| killed.after(self.exit) <= now;
            if !before.killed.is_some_and(is_given_up) {
                return Err("a second worker in a slot".to_owned());
            }
            self.forget(before.worker);
        }
        let before = self.lives.insert(worker.slot, worker.incarnation);
        if before.is_some_and(|before| before >= worker.incarnation) {
            return Err("a life of a worker that was".to_owned());
        }
        Ok(())
    }

    fn start(&mut self, turn: TurnId, session: Session, running: Running) -> Result<(), Fault> {
        let worker = running.session.worker;
        if self.last_turn.is_some_and(|last| last >= turn) {
            return Err("a turn under a number that was used".to_owned());
        }
        self.last_turn = Some(turn);
        if !self
            .post(worker)
            .is_some_and(|post| post.is_up && post.killed.is_none())
        {
            return Err("a turn on a worker that is not up".to_owned());
        }
        for other in self.turns.values() {
            if other.session.worker == worker {
                return Err("a second turn on a worker".to_owned());
            }
            if other.scope == running.scope || !other.events.is_disjoint(&running.events) {
                return Err("a second turn of a scope, or of an event".to_owned());
            }
        }
        match session {
            Session::Fresh(session) => {
                if self.last_epoch.is_some_and(|last| last >= session.epoch) {
                    return Err("a fresh session under an epoch that was used".to_owned());
                }
                self.last_epoch = Some(session.epoch);
                self.sessions.insert(session);
            }
            Session::Resume(session) if !self.sessions.contains(&session) => {
                return Err("a session is gone on with that is not open".to_owned());
            }
            Session::Resume(_) => {}
        }
        self.turns.insert(turn, running);
        Ok(())
    }

    /// What a worker had goes with it.
    fn forget(&mut self, worker: WorkerId) {
        self.turns.retain(|_, turn| turn.session.worker != worker);
        self.sessions.retain(|session| session.worker != worker);
    }

    fn post(&mut self, worker: WorkerId) -> Option<&mut Post> {
        let post = self.posts.get_mut(&worker.slot)?;
        (post.worker == worker).then_some(post)
    }
}
