//! A whole machine with a relay that does as it is told: a socket that carries EVENTs, and posts.

use std::collections::BTreeMap;
use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::ids::{ConnId, JobId};
use buzz_proto::input::Input;
use buzz_proto::machine::Machine;
use buzz_proto::note::Note;
use buzz_proto::publish::{self, Body, Class, LatestKey, Route, Verdict};
use buzz_proto::relay::{self, BrokeCause, HttpAnswer};
use buzz_proto::time::MonoTime;
use buzz_sim::machine::{config, external, machine};
use buzz_sim::relay::{given, request_name};
use buzz_sim::script::{Script, script};
use buzz_sim::toy::{self, ME, Toy};
use bytes::Bytes;
use serde_json::Value;

use crate::support::{SECOND, status};

/// AUTH events have numbers of their own.
const AUTH: u64 = 1_000_000;

pub(crate) struct Desk {
    script: Script<Machine>,
    conn: ConnId,
    /// Whether the relay wants to know who we are.
    pub(crate) has_auth: bool,
    /// What it says to an AUTH that it does not take.
    pub(crate) no_auth: Option<&'static str>,
    /// What an EVENT is answered with, a frame for its number; nothing leaves it unanswered.
    pub(crate) on_event: fn(u64) -> Option<Bytes>,
    /// What a post is answered with.
    pub(crate) on_post: fn() -> HttpAnswer,
    /// The EVENTs that left, by number.
    pub(crate) events: Vec<(MonoTime, u64)>,
    /// The subscriptions asked for.
    pub(crate) requests: Vec<(MonoTime, String)>,
    /// When posts left.
    pub(crate) posts: Vec<MonoTime>,
    /// Frames with AUTH, by number.
    pub(crate) auths: Vec<u64>,
    pub(crate) verdicts: BTreeMap<u64, (MonoTime, Verdict)>,
}

impl Desk {
    /// With a live connection to a relay that asks for no name.
    pub(crate) fn live() -> Self {
        Self::begun(false)
    }

    /// With a live connection to a relay that asked for a name and took it.
    pub(crate) fn live_with_auth() -> Self {
        Self::begun(true)
    }

    fn begun(has_auth: bool) -> Self {
        let mut settings = config(external());
        settings.relay = given(&[]);
        let mut desk = Self {
            script: script(machine(settings)),
            conn: ConnId(0),
            has_auth,
            no_auth: None,
            on_event: |_| None,
            on_post: || status(200, r#"{"accepted":true,"message":""}"#),
            events: Vec::new(),
            requests: Vec::new(),
            posts: Vec::new(),
            auths: Vec::new(),
            verdicts: BTreeMap::new(),
        };
        desk.input(Input::WallClock(toy::START));
        desk.run_for(5 * SECOND);
        desk
    }

    pub(crate) fn now(&self) -> MonoTime {
        self.script.now()
    }

    /// A durable job for the socket, its number that of its event.
    pub(crate) fn submit(&mut self, job: u64, ttl: Duration) {
        self.publish(job, Class::Durable, Route::Socket, Some(ttl));
    }

    pub(crate) fn submit_post(&mut self, job: u64) {
        self.publish(job, Class::Durable, Route::Post, None);
    }

    /// A job of which only the newest counts.
    pub(crate) fn show(&mut self, job: u64, key: LatestKey) {
        self.publish(job, Class::Latest(key), Route::Socket, None);
    }

    fn publish(&mut self, job: u64, class: Class, route: Route, ttl: Option<Duration>) {
        let event = Toy::new(job).author(ME).event();
        let submit = publish::Command::Submit {
            job: JobId(job),
            class,
            route,
            body: Body::Signed(event),
            ttl,
        };
        self.input(Input::Publish(publish::Input::Command(submit)));
    }

    pub(crate) fn subscribe(&mut self, channel: u8) {
        let channel = toy::channel(channel);
        self.relay(relay::Input::Command(relay::Command::Subscribe {
            channel,
            interest: None,
            floor: None,
        }));
    }

    /// The relay says something.
    pub(crate) fn frame(&mut self, text: Bytes) {
        let conn = self.conn;
        self.relay(relay::Input::Frame { conn, text });
    }

    /// The socket ends; the next one comes by itself.
    pub(crate) fn disconnect(&mut self) {
        let conn = self.conn;
        self.relay(relay::Input::Closed { conn, code: None });
    }

    fn relay(&mut self, input: relay::Input) {
        self.input(Input::Relay(input));
    }

    fn input(&mut self, input: Input) {
        self.script.input(input);
        self.settle();
    }

    pub(crate) fn run_for(&mut self, span: Duration) {
        self.run_until(self.now().after(span));
    }

    pub(crate) fn run_until(&mut self, end: MonoTime) {
        while self.now() < end {
            let due = self.script.part().next_deadline();
            let next = due.map_or(end, |(at, _)| at.min(end));
            self.script.run_until(next);
            self.settle();
        }
    }

    /// The numbers of the EVENTs that left.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.events.iter().map(|(_, number)| *number).collect()
    }

    pub(crate) fn verdict(&self, job: u64) -> Option<&Verdict> {
        self.verdicts.get(&job).map(|(_, verdict)| verdict)
    }

    /// What was told of refusals, summaries included, each with its time.
    pub(crate) fn throttles(&self) -> Vec<(MonoTime, Note)> {
        let mut told = self.notes();
        told.retain(|(_, note)| is_throttle(note));
        told
    }

    /// The jobs that were told not to be stored.
    pub(crate) fn unpublished(&self) -> Vec<u64> {
        let mut jobs = Vec::new();
        for (_, note) in self.notes() {
            if let Note::Unpublished { job, .. } = note {
                jobs.push(job.0);
            }
        }
        jobs
    }

