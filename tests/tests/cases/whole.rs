//! A whole machine beside a relay, and workers where it has some, that do as they are told.

mod orders;
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::{ConnId, EventId, Ticket, TurnId};
use buzz_proto::input::Input;
use buzz_proto::machine::Machine;
use buzz_proto::schedule::{Scope, StopReason, TurnEnd};
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_proto::wire::Event;
use buzz_proto::{publish, relay, schedule};
use buzz_sim::bench::Dial;
use buzz_sim::machine::{config, machine};
use buzz_sim::relay::{given, unaudited};
use buzz_sim::script::{Script, script};
use buzz_sim::toy::{self, START, Toy, channel};
use bytes::Bytes;

use crate::jobs::job_of;
use crate::player::ELSEWHERE;
pub(crate) use words::{Said, Word};

/// What an answer takes that nobody gives by hand.
pub(crate) const LATENCY: Duration = Duration::from_millis(50);
/// Wall clock and pings.
const BEAT: Duration = Duration::from_secs(10);
/// The owner of an agent with workers.
pub(crate) const OWNER: u8 = 0xb2;

/// A machine, a relay, a consumer or workers.
pub(crate) struct Whole {
    pub(crate) script: Script<Machine>,
    /// What becomes of dials.
    pub(crate) dial: Dial,
    /// What becomes of AUTH.
    pub(crate) auth: Word,
    /// What becomes of posts; nothing where they are answered by hand.
    pub(crate) http: Option<Said>,
    /// The same for single jobs.
    pub(crate) http_of: BTreeMap<u64, Option<Said>>,
    /// What becomes of EVENTs.
    pub(crate) socket: Word,
    /// The same for single jobs.
    pub(crate) socket_of: BTreeMap<u64, Word>,
    /// What becomes of EVENTs whose kind is not stored.
    pub(crate) ephemeral: Word,
    /// `/query` is there, and has nothing.
    pub(crate) has_query: bool,
    /// The peer takes what it is sent and never says a word.
    pub(crate) is_silent: bool,
    /// The socket.
    open: Option<ConnId>,
    /// Turns under way.
    turns: Vec<(TurnId, Scope)>,
    /// Facts on their way.
    due: BTreeMap<(MonoTime, u64), Input>,
    /// Names of the live requests on this connection.
    live: BTreeMap<u8, String>,
    /// EVENTs on this socket without an OK, AUTH among them.
    unanswered: Vec<Event>,
    /// Posts without an answer.
    posts: Vec<(Ticket, Event)>,
    /// What the relay has.
    stored: BTreeMap<EventId, Event>,
    signatures: BTreeMap<String, u64>,
    taken: u64,
    beat_at: MonoTime,
    facts: u64,
}

impl Whole {
    /// A machine that has not dialed.
    pub(crate) fn new(config: Config) -> Self {
        Self {
            script: script(machine(config)),
            dial: Dial::Succeeds,
            auth: Word::Yes,
            http: Some(Said::accepted()),
            http_of: BTreeMap::new(),
            socket: Word::Yes,
            socket_of: BTreeMap::new(),
            ephemeral: Word::Yes,
            has_query: false,
            is_silent: false,
            open: None,
            turns: Vec::new(),
            due: BTreeMap::new(),
            live: BTreeMap::new(),
            unanswered: Vec::new(),
            posts: Vec::new(),
            stored: BTreeMap::new(),
            signatures: BTreeMap::new(),
            taken: 0,
            beat_at: MonoTime::ZERO,
            facts: 0,
        }
    }

    /// The first word of the clock, at which the machine dials.
    pub(crate) fn begin(&mut self) {
        self.beat();
    }

