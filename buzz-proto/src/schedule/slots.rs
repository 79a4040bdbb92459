//! The workers, each in its slot: started, trusted, ended and replaced.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use super::control::Life;
use super::part::Part;
use super::{Action, DownCause, Limits, WorkerId, stale};
use crate::backoff::Ladder;
use crate::ids::TurnId;
use crate::note::{Note, StaleWhat};
use crate::seed::Seed;
use crate::time::{MonoTime, Now, Why};

#[derive(Clone, Debug)]
pub(super) struct Slots {
    rows: Vec<Slot>,
    limits: Limits,
    seed: Seed,
}

#[derive(Clone, Debug)]
struct Slot {
    worker: WorkerId,
    phase: Phase,
    ladder: Ladder,
    breaker: Breaker,
    /// Sessions in a row that its worker did not open.
    refused: u16,
    /// The end of its last turn.
    used: MonoTime,
    /// Whether its worker is to be replaced by one that is started as they are now.
    is_outdated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
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

/// Keeps a slot whose workers end again and again from starting one after the other: after several
/// ends in a short time it rests, then one start is the test, and a finished turn is the proof.
#[derive(Clone, Debug)]
struct Breaker {
    ends: VecDeque<MonoTime>,
    ends_max: usize,
    window: Duration,
    is_testing: bool,
    ladder: Ladder,
}

impl Breaker {
    fn new(limits: &Limits) -> Self {
        Self {
            ends: VecDeque::new(),
            ends_max: usize::from(limits.breaker_ends),
            window: limits.breaker_window,
            is_testing: false,
            ladder: Ladder::new(limits.breaker_first, limits.breaker_top),
        }
    }

    /// Forgets ends that are too long ago to count.
    fn forget(&mut self, now: &mut Now) {
        let window = self.window;
        self.ends
            .retain(|end| !now.reached(end.after(window), Why::Worker));
    }

    /// A worker ended. Gives the rest, if that opens it.
    fn ended(&mut self, now: MonoTime) -> Option<Duration> {
        self.ends.push_back(now);
        if !self.is_testing && self.ends.len() < self.ends_max {
            return None;
        }
        self.ends.clear();
        self.is_testing = true;
        Some(self.ladder.climb())
    }

    /// A turn was finished.
    const fn finished(&mut self) {
        self.is_testing = false;
        self.ladder.reset();
    }
}

/// What ended with a worker.
struct Lost {
    turn: Option<TurnId>,
    /// Until the next one.
    wait: Duration,
    is_breaker_open: bool,
}

impl Slot {
    /// Whether it may be given a turn.
    fn is_free(&self) -> bool {
        self.phase == Phase::Idle && !self.is_outdated
    }
}

impl Slots {
    pub(super) fn new(workers: u16, limits: &Limits, seed: Seed, now: MonoTime) -> Self {
        let rows = (0..workers).map(|slot| Slot {
            worker: WorkerId {
                slot,
                incarnation: 0,
            },
            phase: Phase::Down { until: now },
            ladder: Ladder::new(limits.respawn_first, limits.respawn_top),
            breaker: Breaker::new(limits),
            refused: 0,
            used: now,
            is_outdated: false,
        });
        Self {
            rows: rows.collect(),
            limits: limits.clone(),
            seed,
        }
    }

    /// Workers that are ready or at work.
    pub(super) fn up(&self) -> usize {
        let is_up = |slot: &&Slot| matches!(slot.phase, Phase::Idle | Phase::Busy(_));
        self.rows.iter().filter(is_up).count()
    }

    pub(super) fn are_down(&self) -> bool {
        self.rows
            .iter()
            .all(|slot| matches!(slot.phase, Phase::Down { .. }))
    }

    pub(super) fn has_idle(&self) -> bool {
        self.rows.iter().any(Slot::is_free)
    }

    pub(super) fn is_idle(&self, worker: WorkerId) -> bool {
        self.slot(worker).is_some_and(Slot::is_free)
    }

    pub(super) fn is_busy(&self, worker: WorkerId) -> bool {
        self.slot(worker)
            .is_some_and(|slot| matches!(slot.phase, Phase::Busy(_)))
    }