    /// What the relay part ordered since an instant, each with its time.
    pub(crate) fn relay_orders(&self, since: MonoTime) -> Vec<(MonoTime, relay::Action)> {
        let mut orders = Vec::new();
        for (at, _, actions) in self.script.calls() {
            for action in actions {
                if let Action::Relay(order) = action
                    && at >= since
                {
                    orders.push((at, order));
                }
            }
        }
        orders
    }

    fn notes(&self) -> Vec<(MonoTime, Note)> {
        let mut told = Vec::new();
        for (at, _, actions) in self.script.calls() {
            for action in actions {
                if let Action::Note(note) = action {
                    told.push((at, note));
                }
            }
        }
        told
    }

    fn settle(&mut self) {
        loop {
            let orders = self.script.timed_orders();
            if orders.is_empty() {
                return;
            }
            let mut facts = Vec::new();
            for (at, order) in orders {
                match order {
                    Action::Relay(order) => self.carry_out(at, order, &mut facts),
                    Action::Publish(order) => self.post(at, order, &mut facts),
                    Action::Schedule(_) | Action::Note(_) | Action::Ended | Action::WakeAt(_) => {}
                }
            }
            for fact in facts {
                let rest = self.script.timed_orders();
                self.script.input(fact);
                self.script.put_back(rest);
            }
        }
    }

    fn post(&mut self, at: MonoTime, order: publish::Action, facts: &mut Vec<Input>) {
        match order {
            publish::Action::Post { ticket, .. } => {
                self.posts.push(at);
                let answer = (self.on_post)();
                facts.push(Input::Publish(publish::Input::Answered { ticket, answer }));
            }
            publish::Action::Query { ticket, .. } => {
                let answer = status(200, "[]");
                facts.push(Input::Publish(publish::Input::Answered { ticket, answer }));
            }
            publish::Action::Settle { job, verdict } => {
                let before = self.verdicts.insert(job.0, (at, verdict));
                assert_eq!(before, None, "a second verdict");
            }
            publish::Action::Sign { .. }
            | publish::Action::Send { .. }
            | publish::Action::Abort { .. }
            | publish::Action::Outbox { .. }
            | publish::Action::Ended
            | publish::Action::Note(_)
            | publish::Action::WakeAt(_) => {}
        }
    }

    fn carry_out(&mut self, at: MonoTime, order: relay::Action, facts: &mut Vec<Input>) {
        let mut say = |fact| facts.push(Input::Relay(fact));
        match order {
            relay::Action::Connect { conn, .. } => {
                self.conn = conn;
                say(relay::Input::Connected { conn, date: None });
                if self.has_auth {
                    let text = toy::challenge("who are you?");
                    say(relay::Input::Frame { conn, text });
                }
            }
            relay::Action::Send { conn, write, text } if conn == self.conn => {
                say(relay::Input::Written { write });
                if let Some(text) = self.hear(at, &text) {
                    say(relay::Input::Frame { conn, text });
                }
            }
            relay::Action::SignAuth { ticket, .. } => {
                let number = AUTH + self.auths.len() as u64;
                let event = Toy::new(number).kind(22_242).author(ME).bytes();
                say(relay::Input::Signed { ticket, event });
            }
            relay::Action::Ping { conn } => say(relay::Input::Pong { conn }),
            relay::Action::Inform { ticket } => {
                let cause = BrokeCause::Connection;
                say(relay::Input::Broke { ticket, cause });
            }
            relay::Action::Query { ticket, .. } => {
                let answer = status(200, "[]");
                say(relay::Input::Answered { ticket, answer });
            }
            relay::Action::Persist { ticket, .. } => say(relay::Input::Persisted { ticket }),
            relay::Action::Verify { .. }
            | relay::Action::Send { .. }
            | relay::Action::Close { .. }
            | relay::Action::Abort { .. }
            | relay::Action::Deliver { .. }
            | relay::Action::Report { .. }
            | relay::Action::Channel { .. }
            | relay::Action::Receipt { .. }
            | relay::Action::RelayKey { .. }
            | relay::Action::Link { .. }
            | relay::Action::Ended
            | relay::Action::Note(_)
            | relay::Action::WakeAt(_) => {}
        }
    }

    /// What the relay says to a frame.
    fn hear(&mut self, at: MonoTime, text: &[u8]) -> Option<Bytes> {
        let text = std::str::from_utf8(text).expect("text");
        if let Some(name) = request_name(text) {
            let end = toy::eose(&name);
            self.requests.push((at, name));
            return Some(end);
        }
        let frame: Value = serde_json::from_str(text).expect("a frame");
        let verb = frame[0].as_str()?;
        let id = frame[1]["id"].as_str()?;
        let number = u64::from_str_radix(id.get(..16)?, 16).expect("a number");
        if verb == "AUTH" {
            self.auths.push(number);
            let (accepted, reason) = (self.no_auth.is_none(), self.no_auth.unwrap_or_default());
            return self.has_auth.then(|| ok(number, accepted, reason));
        }
        self.events.push((at, number));
        (self.on_event)(number)
    }
}

fn is_throttle(note: &Note) -> bool {
    matches!(last(note), Note::Throttled { .. })
}

/// The note itself, or the last of those that it sums up.
pub(crate) fn last(note: &Note) -> &Note {
    if let Note::Repeated { last, .. } = note {
        return last;
    }
    note
}

/// `["OK", …]` for the event with this number.
pub(crate) fn ok(number: u64, accepted: bool, reason: &str) -> Bytes {
    toy::ok(toy::id(number), accepted, reason)
}
