//! What a runtime must offer. Everything else in this crate is generic over [`Runtime`], and over
//! [`Processes`] where workers are child processes, so a further runtime is one implementation of
//! them.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::process::{Command, ExitStatus};
use std::task::Poll;
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use futures_util::future::{Either, select};

/// Name resolution, TCP, sleep and tasks of one asynchronous runtime.
///
/// One that reaches every relay through the same address, and is like tokio in all else:
///
/// ```no_run
/// # #[cfg(feature = "tokio")] mod example {
/// use std::future::Future;
/// use std::io::Result;
/// use std::net::SocketAddr;
/// use std::time::Duration;
///
/// use buzz_adapters::runtime::Runtime;
/// use buzz_adapters::tokio::Tokio;
///
/// struct Tunnel;
///
/// impl Runtime for Tunnel {
///     type Stream = <Tokio as Runtime>::Stream;
///
///     async fn resolve(_host: &str, _port: u16) -> Result<Vec<SocketAddr>> {
///         Ok(vec![SocketAddr::from(([127, 0, 0, 1], 4000))])
///     }
///
///     fn connect(address: SocketAddr) -> impl Future<Output = Result<Self::Stream>> + Send {
///         Tokio::connect(address)
///     }
///
///     fn sleep(span: Duration) -> impl Future<Output = ()> + Send + 'static {
///         Tokio::sleep(span)
///     }
///
///     fn spawn(task: impl Future<Output = ()> + Send + 'static) {
///         Tokio::spawn(task);
///     }
///
///     fn spawn_blocking<T: Send + 'static>(
///         work: impl FnOnce() -> T + Send + 'static,
///     ) -> impl Future<Output = Option<T>> + Send {
///         Tokio::spawn_blocking(work)
///     }
/// }
/// # }
/// ```
pub trait Runtime: Send + Sync + 'static {
    /// A connected TCP stream.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The addresses of `host`, a name or an address without brackets, in order of preference.
    ///
    /// # Errors
    /// The name cannot be resolved.
    fn resolve(
        host: &str,
        port: u16,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send + '_;

    /// Opens a TCP connection; small writes must not wait for others (`TCP_NODELAY`).
    ///
    /// # Errors
    /// The connection cannot be opened.
    fn connect(address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Ends after `span`. Time spent in suspend need not count.
    fn sleep(span: Duration) -> impl Future<Output = ()> + Send + 'static;

    /// Runs `task` in the background until it ends.
    fn spawn(task: impl Future<Output = ()> + Send + 'static);

    /// Runs `work` where it may keep a thread busy. `None` when the runtime stops before it ran,
    /// or when it panicked.
    fn spawn_blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send;
}

/// Child processes of a runtime.
pub trait Processes: Runtime {
    /// A running process.
    type Child: Child;

    /// Starts a process with pipes for its three streams. It is killed when its [`Child`] is
    /// dropped, and not left as a zombie.
    ///
    /// # Errors
    /// The program cannot be run.
    fn start(command: Command) -> io::Result<Self::Child>;
}

/// A running process. Each of its streams can be taken once.
pub trait Child: Send + 'static {
    /// What it reads.
    type Stdin: AsyncWrite + Unpin + Send + 'static;
    /// What it writes.
    type Stdout: AsyncRead + Unpin + Send + 'static;
    /// Its complaints.
    type Stderr: AsyncRead + Unpin + Send + 'static;

    /// Its number, until its exit was awaited.
    fn id(&self) -> Option<u32>;
    /// What it reads.
    fn take_stdin(&mut self) -> Option<Self::Stdin>;
    /// What it writes.
    fn take_stdout(&mut self) -> Option<Self::Stdout>;
    /// Its complaints.
    fn take_stderr(&mut self) -> Option<Self::Stderr>;
    /// Awaits its exit; may be dropped and asked again.
    ///
    /// # Errors
    /// It cannot be waited for.
    fn wait(&mut self) -> impl Future<Output = io::Result<ExitStatus>> + Send;
}

/// Why no TCP connection came about.
#[derive(Debug)]
pub(crate) enum ReachError {
    /// The name has no address.
    Resolve(io::Error),
    /// No address accepted; the error is that of the last one.
    Connect(io::Error),
}

/// Time for one of several addresses. One that swallows packets must not use up the limit of the
/// whole dial (30 s), or a host with a broken IPv6 route would never be reached through IPv4.
const ADDRESS_TIME_MAX: Duration = Duration::from_secs(5);

/// Connects to the first address of `host` that accepts. Only the last has no limit of its own.
pub(crate) async fn reach<R: Runtime>(host: &str, port: u16) -> Result<R::Stream, ReachError> {
    let addresses = R::resolve(host, port).await.map_err(ReachError::Resolve)?;
    let Some((last, others)) = addresses.split_last() else {
        return Err(ReachError::Resolve(io::Error::new(
            io::ErrorKind::NotFound,
            "the name has no address",
        )));
    };
    for address in others {
        if let Some(Ok(stream)) = within::<R, _>(ADDRESS_TIME_MAX, R::connect(*address)).await {
            return Ok(stream);
        }
    }
    R::connect(*last).await.map_err(ReachError::Connect)
}

/// Lets other tasks of the thread have their turn.
pub(crate) async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The result of `work`, or `None` if it takes longer than `limit`; it is then dropped.
pub async fn within<R: Runtime, F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    match select(pin!(work), pin!(R::sleep(limit))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(((), _)) => None,
    }
}
