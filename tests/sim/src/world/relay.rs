//! The relay of a world: the rules of the development relay, without sockets and in virtual time.
//!
//! It writes down what it was asked for.

mod sockets;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use buzz_dev_relay::faults::Faults;
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::{ChannelKind, NewChannel, Role, Visibility};
use buzz_dev_relay::rules::event::Event;
use buzz_dev_relay::rules::filter::Filter;
use buzz_dev_relay::rules::frame::{self, ClientFrame};
use buzz_dev_relay::rules::http::{HttpReply, HttpRequest};
use buzz_dev_relay::rules::queue::Closing;
use buzz_dev_relay::rules::{ConnectionId, Rules, Settings};
use buzz_proto::ids::ChannelId;
use buzz_proto::relay::{self, ConnectCause, HttpAnswer};
use buzz_proto::seed::Seed;
use buzz_proto::time::MonoTime;
use buzz_proto::wire::Excerpt;
use serde_json::Value;

use super::calls::{self, HttpCall};
use super::clock::{Chance, Lane};
use super::happening::{Call, Clock, Due, Fact, Happening, LineKey, Sent};
use super::people::HOST;
use super::requests::{Request, Way};

/// Channels that are there from the first moment were opened this long before it.
const CHANNEL_AGE: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(super) struct RelaySide {
    rules: Rules,
    queue_frames: usize,
    lines: BTreeMap<LineKey, Line>,
    requests: Vec<Request>,
    served: Vec<HttpCall>,
    /// Sockets take nothing out of the send buffers.
    is_stalled: bool,
    seed: Seed,
    challenges: Chance,
    calls: Lane,
}

#[derive(Debug)]
struct Line {
    id: ConnectionId,
    down: Lane,
    /// Subscriptions whose EOSE went out and that stand.
    confirmed: BTreeSet<String>,
    is_writing: bool,
    /// Since when stored events wait for room.
    history_since: Option<MonoTime>,
}

impl RelaySide {
    pub(super) fn new(settings: Settings, keys: Keys, seed: Seed) -> Self {
        Self {
            queue_frames: settings.queue_frames,
            rules: Rules::new(settings, keys),
            lines: BTreeMap::new(),
            requests: Vec::new(),
            served: Vec::new(),
            is_stalled: false,
            seed: seed.derive(1),
            challenges: Chance::new(seed.derive(2)),
            calls: Lane::new(seed.derive(3)),
        }
    }

    pub(super) const fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(super) fn faults_mut(&mut self) -> &mut Faults {
        self.rules.faults_mut()
    }

    /// Changes the rules from outside, and writes what follows from it.
    pub(super) fn change<T>(
        &mut self,
        clock: &mut Clock,
        change: impl FnOnce(&mut Rules, Duration) -> T,
    ) -> T {
        let result = change(&mut self.rules, clock.unix());
        self.settle(clock);
        result
    }

    pub(super) fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// The calls of the agent, in the order in which they arrived.
    pub(super) fn served(&self) -> &[HttpCall] {
        &self.served
    }

    /// Subscriptions that stand and whose stored events have all been sent.
    pub(super) fn subscriptions(&self) -> usize {
        self.lines.values().map(|line| line.confirmed.len()).sum()
    }

    /// A channel in which everybody may write, with one member besides its owner. In the first
    /// moment of a world it is an old one.
    pub(super) fn open_channel(
        &mut self,
        (channel, kind): (ChannelId, ChannelKind),
        owner: &str,
        member: &str,
        clock: &mut Clock,
    ) -> Result<(), String> {
        let id = channel.to_string();
        let age = if clock.now() == MonoTime::ZERO {
            CHANNEL_AGE
        } else {
            Duration::ZERO
        };
        let new = NewChannel {
            id: &id,
            name: "a channel",
            about: "",
            visibility: Visibility::Open,
            kind,
            owner,
        };
        self.change(clock, |rules, now| {
            let now = now.saturating_sub(age);
            rules.create_channel(new, now)?;
            rules.add_member(&id, member, Role::Bot, owner, now)
        })
    }

    /// Something that the agent sent on a connection is here.
    pub(super) fn take_in(&mut self, key: LineKey, what: Sent, clock: &mut Clock) {
        if let Sent::Upgrade = what {
            self.upgrade(key, clock);
            return;
        }
        let Some(line) = self.lines.get_mut(&key) else {
            return;
        };
        match what {
            Sent::Upgrade => {}
            Sent::Text(text) => self.receive(key, &text, clock),
            Sent::Ping => {
                let input = relay::Input::Pong { conn: key.conn };
                line.tell(key, input, clock);
            }
            Sent::Pong => self.rules.pong(line.id),
            Sent::Goodbye => self.forget(key),
        }
        self.settle(clock);
    }

    /// A connection is gone, without a word to the agent.
    pub(super) fn forget(&mut self, key: LineKey) {
        if let Some(line) = self.lines.remove(&key) {
            self.rules.gone(line.id);
        }
    }

    /// Sockets stop, or begin, to take frames out of the send buffers.
    pub(super) fn stall(&mut self, is_stalled: bool, clock: &mut Clock) {
        self.is_stalled = is_stalled;
        let keys: Vec<_> = self.lines.keys().copied().collect();
        for key in keys {
            self.write_soon(key, Duration::ZERO, clock);
        }
    }

