//! One worker process: its streams, its limits of time, its end.

mod ending;

use std::collections::VecDeque;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use buzz_proto::schedule::{DownCause, Input, WorkerId};
use buzz_proto::time::{MonoTime, Now, Why};
use buzz_proto::wire::Excerpt;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc::UnboundedReceiver;

use super::codec::{Lines, TooLong};
use super::launch::{Group, command};
use super::session::{Client, Moment, Order, Output};
use super::stderr::Tail;
use super::{AcpSettings, Facts};
use crate::clock::Clock;

/// Reading pauses while so much waits to be written: a worker that asks and does not listen must
/// not fill the memory.
const WAITING_MAX: usize = 256;

/// One read from a stream.
const READ_BYTES: usize = 64 << 10;

/// What a worker's task is told.
#[derive(Debug)]
pub(super) enum Command {
    /// For the protocol.
    Order(Order),
    /// End the process.
    Kill,
}

/// Starts a worker and stays with it until it is gone; `WorkerDown` is its last fact.
pub(super) async fn run(
    worker: WorkerId,
    settings: Arc<AcpSettings>,
    mut orders: UnboundedReceiver<Command>,
    facts: Facts,
) {
    let cause = match Process::start(worker, settings, Arc::clone(&facts)) {
        Ok(mut process) => {
            let end = process.serve(&mut orders).await;
            process.end(end).await
        }
        Err(text) => DownCause::CannotStart { text },
    };
    // Until here an order to kill finds someone; from here on a turn is refused.
    orders.close();
    facts(Input::WorkerDown { worker, cause });
}

struct Process {
    /// Before the child, so that the group is killed while the child still holds its id.
    group: Group,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    lines: Lines,
    tail: Tail,
    client: Client,
    waiting: VecDeque<Output>,
    /// Bytes of the first waiting line that are written, and since when it is being written.
    written: usize,
    writing_since: Option<MonoTime>,
    epoch: Instant,
    settings: Arc<AcpSettings>,
    slot: u16,
    facts: Facts,
}

/// Why the service of a process ends.
enum End {
    Ordered,
    Fault(DownCause),
    /// It closed a stream, so it is ending or broken.
    Closed(&'static str),
    Exited(ExitStatus),
}

/// What happened next.
enum Happening {
    Ordered(Option<Command>),
    Read(io::Result<usize>),
    Stderr(io::Result<usize>),
    Written(io::Result<usize>),
    Exited(io::Result<ExitStatus>),
    Woken,
}

impl Process {
    fn start(worker: WorkerId, settings: Arc<AcpSettings>, facts: Facts) -> Result<Self, Excerpt> {
        let mut child = command(&settings).spawn().map_err(|error| {
            let command = &settings.command;
            Excerpt::new(&format!("cannot run {command:?}: {error}"))
        })?;
        let epoch = Instant::now();
        let mut out = Vec::new();
        let client = Client::new(worker, Arc::clone(&settings), MonoTime::ZERO, &mut out);
        Ok(Self {
            group: Group::of(&child),
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child,
            lines: Lines::new(settings.limits.line_bytes_max),
            tail: Tail::default(),
            client,
            waiting: out.into(),
            written: 0,
            writing_since: None,
            epoch,
            settings,
            slot: worker.slot,
            facts,
        })
    }

    /// Carries lines and orders until there is a reason to stop.
    async fn serve(&mut self, orders: &mut UnboundedReceiver<Command>) -> End {
        let mut scratch = vec![0; READ_BYTES];
        loop {
            let mut now = Now::new(self.now());
            let mut out = Vec::new();
            self.client.advance(&mut now, &mut out);
            self.waiting.extend(out);
            if let Some(cause) = self.report() {
                return End::Fault(cause);
            }
            if self.is_write_late(&mut now) {
                let limit = self.settings.limits.write;
                let text = format!("it does not read its input: a line waits for {limit:?}");
                return End::Fault(broken(&text));
            }
            let happening = self
                .next(orders, now.wake().map(|(at, _)| at), &mut scratch)
                .await;
            let has_read = matches!(happening, Happening::Read(_) | Happening::Stderr(_));
            if let Err(end) = self.take(happening, &scratch) {
                return end;
            }
            if has_read {
                // A worker that never falls silent must not keep the thread from others.
                tokio::task::yield_now().await;
            }
        }
    }

    async fn next(
        &mut self,
        orders: &mut UnboundedReceiver<Command>,
        wake: Option<MonoTime>,
        scratch: &mut [u8],
    ) -> Happening {
        let may_read = self.waiting.len() < WAITING_MAX;
        let line = match self.waiting.front() {
            Some(Output::Write(line) | Output::Prompt(line)) => line.get(self.written..),
            Some(Output::Fact(_) | Output::End(_)) | None => None,
        };
        let (stdout, stderr) = (&mut self.stdout, &mut self.stderr);
        let wake = wake.map(|at| self.epoch + Duration::from_nanos(at.as_nanos()));
        tokio::select! {
            // Orders first: a worker that never falls silent can still be cancelled and ended.
            // Standard error last: a worker that is held up there falls silent on the other.
            biased;
            order = orders.recv() => Happening::Ordered(order),
            () = sleep_until(wake) => Happening::Woken,
            status = self.child.wait() => Happening::Exited(status),
            written = write(&mut self.stdin, line) => Happening::Written(written),
            read = read(stdout, self.lines.buffer()), if may_read => Happening::Read(read),
            read = read_into(stderr, scratch) => Happening::Stderr(read),
        }
    }

