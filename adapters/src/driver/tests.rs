//! Orders that end later, given to a driver one by one.

mod calls;

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use buzz_dev_relay::{DevRelay, Options};
use buzz_proto::action::Action;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::{ChannelId, Ticket};
use buzz_proto::input::{Command, Input};
use buzz_proto::publish;
use buzz_proto::relay::{self, BrokeCause, Record, Sub};
use buzz_proto::time::{MonoTime, UnixTime};
use futures_util::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{Driver, Message, next_report};
use crate::connect::{Report, Setup};
use crate::delivery::deliveries;
use crate::keep::Keeper;
use crate::keys::SecretKey;
use crate::sign::{LocalSigner, Signer as _};
use crate::tls::{Roots, Tls};
use crate::tokio::Tokio;
use crate::url::RelayUrl;
use crate::verify::LocalVerifier;

/// Far more than any test needs: it only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn records_are_kept_and_the_machine_hears_of_it() {
    let (keeper, desk) = desk();
    let mut driver = driver(Some(keeper));
    desk.answer(Ok(()));

    driver.perform(persist(1));

    assert_eq!(kept(&mut driver).await, persisted(1));
    assert_eq!(desk.written(), [(vec![record(1)], vec![forgotten(1)])]);
}

#[tokio::test]
async fn batches_are_written_one_at_a_time_and_the_newest_of_those_that_wait() {
    let (keeper, desk) = desk();
    let mut driver = driver(Some(keeper));
    for number in 1..=3 {
        driver.perform(persist(number));
    }
    // The third holds all that the second does.
    assert_eq!(fact(&mut driver).await, persist_failed(2));

    desk.answer(Ok(()));
    desk.answer(Ok(()));

    assert_eq!(kept(&mut driver).await, persisted(1));
    assert_eq!(kept(&mut driver).await, persisted(3));
    let written = [1, 3].map(|number| (vec![record(number)], vec![forgotten(number)]));
    assert_eq!(desk.written(), written);
}

#[tokio::test]
async fn a_batch_that_is_given_up_before_it_began_is_not_written() {
    let (keeper, desk) = desk();
    let mut driver = driver(Some(keeper));
    driver.perform(persist(1));
    driver.perform(persist(2));

    for number in 1..=2 {
        let ticket = Ticket(number);
        driver.perform(Action::Relay(relay::Action::Abort { ticket }));
    }
    // Enough for both, if both were written.
    desk.answer(Ok(()));
    desk.answer(Ok(()));

    assert_eq!(kept(&mut driver).await, persisted(1));
    driver.finish_keeping().await;
    assert_eq!(desk.written().len(), 1);
}

#[tokio::test]
async fn a_failure_reaches_the_machine_each_time_and_people_less_and_less_often() {
    let (keeper, desk) = desk();
    let mut driver = driver(Some(keeper));
    let told = listen_to(&mut driver);

    for number in 1..=9 {
        desk.answer(Err(io::Error::other("the disk is full")));
        driver.perform(persist(number));
        assert_eq!(kept(&mut driver).await, persist_failed(number));
    }
    assert_eq!(failures(&told), ["the disk is full"; 4]);

    desk.answer(Ok(()));
    driver.perform(persist(10));
    assert_eq!(kept(&mut driver).await, persisted(10));
    desk.answer(Err(io::Error::other("full again")));
    driver.perform(persist(11));
    assert_eq!(kept(&mut driver).await, persist_failed(11));
    assert_eq!(failures(&told), ["full again"]);
}

#[tokio::test]
async fn the_end_tells_that_the_last_records_are_not_kept_and_nothing_when_they_are() {
    for (last, words) in [
        (Ok(()), vec![]),
        (
            Err(io::Error::other("still full")),
            vec!["at the end: still full"],
        ),
    ] {
        let (keeper, desk) = desk();
        let mut driver = driver(Some(keeper));
        let told = listen_to(&mut driver);
        // The third failure in a row is not told as it comes.
        for number in 1..=2 {
            desk.answer(Err(io::Error::other("the disk is full")));
            driver.perform(persist(number));
            kept(&mut driver).await;
        }
        failures(&told);
        desk.answer(last);
        driver.perform(persist(3));

        guard(driver.finish_keeping()).await;

        assert_eq!(failures(&told), words);
    }
}

