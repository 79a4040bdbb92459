//! The agent of a world: the machine, and everything that carries out its orders.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::time::Duration;

use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::http::HttpRequest;
use buzz_proto::action::Action;
use buzz_proto::config::{Config, ConfigError};
use buzz_proto::ids::{ConnId, Ticket};
use buzz_proto::input::Input;
use buzz_proto::machine::Machine;
use buzz_proto::note::Note;
use buzz_proto::publish;
use buzz_proto::relay::{self, BrokeCause, ConnectCause, HttpAnswer, Record, Sub};
use buzz_proto::seed::Seed;
use buzz_proto::time::MonoTime;
use serde::Serialize;

use super::clock::{Chance, Lane};
use super::consumer::{Consumer, Delivered};
use super::happening::{Call, Clock, Fact, Happening, LineKey, Part, Sent};
use super::people::{auth_event, information, is_genuine, post};

/// The driver reports the wall clock this often.
const WALL_CLOCK_EVERY: Duration = Duration::from_secs(10);
/// Until the operating system has taken a frame.
const WRITE: Duration = Duration::from_micros(100);
/// Until a dial or a call without a network fails.
const UNREACHABLE: Duration = Duration::from_millis(10);
/// Until records are on disk.
const KEEP: Duration = Duration::from_millis(5);
/// Until an eager consumer looks for what was delivered.
const CONSUMER: Duration = Duration::from_micros(50);
/// A signature or a verification takes from here to there.
const CRYPTOGRAPHY: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(2));

#[derive(Debug)]
pub(super) struct Agent {
    config: Config,
    keys: Keys,
    machine: Machine,
    pub(super) life: u32,
    pub(super) wake: Option<MonoTime>,
    socket: Option<Socket>,
    /// HTTP calls whose answers are awaited.
    calls: BTreeSet<Call>,
    nonce: u64,
    pub(super) is_online: bool,
    pub(super) consumer: Consumer,
    records: BTreeMap<Sub, Record>,
    notes: Vec<(MonoTime, Note)>,
    digest: Digest,
    seed: Seed,
    cryptography: Chance,
    up: Lane,
}

/// A socket, or a dial that may become one.
#[derive(Debug)]
struct Socket {
    conn: ConnId,
    up: Lane,
    is_open: bool,
}

impl Agent {
    pub(super) fn new(config: Config, keys: Keys, seed: Seed) -> Result<Self, ConfigError> {
        let records = config.relay.records.clone().unwrap_or_default();
        Ok(Self {
            machine: Machine::new(config.clone(), MonoTime::ZERO)?,
            config,
            keys,
            life: 0,
            wake: None,
            socket: None,
            calls: BTreeSet::new(),
            nonce: 0,
            is_online: true,
            consumer: Consumer::default(),
            records: records.into_iter().map(|it| (it.sub, it)).collect(),
            notes: Vec::new(),
            digest: Digest(DefaultHasher::new()),
            seed: seed.derive(4),
            cryptography: Chance::new(seed.derive(5)),
            up: Lane::new(seed.derive(6)),
        })
    }

    pub(super) const fn machine(&self) -> &Machine {
        &self.machine
    }

    pub(super) fn notes(&self) -> &[(MonoTime, Note)] {
        &self.notes
    }

    pub(super) fn public(&self) -> &str {
        self.keys.public()
    }

    /// A number that two runs share only if every fact and every order was the same.
    pub(super) fn digest(&self) -> u64 {
        self.digest.0.finish()
    }

    /// The connection of this life, if there is one or may soon be.
    pub(super) fn line(&self) -> Option<LineKey> {
        let conn = self.socket.as_ref()?.conn;
        Some(LineKey {
            life: self.life,
            conn,
        })
    }

    /// The first fact of a life.
    pub(super) fn begin(&mut self, clock: &mut Clock) {
        self.take_in(Fact::WallClockDue, clock);
    }

    /// The process is killed, and a new one starts with the records that were kept.
    pub(super) fn restart(&mut self, clock: &mut Clock) -> Result<(), ConfigError> {
        let mut config = self.config.clone();
        if config.relay.records.is_some() {
            config.relay.records = Some(self.records.values().cloned().collect());
        }
        self.machine = Machine::new(config, clock.now())?;
        self.life = self.life.saturating_add(1);
        self.wake = None;
        self.socket = None;
        self.calls.clear();
        self.consumer.die();
        self.begin(clock);
        Ok(())
    }

    /// The socket breaks, and the machine is told.
    pub(super) fn lose_socket(&mut self, clock: &mut Clock) {
        let Some(&Socket { conn, is_open, .. }) = self.socket.as_ref() else {
            return;
        };
        let fact = if is_open {
            Fact::Closed { conn, code: None }
        } else {
            let cause = ConnectCause::Transport;
            Fact::ConnectFailed { conn, cause }
        };
        self.take_in(fact, clock);
    }

    /// Calls under way break.
    pub(super) fn lose_calls(&mut self, clock: &mut Clock) {
        for call in self.calls.clone() {
            let answer = Err(BrokeCause::Connection);
            self.take_in(Fact::Answered { call, answer }, clock);
        }
    }

