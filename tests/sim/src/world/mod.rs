//! A world in virtual time: the whole machine as an agent, a relay with real rules, people who
//! write, and a consumer who takes what is delivered when it is told to.
//!
//! Nothing here reads a clock or draws from the system: the same settings, seed and calls give the
//! same run, byte for byte, which [`World::digest`] shows. The relay is the development relay's
//! rules with their quotas, send buffer, history limits and access rules. All signatures are real
//! and every one is verified, by the relay and for the machine.
//!
//! ```
//! use std::time::Duration;
//!
//! use buzz_dev_relay::rules::Settings;
//! use buzz_sim::world::{Person, World, channel, config};
//!
//! let mut world = World::new(config(256), Settings::default(), 7)?;
//! world.open_channel(channel(1))?;
//! world.run_for(Duration::from_secs(5));
//! let mention = world.publish(Person(1), channel(1), "hello", None)?;
//! world.run_for(Duration::from_secs(1));
//! assert_eq!(world.delivered()[0].event.id(), mention);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agent;
mod calls;
pub(crate) mod clock;
mod consumer;
pub mod crew;
mod happening;
pub mod judge;
mod people;
mod record;
mod relay;
mod requests;
mod staff;

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use buzz_dev_relay::client::tag;
use buzz_dev_relay::faults::Faults;
use buzz_dev_relay::rules::channels::ChannelKind;
use buzz_dev_relay::rules::quota::Quotas;
use buzz_dev_relay::rules::stats::Stats;
use buzz_dev_relay::rules::store::Store;
use buzz_dev_relay::rules::{Rules, Settings};
use buzz_proto::config::{Config, ConfigError, Consumer};
use buzz_proto::ids::{ChannelId, EventId, JobId, PubKey};
use buzz_proto::input::{Command, Input};
use buzz_proto::machine::Machine;
use buzz_proto::note::Note;
use buzz_proto::publish::Verdict;
use buzz_proto::relay as machine_relay;
use buzz_proto::seed::Seed;
use buzz_proto::time::{MonoTime, UnixTime};

use agent::Agent;
use happening::{Clock, Happening};
use people::{Role, URL, keys_of, post, public_key};
use relay::RelaySide;

pub use calls::HttpCall;
pub use clock::START;
pub use consumer::{Delivered, Pace};
pub use people::{Person, channel};
pub use record::Told;
pub use requests::{Request, Way};
pub use staff::{Said, workers_config};

/// Who owns the channels, and the agent.
pub const OWNER: Person = Person(0);
/// A message.
const MESSAGE: u32 = 9;

/// An agent, its relay and the people who mention it.
#[derive(Debug)]
pub struct World {
    clock: Clock,
    relay: RelaySide,
    agent: Agent,
    /// Mentions that the relay stored, and their channels.
    owed: BTreeMap<EventId, ChannelId>,
    /// The roots of those of them that are replies.
    roots: BTreeMap<EventId, EventId>,
    /// Direct messages.
    directs: BTreeSet<ChannelId>,
    posts: u64,
}

/// Ordinary settings of an agent that follows its roster and keeps no records, with `slots`
/// places for events that are delivered and not taken.
#[must_use]
pub fn config(slots: u32) -> Config {
    Config {
        seed: 0,
        me: PubKey([0; 32]),
        relay: machine_relay::Config::new(URL),
        publish: buzz_proto::publish::Config::default(),
        consumer: Consumer::External { slots },
    }
}

