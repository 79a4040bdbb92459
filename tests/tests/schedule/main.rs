//! The scheduler, fed by hand through its public interface.

mod admission;
mod ending;
mod fates;
mod outcomes;
mod property;
mod support;
mod turns;
mod watch;
mod workers;
