//! An agent's connection to a Buzz relay as one deterministic state machine, without I/O.
#![no_std]
#![warn(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::float_arithmetic,
    clippy::std_instead_of_core,
    clippy::disallowed_types,
    clippy::disallowed_methods
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod ids;
pub mod json;
pub mod retry_hint;
pub mod seed;
pub mod time;
pub mod wire;
