//! WebSockets over loopback, with and without TLS.

use async_tungstenite::tungstenite::protocol::CloseFrame;
use async_tungstenite::tungstenite::{Message, Utf8Bytes};
use async_tungstenite::{WebSocketStream, accept_async};
use buzz_adapters::dial::connect;
use buzz_adapters::tokio::Stream;
use buzz_adapters::ws::SocketEvent;
use buzz_proto::ids::WriteId;
use buzz_proto::wire::{Excerpt, FRAME_BYTES_MAX};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::Rt;
use crate::narrow::{Narrow, large, next};
use crate::support::{guard, listen, tls};

#[tokio::test]
async fn a_socket_can_be_driven_on_any_thread() {
    let (listener, url) = listen("ws");
    let server = async { accept(&listener).await.send(Message::text("hello")).await };
    let client = tokio::spawn(async move {
        let (mut socket, _) = connect::<Rt>(&url, &tls()).await.unwrap();
        socket.next().await
    });
    let (_, event) = guard(async { tokio::join!(server, client) }).await;
    assert_eq!(event.unwrap(), Some(SocketEvent::Text(text("hello"))));
}

#[tokio::test]
async fn frames_are_written_and_read_in_order() {
    let (listener, url) = listen("ws");
    let server = async {
        let mut peer = accept(&listener).await;
        while let Some(Ok(Message::Text(text))) = peer.next().await {
            peer.send(Message::Text(text)).await.unwrap();
        }
    };
    let client = async {
        let (mut socket, date) = connect::<Rt>(&url, &tls()).await.unwrap();
        for n in 0..3 {
            socket.queue(WriteId(n), text(&n.to_string()));
        }
        let (mut written, mut read) = (Vec::new(), Vec::new());
        while read.len() < 3 {
            match socket.next().await.unwrap() {
                SocketEvent::Written(write) => written.push(write.0),
                SocketEvent::Text(text) => read.push(text),
                SocketEvent::Ignored
                | SocketEvent::Pinged
                | SocketEvent::Pong
                | SocketEvent::WriteFailed { .. }
                | SocketEvent::Closed { .. } => panic!("something else happened"),
            }
        }
        assert_eq!(written, [0, 1, 2]);
        assert_eq!(read, [text("0"), text("1"), text("2")]);
        assert_eq!(date, None);
    };
    guard(async { tokio::join!(server, client) }).await;
}

#[tokio::test]
async fn a_ping_is_answered_while_nothing_is_written() {
    let (listener, url) = listen("ws");
    let server = async {
        let mut peer = accept(&listener).await;
        peer.send(Message::Ping(text("here?"))).await.unwrap();
        assert_eq!(
            peer.next().await.unwrap().unwrap(),
            Message::Pong(text("here?"))
        );
        peer.send(Message::text("answered")).await.unwrap();
        peer
    };
    let client = async {
        let (mut socket, _) = connect::<Rt>(&url, &tls()).await.unwrap();
        assert_eq!(socket.next().await, Some(SocketEvent::Pinged));
        assert_eq!(
            socket.next().await,
            Some(SocketEvent::Text(text("answered")))
        );
    };
    guard(async { tokio::join!(server, client) }).await;
}

#[tokio::test]
async fn a_ping_gets_its_pong_and_goes_before_waiting_frames() {
    let (listener, url) = listen("ws");
    let server = async {
        let mut peer = accept(&listener).await;
        assert!(matches!(peer.next().await, Some(Ok(Message::Ping(_)))));
        assert!(matches!(peer.next().await, Some(Ok(Message::Text(_)))));
        peer
    };
    let client = async {
        let (mut socket, _) = connect::<Rt>(&url, &tls()).await.unwrap();
        socket.queue(WriteId(1), text("later"));
        socket.ping();
        assert_eq!(socket.next().await, Some(SocketEvent::Written(WriteId(1))));
        socket
    };
    guard(async {
        let (mut peer, mut socket) = tokio::join!(server, client);
        let (pong, _) = tokio::join!(socket.next(), peer.flush());
        assert_eq!(pong, Some(SocketEvent::Pong));
    })
    .await;
}

