//! The program under test, as a user runs it.

use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use buzz_dev_relay::keys::Keys;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::process::{Process, is_alive, until};
use crate::{CHANNEL, within};

/// A running `buzz-agent run`, whose facts are read as they come.
pub(crate) struct Agent {
    facts: UnboundedReceiver<Value>,
    /// All facts so far, for the failure of a test.
    told: Arc<Mutex<Vec<Value>>>,
    words: JoinHandle<String>,
    process: Process,
    folder: TempDir,
}

impl Agent {
    /// Starts it with one worker: what is asked first is answered first. Does not wait.
    pub(crate) fn start(url: &str, keys: &Keys, args: &[&str], worker: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key_file = folder.path().join("agent.key");
        let mut options = fs::File::options();
        let file = options.write(true).create_new(true).mode(0o600);
        let mut file = file.open(&key_file).unwrap();
        file.write_all(keys.secret_hex().as_bytes()).unwrap();

        let mut command = Command::new(program());
        command
            .args(["run", "--json", "--workers", "1", "--relay", url])
            .args(["--channel", CHANNEL, "--key-file"])
            .arg(&key_file)
            .arg("--cwd")
            .arg(folder.path())
            .args(args)
            // The shell notes its process id, and becomes the worker.
            .args(["--", "sh", "-c", r#"echo $$ >>workers; exec "$@""#, "sh"])
            .args(worker)
            .env_clear()
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for name in ["PATH", "BUZZ_PEERS_DIR"] {
            command.envs(env::var_os(name).map(|value| (name, value)));
        }
        let mut process = Process::start(&mut command);
        let (stdout, mut stderr) = process.take_output();
        let words = tokio::spawn(async move {
            let mut text = String::new();
            stderr.read_to_string(&mut text).await.unwrap();
            text
        });
        let (sender, facts) = unbounded_channel();
        let told = Arc::default();
        tokio::spawn(read_facts(stdout, sender, Arc::clone(&told)));
        Self {
            facts,
            told,
            words,
            process,
            folder,
        }
    }

    /// The same, and waits until it hears the channel.
    pub(crate) async fn start_live(
        url: &str,
        keys: &Keys,
        args: &[&str],
        worker: &[String],
    ) -> Self {
        // A busy machine is no reason to end.
        let args: Vec<_> = args
            .iter()
            .chain(&["--give-up-after", "0"])
            .copied()
            .collect();
        let mut agent = Self::start(url, keys, &args, worker);
        agent.wait_for("a live channel", is_channel_live).await;
        agent
    }

    /// Waits for a fact, told one by one or as the last of several.
    pub(crate) async fn wait_for(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) {
        let found = within(what, async {
            while let Some(fact) = self.facts.recv().await {
                if is_it(&fact) || is_it(&fact["Repeated"]["last"]) {
                    return true;
                }
            }
            false
        });
        assert!(found.await, "it ended without {what}");
    }

    /// The process ids of all workers so far, oldest first.
    pub(crate) fn workers(&self) -> Vec<Pid> {
        let noted = fs::read_to_string(self.folder.path().join("workers"));
        let noted = noted.unwrap_or_default();
        let ids = noted.lines().map(|line| line.parse().unwrap());
        ids.map(Pid::from_raw).collect()
    }

    /// Tells it to stop, as Ctrl-C does, and checks that it leaves no process behind.
    pub(crate) async fn stop(mut self) {
        let status = self.process.stop(Signal::SIGINT).await;
        let words = within("its last words", &mut self.words).await.unwrap();
        assert_eq!(status.code(), Some(0), "{words}");
        assert!(words.contains("the agent has ended"), "{words}");
        let workers = self.workers();
        assert!(!workers.is_empty());
        until("the end of its workers", || {
            !workers.iter().any(|worker| is_alive(*worker))
        })
        .await;
    }
}

impl Drop for Agent {
    /// Workers live in groups of their own, which an agent that is killed cannot end.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            for fact in told.iter() {
                println!("the agent told {fact}");
            }
        }
        if self.process.has_ended() {
            return;
        }
        // First, so that it starts no other.
        self.process.kill();
        if let Some(worker) = self.workers().last() {
            let _nobody = killpg(*worker, Signal::SIGKILL);
        }
    }
}

async fn read_facts(
    stdout: ChildStdout,
    facts: UnboundedSender<Value>,
    told: Arc<Mutex<Vec<Value>>>,
) {
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let fact: Value = serde_json::from_str(&line).unwrap();
        told.lock().unwrap().push(fact.clone());
        // A test that waits for nothing more has dropped the other end.
        let _unheard = facts.send(fact);
    }
}

/// The worker that comes with the program.
pub(crate) fn echo_worker() -> Vec<String> {
    vec![program().display().to_string(), "echo-worker".into()]
}

/// Whether a fact says that the channel is heard.
pub(crate) fn is_channel_live(fact: &Value) -> bool {
    let subscription = &fact["Subscription"];
    subscription["sub"]["Channel"] == CHANNEL && subscription["phase"] == "Live"
}

/// The program beside this test, where cargo puts what it builds for the whole workspace. A run
/// of this suite alone on a fresh clone has to build it.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let this = env::current_exe().unwrap();
        let folder = this.parent().and_then(Path::parent).unwrap();
        let program = folder.join("buzz-agent");
        if !program.exists() {
            build_into(folder);
        }
        program
    })
}

fn build_into(folder: &Path) {
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let status = std::process::Command::new(env!("CARGO"))
        .args(["build", "-p", "buzz-agent", "--profile", profile])
        .arg("--target-dir")
        .arg(folder.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(status.success(), "buzz-agent does not build");
}
