//! Workers that speak the Agent Client Protocol (ACP, version 1): JSON-RPC 2.0, one message a
//! line, over the standard streams of a child process.
//!
//! Orders of the scheduler go in through [`Workers::perform`], its facts come back through the
//! function given at construction. Each worker is one process in a group of its own. It goes
//! through its handshake, then runs one turn at a time; a turn opens a session or goes on with
//! one, writes the prompt, collects what is streamed, and ends with the answer to the prompt. A
//! worker that breaks the protocol is ended and reported as down; nothing it writes is an error of
//! this side.
//!
//! What the protocol says is decided without a runtime (lines in; facts and lines out), so that
//! only the handling of the process depends on one.

mod answer;
mod codec;
pub mod echo;
mod failure;
mod launch;
mod limit;
mod permission;
mod phase;
mod pool;
mod process;
mod prompt;
mod reply;
mod session;
mod settings;
mod statement;
mod stderr;

use std::sync::Arc;

use buzz_proto::schedule::{Action, Input};

pub use pool::AcpPool;
pub use settings::{AcpLimits, AcpSettings, AcpSettingsHandle, Permissions};

/// Takes the orders of the scheduler that concern workers.
///
/// [`AcpPool`] does it with processes; anything that answers in time may stand in its place. Each
/// order is answered with the facts that [`Action`] names, through whatever the implementation was
/// given for them; a call must not block.
pub trait Workers: Send {
    /// Carries out `Spawn`, `Kill`, `Start`, `CancelTurn` or `CloseSession`; other orders are not
    /// for workers and are ignored.
    fn perform(&mut self, action: Action);
}

/// Where facts go. It is called from any thread and must not block.
pub type Facts = Arc<dyn Fn(Input) + Send + Sync>;

/// As many whole characters from the front as fit.
fn head(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    &text[..end]
}
