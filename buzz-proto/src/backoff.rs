//! A ladder of waits: each failure in a row waits twice as long as the one before it.

use core::time::Duration;

use crate::seed::Seed;

/// Waits of `first`, twice that, four times that, up to `top`.
///
/// It knows no time: its owner stamps the wait it hands out, and decides what counts as a success.
#[derive(Clone, Debug)]
pub struct Ladder {
    first: Duration,
    top: Duration,
    rung: u32,
    /// Counts climbs for ever, so that two waits on the same rung are drawn apart.
    climbs: u64,
}

impl Ladder {
    /// A ladder at its first rung. A `top` below `first` reads as `first`.
    #[must_use]
    pub fn new(first: Duration, top: Duration) -> Self {
        Self {
            first,
            top: top.max(first),
            rung: 0,
            climbs: 0,
        }
    }

    /// The span of the present rung; steps up.
    pub fn climb(&mut self) -> Duration {
        let span = self.peek();
        self.rung = self.rung.saturating_add(1);
        self.climbs = self.climbs.wrapping_add(1);
        span
    }

    /// A wait drawn from half to the whole of the present rung; steps up.
    ///
    /// Machines that failed together have different seeds and so come back apart; one machine
    /// tells its ladders apart by `key`.
    pub fn climb_drawn(&mut self, seed: Seed, key: u64) -> Duration {
        let attempt = self.climbs;
        let span = self.climb();
        let half = span.checked_div(2).unwrap_or_default();
        seed.between(key, attempt, half, span)
    }

    /// The span that the next climb gives, without climbing.
    #[must_use]
    pub fn peek(&self) -> Duration {
        let factor = 1_u32.checked_shl(self.rung).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.top)
    }

    /// Back to the first rung.
    pub const fn reset(&mut self) {
        self.rung = 0;
    }

    /// Climbs since the last reset.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.rung
    }
}
