//! A relay with one channel, one person in it, and agents to join them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use buzz_adapters::acp::{Facts, Workers};
use buzz_adapters::connect::{Delivery, Events, Handle, RecordTo, Setup, StartWorkers, connect};
use buzz_adapters::keys::SecretKey;
use buzz_adapters::sign::{LocalSigner, Signer as _};
use buzz_adapters::tls::{Roots, Tls};
use buzz_adapters::url::RelayUrl;
use buzz_adapters::verify::LocalVerifier;
use buzz_dev_relay::client::{Client, Frame, tag, unix_now};
use buzz_dev_relay::faults::Target;
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::{ChannelKind, Role, Visibility};
use buzz_dev_relay::rules::event::Event;
use buzz_dev_relay::rules::filter::Filter;
use buzz_dev_relay::rules::queue::Closing;
use buzz_dev_relay::{DevRelay, Options};
use buzz_proto::config::{Config, Consumer};
use buzz_proto::schedule::{self, Action, Input, StopReason, TurnEnd};
use buzz_proto::trace::{Privacy, Replay};
use buzz_proto::{publish, relay, wire};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::Rt;

pub(crate) const CHANNEL: &str = "6f1d2c3b-4a59-4e68-8f70-8192a3b4c5d6";
const ANOTHER: &str = "7a2e3d4c-5b6a-4f79-9081-92a3b4c5d6e7";
/// A guard against a test that hangs; no verdict depends on it.
const GUARD: Duration = Duration::from_secs(60);
/// Between two looks at something that changes by itself.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Who takes the events of an agent.
pub(crate) struct Taker {
    pub(crate) consumer: Consumer,
    pub(crate) workers: Option<StartWorkers>,
}

/// The test takes them itself.
pub(crate) fn external(slots: u32) -> Taker {
    Taker {
        consumer: Consumer::External { slots },
        workers: None,
    }
}

/// Workers in this process that repeat what they are told.
pub(crate) fn workers(count: u16) -> Taker {
    let mut config = schedule::Config::new(count);
    config.respond_to = schedule::RespondTo::Anyone;
    let start: StartWorkers = Box::new(|facts| -> Box<dyn Workers> { Box::new(Echo { facts }) });
    Taker {
        consumer: Consumer::Workers(Box::new(config)),
        workers: Some(start),
    }
}

struct Echo {
    facts: Facts,
}

impl Workers for Echo {
    fn perform(&mut self, action: Action) {
        let tell = |fact| (self.facts)(fact);
        match action {
            Action::Spawn { worker } => tell(Input::WorkerUp { worker }),
            Action::Kill { worker } => {
                tell(Input::WorkerDown {
                    worker,
                    cause: schedule::DownCause::Killed,
                });
            }
            Action::Start { turn, batch, .. } => {
                tell(Input::SessionOpened { turn });
                let said = batch.last().map(wire::Event::content).unwrap_or_default();
                let reply = format!("you said: {said}");
                let end = TurnEnd::Answered {
                    reply,
                    stop: StopReason::EndTurn,
                };
                tell(Input::Finished { turn, end });
            }
            Action::CancelTurn { .. }
            | Action::CloseSession { .. }
            | Action::Left { .. }
            | Action::Dispose { .. }
            | Action::Started { .. }
            | Action::Query { .. }
            | Action::Verify { .. }
            | Action::Abort { .. }
            | Action::Publish(_)
            | Action::ShutdownRequested
            | Action::Ended
            | Action::Note(_)
            | Action::WakeAt(_) => {}
        }
    }
}

/// A running agent.
pub(crate) struct Agent {
    pub(crate) handle: Handle<Rt>,
    pub(crate) events: Events<Rt>,
    /// Where it records itself, unless a test has another use for that.
    trace: Option<NamedTempFile>,
}

