//! The publisher, fed by hand: what goes in at which time, and all that has to come out; then under
//! random facts.

mod ending;
mod filling;
mod held;
mod look_up;
mod marks;
mod outbox;
mod posts;
mod property;
mod said;
mod signing;
mod socket;
mod support;
mod world;
