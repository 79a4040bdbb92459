//! A relay, a line to it that goes bad, a person beside that line and an agent at its end.

use std::time::Duration;

use buzz_adapters::keys::SecretKey;
use buzz_adapters::runtime::Runtime;
use buzz_dev_relay::client::{Client, tag, unix_now};
use buzz_dev_relay::faults::Target;
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::line::{Line, State};
use buzz_dev_relay::rules::Settings;
use buzz_dev_relay::rules::channels::{ChannelKind, Role, Visibility};
use buzz_dev_relay::rules::event::Event;
use buzz_dev_relay::rules::filter::Filter;
use buzz_dev_relay::rules::quota::Quotas;
use buzz_dev_relay::{DevRelay, Options};
use buzz_proto::config::Config;

use crate::Rt;
use crate::agent::{Agent, LOOK_EVERY, within};

pub(crate) const CHANNEL: &str = "6f1d2c3b-4a59-4e68-8f70-8192a3b4c5d6";
/// The heartbeat of the relay would break a silence.
const NO_HEARTBEAT: Duration = Duration::from_secs(3600);

pub(crate) struct Scene {
    pub(crate) relay: DevRelay,
    pub(crate) line: Line,
    person: Keys,
    client: Client,
    agent: String,
    key: Option<SecretKey>,
}

impl Scene {
    pub(crate) async fn open() -> Self {
        let options = Options {
            settings: Settings {
                ping_every: NO_HEARTBEAT,
                auth_deadline: NO_HEARTBEAT,
                quotas: Quotas::off(),
                ..Settings::default()
            },
            ..Options::default()
        };
        let relay = DevRelay::start(options).await.expect("the relay starts");
        let line = Line::open(relay.addr(), 7).expect("a free port");
        let person = Keys::generate();
        let client = Client::connect(&relay.url(), &person).await;
        let key = SecretKey::generate().expect("the system has random numbers");
        let agent = key.public_key().to_string();
        let owner = person.public();
        relay
            .create_channel(
                CHANNEL,
                "a room",
                Visibility::Private,
                ChannelKind::Stream,
                owner,
            )
            .and_then(|()| relay.add_member(CHANNEL, &agent, Role::Bot, owner))
            .expect("a fresh channel");
        Self {
            client: client.expect("a person connects"),
            relay,
            line,
            person,
            agent,
            key: Some(key),
        }
    }

    /// Starts the one agent of this scene, at the end of the line.
    pub(crate) fn agent(&mut self, change: impl FnOnce(&mut Config)) -> Agent {
        let url = self.line.url();
        self.agent_at::<Rt>(&url, change)
    }

    /// The same, on another runtime, by another name of the line.
    pub(crate) fn agent_at<R: Runtime>(
        &mut self,
        url: &str,
        change: impl FnOnce(&mut Config),
    ) -> Agent<R> {
        let key = self.key.take().expect("one agent a scene");
        Agent::start(url, key, CHANNEL, change)
    }

    /// The agent, once it hears its channel and has taken a first mention.
    pub(crate) async fn live_agent(&mut self, change: impl FnOnce(&mut Config)) -> Agent {
        let mut agent = self.agent(change);
        agent.is_live().await;
        self.is_heard_by(&mut agent).await;
        agent
    }

    /// The next that the agent takes is what is said now: nothing came twice.
    pub(crate) async fn is_heard_by<R: Runtime>(&mut self, agent: &mut Agent<R>) {
        let said = self.mentions(1).await;
        assert_eq!(agent.take(1).await, said);
    }

    /// Mentions of the agent, that the relay has; gives their ids, sorted.
    pub(crate) async fn mentions(&mut self, count: usize) -> Vec<String> {
        let mut ids = Vec::new();
        for number in 0..count {
            let tags = vec![tag("h", CHANNEL), tag("p", &self.agent)];
            let words = format!("question {number} after {}", self.relay.stats().accepted);
            let event = self.person.sign_event(9, tags, &words, unix_now());
            let receipt = within("a receipt", self.client.publish(&event)).await;
            let receipt = receipt.expect("the relay answers");
            assert!(receipt.accepted, "{}", receipt.message);
            ids.push(event.id);
        }
        ids.sort_unstable();
        ids
    }

    /// Waits until the line has seen so many dials.
    pub(crate) async fn is_dialed(&self, times: usize) {
        within("dials", async {
            while self.line.dials().len() < times {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await;
    }

    /// The agent, as the relay's faults name it.
    pub(crate) fn target(&self) -> Target {
        Target::Key(self.agent.clone())
    }

    /// Requests of the agent so far.
    pub(crate) fn requests(&self) -> u64 {
        self.relay.stats_of(&self.agent).reqs
    }

    /// The messages of the agent that the relay has.
    pub(crate) fn said(&self) -> Vec<Event> {
        let filter = Filter {
            authors: Some(vec![self.agent.clone()]),
            kinds: Some(vec![9]),
            ..Filter::default()
        };
        self.relay.events(&filter)
    }

    /// The line is good again.
    pub(crate) fn heal(&self) {
        self.line.set(State::default());
    }
}
