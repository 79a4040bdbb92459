//! An agent's connection to a Buzz relay as one deterministic state machine, without I/O.
//!
//! A [`Machine`](machine::Machine) takes one fact at a time and answers with orders: dial, write
//! this frame, verify this event, post that one, start a turn on a worker. It reads no clock, opens
//! no socket and holds no key; whoever drives it does, and reports what came of each order as the
//! next fact. The same facts at the same times lead to the same orders, byte for byte.
//!
//! # The model
//! - The *connection* is idle, dialing, open, live or waiting on its ladder; every loss leads to a
//!   wait, and no wait is for ever. See [`relay`].
//! - A *subscription* is wanted, requested, live, waiting or refused, over any number of sockets.
//! - An *event* that comes is matched against what was asked for, verified outside, checked for
//!   having been seen, and handed over once; or a note says why not.
//! - A *job* is something to publish. It waits behind one gate with all others, and ends in
//!   exactly one verdict. See [`publish`].
//! - A *scope* is one conversation. Its events wait in order, and one turn of one worker answers
//!   them at a time. See [`schedule`].
//!
//! Every order that ends later carries an id and has a limit. A fact with an id that is over
//! changes nothing; an order without an answer ends by its limit.
//!
//! # Driving it
//! The driver keeps one timer. It carries out orders in the order given, sets the timer by
//! `WakeAt`, and feeds `Tick` when that instant has come.
//!
//! ```
//! use std::time::Duration;
//!
//! use buzz_proto::action::Action;
//! use buzz_proto::config::{Config, Consumer};
//! use buzz_proto::ids::PubKey;
//! use buzz_proto::input::Input;
//! use buzz_proto::machine::Machine;
//! use buzz_proto::relay::{self, ConnectCause};
//! use buzz_proto::time::{MonoTime, UnixTime};
//!
//! let mut machine = Machine::new(
//!     Config {
//!         seed: 1,
//!         me: PubKey([0x11; 32]),
//!         relay: relay::Config::new("wss://relay.example"),
//!         publish: buzz_proto::publish::Config::default(),
//!         consumer: Consumer::External { slots: 256 },
//!     },
//!     MonoTime::ZERO,
//! )?;
//!
//! // The first fact makes it dial.
//! let mut timer = None;
//! let mut dialed = Vec::new();
//! for action in machine.handle_input(Input::WallClock(UnixTime(1_800_000_000)), MonoTime::ZERO) {
//!     match action {
//!         Action::WakeAt(at) => timer = at,
//!         Action::Relay(relay::Action::Connect { conn, .. }) => dialed.push(conn),
//!         other => println!("{other:?}"),
//!     }
//! }
//!
//! // The dial fails: it waits on its ladder, between half and the whole of the first rung.
//! let now = MonoTime::ZERO.after(Duration::from_millis(20));
//! let failed = relay::Input::ConnectFailed { conn: dialed[0], cause: ConnectCause::Transport };
//! for action in machine.handle_input(Input::Relay(failed), now) {
//!     if let Action::WakeAt(at) = action {
//!         timer = at;
//!     }
//! }
//! let wake = timer.expect("it comes back by itself");
//! assert!(wake <= now.after(Duration::from_secs(1)));
//!
//! // When the timer fires it dials again.
//! let orders = machine.handle_input(Input::Tick, wake);
//! assert!(orders.iter().any(|order| {
//!     matches!(order, Action::Relay(relay::Action::Connect { .. }))
//! }));
//! # Ok::<(), buzz_proto::config::ConfigError>(())
//! ```
#![no_std]
#![warn(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::float_arithmetic,
    clippy::std_instead_of_core,
    clippy::disallowed_types,
    clippy::disallowed_methods
)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod action;
pub mod backoff;
pub mod bounded;
pub mod bucket;
mod call;
pub mod config;
pub mod dedup;
pub mod gate;
pub mod ids;
pub mod input;
pub mod json;

mod lanes;
pub mod limiter;
pub mod machine;
pub mod note;
pub mod publish;
mod quotas;
pub mod relay;
pub mod retry_hint;
pub mod schedule;
pub mod seed;
pub mod sip;
mod step;
pub mod time;
pub mod trace;
pub mod utc;
pub mod wire;
