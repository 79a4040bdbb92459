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
mod permission;
#[cfg(feature = "tokio")]
mod pool;
#[cfg(feature = "tokio")]
mod process;
mod prompt;
mod reply;
mod session;
mod stderr;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use buzz_proto::schedule::{Action, Input};

#[cfg(feature = "tokio")]
pub use pool::AcpPool;

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

/// How workers are started and spoken to.
#[derive(Clone)]
pub struct AcpSettings {
    /// The program, by path or looked up in `PATH`.
    pub command: String,
    /// Its arguments. Other users of the machine can read them: no place for secrets.
    pub args: Vec<String>,
    /// Variables on top of the inherited ones. A variable that looks as if it held a Nostr key is
    /// not passed on, wherever it comes from.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory of process and sessions; made absolute.
    pub cwd: PathBuf,
    /// Text in front of the first prompt of each session.
    pub preamble: Option<String>,
    /// What a worker that asks for permission is told.
    pub permissions: Permissions,
    /// Limits of time and size.
    pub limits: AcpLimits,
}

impl AcpSettings {
    /// Runs `command` in the current directory, with no arguments, no preamble, and every request
    /// for permission turned down.
    #[must_use]
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: PathBuf::from("."),
            preamble: None,
            permissions: Permissions::RejectOnce,
            limits: AcpLimits::default(),
        }
    }
}

impl fmt::Debug for AcpSettings {
    /// Values of variables and arguments are left out: they may be keys of a model's provider.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("AcpSettings")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &names)
            .field("cwd", &self.cwd)
            .field("preamble", &self.preamble.as_ref().map(String::len))
            .field("permissions", &self.permissions)
            .field("limits", &self.limits)
            .finish()
    }
}

/// What a worker that asks for permission (`session/request_permission`) is told. The option is
/// chosen by its kind; where no option fits, or the turn is being cancelled, the answer is
/// `cancelled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permissions {
    /// `allow_once`, else `reject_once`. Only where nobody but the owner can write prompts.
    AllowOnce,
    /// `reject_once`.
    RejectOnce,
}

/// Limits of time and size for one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcpLimits {
    /// From the start of the process to the answer to `initialize`. 60 s: agents that load a
    /// runtime and models take over 5 s on an idle machine.
    pub start: Duration,
    /// From `session/new` to its answer. 60 s.
    pub session_open: Duration,
    /// How long a resumed session may stay silent before it counts as known. 5 s: workers that do
    /// not know a session say so at once, those that do may think for minutes.
    pub resume_settle: Duration,
    /// One line written to the worker. 30 s.
    pub write: Duration,
    /// Each step of ending a worker: closed input, SIGTERM, SIGKILL. 2 s.
    pub exit_step: Duration,
    /// One line of the worker. 10,000,000 bytes.
    pub line_bytes_max: usize,
    /// The text of one answer; what is beyond is cut, and said. 512 KiB.
    pub reply_bytes_max: usize,
}

impl Default for AcpLimits {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(60),
            session_open: Duration::from_secs(60),
            resume_settle: Duration::from_secs(5),
            write: Duration::from_secs(30),
            exit_step: Duration::from_secs(2),
            line_bytes_max: 10_000_000,
            reply_bytes_max: 512 << 10,
        }
    }
}

/// As many whole characters from the front as fit.
fn head(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    &text[..end]
}
