//! HTTP requests over loopback.

mod answers;
mod ends;
mod reuse;

use std::time::Duration;

use buzz_adapters::dial::DialError;
use buzz_adapters::http::{HttpClient, HttpError, Limits};
use buzz_adapters::url::RelayUrl;
use buzz_proto::relay::HttpAnswer;
use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::Rt;
use crate::support::{guard, listen, tls};

const LIMITS: Limits = Limits {
    time_max: Duration::from_secs(60),
    body_bytes_max: 1000,
};
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

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
        "accept-encoding: identity\r\n",
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
async fn a_relay_out_of_reach_was_sent_nothing() {
    let (listener, url) = listen("http");
    drop(listener);
    let error = guard(post(&client(url), "")).await.unwrap_err();
    assert!(
        matches!(error, HttpError::Connect(DialError::Io(_))),
        "{error:?}"
    );
}

type Answer = Result<HttpAnswer, HttpError>;

fn client(url: RelayUrl) -> HttpClient<Rt> {
    HttpClient::new(url, tls())
}

async fn post(client: &HttpClient<Rt>, body: &'static str) -> Answer {
    client.post("/events", &[], Bytes::from(body), LIMITS).await
}

/// The outcome of a request to a server that sends `text` and closes.
async fn answered_by(text: impl AsRef<[u8]>) -> Answer {
    let (listener, url) = listen("http");
    let client = client(url);
    let server = async {
        let mut stream = accept(&listener).await;
        read(&mut stream).await;
        stream.write_all(text.as_ref()).await.unwrap();
    };
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
