//! A relay that is told what to say to logins, rosters and requests, and an agent that joins its
//! channels by itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use buzz_proto::ids::{ConnId, EventId};
use buzz_proto::note::Note;
use buzz_proto::relay::{
    Action, ChannelState, Config, ConnectCause, HttpAnswer, Input, Relay, Sub, SubState,
};
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_sim::obliging::{Oblige as _, World};
use buzz_sim::relay::{URL, request_name, script, unaudited};
use buzz_sim::script::Script;
use buzz_sim::toy::{self, START, Toy, channel};
use bytes::Bytes;
use serde_json::Value;

use crate::player::Stage;
use crate::transcript::{RelayCall, Transcript, check};

/// Numbers of roster rows, and of the traffic that concerns no case.
const ROWS: u64 = 900_000;

/// What comes of a dial.
#[derive(Clone, Debug)]
pub(crate) enum Dial {
    Opens,
    Fails(ConnectCause),
}

/// What the relay says to a login.
#[derive(Clone, Debug)]
pub(crate) enum Login {
    Accepted,
    Refused(&'static str),
    /// A case says it.
    ByHand,
}

/// What the relay says to the question for members.
#[derive(Clone, Debug)]
pub(crate) enum Roster {
    Names(&'static [u8]),
    Fails(u16),
    Silent,
}

/// A REQ of the agent.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) at: MonoTime,
    pub(crate) name: String,
    pub(crate) filter: Value,
}

pub(crate) struct House {
    pub(crate) script: Script<Relay>,
    world: World,
    /// Each answers one occasion; the last stands.
    pub(crate) dials: VecDeque<Dial>,
    pub(crate) logins: VecDeque<Login>,
    pub(crate) rosters: VecDeque<Roster>,
    /// The document of the relay: whose key it names, or nothing where it does not come.
    pub(crate) documents: VecDeque<Option<u8>>,
    /// What requests for a channel are refused with.
    pub(crate) refuses: BTreeMap<u8, &'static str>,
    /// Channels of which requests are never answered.
    pub(crate) is_silent_on: BTreeSet<u8>,
    /// What channels hold.
    stored: Vec<(u8, Toy)>,
    /// Events that are not what they say.
    pub(crate) forged: BTreeSet<EventId>,
    /// Whether challenges come by themselves.
    pub(crate) challenges: bool,
    /// Whether anything is written.
    pub(crate) is_writing: bool,
    /// Answers to the question for members so far.
    pub(crate) sweeps: usize,
    pub(crate) asked: Vec<Asked>,
    pub(crate) delivered: Vec<EventId>,
    pub(crate) standings: Vec<(MonoTime, Sub, SubState)>,
    pub(crate) memberships: Vec<(usize, u8, ChannelState)>,
    pub(crate) notes: Vec<(MonoTime, Note)>,
    pub(crate) auths: Vec<(MonoTime, EventId)>,
}

impl House {
    /// An agent that reads the roster, not started.
    pub(crate) fn new() -> Self {
        Self::with(Config::new(URL))
    }

    /// As [`new`](Self::new), with these settings.
    pub(crate) fn with(config: Config) -> Self {
        Self {
            script: script(unaudited(config)),
            world: World::default(),
            dials: [Dial::Opens].into(),
            logins: [Login::Accepted].into(),
            rosters: [Roster::Names(&[])].into(),
            documents: [Some(0xb2)].into(),
            refuses: BTreeMap::new(),
            is_silent_on: BTreeSet::new(),
            stored: Vec::new(),
            forged: BTreeSet::new(),
            challenges: true,
            is_writing: true,
            sweeps: 0,
            asked: Vec::new(),
            delivered: Vec::new(),
            standings: Vec::new(),
            memberships: Vec::new(),
            notes: Vec::new(),
            auths: Vec::new(),
        }
    }

    /// The first dial, and all that follows at once.
    pub(crate) fn begin(mut self) -> Self {
        self.give(Input::WallClock(START));
        self
    }