    /// A frame of the relay's own accord, to every connection.
    pub(super) fn inject(&mut self, frame: &str, clock: &mut Clock) {
        self.change(clock, |rules, _| rules.inject(frame, &|_| true));
    }

    /// Every connection ends as when the relay restarts.
    pub(super) fn end_all(&mut self, clock: &mut Clock) {
        let closing = Closing::restarting();
        self.change(clock, |rules, _| rules.disconnect(&closing, &|_| true));
    }

    /// Answers an HTTP call of the agent.
    pub(super) fn call(
        &mut self,
        (life, call): (u32, Call),
        sent: MonoTime,
        request: &HttpRequest,
        clock: &mut Clock,
    ) {
        if request.path == "/query" {
            let filters = serde_json::from_slice::<Vec<Value>>(&request.body);
            let filters = filters.unwrap_or_default();
            let parsed = filters.iter().flat_map(Filter::parse).collect();
            self.write_down(Way::Query, parsed, clock.now());
        }
        let reply = self.rules.http(request, clock.unix());
        self.settle(clock);
        let at = self.calls.arrival(clock.now());
        if request.method == "POST" {
            let call = HttpCall {
                sent,
                arrived: clock.now(),
                answered: at,
                path: request.path.clone(),
                status: reply.status,
                hint: calls::hint(&reply.body),
            };
            self.served.push(call);
        }
        let answer = HttpAnswer {
            status: reply.status,
            retry_after: header(&reply, "retry-after").map(|text| text.to_owned().into()),
            date: Some(clock.wall()),
            body: reply.body.into(),
        };
        let answer = Ok(answer);
        let fact = Fact::Answered { call, answer };
        clock.plan(at, Happening::Fact { life, fact });
    }

    /// A call of a person: answered at once.
    pub(super) fn serve(&mut self, request: &HttpRequest, clock: &mut Clock) -> HttpReply {
        self.change(clock, |rules, now| rules.http(request, now))
    }

    /// The time has come for something that the relay does by itself.
    pub(super) fn act(&mut self, key: LineKey, due: Due, clock: &mut Clock) {
        match due {
            Due::Write => self.write(key, clock),
            Due::History => self.feed_history(key, clock),
            Due::Tick => {
                let Some(line) = self.lines.get(&key) else {
                    return;
                };
                self.rules.tick(line.id, clock.unix());
                self.tick_later(key, clock);
            }
        }
        self.settle(clock);
    }

    fn upgrade(&mut self, key: LineKey, clock: &mut Clock) {
        let LineKey { life, conn } = key;
        let seed = self.seed.derive(u64::from(life)).derive(conn.0);
        let mut down = Lane::new(seed);
        let at = down.arrival(clock.now());
        if let Err(reply) = self.rules.admit_upgrade(HOST) {
            let text = Excerpt::new(&reply.body);
            let status = reply.status;
            let cause = ConnectCause::Status { status, text };
            let fact = Fact::ConnectFailed { conn, cause };
            clock.plan(at, Happening::Fact { life, fact });
            return;
        }
        let date = clock.wall();
        let fact = Fact::Connected { conn, date };
        clock.plan(at, Happening::Fact { life, fact });
        let mut challenge = [0; 32];
        for bytes in challenge.chunks_exact_mut(8) {
            bytes.copy_from_slice(&self.challenges.number().to_be_bytes());
        }
        let line = Line {
            id: self.rules.open(HOST, challenge, clock.unix()),
            down,
            confirmed: BTreeSet::new(),
            is_writing: false,
            history_since: None,
        };
        self.lines.insert(key, line);
        self.tick_later(key, clock);
        self.settle(clock);
    }

    fn receive(&mut self, key: LineKey, text: &[u8], clock: &Clock) {
        let Some(line) = self.lines.get_mut(&key) else {
            return;
        };
        let parsed = match std::str::from_utf8(text) {
            Ok(text) => frame::parse(text),
            Err(error) => Err(format!("invalid message: {error}")),
        };
        let id = line.id;
        let mut asked = None;
        match &parsed {
            Ok(ClientFrame::Req { id, filters }) => {
                line.confirmed.remove(id);
                asked = Some((Way::Req(id.clone()), filters.clone()));
            }
            Ok(ClientFrame::Close { id }) => {
                line.confirmed.remove(id);
            }
            Ok(ClientFrame::Event(_) | ClientFrame::Count { .. } | ClientFrame::Auth(_))
            | Err(_) => {}
        }
        if let Some((way, filters)) = asked {
            self.write_down(way, filters, clock.now());
        }
        self.rules.receive(id, parsed, clock.unix());
    }

    fn write_down(&mut self, way: Way, filters: Vec<Filter>, at: MonoTime) {
        self.requests.push(Request { at, way, filters });
    }
}

/// Whether the relay stored an event that a person posted, or its words of refusal.
pub(super) fn verdict(reply: &HttpReply, event: &Event) -> Result<(), String> {
    let body: Value = serde_json::from_str(&reply.body).unwrap_or_default();
    if reply.status == 200 && body["accepted"] == true && body["event_id"] == event.id.as_str() {
        return Ok(());
    }
    Err(format!("{}: {}", reply.status, reply.body))
}

fn header<'a>(reply: &'a HttpReply, name: &str) -> Option<&'a str> {
    let mut headers = reply.headers.iter();
    headers
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}
