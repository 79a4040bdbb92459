//! HTTP calls of the publisher, given to a driver one by one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use buzz_proto::ids::PubKey;
use buzz_proto::wire::{Draft, Event};
use bytes::Bytes;
use futures_channel::oneshot;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::net::TcpStream;

use super::*;
use crate::sign::{SignError, Signer};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]";

#[tokio::test]
async fn each_attempt_of_an_event_is_signed_anew() {
    let (listener, mut driver) = relay().await;
    let event = event();
    let server = async {
        let mut stream = listener.accept().await.unwrap().0;
        [answer(&mut stream, OK).await, answer(&mut stream, OK).await]
    };

    let attempts = async {
        for number in 1..=2 {
            driver.perform(post(number, &event));
            assert_eq!(answered(&mut driver).await, (Ticket(number), 200));
        }
    };
    let (requests, ()) = guard(async { tokio::join!(server, attempts) }).await;

    let proofs = requests.map(|request| {
        assert!(
            request.starts_with("POST /events HTTP/1.1\r\n"),
            "{request}"
        );
        assert!(request.as_bytes().ends_with(event.raw()), "{request}");
        proof(&request)
    });
    assert_ne!(proofs[0]["id"], proofs[1]["id"]);
    assert_ne!(tag(&proofs[0], "nonce"), tag(&proofs[1], "nonce"));
    assert_eq!(tag(&proofs[0], "payload"), tag(&proofs[1], "payload"));
}