    fn take(&mut self, happening: Happening, scratch: &[u8]) -> Result<(), End> {
        match happening {
            Happening::Woken => {}
            Happening::Ordered(Some(Command::Order(order))) => {
                let (now, mut out) = (self.now(), Vec::new());
                self.client.order(order, now, &mut out);
                self.waiting.extend(out);
            }
            Happening::Ordered(Some(Command::Kill) | None) => return Err(End::Ordered),
            Happening::Read(Ok(0) | Err(_)) => return Err(End::Closed("it closed its output")),
            Happening::Read(Ok(_)) => self.read_lines().map_err(End::Fault)?,
            Happening::Stderr(Ok(0) | Err(_)) => self.stderr = None,
            Happening::Stderr(Ok(length)) => self.note_stderr(&scratch[..length]),
            Happening::Written(Ok(0) | Err(_)) => return Err(End::Closed("it closed its input")),
            Happening::Written(Ok(length)) => self.advance_write(length),
            Happening::Exited(Ok(status)) => return Err(End::Exited(status)),
            Happening::Exited(Err(error)) => {
                return Err(End::Fault(broken(&format!(
                    "it cannot be waited for: {error}"
                ))));
            }
        }
        Ok(())
    }

    fn read_lines(&mut self) -> Result<(), DownCause> {
        let (time, wall) = (self.now(), Clock::wall());
        let (at, mut out) = (Moment { time, wall }, Vec::new());
        let outcome = loop {
            match self.lines.next() {
                Ok(Some(line)) => self.client.line(&line, at, &mut out),
                Ok(None) => break Ok(()),
                Err(TooLong) => {
                    let limit = self.settings.limits.line_bytes_max;
                    break Err(broken(&format!("a line is longer than {limit} bytes")));
                }
            }
        };
        self.waiting.extend(out);
        outcome
    }

    fn note_stderr(&mut self, bytes: &[u8]) {
        let slot = self.slot;
        self.tail.add(bytes, |line| {
            tracing::debug!(slot, "worker: {}", Excerpt::from_bytes(line))
        });
    }

    /// Reports the facts that no line stands before; a cause if the worker has to end.
    fn report(&mut self) -> Option<DownCause> {
        loop {
            match self.waiting.pop_front()? {
                Output::Fact(fact) => (self.facts)(fact),
                Output::End(cause) => return Some(cause),
                line @ (Output::Write(_) | Output::Prompt(_)) => {
                    self.waiting.push_front(line);
                    return None;
                }
            }
        }
    }

    fn is_write_late(&mut self, now: &mut Now) -> bool {
        if self.waiting.is_empty() {
            self.writing_since = None;
            return false;
        }
        let since = *self.writing_since.get_or_insert_with(|| now.time());
        let limit = since.after(self.settings.limits.write);
        now.reached(limit, Why::Write)
    }

    fn advance_write(&mut self, length: usize) {
        self.written = self.written.saturating_add(length);
        let is_whole = match self.waiting.front() {
            Some(Output::Write(line) | Output::Prompt(line)) => self.written >= line.len(),
            Some(Output::Fact(_) | Output::End(_)) | None => true,
        };
        if is_whole {
            self.waiting.pop_front();
            self.written = 0;
            self.writing_since = None;
        }
    }

    fn now(&self) -> MonoTime {
        MonoTime::ZERO.after(self.epoch.elapsed())
    }
}

async fn read(stream: &mut Option<ChildStdout>, buffer: &mut bytes::BytesMut) -> io::Result<usize> {
    buffer.reserve(READ_BYTES);
    match stream {
        Some(stream) => stream.read_buf(buffer).await,
        None => std::future::pending().await,
    }
}

/// Never ends without a stream.
async fn read_into<S: tokio::io::AsyncRead + Unpin>(
    stream: &mut Option<S>,
    buffer: &mut [u8],
) -> io::Result<usize> {
    match stream {
        Some(stream) => stream.read(buffer).await,
        None => std::future::pending().await,
    }
}

/// Never ends without something to write.
async fn write(stream: &mut Option<ChildStdin>, bytes: Option<&[u8]>) -> io::Result<usize> {
    match (stream, bytes) {
        (Some(stream), Some(bytes)) => stream.write(bytes).await,
        (_, None) | (None, Some(_)) => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

fn broken(text: &str) -> DownCause {
    DownCause::Protocol {
        text: Excerpt::new(text),
    }
}
