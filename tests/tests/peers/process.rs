//! Processes that end with the test that started them.

use std::process::ExitStatus;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::sleep;

use crate::within;

/// A process in a group of its own; the whole group is killed when dropped.
pub(crate) struct Process {
    child: Child,
    group: Pid,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let child = command.process_group(0).kill_on_drop(true).spawn().unwrap();
        let group = child.id().unwrap().try_into().map(Pid::from_raw).unwrap();
        Self { child, group }
    }

    /// Its output, once, when it was asked to be piped.
    pub(crate) fn take_output(&mut self) -> (ChildStdout, ChildStderr) {
        let stdout = self.child.stdout.take().unwrap();
        (stdout, self.child.stderr.take().unwrap())
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) async fn stop(&mut self, signal: Signal) -> ExitStatus {
        kill(self.group, signal).unwrap();
        within("the end of a process", self.child.wait())
            .await
            .unwrap()
    }

    pub(crate) fn kill(&self) {
        // The id of a leader that was waited for may belong to others by now.
        if self.child.id().is_some() {
            let _nobody = killpg(self.group, Signal::SIGKILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether any process is left in the group that `leader` leads.
pub(crate) fn is_alive(leader: Pid) -> bool {
    killpg(leader, None) != Err(Errno::ESRCH)
}

/// Looks again and again until `is_so`; only the guard of the caller ends it otherwise.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    within(what, async {
        while !is_so() {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}
