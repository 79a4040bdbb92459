//! The scheduler, fed by hand through its public interface.

mod admission;
mod between;
mod calls;
mod context;
mod disturb;
mod ending;
mod fates;
mod order;
mod outcomes;
mod people;
mod property;
mod reports;
mod seen;
mod siblings;
mod support;
mod turns;
mod watch;
mod workers;