    /// Lets time pass, with the peer's pings and our wall clock.
    pub(crate) fn run_for(&mut self, span: Duration) {
        let end = self.now().after(span);
        while self.now() < end {
            let due = self.due.first_key_value().map(|((at, _), _)| *at);
            let wake = self.script.part().next_deadline().map(|(at, _)| at);
            let quiet = wake.unwrap_or(end).min(end).min(self.beat_at);
            if due.is_some_and(|at| at <= quiet) {
                let Some(((at, _), fact)) = self.due.pop_first() else {
                    continue;
                };
                self.script.at(at.max(self.now()));
                self.input(fact);
            } else if self.beat_at <= quiet {
                self.script.at(self.beat_at);
                self.beat();
            } else {
                self.script.run_until(quiet);
                self.settle();
            }
        }
    }

    fn beat(&mut self) {
        self.beat_at = self.now().after(BEAT);
        self.input(Input::WallClock(self.wall()));
        if let Some(conn) = self.open.filter(|_| !self.is_silent) {
            self.input(Input::Relay(relay::Input::Pinged { conn }));
        }
    }

    pub(crate) const fn now(&self) -> MonoTime {
        self.script.now()
    }

    /// Our clock, which is the relay's.
    pub(crate) fn wall(&self) -> UnixTime {
        START.after(self.now().saturating_since(MonoTime::ZERO))
    }

    /// Feeds a fact and carries out what follows.
    pub(crate) fn input(&mut self, fact: Input) {
        self.script.input(fact);
        self.settle();
    }

    /// The application asks something of the publisher.
    pub(crate) fn publish(&mut self, command: publish::Command) {
        self.input(Input::Publish(publish::Input::Command(command)));
    }

    /// The application asks something of the relay part.
    pub(crate) fn command(&mut self, command: relay::Command) {
        self.input(Input::Relay(relay::Input::Command(command)));
    }

    /// The relay says something, if there is a socket.
    pub(crate) fn say(&mut self, text: impl Into<Bytes>) {
        if let Some(conn) = self.open {
            let text = text.into();
            self.input(Input::Relay(relay::Input::Frame { conn, text }));
        }
    }

    /// The relay says something of a channel's live subscription, if it has one.
    pub(crate) fn say_of(&mut self, place: u8, frame: impl Fn(&str) -> Bytes) {
        if let Some(name) = self.live.get(&place) {
            let frame = frame(name);
            self.say(frame);
        }
    }

    /// The relay answers the EVENT of a job, if this socket carried it and it has no answer.
    pub(crate) fn ok(&mut self, job: u64, accepted: bool, reason: &str) {
        let is_it = |event: &Event| job_of(event) == Some(job);
        if let Some(place) = self.unanswered.iter().position(is_it) {
            let event = self.unanswered.remove(place);
            self.told(&event, accepted);
            self.say(toy::ok(event.id(), accepted, reason));
        }
    }

    /// The relay answers the AUTH that it has not answered.
    pub(crate) fn ok_auth(&mut self, accepted: bool, reason: &str) {
        let is_it = |event: &Event| event.kind() == 22_242;
        if let Some(place) = self.unanswered.iter().position(is_it) {
            let event = self.unanswered.remove(place);
            self.say(toy::ok(event.id(), accepted, reason));
        }
    }

    /// The relay answers the post of a job, if one is under way.
    pub(crate) fn answer(&mut self, job: u64, said: &Said) {
        let is_it = |(_, event): &(Ticket, Event)| job_of(event) == Some(job);
        if let Some(place) = self.posts.iter().position(is_it) {
            let (ticket, event) = self.posts.remove(place);
            self.told(&event, said.is_acceptance());
            let answer = said.answer();
            self.input(Input::Publish(publish::Input::Answered { ticket, answer }));
        }
    }

    /// The relay took an event, or not.
    fn told(&mut self, event: &Event, accepted: bool) {
        if accepted {
            self.stored.insert(event.id(), event.clone());
        }
    }

    /// The socket ends.
    pub(crate) fn disconnect(&mut self) {
        if let Some(conn) = self.open {
            let code = None;
            self.reset();
            self.input(Input::Relay(relay::Input::Closed { conn, code }));
        }
    }

    fn reset(&mut self) {
        self.open = None;
        self.live.clear();
        self.unanswered.clear();
        self.due
            .retain(|_, fact| !matches!(fact, Input::Relay(relay::Input::Frame { .. })));
    }

