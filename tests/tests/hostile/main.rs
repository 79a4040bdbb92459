//! An agent over real sockets against a relay that means it ill: lies, floods, and what has no end.
//!
//! Every test has the process to itself, so that its peak of memory is that of one agent and the
//! relay beside it.

mod agent;
mod answers;
mod floods;
mod frames;
mod liar;
mod lies;
mod line;
