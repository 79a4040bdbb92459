//! Real sockets, processes and keys around the [`buzz_proto`] state machine.

pub mod acp;
