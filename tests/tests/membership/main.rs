//! Membership: notices are the fast path, the roster is the truth.

mod archived;
mod notices;
mod refused;
mod route;
mod support;
mod sweeps;
mod word;
