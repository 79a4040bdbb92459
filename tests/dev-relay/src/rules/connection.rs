//! Connections: challenge, frames in, frames out, heartbeat.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::event::{Event, Storage};
use super::frame::{self, ClientFrame, Submission};
use super::queue::{Batch, Closing, Outgoing, Pushed, SendQueue};
use super::quota::Bucket;
use super::session::{Heartbeat, Session, Standing, normalised_host};
use super::{Auth, ConnectionId, Generation, Rules};
use crate::faults::Fault;
use crate::keys::hex;

pub(crate) const NOT_AUTHENTICATED: &str = "auth-required: not authenticated";
const ADMISSION_UNAVAILABLE: &str = "rate-limited: shared admission unavailable";

impl Rules {
    /// A connection was upgraded. `host` is the `Host` header, `challenge` must be random.
    pub fn open(&mut self, host: &str, challenge: [u8; 32], now: Duration) -> ConnectionId {
        self.connections_opened += 1;
        let id = ConnectionId(self.connections_opened);
        let is_required = self.settings.auth == Auth::Required;
        let challenge = hex(&challenge);
        let mut queue = SendQueue::new(
            self.settings.queue_frames,
            self.settings.slow_consumer_grace,
        );
        queue.push_control(Outgoing::Ping);
        if is_required && !self.faults.strikes(None, &Fault::WithholdChallenge) {
            let is_wrong = self.faults.strikes(None, &Fault::WrongChallenge);
            let zeros = "0".repeat(64);
            let shown = if is_wrong { &zeros } else { &challenge };
            queue.push(serde_json::json!(["AUTH", shown]).to_string());
        }
        let session = Session {
            host: normalised_host(host),
            challenge,
            standing: if is_required {
                Standing::Unknown
            } else {
                Standing::Anonymous
            },
            auth_deadline: is_required.then(|| now + self.settings.auth_deadline),
            is_agent: false,
            subscriptions: BTreeMap::new(),
            queue,
            history: VecDeque::new(),
            heartbeat: Heartbeat {
                next: now + self.settings.ping_every,
                unanswered: 1,
            },
        };
        self.sessions.insert(id, session);
        self.touched.insert(id);
        self.ledger.note(None, |stats| {
            stats.connections += 1;
            stats.connections_open += 1;
        });
        id
    }

