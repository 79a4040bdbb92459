//! A token bucket, in integers, that keeps below a known quota before being told.

use core::time::Duration;

use crate::time::{MonoTime, Now, Why};

/// At most `burst` tokens at once, and after that one per interval.
///
/// In any window of length t it gives at most burst + t/interval tokens. It keeps one instant
/// instead of a count, that at which it is full again; so it needs no refilling and no rounding.
#[derive(Clone, Debug)]
pub struct Bucket {
    interval: Duration,
    /// How far ahead `full_at` may lie while a token is left: all intervals but one.
    slack: Duration,
    full_at: MonoTime,
}

impl Bucket {
    /// A full bucket that gains `rate` tokens per second and holds `burst`.
    #[must_use]
    pub fn per_second(rate: u32, burst: u32) -> Self {
        Self::new(rate, Duration::from_secs(1), burst)
    }

    /// A full bucket that gains `rate` tokens per `period` and holds `burst`. Zero reads as one,
    /// for both: a bucket that never gives a token would be a stop without a deadline.
    #[must_use]
    pub fn new(rate: u32, period: Duration, burst: u32) -> Self {
        // Rounded up, so that the quota holds to the nanosecond.
        let nanos = period.as_nanos().div_ceil(u128::from(rate.max(1)));
        let interval = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        Self {
            interval,
            slack: interval.saturating_mul(burst.max(1).saturating_sub(1)),
            full_at: MonoTime::ZERO,
        }
    }

    /// Whether a token is there, without taking it. An empty bucket arms the wake for the next.
    pub fn is_ready(&self, now: &mut Now, why: Why) -> bool {
        let ready_in = self
            .full_at
            .saturating_since(MonoTime::ZERO.after(self.slack));
        now.reached(MonoTime::ZERO.after(ready_in), why)
    }

    /// Takes a token if there is one. An empty bucket arms the wake for the next.
    pub fn take(&mut self, now: &mut Now, why: Why) -> bool {
        let ready = self.is_ready(now, why);
        if ready {
            self.full_at = self.full_at.max(now.time()).after(self.interval);
        }
        ready
    }
}
