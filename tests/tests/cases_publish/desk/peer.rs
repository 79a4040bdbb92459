//! What the relay, the signer and the network do, and what they hold against the agent.

use std::collections::VecDeque;
use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::ids::{EventId, JobId, Ticket};
use buzz_proto::input::Input;
use buzz_proto::publish::{self, Body, Class, Route, Verdict};
use buzz_proto::relay::{self, BrokeCause, ConnectCause, HttpAnswer};
use buzz_proto::time::MonoTime;
use buzz_proto::wire::{Draft, Event, Reason, ReasonClass};
use buzz_sim::toy::{self, ME, Toy};
use bytes::Bytes;
use serde_json::Value;

use super::{Desk, SLACK};
use crate::support::{Seen, TRAFFIC, Way, words};

/// Events signed for drafts are numbered from this on, and AUTH events from the other.
const SIGNED: u64 = 10_000;
const AUTH: u64 = 1_000_000;
const ACCEPTED: &str = r#"{"accepted":true,"message":""}"#;
/// A draft of the story says so, and its job's number.
const DRAFT: &str = "job ";
const PRESENCE: u32 = 20_001;

impl Desk {
    pub(super) fn submit(&mut self, job: u64, way: Way, ttl: Duration) {
        let now = self.machine.now();
        let draft = || {
            Body::SignWhenSent(Draft {
                kind: 9,
                created_at: toy::START.after(now.saturating_since(MonoTime::ZERO)),
                tags: Vec::new(),
                content: format!("{DRAFT}{job}"),
            })
        };
        let (route, body) = match way {
            Way::Socket => (Route::Socket, Body::Signed(Toy::new(job).event())),
            Way::Post => (Route::Post, Body::Signed(Toy::new(job).event())),
            Way::SocketDraft => (Route::Socket, draft()),
            Way::PostDraft => (Route::Post, draft()),
        };
        self.owners.insert(toy::id(job), job);
        self.deadlines.insert(job, now.after(ttl));
        self.publish(publish::Command::Submit {
            job: JobId(job),
            class: Class::Durable,
            route,
            body,
            ttl: Some(ttl),
        });
    }

    pub(super) fn publish(&mut self, command: publish::Command) {
        self.feed(Input::Publish(publish::Input::Command(command)));
    }

    pub(super) fn feed(&mut self, input: Input) {
        self.machine.input(input);
        self.carry_out();
    }

    /// The relay says something, if there is a socket.
    pub(super) fn say(&mut self, text: Bytes) {
        if let Some(conn) = self.conn {
            self.feed(Input::Relay(relay::Input::Frame { conn, text }));
        }
    }

    /// The relay answers an EVENT; what it has or never will have it says again next time.
    pub(super) fn answer_event(&mut self, id: EventId, accepted: bool, reason: &'static str) {
        let class = Reason::new(reason).class;
        let may_pass = matches!(
            class,
            ReasonClass::RateLimited | ReasonClass::AuthRequired(_) | ReasonClass::Error(_)
        );
        // A word of what is not out, as after a loss of the connection, tells nothing of now.
        if self.out.remove(&id) {
            self.heed(reason);
            self.is_stranger |= matches!(class, ReasonClass::AuthRequired(_));
        }
        if accepted {
            self.stored.insert(id);
        }
        if accepted || !may_pass {
            self.standing.insert(id, (accepted, reason));
        }
        self.say(toy::ok(id, accepted, reason));
    }

    /// The relay asks on the socket to be left alone.
    pub(super) fn heed(&mut self, words: &str) {
        let reason = Reason::new(words);
        if let (Some(hint), Some(_)) = (reason.hint, self.conn) {
            let until = self.machine.now().after(hint.wait);
            self.socket_shut = self.socket_shut.max(until);
        }
    }

    pub(super) fn take_post(&mut self, job: u64) -> Option<(Ticket, EventId)> {
        let wanted = |(_, id): &(Ticket, EventId)| self.owners.get(id).copied() == Some(job);
        let place = self.posts.iter().position(wanted)?;
        Some(self.posts.remove(place))
    }

    /// Answers the open post of a job, or that of no job where the number is zero.
    pub(super) fn answer_post(&mut self, job: u64, status: u16, body: &'static str) {
        let open = if job == 0 {
            let of_none = |(_, id): &(Ticket, EventId)| !self.owners.contains_key(id);
            let place = self.posts.iter().position(of_none);
            place.map(|place| self.posts.remove(place))
        } else {
            self.take_post(job)
        };
        if let Some((ticket, id)) = open {
            self.heed_post(status, body);
            let answer = self.answer(id, status, body);
            self.feed(Input::Publish(publish::Input::Answered { ticket, answer }));
        }
    }