impl Agent {
    /// Starts one whose settings are changed from the defaults.
    pub(crate) fn start(
        relay: &DevRelay,
        key: SecretKey,
        taker: Taker,
        change: impl FnOnce(&mut Setup),
    ) -> Self {
        let signer = LocalSigner::new(key);
        let url = relay.url();
        let mut setup = Setup {
            config: Config {
                seed: 1,
                me: signer.public_key(),
                relay: relay::Config::new(&url),
                publish: publish::Config::default(),
                consumer: taker.consumer,
            },
            url: RelayUrl::parse(&url).expect("the relay's own URL"),
            tls: Tls::new(Roots::Bundled, None).expect("the bundled roots"),
            signer: Arc::new(signer),
            verifier: Arc::new(LocalVerifier),
            attestation: None,
            workers: taker.workers,
            keeper: None,
            record: None,
            report: Box::new(|_| {}),
        };
        change(&mut setup);
        let trace = setup.record.is_none().then(|| {
            let trace = NamedTempFile::new().expect("a file");
            let file = trace.reopen().expect("the same file");
            let privacy = Privacy::Redacted;
            setup.record = Some(RecordTo { file, privacy });
            trace
        });
        let (handle, events) = connect::<Rt>(setup).expect("the settings work");
        Self {
            handle,
            events,
            trace,
        }
    }

