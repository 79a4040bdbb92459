//! A connection on which writes block soon.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use buzz_adapters::runtime::Runtime;
use buzz_adapters::tokio::{Stream, Tokio};
use buzz_adapters::ws::{Socket, SocketEvent};
use bytes::Bytes;
use tokio::net::TcpSocket;

/// Tokio with a small send buffer, so that a peer that does not read blocks writes soon. Every
/// name has another address first, which refuses.
pub(crate) struct Narrow;

impl Runtime for Narrow {
    type Stream = Stream;

    async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let mut addresses = Tokio::resolve(host, port).await?;
        addresses.insert(0, ([127, 0, 0, 1], 1).into());
        Ok(addresses)
    }

    async fn connect(address: SocketAddr) -> io::Result<Stream> {
        let socket = TcpSocket::new_v4()?;
        socket.set_send_buffer_size(8 << 10)?;
        Ok(Stream(socket.connect(address).await?))
    }

    fn sleep(span: Duration) -> impl Future<Output = ()> + Send + 'static {
        Tokio::sleep(span)
    }

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        Tokio::spawn(task);
    }

    async fn spawn_blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        Tokio::spawn_blocking(work).await
    }
}

/// The next events, as many as `count`.
pub(crate) async fn next(socket: &mut Socket<Stream>, count: usize) -> Vec<SocketEvent> {
    let mut events = Vec::new();
    while events.len() < count {
        events.push(socket.next().await.expect("the socket has ended"));
    }
    events
}

/// More than the buffers of a [`Narrow`] connection hold.
pub(crate) fn large() -> Bytes {
    Bytes::from(vec![b'a'; 4 << 20])
}