    /// The relay asks over HTTP to be left alone.
    fn heed_post(&mut self, status: u16, body: &str) {
        let hint = Reason::new(&words(body)).hint;
        if let (429, Some(hint)) = (status, hint) {
            let until = self.machine.now().after(hint.wait);
            self.http_shut = self.http_shut.max(until);
        }
    }

    fn answer(&mut self, id: EventId, status: u16, body: &'static str) -> HttpAnswer {
        if status == 200 {
            self.stored.insert(id);
        }
        http(status, Bytes::from_static(body.as_bytes()))
    }

    pub(super) fn hang_up(&mut self) {
        self.is_known = false;
        self.out.clear();
        if let Some(conn) = self.conn.take() {
            let code = None;
            self.feed(Input::Relay(relay::Input::Closed { conn, code }));
        }
    }

    pub(super) fn run_until(&mut self, end: MonoTime) {
        loop {
            let next = self.machine.part().next_deadline().map(|(at, _)| at);
            let Some(next) = next.filter(|next| *next <= end) else {
                let end = end.max(self.machine.now());
                self.machine.sleep_until(end);
                return;
            };
            self.machine.at(next).tick();
            self.carry_out();
        }
    }

    /// Carries out what was ordered, and what was ordered because of that.
    fn carry_out(&mut self) {
        let mut orders = VecDeque::from(self.machine.orders());
        while let Some(order) = orders.pop_front() {
            let facts = match order {
                Action::Relay(order) => self.of_relay(order),
                Action::Publish(order) => self.of_publisher(order).into_iter().collect(),
                Action::Schedule(_) | Action::Note(_) | Action::Ended | Action::WakeAt(_) => {
                    Vec::new()
                }
            };
            for fact in facts {
                self.machine.input(fact);
                orders.extend(self.machine.orders());
            }
        }
        self.machine.notes();
    }

    fn of_relay(&mut self, order: relay::Action) -> Vec<Input> {
        let mut facts = Vec::new();
        if let relay::Action::Connect { conn, .. } = order {
            self.dials.push(self.machine.now());
            if self.takes_dials {
                self.conn = Some(conn);
                facts.push(relay::Input::Connected { conn, date: None });
                let text = toy::challenge("who are you");
                facts.push(relay::Input::Frame { conn, text });
            } else {
                let cause = ConnectCause::Transport;
                facts.push(relay::Input::ConnectFailed { conn, cause });
            }
        } else if let relay::Action::Close { conn, .. } = order {
            if self.conn == Some(conn) {
                self.conn = None;
                self.is_known = false;
                self.out.clear();
            }
        } else if let relay::Action::SignAuth { ticket, .. } = order {
            self.serial += 1;
            let event = Toy::new(AUTH + self.serial).kind(22_242).author(ME).bytes();
            facts.push(relay::Input::Signed { ticket, event });
        } else if let relay::Action::Send { conn, write, text } = order {
            facts.push(relay::Input::Written { write });
            if self.conn == Some(conn) {
                let said = self.hear(&text).into_iter();
                facts.extend(said.map(|text| relay::Input::Frame { conn, text }));
            }
        } else if let relay::Action::Ping { conn } = order {
            facts.push(relay::Input::Pong { conn });
        } else if let relay::Action::Query { ticket, .. } = order {
            let answer = http(200, Bytes::from_static(b"[]"));
            facts.push(relay::Input::Answered { ticket, answer });
        } else if let relay::Action::Inform { ticket } = order {
            let cause = BrokeCause::Connection;
            facts.push(relay::Input::Broke { ticket, cause });
        }
        facts.into_iter().map(Input::Relay).collect()
    }

    /// A frame of the agent; gives the relay's answer.
    fn hear(&mut self, text: &[u8]) -> Option<Bytes> {
        let frame: Value = serde_json::from_slice(text).expect("a frame is JSON");
        let verb = frame[0].as_str().unwrap_or_default();
        let id = || serde_json::from_value(frame[1]["id"].clone()).expect("an event has an id");
        match verb {
            "REQ" => frame[1].as_str().map(toy::eose),
            "AUTH" => {
                let refusal = self.refuses_auth;
                if refusal.is_none() {
                    self.is_known = true;
                    self.is_stranger = false;
                    self.see(Seen::Known);
                }
                Some(toy::ok(
                    id(),
                    refusal.is_none(),
                    refusal.unwrap_or_default(),
                ))
            }
            "EVENT" => {
                let kind = frame[1]["kind"].as_u64().unwrap_or_default();
                let kind = u32::try_from(kind).unwrap_or_default();
                self.event_came(id(), kind)
            }
            _ => None,
        }
    }

