//! The suite `sockets` on async-std.

#![expect(clippy::unwrap_used, reason = "support functions of tests")]

#[path = "../sockets/connect.rs"]
mod connect;
#[path = "../sockets/http/mod.rs"]
mod http;
#[path = "../sockets/narrow.rs"]
mod narrow;
#[path = "../sockets/proxy.rs"]
mod proxy;
#[path = "../support/mod.rs"]
mod support;
#[path = "../sockets/tls.rs"]
mod tls;
#[path = "../sockets/upgrade.rs"]
mod upgrade;
#[path = "../sockets/websocket.rs"]
mod websocket;

use std::io;
use std::net::TcpStream;

use buzz_adapters::async_std::AsyncStd;

/// What is tried.
type Rt = AsyncStd;

/// A stream of that runtime.
#[expect(clippy::unnecessary_wraps, reason = "another runtime may refuse it")]
fn adopt(stream: TcpStream) -> io::Result<async_std::net::TcpStream> {
    Ok(stream.into())
}