#[tokio::test]
async fn snapview_tungstenite_rs_393_a_pong_goes_first_once_a_blocked_write_is_over() {
    let (listener, url) = listen("ws");
    let (read, may_read) = oneshot::channel();
    let server = async {
        let mut peer = accept(&listener).await;
        for message in [
            Message::text("1"),
            Message::Ping(text("p")),
            Message::text("2"),
        ] {
            peer.send(message).await.unwrap();
        }
        may_read.await.unwrap();
        let mut messages = Vec::new();
        for _ in 0..3 {
            messages.push(peer.next().await.unwrap().unwrap());
        }
        // The pong overtook the frame that was not handed over yet.
        let expected = [
            Message::text(std::str::from_utf8(&large()).unwrap()),
            Message::Pong(text("p")),
            Message::text("after"),
        ];
        assert!(messages == expected);
    };
    let client = async {
        let (mut socket, _) = connect::<Narrow>(&url, &tls()).await.unwrap();
        socket.queue(WriteId(1), large());
        socket.queue(WriteId(2), text("after"));
        let events = next(&mut socket, 3).await;
        let expected = [
            SocketEvent::Text(text("1")),
            SocketEvent::Pinged,
            SocketEvent::Text(text("2")),
        ];
        assert_eq!(events, expected);
        read.send(()).unwrap();
        let events = next(&mut socket, 2).await;
        let expected = [WriteId(1), WriteId(2)].map(SocketEvent::Written);
        assert_eq!(events, expected);
    };
    guard(async { tokio::join!(server, client) }).await;
}

#[tokio::test]
async fn a_lost_connection_tells_which_writes_were_committed() {
    let (listener, url) = listen("ws");
    let server = async {
        let mut peer = accept(&listener).await;
        peer.send(Message::text("ready")).await.unwrap();
        drop(peer);
    };
    let client = async {
        let (mut socket, _) = connect::<Narrow>(&url, &tls()).await.unwrap();
        for n in 1..=3 {
            socket.queue(WriteId(n), large());
        }
        let mut events = Vec::new();
        while let Some(event) = socket.next().await {
            events.push(event);
        }
        events.retain(|event| !matches!(event, SocketEvent::Text(_)));
        let closed = events.pop();
        assert!(
            matches!(closed, Some(SocketEvent::Closed { code: None, .. })),
            "{closed:?}"
        );
        let failed = |write, sent| SocketEvent::WriteFailed {
            write: WriteId(write),
            sent,
        };
        assert_eq!(
            events,
            [failed(1, true), failed(2, false), failed(3, false)]
        );
        assert_eq!(socket.next().await, None);
    };
    guard(async { tokio::join!(server, client) }).await;
}

#[tokio::test]
async fn the_code_of_the_peers_close_frame_is_told() {
    for (code, reason) in [(Some(1012_u16), "draining"), (Some(1008), ""), (None, "")] {
        let (listener, url) = listen("ws");
        let server = async {
            let mut peer = accept(&listener).await;
            let frame = code.map(|code| CloseFrame {
                code: code.into(),
                reason: Utf8Bytes::from_static(reason),
            });
            peer.close(frame).await.unwrap();
            // Our answer to the close frame.
            assert!(matches!(peer.next().await, Some(Ok(Message::Close(_)))));
        };
        let client = async {
            let (mut socket, _) = connect::<Rt>(&url, &tls()).await.unwrap();
            let detail = Excerpt::new(reason);
            assert_eq!(
                socket.next().await,
                Some(SocketEvent::Closed { code, detail })
            );
            assert_eq!(socket.next().await, None);
        };
        guard(async { tokio::join!(server, client) }).await;
    }
}

