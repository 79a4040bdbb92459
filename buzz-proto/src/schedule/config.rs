//! Settings of the scheduler.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Limits;
use crate::config::{ConfigError, at_least};
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
    /// Whether messages bear a mark from their admission to their outcome.
    pub marks: bool,
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
            marks: true,
            limits: Limits::default(),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        at_least("schedule.workers", u64::from(self.workers), 1)?;
        self.limits.validate()
    }
}
