//! Workers as child processes, against agents that behave and agents that do not.
//!
//! The suite is built once for each runtime; `acp_async_std` is the same on the other one.
#![expect(
    clippy::unwrap_used,
    reason = "a set-up that fails has failed the test"
)]

mod answers;
mod bench;
mod ending;
mod fake;
mod faults;
mod pair;
mod prompt;
mod turns;

/// What the workers run on.
type Rt = buzz_adapters::tokio::Tokio;

/// Not a test: the body of the agents that the others start.
#[test]
fn fake_agent() {
    if let Ok(mode) = std::env::var("FAKE_AGENT") {
        fake::run(&mode);
        std::process::exit(0);
    }
}
