//! One agent of a fleet: the machine, and what carries out its orders.

use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::config::{Config, ConfigError, Consumer};
use buzz_proto::ids::{ConnId, JobId, Ticket};
use buzz_proto::input::Input;
use buzz_proto::machine::Machine;
use buzz_proto::publish::{self, Body, Class, Route, Verdict};
use buzz_proto::relay::{self, Channels, HttpAnswer};
use buzz_proto::seed::Seed;
use buzz_proto::time::MonoTime;
use buzz_proto::wire::{Draft, MESSAGE};

use super::{Account, Asked, Call, Clock, Happening, Sent, Settings, forge};
use crate::world::clock::Chance;
use crate::world::{START, channel};

/// A message takes from here to there, either way.
const LATENCY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(80));
/// A signature or a verification takes from here to there.
const CRYPTOGRAPHY: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(2));
/// Until the operating system has taken a frame.
const WRITE: Duration = Duration::from_micros(100);
/// Where channels are given there is none for membership.
const SUBSCRIPTIONS: usize = 1;

#[derive(Debug)]
pub(super) struct Agent {
    number: u32,
    machine: Machine,
    pub(super) wake: Option<MonoTime>,
    conn: Option<ConnId>,
    /// When the last message on the socket arrives, up and down: none overtakes another.
    last: (MonoTime, MonoTime),
    pub(super) in_flight: u32,
    /// Whether a job has its verdict.
    settled: Vec<bool>,
    pub(super) account: Account,
    chance: Chance,
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// On the socket, to the relay.
    Up,
    /// On the socket, to the agent.
    Down,
    /// Over HTTP, where each call has a way of its own.
    Call,
}

impl Agent {
    pub(super) fn new(number: u32, settings: &Settings, seed: Seed) -> Result<Self, ConfigError> {
        let mut relay = relay::Config::new("ws://relay.example");
        relay.channels = Channels::Given(vec![channel(1)]);
        let config = Config {
            seed: seed.draw(2, 0),
            me: forge::key(number),
            relay,
            publish: publish::Config::default(),
            consumer: Consumer::External { slots: 16 },
        };
        let jobs = usize::try_from(settings.jobs_each).unwrap_or_default();
        Ok(Self {
            number,
            machine: Machine::new(config, MonoTime::ZERO)?,
            wake: None,
            conn: None,
            last: (MonoTime::ZERO, MonoTime::ZERO),
            in_flight: 0,
            settled: vec![false; jobs],
            account: Account::default(),
            chance: Chance::new(seed.derive(3)),
        })
    }

    pub(super) fn is_live(&self) -> bool {
        let view = self.machine.relay();
        view.is_live && view.subscriptions_live == SUBSCRIPTIONS
    }

    pub(super) fn is_on(&self, conn: ConnId) -> bool {
        self.conn == Some(conn)
    }

    /// When a message that is sent at `now` arrives.
    pub(super) fn arrival(&mut self, way: Way, now: MonoTime) -> MonoTime {
        let (low, high) = LATENCY;
        let at = now.after(self.chance.between(low, high));
        let last = match way {
            Way::Up => &mut self.last.0,
            Way::Down => &mut self.last.1,
            Way::Call => return at,
        };
        *last = at.max(*last);
        *last
    }

    /// Tells the machine, and carries out what it orders. `actions` is empty before and after.
    pub(super) fn feed(&mut self, input: Input, actions: &mut Vec<Action>, clock: &mut Clock) {
        self.machine.handle_input_into(input, clock.now(), actions);
        for action in actions.drain(..) {
            match action {
                Action::Relay(action) => self.perform_relay(action, clock),
                Action::Publish(action) => self.perform_publish(action, clock),
                Action::WakeAt(at) => self.wake = at,
                Action::Note(_) | Action::Schedule(_) | Action::Ended => {}
            }
        }
    }

