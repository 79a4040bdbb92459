//! How each order of the machine is carried out.

use std::time::Duration;

use buzz_dev_relay::rules::http::HttpRequest;
use buzz_proto::action::Action;
use buzz_proto::ids::{ConnId, Ticket};
use buzz_proto::input::Input;
use buzz_proto::publish;
use buzz_proto::relay::{self, BrokeCause, ConnectCause};
use buzz_proto::time::MonoTime;

use super::{Agent, Socket};
use crate::world::clock::Lane;
use crate::world::consumer::{Delivered, Pace};
use crate::world::happening::{Call, Clock, Fact, Happening, LineKey, Part, Sent};
use crate::world::people::{auth_event, information, is_genuine, post};

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

impl Agent {
    pub(super) fn perform(&mut self, action: Action, clock: &mut Clock) {
        match action {
            Action::Relay(action) => self.perform_relay(action, clock),
            Action::Publish(action) => self.perform_publish(action, clock),
            Action::Note(note) => self.notes.push((clock.now(), note)),
            Action::WakeAt(wake) => {
                let wake = wake.map(|at| at.saturating_since(MonoTime::ZERO));
                self.wake = wake.map(|span| self.born.after(span));
            }
            Action::Ended => self.has_ended = true,
            Action::Schedule(action) => self.perform_schedule(action, clock),
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
                if self.consumer.pace == Pace::Eager {
                    self.plan(CONSUMER, Fact::ConsumerReady, clock);
                }
            }
            A::Note(note) => self.notes.push((clock.now(), note)),
            A::Report { .. }
            | A::Channel { .. }
            | A::Receipt { .. }
            | A::RelayKey { .. }
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
            A::Query { ticket, body } => {
                let part = Part::Publish;
                self.post(Call { part, ticket }, "/query", body.to_vec(), clock);
            }
            A::Abort { ticket } => self.abort(Part::Publish, ticket),
            A::Note(note) => self.notes.push((clock.now(), note)),
            A::Settle { job, verdict } => self.verdicts.push((clock.now(), job, verdict)),
            A::Send { .. } | A::Outbox { .. } | A::Ended | A::WakeAt(_) => {}
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

    pub(super) fn send(&mut self, conn: ConnId, what: Sent, clock: &mut Clock) {
        let life = self.life;
        let Some(socket) = self.socket.as_mut().filter(|it| it.conn == conn) else {
            return;
        };
        let at = socket.up.arrival(clock.now());
        let line = LineKey { life, conn };
        clock.plan(at, Happening::Sent { line, what });
    }

    pub(super) fn post(&mut self, call: Call, path: &str, body: Vec<u8>, clock: &mut Clock) {
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
            sent: clock.now(),
            request,
        };
        clock.plan(at, called);
    }

    pub(super) fn abort(&mut self, part: Part, ticket: Ticket) {
        self.calls.remove(&Call { part, ticket });
    }

    /// The outcome of cryptography is there in a moment; one may overtake another.
    pub(super) fn compute(&mut self, outcome: Input, clock: &mut Clock) {
        let (low, high) = CRYPTOGRAPHY;
        let wait = self.cryptography.between(low, high);
        self.plan(wait, Fact::Told(outcome), clock);
    }

    pub(super) fn plan(&self, wait: Duration, fact: Fact, clock: &mut Clock) {
        let life = self.life;
        clock.plan_in(wait, Happening::Fact { life, fact });
    }
}
