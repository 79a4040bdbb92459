//! Sockets on loopback, against small servers: WebSocket, TLS, HTTP, and how an agent starts and
//! ends.
//!
//! The suite is built once for each runtime; `sockets_async_std` is the same on the other one. The
//! servers run on tokio in both.

#![expect(clippy::unwrap_used, reason = "support functions of tests")]

mod connect;
mod http;
mod narrow;
mod proxy;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod upgrade;
mod websocket;

use std::io;
use std::net::TcpStream;

use buzz_adapters::tokio::{Stream, Tokio};

/// What is tried.
type Rt = Tokio;

/// A stream of that runtime.
fn adopt(stream: TcpStream) -> io::Result<Stream> {
    Ok(Stream(tokio::net::TcpStream::from_std(stream)?))
}