#[tokio::test]
async fn a_keeper_that_breaks_fails_all_that_is_ordered_of_it() {
    let (keeper, desk) = desk();
    let mut driver = driver(Some(keeper));
    let told = listen_to(&mut driver);
    driver.perform(persist(1));
    driver.perform(persist(2));

    // Nobody answers it any more, and it panics.
    drop(desk);

    assert_eq!(kept(&mut driver).await, persist_failed(1));
    assert_eq!(fact(&mut driver).await, persist_failed(2));
    driver.perform(persist(3));
    assert_eq!(fact(&mut driver).await, persist_failed(3));
    assert_eq!(failures(&told), ["what keeps records broke"]);
}

#[tokio::test]
async fn the_end_waits_for_the_writes_that_were_ordered_before_it() {
    let (keeper, desk) = desk();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut driver = driver_of(&format!("ws://127.0.0.1:{port}"), Some(keeper));
    driver.perform(persist(1));
    driver.perform(persist(2));
    let inbox = driver.sender.clone();
    let end = async {
        let (mut dialed, _) = listener.accept().await.unwrap();
        let grace = Duration::ZERO;
        let shutdown = Input::Command(Command::Shutdown { grace });
        inbox.unbounded_send(Message::Fact(shutdown)).unwrap();
        // The upgrade is never answered: the dial is given up when the machine has ended.
        while let Ok(1..) = dialed.read(&mut [0; 1024]).await {}
        desk.answer(Ok(()));
        desk.answer(Ok(()));
    };

    guard(async { tokio::join!(driver.run(), end) }).await;

    let written = [1, 2].map(|number| (vec![record(number)], vec![forgotten(number)]));
    assert_eq!(desk.written(), written);
}

#[tokio::test]
async fn the_information_document_is_fetched_from_the_place_of_the_relay() {
    let relay = DevRelay::start(Options::default()).await.unwrap();
    let mut driver = driver_of(&relay.url(), None);

    driver.perform(inform());

    let Input::Relay(relay::Input::Answered { ticket, answer }) = fact(&mut driver).await else {
        panic!("there is no answer");
    };
    assert_eq!((ticket, answer.status), (Ticket(1), 200));
    assert!(answer.date.is_some());
    let document: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(document["self"], relay.public_key());
}

#[tokio::test]
async fn the_question_for_the_document_is_not_signed_and_a_large_answer_is_not_read() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut driver = driver_of(&format!("ws://127.0.0.1:{port}/community"), None);
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 262145\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        (
            stream,
            String::from_utf8_lossy(&request[..length]).into_owned(),
        )
    };

    driver.perform(inform());
    let (fact, (_stream, request)) = tokio::join!(fact(&mut driver), guard(server));

    let (ticket, cause) = (Ticket(1), BrokeCause::TooLarge);
    assert_eq!(fact, Input::Relay(relay::Input::Broke { ticket, cause }));
    assert!(
        request.starts_with("GET /community HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(
        request.contains("accept: application/nostr+json\r\n"),
        "{request}"
    );
    assert!(!request.contains("authorization"), "{request}");
}

#[test]
fn the_wall_clock_is_reported_where_a_second_begins() {
    for (rest, next) in [(0, 10_000), (50, 9_950), (51, 949), (999, 1)] {
        let rest = Duration::from_millis(rest);
        let next = MonoTime::ZERO.after(Duration::from_millis(next));
        assert_eq!(next_report(MonoTime::ZERO, rest), next);
    }
}

type Written = (Vec<Record>, Vec<Sub>);

/// Answers each write only when the test says how.
struct Desk {
    answers: Sender<io::Result<()>>,
    written: Receiver<Written>,
}

impl Desk {
    fn answer(&self, result: io::Result<()>) {
        self.answers.send(result).unwrap();
    }

    fn written(&self) -> Vec<Written> {
        self.written.try_iter().collect()
    }
}

