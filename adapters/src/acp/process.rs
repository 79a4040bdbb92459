//! One worker process: its streams, its limits of time, its end.

mod ending;

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use buzz_proto::schedule::{DownCause, Input, WorkerId};
use buzz_proto::time::{MonoTime, Now, Why};
use buzz_proto::wire::Excerpt;
use futures_channel::mpsc::UnboundedReceiver;
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::{
    AsyncReadExt as _, AsyncWriteExt as _, FutureExt as _, StreamExt as _, select_biased,
};
use nix::sys::signal::Signal;

use super::codec::{Lines, TooLong};
use super::launch::{Group, command};
use super::session::{Client, Moment, Order, Output};
use super::stderr::Tail;
use super::{AcpSettings, Facts};
use crate::clock::Clock;
use crate::runtime::{Child, Processes, yield_now};

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
pub(super) async fn run<R: Processes>(
    worker: WorkerId,
    settings: Arc<AcpSettings>,
    group: Group,
    mut orders: UnboundedReceiver<Command>,
    facts: Facts,
) {
    let cause = match Process::<R>::start(worker, settings, group, Arc::clone(&facts)) {
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

struct Process<R: Processes> {
    group: Group,
    child: R::Child,
    stdin: Option<<R::Child as Child>::Stdin>,
    stdout: Option<<R::Child as Child>::Stdout>,
    stderr: Option<<R::Child as Child>::Stderr>,
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

impl<R: Processes> Process<R> {
    fn start(
        worker: WorkerId,
        settings: Arc<AcpSettings>,
        group: Group,
        facts: Facts,
    ) -> Result<Self, Excerpt> {
        let mut child = R::start(command(&settings)).map_err(|error| {
            let command = &settings.command;
            Excerpt::new(&format!("cannot run {command:?}: {error}"))
        })?;
        group.lead(child.id());
        let epoch = Instant::now();
        let mut out = Vec::new();
        let client = Client::new(worker, Arc::clone(&settings), MonoTime::ZERO, &mut out);
        Ok(Self {
            group,
            stdin: child.take_stdin(),
            stdout: child.take_stdout(),
            stderr: child.take_stderr(),
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
        let mut scratch = Scratch::new();
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
                yield_now().await;
            }
        }
    }

    async fn next(
        &mut self,
        orders: &mut UnboundedReceiver<Command>,
        wake: Option<MonoTime>,
        scratch: &mut Scratch,
    ) -> Happening {
        let may_read = self.waiting.len() < WAITING_MAX;
        let line = match self.waiting.front() {
            Some(Output::Write(line) | Output::Prompt(line)) => line.get(self.written..),
            Some(Output::Fact(_) | Output::End(_)) | None => None,
        };
        let wake = wake.map(|at| self.epoch + Duration::from_nanos(at.as_nanos()));
        let stdout = self.stdout.as_mut().filter(|_| may_read);
        let mut woken = pin!(sleep_until::<R>(wake).fuse());
        let mut exit = pin!(self.child.wait().fuse());
        let mut write = pin!(write(&mut self.stdin, line).fuse());
        let mut read_out = pin!(read(stdout, &mut scratch.stdout).fuse());
        let mut read_err = pin!(read(self.stderr.as_mut(), &mut scratch.stderr).fuse());
        // Orders first: a worker that never falls silent can still be cancelled and ended.
        // Standard error last: a worker that is held up there falls silent on the other.
        select_biased! {
            order = orders.next() => Happening::Ordered(order),
            () = woken => Happening::Woken,
            status = exit => Happening::Exited(status),
            written = write => Happening::Written(written),
            read = read_out => Happening::Read(read),
            read = read_err => Happening::Stderr(read),
        }
    }

    fn take(&mut self, happening: Happening, scratch: &Scratch) -> Result<(), End> {
        match happening {
            Happening::Woken => {}
            Happening::Ordered(Some(Command::Order(order))) => {
                let (now, mut out) = (self.now(), Vec::new());
                self.client.order(order, now, &mut out);
                self.waiting.extend(out);
            }
            Happening::Ordered(Some(Command::Kill) | None) => return Err(End::Ordered),
            Happening::Read(Ok(0) | Err(_)) => return Err(End::Closed("it closed its output")),
            Happening::Read(Ok(length)) => {
                let bytes = &scratch.stdout[..length];
                self.read_lines(bytes).map_err(End::Fault)?;
            }
            Happening::Stderr(Ok(0) | Err(_)) => self.stderr = None,
            Happening::Stderr(Ok(length)) => self.note_stderr(&scratch.stderr[..length]),
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

    /// Takes what was read from its output.
    fn read_lines(&mut self, bytes: &[u8]) -> Result<(), DownCause> {
        self.lines.buffer().extend_from_slice(bytes);
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

/// Where what is read lands first.
struct Scratch {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Scratch {
    fn new() -> Self {
        Self {
            stdout: vec![0; READ_BYTES],
            stderr: vec![0; READ_BYTES],
        }
    }
}

/// The group goes before the child, while that still holds its id.
impl<R: Processes> Drop for Process<R> {
    fn drop(&mut self) {
        self.group.signal(Signal::SIGKILL);
        self.group.disarm();
    }
}

/// Never ends without a stream.
async fn read<S: AsyncRead + Unpin>(
    stream: Option<&mut S>,
    buffer: &mut [u8],
) -> io::Result<usize> {
    match stream {
        Some(stream) => stream.read(buffer).await,
        None => pending().await,
    }
}

/// Never ends without something to write.
async fn write<S: AsyncWrite + Unpin>(
    stream: &mut Option<S>,
    bytes: Option<&[u8]>,
) -> io::Result<usize> {
    match (stream, bytes) {
        (Some(stream), Some(bytes)) => stream.write(bytes).await,
        (_, None) | (None, Some(_)) => pending().await,
    }
}

async fn sleep_until<R: Processes>(at: Option<Instant>) {
    match at {
        Some(at) => R::sleep(at.saturating_duration_since(Instant::now())).await,
        None => pending().await,
    }
}

fn broken(text: &str) -> DownCause {
    DownCause::Protocol {
        text: Excerpt::new(text),
    }
}
