//! The tokio runtime.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use ::tokio::net::{TcpStream, lookup_host};
use futures_io::{AsyncRead, AsyncWrite};

use crate::runtime::Runtime;

/// Runs on the tokio runtime of the caller, which must have its I/O and time drivers enabled.
#[derive(Clone, Copy, Debug)]
pub struct Tokio;

impl Runtime for Tokio {
    type Stream = Stream;

    async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(lookup_host((host, port)).await?.collect())
    }

    async fn connect(address: SocketAddr) -> io::Result<Stream> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Stream(stream))
    }

    fn sleep(span: Duration) -> impl Future<Output = ()> + Send + 'static {
        ::tokio::time::sleep(span)
    }

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        // The handle only serves to wait for the task, which ends by itself.
        drop(::tokio::spawn(task));
    }

    async fn spawn_blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        ::tokio::task::spawn_blocking(work).await.ok()
    }
}

/// A TCP stream of tokio behind the traits of futures-io.
#[derive(Debug)]
pub struct Stream(pub TcpStream);

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        space: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut space = ReadBuf::new(space);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut space))?;
        Poll::Ready(Ok(space.filled().len()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, slices)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
