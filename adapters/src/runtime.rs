//! What a runtime must offer. Everything else in this crate is generic over [`Runtime`], so a
//! further runtime is one implementation of it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use futures_util::future::{Either, select};

/// Name resolution, TCP, sleep and tasks of one asynchronous runtime.
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

/// The result of `work`, or `None` if it takes longer than `limit`; it is then dropped.
pub async fn within<R: Runtime, F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    match select(pin!(work), pin!(R::sleep(limit))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(((), _)) => None,
    }
}
