//! Through a proxy, which carries on or does not.

use async_tungstenite::accept_async;
use async_tungstenite::tungstenite::Message;
use buzz_adapters::dial::{DialError, connect};
use buzz_adapters::proxy::{Proxy, TunnelError};
use buzz_adapters::tokio::Stream;
use buzz_adapters::url::RelayUrl;
use buzz_adapters::ws::SocketEvent;
use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::Rt;
use crate::support::{guard, listen, tls};

/// A relay that only the proxy finds.
const RELAY: &str = "ws://relay.test:7000";

/// The relay's URL, by way of a proxy at this address.
fn through(listener: &TcpListener) -> RelayUrl {
    let addr = listener.local_addr().unwrap();
    let proxy = Proxy::parse(&format!("http://me:secret@{addr}")).unwrap();
    RelayUrl::parse(RELAY).unwrap().through(Some(proxy))
}

/// What it was asked for.
async fn asked(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn a_relay_is_reached_through_a_proxy() {
    let (listener, _) = listen("ws");
    let url = through(&listener);
    let proxy = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let asked = asked(&mut stream).await;
        for byte in b"HTTP/1.1 200 Connection established\r\nVia: a proxy\r\n\r\n" {
            stream.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        // The relay itself, behind it.
        let mut relay = accept_async(Stream(stream)).await.unwrap();
        relay.send(Message::text("hello")).await.unwrap();
        (asked, relay)
    };
    let client = async {
        let (mut socket, _) = connect::<Rt>(&url, &tls()).await.unwrap();
        socket.next().await
    };

    let ((asked, _relay), said) = guard(async { tokio::join!(proxy, client) }).await;

    assert_eq!(said, Some(SocketEvent::Text(Bytes::from("hello"))));
    assert_eq!(
        asked,
        "CONNECT relay.test:7000 HTTP/1.1\r\nHost: relay.test:7000\r\n\
         Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n"
    );
}

#[tokio::test]
async fn a_proxy_that_does_not_carry_on_says_why() {
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(20_000));
    let table = [
        (
            "HTTP/1.1 407 Who are you\r\n\r\n",
            "user name and password (407)",
        ),
        (
            "HTTP/1.1 502 Bad Gateway\r\nA: b\r\n\r\nno",
            "HTTP status 502",
        ),
        ("SSH-2.0-server\r\n", "is no HTTP proxy"),
        ("", "is no HTTP proxy"),
        (&endless, "is no HTTP proxy"),
    ];
    for (answer, reason) in table {
        let (listener, _) = listen("ws");
        let url = through(&listener);
        let proxy = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            asked(&mut stream).await;
            // It may have gone by then.
            let _gone = stream.write_all(answer.as_bytes()).await;
        };
        let client = async { connect::<Rt>(&url, &tls()).await.unwrap_err() };
        let ((), error) = guard(async { tokio::join!(proxy, client) }).await;
        assert!(error.to_string().contains(reason), "{answer:?}: {error}");
        assert!(!format!("{error:?}{url:?}").contains("secret"));
    }
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_said_to_be() {
    let (listener, _) = listen("ws");
    let url = through(&listener);
    drop(listener);

    let error = guard(connect::<Rt>(&url, &tls())).await.unwrap_err();

    assert!(
        matches!(error, DialError::Proxy(TunnelError::Unreachable(_))),
        "{error:?}"
    );
}
