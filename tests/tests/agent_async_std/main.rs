//! The suite `agent` on async-std: the same agents, the same relay, the same outcomes.

#[path = "../agent/basics.rs"]
mod basics;
#[path = "../agent/consumer.rs"]
mod consumer;
#[path = "../agent/hall.rs"]
mod hall;
#[path = "../agent/marks.rs"]
mod marks;
#[path = "../agent/office/mod.rs"]
mod office;
#[path = "../agent/outage.rs"]
mod outage;
#[path = "../agent/overload.rs"]
mod overload;
#[path = "../agent/support.rs"]
mod support;

/// What the agents run on.
type Rt = buzz_adapters::async_std::AsyncStd;

/// Not a test: the body of the workers that others start.
#[test]
fn test_worker() {
    if let Ok(folder) = std::env::var(office::worker::FOLDER) {
        office::worker::run(&folder);
        std::process::exit(0);
    }
}
