//! An agent that publishes over real sockets while the relay, or a front before it, refuses.
//!
//! Times are measured where the refusals come from: a call that comes too early fails a test, one
//! that comes late does not. The suite is built once for each runtime; `storm_async_std` is the same
//! on the other one.

mod doubts;
mod flight;
mod front;
mod hints;
mod neighbours;
mod refusals;
mod scene;

/// What the agents run on.
type Rt = buzz_adapters::tokio::Tokio;
