//! Connections that serve one request after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use futures_util::future::join_all;

use super::*;

#[tokio::test]
async fn requests_one_after_the_other_share_a_connection() {
    let (listener, url) = listen("http");
    let server = async {
        let mut stream = accept(&listener).await;
        let requests = [answer(&mut stream, OK).await, answer(&mut stream, OK).await];
        (stream, requests)
    };
    let client = async {
        let client = client(url);
        for body in ["first", "second"] {
            let answer = post(&client, body).await.unwrap();
            assert_eq!((answer.status, answer.body), (200, Bytes::from("ok")));
        }
    };
    let ((_, requests), ()) = guard(async { tokio::join!(server, client) }).await;
    assert!(requests[0].ends_with("\r\n\r\nfirst"));
    assert!(requests[1].ends_with("\r\n\r\nsecond"));
}

#[tokio::test]
async fn an_idle_connection_that_was_closed_is_replaced() {
    let (listener, url) = listen("http");
    let client = client(url);
    let server = async { answer(&mut accept(&listener).await, OK).await };
    let (_, first) = guard(async { tokio::join!(server, post(&client, "1")) }).await;
    // The server is gone. The background task of the connection must have a chance to see it.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    let server = async { answer(&mut accept(&listener).await, OK).await };
    let (_, second) = guard(async { tokio::join!(server, post(&client, "2")) }).await;
    assert_eq!((first.unwrap().status, second.unwrap().status), (200, 200));
}

#[tokio::test]
async fn a_request_that_may_have_arrived_is_not_repeated() {
    let (listener, url) = listen("http");
    let client = client(url);
    let server = async {
        let mut stream = accept(&listener).await;
        answer(&mut stream, OK).await;
        read(&mut stream).await;
    };
    let calls = async { (post(&client, "1").await, post(&client, "2").await) };
    let ((), (first, second)) = guard(async { tokio::join!(server, calls) }).await;
    assert_eq!(first.unwrap().status, 200);
    assert!(matches!(second, Err(HttpError::Broke(_))), "{second:?}");
    let mut again = std::pin::pin!(listener.accept());
    assert!(futures_util::poll!(again.as_mut()).is_pending());
}

#[tokio::test]
async fn requests_at_once_use_connections_of_their_own() {
    let (listener, url) = listen("http");
    let client = client(url);
    let server = async {
        let mut streams = [accept(&listener).await, accept(&listener).await];
        for stream in &mut streams {
            answer(stream, OK).await;
        }
        streams
    };
    let calls = async { tokio::join!(post(&client, "1"), post(&client, "2")) };
    let (_, (first, second)) = guard(async { tokio::join!(server, calls) }).await;
    assert_eq!((first.unwrap().status, second.unwrap().status), (200, 200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_requests_one_after_the_other_use_one_connection() {
    let (server, url) = Server::start();
    let client = client(url);
    guard(async {
        for _ in 0..100 {
            assert_eq!(post(&client, "{}").await.unwrap().status, 200);
        }
    })
    .await;
    assert_eq!(server.connections(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_requests_four_at_a_time_use_four_connections() {
    let (server, url) = Server::start();
    let client = client(url);
    let lane = || async {
        for _ in 0..25 {
            assert_eq!(post(&client, "{}").await.unwrap().status, 200);
        }
    };
    guard(async { tokio::join!(lane(), lane(), lane(), lane()) }).await;
    assert!(server.connections() <= 4, "{}", server.connections());
}

#[tokio::test]
async fn four_idle_connections_are_kept_and_a_fifth_is_closed() {
    let (listener, url) = listen("http");
    let client = client(url);
    let server = async {
        let mut streams = Vec::new();
        for _ in 0..5 {
            streams.push(accept(&listener).await);
        }
        for stream in &mut streams {
            answer(stream, OK).await;
        }
        let again = streams.iter_mut().map(|stream| async {
            let is_open = stream.peek(&mut [0]).await.unwrap() > 0;
            if is_open {
                answer(stream, OK).await;
            }
            is_open
        });
        let open = join_all(again).await;
        assert_eq!(open.into_iter().filter(|is_open| *is_open).count(), 4);
    };
    let call = || post(&client, "{}");
    let calls = async {
        let begun = join_all((0..5).map(|_| call())).await;
        begun
            .into_iter()
            .chain(join_all((0..4).map(|_| call())).await)
    };
    let ((), answers) = guard(async { tokio::join!(server, calls) }).await;
    assert!(answers.map(Result::unwrap).all(|it| it.status == 200));
}

#[tokio::test]
async fn a_connection_that_the_relay_will_close_is_not_used_again() {
    for announced in [
        "Connection: close",
        "Keep-Alive: timeout=1",
        "Keep-Alive: max=9, timeout=0",
    ] {
        let (listener, url) = listen("http");
        let client = client(url);
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{announced}\r\n\r\n");
        let server = async {
            let mut first = accept(&listener).await;
            answer(&mut first, &text).await;
            let mut second = accept(&listener).await;
            answer(&mut second, OK).await;
        };
        let calls = async { (post(&client, "1").await, post(&client, "2").await) };
        let ((), (first, second)) = guard(async { tokio::join!(server, calls) }).await;
        assert_eq!((first.unwrap().status, second.unwrap().status), (200, 200));
    }
}

#[tokio::test]
async fn a_connection_that_the_relay_keeps_for_long_is_used_again() {
    let (listener, url) = listen("http");
    let client = client(url);
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nKeep-Alive: timeout=3600\r\n\r\n";
    let server = async {
        let mut stream = accept(&listener).await;
        answer(&mut stream, text).await;
        answer(&mut stream, text).await;
    };
    let calls = async { (post(&client, "1").await, post(&client, "2").await) };
    let ((), (first, second)) = guard(async { tokio::join!(server, calls) }).await;
    assert_eq!((first.unwrap().status, second.unwrap().status), (200, 200));
}

/// Answers everything, and counts connections.
struct Server {
    connections: Arc<AtomicU64>,
}

impl Server {
    fn start() -> (Self, RelayUrl) {
        let (listener, url) = listen("http");
        let connections = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&connections);
        tokio::spawn(async move {
            loop {
                let mut stream = accept(&listener).await;
                seen.fetch_add(1, Relaxed);
                tokio::spawn(async move {
                    while stream.peek(&mut [0]).await.is_ok_and(|it| it > 0) {
                        answer(&mut stream, OK).await;
                    }
                });
            }
        });
        (Self { connections }, url)
    }

    fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }
}