    pub(super) fn tick(&mut self, clock: &mut Clock) {
        self.wake = None;
        self.feed(Input::Tick, clock);
    }

    /// Something has reached this agent in its present life.
    pub(super) fn take_in(&mut self, fact: Fact, clock: &mut Clock) {
        match fact {
            Fact::Told(input) => self.feed(input, clock),
            Fact::OnSocket { conn, input } if self.is_on(conn) => self.tell(input, clock),
            Fact::Connected { conn, date } if self.is_on(conn) => {
                let date = Some(date);
                if let Some(socket) = &mut self.socket {
                    socket.is_open = true;
                }
                self.feed(Input::WallClock(clock.wall()), clock);
                self.tell(relay::Input::Connected { conn, date }, clock);
            }
            Fact::ConnectFailed { conn, cause } if self.is_on(conn) => {
                self.socket = None;
                self.tell(relay::Input::ConnectFailed { conn, cause }, clock);
            }
            Fact::Pinged { conn } if self.is_on(conn) => {
                self.send(conn, Sent::Pong, clock);
                self.tell(relay::Input::Pinged { conn }, clock);
            }
            Fact::Closed { conn, code } if self.is_on(conn) => {
                self.socket = None;
                self.tell(relay::Input::Closed { conn, code }, clock);
            }
            Fact::OnSocket { .. }
            | Fact::Connected { .. }
            | Fact::ConnectFailed { .. }
            | Fact::Pinged { .. }
            | Fact::Closed { .. } => {}
            Fact::Answered { call, answer } => {
                if self.calls.remove(&call) {
                    self.feed(answered(call, answer), clock);
                }
            }
            Fact::Kept {
                ticket,
                records,
                forgotten,
            } => {
                self.records.retain(|sub, _| !forgotten.contains(sub));
                self.records
                    .extend(records.into_iter().map(|it| (it.sub, it)));
                self.tell(relay::Input::Persisted { ticket }, clock);
            }
            Fact::WallClockDue => {
                self.plan(WALL_CLOCK_EVERY, Fact::WallClockDue, clock);
                self.feed(Input::WallClock(clock.wall()), clock);
            }
            Fact::ConsumerReady if self.consumer.is_eager => self.consume(usize::MAX, clock),
            Fact::ConsumerReady => {}
        }
    }

    /// The consumer takes at most so many events, oldest first, and is done with each at once.
    pub(super) fn consume(&mut self, count: usize, clock: &mut Clock) {
        let events = self.consumer.take(count);
        if events.is_empty() {
            return;
        }
        let taken = self.consumer.taken();
        self.tell(relay::Input::Capacity { taken }, clock);
        for event in events {
            let how = relay::Disposal::Accepted;
            self.tell(relay::Input::Disposed { event, how }, clock);
        }
    }

    fn tell(&mut self, input: relay::Input, clock: &mut Clock) {
        self.feed(Input::Relay(input), clock);
    }

    pub(super) fn feed(&mut self, input: Input, clock: &mut Clock) {
        self.digest.add(&(clock.now(), &input));
        for action in self.machine.handle_input(input, clock.now()) {
            self.digest.add(&action);
            self.perform(action, clock);
        }
    }

    fn perform(&mut self, action: Action, clock: &mut Clock) {
        match action {
            Action::Relay(action) => self.perform_relay(action, clock),
            Action::Publish(action) => self.perform_publish(action, clock),
            Action::Note(note) => self.notes.push((clock.now(), note)),
            Action::WakeAt(wake) => self.wake = wake,
            // A world has no workers, so there is nobody to order about.
            Action::Schedule(_) | Action::Ended => {}
        }
    }

    fn perform_relay(&mut self, action: relay::Action, clock: &mut Clock) {
        use relay::Action as A;
        match action {
            A::Connect { conn, .. } => self.dial(conn, clock),
            A::Close { conn, .. } => {
                self.send(conn, Sent::Goodbye, clock);
                self.socket.take_if(|socket| socket.conn == conn);
            }
            A::Send { conn, write, text } => {
                self.send(conn, Sent::Text(text), clock);
                let input = relay::Input::Written { write };
                self.plan(WRITE, Fact::OnSocket { conn, input }, clock);
            }
            A::Ping { conn } => self.send(conn, Sent::Ping, clock),
            A::SignAuth {
                ticket,
                challenge,
                created_at,
            } => {
                let event = auth_event(&self.keys, &challenge, created_at);
                let event = event.to_json().into();
                let input = relay::Input::Signed { ticket, event };
                self.compute(Input::Relay(input), clock);
            }
            A::Verify { ticket, event } => {
                let genuine = is_genuine(event.raw());
                let input = relay::Input::Verified { ticket, genuine };
                self.compute(Input::Relay(input), clock);
            }
            A::Query { ticket, body } => {
                let part = Part::Relay;
                self.post(Call { part, ticket }, "/query", body.to_vec(), clock);
            }
            A::Inform { ticket } => {
                let part = Part::Relay;
                self.call(Call { part, ticket }, information(), clock);
            }
            A::Persist {
                ticket,
                records,
                forgotten,
            } => {
                let fact = Fact::Kept {
                    ticket,
                    records,
                    forgotten,
                };
                self.plan(KEEP, fact, clock);
            }
            A::Abort { ticket } => self.abort(Part::Relay, ticket),
            A::Deliver { sub, event, .. } => {
                let (at, life) = (clock.now(), self.life);
                self.consumer.receive(Delivered {
                    at,
                    life,
                    sub,
                    event,
                });
                if self.consumer.is_eager {
                    self.plan(CONSUMER, Fact::ConsumerReady, clock);
                }
            }
            A::Note(note) => self.notes.push((clock.now(), note)),
            A::Report { .. }
            | A::Channel { .. }
            | A::Receipt { .. }
            | A::Link { .. }
            | A::Ended
            | A::WakeAt(_) => {}
        }
    }

