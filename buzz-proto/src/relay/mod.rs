//! The relay part.

mod config;
mod interface;

pub use config::{Channels, Config, Limits};
pub use interface::*;
