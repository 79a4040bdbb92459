//! The workers, each in its slot, and the sessions that live in them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::control::Life;
use super::{Action, DownCause, Limits, Scheduler, Scope, SessionRef, WorkerId, stale};
use crate::backoff::Ladder;
use crate::ids::TurnId;
use crate::note::{Note, StaleWhat, TurnFailure};
use crate::seed::Seed;
use crate::time::{MonoTime, Now, Why};

/// The slots, and the sessions of those that are up.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    slots: Vec<Slot>,
    sessions: BTreeMap<SessionRef, Held>,
    epoch: u64,
    limits: Limits,
    seed: Seed,
}

#[derive(Clone, Debug)]
struct Slot {
    worker: WorkerId,
    phase: SlotPhase,
    ladder: Ladder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotPhase {
    /// There is no worker, and none is started before then.
    Down { until: MonoTime },
    /// Its start was ordered.
    Starting { until: MonoTime },
    /// It is ready.
    Idle,
    /// It runs a turn.
    Busy(TurnId),
    /// Its end was ordered; the turn that it still ran ends with it.
    Stopping {
        until: MonoTime,
        turn: Option<TurnId>,
    },
}

/// A session as the machine knows it.
#[derive(Clone, Copy, Debug)]
struct Held {
    scope: Scope,
    phase: SessionPhase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionPhase {
    /// It was asked for; the scope's earlier session is still the current one.
    Opening,
    /// A turn runs in it.
    Busy,
    /// No turn runs in it.
    Idle { since: MonoTime },
}

impl Pool {
    pub(super) fn new(workers: u16, limits: &Limits, seed: Seed, now: MonoTime) -> Self {
        let slots = (0..workers).map(|slot| Slot {
            worker: WorkerId {
                slot,
                incarnation: 0,
            },
            phase: SlotPhase::Down { until: now },
            ladder: Ladder::new(limits.respawn_first, limits.respawn_top),
        });
        Self {
            slots: slots.collect(),
            sessions: BTreeMap::new(),
            epoch: 0,
            limits: limits.clone(),
            seed,
        }
    }

    /// Workers that are ready or at work.
    pub(super) fn up(&self) -> usize {
        let is_up = |slot: &&Slot| matches!(slot.phase, SlotPhase::Idle | SlotPhase::Busy(_));
        self.slots.iter().filter(is_up).count()
    }