    /// The idle worker with the least `cost`, of these the one that was used longest ago.
    pub(super) fn idle_worker<C: Ord>(&self, cost: impl Fn(WorkerId) -> C) -> Option<WorkerId> {
        self.rows
            .iter()
            .filter(|slot| slot.is_free())
            .min_by_key(|slot| (cost(slot.worker), slot.used))
            .map(|slot| slot.worker)
    }

    /// A worker takes a turn.
    pub(super) fn occupy(&mut self, worker: WorkerId, turn: TurnId) {
        if let Some(slot) = self.slot_mut(worker) {
            slot.phase = Phase::Busy(turn);
        }
    }

    /// A worker has no turn any more; a turn that was finished makes its slot trusted again.
    pub(super) fn free(&mut self, worker: WorkerId, is_finished: bool, now: MonoTime) {
        let Some(slot) = self.slot_mut(worker) else {
            return;
        };
        if is_finished {
            slot.ladder.reset();
            slot.breaker.finished();
        }
        slot.used = now;
        match slot.phase {
            Phase::Busy(_) => slot.phase = Phase::Idle,
            Phase::Stopping { until, turn: _ } => {
                slot.phase = Phase::Stopping { until, turn: None };
            }
            Phase::Down { .. } | Phase::Starting { .. } | Phase::Idle => {}
        }
    }

    /// A worker opened a session, or did not. Whether it has failed to so often that it is to be
    /// replaced.
    pub(super) fn judge_opening(&mut self, worker: WorkerId, is_open: bool) -> bool {
        let most = self.limits.opens_max;
        let Some(slot) = self.slot_mut(worker) else {
            return false;
        };
        slot.refused = if is_open {
            0
        } else {
            slot.refused.saturating_add(1)
        };
        slot.refused >= most
    }

    /// Ends a worker; whether that is news.
    pub(super) fn kill(&mut self, worker: WorkerId, now: MonoTime, out: &mut Vec<Action>) -> bool {
        let until = now.after(self.limits.exit);
        let Some(slot) = self.slot_mut(worker) else {
            return false;
        };
        let turn = match slot.phase {
            Phase::Down { .. } | Phase::Stopping { .. } => return false,
            Phase::Starting { .. } | Phase::Idle => None,
            Phase::Busy(turn) => Some(turn),
        };
        slot.phase = Phase::Stopping { until, turn };
        out.push(Action::Kill { worker });
        true
    }

    /// Ends the workers that run no turn; whether there was one.
    pub(super) fn kill_spare(&mut self, now: MonoTime, out: &mut Vec<Action>) -> bool {
        self.kill_those(
            |slot| matches!(slot.phase, Phase::Starting { .. } | Phase::Idle),
            now,
            out,
        )
    }

    /// Ends the workers that run no turn and are to be replaced; whether there was one.
    pub(super) fn kill_outdated(&mut self, now: MonoTime, out: &mut Vec<Action>) -> bool {
        self.kill_those(
            |slot| slot.is_outdated && matches!(slot.phase, Phase::Starting { .. } | Phase::Idle),
            now,
            out,
        )
    }

    fn kill_those(
        &mut self,
        fits: impl Fn(&Slot) -> bool,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) -> bool {
        let fitting = self.rows.iter().filter(|slot| fits(slot));
        let workers: Vec<WorkerId> = fitting.map(|slot| slot.worker).collect();
        for worker in &workers {
            self.kill(*worker, now, out);
        }
        !workers.is_empty()
    }

    /// Every worker is to be replaced. One that is down may come at once, as another.
    pub(super) fn renew(&mut self, now: MonoTime) {
        for slot in &mut self.rows {
            slot.ladder.reset();
            slot.breaker.finished();
            slot.breaker.ends.clear();
            match &mut slot.phase {
                Phase::Down { until } => *until = now.min(*until),
                Phase::Starting { .. } | Phase::Idle | Phase::Busy(_) | Phase::Stopping { .. } => {
                    slot.is_outdated = true;
                }
            }
        }
    }