    /// In these channels, all live.
    pub(crate) fn in_channels(places: &'static [u8]) -> Self {
        let mut house = Self::new();
        house.rosters = [Roster::Names(places)].into();
        house.begin()
    }

    /// A fact, and all that follows at once.
    pub(crate) fn give(&mut self, fact: Input) {
        self.script.input(fact);
        self.settle();
    }

    /// The relay says something.
    pub(crate) fn say(&mut self, text: impl Into<Bytes>) {
        let conn = self.script.conn();
        let text = text.into();
        self.give(Input::Frame { conn, text });
    }

    /// An event of the membership subscription.
    pub(crate) fn notify(&mut self, event: &Toy) {
        let name = self.last_name(|asked| asked.name.starts_with("membership-"));
        self.say(toy::event_frame(&name, event));
    }

    /// An event of a channel, which the relay does not keep.
    pub(crate) fn say_in(&mut self, place: u8, event: &Toy) {
        let name = self.last_name(|asked| asked.is_for(place));
        self.say(toy::event_frame(&name, event));
    }

    /// An event of a channel, which the relay keeps.
    pub(crate) fn bring(&mut self, place: u8, event: &Toy) {
        self.stored.push((place, event.clone()));
        self.say_in(place, event);
    }

    /// The relay ends the live subscription of a channel.
    pub(crate) fn close(&mut self, place: u8, reason: &str) {
        let name = self.last_name(|asked| asked.is_for(place));
        self.say(toy::closed(&name, reason));
    }

    pub(crate) fn last_name(&self, is_it: impl Fn(&Asked) -> bool) -> String {
        let last = self.asked.iter().rev().find(|asked| is_it(asked));
        last.map(|asked| asked.name.clone()).unwrap_or_default()
    }

    /// The requests for a channel's live subscription.
    pub(crate) fn asked_for(&self, place: u8) -> Vec<&Asked> {
        let asked = self.asked.iter();
        asked.filter(|asked| asked.is_for(place)).collect()
    }

    pub(crate) fn is_live(&self, place: u8) -> bool {
        let of = Sub::Channel(channel(place));
        let mut standings = self.standings.iter().rev();
        let last = standings.find(|(_, sub, _)| *sub == of);
        matches!(last, Some((_, _, SubState::Live)))
    }

    /// How a channel's subscription was refused for good, each time.
    pub(crate) fn refusals(&self, place: u8) -> usize {
        let of = Sub::Channel(channel(place));
        let refused = |(_, sub, state): &&(_, Sub, SubState)| {
            *sub == of && matches!(state, SubState::Refused { .. })
        };
        self.standings.iter().filter(refused).count()
    }

    /// At which sweeps the agent left a channel.
    pub(crate) fn left_at(&self, place: u8) -> Vec<usize> {
        let mut sweeps = Vec::new();
        for (sweep, of, state) in &self.memberships {
            if *of == place && *state == ChannelState::Left {
                sweeps.push(*sweep);
            }
        }
        sweeps
    }

    pub(crate) fn present(&self) -> UnixTime {
        START.after(self.script.now().saturating_since(MonoTime::ZERO))
    }

    fn settle(&mut self) {
        let mut orders: VecDeque<_> = self.script.orders().into();
        let at = self.script.now();
        while let Some(order) = orders.pop_front() {
            for fact in self.perform(order) {
                self.script.input(fact);
                orders.extend(self.script.orders());
            }
            let notes = self.script.notes();
            self.notes.extend(notes.into_iter().map(|note| (at, note)));
        }
        let notes = self.script.notes();
        self.notes.extend(notes.into_iter().map(|note| (at, note)));
    }

