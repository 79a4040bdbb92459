//! The relay over real sockets, and its rules in virtual time.

mod auth;
mod binary;
mod bridge;
mod channels;
mod common;
mod conversation;
mod ends;
mod faults;
mod frames;
mod history;
mod membership;
mod quotas;
mod scopes;
mod storage;
mod vectors;
mod virtual_time;
