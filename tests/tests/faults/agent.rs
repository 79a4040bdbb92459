//! An agent in this process that takes mentions itself, with limits far below those of a day.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use buzz_adapters::connect::{Delivery, Events, Handle, RecordTo, Report, Setup, connect};
use buzz_adapters::keys::SecretKey;
use buzz_adapters::runtime::Runtime;
use buzz_adapters::sign::{LocalSigner, Signer as _};
use buzz_adapters::tls::{Roots, Tls};
use buzz_adapters::url::RelayUrl;
use buzz_adapters::verify::LocalVerifier;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::note::Note;
use buzz_proto::relay::{Channels, CloseCause, ConnectCause, Limits};
use buzz_proto::trace::{Privacy, Replay};
use buzz_proto::{publish, relay};
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::Rt;

/// A guard against a test that hangs; no verdict depends on it.
const GUARD: Duration = Duration::from_secs(60);
/// Between two looks at something that changes by itself.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(2);
/// More than a test says.
const SLOTS: u32 = 256;

/// The limits of a day, for a line of a few milliseconds.
pub(crate) fn limits() -> Limits {
    let ms = Duration::from_millis;
    Limits {
        dial: ms(1500),
        auth: ms(1500),
        challenge: ms(500),
        challenge_again: ms(700),
        write: ms(600),
        ping_after: ms(500),
        pong: ms(400),
        reconnect_first: ms(100),
        reconnect_top: ms(800),
        stable: ms(3000),
        confirmation: ms(1000),
        confirmation_top: ms(4000),
        answer: ms(1500),
        receipt: ms(1500),
        page_silence: ms(3000),
        ..Limits::default()
    }
}

/// A running agent.
pub(crate) struct Agent<R: Runtime = Rt> {
    pub(crate) handle: Handle<R>,
    events: Events<R>,
    notes: Arc<Mutex<Vec<Note>>>,
    failed: Arc<AtomicUsize>,
    trace: NamedTempFile,
}

/// One call of its machine: what went in, and what came out.
pub(crate) struct Call {
    /// The machine's time, in nanoseconds.
    pub(crate) at: u64,
    fact: Value,
    orders: Vec<Value>,
}

impl Call {
    fn read(line: &str) -> Self {
        let mut call: Value = serde_json::from_str(line).expect("a call");
        let orders = call["out"].as_array().cloned();
        Self {
            at: call["t"].as_u64().expect("a time"),
            fact: call["in"].take(),
            orders: orders.unwrap_or_default(),
        }
    }

    pub(crate) fn dials(&self) -> bool {
        self.orders
            .iter()
            .any(|it| !it["Relay"]["Connect"].is_null())
    }

    /// Whether it ends a socket or a dial for this cause.
    pub(crate) fn gives_up(&self, cause: CloseCause) -> bool {
        let cause = serde_json::to_value(cause).expect("it has a form");
        self.orders
            .iter()
            .any(|it| it["Relay"]["Close"]["cause"] == cause)
    }

    /// Whether it is told that a dial failed for this cause.
    pub(crate) fn hears_of(&self, cause: &ConnectCause) -> bool {
        let cause = serde_json::to_value(cause).expect("it has a form");
        self.fact["Relay"]["ConnectFailed"]["cause"] == cause
    }

    /// Whether it is told that the peer closed with this code.
    pub(crate) fn is_closed(&self, code: u16) -> bool {
        self.fact["Relay"]["Closed"]["code"] == code
    }

    /// Whether there is no connection from here on.
    pub(crate) fn loses(&self) -> bool {
        let fact = &self.fact["Relay"];
        let closes = |it: &Value| !it["Relay"]["Close"].is_null();
        !fact["Closed"].is_null()
            || !fact["ConnectFailed"].is_null()
            || self.orders.iter().any(closes)
    }
}

