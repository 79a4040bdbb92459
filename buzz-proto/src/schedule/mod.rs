//! Scheduling.

mod config;
mod interface;

pub use config::{Config, Limits, Policy, RespondTo};
pub use interface::*;
