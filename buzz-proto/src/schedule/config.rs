//! Settings of the scheduler.

use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, at_least, lasting};
use crate::ids::PubKey;

/// Settings of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How many workers.
    pub workers: u16,
    /// What is one conversation.
    pub policy: Policy,
    /// Who may address the agent.
    pub respond_to: RespondTo,
    /// The human who owns the agent: may always address it, and may command it.
    pub owner: Option<PubKey>,
    /// Kinds that are answered; none means every kind.
    pub kinds: Vec<u32>,
    /// Whether an event must mention the agent.
    pub mention_only: bool,
    /// Whether a turn that ends without an answer is said in its thread.
    pub notices: bool,
    /// Whether typing and presence are shown.
    pub cosmetics: bool,
    /// Limits of time and number.
    pub limits: Limits,
}

/// What is one conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// Each thread; a direct message is always one as a whole.
    Thread,
    /// Each channel.
    Channel,
}

/// Who may address the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum RespondTo {
    /// Its owner.
    OwnerOnly,
    /// Its owner, and these outside of direct messages.
    Allowlist(Vec<PubKey>),
    /// Everyone; in direct messages its owner.
    Anyone,
    /// Nobody.
    Nobody,
}

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
            command_age: Duration::from_secs(300),
            typing: Duration::from_secs(3),
            presence: Duration::from_secs(60),
        }
    }
}

impl Config {
    /// The defaults for so many workers: threads are conversations, only the owner is answered.
    #[must_use]
    pub fn new(workers: u16) -> Self {
        Self {
            workers,
            policy: Policy::Thread,
            respond_to: RespondTo::OwnerOnly,
            owner: None,
            kinds: alloc::vec![9, 46_010, 40_007],
            mention_only: true,
            notices: true,
            cosmetics: true,
            limits: Limits::default(),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        for (setting, value) in [
            ("schedule.workers", u32::from(self.workers)),
            ("schedule.limits.batch_max", limits.batch_max),
            ("schedule.limits.channel_max", limits.channel_max),
            ("schedule.limits.total_max", limits.total_max),
            ("schedule.limits.lives_max", limits.lives_max),
            (
                "schedule.limits.sessions_max",
                u32::from(limits.sessions_max),
            ),
            ("schedule.limits.parts_max", u32::from(limits.parts_max)),
        ] {
            at_least(setting, u64::from(value), 1)?;
        }
        at_least(
            "schedule.limits.message_bytes_max",
            u64::from(limits.message_bytes_max),
            256,
        )?;
        for (setting, span) in [
            ("schedule.limits.start", limits.start),
            ("schedule.limits.session_open", limits.session_open),
            ("schedule.limits.exit", limits.exit),
            ("schedule.limits.session_idle", limits.session_idle),
            ("schedule.limits.turn_idle", limits.turn_idle),
            ("schedule.limits.turn_hard", limits.turn_hard),
            ("schedule.limits.cancel_grace", limits.cancel_grace),
            ("schedule.limits.respawn_first", limits.respawn_first),
            ("schedule.limits.typing", limits.typing),
            ("schedule.limits.presence", limits.presence),
        ] {
            lasting(setting, span)?;
        }
        Ok(())
    }
}
