//! Scripts of the relay part: what its peers and the consumer do, in a word each.

use std::time::Duration;

use buzz_proto::config::Consumer;
use buzz_proto::ids::{ChannelId, ConnId, EventId, Ticket, WriteId};
use buzz_proto::note::{LinkNote, Note};
use buzz_proto::relay::{Action, Channels, CloseCause, Command, Config, HttpAnswer, Input, Relay};
use buzz_proto::seed::Seed;
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_proto::wire::Event;
use bytes::Bytes;

use crate::script::{self, Script};
use crate::toy::{self, ME, Toy};

/// Where the relay of a script is dialed.
pub const URL: &str = "ws://127.0.0.1:1";

/// A script of the relay part with 256 slots.
#[must_use]
pub fn script(config: Config) -> Script<Relay> {
    with_slots(config, 256)
}

/// A script of the relay part with so many slots.
///
/// # Panics
/// When a setting cannot work.
#[must_use]
pub fn with_slots(config: Config, slots: u32) -> Script<Relay> {
    with_consumer(config, &Consumer::External { slots })
}

/// A script of the relay part with this consumer.
///
/// # Panics
/// When a setting cannot work.
#[must_use]
pub fn with_consumer(config: Config, consumer: &Consumer) -> Script<Relay> {
    let relay = Relay::new(config, ME, consumer, Seed(7), MonoTime::ZERO);
    script::script(relay.expect("the settings work"))
}

/// Settings with these channels, told apart by a byte each, and no roster.
#[must_use]
pub fn given(channels: &[u8]) -> Config {
    let channels = channels.iter().copied().map(toy::channel).collect();
    Config {
        channels: Channels::Given(channels),
        ..Config::new(URL)
    }
}

/// The settings, without any comparison with what is stored within a script's time.
#[must_use]
pub const fn unaudited(mut config: Config) -> Config {
    config.limits.audit = Duration::from_secs(1_000_000);
    config
}

/// The wire name of a channel's subscription.
#[must_use]
pub fn channel_sub(channel: u8, n: u64) -> String {
    format!("ch-{}-{n}", toy::channel(channel))
}

/// The order to dial.
#[must_use]
pub fn connect(conn: u64) -> Action {
    let (conn, url) = (ConnId(conn), URL.into());
    Action::Connect { conn, url }
}

/// The order to close a socket.
#[must_use]
pub const fn close(conn: u64, cause: CloseCause) -> Action {
    let conn = ConnId(conn);
    Action::Close { conn, cause }
}

/// The order to ping.
#[must_use]
pub const fn ping(conn: u64) -> Action {
    Action::Ping { conn: ConnId(conn) }
}

impl Script<Relay> {
    /// The socket dialed last.
    #[must_use]
    pub fn conn(&self) -> ConnId {
        let dialed = self.history().rev().find_map(|action| {
            if let Action::Connect { conn, .. } = action {
                return Some(*conn);
            }
            None
        });
        dialed.unwrap_or_default()
    }

    /// Shows the wall clock, extrapolated from [`toy::START`].
    pub fn wall_clock(&mut self) -> &mut Self {
        let wall = toy::START.after(self.now().saturating_since(MonoTime::ZERO));
        self.input(Input::WallClock(wall))
    }

    /// Has the machine dial and the dial succeed; ends with an open socket.
    pub fn open(&mut self) -> &mut Self {
        if self.conn() == ConnId(0) {
            self.wall_clock();
        }
        let mut dialed = self.orders();
        dialed.retain(|action| !matches!(action, Action::Channel { .. }));
        if !matches!(dialed[..], [Action::Connect { .. }]) {
            self.fail("no dial to answer");
        }
        self.connected()
    }

    /// The dial succeeds.
    pub fn connected(&mut self) -> &mut Self {
        let conn = self.conn();
        self.input(Input::Connected { conn, date: None })
    }

    /// Opens a socket and lets the time for a challenge pass: the relay wants none.
    pub fn live(&mut self) -> &mut Self {
        self.open();
        let end = self.now().after(Duration::from_secs(3));
        self.quiet_until(end).tick();
        self.expect_live()
    }

    /// Opens a socket and authenticates.
    pub fn live_with_auth(&mut self) -> &mut Self {
        self.open().frame(toy::challenge("first"));
        let event = self.sign(1_000_000);
        self.written().frame(toy::ok(event, true, ""));
        self.expect_live()
    }

    /// Takes the word that the link is live off the orders, and the question what relay it is: it
    /// tells nothing of itself.
    pub fn expect_live(&mut self) -> &mut Self {
        let (ticket, others) = self.take_live();
        self.answered(ticket, 404, "");
        self.put_back(others);
        self
    }