    /// A text or binary frame arrived; `parsed` is what [`frame::parse`] made of it.
    pub fn receive(
        &mut self,
        id: ConnectionId,
        parsed: Result<ClientFrame, String>,
        now: Duration,
    ) {
        if self.is_closing(id) {
            return;
        }
        match parsed {
            Ok(ClientFrame::Event(submission)) => self.receive_event(id, &submission, now),
            Ok(ClientFrame::Req {
                id: subscription,
                filters,
            }) => {
                self.receive_req(id, &subscription, filters, now);
            }
            Ok(ClientFrame::Count { id: query, filters }) => {
                self.receive_count(id, &query, &filters, now);
            }
            Ok(ClientFrame::Close { id: subscription }) => {
                let key = self.key_of(id);
                self.ledger.note(key.as_deref(), |stats| stats.closes += 1);
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.subscriptions.remove(&subscription);
                }
                self.send(id, frame::closed(&subscription, ""));
            }
            Ok(ClientFrame::Auth(submission)) => self.receive_auth(id, &submission, now),
            Err(text) => {
                let key = self.key_of(id);
                self.ledger
                    .note(key.as_deref(), |stats| stats.unreadable += 1);
                self.send(id, frame::notice(&text));
            }
        }
    }

    /// A pong arrived.
    pub fn pong(&mut self, id: ConnectionId) {
        let key = self.key_of(id);
        self.ledger.note(key.as_deref(), |stats| stats.pongs += 1);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.heartbeat.unanswered = 0;
        }
    }

    /// When [`Rules::tick`] is next due for a connection.
    #[must_use]
    pub fn deadline(&self, id: ConnectionId) -> Option<Duration> {
        self.sessions.get(&id).map(Session::next_deadline)
    }

    /// Time passes for a connection.
    pub fn tick(&mut self, id: ConnectionId, now: Duration) {
        let ping_every = self.settings.ping_every;
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if session
            .auth_deadline
            .is_some_and(|deadline| now >= deadline)
        {
            session.auth_deadline = None;
            session.queue.close(Closing::Silent);
            self.touched.insert(id);
        } else if now >= session.heartbeat.next {
            if session.heartbeat.unanswered >= 2 {
                session.queue.close(Closing::Silent);
            } else {
                session.heartbeat.unanswered += 1;
                session.queue.push_control(Outgoing::Ping);
            }
            session.heartbeat.next = now + ping_every;
            self.touched.insert(id);
        }
    }

    /// The next frames to write.
    pub fn take(&mut self, id: ConnectionId) -> Batch {
        let Some(session) = self.sessions.get_mut(&id) else {
            return Batch {
                frames: Vec::new(),
                closing: Some(Closing::Abrupt),
            };
        };
        let batch = session.queue.take();
        let texts = batch.frames.len() as u64;
        let key = session.key().map(str::to_owned);
        self.ledger
            .note(key.as_deref(), |stats| stats.frames_sent += texts);
        batch
    }

    /// The connection is gone.
    pub fn gone(&mut self, id: ConnectionId) {
        if self.sessions.remove(&id).is_some() {
            self.ledger.note(None, |stats| stats.connections_open -= 1);
        }
    }

    /// Ends one connection.
    pub fn end(&mut self, id: ConnectionId, closing: Closing) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.queue.close(closing);
            self.touched.insert(id);
        }
    }

    /// Ends the connections of everybody whom `wanted` picks by key.
    pub fn disconnect(&mut self, closing: &Closing, wanted: &dyn Fn(Option<&str>) -> bool) {
        for (id, session) in &mut self.sessions {
            if wanted(session.key()) {
                session.queue.close(closing.clone());
                self.touched.insert(*id);
            }
        }
    }

    /// Puts a raw text frame into the control queue of everybody whom `wanted` picks by key.
    pub fn inject(&mut self, text: &str, wanted: &dyn Fn(Option<&str>) -> bool) {
        for (id, session) in &mut self.sessions {
            if wanted(session.key()) {
                session.queue.push_control(Outgoing::Text(text.to_owned()));
                self.touched.insert(*id);
            }
        }
    }

    /// Sends a ping, besides those of the heartbeat, to everybody whom `wanted` picks by key.
    pub fn ping(&mut self, wanted: &dyn Fn(Option<&str>) -> bool) {
        for (id, session) in &mut self.sessions {
            if wanted(session.key()) {
                session.queue.push_control(Outgoing::Ping);
                self.touched.insert(*id);
            }
        }
    }

    /// Ends subscriptions with this CLOSED text: those whose id starts with `prefix`.
    pub fn close_subscriptions(
        &mut self,
        prefix: &str,
        reason: &str,
        wanted: &dyn Fn(Option<&str>) -> bool,
    ) {
        let mut ended = Vec::new();
        for (id, session) in &mut self.sessions {
            if !wanted(session.key()) {
                continue;
            }
            session.subscriptions.retain(|name, _| {
                let is_ended = name.starts_with(prefix);
                if is_ended {
                    ended.push((*id, name.clone()));
                }
                !is_ended
            });
        }
        for (id, name) in ended {
            self.send(id, frame::closed(&name, reason));
        }
    }

    /// Whether the connection is to end, or has ended.
    #[must_use]
    pub fn is_closing(&self, id: ConnectionId) -> bool {
        self.sessions
            .get(&id)
            .is_none_or(|session| session.queue.is_closing())
    }

    pub(crate) fn is_held(&self, id: ConnectionId) -> Held {
        let key = self.sessions.get(&id).and_then(Session::key);
        Held {
            unread: self.faults.unread.holds_for(key),
            stalled: self.faults.stalled.holds_for(key),
        }
    }

    pub(super) fn send(&mut self, id: ConnectionId, text: String) -> Pushed {
        let Some(session) = self.sessions.get_mut(&id) else {
            return Pushed::Dropped;
        };
        let pushed = session.queue.push(text);
        self.touched.insert(id);
        if pushed != Pushed::Queued {
            let key = session.key().map(str::to_owned);
            self.ledger.note(key.as_deref(), |stats| {
                stats.frames_dropped += 1;
                stats.slow_consumers += u64::from(pushed == Pushed::Fatal);
            });
        }
        pushed
    }

    pub(super) fn key_of(&self, id: ConnectionId) -> Option<String> {
        self.sessions
            .get(&id)
            .and_then(Session::key)
            .map(str::to_owned)
    }

    pub(super) fn is_admitted(&self, id: ConnectionId) -> bool {
        self.sessions.get(&id).is_some_and(Session::is_admitted)
    }

    /// Charges a socket frame to the quotas; the text of the refusal.
    pub(super) fn charge_frame(
        &mut self,
        id: ConnectionId,
        event: Option<&Event>,
        now: Duration,
    ) -> Result<(), String> {
        let quotas = self.settings.quotas;
        let Some(session) = self.sessions.get(&id) else {
            return Ok(());
        };
        let Some(key) = session.key().map(str::to_owned) else {
            return Ok(());
        };
        if !self.admission_available {
            return Err(self.admission_text());
        }
        if !quotas.enabled {
            return Ok(());
        }
        let messages = if session.is_agent {
            quotas.agent_messages
        } else {
            quotas.human_messages
        };
        let is_new2 = self.settings.generation == Generation::New2;
        let mut charged = self
            .counters
            .charge(&key, Bucket::Socket, quotas.socket, now);
        if let (Ok(()), Some(event)) = (charged, event)
            && !(is_new2 && event.storage() == Storage::Ephemeral)
        {
            charged = self.counters.charge(&key, Bucket::Messages, messages, now);
        }
        charged.map_err(|seconds| {
            self.ledger.note(Some(&key), |stats| stats.over_quota += 1);
            quota_text(seconds)
        })
    }

    pub(super) fn admission_text(&self) -> String {
        match self.settings.generation {
            Generation::Old | Generation::New1 => ADMISSION_UNAVAILABLE.to_owned(),
            Generation::New2 => format!("{ADMISSION_UNAVAILABLE}; retry in 1s"),
        }
    }

    fn receive_event(&mut self, id: ConnectionId, submission: &Submission, now: Duration) {
        let event = &submission.event;
        let key = self.key_of(id);
        let key = key.as_deref();
        self.ledger.note(key, |stats| stats.events += 1);
        if !self.is_admitted(id) {
            self.send(id, frame::ok(&event.id, false, NOT_AUTHENTICATED));
            return;
        }
        if let Err(text) = self.charge_frame(id, Some(event), now) {
            let by_notice = self.settings.generation != Generation::New2;
            self.refuse_event(id, &event.id, &text, by_notice);
            return;
        }
        let refusal = self.faults.take(key, |fault| {
            if let Fault::RefuseEvent(text) = fault {
                return Some((text.clone(), false));
            }
            let Fault::RefuseEventByNotice(text) = fault else {
                return None;
            };
            Some((text.clone(), true))
        });
        if let Some((text, by_notice)) = refusal {
            self.refuse_event(id, &event.id, &text, by_notice);
            return;
        }
        let (verdict, effects) = self.ingest(key, submission, super::ingest::Way::Socket, now);
        if !self.faults.strikes(key, &Fault::SwallowOk) {
            let (accepted, text) = verdict.as_answer();
            self.send(id, frame::ok(&event.id, accepted, text));
        }
        self.deliver(effects);
    }

    fn refuse_event(&mut self, id: ConnectionId, event_id: &str, text: &str, by_notice: bool) {
        let key = self.key_of(id);
        self.ledger.note(key.as_deref(), |stats| stats.refused += 1);
        let answer = if by_notice {
            frame::notice(text)
        } else {
            frame::ok(event_id, false, text)
        };
        self.send(id, answer);
    }
}

/// What a fault holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) unread: bool,
    pub(crate) stalled: bool,
}

pub(super) fn quota_text(seconds: u64) -> String {
    format!("rate-limited: quota exceeded; retry in {seconds}s")
}