    pub(super) fn sessions(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn is_down(&self) -> bool {
        self.slots
            .iter()
            .all(|slot| matches!(slot.phase, SlotPhase::Down { .. }))
    }

    /// The idle worker with the fewest sessions.
    pub(super) fn idle_worker(&self) -> Option<WorkerId> {
        self.slots
            .iter()
            .filter(|slot| slot.phase == SlotPhase::Idle)
            .map(|slot| slot.worker)
            .min_by_key(|worker| self.sessions_of(*worker).count())
    }

    /// The session of a scope, if its worker could take a turn at once.
    pub(super) fn idle_session(&self, scope: Scope) -> Option<SessionRef> {
        let session = self.current(scope)?;
        let slot = self.slot(session.worker)?;
        (slot.phase == SlotPhase::Idle).then_some(session)
    }

    /// The session that a scope goes on in.
    pub(super) fn current(&self, scope: Scope) -> Option<SessionRef> {
        self.sessions
            .iter()
            .find(|(_, held)| held.scope == scope && held.phase != SessionPhase::Opening)
            .map(|(session, _)| *session)
    }

    /// The scopes that have a session.
    pub(super) fn scopes(&self) -> impl Iterator<Item = Scope> {
        self.sessions.values().map(|held| held.scope)
    }

    /// A worker takes a turn in its own session of that scope.
    pub(super) fn resume(&mut self, session: SessionRef, turn: TurnId) {
        self.occupy(session.worker, turn);
        self.set(session, SessionPhase::Busy);
    }

    /// A worker takes a turn in a session still to be opened. One without work makes room for it.
    pub(super) fn open(
        &mut self,
        worker: WorkerId,
        scope: Scope,
        turn: TurnId,
        out: &mut Vec<Action>,
    ) -> SessionRef {
        while self.sessions_of(worker).count() >= usize::from(self.limits.sessions_max) {
            let idle = self
                .sessions_of(worker)
                .filter_map(|(session, held)| match held.phase {
                    SessionPhase::Idle { since } => Some((since, session)),
                    SessionPhase::Opening | SessionPhase::Busy => None,
                });
            let Some((_, session)) = idle.min() else {
                break;
            };
            self.close(session, out);
        }
        self.epoch = self.epoch.wrapping_add(1);
        let session = SessionRef {
            worker,
            epoch: self.epoch,
        };
        self.sessions.insert(
            session,
            Held {
                scope,
                phase: SessionPhase::Opening,
            },
        );
        self.occupy(worker, turn);
        session
    }

    /// The session exists: it is the scope's current one now, and the earlier one is let go.
    pub(super) fn opened(&mut self, session: SessionRef, scope: Scope, out: &mut Vec<Action>) {
        if let Some(earlier) = self.current(scope).filter(|earlier| *earlier != session) {
            self.close(earlier, out);
        }
        self.set(session, SessionPhase::Busy);
    }

    /// The session is free for the next turn of its scope.
    pub(super) fn release(&mut self, session: SessionRef, now: MonoTime) {
        self.set(session, SessionPhase::Idle { since: now });
    }

    /// The worker does not have it.
    pub(super) fn forget(&mut self, session: SessionRef) {
        self.sessions.remove(&session);
    }

    /// Lets a session go, if it is there.
    pub(super) fn close(&mut self, session: SessionRef, out: &mut Vec<Action>) {
        if self.sessions.remove(&session).is_some() {
            out.push(Action::CloseSession { session });
        }
    }

    /// Lets the sessions go that had no turn for too long.
    pub(super) fn close_unused(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let limit = self.limits.session_idle;
        let mut is_unused = |held: &Held| match held.phase {
            SessionPhase::Idle { since } => now.reached(since.after(limit), Why::SessionIdle),
            SessionPhase::Opening | SessionPhase::Busy => false,
        };
        let unused: Vec<SessionRef> = self
            .sessions
            .iter()
            .filter(|(_, held)| is_unused(held))
            .map(|(session, _)| *session)
            .collect();
        for session in &unused {
            self.close(*session, out);
        }
        !unused.is_empty()
    }

    /// A worker has no turn any more; a turn that ended well makes its slot trusted again.
    pub(super) fn free(&mut self, worker: WorkerId, is_sound: bool) {
        let Some(slot) = self.slot_mut(worker) else {
            return;
        };
        if is_sound {
            slot.ladder.reset();
        }
        match slot.phase {
            SlotPhase::Busy(_) => slot.phase = SlotPhase::Idle,
            SlotPhase::Stopping { until, turn: _ } => {
                slot.phase = SlotPhase::Stopping { until, turn: None };
            }
            SlotPhase::Down { .. } | SlotPhase::Starting { .. } | SlotPhase::Idle => {}
        }
    }

    /// Ends a worker; whether that is news.
    pub(super) fn kill(&mut self, worker: WorkerId, now: MonoTime, out: &mut Vec<Action>) -> bool {
        let until = now.after(self.limits.exit);
        let Some(slot) = self.slot_mut(worker) else {
            return false;
        };
        let turn = match slot.phase {
            SlotPhase::Down { .. } | SlotPhase::Stopping { .. } => return false,
            SlotPhase::Starting { .. } | SlotPhase::Idle => None,
            SlotPhase::Busy(turn) => Some(turn),
        };
        slot.phase = SlotPhase::Stopping { until, turn };
        out.push(Action::Kill { worker });
        true
    }

    /// Ends the workers that run no turn; whether there was one.
    pub(super) fn kill_spare(&mut self, now: MonoTime, out: &mut Vec<Action>) -> bool {
        let is_spare =
            |slot: &&Slot| matches!(slot.phase, SlotPhase::Starting { .. } | SlotPhase::Idle);
        let spare: Vec<WorkerId> = self
            .slots
            .iter()
            .filter(is_spare)
            .map(|slot| slot.worker)
            .collect();
        for worker in &spare {
            self.kill(*worker, now, out);
        }
        !spare.is_empty()
    }

    /// Starts workers whose wait is over; whether there was one.
    fn spawn(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let mut moved = false;
        for slot in &mut self.slots {
            let SlotPhase::Down { until } = slot.phase else {
                continue;
            };
            if now.reached(until, Why::Worker) {
                slot.worker.incarnation = slot.worker.incarnation.wrapping_add(1);
                slot.phase = SlotPhase::Starting {
                    until: now.time().after(self.limits.start),
                };
                out.push(Action::Spawn {
                    worker: slot.worker,
                });
                moved = true;
            }
        }
        moved
    }

    /// Workers whose start or end takes too long.
    fn overdue(&self, now: &mut Now) -> Vec<WorkerId> {
        let is_overdue = |slot: &&Slot| match slot.phase {
            SlotPhase::Starting { until } | SlotPhase::Stopping { until, .. } => {
                now.reached(until, Why::Worker)
            }
            SlotPhase::Down { .. } | SlotPhase::Idle | SlotPhase::Busy(_) => false,
        };
        self.slots
            .iter()
            .filter(is_overdue)
            .map(|slot| slot.worker)
            .collect()
    }

    /// A worker is gone, and its sessions with it. Gives the turn that it ran, and the wait before
    /// the next one; nothing if it was gone already.
    fn lose(&mut self, worker: WorkerId, now: MonoTime) -> Option<(Option<TurnId>, Duration)> {
        let seed = self.seed;
        let slot = self.slot_mut(worker)?;
        let turn = match slot.phase {
            SlotPhase::Down { .. } => return None,
            SlotPhase::Starting { .. } | SlotPhase::Idle => None,
            SlotPhase::Busy(turn) => Some(turn),
            SlotPhase::Stopping { turn, .. } => turn,
        };
        let wait = slot.ladder.climb_drawn(seed, u64::from(worker.slot));
        slot.phase = SlotPhase::Down {
            until: now.after(wait),
        };
        self.sessions.retain(|session, _| session.worker != worker);
        Some((turn, wait))
    }

    fn occupy(&mut self, worker: WorkerId, turn: TurnId) {
        if let Some(slot) = self.slot_mut(worker) {
            slot.phase = SlotPhase::Busy(turn);
        }
    }

    fn set(&mut self, session: SessionRef, phase: SessionPhase) {
        if let Some(held) = self.sessions.get_mut(&session) {
            held.phase = phase;
        }
    }

    fn sessions_of(&self, worker: WorkerId) -> impl Iterator<Item = (SessionRef, Held)> {
        let first = SessionRef { worker, epoch: 0 };
        let last = SessionRef {
            worker,
            epoch: u64::MAX,
        };
        self.sessions
            .range(first..=last)
            .map(|(session, held)| (*session, *held))
    }

    fn slot(&self, worker: WorkerId) -> Option<&Slot> {
        self.slots
            .get(usize::from(worker.slot))
            .filter(|slot| slot.worker == worker)
    }

    fn slot_mut(&mut self, worker: WorkerId) -> Option<&mut Slot> {
        self.slots
            .get_mut(usize::from(worker.slot))
            .filter(|slot| slot.worker == worker)
    }
}

impl Scheduler {
    pub(super) fn worker_up(&mut self, worker: WorkerId, out: &mut Vec<Action>) {
        let slot = self.pool.slot_mut(worker);
        match slot.filter(|slot| matches!(slot.phase, SlotPhase::Starting { .. })) {
            Some(slot) => {
                slot.phase = SlotPhase::Idle;
                out.push(Action::Note(Note::WorkerUp { worker }));
            }
            None => stale(StaleWhat::Worker, out),
        }
    }

    pub(super) fn worker_down(
        &mut self,
        worker: WorkerId,
        cause: DownCause,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let Some((turn, wait)) = self.pool.lose(worker, now) else {
            return stale(StaleWhat::Worker, out);
        };
        let wait = matches!(self.life, Life::Working).then_some(wait);
        out.push(Action::Note(Note::WorkerDown {
            worker,
            cause,
            wait,
        }));
        if let Some(turn) = turn {
            self.end_turn(turn, Err(TurnFailure::WorkerGone), now, out);
        }
    }

    /// Starts and replaces workers; whether anything moved.
    pub(super) fn pump_workers(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let overdue = self.pool.overdue(now);
        for worker in &overdue {
            // One that does not even end when it is killed counts as gone.
            if !self.pool.kill(*worker, now.time(), out) {
                self.worker_down(*worker, DownCause::Killed, now.time(), out);
            }
        }
        let started = !self.life.is_ending() && self.pool.spawn(now, out);
        started || !overdue.is_empty()
    }
}
