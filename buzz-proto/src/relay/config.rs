//! Settings of the relay part.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::Record;
use crate::config::{ConfigError, at_least, lasting};
use crate::ids::ChannelId;

/// A verdict is looked for among all that are awaited.
const VERIFY_MAX: u32 = 8192;

/// Settings of the relay part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `ws://` or `wss://`, as dialed.
    pub url: String,
    /// Where the channels come from.
    pub channels: Channels,
    /// Kinds asked for in a channel. Default 9, 46010, 40007: messages, approvals, reminders.
    pub read_kinds: Vec<u32>,
    /// Whether only events that mention this agent are asked for. Default true.
    pub mention_only: bool,
    /// How far before the start events are owed, at the first start. Default none.
    #[serde(with = "crate::json::nanos")]
    pub look_back: Duration,
    /// What an earlier life left, and that records are to be kept for the next one. Without it
    /// nothing is kept: [`Action::Persist`](super::Action::Persist) is never ordered.
    pub records: Option<Vec<Record>>,
    /// Limits of time and number.
    pub limits: Limits,
}

/// Where the channels come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Channels {
    /// The relay's roster and its notices.
    Roster,
    /// This list alone. Each counts as a room and not as a direct message, because whoever lists
    /// it is taken to know it.
    Given(Vec<ChannelId>),
}

/// Limits of the relay part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Dial and upgrade.
    #[serde(with = "crate::json::nanos")]
    pub dial: Duration,
    /// From the upgrade to an accepted AUTH.
    #[serde(with = "crate::json::nanos")]
    pub auth: Duration,
    /// A relay that sent no challenge by then is used without AUTH.
    #[serde(with = "crate::json::nanos")]
    pub challenge: Duration,
    /// After an `auth-required:` answer, a challenge that can be answered in place; after an AUTH,
    /// its OK: a relay that says nothing by then is used all the same.
    #[serde(with = "crate::json::nanos")]
    pub challenge_again: Duration,
    /// A write.
    #[serde(with = "crate::json::nanos")]
    pub write: Duration,
    /// Silence before a ping.
    #[serde(with = "crate::json::nanos")]
    pub ping_after: Duration,
    /// A ping's answer.
    #[serde(with = "crate::json::nanos")]
    pub pong: Duration,
    /// The first rung of the reconnect ladder.
    #[serde(with = "crate::json::nanos")]
    pub reconnect_first: Duration,
    /// The last rung.
    #[serde(with = "crate::json::nanos")]
    pub reconnect_top: Duration,
    /// A connection live for this long resets the ladder.
    #[serde(with = "crate::json::nanos")]
    pub stable: Duration,
    /// Between dials to a relay that will not have us.
    #[serde(with = "crate::json::nanos")]
    pub reconnect_slow: Duration,
    /// The first confirmation of a subscription; doubled per repeat.
    #[serde(with = "crate::json::nanos")]
    pub confirmation: Duration,
    /// The longest confirmation.
    #[serde(with = "crate::json::nanos")]
    pub confirmation_top: Duration,
    /// Between roster reads, ± 20 %.
    #[serde(with = "crate::json::nanos")]
    pub sweep: Duration,
    /// Between two comparisons of a live subscription with what the relay stores, ± 20 %.
    #[serde(with = "crate::json::nanos")]
    pub audit: Duration,
    /// An HTTP answer.
    #[serde(with = "crate::json::nanos")]
    pub answer: Duration,
    /// A verification.
    #[serde(with = "crate::json::nanos")]
    pub verify: Duration,
    /// A signature.
    #[serde(with = "crate::json::nanos")]
    pub sign: Duration,
    /// An OK.
    #[serde(with = "crate::json::nanos")]
    pub receipt: Duration,
    /// How far author clocks and relay clocks may lie apart: cursors look back by this.
    #[serde(with = "crate::json::nanos")]
    pub drift: Duration,
    /// REQs that have neither EOSE nor CLOSED.
    pub unanswered_max: u32,
    /// Stored events asked for by the REQ of a live subscription. A relay buffers 1000 frames:
    /// those of all unanswered REQs and of one page are to be fewer.
    pub live_page: u32,
    /// Stored events asked for at once by a read of history.
    pub page: u32,
    /// Silence of the relay in the middle of a read of history.
    #[serde(with = "crate::json::nanos")]
    pub page_silence: Duration,
    /// Subscriptions.
    pub subscriptions_max: u32,
    /// Events awaiting verification, at most 8192.
    pub verify_max: u32,
    /// Bytes awaiting verification.
    pub verify_bytes_max: u64,
    /// Bytes of the events that the consumer holds; one subscription has at most a quarter.
    pub bytes_max: u64,
    /// Event ids remembered as seen.
    pub seen_max: u32,
    /// Bytes of a frame.
    pub frame_bytes_max: u64,
    /// EVENTs that wait for the socket or for their OK.
    pub outbound_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            dial: Duration::from_secs(30),
            auth: Duration::from_secs(20),
            challenge: Duration::from_secs(3),
            challenge_again: Duration::from_secs(5),
            write: Duration::from_secs(10),
            ping_after: Duration::from_secs(25),
            pong: Duration::from_secs(10),
            reconnect_first: Duration::from_secs(1),
            reconnect_top: Duration::from_secs(60),
            stable: Duration::from_secs(60),
            reconnect_slow: Duration::from_secs(300),
            confirmation: Duration::from_secs(60),
            confirmation_top: Duration::from_secs(300),
            sweep: Duration::from_secs(90),
            audit: Duration::from_secs(600),
            answer: Duration::from_secs(15),
            verify: Duration::from_secs(10),
            sign: Duration::from_secs(20),
            receipt: Duration::from_secs(15),
            drift: Duration::from_secs(1080),
            unanswered_max: 10,
            live_page: 50,
            page: 200,
            page_silence: Duration::from_secs(30),
            subscriptions_max: 1000,
            verify_max: 1024,
            verify_bytes_max: 16 << 20,
            bytes_max: 64 << 20,
            seen_max: 262_144,
            frame_bytes_max: 16 << 20,
            outbound_max: 256,
        }
    }
}