    /// Takes so many events; gives their ids in the order in which they came.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<String> {
        let mut ids = Vec::new();
        while ids.len() < count {
            ids.push(self.next_event().await.id().to_string());
        }
        ids
    }

    /// Waits until its connection and subscriptions stand like this.
    pub(crate) async fn until(&self, stands: impl Fn(&relay::View) -> bool) {
        within(async {
            while !stands(&self.handle.status().await.expect("the agent runs").relay) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await;
    }

    pub(crate) async fn next_event(&mut self) -> wire::Event {
        within(async {
            loop {
                match self.events.next().await.expect("the agent runs") {
                    Delivery::Event { event, .. } => return event,
                    Delivery::Subscription { .. }
                    | Delivery::Channel { .. }
                    | Delivery::Link { .. } => {}
                }
            }
        })
        .await
    }

    /// Ends it, waits until it has, and plays again what it recorded.
    pub(crate) async fn end(&mut self) {
        self.handle.shutdown(Duration::from_secs(5));
        within(self.handle.ended()).await;
        if let Some(trace) = self.trace.take() {
            play_again(trace.path());
        }
    }
}

/// The relay, and a person on it.
pub(crate) struct Scene {
    relay: DevRelay,
    person: Keys,
    client: Client,
    agent: String,
    key: Option<SecretKey>,
}

impl Scene {
    pub(crate) async fn open() -> Self {
        let relay = DevRelay::start(Options::default()).await;
        Self::of(relay.expect("the relay starts")).await
    }

    /// On this relay.
    pub(crate) async fn of(relay: DevRelay) -> Self {
        let person = Keys::generate();
        let mut client = Client::connect(&relay.url(), &person)
            .await
            .expect("a person connects");
        let key = SecretKey::generate().expect("the system has random numbers");
        let agent = key.public_key().to_string();
        open_channel(&relay, (CHANNEL, ChannelKind::Stream), &person, &agent);
        listen(&mut client, CHANNEL, &agent).await;
        Self {
            relay,
            person,
            client,
            agent,
            key: Some(key),
        }
    }

    pub(crate) fn agent_key(&self) -> String {
        self.agent.clone()
    }

    /// Starts the one agent of this scene.
    pub(crate) fn agent(&mut self, taker: Taker) -> Agent {
        self.agent_with(taker, |_| {})
    }

    /// The same, with settings changed from the defaults.
    pub(crate) fn agent_with(&mut self, taker: Taker, change: impl FnOnce(&mut Setup)) -> Agent {
        let key = self.key.take().expect("one agent a scene");
        Agent::start(&self.relay, key, taker, change)
    }

    /// The relay itself.
    pub(crate) const fn relay(&self) -> &DevRelay {
        &self.relay
    }

    pub(crate) fn url(&self) -> String {
        self.relay.url()
    }

    /// The public key of the person.
    pub(crate) fn person(&self) -> &str {
        self.person.public()
    }

    /// Somebody else joins the channel.
    pub(crate) fn invite(&self) -> Keys {
        let keys = Keys::generate();
        let (role, owner) = (Role::Member, self.person.public());
        let joined = self.relay.add_member(CHANNEL, keys.public(), role, owner);
        joined.expect("the channel is there");
        keys
    }

    /// The statement that a key's agent is the person's, or somebody else's signed as theirs.
    pub(crate) fn attest(&self, agent: &Keys, forger: Option<&Keys>) -> Vec<String> {
        let mut tag = forger.unwrap_or(&self.person).attest(agent.public(), "");
        tag[1] = self.person.public().to_owned();
        tag
    }

    /// Somebody's mention of the agent, not sent yet.
    pub(crate) fn mention_of(
        &self,
        author: &Keys,
        words: &str,
        mut tags: Vec<Vec<String>>,
    ) -> Event {
        tags.extend([tag("h", CHANNEL), tag("p", &self.agent)]);
        author.sign_event(9, tags, words, unix_now())
    }

    /// Somebody else's event is sent.
    pub(crate) async fn say(&self, author: &Keys, event: &Event) {
        let mut client = Client::connect(&self.relay.url(), author)
            .await
            .expect("a person connects");
        let receipt = within(client.publish(event))
            .await
            .expect("the relay answers");
        assert!(receipt.accepted, "{}", receipt.message);
    }

    /// What the relay stores of the agent and this kind, the newest first.
    pub(crate) fn said(&self, kind: u32) -> Vec<Event> {
        let filter = Filter {
            authors: Some(vec![self.agent.clone()]),
            kinds: Some(vec![kind]),
            ..Filter::default()
        };
        self.relay.events(&filter)
    }

    pub(crate) async fn mention(&mut self, words: &str, tags: Vec<Vec<String>>) -> Event {
        self.mention_in(CHANNEL, words, tags).await
    }

    pub(crate) async fn mention_in(
        &mut self,
        channel: &str,
        words: &str,
        mut tags: Vec<Vec<String>>,
    ) -> Event {
        tags.extend([tag("h", channel), tag("p", &self.agent)]);
        let event = self.person.sign_event(9, tags, words, unix_now());
        let receipt = within(self.client.publish(&event))
            .await
            .expect("the relay answers");
        assert!(receipt.accepted, "{}", receipt.message);
        event
    }

    /// The agent's reply to a message.
    pub(crate) async fn reply_to(&mut self, id: &str) -> Event {
        within(async {
            loop {
                let frame = self.client.next().await.expect("the person is connected");
                if let Frame::Event { event, .. } = frame
                    && event
                        .tags
                        .iter()
                        .any(|tag| tag.get(1).is_some_and(|named| named == id))
                {
                    return *event;
                }
            }
        })
        .await
    }

    /// What the relay stores of the agent and this kind, once that is as wanted.
    pub(crate) async fn until_said(
        &self,
        kind: u32,
        is_so: impl Fn(&[Event]) -> bool,
    ) -> Vec<Event> {
        within(async {
            loop {
                let said = self.said(kind);
                if is_so(&said) {
                    return said;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await
    }

    pub(crate) fn drop_the_agents_connection(&self) {
        let agent = Target::Key(self.agent.clone());
        self.relay.faults().disconnect(&agent, &Closing::Abrupt);
    }

    pub(crate) async fn open_another_channel(&mut self) -> &'static str {
        self.open_another(ChannelKind::Stream).await
    }

    pub(crate) async fn open_direct_messages(&mut self) -> &'static str {
        self.open_another(ChannelKind::Dm).await
    }

    async fn open_another(&mut self, kind: ChannelKind) -> &'static str {
        open_channel(&self.relay, (ANOTHER, kind), &self.person, &self.agent);
        listen(&mut self.client, ANOTHER, &self.agent).await;
        ANOTHER
    }
}

fn open_channel(relay: &DevRelay, (channel, kind): (&str, ChannelKind), owner: &Keys, agent: &str) {
    let visibility = Visibility::Private;
    relay
        .create_channel(channel, "test", visibility, kind, owner.public())
        .expect("a fresh channel");
    relay
        .add_member(channel, agent, Role::Bot, owner.public())
        .expect("the channel is there");
}

async fn listen(client: &mut Client, channel: &str, agent: &str) {
    let filter = json!({"kinds": [9], "#h": [channel], "authors": [agent], "limit": 0});
    client
        .subscribe(channel, filter)
        .await
        .expect("the relay listens");
}

/// The same facts lead to the same orders.
fn play_again(trace: &Path) {
    let text = std::fs::read_to_string(trace).expect("the trace was written");
    let mut lines = text.lines();
    let mut replay = Replay::new(lines.next().expect("a head")).expect("a head");
    for line in lines {
        let call = replay.step(line).expect("a call");
        assert_eq!(call.difference(), None, "{line}");
    }
    assert!(replay.machine().is_ended(), "the trace goes to the end");
}

pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(GUARD, work).await.expect("it happens")
}
