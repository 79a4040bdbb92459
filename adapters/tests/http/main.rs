//! HTTP requests over loopback.

#![cfg(feature = "tokio")]
#![expect(clippy::unwrap_used, reason = "support functions of tests")]

mod support;

use std::time::Duration;

use buzz_adapters::dial::DialError;
use buzz_adapters::http::{HttpClient, HttpError, Limits};
use buzz_adapters::tokio::Tokio;
use buzz_adapters::url::RelayUrl;
use buzz_proto::relay::HttpAnswer;
use buzz_proto::time::UnixTime;
use bytes::Bytes;
use support::{guard, listen, tls};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const LIMITS: Limits = Limits {
    time_max: Duration::from_secs(60),
    body_bytes_max: 1000,
};
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

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
async fn a_call_can_run_on_any_thread() {
    let (listener, url) = listen("http");
    let client = client(url);
    let server = async { answer(&mut accept(&listener).await, OK).await };
    let call = tokio::spawn(async move { post(&client, "{}").await });
    let (_, answer) = guard(async { tokio::join!(server, call) }).await;
    assert_eq!(answer.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn a_request_says_what_the_relay_needs() {
    let (listener, url) = listen("http");
    let port = url.port();
    let url = RelayUrl::parse(&format!("ws://127.0.0.1:{port}/base/?key=1")).unwrap();
    let server = async {
        let mut stream = accept(&listener).await;
        [answer(&mut stream, OK).await, answer(&mut stream, OK).await]
    };
    let client = async {
        let client = client(url);
        let headers = [("Authorization", "Nostr e30="), ("x-auth-tag", "[]")];
        client
            .post("/events", &headers, Bytes::from("{}"), LIMITS)
            .await
            .unwrap();
        client
            .get("/info", "application/nostr+json", LIMITS)
            .await
            .unwrap();
        let headers = [("Authorization", "two\r\nlines")];
        let refused = client.post("/events", &headers, Bytes::new(), LIMITS).await;
        assert!(matches!(refused, Err(HttpError::Request)));
    };
    let ([post, get], ()) = guard(async { tokio::join!(server, client) }).await;
    assert!(
        post.starts_with("POST /base/events?key=1 HTTP/1.1\r\n"),
        "{post}"
    );
    for header in [
        &format!("host: 127.0.0.1:{port}\r\n"),
        "authorization: Nostr e30=\r\n",
        "x-auth-tag: []\r\n",
        "content-type: application/json\r\n",
        "content-length: 2\r\n",
    ] {
        assert!(post.contains(header), "{post}");
    }
    assert!(
        get.starts_with("GET /base/info?key=1 HTTP/1.1\r\n"),
        "{get}"
    );
    assert!(get.contains("accept: application/nostr+json\r\n"), "{get}");
}

#[tokio::test]
async fn a_refusal_is_an_answer_with_its_hints() {
    let refusal = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\n\
        Date: Mon, 17 Aug 2026 12:00:00 GMT\r\nTransfer-Encoding: chunked\r\n\r\n\
        4\r\nslow\r\n5\r\n down\r\n0\r\n\r\n";
    let answer = answered_by(refusal).await.unwrap();
    assert_eq!(answer.status, 429);
    assert_eq!(answer.retry_after, Some(Bytes::from("7")));
    assert_eq!(answer.date, Some(UnixTime(1_786_968_000)));
    assert_eq!(answer.body, Bytes::from("slow down"));
}

#[tokio::test]
async fn a_body_up_to_the_limit_is_read_and_a_larger_one_is_not() {
    let body = "a".repeat(1000);
    let legal = format!("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{body}");
    assert_eq!(answered_by(&legal).await.unwrap().body.len(), 1000);
    let announced = "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n";
    let chunked =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n{body}a\r\n");
    for answer in [announced, &chunked] {
        let error = answered_by(answer).await.unwrap_err();
        assert!(matches!(error, HttpError::TooLarge(1000)), "{error:?}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    for part in [
        "",
        "HTTP/1.1 2",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
        "nonsense\r\n\r\n",
    ] {
        let error = answered_by(part).await.unwrap_err();
        assert!(matches!(error, HttpError::Broke(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_silent_relay_is_given_up() {
    let (_listener, url) = listen("http");
    let limits = Limits {
        time_max: Duration::from_millis(20),
        ..LIMITS
    };
    let client = client(url);
    let call = client.post("/events", &[], Bytes::new(), limits);
    assert!(matches!(guard(call).await, Err(HttpError::TimedOut)));
}

#[tokio::test]
async fn a_relay_out_of_reach_was_sent_nothing() {
    let (listener, url) = listen("http");
    drop(listener);
    let error = guard(post(&client(url), "")).await.unwrap_err();
    assert!(
        matches!(error, HttpError::Connect(DialError::Io(_))),
        "{error:?}"
    );
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

type Answer = Result<HttpAnswer, HttpError>;

fn client(url: RelayUrl) -> HttpClient<Tokio> {
    HttpClient::new(url, tls())
}

async fn post(client: &HttpClient<Tokio>, body: &'static str) -> Answer {
    client.post("/events", &[], Bytes::from(body), LIMITS).await
}

/// The outcome of a request to a server that sends `text` and closes.
async fn answered_by(text: &str) -> Answer {
    let (listener, url) = listen("http");
    let client = client(url);
    let server = async { answer(&mut accept(&listener).await, text).await };
    guard(async { tokio::join!(server, post(&client, "{}")) })
        .await
        .1
}

async fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().await.unwrap().0
}

async fn answer(stream: &mut TcpStream, text: &str) -> String {
    let request = read(stream).await;
    stream.write_all(text.as_bytes()).await.unwrap();
    request
}

/// One request with its body, if it announces one.
async fn read(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(request).unwrap();
    let length = head.split("content-length: ").nth(1);
    let length = length.map_or(0, |rest| {
        rest.split("\r\n").next().unwrap().parse().unwrap()
    });
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    head + &String::from_utf8(body).unwrap()
}
