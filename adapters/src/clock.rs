//! The system's clocks as the machine wants them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use buzz_proto::time::{MonoTime, UnixTime};

/// A monotonic clock whose epoch is its own start. On Linux and Android it goes on while the
/// machine is suspended; elsewhere it may stand still then.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Reading,
}

#[derive(Clone, Copy, Debug)]
enum Reading {
    /// Time since boot, suspend included.
    Boot(Duration),
    /// For systems without such a clock.
    Plain(Instant),
}

impl Clock {
    /// A clock that shows zero now.
    #[must_use]
    pub fn start() -> Self {
        let epoch = since_boot().map_or_else(|| Reading::Plain(Instant::now()), Reading::Boot);
        Self { epoch }
    }

    /// Time since the start; never falls.
    #[must_use]
    pub fn now(&self) -> MonoTime {
        let elapsed = match self.epoch {
            Reading::Boot(epoch) => since_boot().unwrap_or(epoch).saturating_sub(epoch),
            Reading::Plain(epoch) => epoch.elapsed(),
        };
        MonoTime::ZERO.after(elapsed)
    }

    /// The wall clock; the Unix epoch itself when it is set to an earlier time.
    #[must_use]
    pub fn wall() -> UnixTime {
        Self::wall_and_rest().0
    }

    /// The wall clock in whole seconds, and what they leave out, less than a second.
    pub(crate) fn wall_and_rest() -> (UnixTime, Duration) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default();
        let rest = Duration::from_nanos(since.subsec_nanos().into());
        (UnixTime(since.as_secs()), rest)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn since_boot() -> Option<Duration> {
    use nix::time::{ClockId, clock_gettime};
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .ok()
        .map(Duration::from)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
const fn since_boot() -> Option<Duration> {
    None
}
