//! Every command as a user types it: exit codes, sentences, and that no secret is ever shown.

mod keygen;
mod live;
mod replay;
mod settings;
mod support;
