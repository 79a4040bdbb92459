//! The peers: whether they are there, and how they are started.

use std::env;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sys::signal::Signal;
use tempfile::TempDir;
use tokio::process::Command;

use crate::process::{Process, until};

/// The parts of `tests/peers/install.sh`.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    NostrRelay,
    NodeRelay,
    Agents,
}

impl Part {
    const fn name(self) -> &'static str {
        match self {
            Self::NostrRelay => "nostr-relay",
            Self::NodeRelay => "node-relay",
            Self::Agents => "acp-agents",
        }
    }
}

/// Whether these peers are installed. Where they have to be, a missing one is a failure.
pub(crate) fn are_there(parts: &[Part]) -> bool {
    let folder = env::var_os("BUZZ_PEERS_DIR").map_or_else(default_folder, PathBuf::from);
    let is_missing = |part: &&Part| !folder.join(part.name()).join(".stamp").exists();
    let Some(missing) = parts.iter().find(is_missing) else {
        return true;
    };
    let is = |name, value| env::var_os(name).is_some_and(|given| given == value);
    assert!(
        !is("CI", "true") && !is("BUZZ_PEERS", "required"),
        "the peer {} is not in {}: run tests/peers/install.sh",
        missing.name(),
        folder.display()
    );
    // Past the capture of the test runner, which hides what a passing test prints.
    let line = "skipped: run tests/peers/install.sh first";
    let _nobody_reads = writeln!(io::stderr(), "{line}");
    false
}

/// A script in `tests/peers`.
pub(crate) fn script(name: &str) -> PathBuf {
    repository().join("tests/peers").join(name)
}

/// A relay of others, started again on the same port and directory when asked.
pub(crate) struct Relay {
    script: PathBuf,
    mode: &'static str,
    /// Keys that are served in the mode `auth`, for the relay that wants a list.
    keys: Vec<String>,
    port: u16,
    directory: TempDir,
    process: Process,
}

impl Relay {
    pub(crate) async fn start(part: Part, mode: &'static str, keys: &[&str]) -> Self {
        let script = script(&format!("{}.sh", part.name()));
        let keys: Vec<String> = keys.iter().copied().map(str::to_owned).collect();
        let directory = tempfile::tempdir().unwrap();
        // A free port may be taken by another before the relay binds it.
        for _ in 0..5 {
            let port = free_port();
            let mut process = spawn(&script, port, directory.path(), mode, &keys);
            if is_listening(&mut process, port).await {
                return Self {
                    script,
                    mode,
                    keys,
                    port,
                    directory,
                    process,
                };
            }
        }
        let log = std::fs::read_to_string(directory.path().join("relay.log"));
        panic!("{} does not start: {log:?}", script.display());
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://127.0.0.1:{}", self.port)
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// SIGKILL: connections break without a word.
    pub(crate) async fn kill(&mut self) {
        self.process.stop(Signal::SIGKILL).await;
    }

    pub(crate) async fn start_again(&mut self) {
        let directory = self.directory.path();
        self.process = spawn(&self.script, self.port, directory, self.mode, &self.keys);
        assert!(is_listening(&mut self.process, self.port).await);
    }
}

/// The model behind codex-acp.
pub(crate) struct Model {
    port: u16,
    folder: TempDir,
    process: Process,
}

impl Model {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = spawn_model(folder.path(), 0, 0);
        let path = folder.path().join("port");
        until("the model's port", || path.exists()).await;
        let port = std::fs::read_to_string(path).unwrap().parse().unwrap();
        Self {
            port,
            folder,
            process,
        }
    }

    /// Starts it again on its port: each piece of an answer now comes after this many ms.
    pub(crate) async fn restart(&mut self, delay_ms: u32) {
        self.process.stop(Signal::SIGKILL).await;
        self.process = spawn_model(self.folder.path(), self.port, delay_ms);
        assert!(is_listening(&mut self.process, self.port).await);
    }

    /// Waits until it was asked something since its last start.
    pub(crate) async fn is_asked(&self) {
        let log = self.folder.path().join("log");
        until("a question to the model", || {
            std::fs::read_to_string(&log).is_ok_and(|text| text.contains("POST"))
        })
        .await;
    }

    /// The arguments of `codex-agent.sh` for a home of its own.
    pub(crate) fn arguments(&self) -> [String; 2] {
        let home = self.folder.path().join("home");
        [home.display().to_string(), self.port.to_string()]
    }
}

fn spawn(script: &Path, port: u16, directory: &Path, mode: &str, keys: &[String]) -> Process {
    let mut command = Command::new(script);
    command.arg(port.to_string()).arg(directory).arg(mode);
    Process::start(command.args(keys).stdin(Stdio::null()))
}

fn spawn_model(folder: &Path, port: u16, delay_ms: u32) -> Process {
    let log = std::fs::File::create(folder.join("log")).unwrap();
    let mut command = Command::new("node");
    command
        .arg(script("mock-llm/server.mjs"))
        .arg(port.to_string())
        .arg(folder.join("port"))
        .env("MOCK_LLM_DELAY_MS", delay_ms.to_string())
        .stdin(Stdio::null())
        .stdout(log);
    Process::start(&mut command)
}

/// Waits until a connect succeeds; false when the process has ended.
async fn is_listening(process: &mut Process, port: u16) -> bool {
    let mut ended = false;
    until("a connect to a peer", || {
        ended = process.has_ended();
        ended || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
    })
    .await;
    !ended
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn default_folder() -> PathBuf {
    repository().join("target/peers")
}