    fn perform(&mut self, order: Action) -> Vec<Input> {
        match order {
            Action::Connect { conn, .. } => self.dialed(conn),
            Action::Send { .. } if !self.is_writing => Vec::new(),
            Action::Send { conn, write, text } => {
                let mut facts = vec![Input::Written { write }];
                let said = self.reply(&text);
                facts.extend(said.into_iter().map(|text| Input::Frame { conn, text }));
                facts
            }
            Action::Verify { ticket, event } => {
                let genuine = !self.forged.contains(&event.id());
                vec![Input::Verified { ticket, genuine }]
            }
            Action::Inform { ticket } => match next(&mut self.documents) {
                None => Vec::new(),
                Some(n) => {
                    let document = format!(r#"{{"self":"{}"}}"#, toy::key(n));
                    vec![answered(ticket, 200, document.into())]
                }
            },
            Action::Query { ticket, ref body } if asks_for(body, "39002") => {
                self.sweeps += 1;
                let (status, body) = match next(&mut self.rosters) {
                    Roster::Silent => return Vec::new(),
                    Roster::Fails(status) => (status, Bytes::new()),
                    Roster::Names(places) => (200, toy::events(&members(places))),
                };
                vec![answered(ticket, status, body)]
            }
            Action::Query { ticket, ref body } if asks_for(body, "39000") => {
                let described: Vec<_> = (0..=u8::MAX)
                    .filter(|place| asks_for(body, &channel(*place).to_string()))
                    .map(|place| Toy::metadata(ROWS + 1000 + u64::from(place), channel(place)))
                    .collect();
                vec![answered(ticket, 200, toy::events(&described))]
            }
            Action::Report { sub, state } => {
                self.standings.push((self.script.now(), sub, state));
                Vec::new()
            }
            Action::Channel { channel, state } => {
                self.memberships.push((self.sweeps, channel.0[0], state));
                Vec::new()
            }
            Action::Deliver { ref event, .. } => {
                self.delivered.push(event.id());
                Relay::oblige(order, &mut self.world)
            }
            Action::Ping { .. }
            | Action::Close { .. }
            | Action::SignAuth { .. }
            | Action::Query { .. }
            | Action::Persist { .. }
            | Action::Abort { .. }
            | Action::Receipt { .. }
            | Action::RelayKey { .. }
            | Action::Link { .. }
            | Action::Ended
            | Action::Note(_)
            | Action::WakeAt(_) => Relay::oblige(order, &mut self.world),
        }
    }

    fn dialed(&mut self, conn: ConnId) -> Vec<Input> {
        if let Dial::Fails(cause) = next(&mut self.dials) {
            return vec![Input::ConnectFailed { conn, cause }];
        }
        let connected = Input::Connected { conn, date: None };
        let text = toy::challenge(&conn.0.to_string());
        let challenge = self.challenges.then_some(Input::Frame { conn, text });
        std::iter::once(connected).chain(challenge).collect()
    }

    /// What the relay says to a frame.
    fn reply(&mut self, text: &[u8]) -> Vec<Bytes> {
        let frame: Vec<Value> = serde_json::from_slice(text).expect("a frame");
        let id_of = |event: &Value| serde_json::from_value(event["id"].clone()).expect("an id");
        match frame[0].as_str() {
            Some("AUTH") => {
                let event: EventId = id_of(&frame[1]);
                self.auths.push((self.script.now(), event));
                match next(&mut self.logins) {
                    Login::Accepted => vec![toy::ok(event, true, "")],
                    Login::Refused(reason) => vec![toy::ok(event, false, reason)],
                    Login::ByHand => Vec::new(),
                }
            }
            Some("EVENT") => {
                vec![toy::ok(id_of(&frame[1]), true, "")]
            }
            Some("REQ") => {
                let text = String::from_utf8_lossy(text);
                let name = request_name(&text).expect("a name");
                let asked = Asked {
                    at: self.script.now(),
                    name: name.clone(),
                    filter: frame[2].clone(),
                };
                let of = |place: &u8| asked.is_for(*place);
                let refused = self.refuses.iter().find(|(place, _)| of(place));
                let reply = match refused {
                    _ if self.is_silent_on.iter().any(of) => Vec::new(),
                    Some((_, reason)) => vec![toy::closed(&name, reason)],
                    None => self.stored(&asked),
                };
                self.asked.push(asked);
                reply
            }
            _ => Vec::new(),
        }
    }

    /// A relay without queries tells of members on the socket.
    fn stored(&mut self, asked: &Asked) -> Vec<Bytes> {
        let asks_for = |kind: u64| asked.filter["kinds"][0] == kind;
        let mut rows = Vec::new();
        if asks_for(39_002) {
            self.sweeps += 1;
            match next(&mut self.rosters) {
                Roster::Silent | Roster::Fails(_) => return Vec::new(),
                Roster::Names(places) => rows = members(places),
            }
        } else if asks_for(39_000) {
            rows = (1..=9)
                .map(|n| Toy::metadata(ROWS + 1000 + u64::from(n), channel(n)))
                .collect();
        }
        for (place, event) in &self.stored {
            let date = event.event().created_at();
            let is_asked_for = asked.filter["#h"][0] == channel(*place).to_string();
            if is_asked_for && asked.since().is_none_or(|since| since <= date) {
                rows.push(event.clone());
            }
        }
        let rows = rows.iter().map(|row| toy::event_frame(&asked.name, row));
        rows.chain([toy::eose(&asked.name)]).collect()
    }
}

impl Asked {
    /// Whether it asks for the live subscription of a channel.
    pub(crate) fn is_for(&self, place: u8) -> bool {
        self.name.starts_with(&format!("ch-{}-", channel(place)))
    }

