//! Every command as a user types it: exit codes, sentences, and that no secret is ever shown.

#![expect(clippy::unwrap_used, reason = "support functions of tests")]

mod demo;
mod doctor;
mod keygen;
mod live;
mod lives;
mod refused;
mod replay;
mod room;
mod settings;
mod sim;
mod state;
mod support;
mod work;
