//! Public bug reports about publishing, each as the sequence of facts that shows the fault.
//!
//! A test bears the name of its report: owner, repository, number. Every sequence is played as
//! reported, and again with other traffic, one more loss of the connection before each of its
//! instants in turn, and the facts of one instant in the opposite order. What must happen is
//! asserted of the first, what never may of all.

mod auth;
mod desk;
mod http;
mod offline;
mod presence;
mod refusals;
mod signing;
mod support;
mod unanswered;
