//! An agent's connection to a Buzz relay as one deterministic state machine, without I/O.
#![no_std]
#![warn(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::float_arithmetic,
    clippy::std_instead_of_core,
    clippy::disallowed_types,
    clippy::disallowed_methods
)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod action;
pub mod backoff;
pub mod bounded;
pub mod bucket;
pub mod config;
pub mod dedup;
pub mod gate;
pub mod ids;
pub mod input;
pub mod json;
pub mod limiter;
pub mod machine;
pub mod note;
mod note_text;
pub mod publish;
mod quotas;
pub mod relay;
pub mod retry_hint;
pub mod schedule;
pub mod seed;
pub mod sip;
mod step;
pub mod time;
pub mod trace;
pub mod wire;