#[tokio::test]
async fn a_look_up_is_asked_for_at_its_place_and_may_be_answered_at_length() {
    let (listener, mut driver) = relay().await;
    let body = r#"[{"kinds":[9],"ids":["00"]}]"#;
    let events = " ".repeat(100_000);
    let long = format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{events}");
    let server = async { answer(&mut listener.accept().await.unwrap().0, &long).await };

    driver.perform(query(1, body));
    let (request, answered) = guard(async { tokio::join!(server, answered(&mut driver)) }).await;

    assert_eq!(answered, (Ticket(1), 200));
    assert!(request.starts_with("POST /query HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with(body), "{request}");
    let url = tag(&proof(&request), "u").to_string();
    assert!(url.ends_with("/query\""), "{url}");
}

#[tokio::test]
async fn an_answer_to_a_post_of_more_than_64_kib_is_not_read() {
    let (listener, mut driver) = relay().await;
    let text = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 65537\r\n\r\n";
    let server = async {
        let mut stream = listener.accept().await.unwrap().0;
        answer(&mut stream, text).await;
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    };

    driver.perform(post(1, &event()));
    let ((), fact) = guard(async { tokio::join!(server, fact(&mut driver)) }).await;

    let (ticket, cause) = (Ticket(1), BrokeCause::TooLarge);
    assert_eq!(
        fact,
        Input::Publish(publish::Input::Broke { ticket, cause })
    );
}

#[test]
fn a_call_is_not_cut_off_before_the_machine_gives_it_up() {
    let long = Duration::from_secs(3600);
    for (publish, relay) in [
        (long, Duration::from_secs(1)),
        (Duration::from_secs(1), long),
    ] {
        let mut setup = setup("ws://127.0.0.1:9", None);
        setup.config.publish.answer = publish;
        setup.config.relay.limits.answer = relay;
        let (deliver, _nobody) = deliveries();
        let driver = Driver::<Tokio>::new(setup, deliver).unwrap().0;
        assert!(driver.call_time_max > long);
    }
}

#[tokio::test]
async fn a_call_that_is_not_awaited_any_more_closes_its_connection_and_tells_nothing() {
    let (listener, mut driver) = relay().await;
    for order in [post(1, &event()), query(1, "[]")] {
        driver.perform(order);
        let (mut given_up, _) = guard(listener.accept()).await.unwrap();
        guard(given_up.read_u8()).await.unwrap();

        let ticket = Ticket(1);
        driver.perform(Action::Publish(publish::Action::Abort { ticket }));

        guard(async { while let Ok(1..) = given_up.read(&mut [0; 1024]).await {} }).await;
        driver.perform(query(2, "[]"));
        let server = async { answer(&mut listener.accept().await.unwrap().0, OK).await };
        let (_, fact) = guard(async { tokio::join!(server, answered(&mut driver)) }).await;
        assert_eq!(fact, (Ticket(2), 200));
    }
}

#[tokio::test]
async fn what_comes_of_a_call_after_it_was_given_up_does_not_reach_the_machine() {
    let (listener, mut driver) = relay().await;
    let told = listen_to(&mut driver);
    let server = async { answer(&mut listener.accept().await.unwrap().0, OK).await };
    driver.perform(sign(1));
    let signed = fact(&mut driver).await;
    driver.perform(query(2, "[]"));
    let (_, answered) = guard(async { tokio::join!(server, fact(&mut driver)) }).await;

    for (number, late) in [(1, signed), (2, answered)] {
        let ticket = Ticket(number);
        driver.perform(Action::Publish(publish::Action::Abort { ticket }));
        driver.take(Message::Fact(late));
    }

    // It would be told as an outcome of something that is over.
    assert!(told.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_signature_that_is_not_awaited_any_more_is_given_up() {
    let (_listener, mut driver) = relay().await;
    let ((begun, begins), (held, given_up)) = (oneshot::channel(), oneshot::channel());
    driver.signer = Arc::new(Slow(Mutex::new(Some((begun, held)))));
    driver.perform(sign(1));
    guard(begins).await.unwrap();

    let ticket = Ticket(1);
    driver.perform(Action::Publish(publish::Action::Abort { ticket }));

    // The question is dropped, and with it what it holds.
    assert!(guard(given_up).await.is_err());
}

#[tokio::test]
async fn a_call_that_cannot_be_signed_is_told_as_not_sent() {
    let (_listener, mut driver) = relay().await;
    driver.signer = Arc::new(Broken);

    driver.perform(post(1, &event()));

    let (ticket, cause) = (Ticket(1), BrokeCause::Connect);
    let broke = publish::Input::Broke { ticket, cause };
    assert_eq!(fact(&mut driver).await, Input::Publish(broke));
}

/// A signer that has lost its key.
struct Broken;

impl Signer for Broken {
    fn public_key(&self) -> PubKey {
        PubKey([7; 32])
    }

    fn sign(&self, _draft: Draft) -> BoxFuture<'_, Result<Bytes, SignError>> {
        Box::pin(async { Err(SignError::Unavailable) })
    }
}

/// A signer that never answers: says when it is asked, and holds the other while it is.
struct Slow(Mutex<Option<(oneshot::Sender<()>, oneshot::Sender<()>)>>);

impl Signer for Slow {
    fn public_key(&self) -> PubKey {
        PubKey([7; 32])
    }

    fn sign(&self, _draft: Draft) -> BoxFuture<'_, Result<Bytes, SignError>> {
        let (begun, held) = self.0.lock().unwrap().take().unwrap();
        Box::pin(async move {
            begun.send(()).unwrap();
            let _held = held;
            std::future::pending().await
        })
    }
}

async fn relay() -> (TcpListener, Driver<Tokio>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let driver = driver_of(&format!("ws://127.0.0.1:{port}"), None);
    (listener, driver)
}

fn draft() -> Draft {
    Draft {
        kind: 9,
        created_at: UnixTime(5),
        tags: Vec::new(),
        content: "hello".into(),
    }
}

fn event() -> Event {
    let signer = LocalSigner::new(SecretKey::generate().unwrap());
    Event::decode(signer.sign_now(&draft()).unwrap()).unwrap()
}

fn sign(number: u64) -> Action {
    Action::Publish(publish::Action::Sign {
        ticket: Ticket(number),
        draft: draft(),
    })
}

fn post(number: u64, event: &Event) -> Action {
    Action::Publish(publish::Action::Post {
        ticket: Ticket(number),
        attempt: 1,
        event: event.clone(),
    })
}

fn query(number: u64, body: &'static str) -> Action {
    Action::Publish(publish::Action::Query {
        ticket: Ticket(number),
        body: Bytes::from(body),
    })
}

async fn answered(driver: &mut Driver<Tokio>) -> (Ticket, u16) {
    let Input::Publish(publish::Input::Answered { ticket, answer }) = fact(driver).await else {
        panic!("there is no answer");
    };
    (ticket, answer.status)
}

/// Reads one request and answers it.
async fn answer(stream: &mut TcpStream, text: &str) -> String {
    let mut request = String::new();
    let is_whole = |request: &str| {
        let (head, body) = request.split_once("\r\n\r\n")?;
        let length = head.split("content-length: ").nth(1)?.lines().next()?;
        (body.len() == length.parse::<usize>().ok()?).then_some(())
    };
    while is_whole(&request).is_none() {
        request.push(stream.read_u8().await.unwrap().into());
    }
    stream.write_all(text.as_bytes()).await.unwrap();
    request
}

/// The event in the `Authorization` header.
fn proof(request: &str) -> Value {
    let encoded = request.split("authorization: Nostr ").nth(1).unwrap();
    let encoded = encoded.lines().next().unwrap();
    serde_json::from_slice(&STANDARD.decode(encoded).unwrap()).unwrap()
}

fn tag<'a>(event: &'a Value, name: &str) -> &'a Value {
    let mut tags = event["tags"].as_array().unwrap().iter();
    &tags.find(|tag| tag[0] == name).unwrap()[1]
}
