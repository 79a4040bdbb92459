//! Strangers judge how the protocols are read: the built `buzz-agent`, run as a user runs it,
//! between relays and agents that others wrote. What they are stands in `tests/peers/README.md`.
//!
//! Without them each test says how to get them and passes; where `CI` is `true`, or
//! `BUZZ_PEERS` is `required`, a missing peer is a failure.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "support functions of tests"
)]

#[path = "../faults/agent.rs"]
#[expect(dead_code, reason = "another suite asks more of it")]
mod agent;
mod agents;
mod buzz_agent;
mod lines;
mod peer;
mod person;
mod process;
mod relays;
mod together;

use std::future::Future;
use std::time::Duration;

/// What agents in this process run on.
type Rt = buzz_adapters::tokio::Tokio;

/// A guard against waiting for ever on a busy machine; no verdict depends on it.
const PATIENCE: Duration = Duration::from_secs(80);

const CHANNEL: &str = "5b7f0c1e-9d42-4a3b-8f60-2c1d7e94a001";
const OTHER_CHANNEL: &str = "5b7f0c1e-9d42-4a3b-8f60-2c1d7e94a002";

/// The result of `work`, or a failure that names what did not come.
async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}
