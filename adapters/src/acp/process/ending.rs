//! The end of a worker process: its last words, and nothing of its group left behind.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use buzz_proto::schedule::DownCause;
use buzz_proto::wire::Excerpt;
use nix::sys::signal::Signal;

use super::{End, Happening, Output, Process, READ_BYTES, broken, read, read_into};

/// How long a worker that has closed a stream may take to exit by itself, and what remains in the
/// streams of one that has exited may take to be read.
const CLOSED_WAIT: Duration = Duration::from_secs(1);

/// How long the system may take to end a process that nothing can stop.
const REAP_MAX: Duration = Duration::from_secs(5);

/// What becomes of the output of a process that is awaited.
#[derive(Clone, Copy)]
enum Rest {
    /// It may hold the answer to a prompt.
    Heard,
    /// Its worker is given up.
    Ignored,
}

impl Process {
    /// Sees to it that nothing of the group is left.
    pub(super) async fn end(mut self, end: End) -> DownCause {
        self.stdin = None;
        let cause = match end {
            End::Ordered => {
                self.stop().await;
                DownCause::Killed
            }
            End::Fault(cause) => {
                // What came before the fault counts.
                self.report_rest();
                self.stop().await;
                cause
            }
            End::Closed(text) => match self.drain(CLOSED_WAIT, Rest::Heard).await {
                Some(status) => self.exited(status).await,
                None => {
                    self.stop().await;
                    broken(text)
                }
            },
            End::Exited(status) => self.exited(status).await,
        };
        self.group.signal(Signal::SIGKILL);
        self.group.disarm();
        cause
    }

    /// The last words of a process that has ended by itself may answer a prompt, or say why.
    async fn exited(&mut self, status: ExitStatus) -> DownCause {
        // What it left behind could keep its streams open. It is signalled once: when all of it is
        // gone, others may be given the id of the group.
        self.group.signal(Signal::SIGKILL);
        self.group.disarm();
        let rest = async {
            let mut buffer = vec![0; READ_BYTES];
            while let Ok(1..) = read(&mut self.stdout, self.lines.buffer()).await {
                let outcome = self.read_lines();
                self.report_rest();
                if outcome.is_err() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            while let Ok(length @ 1..) = read_into(&mut self.stderr, &mut buffer).await {
                self.note_stderr(&buffer[..length]);
            }
        };
        let _late = tokio::time::timeout(CLOSED_WAIT, rest).await;
        self.report_rest();
        let text = self.tail.excerpt();
        let text = match status.signal() {
            Some(signal) => Excerpt::new(&format!("ended by signal {signal}: {text}")),
            None => text,
        };
        DownCause::Exited {
            code: status.code(),
            text,
        }
    }

    /// Closed input, SIGTERM, SIGKILL, each with its time.
    async fn stop(&mut self) {
        let step = self.settings.limits.exit_step;
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            if self.drain(step, Rest::Ignored).await.is_some() {
                return;
            }
            self.group.signal(signal);
        }
        if self.drain(REAP_MAX, Rest::Ignored).await.is_none() {
            tracing::warn!(slot = self.slot, "a worker is still there after SIGKILL");
        }
    }

    /// Awaits the exit. What is written meanwhile is read, or a full pipe could hold up the exit.
    async fn drain(&mut self, limit: Duration, mut rest: Rest) -> Option<ExitStatus> {
        let mut scratch = vec![0; READ_BYTES];
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let happening = tokio::select! {
                status = self.child.wait() => return status.ok(),
                () = tokio::time::sleep_until(deadline) => return None,
                read = read(&mut self.stdout, self.lines.buffer()) => Happening::Read(read),
                read = read_into(&mut self.stderr, &mut scratch) => Happening::Stderr(read),
            };
            match happening {
                Happening::Read(Ok(0) | Err(_)) => self.stdout = None,
                Happening::Stderr(Ok(0) | Err(_)) => self.stderr = None,
                Happening::Stderr(Ok(length)) => self.note_stderr(&scratch[..length]),
                Happening::Read(Ok(_)) => rest = self.take_rest(rest),
                Happening::Ordered(_)
                | Happening::Written(_)
                | Happening::Exited(_)
                | Happening::Woken => {}
            }
        }
    }

    fn take_rest(&mut self, rest: Rest) -> Rest {
        match rest {
            Rest::Heard => {
                let outcome = self.read_lines();
                self.report_rest();
                if outcome.is_ok() {
                    Rest::Heard
                } else {
                    Rest::Ignored
                }
            }
            Rest::Ignored => {
                self.lines.buffer().clear();
                Rest::Ignored
            }
        }
    }

    /// Reports the facts that are left when nothing can be written any more. The lines between
    /// them go nowhere; but behind a prompt that was not written there is no turn to tell of.
    fn report_rest(&mut self) {
        while let Some(output) = self.waiting.pop_front() {
            match output {
                Output::Fact(fact) => (self.facts)(fact),
                Output::Write(_) | Output::End(_) => {}
                Output::Prompt(_) => {
                    self.waiting.clear();
                    self.waiting.push_front(output);
                    return;
                }
            }
        }
    }
}
