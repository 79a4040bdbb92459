//! How workers are started and spoken to, and how that changes while an agent runs.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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

    /// With a working directory that means the same wherever the process goes.
    fn placed(mut self) -> Self {
        // Without a current directory there is none to be relative to: the start will say so.
        if let Ok(cwd) = std::path::absolute(&self.cwd) {
            self.cwd = cwd;
        }
        self
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

/// The settings of the workers that are started from now on. Clones share them.
///
/// A worker keeps those that it was started with; [`Handle::renew_workers`] starts all anew.
///
/// [`Handle::renew_workers`]: crate::connect::Handle::renew_workers
#[derive(Clone)]
pub struct AcpSettingsHandle(Arc<Mutex<Arc<AcpSettings>>>);

impl AcpSettingsHandle {
    /// Begins with these.
    #[must_use]
    pub fn new(settings: AcpSettings) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(settings.placed()))))
    }

    /// Puts others in their place.
    pub fn set(&self, settings: AcpSettings) {
        let settings = Arc::new(settings.placed());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// Those that the next worker is started with.
    #[must_use]
    pub fn current(&self) -> Arc<AcpSettings> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl From<AcpSettings> for AcpSettingsHandle {
    fn from(settings: AcpSettings) -> Self {
        Self::new(settings)
    }
}

impl fmt::Debug for AcpSettingsHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AcpSettingsHandle")
            .field(&self.current())
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
