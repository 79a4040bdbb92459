//! What a relay, or whatever stands in front of it, may answer.

use std::pin::pin;

use buzz_proto::relay::BrokeCause;
use buzz_proto::time::UnixTime;
use futures_util::poll;

use super::*;

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
async fn an_answer_without_an_end_is_cut_at_the_limit_and_its_connection_closed() {
    let part = "a".repeat(300);
    let chunk = format!("12c\r\n{part}\r\n");
    for (head, part) in [
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            &chunk,
        ),
        ("HTTP/1.0 200 OK\r\n\r\n", &part),
        (
            "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\n\r\n",
            &part,
        ),
    ] {
        let error = answered_without_end(head, part).await;
        assert_eq!(error.cause(), BrokeCause::TooLarge, "{head}");
    }
}

#[tokio::test]
async fn a_head_without_an_end_is_no_answer() {
    let error = answered_without_end("HTTP/1.1 200 OK\r\n", "a: b\r\n").await;
    assert_eq!(error.cause(), BrokeCause::Connection);
    let error = answered_without_end("HTTP/1.1 200 OK\r\na: ", "b").await;
    assert_eq!(error.cause(), BrokeCause::Connection);
}

#[tokio::test]
async fn an_answer_that_drips_is_given_up_in_time() {
    for (head, drip) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n", "a"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "1\r\na\r\n",
        ),
        ("", "HTTP/1.1 103 Early Hints\r\n\r\n"),
    ] {
        let (listener, url) = listen("http");
        let client = client(url);
        let limits = Limits {
            time_max: Duration::from_millis(50),
            body_bytes_max: 1 << 30,
        };
        let server = async {
            let mut stream = accept(&listener).await;
            answer(&mut stream, head).await;
            while stream.write_all(drip.as_bytes()).await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        let call = client.post("/events", &[], Bytes::new(), limits);
        let ((), result) = guard(async { tokio::join!(server, call) }).await;
        assert!(matches!(result, Err(HttpError::TimedOut)), "{result:?}");
    }
}

#[tokio::test]
async fn a_coded_answer_is_handed_over_as_it_came() {
    // Ten thousand zeros, written by gzip.
    let coded = b"\x1f\x8b\x08\0\0\0\0\0\x02\x03\xed\xc1\x01\r\0\0\0\xc2\xa0\xf7Om\x0e7";
    let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n";
    let text = [head.as_bytes(), coded].concat();
    let answer = answered_by(text).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, &coded[..]));
}

#[tokio::test]
async fn a_page_of_a_front_is_an_answer() {
    let page = "<html><head><title>429</title></head><body>slow down</body></html>";
    let length = page.len();
    let text = format!(
        "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/html\r\n\
         Content-Length: {length}\r\n\r\n{page}"
    );
    let answer = answered_by(text).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (429, page.as_bytes()));
    assert_eq!((answer.retry_after, answer.date), (None, None));
}

#[tokio::test]
async fn an_answer_without_content_is_one_and_its_connection_is_used_again() {
    let (listener, url) = listen("http");
    let client = client(url);
    let server = async {
        let mut stream = accept(&listener).await;
        answer(&mut stream, "HTTP/1.1 204 No Content\r\n\r\n").await;
        answer(&mut stream, OK).await;
    };
    let calls = async { (post(&client, "1").await, post(&client, "2").await) };
    let ((), (first, second)) = guard(async { tokio::join!(server, calls) }).await;
    let first = first.unwrap();
    assert_eq!((first.status, first.body.len()), (204, 0));
    assert_eq!(second.unwrap().status, 200);
}

#[tokio::test]
async fn interim_answers_are_passed_over() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let answer = answered_by(format!("{interim}{OK}")).await.unwrap();
    assert_eq!((answer.status, answer.body), (200, Bytes::from("ok")));
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let (listener, url) = listen("http");
        let port = url.port();
        let client = client(url);
        let redirect = format!(
            "HTTP/1.1 {status} Elsewhere\r\nContent-Length: 0\r\n\
             Location: http://127.0.0.1:{port}/events\r\n\r\n"
        );
        let server = async {
            let mut stream = accept(&listener).await;
            answer(&mut stream, &redirect).await;
            stream
        };
        let (mut stream, redirected) =
            guard(async { tokio::join!(server, post(&client, "{}")) }).await;
        assert_eq!(redirected.unwrap().status, status);
        let mut again = [0];
        assert!(poll!(pin!(stream.read(&mut again))).is_pending());
        assert!(poll!(pin!(listener.accept())).is_pending());
    }
}

/// The error of a request whose answer begins like this and goes on with `part` for ever. The
/// server comes to its end because its connection does.
async fn answered_without_end(head: &str, part: &str) -> HttpError {
    let (listener, url) = listen("http");
    let client = client(url);
    let server = async {
        let mut stream = accept(&listener).await;
        answer(&mut stream, head).await;
        while stream.write_all(part.as_bytes()).await.is_ok() {}
    };
    let ((), result) = guard(async { tokio::join!(server, post(&client, "{}")) }).await;
    result.unwrap_err()
}
