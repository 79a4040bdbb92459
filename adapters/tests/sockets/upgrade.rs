//! How a WebSocket comes about, or does not.

use std::io;

use async_tungstenite::accept_hdr_async;
use async_tungstenite::tungstenite::handshake::server::{Request, Response};
use buzz_adapters::dial::{DialError, connect};
use buzz_adapters::tokio::Stream;
use buzz_proto::time::UnixTime;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::Rt;
use crate::support::{guard, listen, tls};

#[tokio::test]
#[expect(
    clippy::result_large_err,
    reason = "the type of the library's callback"
)]
async fn the_date_of_the_upgrade_is_told() {
    let (listener, url) = listen("ws");
    let server = async {
        let (stream, _) = listener.accept().await.unwrap();
        let dated = |_: &Request, mut response: Response| {
            let date = "Mon, 17 Aug 2026 12:00:00 GMT".parse().unwrap();
            response.headers_mut().insert("date", date);
            Ok(response)
        };
        accept_hdr_async(Stream(stream), dated).await.unwrap()
    };
    let client = async { connect::<Rt>(&url, &tls()).await.unwrap().1 };
    let (_peer, date) = guard(async { tokio::join!(server, client) }).await;
    assert_eq!(date, Some(UnixTime(1_786_968_000)));
}

#[tokio::test]
async fn a_refused_upgrade_is_told_with_status_and_body() {
    let answer = "HTTP/1.1 503 Unavailable\r\nContent-Length: 16\r\n\r\nrelay restarting";
    let DialError::Status { status, body } = upgrade_answered_by(answer).await else {
        panic!("no status");
    };
    assert_eq!((status, body.as_str()), (503, "relay restarting"));
}

#[tokio::test]
async fn a_peer_that_speaks_something_else_is_no_relay() {
    let error = upgrade_answered_by("SSH-2.0-OpenSSH_9.9\r\n\r\n").await;
    assert!(matches!(error, DialError::NotWebSocket(_)), "{error:?}");
    let error = upgrade_answered_by("").await;
    assert!(
        matches!(error, DialError::NotWebSocket(_) | DialError::Io(_)),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_port_without_a_listener_refuses() {
    let (listener, url) = listen("ws");
    drop(listener);
    let error = guard(connect::<Rt>(&url, &tls())).await.unwrap_err();
    let DialError::Io(error) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

async fn upgrade_answered_by(answer: &str) -> DialError {
    let (listener, url) = listen("ws");
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
    };
    let client = async { connect::<Rt>(&url, &tls()).await.unwrap_err() };
    guard(async { tokio::join!(server, client) }).await.1
}
