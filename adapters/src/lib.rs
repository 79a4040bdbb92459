//! Real sockets, processes and keys around the [`buzz_proto`] state machine.

pub mod clock;
pub mod event;
pub mod keys;
pub mod runtime;
pub mod sign;
#[cfg(feature = "tokio")]
pub mod tokio;
pub mod url;
pub mod verify;