impl World {
    /// A world before its first moment: no channel exists, and the agent has not dialed. Seed, key
    /// and URL of `config` are set by the world, and the owner of workers, who is [`OWNER`]; the
    /// relay serves that URL alone, without TLS.
    ///
    /// # Errors
    /// When a setting cannot work.
    pub fn new(mut config: Config, mut settings: Settings, seed: u64) -> Result<Self, WorldError> {
        let [relay_keys, agent_keys] = [Role::Relay, Role::Agent].map(keys_of);
        let relay_keys = relay_keys.map_err(|_| WorldError::Key)?;
        let agent_keys = agent_keys.map_err(|_| WorldError::Key)?;
        config.seed = seed;
        config.me = public_key(&agent_keys).ok_or(WorldError::Key)?;
        URL.clone_into(&mut config.relay.url);
        if let Consumer::Workers(schedule) = &mut config.consumer {
            schedule.owner =
                public_key(&keys_of(Role::Person(OWNER)).map_err(|_| WorldError::Key)?);
        }
        settings.tls_in_front = false;
        settings.hosts.clear();
        let seed = Seed(seed);
        let mut world = Self {
            clock: Clock::new(),
            relay: RelaySide::new(settings, relay_keys, seed.derive(1)),
            agent: Agent::new(config, agent_keys, seed.derive(2)).map_err(WorldError::Config)?,
            owed: BTreeMap::new(),
            roots: BTreeMap::new(),
            directs: BTreeSet::new(),
            posts: 0,
        };
        world.clock.plan(MonoTime::ZERO, Happening::Begin);
        Ok(world)
    }

    /// Opens a channel in which everybody may write and the agent is a member. One that is opened
    /// before any time has passed is there since an hour ago; later ones are news to the agent.
    ///
    /// # Errors
    /// When it exists, in the relay's words.
    pub fn open_channel(&mut self, channel: ChannelId) -> Result<(), WorldError> {
        let owner = keys_of(Role::Person(OWNER)).map_err(|_| WorldError::Key)?;
        let agent = self.agent.public().to_owned();
        let kind = ChannelKind::Stream;
        self.relay
            .open_channel((channel, kind), owner.public(), &agent, &mut self.clock)
            .map_err(WorldError::Refused)
    }

    /// Somebody writes a message that mentions the agent, dated now unless told otherwise. It is
    /// owed from now on. A relay lets one person post 300 messages a minute.
    ///
    /// # Errors
    /// When the relay does not store it, in its words; then nothing is owed.
    pub fn publish(
        &mut self,
        author: Person,
        channel: ChannelId,
        content: &str,
        dated: Option<UnixTime>,
    ) -> Result<EventId, WorldError> {
        let tags = vec![
            tag("h", &channel.to_string()),
            tag("p", self.agent.public()),
        ];
        let id = self.post(author, MESSAGE, tags, content, dated)?;
        self.owed.insert(id, channel);
        Ok(id)
    }

    /// Somebody posts an event of any kind that nobody owes the agent.
    ///
    /// # Errors
    /// When the relay does not store it, in its words.
    pub fn post(
        &mut self,
        author: Person,
        kind: u32,
        tags: Vec<Vec<String>>,
        content: &str,
        dated: Option<UnixTime>,
    ) -> Result<EventId, WorldError> {
        let keys = keys_of(Role::Person(author)).map_err(|_| WorldError::Key)?;
        let now = self.clock.wall();
        let event = keys.sign_event(kind, tags, content, dated.unwrap_or(now).0);
        self.posts = self.posts.saturating_add(1);
        let body = event.to_json().into_bytes();
        let request = post(&keys, "/events", body, self.posts, now);
        let reply = self.relay.serve(&request, &mut self.clock);
        relay::verdict(&reply, &event).map_err(WorldError::Refused)?;
        event.id.parse().map_err(|_| WorldError::Key)
    }

    /// Lets a span of time pass, with all that happens in it.
    pub fn run_for(&mut self, span: Duration) {
        let until = self.clock.now().after(span);
        while self.step(until) {}
        self.clock.pass_to(until);
    }

    /// Lets time pass until something is so, at most `patience`. False when it did not come about.
    pub fn run_until(&mut self, patience: Duration, is_so: impl Fn(&Self) -> bool) -> bool {
        let until = self.clock.now().after(patience);
        while !is_so(self) {
            if !self.step(until) {
                self.clock.pass_to(until);
                return is_so(self);
            }
        }
        true
    }

    /// The consumer takes at most so many of the events that wait for it, oldest first.
    pub fn consumer_takes(&mut self, count: usize) {
        self.agent.consume(count, &mut self.clock);
    }

