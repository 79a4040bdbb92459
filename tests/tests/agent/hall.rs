//! A relay with many channels, a crowd that talks in them, and an agent that hands out events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use buzz_adapters::connect::RecordTo;
use buzz_adapters::keys::SecretKey;
use buzz_dev_relay::client::{Client, tag, unix_now};
use buzz_dev_relay::faults::{Fault, Target};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::Settings;
use buzz_dev_relay::rules::channels::{ChannelKind, Role, Visibility};
use buzz_dev_relay::rules::queue::Closing;
use buzz_dev_relay::{DevRelay, Options};
use buzz_proto::relay::Channels;
use tokio::task::JoinHandle;

use crate::support::{Agent, LOOK_EVERY, external, within};

/// The relay takes 50 messages in five seconds and 60 a minute of one person.
const PEOPLE: usize = 20;
/// Pings come this long after the answer to the one before.
const PING_EVERY: Duration = Duration::from_millis(50);
/// The heartbeat of the relay would mix with the pings that are counted.
const NO_HEARTBEAT: Duration = Duration::from_secs(3600);
/// More events than a live subscription asks for, and fewer than a page brings.
const CUT_AFTER: usize = 60;

/// The relay, the crowd, and the key of the one agent.
pub(crate) struct Hall {
    relay: Arc<DevRelay>,
    channels: Vec<String>,
    people: Vec<(Keys, Client)>,
    agent: String,
    key: Option<SecretKey>,
}

impl Hall {
    /// A relay with its usual quotas and so many channels.
    pub(crate) async fn open(channels: usize) -> Self {
        let options = Options {
            settings: Settings {
                ping_every: NO_HEARTBEAT,
                ..Settings::default()
            },
            ..Options::default()
        };
        let relay = DevRelay::start(options).await.expect("the relay starts");
        let key = SecretKey::generate().expect("the system has random numbers");
        let agent = key.public_key().to_string();
        let mut people = Vec::new();
        for _ in 0..PEOPLE {
            let keys = Keys::generate();
            let client = Client::connect(&relay.url(), &keys).await;
            people.push((keys, client.expect("a person connects")));
        }
        let owner = people[0].0.public();
        let channels: Vec<_> = (1..=channels).map(channel).collect();
        for channel in &channels {
            relay
                .create_channel(
                    channel,
                    "a hall",
                    Visibility::Open,
                    ChannelKind::Stream,
                    owner,
                )
                .and_then(|()| relay.add_member(channel, &agent, Role::Bot, owner))
                .expect("a fresh channel");
        }
        Self {
            relay: Arc::new(relay),
            channels,
            people,
            agent,
            key: Some(key),
        }
    }

    /// Starts the one agent, which stays in all channels; gives it once all subscriptions stand.
    pub(crate) async fn agent(&mut self, slots: u32, record: Option<RecordTo>) -> Agent {
        let key = self.key.take().expect("one agent a hall");
        let named = self.channels.iter().map(|channel| channel.parse());
        let named: Result<Vec<_>, _> = named.collect();
        let named = named.expect("each is an id");
        let wanted = named.len();
        let agent = Agent::start(&self.relay, key, external(slots), |setup| {
            setup.config.relay.channels = Channels::Given(named);
            setup.record = record;
        });
        agent
            .until(|relay| relay.subscriptions_live == wanted)
            .await;
        agent
    }

    /// So many mentions in one channel, one after the other, by everybody in turn; gives their ids.
    pub(crate) async fn mentions(&mut self, channel: usize, count: usize) -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        for number in 0..count {
            let tags = vec![tag("h", &self.channels[channel]), tag("p", &self.agent)];
            let (keys, client) = &mut self.people[number % PEOPLE];
            let words = format!("question {number} after {}", self.relay.stats().accepted);
            let event = keys.sign_event(9, tags, &words, unix_now());
            let receipt = within(client.publish(&event)).await;
            let receipt = receipt.expect("the relay answers");
            assert!(receipt.accepted, "{}", receipt.message);
            ids.insert(event.id);
        }
        ids
    }

    /// Requests of the agent for stored events so far. It stays in channels that it was given, so
    /// it has no other reason to ask.
    pub(crate) fn requests(&self) -> u64 {
        let stats = self.relay.stats_of(&self.agent);
        stats.reqs + stats.query_posts
    }

    /// What the relay refused the agent because of a quota.
    pub(crate) fn over_quota(&self) -> u64 {
        self.relay.stats_of(&self.agent).over_quota
    }

    /// Pings the agent, again and again, until it is told to stop.
    pub(crate) fn pings(&self) -> Pings {
        let (relay, agent) = (Arc::clone(&self.relay), self.agent.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut waits = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                waits.push(answered_ping(&relay, &agent).await);
                tokio::time::sleep(PING_EVERY).await;
            }
            waits
        });
        Pings { stop, task }
    }

    /// From now on each read of history breaks off, but for those of live subscriptions.
    pub(crate) fn cut_pages(&self) {
        let agent = Target::Key(self.agent.clone());
        let fault = Fault::CutHistory(CUT_AFTER);
        self.relay.faults().arm_for(fault, agent, u64::MAX);
    }

    /// Waits until so many reads broke off, and ends the connection.
    pub(crate) async fn disconnect_in_page(&self, number: u64) {
        within(async {
            while self.relay.stats_of(&self.agent).histories_cut < number {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await;
        let agent = Target::Key(self.agent.clone());
        self.relay.faults().disconnect(&agent, &Closing::Abrupt);
    }

    /// Lifts [`Hall::cut_pages`].
    pub(crate) fn cut_no_more(&self) {
        self.relay.faults().clear();
    }

    /// Logins of the agent so far.
    pub(crate) fn logins(&self) -> u64 {
        self.relay.stats_of(&self.agent).auths
    }
}

/// Pings under way.
pub(crate) struct Pings {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Vec<Duration>>,
}

impl Pings {
    /// Waits for the answer to the last one; gives how long each answer took.
    pub(crate) async fn stop(self) -> Vec<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        within(self.task).await.expect("it only waits")
    }
}

/// Sends a ping and waits for its answer.
async fn answered_ping(relay: &DevRelay, agent: &str) -> Duration {
    let pongs = || relay.stats_of(agent).pongs;
    let (before, begun) = (pongs(), Instant::now());
    relay.faults().ping(&Target::Key(agent.to_owned()));
    within(async {
        while pongs() == before {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    })
    .await;
    begun.elapsed()
}

fn channel(number: usize) -> String {
    format!("6f1d2c3b-4a59-4e68-8f70-{number:012}")
}
