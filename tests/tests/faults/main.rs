//! A whole agent over real sockets, and a line to its relay that goes bad in every way that lines
//! and relays do.

mod agent;
mod dials;
mod frozen;
mod names;
mod restarts;
mod scene;
mod silence;
mod stalled;
mod unheard;
mod weather;
