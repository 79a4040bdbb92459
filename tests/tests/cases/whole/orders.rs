//! How orders are carried out.

use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::ids::ConnId;
use buzz_proto::input::Input;
use buzz_proto::relay::HttpAnswer;
use buzz_proto::schedule::{DownCause, TurnEnd};
use buzz_proto::wire::{Draft, Event, Filter};
use buzz_proto::{publish, relay, schedule};
use buzz_sim::bench::Dial;
use buzz_sim::toy::{self, ME, Toy};
use bytes::Bytes;

use super::{LATENCY, Said, Whole, Word};
use crate::jobs::{is_of_traffic, job_of};

/// The numbers of events that are signed here, from this on.
const SIGNED: u64 = 1_000_000;

impl Whole {
    pub(super) fn carry_out(&mut self, order: Action, facts: &mut Vec<Input>) {
        match order {
            Action::Relay(order) => {
                let mut answers = Vec::new();
                self.relay(order, &mut answers);
                facts.extend(answers.into_iter().map(Input::Relay));
            }
            Action::Publish(order) => {
                if let Some(answer) = self.publisher(order) {
                    facts.push(Input::Publish(answer));
                }
            }
            Action::Schedule(order) => {
                if let Some(answer) = self.worker(order) {
                    facts.push(Input::Schedule(answer));
                }
            }
            Action::Note(_) | Action::Ended | Action::WakeAt(_) => {}
        }
    }

    fn relay(&mut self, order: relay::Action, facts: &mut Vec<relay::Input>) {
        use relay::{Action as Order, BrokeCause, Input as Fact};
        match order {
            Order::Connect { conn, .. } => self.dialed(conn, facts),
            Order::Close { .. } => self.reset(),
            Order::Send { conn, write, text } if Some(conn) == self.open => {
                facts.push(Fact::Written { write });
                self.read(&text);
            }
            Order::Ping { conn } if !self.is_silent => facts.push(Fact::Pong { conn }),
            Order::SignAuth {
                ticket, created_at, ..
            } => {
                let draft = Draft {
                    kind: 22_242,
                    created_at,
                    tags: Vec::new(),
                    content: format!("auth {}", ticket.0),
                };
                let event = self.sign(&draft);
                facts.push(Fact::Signed { ticket, event });
            }
            Order::Verify { ticket, .. } => {
                let genuine = true;
                facts.push(Fact::Verified { ticket, genuine });
            }
            Order::Query { ticket, .. } => {
                let said = if self.has_query {
                    Said::new(200, "[]")
                } else {
                    Said::error(404, "no such route")
                };
                let answer = said.answer();
                facts.push(Fact::Answered { ticket, answer });
            }
            Order::Inform { ticket } => {
                let cause = BrokeCause::Connection;
                facts.push(Fact::Broke { ticket, cause });
            }
            Order::Deliver { .. } => {
                self.taken += 1;
                facts.push(Fact::Capacity { taken: self.taken });
            }
            Order::Send { .. }
            | Order::Ping { .. }
            | Order::Persist { .. }
            | Order::Abort { .. }
            | Order::Report { .. }
            | Order::Channel { .. }
            | Order::Receipt { .. }
            | Order::RelayKey { .. }
            | Order::Link { .. }
            | Order::Ended
            | Order::Note(_)
            | Order::WakeAt(_) => {}
        }
    }

    fn dialed(&mut self, conn: ConnId, facts: &mut Vec<relay::Input>) {
        use relay::Input as Fact;
        self.reset();
        match &self.dial {
            Dial::Succeeds => {
                self.open = Some(conn);
                facts.push(Fact::Connected { conn, date: None });
                if !self.is_silent {
                    let text = toy::challenge(&conn.0.to_string());
                    facts.push(Fact::Frame { conn, text });
                }
            }
            Dial::Drops => {
                facts.push(Fact::Connected { conn, date: None });
                facts.push(Fact::Closed { conn, code: None });
            }
            Dial::Fails(cause) => {
                let cause = cause.clone();
                facts.push(Fact::ConnectFailed { conn, cause });
            }
            Dial::ByHand | Dial::IsLost => {}
        }
    }

    /// The relay reads a frame.
    fn read(&mut self, text: &[u8]) {
        let frame: Vec<serde_json::Value> = serde_json::from_slice(text).expect("a frame");
        match frame[0].as_str() {
            Some("REQ") => {
                let name = frame[1].as_str().unwrap_or_default();
                let filter: Filter = serde_json::from_value(frame[2].clone()).expect("a filter");
                if name.starts_with("ch-") {
                    let place = filter.channel.map_or(0, |channel| channel.0[0]);
                    self.live.insert(place, name.to_owned());
                }
                self.say_soon(Duration::ZERO, toy::eose(name));
            }
            Some("EVENT" | "AUTH") => {
                let event = Event::decode(frame[1].to_string().into()).expect("an event");
                self.unanswered.push(event.clone());
                let (accepted, reason) = match self.word(&event) {
                    Word::Yes => (true, ""),
                    Word::No(reason) => (false, reason),
                    Word::Nothing => return,
                };
                if !self.is_silent {
                    self.unanswered.pop();
                    self.told(&event, accepted);
                    let latency = if event.kind() == 22_242 {
                        Duration::ZERO
                    } else {
                        LATENCY
                    };
                    self.say_soon(latency, toy::ok(event.id(), accepted, reason));
                }
            }
            _ => {}
        }
    }

