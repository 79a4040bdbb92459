//! A relay part beside a relay that stores events and answers requests from what it stores.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::relay::{given, with_consumer};
use crate::script::Script;
use crate::toy::{self, ME, START, Toy, channel};

mod answers;
mod attended;

pub use attended::Dial;
use buzz_proto::config::Consumer;
use buzz_proto::ids::{ConnId, EventId};
use buzz_proto::note::Note;
use buzz_proto::relay::{Action, Command, Config, Disposal, Input, Record, Relay, Sub};
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_proto::wire::Filter;

/// How a request for stored events is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// With all that is stored, and the end.
    Whole,
    /// With nothing, and the end: a database that failed.
    Empty,
    /// With so many events, and then silence.
    Cut(usize),
    /// With a refusal.
    Closed(&'static str),
}

/// A request for stored events.
#[derive(Clone, Debug)]
pub struct Request {
    /// When it was sent.
    pub at: MonoTime,
    /// The name of its subscription on the wire, or `/query`.
    pub name: String,
    /// What it asks for.
    pub filter: Filter,
    /// The socket that was dialed last.
    pub conn: ConnId,
    /// How many delivered events the consumer had not taken.
    pub held: u64,
}

impl Request {
    /// Whether it reads history, beside the live subscriptions.
    #[must_use]
    pub fn is_page(&self) -> bool {
        self.name.starts_with("page-") || self.name == "/query"
    }

    /// The channel, told apart by a byte; zero without one.
    #[must_use]
    pub fn channel(&self) -> u8 {
        self.filter.channel.map_or(0, |channel| channel.0[0])
    }
}

/// A relay part, a relay that stores events, a consumer, and a place where records are kept.
pub struct Bench {
    /// The part, and what went in and came out.
    pub script: Script<Relay>,
    stored: BTreeMap<EventId, Toy>,
    /// Names of the live requests on this connection, newest of each channel.
    live: BTreeMap<u8, String>,
    /// What the consumer was given, in order.
    pub delivered: Vec<EventId>,
    /// In how many lives the events were begun, as they were delivered.
    pub lives: Vec<u32>,
    /// When records were to be kept.
    pub persists: Vec<MonoTime>,
    /// What was asked for, less the pages that were [looked at](Self::pages).
    pub requests: Vec<Request>,
    /// The records that were kept.
    pub records: BTreeMap<Sub, Record>,
    /// For requests of pages.
    pub page: Answer,
    /// For requests of live subscriptions.
    pub history: Answer,
    /// `/query` is there.
    pub has_query: bool,
    /// Within one second, `/query` goes on after an id.
    pub pages_within_seconds: bool,
    /// Events whose signature is wrong.
    pub forged: BTreeSet<EventId>,
    /// Events that must not come.
    pub forbidden: BTreeSet<EventId>,
    disposed: BTreeSet<EventId>,
    /// Records are kept when this is set.
    pub keeps: bool,
    /// Requests for pages do not leave.
    pub writes_fail: bool,
    /// No frame leaves, and nobody says so.
    pub writes_stall: bool,
    /// What becomes of dials.
    pub dial: Dial,
    /// For requests of the live subscriptions of single channels.
    pub history_of: BTreeMap<u8, Answer>,
    /// The peer takes what it is sent and never says a word.
    pub is_silent: bool,
    notes: Vec<Note>,
    taken: u64,
}

impl Bench {
    /// A live connection with these channels, and an external consumer with so many slots.
    #[must_use]
    pub fn live(channels: &[u8], slots: u32) -> Self {
        let mut bench = Self::new(given(channels), &Consumer::External { slots });
        bench.connect();
        bench
    }

    /// A part that has not dialed.
    #[must_use]
    pub fn new(config: Config, consumer: &Consumer) -> Self {
        Self {
            script: with_consumer(config, consumer),
            stored: BTreeMap::new(),
            live: BTreeMap::new(),
            delivered: Vec::new(),
            lives: Vec::new(),
            persists: Vec::new(),
            requests: Vec::new(),
            records: BTreeMap::new(),
            page: Answer::Whole,
            history: Answer::Whole,
            has_query: false,
            pages_within_seconds: true,
            forged: BTreeSet::new(),
            forbidden: BTreeSet::new(),
            disposed: BTreeSet::new(),
            keeps: true,
            writes_fail: false,
            writes_stall: false,
            dial: Dial::ByHand,
            history_of: BTreeMap::new(),
            is_silent: false,
            notes: Vec::new(),
            taken: 0,
        }
    }

    /// The process is killed and begins anew with the records that were kept. The clock goes on.
    #[must_use]
    pub fn restart(self, channels: &[u8], consumer: &Consumer) -> Self {
        let records = Some(self.records.values().cloned().collect());
        let config = Config {
            records,
            ..given(channels)
        };
        let mut next = Self::new(config, consumer);
        let present = self.script.now();
        next.script.sleep_until(present);
        next.stored = self.stored;
        next.records = self.records;
        next.has_query = self.has_query;
        next
    }