    /// A worker answers the turn of a channel.
    pub(crate) fn reply(&mut self, place: u8, text: &str) {
        let (reply, stop) = (text.to_owned(), StopReason::EndTurn);
        self.end_turn(place, TurnEnd::Answered { reply, stop });
    }

    /// A worker ends the turn of a channel.
    pub(crate) fn end_turn(&mut self, place: u8, end: TurnEnd) {
        let Some(turn) = self.take_turn(|scope| scope.channel() == channel(place)) else {
            return;
        };
        let finished = schedule::Input::Finished { turn, end };
        self.input(Input::Schedule(finished));
    }

    fn take_turn(&mut self, is_wanted: impl Fn(&Scope) -> bool) -> Option<TurnId> {
        let place = self.turns.iter().position(|(_, scope)| is_wanted(scope))?;
        Some(self.turns.remove(place).0)
    }

    /// The owner writes to the agent in a channel.
    pub(crate) fn mention(&mut self, n: u64, place: u8) {
        self.bring(n, place, OWNER);
    }

    /// The owner writes to the agent in a thread of a channel.
    pub(crate) fn mention_in(&mut self, n: u64, place: u8, root: u64) {
        let root = toy::id(root).to_string();
        let event = Toy::mention(n, channel(place))
            .author(toy::key(OWNER))
            .dated(self.wall())
            .tag(&["e", &root, "", "reply"]);
        self.say_of(place, |name| toy::event_frame(name, &event));
    }

    /// Somebody writes to the agent in a channel.
    fn bring(&mut self, n: u64, place: u8, author: u8) {
        let event = Toy::mention(n, channel(place))
            .author(toy::key(author))
            .dated(self.wall());
        self.say_of(place, |name| toy::event_frame(name, &event));
    }

    pub(crate) fn is_live(&self) -> bool {
        self.script.part().relay().is_live
    }

    /// The socket that is open.
    pub(crate) const fn socket(&self) -> Option<ConnId> {
        self.open
    }

    /// Carries out orders until there are none.
    fn settle(&mut self) {
        loop {
            let orders = self.script.orders();
            self.script.notes();
            if orders.is_empty() {
                return;
            }
            let mut facts = Vec::new();
            for order in orders {
                self.carry_out(order, &mut facts);
            }
            for fact in facts {
                let rest = self.script.timed_orders();
                self.script.input(fact);
                self.script.put_back(rest);
            }
        }
    }

    /// All trouble is over.
    pub(crate) fn heal(&mut self) {
        self.dial = Dial::Succeeds;
        self.auth = Word::Yes;
        self.http = Some(Said::accepted());
        self.http_of.clear();
        self.socket = Word::Yes;
        self.socket_of.clear();
        self.ephemeral = Word::Yes;
        self.is_silent = false;
    }

    /// An event of a stranger, whom workers do not answer.
    pub(crate) fn bring_strange(&mut self, n: u64) {
        self.bring(n, ELSEWHERE, 0xcc);
    }
}

/// The settings of a machine with these channels.
pub(crate) fn settings(channels: &[u8], consumer: Consumer) -> Config {
    let mut channels = channels.to_vec();
    channels.push(ELSEWHERE);
    Config {
        relay: unaudited(given(&channels)),
        ..config(consumer)
    }
}

/// A consumer that takes all.
pub(crate) const SLOTS: Consumer = Consumer::External { slots: 256 };

/// What the channels were subscribed for before a case that begins on a live connection.
const BEFORE: Duration = Duration::from_secs(100);

/// A machine whose connection has been live for a hundred seconds.
pub(crate) fn live(channels: &[u8]) -> Whole {
    live_with(settings(channels, SLOTS))
}

/// As [`live`], with these settings.
pub(crate) fn live_with(config: Config) -> Whole {
    let mut whole = Whole::new(config);
    whole.begin();
    whole.run_for(BEFORE);
    whole
}
