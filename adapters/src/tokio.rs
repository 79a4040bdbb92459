//! The tokio runtime.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::{Command, ExitStatus, Stdio};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::tokio::io::{self as tokio_io, ReadBuf};
use ::tokio::net::{TcpStream, lookup_host};
use ::tokio::process;
use futures_io::{AsyncRead, AsyncWrite};

use crate::runtime::{Child, Processes, Runtime};

/// Runs on the tokio runtime of the caller, which must have its I/O and time drivers enabled.
#[derive(Clone, Copy, Debug)]
pub struct Tokio;

impl Runtime for Tokio {
    type Stream = Stream<TcpStream>;

    async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(lookup_host((host, port)).await?.collect())
    }

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
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

impl Processes for Tokio {
    type Child = process::Child;

    fn start(command: Command) -> io::Result<process::Child> {
        process::Command::from(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
    }
}

impl Child for process::Child {
    type Stdin = Stream<process::ChildStdin>;
    type Stdout = Stream<process::ChildStdout>;
    type Stderr = Stream<process::ChildStderr>;

    fn id(&self) -> Option<u32> {
        Self::id(self)
    }

    fn take_stdin(&mut self) -> Option<Self::Stdin> {
        self.stdin.take().map(Stream)
    }

    fn take_stdout(&mut self) -> Option<Self::Stdout> {
        self.stdout.take().map(Stream)
    }

    fn take_stderr(&mut self) -> Option<Self::Stderr> {
        self.stderr.take().map(Stream)
    }

    async fn wait(&mut self) -> io::Result<ExitStatus> {
        Self::wait(self).await
    }
}

/// A stream of tokio behind the traits of futures-io.
#[derive(Debug)]
pub struct Stream<S = TcpStream>(pub S);

impl<S: tokio_io::AsyncRead + Unpin> AsyncRead for Stream<S> {
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

impl<S: tokio_io::AsyncWrite + Unpin> AsyncWrite for Stream<S> {
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
