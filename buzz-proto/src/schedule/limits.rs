//! Limits of the scheduler.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, at_least, lasting};

/// Limits of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Events in one turn.
    pub batch_max: u32,
    /// Queued events of one channel.
    pub channel_max: u32,
    /// Queued events in all.
    pub total_max: u32,
    /// Lives of the agent in which work on an event may be begun; an event that was not ended in so
    /// many is reported instead. At least 1.
    pub lives_max: u32,
    /// Live sessions of one worker.
    pub sessions_max: u16,
    /// How long a thread waits for the worker of its session before it goes to another one; zero
    /// means not at all.
    #[serde(with = "crate::json::nanos")]
    pub hold: Duration,
    /// Attempts at one event.
    pub attempts_max: u16,
    /// The wait before the second attempt; each further one is twice as long.
    #[serde(with = "crate::json::nanos")]
    pub retry_first: Duration,
    /// The longest of these waits.
    #[serde(with = "crate::json::nanos")]
    pub retry_top: Duration,
    /// Workers that may end at one event before it is given up.
    pub crashes_max: u16,
    /// The rest of all workers after a usage limit that names no end.
    #[serde(with = "crate::json::nanos")]
    pub usage_wait: Duration,
    /// The longest rest after a usage limit, whatever end it names.
    #[serde(with = "crate::json::nanos")]
    pub usage_wait_max: Duration,
    /// Sessions in a row that a worker may fail to open before it is replaced.
    pub opens_max: u16,
    /// Bytes of one message; a longer reply is split.
    pub message_bytes_max: u32,
    /// Messages of one reply; what is beyond is cut, and said.
    pub parts_max: u16,
    /// A worker's start, handshake included.
    #[serde(with = "crate::json::nanos")]
    pub start: Duration,
    /// A session's opening.
    #[serde(with = "crate::json::nanos")]
    pub session_open: Duration,
    /// A worker's exit after it was killed.
    #[serde(with = "crate::json::nanos")]
    pub exit: Duration,
    /// A session without work.
    #[serde(with = "crate::json::nanos")]
    pub session_idle: Duration,
    /// A turn without a sign of life.
    #[serde(with = "crate::json::nanos")]
    pub turn_idle: Duration,
    /// A turn in all.
    #[serde(with = "crate::json::nanos")]
    pub turn_hard: Duration,
    /// From a cancel to the end of its turn; then the worker is replaced.
    #[serde(with = "crate::json::nanos")]
    pub cancel_grace: Duration,
    /// First rung of a slot's respawn ladder.
    #[serde(with = "crate::json::nanos")]
    pub respawn_first: Duration,
    /// Last rung.
    #[serde(with = "crate::json::nanos")]
    pub respawn_top: Duration,
    /// Ends of a slot's workers within `breaker_window` that open its breaker.
    pub breaker_ends: u16,
    /// See `breaker_ends`.
    #[serde(with = "crate::json::nanos")]
    pub breaker_window: Duration,
    /// How long a breaker stays open at first; each time in a row it is twice as long.
    #[serde(with = "crate::json::nanos")]
    pub breaker_first: Duration,
    /// The longest of these.
    #[serde(with = "crate::json::nanos")]
    pub breaker_top: Duration,
    /// Earlier messages that a fresh session is told; zero means none.
    pub context_max: u32,
    /// From asking for them to starting without.
    #[serde(with = "crate::json::nanos")]
    pub context: Duration,
    /// Finding out whether an author is an agent of the same owner.
    #[serde(with = "crate::json::nanos")]
    pub look_up: Duration,
    /// From the arrival of an event whose author could not be looked up to its refusal.
    #[serde(with = "crate::json::nanos")]
    pub look_up_patience: Duration,
    /// A message that waits longer bears another mark.
    #[serde(with = "crate::json::nanos")]
    pub waiting: Duration,
    /// An owner command older than this is refused.
    #[serde(with = "crate::json::nanos")]
    pub command_age: Duration,
    /// Between typing indicators while a turn runs.
    #[serde(with = "crate::json::nanos")]
    pub typing: Duration,
    /// Between presence messages.
    #[serde(with = "crate::json::nanos")]
    pub presence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            batch_max: 50,
            channel_max: 500,
            total_max: 5000,
            lives_max: 3,
            sessions_max: 8,
            hold: Duration::from_secs(10),
            attempts_max: 10,
            retry_first: Duration::from_secs(5),
            retry_top: Duration::from_secs(300),
            crashes_max: 3,
            usage_wait: Duration::from_secs(30 * 60),
            usage_wait_max: Duration::from_secs(24 * 3600),
            opens_max: 3,
            message_bytes_max: 32 << 10,
            parts_max: 8,
            start: Duration::from_secs(60),
            session_open: Duration::from_secs(60),
            exit: Duration::from_secs(5),
            session_idle: Duration::from_secs(45 * 60),
            turn_idle: Duration::from_secs(900),
            turn_hard: Duration::from_secs(7200),
            cancel_grace: Duration::from_secs(5),
            respawn_first: Duration::from_secs(1),
            respawn_top: Duration::from_secs(60),
            breaker_ends: 3,
            breaker_window: Duration::from_secs(60),
            breaker_first: Duration::from_secs(60),
            breaker_top: Duration::from_secs(300),
            context_max: 12,
            context: Duration::from_millis(6500),
            look_up: Duration::from_secs(2),
            look_up_patience: Duration::from_secs(15 * 60),
            waiting: Duration::from_secs(60),
            command_age: Duration::from_secs(300),
            typing: Duration::from_secs(3),
            presence: Duration::from_secs(60),
        }
    }
}

impl Limits {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        for (setting, value) in [
            ("schedule.limits.batch_max", self.batch_max),
            ("schedule.limits.channel_max", self.channel_max),
            ("schedule.limits.total_max", self.total_max),
            ("schedule.limits.lives_max", self.lives_max),
            ("schedule.limits.sessions_max", u32::from(self.sessions_max)),
            ("schedule.limits.parts_max", u32::from(self.parts_max)),
            ("schedule.limits.attempts_max", u32::from(self.attempts_max)),
            ("schedule.limits.crashes_max", u32::from(self.crashes_max)),
            ("schedule.limits.opens_max", u32::from(self.opens_max)),
            ("schedule.limits.breaker_ends", u32::from(self.breaker_ends)),
        ] {
            at_least(setting, u64::from(value), 1)?;
        }
        at_least(
            "schedule.limits.message_bytes_max",
            u64::from(self.message_bytes_max),
            256,
        )?;
        for (setting, span) in [
            ("schedule.limits.start", self.start),
            ("schedule.limits.session_open", self.session_open),
            ("schedule.limits.exit", self.exit),
            ("schedule.limits.session_idle", self.session_idle),
            ("schedule.limits.turn_idle", self.turn_idle),
            ("schedule.limits.turn_hard", self.turn_hard),
            ("schedule.limits.cancel_grace", self.cancel_grace),
            ("schedule.limits.respawn_first", self.respawn_first),
            ("schedule.limits.typing", self.typing),
            ("schedule.limits.presence", self.presence),
            ("schedule.limits.retry_first", self.retry_first),
            ("schedule.limits.usage_wait", self.usage_wait),
            ("schedule.limits.breaker_first", self.breaker_first),
            ("schedule.limits.look_up", self.look_up),
            ("schedule.limits.waiting", self.waiting),
        ] {
            lasting(setting, span)?;
        }
        Ok(())
    }
}