struct Slow {
    answers: Receiver<io::Result<()>>,
    written: Sender<Written>,
}

impl Keeper for Slow {
    fn keep(&mut self, records: Vec<Record>, forgotten: Vec<Sub>) -> io::Result<()> {
        let Ok(answer) = self.answers.recv() else {
            panic!("nobody answers any more");
        };
        if answer.is_ok() {
            let _unwatched = self.written.send((records, forgotten));
        }
        answer
    }
}

fn desk() -> (Box<dyn Keeper>, Desk) {
    let (answers, awaited) = channel();
    let (done, written) = channel();
    let keeper = Slow {
        answers: awaited,
        written: done,
    };
    (Box::new(keeper), Desk { answers, written })
}

fn driver(keeper: Option<Box<dyn Keeper>>) -> Driver<Tokio> {
    // Never dialed: no test lets the machine begin, but the one that ends it.
    driver_of("ws://127.0.0.1:9", keeper)
}

fn driver_of(url: &str, keeper: Option<Box<dyn Keeper>>) -> Driver<Tokio> {
    let (deliver, _nobody) = deliveries();
    Driver::new(setup(url, keeper), deliver).unwrap().0
}

fn setup(url: &str, keeper: Option<Box<dyn Keeper>>) -> Setup {
    let signer = LocalSigner::new(SecretKey::generate().unwrap());
    Setup {
        config: Config {
            seed: 1,
            me: signer.public_key(),
            relay: relay::Config::new(url),
            publish: publish::Config::default(),
            consumer: Consumer::External { slots: 1 },
        },
        url: RelayUrl::parse(url).unwrap(),
        tls: Tls::new(Roots::Bundled, None).unwrap(),
        signer: Arc::new(signer),
        verifier: Arc::new(LocalVerifier),
        attestation: None,
        workers: None,
        keeper,
        record: None,
        report: Box::new(|_| {}),
    }
}

fn listen_to(driver: &mut Driver<Tokio>) -> Arc<Mutex<Vec<Report>>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&told);
    driver.report = Box::new(move |report| list.lock().unwrap().push(report));
    told
}

/// The failures told since they were last asked for.
fn failures(told: &Mutex<Vec<Report>>) -> Vec<String> {
    let told = std::mem::take(&mut *told.lock().unwrap());
    let failures = told.into_iter().filter_map(|report| match report {
        Report::KeepFailed(error) => Some(error.to_string()),
        Report::NotKept(error) => Some(format!("at the end: {error}")),
        Report::Note(_) | Report::DialFailed(_) | Report::RecordFailed(_) => None,
    });
    failures.collect()
}

/// The fact that comes of the next write to end.
async fn kept(driver: &mut Driver<Tokio>) -> Input {
    match guard(driver.inbox.next()).await {
        Some(Message::Kept(kept)) => driver.kept(*kept),
        _ => panic!("no write has ended"),
    }
}

async fn fact(driver: &mut Driver<Tokio>) -> Input {
    match guard(driver.inbox.next()).await {
        Some(Message::Fact(fact)) => fact,
        _ => panic!("there is no fact"),
    }
}

async fn guard<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(PATIENCE, work).await.unwrap()
}

fn persist(number: u64) -> Action {
    Action::Relay(relay::Action::Persist {
        ticket: Ticket(number),
        records: vec![record(number)],
        forgotten: vec![forgotten(number)],
    })
}

fn inform() -> Action {
    let ticket = Ticket(1);
    Action::Relay(relay::Action::Inform { ticket })
}

fn record(number: u64) -> Record {
    Record {
        sub: Sub::Membership,
        settled: UnixTime(number),
        done: Vec::new(),
        started: Vec::new(),
    }
}

fn forgotten(number: u64) -> Sub {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Sub::Channel(ChannelId(bytes))
}

fn persisted(number: u64) -> Input {
    let ticket = Ticket(number);
    Input::Relay(relay::Input::Persisted { ticket })
}

fn persist_failed(number: u64) -> Input {
    let ticket = Ticket(number);
    Input::Relay(relay::Input::PersistFailed { ticket })
}
