//! The end of a worker process: its last words, and nothing of its group left behind.

use std::os::unix::process::ExitStatusExt as _;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use buzz_proto::schedule::DownCause;
use buzz_proto::wire::Excerpt;
use futures_util::{FutureExt as _, select_biased};
use nix::sys::signal::Signal;

use super::{End, Happening, Output, Process, Scratch, broken, read, sleep_until};
use crate::runtime::{Child as _, Processes, within, yield_now};

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

impl<R: Processes> Process<R> {
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
            let mut scratch = Scratch::new();
            while let Ok(length @ 1..) = read(self.stdout.as_mut(), &mut scratch.stdout).await {
                let outcome = self.read_lines(&scratch.stdout[..length]);
                self.report_rest();
                if outcome.is_err() {
                    break;
                }
                yield_now().await;
            }
            while let Ok(length @ 1..) = read(self.stderr.as_mut(), &mut scratch.stderr).await {
                self.note_stderr(&scratch.stderr[..length]);
            }
        };
        let _late = within::<R, _>(CLOSED_WAIT, rest).await;
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
        let mut scratch = Scratch::new();
        let deadline = Instant::now() + limit;
        loop {
            let happening = {
                let mut exit = pin!(self.child.wait().fuse());
                let mut late = pin!(sleep_until::<R>(Some(deadline)).fuse());
                let mut read_out = pin!(read(self.stdout.as_mut(), &mut scratch.stdout).fuse());
                let mut read_err = pin!(read(self.stderr.as_mut(), &mut scratch.stderr).fuse());
                select_biased! {
                    status = exit => return status.ok(),
                    () = late => return None,
                    read = read_out => Happening::Read(read),
                    read = read_err => Happening::Stderr(read),
                }
            };
            match happening {
                Happening::Read(Ok(0) | Err(_)) => self.stdout = None,
                Happening::Stderr(Ok(0) | Err(_)) => self.stderr = None,
                Happening::Stderr(Ok(length)) => {
                    self.note_stderr(&scratch.stderr[..length]);
                }
                Happening::Read(Ok(length)) => {
                    rest = self.take_rest(rest, &scratch.stdout[..length]);
                }
                Happening::Ordered(_)
                | Happening::Written(_)
                | Happening::Exited(_)
                | Happening::Woken => {}
            }
        }
    }

    fn take_rest(&mut self, rest: Rest, bytes: &[u8]) -> Rest {
        match rest {
            Rest::Heard => {
                let outcome = self.read_lines(bytes);
                self.report_rest();
                if outcome.is_ok() {
                    Rest::Heard
                } else {
                    Rest::Ignored
                }
            }
            Rest::Ignored => Rest::Ignored,
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