    /// As [`expect_live`](Self::expect_live), and the relay tells of itself, in an answer that is
    /// dated so.
    pub fn expect_live_told(&mut self, document: &str, date: Option<UnixTime>) -> &mut Self {
        let (ticket, others) = self.take_live();
        let answer = HttpAnswer {
            status: 200,
            retry_after: None,
            date,
            body: document.to_owned().into(),
        };
        self.input(Input::Answered { ticket, answer });
        self.put_back(others);
        self
    }

    /// The question what relay it is, and the orders beside it and the word that the link is live.
    fn take_live(&mut self) -> (Ticket, Vec<(MonoTime, Action)>) {
        let (mut live, mut asked) = (0, Vec::new());
        let mut others = self.timed_orders();
        others.retain(|(_, action)| {
            if let Action::Inform { ticket } = action {
                asked.push(*ticket);
                return false;
            }
            let is_live = *action == Action::Link { live: true };
            live += u32::from(is_live);
            !is_live
        });
        let (1, [ticket]) = (live, &asked[..]) else {
            self.fail("the link is not live, or it was not asked once what relay it is");
        };
        (*ticket, others)
    }

    /// Answers the one `SignAuth` among the orders with a toy event, and takes the AUTH frame off.
    /// Gives the id of the event.
    pub fn sign(&mut self, n: u64) -> EventId {
        let orders = self.orders();
        let [Action::SignAuth { ticket, .. }] = orders[..] else {
            self.fail(&format!("expected one SignAuth, found {orders:?}"));
        };
        let event = Toy::new(n).kind(22_242).author(ME).bytes();
        self.input(Input::Signed {
            ticket,
            event: event.clone(),
        });
        let expected = format!("[\"AUTH\",{}]", String::from_utf8_lossy(&event));
        let sent = self.sent();
        if sent != [expected.clone()] {
            self.fail(&format!("expected {expected}, found {sent:?}"));
        }
        toy::id(n)
    }

    /// The channels' subscriptions are asked for, leave and are confirmed.
    pub fn confirmed(&mut self, subs: &[String]) -> &mut Self {
        let asked = self.requested();
        if asked != subs {
            self.fail(&format!("expected {subs:?}, found {asked:?}"));
        }
        self.written();
        for sub in subs {
            self.frame(toy::eose(sub));
            let orders = self.orders();
            if !matches!(orders[..], [Action::Report { .. }]) {
                self.fail(&format!("expected a report, found {orders:?}"));
            }
        }
        self.notes();
        self
    }

    /// As [`quiet_until`](Script::quiet_until), while the peer pings often enough.
    pub fn alive_until(&mut self, end: MonoTime) -> &mut Self {
        loop {
            let conn = self.conn();
            self.input(Input::Pinged { conn });
            let next = self.now().after(Duration::from_secs(20));
            if next >= end {
                return self.quiet_until(end);
            }
            self.quiet_until(next);
        }
    }

    /// As [`alive_until`](Self::alive_until), for a span.
    pub fn alive_for(&mut self, span: Duration) -> &mut Self {
        let end = self.now().after(span);
        self.alive_until(end)
    }

    /// A frame comes over the present socket.
    pub fn frame(&mut self, text: impl Into<Bytes>) -> &mut Self {
        let (conn, text) = (self.conn(), text.into());
        self.input(Input::Frame { conn, text })
    }

    /// The present socket ends.
    pub fn closed(&mut self, code: Option<u16>) -> &mut Self {
        let conn = self.conn();
        self.input(Input::Closed { conn, code })
    }

    /// The application asks for something.
    pub fn command(&mut self, command: Command) -> &mut Self {
        self.input(Input::Command(command))
    }

    /// The orders since the last look, which must all be frames: their texts.
    pub fn sent(&mut self) -> Vec<String> {
        let orders = self.orders();
        let texts: Option<Vec<_>> = orders.iter().map(text).collect();
        let Some(texts) = texts else {
            self.fail(&format!("not only frames: {orders:?}"));
        };
        texts
    }

    /// Demands these frames and no other order.
    pub fn expect_sent<const N: usize>(&mut self, texts: [&str; N]) -> &mut Self {
        let found = self.sent();
        if found != texts {
            self.fail(&format!("expected {texts:#?}\nfound {found:#?}"));
        }
        self
    }

    /// The frames among the orders since the last look; what else was ordered stays to be looked
    /// at.
    pub fn take_sent(&mut self) -> Vec<String> {
        let mut others = self.timed_orders();
        let mut texts = Vec::new();
        others.retain(|(_, action)| {
            let text = text(action);
            let stays = text.is_none();
            texts.extend(text);
            stays
        });
        self.put_back(others);
        texts
    }

