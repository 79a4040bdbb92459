//! Runs the program.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_buzz-agent");

/// A guard against waiting for ever on a busy machine; no verdict depends on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The program with these arguments, and with no variables but `PATH`.
pub(crate) fn agent(args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args).env_clear().stdin(Stdio::null());
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command
}

/// Runs it to its end.
pub(crate) fn end_of(command: &mut Command) -> Output {
    command.output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// It ended with this code, and its last words hold this text.
#[track_caller]
pub(crate) fn assert_ends(output: &Output, code: i32, text: &str) {
    let words = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{words}");
    assert!(words.contains(text), "{text:?} is not in {words:?}");
}

/// Neither stream holds this secret.
#[track_caller]
pub(crate) fn assert_hides(output: &Output, secret: &str) {
    assert!(!stderr(output).contains(secret), "stderr shows a secret");
    assert!(!stdout(output).contains(secret), "stdout shows a secret");
}

/// A running program whose facts are read as they come.
pub(crate) struct Running {
    child: Child,
    facts: Receiver<Value>,
    told: Vec<Value>,
    words: Option<thread::JoinHandle<String>>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, facts) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in lines.lines() {
                let fact = serde_json::from_str(&line.unwrap()).unwrap();
                if sender.send(fact).is_err() {
                    return;
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let words = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        Self {
            child,
            facts,
            told: Vec::new(),
            words: Some(words),
        }
    }

    /// One whose output goes elsewhere.
    pub(crate) fn start_unread(command: &mut Command) -> Self {
        Self {
            child: command.spawn().unwrap(),
            facts: channel().1,
            told: Vec::new(),
            words: None,
        }
    }

    /// Waits for a fact.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) {
        loop {
            let fact = self.facts.recv_timeout(PATIENCE);
            let fact = fact.unwrap_or_else(|_| panic!("no {what} after {:#?}", self.told));
            self.told.push(fact);
            if self.told.last().is_some_and(&is_it) {
                return;
            }
        }
    }

    /// Passes over the facts so far.
    pub(crate) fn look_away(&mut self) {
        self.told.extend(self.facts.try_iter());
    }

    /// Sends SIGTERM and waits for the end; gives its status and all that it said.
    pub(crate) fn terminate(mut self) -> (ExitStatus, String) {
        self.signal();
        let status = self.child.wait().unwrap();
        (status, self.said())
    }

    /// Sends SIGTERM again and again until it ends, since signals that come together count once.
    pub(crate) fn insist(mut self) -> (ExitStatus, String) {
        loop {
            self.signal();
            thread::sleep(Duration::from_millis(50));
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, self.said());
            }
        }
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Sends SIGTERM.
    pub(crate) fn signal(&self) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
    }

    /// Everything that it said, once it has ended.
    fn said(&mut self) -> String {
        let mut said = self.words.take().unwrap().join().unwrap();
        self.told.extend(self.facts.try_iter());
        for fact in &self.told {
            said.push_str(&fact.to_string());
            said.push('\n');
        }
        said
    }
}

impl Drop for Running {
    /// A test that failed leaves nothing running.
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