    /// From now on the consumer takes events at this pace, in this life and later ones. A world
    /// begins with [`Pace::Stalled`].
    pub fn set_pace(&mut self, pace: Pace) {
        self.agent.set_pace(pace, &mut self.clock);
    }

    /// From now on the consumer hands back one of so many events that it takes, each at most once;
    /// 0 for none, which is how a world begins.
    pub fn consumer_hands_back(&mut self, one_in: u32) {
        self.agent.consumer.hands_back_one_in = one_in;
    }

    /// The application tells or asks the machine something.
    pub fn feed(&mut self, input: Input) {
        self.agent.feed(input, &mut self.clock);
    }

    /// The connection breaks; what is under way on it is lost.
    pub fn cut_connection(&mut self) {
        if let Some(line) = self.agent.line() {
            self.relay.forget(line);
        }
        self.agent.lose_socket(&mut self.clock);
    }

    /// The agent's network goes away, with its connection and its calls; or it comes back. People
    /// reach the relay all the same.
    pub fn set_online(&mut self, is_online: bool) {
        self.agent.is_online = is_online;
        if !is_online {
            self.cut_connection();
            self.agent.lose_calls(&mut self.clock);
        }
    }

    /// Frames pile up in the relay's send buffer, or flow again.
    pub fn stall_relay(&mut self, is_stalled: bool) {
        self.relay.stall(is_stalled, &mut self.clock);
    }

    /// The relay sends a frame of its own accord to every connection that is open.
    pub fn inject(&mut self, frame: &str) {
        self.relay.inject(frame, &mut self.clock);
    }

    /// The relay ends every connection and forgets its subscriptions, as when it restarts; what it
    /// stored is there afterwards.
    pub fn restart_relay(&mut self) {
        self.relay.end_all(&mut self.clock);
    }

    /// The agent ends in good order: it is told to, has this long for it, and then
    /// [`World::restart`] begins its next life.
    ///
    /// # Errors
    /// When the records cannot be used.
    pub fn restart_cleanly(&mut self, grace: Duration) -> Result<(), WorldError> {
        self.feed(Input::Command(Command::Shutdown { grace }));
        self.run_until(grace, |world| world.agent.has_ended);
        self.restart()
    }

    /// The agent is killed and starts anew with the records it had kept, if it keeps any. Events
    /// that the consumer had not taken go with the process.
    ///
    /// # Errors
    /// When the records cannot be used.
    pub fn restart(&mut self) -> Result<(), WorldError> {
        if let Some(line) = self.agent.line() {
            self.relay.forget(line);
        }
        self.agent
            .restart(&mut self.clock)
            .map_err(WorldError::Config)
    }

    /// From now on the relay has these quotas; its windows begin anew.
    pub fn set_quotas(&mut self, quotas: Quotas) {
        let change = |rules: &mut Rules, _| rules.set_quotas(quotas);
        self.relay.change(&mut self.clock, change);
    }

    /// Faults of the relay, to arm.
    pub fn faults_mut(&mut self) -> &mut Faults {
        self.relay.faults_mut()
    }

    /// The present.
    #[must_use]
    pub const fn now(&self) -> MonoTime {
        self.clock.now()
    }

    /// The wall clock, which everybody reads alike.
    #[must_use]
    pub const fn wall(&self) -> UnixTime {
        self.clock.wall()
    }

    /// The agent's key.
    #[must_use]
    pub fn agent_key(&self) -> &str {
        self.agent.public()
    }

