//! What comes out of a machine.

use serde::{Deserialize, Serialize};

use crate::note::Note;
use crate::time::MonoTime;
use crate::{publish, relay, schedule};

/// An order to the driver, to be carried out in the order given.
///
/// Actions that the parts route to each other, and the parts' own `Note` and `WakeAt`, never stand
/// inside; they appear here once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Action {
    /// An order of the relay part.
    Relay(relay::Action),
    /// An order of the publisher.
    Publish(publish::Action),
    /// An order of the scheduler.
    Schedule(schedule::Action),
    /// A fact worth telling.
    Note(Note),
    /// The machine has ended: nothing is owed, nothing runs, no input changes it.
    Ended,
    /// Call `Tick` then, or never; the last action of a call, present only when it changed.
    WakeAt(Option<MonoTime>),
}
