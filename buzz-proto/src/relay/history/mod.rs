//! What is stored: reading again what was lost, comparing what was delivered with what there is, and
//! finding what an earlier life has said.
//!
//! [`loss`] is what a subscription owes. [`choose`] says what of it is read next, [`recover`] reads
//! it a [`page`] at a time, and [`read_end`] draws the conclusions. [`audit`] asks now and then
//! whether anything is missing at all. [`answers`] looks once, at a start, for this agent's own
//! words. A read goes over the socket, or over HTTP; whose it is, [`reader`] knows.

pub(super) mod answers;
pub(super) mod audit;
mod audit_ask;
mod audit_end;
pub(super) mod choose;
pub(super) mod loss;
pub(super) mod page;
pub(super) mod read;
mod read_end;
pub(super) mod reader;
pub(super) mod recover;