    /// Opens the next socket, authenticates and has all live subscriptions answered.
    pub fn connect(&mut self) {
        self.live.clear();
        self.script.live_with_auth();
        self.settle();
    }

    /// The next socket opens, as the ladder lets it.
    pub fn reopen(&mut self) {
        for _ in 0..70 {
            self.script.run_for(Duration::from_secs(1));
            let is_dial = |(_, order): &(MonoTime, Action)| matches!(order, Action::Connect { .. });
            let orders = self.script.timed_orders();
            let (dials, rest): (Vec<_>, Vec<_>) = orders.into_iter().partition(is_dial);
            self.script.put_back(rest);
            self.settle();
            if !dials.is_empty() {
                self.script.put_back(dials);
                return self.connect();
            }
        }
        self.script.fail("no dial");
    }

    /// The socket ends, and a second later the next one is there.
    pub fn reconnect(&mut self) {
        self.disconnect();
        self.script.run_for(Duration::from_secs(1));
        self.reopen();
    }

    /// An answer of this agent to an event is stored.
    pub fn store_answer(&mut self, n: u64, to: u64, dated: UnixTime) {
        let answer =
            Toy::new(n)
                .author(ME)
                .dated(dated)
                .tag(&["e", &toy::id(to).to_string(), "", "reply"]);
        self.stored.insert(toy::id(n), answer);
    }

    /// Work on an event begins.
    pub fn start(&mut self, event: EventId, target: EventId) {
        let events = vec![event];
        self.script.input(Input::Started { events, target });
        self.settle();
    }

    /// The socket ends.
    pub fn disconnect(&mut self) {
        self.live.clear();
        self.script.closed(None);
        self.settle();
    }

    /// Carries out orders until there are none.
    pub fn settle(&mut self) {
        loop {
            let orders = self.script.timed_orders();
            self.notes.extend(self.script.notes());
            if orders.is_empty() {
                return;
            }
            let mut facts = Vec::new();
            for (at, order) in orders {
                self.carry_out(at, order, &mut facts);
            }
            for fact in facts {
                let rest = self.script.timed_orders();
                self.script.input(fact);
                self.script.put_back(rest);
            }
        }
    }

    fn carry_out(&mut self, at: MonoTime, order: Action, facts: &mut Vec<Input>) {
        let conn = self.script.conn();
        match order {
            Action::Verify { ticket, event } => facts.push(Input::Verified {
                ticket,
                genuine: !self.forged.contains(&event.id()),
            }),
            Action::Deliver { event, lives, .. } => {
                if self.forbidden.contains(&event.id()) {
                    self.script.fail(&format!("{} came again", event.id()));
                }
                self.delivered.push(event.id());
                self.lives.push(lives);
            }
            Action::Send {
                write,
                text,
                conn: of,
            } if of == conn => {
                let text = String::from_utf8_lossy(&text).into_owned();
                if self.writes_fail && text.starts_with("[\"REQ\",\"page-") {
                    let sent = false;
                    self.note_request(at, &text);
                    facts.push(Input::WriteFailed { write, sent });
                    return;
                }
                if self.writes_stall {
                    return;
                }
                facts.push(Input::Written { write });
                self.answer(at, &text, facts);
            }
            Action::Connect { conn, .. } => self.dialed(conn, facts),
            Action::SignAuth { ticket, .. } => self.sign(ticket, facts),
            Action::Inform { ticket } => self.inform(ticket, facts),
            Action::Ping { conn } => self.pinged(conn, facts),
            Action::Query { ticket, body } => {
                let filters: Vec<Filter> = serde_json::from_slice(&body).expect("filters");
                facts.push(self.answer_query(at, ticket, &filters));
            }
            Action::Persist {
                ticket,
                records,
                forgotten,
            } => {
                self.persists.push(at);
                if self.keeps {
                    for record in records {
                        self.records.insert(record.sub, record);
                    }
                    for sub in forgotten {
                        self.records.remove(&sub);
                    }
                    facts.push(Input::Persisted { ticket });
                } else {
                    facts.push(Input::PersistFailed { ticket });
                }
            }
            Action::Close { .. }
            | Action::Send { .. }
            | Action::Abort { .. }
            | Action::Report { .. }
            | Action::Channel { .. }
            | Action::Receipt { .. }
            | Action::RelayKey { .. }
            | Action::Link { .. }
            | Action::Ended
            | Action::Note(_)
            | Action::WakeAt(_) => {}
        }
    }

    /// Remembers a request; nothing when the frame is none.
    fn note_request(&mut self, at: MonoTime, text: &str) -> Option<Request> {
        let frame: Vec<serde_json::Value> = serde_json::from_str(text).expect("a frame");
        if frame[0] != "REQ" {
            return None;
        }
        let request = Request {
            at,
            name: frame[1].as_str().unwrap_or_default().to_owned(),
            filter: serde_json::from_value(frame[2].clone()).expect("a filter"),
            conn: self.script.conn(),
            held: self.held(),
        };
        self.requests.push(request.clone());
        Some(request)
    }