    fn perform_relay(&mut self, action: relay::Action, clock: &mut Clock) {
        use relay::Action as A;
        match action {
            A::Connect { conn, .. } => {
                self.conn = Some(conn);
                self.send(conn, Sent::Upgrade, clock);
            }
            A::Close { conn, .. } => {
                self.conn.take_if(|open| *open == conn);
            }
            A::Send { conn, write, text } => {
                self.send(conn, Sent::Text(text), clock);
                let written = Happening::OnSocket(conn, relay::Input::Written { write });
                clock.plan_in(WRITE, (self.number, written));
            }
            A::Ping { conn } => self.send(conn, Sent::Ping, clock),
            A::Verify { ticket, .. } => self.compute(Happening::Verified(ticket), clock),
            A::Query { ticket, .. } => {
                self.call(Call::of_relay(ticket), Asked::Query, clock);
            }
            A::Inform { ticket } => self.call(Call::of_relay(ticket), Asked::Inform, clock),
            // No relay of a fleet challenges, no records are kept, and no events come.
            A::SignAuth { .. } | A::Persist { .. } | A::Deliver { .. } => {}
            // Every answer comes in time; one that is not awaited is no news to the machine.
            A::Abort { .. } => {}
            A::Report { .. }
            | A::Channel { .. }
            | A::Receipt { .. }
            | A::RelayKey { .. }
            | A::Link { .. }
            | A::Ended
            | A::Note(_)
            | A::WakeAt(_) => {}
        }
    }

    fn perform_publish(&mut self, action: publish::Action, clock: &mut Clock) {
        use publish::Action as A;
        match action {
            A::Sign { ticket, draft } => {
                let event = forge::event(self.number, &draft);
                self.compute(Happening::Signed(ticket, event), clock);
            }
            A::Post { ticket, event, .. } => {
                let asked = Asked::Post(event.id());
                self.call(Call::of_publisher(ticket), asked, clock);
            }
            A::Query { ticket, .. } => {
                self.call(Call::of_publisher(ticket), Asked::Query, clock);
            }
            A::Settle { job, verdict } => self.settle(job, &verdict, clock.now()),
            A::Abort { .. }
            | A::Send { .. }
            | A::Outbox { .. }
            | A::Ended
            | A::Note(_)
            | A::WakeAt(_) => {}
        }
    }

    fn settle(&mut self, job: JobId, verdict: &Verdict, now: MonoTime) {
        let place = usize::try_from(job.0).ok();
        let settled = place.and_then(|place| self.settled.get_mut(place));
        let is_first = settled.is_some_and(|it| !std::mem::replace(it, true));
        if is_first && *verdict == Verdict::Stored {
            self.account.stored = self.account.stored.saturating_add(1);
        } else {
            self.account.wrong = self.account.wrong.saturating_add(1);
        }
        self.account.last = now;
    }

    fn send(&mut self, conn: ConnId, what: Sent, clock: &mut Clock) {
        if !self.is_on(conn) {
            return;
        }
        let at = self.arrival(Way::Up, clock.now());
        clock.plan(at, (self.number, Happening::Sent(conn, what)));
    }

    fn call(&mut self, call: Call, asked: Asked, clock: &mut Clock) {
        self.in_flight = self.in_flight.saturating_add(1);
        self.account.in_flight_max = self.account.in_flight_max.max(self.in_flight);
        let at = self.arrival(Way::Call, clock.now());
        clock.plan(at, (self.number, Happening::Called(call, asked)));
    }

    /// The outcome of cryptography is there in a moment; one may overtake another.
    fn compute(&mut self, outcome: Happening, clock: &mut Clock) {
        let (low, high) = CRYPTOGRAPHY;
        let wait = self.chance.between(low, high);
        clock.plan_in(wait, (self.number, outcome));
    }
}

impl Call {
    const fn of_relay(ticket: Ticket) -> Self {
        Self {
            is_publishers: false,
            ticket,
        }
    }

    const fn of_publisher(ticket: Ticket) -> Self {
        Self {
            is_publishers: true,
            ticket,
        }
    }

    pub(super) fn answered(self, answer: HttpAnswer) -> Input {
        let ticket = self.ticket;
        if self.is_publishers {
            Input::Publish(publish::Input::Answered { ticket, answer })
        } else {
            Input::Relay(relay::Input::Answered { ticket, answer })
        }
    }
}

/// The command that hands over a post. Its words are the number of the job.
pub(super) fn post(job: u32) -> Input {
    let draft = Draft {
        kind: MESSAGE,
        created_at: START,
        tags: vec![vec!["h".to_owned(), channel(1).to_string()]],
        content: job.to_string(),
    };
    Input::Publish(publish::Input::Command(publish::Command::Submit {
        job: JobId(u64::from(job)),
        class: Class::Durable,
        route: Route::Post,
        body: Body::SignWhenSent(draft),
        ttl: None,
    }))
}
