//! A whole agent over real sockets, and a line to its relay that goes bad in every way that lines
//! and relays do.
//!
//! The suite is built once for each runtime; `faults_async_std` is the same on the other one.

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

use std::io;
use std::net::TcpStream;

use buzz_adapters::tokio::{Stream, Tokio};

/// What the agents run on.
type Rt = Tokio;

/// A stream of that runtime.
fn adopt(stream: TcpStream) -> io::Result<Stream> {
    Ok(Stream(tokio::net::TcpStream::from_std(stream)?))
}
