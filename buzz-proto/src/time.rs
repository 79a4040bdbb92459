//! Time as a value: a monotonic instant, a wall-clock second, and the one guard that tests them.
//!
//! The machine never reads a clock. Every call brings the present with it, and every decision that
//! waits asks [`Now::reached`]: a guard that is still shut arms the wake, so no deadline can be
//! forgotten and none can lie in the past.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// Nanoseconds on a monotonic clock that includes time spent in suspend. The epoch is the driver's.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MonoTime(u64);

impl MonoTime {
    /// The driver's epoch.
    pub const ZERO: Self = Self(0);

    /// The instant `nanos` nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This instant plus `span`, at most the end of time (584 years after the epoch).
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// How long ago `earlier` was; nothing when it lies ahead.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This instant rounded up to a whole millisecond, the grain of deadlines.
    #[must_use]
    pub const fn round_up(self) -> Self {
        const MILLI: u64 = 1_000_000;
        match self.0.checked_next_multiple_of(MILLI) {
            Some(nanos) => Self(nanos),
            None => self,
        }
    }
}

impl fmt::Display for MonoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = Duration::from_nanos(self.0);
        write!(f, "{}.{:03}s", span.as_secs(), span.subsec_millis())
    }
}

/// Seconds of the Unix epoch: `created_at` of NIP-01 and the wall clock. Never mixed with
/// [`MonoTime`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UnixTime(pub u64);

impl UnixTime {
    /// This second plus `span`, whole seconds.
    #[must_use]
    pub const fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.as_secs()))
    }

    /// This second minus `span`, not before the epoch.
    #[must_use]
    pub const fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span.as_secs()))
    }

    /// How long ago `earlier` was; nothing when it lies ahead.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The wall clock as last reported, extrapolated with the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    seen: UnixTime,
    at: MonoTime,
}

impl WallClock {
    /// The wall clock showed `seen` at the instant `at`.
    #[must_use]
    pub const fn new(seen: UnixTime, at: MonoTime) -> Self {
        Self { seen, at }
    }

    /// What it shows at `now`.
    #[must_use]
    pub const fn at(self, now: MonoTime) -> UnixTime {
        self.seen.after(now.saturating_since(self.at))
    }
}

/// Why a deadline stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Why {
    /// The reconnect ladder.
    Reconnect,
    /// A dial has its limit.
    Dial,
    /// Authentication has its limit.
    Auth,
    /// A relay that sends no challenge is taken to want none.
    NoChallenge,
    /// A write has its limit.
    Write,
    /// Silence calls for a ping.
    Ping,
    /// A ping awaits its answer.
    Pong,
    /// A stable connection resets the ladder.
    Stable,
    /// A subscription awaits its confirmation.
    Confirmation,
    /// A subscription waits before it is asked again.
    Resubscribe,
    /// What was lost may be read again.
    Recovery,
    /// A read of stored events has its limit.
    Page,
    /// Records are kept.
    Persist,
    /// What is stored is compared with what was delivered.
    Audit,
    /// A rate gate opens.
    Gate,
    /// A token bucket refills.
    Bucket,
    /// A verification has its limit.
    Verify,
    /// A signature has its limit.
    Sign,
    /// An HTTP call has its limit.
    Answer,
    /// An EVENT on the socket awaits its OK.
    Receipt,
    /// The roster is read again.
    Roster,
    /// What the relay tells of itself is asked again.
    Inform,
    /// A job's deadline.
    Expiry,
    /// A job, or the signer, rests before it is tried again.
    Retry,
    /// A worker start has its limit, or waits on its ladder.
    Worker,
    /// A session opening has its limit.
    SessionOpen,
    /// A turn's idle limit.
    TurnIdle,
    /// A turn's hard limit.
    TurnHard,
    /// A cancelled turn has its grace.
    CancelGrace,
    /// A thread has waited long enough for the worker of its session.
    Hold,
    /// A batch is tried again.
    Attempt,
    /// A usage limit ends.
    UsageLimit,
    /// A message has waited for long.
    Waiting,
    /// An author is looked up.
    LookUp,
    /// What was said before is awaited.
    Context,
    /// A session was idle too long.
    SessionIdle,
    /// Typing or presence is due again.
    Cosmetic,
    /// Shutdown has its limit.
    Shutdown,
    /// A summary of repeated notes is due.
    Summary,
}

/// The present, and the earliest instant at which a guard that is shut now will open.
#[derive(Clone, Debug)]
pub struct Now {
    time: MonoTime,
    wake: Option<(MonoTime, Why)>,
}

impl Now {
    /// The present, with no wake armed.
    #[must_use]
    pub const fn new(time: MonoTime) -> Self {
        Self { time, wake: None }
    }

    /// For stamping, never for comparing.
    #[must_use]
    pub const fn time(&self) -> MonoTime {
        self.time
    }

    /// Whether `at`, rounded up to a whole millisecond, has come. If not, the wake is armed for it.
    pub fn reached(&mut self, at: MonoTime, why: Why) -> bool {
        let at = at.round_up();
        if self.time >= at {
            return true;
        }
        // Of two guards that open together the same one stands, whichever was asked first.
        if self.wake.is_none_or(|wake| (at, why) < wake) {
            self.wake = Some((at, why));
        }
        false
    }

    /// The earliest shut guard: always later than the present.
    #[must_use]
    pub const fn wake(&self) -> Option<(MonoTime, Why)> {
        self.wake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> MonoTime {
        MonoTime::from_nanos(n * 1_000_000)
    }

    #[test]
    fn a_shut_guard_arms_the_earliest_wake() {
        let mut now = Now::new(ms(10));
        assert!(!now.reached(ms(30), Why::Dial));
        assert!(!now.reached(ms(20), Why::Auth));
        assert!(!now.reached(ms(25), Why::Ping));
        assert!(now.reached(ms(10), Why::Pong));
        assert_eq!(now.wake(), Some((ms(20), Why::Auth)));
    }

    #[test]
    fn the_reason_does_not_depend_on_the_order_of_asking() {
        let mut now = Now::new(ms(10));
        assert!(!now.reached(ms(20), Why::Ping));
        assert!(!now.reached(ms(20), Why::Auth));
        assert!(!now.reached(ms(20), Why::Ping));
        assert_eq!(now.wake(), Some((ms(20), Why::Auth)));
    }

    #[test]
    fn a_deadline_is_rounded_up_to_a_whole_millisecond() {
        let mut now = Now::new(ms(1));
        assert!(!now.reached(MonoTime::from_nanos(1_000_001), Why::Dial));
        assert_eq!(now.wake(), Some((ms(2), Why::Dial)));
    }

    #[test]
    fn the_end_of_time_does_not_overflow() {
        let end = MonoTime::from_nanos(u64::MAX);
        assert_eq!(end.after(Duration::MAX), end);
        assert_eq!(end.round_up(), end);
        assert_eq!(MonoTime::ZERO.saturating_since(end), Duration::ZERO);
    }
}
