//! Settings of the publisher.

use alloc::string::{String, ToString};
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, at_least, lasting};

/// Settings of the publisher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Jobs in the outbox.
    pub jobs_max: u32,
    /// Bytes of the events in the outbox.
    pub bytes_max: u64,
    /// `Latest` jobs among them.
    pub latest_max: u32,
    /// Messages whose mark is wanted or shown; each takes less than 2 KiB.
    pub marks_max: u32,
    /// The reaction that says [`Mark::Seen`](super::Mark::Seen), at most 64 characters.
    pub seen: String,
    /// The reaction that says [`Mark::Waiting`](super::Mark::Waiting), at most 64 characters.
    pub waiting: String,
    /// Calls under way over HTTP, and as many on the socket.
    pub in_flight_max: u32,
    /// Attempts of one job that are spent on failures of its own.
    pub attempts_max: u16,
    /// A signature.
    #[serde(with = "crate::json::nanos")]
    pub sign: Duration,
    /// An HTTP answer.
    #[serde(with = "crate::json::nanos")]
    pub answer: Duration,
    /// A receipt from the socket, connection included.
    #[serde(with = "crate::json::nanos")]
    pub receipt: Duration,
    /// How long a durable job may take in all.
    #[serde(with = "crate::json::nanos")]
    pub durable_ttl: Duration,
    /// How long a `Latest` job may take in all, and each step towards a mark.
    #[serde(with = "crate::json::nanos")]
    pub latest_ttl: Duration,
    /// A signature older than this is made anew before the event is sent again; an event that may be
    /// stored is then looked up first.
    #[serde(with = "crate::json::nanos")]
    pub signature_age: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            jobs_max: 2048,
            bytes_max: 16 << 20,
            latest_max: 512,
            marks_max: 2048,
            seen: "👀".to_string(),
            waiting: "⏳".to_string(),
            in_flight_max: 4,
            attempts_max: 8,
            sign: Duration::from_secs(20),
            answer: Duration::from_secs(15),
            receipt: Duration::from_secs(40),
            durable_ttl: Duration::from_secs(24 * 3600),
            latest_ttl: Duration::from_secs(60),
            signature_age: Duration::from_secs(600),
        }
    }
}

/// A Buzz relay refuses a longer reaction.
const MARK_CHARS_MAX: usize = 64;

impl Config {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        for (setting, value) in [
            ("publish.jobs_max", u64::from(self.jobs_max)),
            ("publish.bytes_max", self.bytes_max),
            ("publish.latest_max", u64::from(self.latest_max)),
            ("publish.marks_max", u64::from(self.marks_max)),
            ("publish.in_flight_max", u64::from(self.in_flight_max)),
            ("publish.attempts_max", u64::from(self.attempts_max)),
        ] {
            at_least(setting, value, 1)?;
        }
        for (setting, span) in [
            ("publish.sign", self.sign),
            ("publish.answer", self.answer),
            ("publish.receipt", self.receipt),
            ("publish.durable_ttl", self.durable_ttl),
            ("publish.latest_ttl", self.latest_ttl),
            ("publish.signature_age", self.signature_age),
        ] {
            lasting(setting, span)?;
        }
        for (setting, text) in [
            ("publish.seen", &self.seen),
            ("publish.waiting", &self.waiting),
        ] {
            if text.is_empty() || text.chars().count() > MARK_CHARS_MAX {
                let problem = "must have at least one character and at most 64";
                return Err(ConfigError::new(setting, problem));
            }
        }
        Ok(())
    }
}
