//! What goes into a machine.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::UnixTime;
use crate::{publish, relay, schedule};

/// A fact for the machine. No fact is an error: nonsense becomes a note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Input {
    /// The deadline of the last `WakeAt` has come. Early, late or twice is harmless.
    Tick,
    /// The wall clock shows this. Due before the first `Connected` and every 10 s.
    WallClock(UnixTime),
    /// The application asks for something.
    Command(Command),
    /// A fact for the relay part.
    Relay(relay::Input),
    /// A fact for the publisher.
    Publish(publish::Input),
    /// A fact for the scheduler.
    Schedule(schedule::Input),
}

/// A request to the machine as a whole. The parts have their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Command {
    /// End: what runs is given this long, what waits is handed back, then `Ended`.
    Shutdown {
        /// At most this long.
        #[serde(with = "crate::json::nanos")]
        grace: Duration,
    },
}
