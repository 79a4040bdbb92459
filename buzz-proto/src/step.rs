//! The frame of a call: time that never falls, rounds until nothing moves, one wake at the exit.

use crate::time::{MonoTime, Now, Why};

/// More rounds than this mean that two decisions undo each other.
const ROUNDS_MAX: u32 = 256;

/// What a machine remembers between calls: the last time it was told, and the wake it announced.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    last: MonoTime,
    wake: Option<(MonoTime, Why)>,
    announced: Option<MonoTime>,
}

impl Step {
    pub(crate) const fn new(now: MonoTime) -> Self {
        Self {
            last: now,
            wake: None,
            announced: None,
        }
    }

    /// The time of this call: what the driver says, but never earlier than before.
    pub(crate) fn enter(&mut self, now: MonoTime) -> MonoTime {
        self.last = self.last.max(now);
        self.last
    }

    /// Decides in rounds until one moves nothing. Each round begins without a wake, and the wake of
    /// the last one stands: in it every guard that is still shut was asked.
    pub(crate) fn settle(&mut self, mut round: impl FnMut(&mut Now) -> bool) {
        for _ in 0..ROUNDS_MAX {
            let mut now = Now::new(self.last);
            if !round(&mut now) {
                self.wake = now.wake();
                return;
            }
        }
        debug_assert!(false, "decisions undo each other");
        self.wake = Some((
            self.last.after(core::time::Duration::from_secs(1)),
            Why::Summary,
        ));
    }

    /// The wake to announce, if it is not the one announced last.
    pub(crate) fn leave(&mut self) -> Option<Option<MonoTime>> {
        let wake = self.wake.map(|(at, _)| at);
        debug_assert!(
            wake.is_none_or(|at| at > self.last),
            "a wake lies in the past"
        );
        if wake == self.announced {
            return None;
        }
        self.announced = wake;
        Some(wake)
    }

    /// When the next `Tick` is wanted, and why.
    pub(crate) const fn wake(&self) -> Option<(MonoTime, Why)> {
        self.wake
    }
}
