//! Real sockets, processes and keys around the [`buzz_proto`] state machine.
//!
//! [`connect::connect`] starts an agent: it gives a handle to speak to it and a stream of what it
//! receives. With [`acp::AcpPool`] as workers the events go to child processes that speak ACP
//! instead, and their answers are published. `examples/echo_agent.rs` is a whole agent.
//!
//! One driver serves every runtime. It is generic over [`runtime::Runtime`], which asks for name
//! resolution, a TCP stream, a sleep and tasks, and [`runtime::Processes`] for workers that are
//! child processes; `tokio.rs` and `async_std.rs` are implementations of them and nothing else,
//! and a further runtime is another. Nothing here decides: what to retry, when, and what to
//! drop is the machine's.
//!
//! Keys stay in the [`sign::Signer`]. They are wiped when dropped and never printed.

pub mod acp;
#[cfg(feature = "async-std")]
pub mod async_std;
pub mod clock;
pub mod connect;
mod delivery;
pub mod dial;
mod driver;
mod event;
mod events;
mod handle;
pub mod http;
pub mod keep;
pub mod keys;
mod notes;
pub mod proxy;
pub mod runtime;
pub mod sign;
pub mod tls;
#[cfg(feature = "tokio")]
pub mod tokio;
pub mod url;
pub mod verify;
pub mod ws;