    /// The machine of the present life.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        self.agent.machine()
    }

    /// Every event that the consumer was given, in that order, repeated ones included.
    #[must_use]
    pub fn delivered(&self) -> &[Delivered] {
        self.agent.consumer.delivered()
    }

    /// Deliveries beyond the first of each event in one life of the agent. An event that was
    /// handed back is due again, so its next delivery is none of them.
    #[must_use]
    pub const fn duplicates(&self) -> u64 {
        self.agent.consumer.duplicates()
    }

    /// Deliveries of events that the consumer had accepted, in an earlier life, and that a record
    /// said to be done with when the present one began.
    #[must_use]
    pub const fn repeated(&self) -> u64 {
        self.agent.consumer.repeated()
    }

    /// How many delivered events wait to be taken.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.agent.consumer.waiting()
    }

    /// Mentions that the relay stored, with their channels.
    #[must_use]
    pub const fn owed(&self) -> &BTreeMap<EventId, ChannelId> {
        &self.owed
    }

    /// Mentions that the consumer neither holds nor has accepted, with their channels.
    pub fn undelivered(&self) -> impl Iterator<Item = (EventId, ChannelId)> {
        let owed = self.owed.iter().map(|(id, channel)| (*id, *channel));
        owed.filter(|(id, _)| !self.agent.consumer.has(*id))
    }

    /// All that the machine noted, with its time.
    #[must_use]
    pub fn notes(&self) -> &[(MonoTime, Note)] {
        self.agent.notes()
    }

    /// All that the agent asked the relay for, as it arrived there.
    #[must_use]
    pub fn requests(&self) -> &[Request] {
        self.relay.requests()
    }

    /// The `POST` calls of the agent that reached the relay, in that order.
    #[must_use]
    pub fn calls(&self) -> &[HttpCall] {
        self.relay.served()
    }

    /// Every verdict of the publisher, with its time, in that order and over all lives.
    #[must_use]
    pub fn verdicts(&self) -> &[(MonoTime, JobId, Verdict)] {
        self.agent.verdicts()
    }

    /// What the relay stores.
    #[must_use]
    pub const fn store(&self) -> &Store {
        self.relay.rules().store()
    }

    /// Subscriptions that stand at the relay and whose stored events have all been sent.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.relay.subscriptions()
    }

    /// The relay's counters.
    #[must_use]
    pub const fn relay_stats(&self) -> &Stats {
        self.relay.rules().stats()
    }

    /// A number that two runs share only if every fact and every order was the same, with its time.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.agent.recording.digest()
    }

    /// From now on facts and orders are kept as a trace; before the first moment, all of them.
    pub const fn record(&mut self) {
        self.agent.recording.keep();
    }

    /// The lines of the trace of the present life, for `buzz-agent replay` if it is whole.
    #[must_use]
    pub fn trace(&self) -> &[String] {
        self.agent.recording.lines()
    }

    /// The next thing that happens until then. False when there is none.
    fn step(&mut self, until: MonoTime) -> bool {
        let (planned, wake) = (self.clock.next(), self.agent.wake);
        // What can be read is fed before a tick of the same instant.
        let is_tick = wake.is_some_and(|wake| planned.is_none_or(|planned| wake < planned));
        let next = if is_tick { wake } else { planned };
        let Some(at) = next.filter(|at| *at <= until) else {
            return false;
        };
        if is_tick {
            self.clock.pass_to(at);
            self.agent.tick(&mut self.clock);
        } else if let Some(what) = self.clock.take() {
            self.happen(what);
        }
        true
    }

    fn happen(&mut self, what: Happening) {
        let clock = &mut self.clock;
        match what {
            Happening::Begin => self.agent.begin(clock),
            Happening::Fact { life, fact } if life == self.agent.life => {
                self.agent.take_in(fact, clock);
            }
            Happening::Fact { .. } => {}
            Happening::Sent { line, what } if self.agent.is_online => {
                self.relay.take_in(line, what, clock);
            }
            Happening::Sent { .. } => {}
            Happening::Called {
                life,
                call,
                sent,
                request,
            } => self.relay.call((life, call), sent, &request, clock),
            Happening::Due { line, what } => self.relay.act(line, what, clock),
        }
    }
}

/// Why a world cannot be, or something cannot happen in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorldError {
    /// The machine cannot work with these settings.
    Config(ConfigError),
    /// The relay refused, in these words.
    Refused(String),
    /// A key could not be made from its number.
    Key,
}

impl fmt::Display for WorldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => {
                write!(f, "the machine cannot work with these settings: {error}")
            }
            Self::Refused(text) => write!(f, "the relay refused: {text}"),
            Self::Key => f.write_str("a number of a person gives no valid key: take another one"),
        }
    }
}

impl core::error::Error for WorldError {}