    fn perform_publish(&mut self, action: publish::Action, clock: &mut Clock) {
        use publish::Action as A;
        match action {
            A::Sign { ticket, draft } => {
                let date = draft.created_at.0;
                let event = self
                    .keys
                    .sign_event(draft.kind, draft.tags, &draft.content, date);
                let event = event.to_json().into();
                let input = publish::Input::Signed { ticket, event };
                self.compute(Input::Publish(input), clock);
            }
            A::Post { ticket, event, .. } => {
                let part = Part::Publish;
                let body = event.raw().to_vec();
                self.post(Call { part, ticket }, "/events", body, clock);
            }
            A::Abort { ticket } => self.abort(Part::Publish, ticket),
            A::Note(note) => self.notes.push((clock.now(), note)),
            A::Settle { .. } | A::Send { .. } | A::Ended | A::WakeAt(_) => {}
        }
    }

    fn dial(&mut self, conn: ConnId, clock: &mut Clock) {
        let seed = self.seed.derive(u64::from(self.life)).derive(conn.0);
        let up = Lane::new(seed);
        self.socket = Some(Socket {
            conn,
            up,
            is_open: false,
        });
        if self.is_online {
            self.send(conn, Sent::Upgrade, clock);
            return;
        }
        let cause = ConnectCause::Transport;
        let fact = Fact::ConnectFailed { conn, cause };
        self.plan(UNREACHABLE, fact, clock);
    }

    fn send(&mut self, conn: ConnId, what: Sent, clock: &mut Clock) {
        let life = self.life;
        let Some(socket) = self.socket.as_mut().filter(|it| it.conn == conn) else {
            return;
        };
        let at = socket.up.arrival(clock.now());
        let line = LineKey { life, conn };
        clock.plan(at, Happening::Sent { line, what });
    }

    fn post(&mut self, call: Call, path: &str, body: Vec<u8>, clock: &mut Clock) {
        self.nonce = self.nonce.saturating_add(1);
        let request = post(&self.keys, path, body, self.nonce, clock.wall());
        self.call(call, request, clock);
    }

    fn call(&mut self, call: Call, request: HttpRequest, clock: &mut Clock) {
        self.calls.insert(call);
        let life = self.life;
        if !self.is_online {
            let answer = Err(BrokeCause::Connect);
            self.plan(UNREACHABLE, Fact::Answered { call, answer }, clock);
            return;
        }
        let request = Box::new(request);
        let at = self.up.arrival(clock.now());
        let called = Happening::Called {
            life,
            call,
            request,
        };
        clock.plan(at, called);
    }

    fn abort(&mut self, part: Part, ticket: Ticket) {
        self.calls.remove(&Call { part, ticket });
    }

    /// The outcome of cryptography is there in a moment; one may overtake another.
    fn compute(&mut self, outcome: Input, clock: &mut Clock) {
        let (low, high) = CRYPTOGRAPHY;
        let wait = self.cryptography.between(low, high);
        self.plan(wait, Fact::Told(outcome), clock);
    }

    fn plan(&self, wait: Duration, fact: Fact, clock: &mut Clock) {
        let life = self.life;
        clock.plan_in(wait, Happening::Fact { life, fact });
    }

    fn is_on(&self, conn: ConnId) -> bool {
        self.socket.as_ref().is_some_and(|it| it.conn == conn)
    }
}

fn answered(call: Call, answer: Result<HttpAnswer, BrokeCause>) -> Input {
    let ticket = call.ticket;
    match (call.part, answer) {
        (Part::Relay, Ok(answer)) => Input::Relay(relay::Input::Answered { ticket, answer }),
        (Part::Relay, Err(cause)) => Input::Relay(relay::Input::Broke { ticket, cause }),
        (Part::Publish, Ok(answer)) => Input::Publish(publish::Input::Answered { ticket, answer }),
        (Part::Publish, Err(cause)) => Input::Publish(publish::Input::Broke { ticket, cause }),
    }
}

/// A running hash of everything that goes in and comes out.
struct Digest(DefaultHasher);

impl Digest {
    fn add(&mut self, value: &impl Serialize) {
        // Writing to a hash cannot fail, and what machines exchange has a written form.
        let _written = serde_json::to_writer(&mut *self, value);
    }
}

impl io::Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0.finish())
    }
}