    fn word(&self, event: &Event) -> Word {
        let job = job_of(event);
        if event.kind() == 22_242 {
            return self.auth.clone();
        }
        if job.is_some_and(is_of_traffic) {
            return Word::Yes;
        }
        if event.is_ephemeral() {
            return self.ephemeral.clone();
        }
        let own = job.and_then(|job| self.socket_of.get(&job));
        own.unwrap_or(&self.socket).clone()
    }

    fn say_soon(&mut self, latency: Duration, text: Bytes) {
        if let Some(conn) = self.open.filter(|_| !self.is_silent) {
            self.soon(latency, Input::Relay(relay::Input::Frame { conn, text }));
        }
    }

    fn soon(&mut self, latency: Duration, fact: Input) {
        self.facts += 1;
        let at = self.now().after(latency);
        self.due.insert((at, self.facts), fact);
    }

    fn publisher(&mut self, order: publish::Action) -> Option<publish::Input> {
        use publish::{Action as Order, Input as Fact};
        match order {
            Order::Sign { ticket, draft } => {
                let event = self.sign(&draft);
                return Some(Fact::Signed { ticket, event });
            }
            Order::Post { ticket, event, .. } => match self.said(&event) {
                None => self.posts.push((ticket, event)),
                Some(said) => {
                    self.told(&event, said.is_acceptance());
                    let answer = said.answer();
                    self.soon(LATENCY, Input::Publish(Fact::Answered { ticket, answer }));
                }
            },
            Order::Query { ticket, body } => {
                let said = self.http.clone()?;
                let said = if said.is_of_the_relay() {
                    said
                } else {
                    self.found(&body)
                };
                let answer = said.answer();
                self.soon(LATENCY, Input::Publish(Fact::Answered { ticket, answer }));
            }
            Order::Abort { ticket } => {
                self.posts.retain(|(open, _)| *open != ticket);
                self.due.retain(|_, fact| {
                    !matches!(fact, Input::Publish(Fact::Answered { ticket: of, .. }) if *of == ticket)
                });
            }
            Order::Send { .. }
            | Order::Settle { .. }
            | Order::Outbox { .. }
            | Order::Ended
            | Order::Note(_)
            | Order::WakeAt(_) => {}
        }
        None
    }

    fn said(&self, event: &Event) -> Option<Said> {
        let job = job_of(event);
        let has_route = self.http.as_ref().is_none_or(|said| said.status != 404);
        if job.is_some_and(is_of_traffic) && has_route {
            return Some(Said::accepted());
        }
        let own = job.and_then(|job| self.http_of.get(&job));
        own.unwrap_or(&self.http).clone()
    }

    /// What the relay has of the events that a query names.
    fn found(&self, body: &[u8]) -> Said {
        let filters: Vec<Filter> = serde_json::from_slice(body).expect("filters");
        let ids = filters.iter().flat_map(|filter| &filter.ids);
        let found = ids.filter_map(|id| self.stored.get(id));
        let found: Vec<_> = found
            .map(|event| String::from_utf8_lossy(event.raw()))
            .collect();
        Said::new(200, &format!("[{}]", found.join(",")))
    }

    /// Signs as the id of an event goes: the same text and date have the same id.
    pub(crate) fn sign(&mut self, draft: &Draft) -> Bytes {
        let text = serde_json::to_string(draft).expect("a draft has a JSON form");
        let next = SIGNED + self.signatures.len() as u64;
        let n = *self.signatures.entry(text).or_insert(next);
        let mut event = Toy::new(n)
            .author(ME)
            .kind(draft.kind)
            .dated(draft.created_at)
            .content(&draft.content);
        for values in &draft.tags {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            event = event.tag(&values);
        }
        event.bytes()
    }

    fn worker(&mut self, order: schedule::Action) -> Option<schedule::Input> {
        use schedule::{Action as Order, Input as Fact};
        match order {
            Order::Spawn { worker } => Some(Fact::WorkerUp { worker }),
            Order::Kill { worker } => {
                let cause = DownCause::Killed;
                Some(Fact::WorkerDown { worker, cause })
            }
            Order::Start { turn, scope, .. } => {
                self.turns.push((turn, scope));
                Some(Fact::SessionOpened { turn })
            }
            Order::CancelTurn { turn } => {
                self.turns.retain(|(open, _)| *open != turn);
                let end = TurnEnd::Cancelled;
                Some(Fact::Finished { turn, end })
            }
            Order::Query { ticket, .. } => {
                let answer = HttpAnswer {
                    status: 200,
                    retry_after: None,
                    date: None,
                    body: Bytes::from_static(b"[]"),
                };
                Some(Fact::Answered { ticket, answer })
            }
            Order::Verify { ticket, .. } => {
                let genuine = true;
                Some(Fact::Verified { ticket, genuine })
            }
            Order::CloseSession { .. }
            | Order::Abort { .. }
            | Order::Left { .. }
            | Order::Started { .. }
            | Order::Dispose { .. }
            | Order::Publish(_)
            | Order::ShutdownRequested
            | Order::Ended
            | Order::Note(_)
            | Order::WakeAt(_) => None,
        }
    }
}
