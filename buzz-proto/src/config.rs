//! The settings of a machine, their defaults, and what may not be set.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::PubKey;
use crate::{publish, relay, schedule};

/// The settings of a machine. They hold no secret, so they stand in traces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where jitter comes from.
    pub seed: u64,
    /// The key that the adapter's signer signs with.
    pub me: PubKey,
    /// Connection, subscriptions, delivery.
    pub relay: relay::Config,
    /// Publishing.
    pub publish: publish::Config,
    /// Who takes the events.
    pub consumer: Consumer,
}

/// Who takes the events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Consumer {
    /// The application, by `Deliver`; it reports what it has taken.
    External {
        /// How many delivered events it may hold untaken.
        slots: u32,
    },
    /// Workers, one turn at a time each.
    Workers(Box<schedule::Config>),
}

impl Config {
    /// Checks every limit.
    ///
    /// # Errors
    /// Names the first setting that cannot work, and what would.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.relay.validate()?;
        self.publish.validate()?;
        match &self.consumer {
            Consumer::External { slots } => at_least("consumer.slots", u64::from(*slots), 1),
            Consumer::Workers(config) => config.validate(),
        }
    }
}

/// A setting that cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    text: String,
}

impl ConfigError {
    pub(crate) fn new(setting: &str, problem: &str) -> Self {
        Self {
            text: format!("{setting} {problem}"),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl core::error::Error for ConfigError {}

/// Refuses a value below its least.
pub(crate) fn at_least(setting: &str, value: u64, least: u64) -> Result<(), ConfigError> {
    if value >= least {
        return Ok(());
    }
    Err(ConfigError::new(
        setting,
        &format!("is {value}; it must be at least {least}"),
    ))
}

/// Refuses a span of nothing: such a limit would end everything at once.
pub(crate) fn lasting(setting: &str, span: core::time::Duration) -> Result<(), ConfigError> {
    if span.is_zero() {
        return Err(ConfigError::new(setting, "is zero; it must last"));
    }
    Ok(())
}