    fn event_came(&mut self, id: EventId, kind: u32) -> Option<Bytes> {
        let now = self.machine.now();
        self.never(now < self.socket_shut, "an EVENT through a shut gate");
        self.never(self.is_stranger, "an EVENT before the relay knows us again");
        self.went_out(id);
        self.see(Seen::Event { id, kind });
        let is_traffic = self.owners.get(&id).is_some_and(|job| *job >= TRAFFIC);
        if is_traffic {
            self.stored.insert(id);
        }
        if let Some((accepted, reason)) = self.standing.get(&id) {
            return Some(toy::ok(id, *accepted, reason));
        }
        if is_traffic || kind == PRESENCE {
            return Some(toy::ok(id, true, ""));
        }
        self.out.insert(id);
        None
    }

    /// A job that has its verdict is not sent again.
    fn went_out(&self, id: EventId) {
        let job = self.owners.get(&id).copied();
        let is_over = job.is_some_and(|job| self.verdict(job).is_some());
        self.never(is_over, "a job that has its verdict is sent again");
    }

    fn of_publisher(&mut self, order: publish::Action) -> Option<Input> {
        let now = self.machine.now();
        let fact = if let publish::Action::Sign { ticket, draft } = order {
            let event = self.sign(&draft);
            Some(publish::Input::Signed { ticket, event })
        } else if let publish::Action::Post {
            ticket,
            attempt,
            event,
        } = order
        {
            let id = event.id();
            self.never(now < self.http_shut, "a post through a shut gate");
            self.went_out(id);
            self.see(Seen::Post { id, attempt });
            self.post_came(ticket, &event)
        } else if let publish::Action::Query { ticket, .. } = order {
            let answer = http(200, Bytes::from_static(b"[]"));
            Some(publish::Input::Answered { ticket, answer })
        } else if let publish::Action::Abort { ticket } = order {
            self.posts.retain(|(open, _)| *open != ticket);
            None
        } else if let publish::Action::Settle { job, verdict } = order {
            self.settled(job.0, verdict);
            None
        } else {
            None
        };
        fact.map(Input::Publish)
    }

    fn post_came(&mut self, ticket: Ticket, event: &Event) -> Option<publish::Input> {
        let id = event.id();
        if self.owners.get(&id).is_some_and(|job| *job >= TRAFFIC) {
            let answer = self.answer(id, 200, ACCEPTED);
            return Some(publish::Input::Answered { ticket, answer });
        }
        if let Some((status, body)) = self.web {
            self.heed_post(status, body);
            let answer = self.answer(id, status, body);
            return Some(publish::Input::Answered { ticket, answer });
        }
        self.posts.push((ticket, id));
        None
    }

    fn sign(&mut self, draft: &Draft) -> Bytes {
        self.serial += 1;
        let n = SIGNED + self.serial;
        if let Some(job) = draft.content.strip_prefix(DRAFT) {
            let job = job.parse().expect("a draft names its job");
            self.owners.insert(toy::id(n), job);
            self.made.insert(toy::id(n), self.machine.now());
            self.see(Seen::Sign(draft.created_at));
        }
        let event = Toy::new(n).author(ME).dated(draft.created_at);
        event.kind(draft.kind).content(&draft.content).bytes()
    }

    fn settled(&mut self, job: u64, verdict: Verdict) {
        let now = self.machine.now();
        self.never(self.verdict(job).is_some(), "a second verdict");
        if verdict == Verdict::Stored && self.deadlines.contains_key(&job) {
            let mut ids = self.ids(job).into_iter();
            let is_there = ids.any(|id| self.stored.contains(&id));
            self.never(
                !is_there,
                "a job counts as stored and the relay did not say so",
            );
        }
        let deadline = self.deadlines.get(&job);
        let is_late = deadline.is_some_and(|deadline| now > deadline.after(SLACK));
        self.never(is_late, "a verdict after the deadline");
        self.see(Seen::Verdict(job, verdict));
    }

    fn see(&mut self, seen: Seen) {
        self.seen.push((self.machine.now(), seen));
    }
}

fn http(status: u16, body: Bytes) -> HttpAnswer {
    HttpAnswer {
        status,
        retry_after: None,
        date: None,
        body,
    }
}
