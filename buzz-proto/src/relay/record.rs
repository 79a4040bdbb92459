//! What outlives a process: how far the events of each subscription have their outcomes.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::Sub;
use crate::ids::EventId;
use crate::time::UnixTime;

/// How far the events of one subscription have their outcomes. The driver keeps the newest record
/// of each subscription, and gives them back to the next life in
/// [`Config::records`](super::Config::records).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The subscription.
    pub sub: Sub,
    /// Every event that is owed and dated before this second of the relay's time has its outcome.
    pub settled: UnixTime,
    /// Events dated from then on that have theirs.
    pub done: Vec<Done>,
    /// Events that are worked on and have none yet.
    pub started: Vec<Started>,
}

/// An event with its final outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {
    /// Its author's date.
    pub dated: UnixTime,
    /// The event.
    pub event: EventId,
}

/// An event that was worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Started {
    /// Its author's date.
    pub dated: UnixTime,
    /// The event.
    pub event: EventId,
    /// The event that the answer names: of events that are answered together, the newest.
    pub target: EventId,
    /// In how many lives it was begun, this one included.
    pub lives: u32,
}
