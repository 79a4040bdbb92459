//! The agent of a world: the machine, what reaches it, and what outlives its process.

mod orders;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use buzz_dev_relay::keys::Keys;
use buzz_proto::config::{Config, ConfigError};
use buzz_proto::ids::{ConnId, JobId};
use buzz_proto::input::Input;
use buzz_proto::machine::Machine;
use buzz_proto::note::Note;
use buzz_proto::publish::{self, Verdict};
use buzz_proto::relay::{self, BrokeCause, ConnectCause, HttpAnswer, Record, Sub};
use buzz_proto::schedule;
use buzz_proto::seed::Seed;
use buzz_proto::time::MonoTime;

use super::clock::{Chance, Lane};
use super::consumer::{Consumer, Pace};
use super::crew::Crew;
use super::happening::{Call, Clock, Fact, LineKey, Part, Sent};
use super::record::Record as Recording;

/// The driver reports the wall clock this often.
const WALL_CLOCK_EVERY: Duration = Duration::from_secs(10);
/// A consumer with a pace takes no two events closer together.
const TURN_MIN: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Agent {
    config: Config,
    keys: Keys,
    machine: Machine,
    pub(super) life: u32,
    /// When this life began: the clock of its process shows zero then.
    born: MonoTime,
    pub(super) wake: Option<MonoTime>,
    /// Whether the machine of this life has come to its end.
    pub(super) has_ended: bool,
    socket: Option<Socket>,
    /// HTTP calls whose answers are awaited.
    calls: BTreeSet<Call>,
    nonce: u64,
    pub(super) is_online: bool,
    pub(super) consumer: Consumer,
    pub(super) crew: Crew,
    /// The wall clock is not reported for the time being.
    pub(super) is_hushed: bool,
    /// How often the consumer's pace was set: turns of an earlier one are over.
    turns: u64,
    records: BTreeMap<Sub, Record>,
    notes: Vec<(MonoTime, Note)>,
    verdicts: Vec<(MonoTime, JobId, Verdict)>,
    pub(super) recording: Recording,
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
            born: MonoTime::ZERO,
            wake: None,
            has_ended: false,
            socket: None,
            calls: BTreeSet::new(),
            nonce: 0,
            is_online: true,
            consumer: Consumer::default(),
            crew: Crew::new(Chance::new(seed.derive(7))),
            is_hushed: false,
            turns: 0,
            records: records.into_iter().map(|it| (it.sub, it)).collect(),
            notes: Vec::new(),
            verdicts: Vec::new(),
            recording: Recording::new(),
            seed: seed.derive(4),
            cryptography: Chance::new(seed.derive(5)),
            up: Lane::new(seed.derive(6)),
        })
    }

    pub(super) const fn config(&self) -> &Config {
        &self.config
    }

    pub(super) const fn machine(&self) -> &Machine {
        &self.machine
    }

    pub(super) fn notes(&self) -> &[(MonoTime, Note)] {
        &self.notes
    }

    pub(super) fn verdicts(&self) -> &[(MonoTime, JobId, Verdict)] {
        &self.verdicts
    }

    pub(super) fn public(&self) -> &str {
        self.keys.public()
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
        self.recording.begin(&self.config);
        self.take_in(Fact::WallClockDue, clock);
    }

    /// The process is killed, and a new one starts with the records that were kept.
    pub(super) fn restart(&mut self, clock: &mut Clock) -> Result<(), ConfigError> {
        if let Some(records) = &mut self.config.relay.records {
            *records = self.records.values().cloned().collect();
        }
        self.machine = Machine::new(self.config.clone(), MonoTime::ZERO)?;
        self.born = clock.now();
        self.life = self.life.saturating_add(1);
        self.wake = None;
        self.has_ended = false;
        self.socket = None;
        self.calls.clear();
        self.consumer.die(&self.records);
        self.crew.die();
        self.begin(clock);
        self.next_turn(clock);
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
                if !self.is_hushed {
                    self.feed(Input::WallClock(clock.wall()), clock);
                }
            }
            Fact::Worker { worker, doing } => self.work(worker, doing, clock),
            Fact::ConsumerReady => self.consume_at_pace(clock),
            Fact::ConsumerTurn { number } if number == self.turns => {
                self.consume(1, clock);
                self.next_turn(clock);
            }
            Fact::ConsumerTurn { .. } => {}
        }
    }

    /// From now on the consumer takes events at this pace.
    pub(super) fn set_pace(&mut self, pace: Pace, clock: &mut Clock) {
        self.consumer.pace = pace;
        self.turns = self.turns.saturating_add(1);
        self.consume_at_pace(clock);
        self.next_turn(clock);
    }

    fn consume_at_pace(&mut self, clock: &mut Clock) {
        if self.consumer.pace == Pace::Eager {
            self.consume(usize::MAX, clock);
        }
    }

    fn next_turn(&self, clock: &mut Clock) {
        if let Pace::OneEach(span) = self.consumer.pace {
            let number = self.turns;
            self.plan(span.max(TURN_MIN), Fact::ConsumerTurn { number }, clock);
        }
    }

    /// The consumer takes at most so many events, oldest first, and says at once what becomes of
    /// each.
    pub(super) fn consume(&mut self, count: usize, clock: &mut Clock) {
        let events = self.consumer.take(count);
        if events.is_empty() {
            return;
        }
        let taken = self.consumer.taken();
        self.tell(relay::Input::Capacity { taken }, clock);
        for (event, how) in events {
            self.tell(relay::Input::Disposed { event, how }, clock);
        }
    }

    fn tell(&mut self, input: relay::Input, clock: &mut Clock) {
        self.feed(Input::Relay(input), clock);
    }

    pub(super) fn feed(&mut self, input: Input, clock: &mut Clock) {
        let now = MonoTime::ZERO.after(clock.now().saturating_since(self.born));
        let actions = self.machine.handle_input(input.clone(), now);
        self.recording.call(now, &input, &actions);
        for action in actions {
            self.perform(action, clock);
        }
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
        (Part::Schedule, Ok(answer)) => {
            Input::Schedule(schedule::Input::Answered { ticket, answer })
        }
        (Part::Schedule, Err(cause)) => Input::Schedule(schedule::Input::Broke { ticket, cause }),
    }
}
