//! The suite `acp` on async-std.
#![expect(
    clippy::unwrap_used,
    reason = "a set-up that fails has failed the test"
)]

#[path = "../acp/answers.rs"]
mod answers;
#[path = "../acp/bench.rs"]
mod bench;
#[path = "../acp/ending.rs"]
mod ending;
#[path = "../acp/fake.rs"]
mod fake;
#[path = "../acp/faults.rs"]
mod faults;
#[path = "../acp/pair.rs"]
mod pair;
#[path = "../acp/prompt.rs"]
mod prompt;
#[path = "../acp/turns.rs"]
mod turns;

/// What the workers run on.
type Rt = buzz_adapters::async_std::AsyncStd;

/// Not a test: the body of the agents that the others start.
#[test]
fn fake_agent() {
    if let Ok(mode) = std::env::var("FAKE_AGENT") {
        fake::run(&mode);
        std::process::exit(0);
    }
}
