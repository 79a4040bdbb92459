//! The publisher, fed by hand: what goes in at which time, and all that has to come out; then under
//! random facts.

mod ending;
mod look_up;
mod marks;
mod outbox;
mod posts;
mod property;
mod signing;
mod socket;
mod support;
mod world;
