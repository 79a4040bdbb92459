//! Audits: what the relay stores is compared with what it sent, because it drops frames without a
//! word.

mod missed;
mod proof;
mod support;
mod when;
