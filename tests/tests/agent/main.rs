//! A whole agent over real sockets: the embedded relay on one side, workers on the other.
//!
//! The suite is built once for each runtime; `agent_async_std` is the same on the other one. Each
//! agent records a trace, and its end plays that again.

mod basics;
mod consumer;
mod hall;
mod marks;
mod office;
mod outage;
mod overload;
mod support;

/// What the agents run on.
type Rt = buzz_adapters::tokio::Tokio;

/// Not a test: the body of the workers that others start.
#[test]
fn test_worker() {
    if let Ok(folder) = std::env::var(office::worker::FOLDER) {
        office::worker::run(&folder);
        std::process::exit(0);
    }
}
