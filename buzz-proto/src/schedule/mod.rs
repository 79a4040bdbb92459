//! Turns.

mod config;
mod interface;

pub use config::*;
pub use interface::*;
