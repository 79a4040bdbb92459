//! A relay with one channel, a front before it, and an agent that publishes through the front.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use buzz_adapters::connect::{Events, Handle, Report, Setup, connect};
use buzz_adapters::keys::SecretKey;
use buzz_adapters::sign::{LocalSigner, Signer as _};
use buzz_adapters::tls::{Roots, Tls};
use buzz_adapters::url::RelayUrl;
use buzz_adapters::verify::LocalVerifier;
use buzz_dev_relay::client::tag;
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::{ChannelKind, Role, Visibility};
use buzz_dev_relay::rules::filter::Filter;
use buzz_dev_relay::{DevRelay, Options};
use buzz_proto::config::{Config, Consumer};
use buzz_proto::note::{Note, Quota};
use buzz_proto::publish::{self, Class, Verdict};
use buzz_proto::relay;
use buzz_proto::retry_hint::HintSource;
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Draft;
use tokio::task::JoinHandle;

use crate::Rt;
use crate::front::Front;

const CHANNEL: &str = "6f1d2c3b-4a59-4e68-8f70-8192a3b4c5d6";
/// Whose members the agent is, and what these channels are.
const ROSTER_READS: usize = 2;
/// A guard against a test that hangs; no verdict depends on it.
const GUARD: Duration = Duration::from_secs(120);
/// Between two looks at something that changes by itself.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The agent's subscriptions stand, and nothing is under way.
pub(crate) struct Scene {
    pub(crate) relay: DevRelay,
    pub(crate) front: Front,
    pub(crate) handle: Arc<Handle<Rt>>,
    pub(crate) agent: String,
    notes: Arc<Mutex<Vec<Note>>>,
    _events: Events<Rt>,
}

impl Scene {
    pub(crate) async fn open() -> Self {
        Self::open_with(publish::Config::default()).await
    }

    pub(crate) async fn open_with(publish: publish::Config) -> Self {
        let relay = DevRelay::start(Options::default())
            .await
            .expect("the relay starts");
        let key = SecretKey::generate().expect("the system has random numbers");
        let signer = LocalSigner::new(key);
        let agent = signer.public_key().to_string();
        open_channel(&relay, &agent);
        let front = Front::start(relay.addr()).await;
        let url = front.url("ws");
        let notes = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&notes);
        let setup = Setup {
            config: Config {
                seed: 1,
                me: signer.public_key(),
                relay: relay::Config::new(&url),
                publish,
                consumer: Consumer::External { slots: 64 },
            },
            url: RelayUrl::parse(&url).expect("the front's own URL"),
            tls: Tls::new(Roots::Bundled, None).expect("the bundled roots"),
            signer: Arc::new(signer),
            verifier: Arc::new(LocalVerifier),
            attestation: None,
            workers: None,
            keeper: None,
            record: None,
            report: Box::new(move |report| {
                if let Report::Note(note) = report {
                    told.lock().expect("nothing panics with it").push(note);
                }
            }),
        };
        let (handle, events) = connect::<Rt>(setup).expect("the settings work");
        let scene = Self {
            relay,
            front,
            handle: Arc::new(handle),
            agent,
            notes,
            _events: events,
        };
        scene.settle().await;
        scene
    }

    /// Membership and channel are live, and every call was answered.
    async fn settle(&self) {
        within(async {
            loop {
                let status = self.handle.status().await.expect("the agent runs");
                let calls = self.front.calls();
                let is_quiet = calls.iter().all(|call| call.left.is_some());
                let reads = calls.iter().filter(|call| call.path == "/query").count();
                if status.relay.subscriptions_live == 2 && reads == ROSTER_READS && is_quiet {
                    return;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await;
    }

    /// Submits a message; its verdict comes later.
    pub(crate) fn publish(&self, content: &str) -> JoinHandle<Verdict> {
        let draft = Draft {
            kind: 9,
            created_at: UnixTime(0),
            tags: vec![tag("h", CHANNEL)],
            content: content.to_owned(),
        };
        let handle = Arc::clone(&self.handle);
        tokio::spawn(async move {
            let verdict = handle.publish(draft, Class::Durable, None).await;
            verdict.expect("the agent runs")
        })
    }

    /// Submits so many messages, called by their numbers.
    pub(crate) fn publish_many(&self, count: usize) -> Vec<JoinHandle<Verdict>> {
        let publish = |number: usize| self.publish(&number.to_string());
        (0..count).map(publish).collect()
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        within(async {
            while !is_so(self) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await;
    }

    /// How often the relay has each message of the agent.
    pub(crate) fn stored(&self) -> BTreeMap<String, usize> {
        let filter = Filter {
            authors: Some(vec![self.agent.clone()]),
            kinds: Some(vec![9]),
            ..Filter::default()
        };
        let mut stored = BTreeMap::new();
        for event in self.relay.events(&filter) {
            *stored.entry(event.content).or_default() += 1;
        }
        stored
    }

    /// The relay has messages numbered up to here, each once.
    #[track_caller]
    pub(crate) fn assert_stored_once(&self, count: usize) {
        let all = (0..count).map(|number| (number.to_string(), 1));
        assert_eq!(self.stored(), all.collect());
    }

    /// The first note of a refused call: source of the wait, whether it was capped, and the wait.
    pub(crate) fn throttled(&self) -> Option<(Option<HintSource>, bool, Duration)> {
        let notes = self.notes.lock().expect("nothing panics with it");
        notes.iter().find_map(|note| {
            if let Note::Throttled {
                quota: Quota::Http,
                source,
                capped,
                wait,
                ..
            } = note
            {
                return Some((*source, *capped, *wait));
            }
            None
        })
    }
}

fn open_channel(relay: &DevRelay, agent: &str) {
    let owner = Keys::generate();
    let (visibility, kind) = (Visibility::Private, ChannelKind::Stream);
    relay
        .create_channel(CHANNEL, "test", visibility, kind, owner.public())
        .and_then(|()| relay.add_member(CHANNEL, agent, Role::Bot, owner.public()))
        .expect("a fresh channel");
}

pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(GUARD, work).await.expect("it happens")
}

/// The verdicts, in the order of submission.
pub(crate) async fn verdicts(jobs: Vec<JoinHandle<Verdict>>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for job in jobs {
        verdicts.push(within(job).await.expect("the agent runs"));
    }
    verdicts
}

pub(crate) async fn assert_all_stored(jobs: Vec<JoinHandle<Verdict>>) {
    let verdicts = verdicts(jobs).await;
    assert!(
        verdicts.iter().all(|it| *it == Verdict::Stored),
        "{verdicts:?}"
    );
}
