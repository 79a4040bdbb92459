//! Calls that are given up, and calls beside one that stalls.

use std::io::ErrorKind;

use futures_util::future::{Either, select};
use tokio::sync::watch;

use super::*;

#[tokio::test]
async fn a_call_given_up_closes_its_connection() {
    for begun in [
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok",
    ] {
        let (listener, url) = listen("http");
        let client = client(url);
        guard(async {
            let call = Box::pin(post(&client, "{}"));
            let server = async {
                let mut stream = accept(&listener).await;
                answer(&mut stream, begun).await;
                stream
            };
            let (mut stream, call) = match select(Box::pin(server), call).await {
                Either::Left(both) => both,
                Either::Right((ended, _)) => panic!("the call ended: {ended:?}"),
            };
            drop(call);
            // What it had not read yet makes the system say so more harshly.
            let end = stream.read(&mut [0]).await.map_err(|error| error.kind());
            assert!(
                matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)),
                "{begun}: {end:?}"
            );
        })
        .await;
        // Nothing of it is left for the next call.
        let server = async { answer(&mut accept(&listener).await, OK).await };
        let (_, next) = guard(async { tokio::join!(server, post(&client, "{}")) }).await;
        assert_eq!(next.unwrap().status, 200);
    }
}

#[tokio::test]
async fn a_call_given_up_before_tls_stands_closes_its_connection() {
    let (listener, url) = listen("https");
    let client = client(url);
    guard(async {
        let server = async {
            let mut stream = accept(&listener).await;
            stream.read_u8().await.unwrap();
            stream
        };
        let call = Box::pin(post(&client, "{}"));
        let (mut stream, call) = match select(Box::pin(server), call).await {
            Either::Left(both) => both,
            Either::Right((ended, _)) => panic!("the call ended: {ended:?}"),
        };
        drop(call);
        while stream.read(&mut [0; 4096]).await.unwrap_or(0) > 0 {}
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_stalls_holds_up_no_other() {
    let (listener, url) = listen("http");
    let client = client(url);
    let (go_on, stalls) = watch::channel(false);
    let server = tokio::spawn(async move {
        loop {
            let (mut stream, mut stalls) = (accept(&listener).await, stalls.clone());
            tokio::spawn(async move {
                while stream.peek(&mut [0]).await.is_ok_and(|it| it > 0) {
                    if read(&mut stream).await.ends_with("stalled") {
                        stalls.wait_for(|is_over| *is_over).await.unwrap();
                    }
                    stream.write_all(OK.as_bytes()).await.unwrap();
                }
            });
        }
    });
    let lane = || async {
        for _ in 0..20 {
            assert_eq!(post(&client, "{}").await.unwrap().status, 200);
        }
    };
    let others = async {
        tokio::join!(lane(), lane(), lane());
        go_on.send(true).unwrap();
    };
    let (stalled, ()) = guard(async { tokio::join!(post(&client, "stalled"), others) }).await;
    assert_eq!(stalled.unwrap().status, 200);
    server.abort();
}
