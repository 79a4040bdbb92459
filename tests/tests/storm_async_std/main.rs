//! The suite `storm` on async-std.

#[path = "../storm/doubts.rs"]
mod doubts;
#[path = "../storm/flight.rs"]
mod flight;
#[path = "../storm/front.rs"]
mod front;
#[path = "../storm/hints.rs"]
mod hints;
#[path = "../storm/neighbours.rs"]
mod neighbours;
#[path = "../storm/refusals.rs"]
mod refusals;
#[path = "../storm/scene.rs"]
mod scene;

/// What the agents run on.
type Rt = buzz_adapters::async_std::AsyncStd;
