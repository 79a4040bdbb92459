//! The suite `faults` on async-std.

#[path = "../faults/agent.rs"]
mod agent;
#[path = "../faults/dials.rs"]
mod dials;
#[path = "../faults/frozen.rs"]
mod frozen;
#[path = "../faults/names.rs"]
mod names;
#[path = "../faults/restarts.rs"]
mod restarts;
#[path = "../faults/scene.rs"]
mod scene;
#[path = "../faults/silence.rs"]
mod silence;
#[path = "../faults/stalled.rs"]
mod stalled;
#[path = "../faults/unheard.rs"]
mod unheard;
#[path = "../faults/weather.rs"]
mod weather;

use std::io;
use std::net::TcpStream;

use buzz_adapters::async_std::AsyncStd;
use buzz_adapters::runtime::Runtime;

/// What the agents run on.
type Rt = AsyncStd;

/// A stream of that runtime.
#[expect(clippy::unnecessary_wraps, reason = "another runtime may refuse it")]
fn adopt(stream: TcpStream) -> io::Result<<Rt as Runtime>::Stream> {
    Ok(stream.into())
}
