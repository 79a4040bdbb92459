//! Publishing.

mod config;
mod interface;

pub use config::Config;
pub use interface::*;
