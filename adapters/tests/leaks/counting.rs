//! A runtime whose tasks and streams are counted, and what else a process can hold.

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use buzz_adapters::runtime::{Processes, Runtime};
use futures_io::{AsyncRead, AsyncWrite};

static TASKS: AtomicUsize = AtomicUsize::new(0);
static STREAMS: AtomicUsize = AtomicUsize::new(0);
/// How often a runtime was asked for something that may have to be waited for.
static STEPS: AtomicUsize = AtomicUsize::new(0);
static HOLD_AT: AtomicUsize = AtomicUsize::new(usize::MAX);
static IS_HELD: AtomicBool = AtomicBool::new(false);
/// Only keeps a test that fails from standing still.
const HELD_MAX: Duration = Duration::from_secs(20);

/// What an agent holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) tasks: usize,
    pub(crate) streams: usize,
    pub(crate) children: usize,
}

impl Held {
    pub(crate) const NOTHING: Self = Self {
        tasks: 0,
        streams: 0,
        children: 0,
    };

    pub(crate) fn now() -> Self {
        Self {
            tasks: tasks(),
            streams: STREAMS.load(Ordering::SeqCst),
            children: children(),
        }
    }
}

/// Tasks alone, which takes no time.
pub(crate) fn tasks() -> usize {
    TASKS.load(Ordering::SeqCst)
}

/// The task that asks the runtime for the `number`th thing from now on, counted from none, is held
/// right there, until it is let go.
pub(crate) fn hold_at(number: usize) {
    let at = STEPS.load(Ordering::SeqCst) + number;
    HOLD_AT.store(at, Ordering::SeqCst);
}

pub(crate) fn is_held() -> bool {
    IS_HELD.load(Ordering::SeqCst)
}

pub(crate) fn let_go() {
    HOLD_AT.store(usize::MAX, Ordering::SeqCst);
    IS_HELD.store(false, Ordering::SeqCst);
}

/// Files, sockets and pipes of this process.
pub(crate) fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Threads of this process, but for the pool of async-std, which keeps idle ones as it likes.
pub(crate) fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    let names = tasks.flatten().filter_map(|task| name(task).ok());
    names.filter(|name| !name.starts_with("blocking-")).count()
}

/// Child processes of this one that were not collected.
fn children() -> usize {
    let this = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_child = |process: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // The name before it may hold spaces and brackets.
        let rest = stat.rsplit(')').next().unwrap_or_default();
        rest.split_whitespace().nth(1) == Some(&this)
    };
    processes.filter(is_child).count()
}

/// Something that is counted for as long as it is there.
struct Counted(&'static AtomicUsize);

impl Counted {
    fn new(of: &'static AtomicUsize) -> Self {
        of.fetch_add(1, Ordering::SeqCst);
        Self(of)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn step() {
    let number = STEPS.fetch_add(1, Ordering::SeqCst);
    if number != HOLD_AT.load(Ordering::SeqCst) {
        return;
    }
    let since = Instant::now();
    IS_HELD.store(true, Ordering::SeqCst);
    while is_held() && since.elapsed() < HELD_MAX {
        std::thread::sleep(Duration::from_micros(100));
    }
}

pub(crate) struct Counting<R>(PhantomData<fn() -> R>);

pub(crate) struct CountedStream<S>(S, #[expect(dead_code, reason = "it counts")] Counted);

impl<R: Runtime> Runtime for Counting<R> {
    type Stream = CountedStream<R::Stream>;

    fn resolve(
        host: &str,
        port: u16,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send + '_ {
        step();
        R::resolve(host, port)
    }

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        step();
        let stream = R::connect(address).await?;
        Ok(CountedStream(stream, Counted::new(&STREAMS)))
    }

    fn sleep(span: Duration) -> impl Future<Output = ()> + Send + 'static {
        step();
        R::sleep(span)
    }

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        let counted = Counted::new(&TASKS);
        R::spawn(async move {
            let _counted = counted;
            task.await;
        });
    }

    async fn spawn_blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        step();
        let counted = Counted::new(&TASKS);
        R::spawn_blocking(move || {
            let _counted = counted;
            work()
        })
        .await
    }
}

impl<R: Processes> Processes for Counting<R> {
    type Child = R::Child;

    fn start(command: Command) -> io::Result<R::Child> {
        R::start(command)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        space: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        step();
        Pin::new(&mut self.0).poll_read(cx, space)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        step();
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        step();
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        step();
        Pin::new(&mut self.0).poll_close(cx)
    }
}
