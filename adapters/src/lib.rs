//! Real sockets, processes and keys around the [`buzz_proto`] state machine.

pub mod acp;
pub mod clock;
pub mod connect;
mod delivery;
pub mod dial;
mod driver;
mod event;
pub mod http;
pub mod keys;
mod notes;
pub mod runtime;
pub mod sign;
pub mod tls;
#[cfg(feature = "tokio")]
pub mod tokio;
pub mod url;
pub mod verify;
pub mod ws;
