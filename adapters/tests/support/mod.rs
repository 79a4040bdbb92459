//! Small servers on loopback, each for one test.

use std::future::Future;
use std::time::Duration;

use buzz_adapters::tls::{Roots, Tls};
use buzz_adapters::url::RelayUrl;
use tokio::net::{TcpListener, TcpSocket};

/// Far more than any test needs: it only turns a hang into a failure.
pub(crate) async fn guard<F: Future>(test: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), test)
        .await
        .expect("the test hangs")
}

/// A listener and its address as a relay URL with `scheme`.
pub(crate) fn listen(scheme: &str) -> (TcpListener, RelayUrl) {
    let socket = TcpSocket::new_v4().unwrap();
    // Small, so that a peer that does not read soon blocks the writer.
    socket.set_recv_buffer_size(8 << 10).unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(8).unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = RelayUrl::parse(&format!("{scheme}://127.0.0.1:{port}")).unwrap();
    (listener, url)
}

pub(crate) fn tls() -> Tls {
    Tls::new(Roots::Bundled, None).unwrap()
}