#[tokio::test]
async fn a_frame_that_comes_byte_by_byte_is_whole_and_pings_between_are_answered() {
    let (listener, url) = listen("ws");
    // Unmasked, as a server's frames are (RFC 6455 section 5.2): text in two fragments, a ping
    // between them.
    let frames = b"\x01\x05hello\x89\x01?\x80\x06 world";
    let server = async {
        let mut peer = accept(&listener).await;
        let Stream(stream) = peer.get_mut();
        for byte in frames {
            stream.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!(
            peer.next().await.unwrap().unwrap(),
            Message::Pong(text("?"))
        );
        peer
    };
    let client = async {
        let (mut socket, _) = connect::<Rt>(&url, &tls()).await.unwrap();
        assert_eq!(socket.next().await, Some(SocketEvent::Pinged));
        let whole = Some(SocketEvent::Text(text("hello world")));
        assert_eq!(socket.next().await, whole);
        socket
    };
    let (peer, mut socket) = guard(async { tokio::join!(server, client) }).await;
    drop(peer);
    assert!(matches!(
        guard(socket.next()).await,
        Some(SocketEvent::Closed { .. })
    ));
}

#[tokio::test]
async fn a_peer_that_closes_its_half_alone_ends_the_connection() {
    let (listener, url) = listen("ws");
    let server = async {
        let mut peer = accept(&listener).await;
        let Stream(stream) = peer.get_mut();
        stream.shutdown().await.unwrap();
        peer
    };
    let client = async {
        let (mut socket, _) = connect::<Rt>(&url, &tls()).await.unwrap();
        let last = socket.next().await;
        assert!(
            matches!(last, Some(SocketEvent::Closed { code: None, .. })),
            "{last:?}"
        );
        assert_eq!(socket.next().await, None);
    };
    let (_half_open, ()) = guard(async { tokio::join!(server, client) }).await;
}

#[tokio::test]
async fn closing_fails_what_waits_and_ends_when_the_peer_agrees() {
    let (listener, url) = listen("ws");
    let server = async {
        let mut peer = accept(&listener).await;
        let Some(Ok(Message::Close(Some(frame)))) = peer.next().await else {
            panic!("no close frame");
        };
        assert_eq!(u16::from(frame.code), 1000);
        assert!(peer.next().await.is_none());
    };
    let client = async {
        let (mut socket, _) = connect::<Rt>(&url, &tls()).await.unwrap();
        socket.queue(WriteId(1), text("waits"));
        socket.close(1000);
        socket.queue(WriteId(2), text("too late"));
        let events = next(&mut socket, 3).await;
        let failed = |write| SocketEvent::WriteFailed {
            write: WriteId(write),
            sent: false,
        };
        let detail = Excerpt::default();
        let closed = SocketEvent::Closed {
            code: Some(1000),
            detail,
        };
        assert_eq!(events, [failed(1), failed(2), closed]);
    };
    guard(async { tokio::join!(server, client) }).await;
}

#[tokio::test]
async fn binary_frames_count_as_text_or_not_at_all() {
    let (listener, url) = listen("ws");
    let server = async {
        let mut peer = accept(&listener).await;
        for bytes in [text("é"), Bytes::from_static(b"\xff"), text("end")] {
            peer.send(Message::Binary(bytes)).await.unwrap();
        }
        peer
    };
    let client = async {
        let (mut socket, _) = connect::<Rt>(&url, &tls()).await.unwrap();
        let events = next(&mut socket, 3).await;
        let [first, last] = ["é", "end"].map(|part| SocketEvent::Text(text(part)));
        assert_eq!(events, [first, SocketEvent::Ignored, last]);
    };
    guard(async { tokio::join!(server, client) }).await;
}

#[tokio::test]
async fn frames_over_the_limit_end_the_connection_or_are_not_sent() {
    let (listener, url) = listen("ws");
    let server = async {
        let mut peer = accept(&listener).await;
        assert_eq!(peer.next().await.unwrap().unwrap(), Message::text("legal"));
        let length = FRAME_BYTES_MAX as u64 + 1;
        let head = [&[0x81, 127], length.to_be_bytes().as_slice()].concat();
        futures_util::AsyncWriteExt::write_all(peer.get_mut(), &head)
            .await
            .unwrap();
        peer
    };
    let client = async {
        let (mut socket, _) = connect::<Rt>(&url, &tls()).await.unwrap();
        socket.queue(WriteId(1), Bytes::from(vec![b'a'; FRAME_BYTES_MAX + 1]));
        socket.queue(WriteId(2), Bytes::from_static(b"\xff"));
        socket.queue(WriteId(3), text("legal"));
        let events = next(&mut socket, 4).await;
        let failed = |write| SocketEvent::WriteFailed {
            write: WriteId(write),
            sent: false,
        };
        assert_eq!(
            events[..3],
            [failed(1), failed(2), SocketEvent::Written(WriteId(3))]
        );
        assert!(matches!(events[3], SocketEvent::Closed { code: None, .. }));
    };
    guard(async { tokio::join!(server, client) }).await;
}

async fn accept(listener: &TcpListener) -> WebSocketStream<Stream> {
    let (stream, _) = listener.accept().await.unwrap();
    accept_async(Stream(stream)).await.unwrap()
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