    pub(crate) fn since(&self) -> Option<UnixTime> {
        self.filter["since"].as_u64().map(UnixTime)
    }
}

impl Stage for House {
    fn instant(&self) -> MonoTime {
        self.script.now()
    }

    fn pass(&mut self, span: Duration) {
        let end = self.script.now().after(span);
        while let Some((at, _)) = self
            .script
            .part()
            .next_deadline()
            .filter(|(at, _)| *at <= end)
        {
            self.script.run_until(at);
            self.settle();
        }
        self.script.sleep_until(end);
    }

    fn lose_connection(&mut self) {
        let conn = self.script.conn();
        self.give(Input::Closed { conn, code: None });
    }

    fn bring_traffic(&mut self, number: u64) {
        self.say(toy::notice("maintenance tonight"));
        self.say(r#"["HELLO","there"]"#);
        self.say(toy::eose(&format!("nobody-asked-for-this-{number}")));
    }

    /// Seven sweeps.
    fn come_to_rest(&mut self) {
        self.pass(Duration::from_secs(700));
    }

    fn check_present(&self) {
        if self.script.part().next_deadline().is_none() {
            self.script.fail("something is wanted and nothing is due");
        }
    }

    fn check_transcript(&self) {
        check(self);
        let unique: BTreeSet<_> = self.delivered.iter().collect();
        if unique.len() != self.delivered.len() {
            self.script.fail("an event was delivered twice");
        }
    }
}

impl Transcript for House {
    fn relay_calls(&self) -> Vec<RelayCall> {
        self.script.calls()
    }

    fn fail(&self, what: &str) -> ! {
        self.script.fail(what)
    }
}

/// The first, which goes unless it is the last.
fn next<T: Clone>(plan: &mut VecDeque<T>) -> T {
    let first = plan.front().cloned().expect("the last one stays");
    if plan.len() > 1 {
        plan.pop_front();
    }
    first
}

fn members(places: &[u8]) -> Vec<Toy> {
    let row = |place: &u8| Toy::members(ROWS + u64::from(*place), channel(*place));
    places.iter().map(row).collect()
}

fn answered(ticket: buzz_proto::ids::Ticket, status: u16, body: Bytes) -> Input {
    let answer = HttpAnswer {
        status,
        retry_after: None,
        date: None,
        body,
    };
    Input::Answered { ticket, answer }
}

fn asks_for(body: &[u8], word: &str) -> bool {
    body.windows(word.len()).any(|part| part == word.as_bytes())
}