impl Config {
    /// The defaults for a relay.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            url: url.into(),
            channels: Channels::Roster,
            read_kinds: vec![9, 46_010, 40_007],
            mention_only: true,
            look_back: Duration::ZERO,
            records: None,
            limits: Limits::default(),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        if !self.url.starts_with("ws://") && !self.url.starts_with("wss://") {
            return Err(ConfigError::new(
                "relay.url",
                "must begin with ws:// or wss://",
            ));
        }
        for (setting, span) in [
            ("relay.limits.dial", limits.dial),
            ("relay.limits.auth", limits.auth),
            ("relay.limits.challenge", limits.challenge),
            ("relay.limits.write", limits.write),
            ("relay.limits.ping_after", limits.ping_after),
            ("relay.limits.pong", limits.pong),
            ("relay.limits.reconnect_first", limits.reconnect_first),
            ("relay.limits.reconnect_slow", limits.reconnect_slow),
            ("relay.limits.confirmation", limits.confirmation),
            ("relay.limits.sweep", limits.sweep),
            ("relay.limits.audit", limits.audit),
            ("relay.limits.answer", limits.answer),
            ("relay.limits.verify", limits.verify),
            ("relay.limits.sign", limits.sign),
            ("relay.limits.receipt", limits.receipt),
            ("relay.limits.page_silence", limits.page_silence),
        ] {
            lasting(setting, span)?;
        }
        if limits.challenge >= limits.auth {
            return Err(ConfigError::new(
                "relay.limits.challenge",
                "must be shorter than auth",
            ));
        }
        for (setting, value) in [
            ("relay.limits.unanswered_max", limits.unanswered_max),
            ("relay.limits.live_page", limits.live_page),
            ("relay.limits.page", limits.page),
            ("relay.limits.subscriptions_max", limits.subscriptions_max),
            ("relay.limits.verify_max", limits.verify_max),
            ("relay.limits.seen_max", limits.seen_max),
            ("relay.limits.outbound_max", limits.outbound_max),
        ] {
            at_least(setting, u64::from(value), 1)?;
        }
        if limits.verify_max > VERIFY_MAX {
            return Err(ConfigError::new(
                "relay.limits.verify_max",
                &alloc::format!("is {}; it must be at most {VERIFY_MAX}", limits.verify_max),
            ));
        }
        let largest_event = 1 << 20;
        at_least(
            "relay.limits.frame_bytes_max",
            limits.frame_bytes_max,
            largest_event,
        )?;
        at_least(
            "relay.limits.verify_bytes_max",
            limits.verify_bytes_max,
            largest_event,
        )?;
        at_least(
            "relay.limits.bytes_max",
            limits.bytes_max,
            4 * largest_event,
        )
    }
}