    /// A page leaves and brings these events and its end. It is closed, and what is new of it is
    /// found genuine.
    pub fn page(&mut self, name: &str, events: &[&Toy]) -> &mut Self {
        self.written();
        for event in events {
            self.frame(toy::event_frame(name, event)).expect([]);
        }
        self.frame(toy::eose(name));
        let close = format!(r#"["CLOSE","{name}"]"#);
        let (mut is_closed, mut tickets) = (false, Vec::new());
        let mut others = self.timed_orders();
        others.retain(|(_, action)| {
            if let Action::Verify { ticket, .. } = action {
                tickets.push(*ticket);
                return false;
            }
            let is_close = text(action).is_some_and(|text| text == close);
            is_closed |= is_close;
            !is_close
        });
        if !is_closed {
            self.fail(&format!("{name} is not closed"));
        }
        for ticket in tickets {
            others.extend(self.verified(ticket, true).timed_orders());
        }
        for write in self.unanswered_writes() {
            self.input(Input::Written { write });
            others.extend(self.timed_orders());
        }
        self.put_back(others);
        self
    }

    /// The REQs among the orders since the last look, which must all be frames or of no account
    /// here: the names of their subscriptions.
    pub fn requested(&mut self) -> Vec<String> {
        let sent = self.sent();
        sent.iter().filter_map(|text| request_name(text)).collect()
    }

    /// All frames that were sent have left for the relay.
    pub fn written(&mut self) -> &mut Self {
        for write in self.unanswered_writes() {
            self.input(Input::Written { write });
        }
        self
    }

    /// The frames sent over the present socket that neither left nor failed.
    #[must_use]
    pub fn unanswered_writes(&self) -> Vec<WriteId> {
        let conn = self.conn();
        let mut open = Vec::new();
        for action in self.history() {
            if let Action::Send {
                write, conn: of, ..
            } = action
                && *of == conn
            {
                open.push(*write);
            }
        }
        for input in self.facts() {
            if let Input::Written { write } | Input::WriteFailed { write, .. } = input {
                open.retain(|known| known != write);
            }
        }
        open
    }

    /// The orders to verify since the last look, which must be all: their tickets and events.
    pub fn asked_to_verify(&mut self) -> Vec<(Ticket, Event)> {
        let orders = self.orders();
        let mut asked = Vec::new();
        for action in orders {
            let Action::Verify { ticket, event } = action else {
                self.fail(&format!("not a verification: {action:?}"));
            };
            asked.push((ticket, event));
        }
        asked
    }

    /// A verdict comes.
    pub fn verified(&mut self, ticket: Ticket, genuine: bool) -> &mut Self {
        self.input(Input::Verified { ticket, genuine })
    }

    /// An event comes and is found genuine.
    pub fn event(&mut self, sub: &str, event: &Toy) -> &mut Self {
        self.frame(toy::event_frame(sub, event));
        for (ticket, _) in self.asked_to_verify() {
            self.verified(ticket, true);
        }
        self
    }

    /// An HTTP answer comes.
    pub fn answered(&mut self, ticket: Ticket, status: u16, body: impl Into<Bytes>) -> &mut Self {
        let answer = HttpAnswer {
            status,
            retry_after: None,
            date: None,
            body: body.into(),
        };
        self.input(Input::Answered { ticket, answer })
    }

    /// A question over HTTP is answered with these events, which are found genuine.
    pub fn found(&mut self, ticket: Ticket, events: &[Toy]) -> &mut Self {
        self.answered(ticket, 200, toy::events(events));
        let (mut others, mut tickets) = (self.timed_orders(), Vec::new());
        others.retain(|(_, action)| {
            if let Action::Verify { ticket, .. } = action {
                tickets.push(*ticket);
                return false;
            }
            true
        });
        for ticket in tickets {
            others.extend(self.verified(ticket, true).timed_orders());
        }
        self.put_back(others);
        self
    }

    /// The waits before a dial that were noted since the last look.
    pub fn waits(&mut self) -> Vec<Duration> {
        let mut waits = Vec::new();
        for note in self.notes() {
            if let Note::Link(LinkNote::Waiting { wait }) = note {
                waits.push(wait);
            }
        }
        waits
    }

    /// Asks for a channel as configured.
    pub fn subscribe(&mut self, channel: ChannelId) -> &mut Self {
        self.command(Command::Subscribe {
            channel,
            interest: None,
            floor: None,
        })
    }
}

/// The text of a frame that is sent.
fn text(action: &Action) -> Option<String> {
    if let Action::Send { text, .. } = action {
        return Some(String::from_utf8_lossy(text).into_owned());
    }
    None
}

/// The subscription that a REQ names.
#[must_use]
pub fn request_name(text: &str) -> Option<String> {
    let rest = text.strip_prefix("[\"REQ\",\"")?;
    Some(rest.split_once('"')?.0.to_owned())
}
