//! The async-std runtime.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use ::async_std::net::{TcpStream, ToSocketAddrs as _};
use ::async_std::task;

use crate::runtime::{Child, Processes, Runtime};

/// Runs on the threads that async-std starts for the whole program.
#[derive(Clone, Copy, Debug)]
pub struct AsyncStd;

impl Runtime for AsyncStd {
    type Stream = TcpStream;

    async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok((host, port).to_socket_addrs().await?.collect())
    }

    async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn sleep(span: Duration) -> impl Future<Output = ()> + Send + 'static {
        task::sleep(span)
    }

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        // The handle only serves to wait for the task, which ends by itself.
        drop(task::spawn(task));
    }

    async fn spawn_blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        // A panic would otherwise go on in whoever waits for it.
        let work = AssertUnwindSafe(work);
        task::spawn_blocking(move || catch_unwind(work).ok()).await
    }
}

impl Processes for AsyncStd {
    type Child = async_process::Child;

    fn start(command: Command) -> io::Result<async_process::Child> {
        async_process::Command::from(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
    }
}

impl Child for async_process::Child {
    type Stdin = async_process::ChildStdin;
    type Stdout = async_process::ChildStdout;
    type Stderr = async_process::ChildStderr;

    fn id(&self) -> Option<u32> {
        Some(Self::id(self))
    }

    fn take_stdin(&mut self) -> Option<Self::Stdin> {
        self.stdin.take()
    }

    fn take_stdout(&mut self) -> Option<Self::Stdout> {
        self.stdout.take()
    }

    fn take_stderr(&mut self) -> Option<Self::Stderr> {
        self.stderr.take()
    }

    async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.status().await
    }
}