    /// Starts workers whose wait is over; whether there was one.
    fn spawn(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let mut moved = false;
        for slot in &mut self.rows {
            let Phase::Down { until } = slot.phase else {
                continue;
            };
            if now.reached(until, Why::Worker) {
                slot.worker.incarnation = slot.worker.incarnation.wrapping_add(1);
                slot.phase = Phase::Starting {
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

    /// Forgets the ends of workers that are too long ago to count.
    fn forget_ends(&mut self, now: &mut Now) {
        for slot in &mut self.rows {
            slot.breaker.forget(now);
        }
    }

    /// Workers whose start or end takes too long.
    fn overdue(&self, now: &mut Now) -> Vec<WorkerId> {
        let is_overdue = |slot: &&Slot| match slot.phase {
            Phase::Starting { until } | Phase::Stopping { until, .. } => {
                now.reached(until, Why::Worker)
            }
            Phase::Down { .. } | Phase::Idle | Phase::Busy(_) => false,
        };
        self.rows
            .iter()
            .filter(is_overdue)
            .map(|slot| slot.worker)
            .collect()
    }

    /// A worker is gone. Gives what ended with it; nothing if it was gone already.
    fn lose(&mut self, worker: WorkerId, now: MonoTime) -> Option<Lost> {
        let seed = self.seed;
        let slot = self.slot_mut(worker)?;
        let turn = match slot.phase {
            Phase::Down { .. } => return None,
            Phase::Starting { .. } | Phase::Idle => None,
            Phase::Busy(turn) => Some(turn),
            Phase::Stopping { turn, .. } => turn,
        };
        let (wait, is_breaker_open) = if core::mem::take(&mut slot.is_outdated) {
            (Duration::ZERO, false)
        } else {
            let rest = slot.breaker.ended(now);
            let wait = slot.ladder.climb_drawn(seed, u64::from(worker.slot));
            (rest.unwrap_or_default().max(wait), rest.is_some())
        };
        slot.refused = 0;
        slot.phase = Phase::Down {
            until: now.after(wait),
        };
        Some(Lost {
            turn,
            wait,
            is_breaker_open,
        })
    }

    fn slot(&self, worker: WorkerId) -> Option<&Slot> {
        self.rows
            .get(usize::from(worker.slot))
            .filter(|slot| slot.worker == worker)
    }

    fn slot_mut(&mut self, worker: WorkerId) -> Option<&mut Slot> {
        self.rows
            .get_mut(usize::from(worker.slot))
            .filter(|slot| slot.worker == worker)
    }
}

impl Part {
    pub(super) fn worker_up(&mut self, worker: WorkerId, out: &mut Vec<Action>) {
        let slot = self.slots.slot_mut(worker);
        match slot.filter(|slot| matches!(slot.phase, Phase::Starting { .. })) {
            Some(slot) => {
                slot.phase = Phase::Idle;
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
        let Some(lost) = self.slots.lose(worker, now) else {
            return stale(StaleWhat::Worker, out);
        };
        self.sessions.lose(worker);
        let is_working = matches!(self.life, Life::Working);
        out.push(Action::Note(Note::WorkerDown {
            worker,
            cause: cause.clone(),
            wait: is_working.then_some(lost.wait),
        }));
        if lost.is_breaker_open && is_working {
            let wait = lost.wait;
            out.push(Action::Note(Note::BreakerOpened { worker, wait }));
        }
        if let Some(turn) = lost.turn {
            self.end_with_worker(turn, &cause, now, out);
        }
    }

    /// Starts and replaces workers; whether anything moved.
    pub(super) fn pump_workers(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        if !self.life.is_ending() {
            self.slots.forget_ends(now);
        }
        let overdue = self.slots.overdue(now);
        for worker in &overdue {
            // One that does not even end when it is killed counts as gone.
            if !self.slots.kill(*worker, now.time(), out) {
                self.worker_down(*worker, DownCause::Killed, now.time(), out);
            }
        }
        let replaced = self.slots.kill_outdated(now.time(), out);
        let started = !self.life.is_ending() && self.slots.spawn(now, out);
        started || replaced || !overdue.is_empty()
    }
}