impl<R: Runtime> Agent<R> {
    /// Starts one in one channel, without waiting.
    pub(crate) fn start(
        url: &str,
        key: SecretKey,
        channel: &str,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let signer = LocalSigner::new(key);
        let mut config = Config {
            seed: 1,
            me: signer.public_key(),
            relay: relay::Config::new(url),
            publish: publish::Config::default(),
            consumer: Consumer::External { slots: SLOTS },
        };
        config.relay.channels = Channels::Given(vec![channel.parse().expect("it is an id")]);
        config.relay.limits = limits();
        change(&mut config);
        let notes = Arc::<Mutex<Vec<Note>>>::default();
        let told = Arc::clone(&notes);
        let failed = Arc::<AtomicUsize>::default();
        let fails = Arc::clone(&failed);
        let trace = NamedTempFile::new().expect("a file");
        let record = RecordTo {
            file: trace.reopen().expect("it is there"),
            privacy: Privacy::Redacted,
        };
        let (handle, events) = connect::<R>(Setup {
            config,
            url: RelayUrl::parse(url).expect("a URL"),
            tls: Tls::new(Roots::Bundled, None).expect("the bundled roots"),
            signer: Arc::new(signer),
            verifier: Arc::new(LocalVerifier),
            attestation: None,
            workers: None,
            keeper: None,
            record: Some(record),
            report: Box::new(move |report| match report {
                Report::Note(note) => {
                    let mut notes = told.lock().unwrap_or_else(PoisonError::into_inner);
                    notes.push(note);
                }
                Report::DialFailed(_) => {
                    fails.fetch_add(1, Ordering::Relaxed);
                }
                other @ (Report::RecordFailed(_)
                | Report::KeepFailed(_)
                | Report::NotKept(_)
                | _) => {
                    panic!("{other:?}");
                }
            }),
        })
        .expect("the settings work");
        Self {
            handle,
            events,
            notes,
            failed,
            trace,
        }
    }

    /// Waits until it hears its channel.
    pub(crate) async fn is_live(&self) {
        let one = |it: &relay::View| it.is_live && it.subscriptions_live > 0;
        self.until(one).await;
    }

    /// Waits until its connection and subscriptions stand like this.
    pub(crate) async fn until(&self, stands: impl Fn(&relay::View) -> bool) {
        within("a standing", async {
            while !stands(&self.view().await) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await;
    }

    pub(crate) async fn view(&self) -> relay::View {
        self.handle.status().await.expect("the agent runs").relay
    }

    /// Takes so many mentions; gives their ids, sorted.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<String> {
        let mut ids = Vec::new();
        while ids.len() < count {
            ids.push(within("a mention", self.next()).await);
        }
        ids.sort_unstable();
        ids
    }

    async fn next(&mut self) -> String {
        loop {
            match self.events.next().await.expect("the agent runs") {
                Delivery::Event { event, .. } => return event.id().to_string(),
                Delivery::Subscription { .. }
                | Delivery::Channel { .. }
                | Delivery::Link { .. } => {}
            }
        }
    }

    /// What it told so far: of each kind the first of a minute.
    pub(crate) fn notes(&self) -> Vec<Note> {
        let notes = self.notes.lock();
        notes.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it has told this.
    pub(crate) async fn tells(&self, is_it: impl Fn(&Note) -> bool) {
        within("a note", async {
            while !self.notes().iter().any(&is_it) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await;
    }

    /// Every call of the machine, once it has ended.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let text = fs::read_to_string(self.trace.path()).expect("the trace is there");
        let lines = text.split_inclusive('\n').skip(1);
        let whole = lines.filter(|line| line.ends_with('\n'));
        whole.map(Call::read).collect()
    }

    /// How often something happened.
    pub(crate) fn count(&self, is_it: impl Fn(&Call) -> bool) -> usize {
        self.calls().iter().filter(|call| is_it(call)).count()
    }

    /// How many dials have failed so far.
    pub(crate) fn failed(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }

    /// Waits until so many have.
    pub(crate) async fn fails(&self, times: usize) {
        within("failures", async {
            while self.failed() < times {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await;
    }

    /// Ends it, waits until it has, and plays again what it recorded.
    pub(crate) async fn end(&mut self) {
        self.handle.shutdown(Duration::from_secs(5));
        within("the end", self.handle.ended()).await;
        let text = fs::read_to_string(self.trace.path()).expect("the trace is there");
        let mut lines = text.lines();
        let mut replay = Replay::new(lines.next().expect("a head")).expect("a head");
        for line in lines {
            let call = replay.step(line).expect("a call");
            assert_eq!(call.difference(), None, "{line}");
        }
    }
}

pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let Ok(done) = tokio::time::timeout(GUARD, work).await else {
        panic!("{what}: not within {GUARD:?}");
    };
    done
}