    /// An event is stored, and the live subscription brings it if there is one.
    pub fn publish(&mut self, n: u64, place: u8, dated: UnixTime) -> EventId {
        let event = Toy::mention(n, channel(place)).dated(dated);
        self.stored.insert(toy::id(n), event.clone());
        if let Some(name) = self.live.get(&place) {
            self.script.frame(toy::event_frame(name, &event));
            self.settle();
        }
        toy::id(n)
    }

    /// An event is stored, and nothing brings it.
    pub fn store(&mut self, n: u64, place: u8, dated: UnixTime) -> EventId {
        self.stored
            .insert(toy::id(n), Toy::mention(n, channel(place)).dated(dated));
        toy::id(n)
    }

    /// As [`store`](Self::store), with an event that is written by hand.
    pub fn store_as(&mut self, event: &Toy) {
        self.stored.insert(event.event().id(), event.clone());
    }

    /// The date of a stored event.
    ///
    /// # Panics
    /// When it is not stored.
    #[must_use]
    pub fn date_of(&self, n: u64) -> UnixTime {
        self.stored[&toy::id(n)].event().created_at()
    }

    /// A stored event is gone.
    pub fn delete(&mut self, n: u64) {
        self.stored.remove(&toy::id(n));
    }

    /// The consumer takes so many more events.
    pub fn take(&mut self, count: u64) {
        let taken = self.taken + count;
        self.taken = taken.min(self.delivered.len() as u64);
        self.script.input(Input::Capacity { taken: self.taken });
        self.settle();
    }

    /// The consumer takes all that there is, one by one, until there is no more.
    pub fn take_all(&mut self) {
        while self.taken < self.delivered.len() as u64 {
            self.take(1);
        }
    }

    /// What was delivered and has no outcome.
    #[must_use]
    pub fn undisposed(&self) -> Vec<EventId> {
        let delivered = self.delivered.iter();
        delivered
            .filter(|event| !self.disposed.contains(event))
            .copied()
            .collect()
    }

    /// The consumer says what became of an event.
    pub fn dispose(&mut self, event: EventId, how: Disposal) {
        self.disposed.insert(event);
        self.script.input(Input::Disposed { event, how });
        self.settle();
    }

    /// Lets time pass, with the peer's pings and our wall clock.
    pub fn run_for(&mut self, span: Duration) {
        let end = self.script.now().after(span);
        while self.script.now() < end {
            self.hear_ping();
            let ping = self.script.now().after(Duration::from_secs(20)).min(end);
            let due = self.script.part().next_deadline();
            let next = due.map_or(ping, |(at, _)| at.min(ping));
            self.script.run_until(next);
            self.settle();
        }
    }

    /// The relay's time.
    #[must_use]
    pub fn present(&self) -> UnixTime {
        START.after(self.script.now().saturating_since(MonoTime::ZERO))
    }

    /// The application asks for a channel.
    pub fn subscribe(&mut self, place: u8) {
        self.script.subscribe(channel(place));
        self.settle();
    }

    /// The wire name of the live subscription to a channel.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn live_name(&self, place: u8) -> String {
        self.live.get(&place).expect("a live subscription").clone()
    }

    /// The live subscription brings an event that is not stored.
    ///
    /// # Panics
    /// When there is none.
    pub fn bring(&mut self, place: u8, event: &Toy) {
        let name = self.live.get(&place).expect("a live subscription");
        self.script.frame(toy::event_frame(name, event));
        self.settle();
    }

    /// The machine ends.
    pub fn shut_down(&mut self) {
        let grace = Duration::from_secs(5);
        self.script.command(Command::Shutdown { grace });
        self.settle();
        let end = self.script.now().after(grace);
        self.script.run_until(end);
        self.settle();
    }

    /// The application lets a channel go.
    pub fn unsubscribe(&mut self, place: u8) {
        let channel = channel(place);
        self.script.command(Command::Unsubscribe { channel });
        self.settle();
    }

    /// Requests for pages since the last look.
    pub fn pages(&mut self) -> Vec<Request> {
        let (pages, rest) = std::mem::take(&mut self.requests)
            .into_iter()
            .partition(Request::is_page);
        self.requests = rest;
        pages
    }

    /// The notes since the last look that tell of gaps.
    pub fn gaps(&mut self) -> Vec<Note> {
        let notes = std::mem::take(&mut self.notes);
        let is_gap = |note: &Note| matches!(note, Note::Gap { .. });
        notes.into_iter().filter(is_gap).collect()
    }

    /// The notes since the last look.
    pub fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Demands that exactly these events were delivered, each once.
    ///
    /// # Panics
    /// When they were not.
    pub fn expect_delivered(&self, expected: impl IntoIterator<Item = EventId>) {
        let expected: BTreeSet<_> = expected.into_iter().collect();
        let found: BTreeSet<_> = self.delivered.iter().copied().collect();
        let missing: Vec<_> = expected.difference(&found).collect();
        let excess: Vec<_> = found.difference(&expected).collect();
        assert_eq!(self.delivered.len(), found.len(), "something came twice");
        if !(missing.is_empty() && excess.is_empty()) {
            self.script
                .fail(&format!("missing {missing:?}\nexcess {excess:?}"));
        }
    }
}
