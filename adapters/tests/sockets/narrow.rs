//! A connection on which writes block soon.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use buzz_adapters::runtime::Runtime;
use buzz_adapters::ws::{Socket, SocketEvent};
use bytes::Bytes;
use tokio::net::TcpSocket;

use crate::Rt;

/// The runtime with a small send buffer, so that a peer that does not read blocks writes soon. Every
/// name has another address first and last, which refuses.
pub(crate) struct Narrow;

impl Runtime for Narrow {
    type Stream = <Rt as Runtime>::Stream;

    async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let mut addresses = Rt::resolve(host, port).await?;
        let refusing = ([127, 0, 0, 1], 1).into();
        addresses.insert(0, refusing);
        addresses.push(refusing);
        Ok(addresses)
    }

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        let socket = TcpSocket::new_v4()?;
        socket.set_send_buffer_size(8 << 10)?;
        let stream = socket.connect(address).await?;
        crate::adopt(stream.into_std()?)
    }

    fn sleep(span: Duration) -> impl Future<Output = ()> + Send + 'static {
        Rt::sleep(span)
    }

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        Rt::spawn(task);
    }

    async fn spawn_blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        Rt::spawn_blocking(work).await
    }
}

/// The next events, as many as `count`.
pub(crate) async fn next(
    socket: &mut Socket<<Rt as Runtime>::Stream>,
    count: usize,
) -> Vec<SocketEvent> {
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
