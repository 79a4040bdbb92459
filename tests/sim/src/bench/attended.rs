//! A bench that dials, opens and authenticates sockets by itself, as the part orders it.

use buzz_proto::config::Consumer;
use buzz_proto::ids::{ConnId, Ticket};
use buzz_proto::relay::{ConnectCause, HttpAnswer, Input};
use bytes::Bytes;

use super::Bench;
use crate::relay::given;
use crate::toy::{self, ME, Toy, channel};

/// The numbers of AUTH events, from this on.
const AUTH: u64 = 1_000_000;

/// What becomes of a dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dial {
    /// A script answers it, and all that belongs to authentication.
    ByHand,
    /// The socket opens, and the relay wants to know who we are.
    Succeeds,
    /// The socket opens and ends in the same instant.
    Drops,
    /// There is no socket.
    Fails(ConnectCause),
    /// Nothing is heard of it.
    IsLost,
}

impl Bench {
    /// Tells the time, and from now on has dials answered in this way.
    pub fn attend(&mut self, dial: Dial) {
        self.dial = dial;
        self.script.wall_clock();
        self.settle();
    }

    /// As [`restart`](Self::restart), with the other settings of the bench kept.
    pub fn revive(&mut self, channels: &[u8], consumer: &Consumer) {
        let empty = Self::new(given(&[]), consumer);
        let former = std::mem::replace(self, empty);
        let (dial, is_silent) = (former.dial.clone(), former.is_silent);
        *self = former.restart(channels, consumer);
        self.is_silent = is_silent;
        self.attend(dial);
    }

    /// How many delivered events the consumer has not taken.
    #[must_use]
    pub fn held(&self) -> u64 {
        (self.delivered.len() as u64).saturating_sub(self.taken)
    }

    /// The peer pings, unless it is silent.
    pub fn hear_ping(&mut self) {
        if !self.is_silent {
            let conn = self.script.conn();
            self.script.input(Input::Pinged { conn });
            self.settle();
        }
    }

    /// The relay says something.
    pub fn say(&mut self, frame: impl Into<Bytes>) {
        self.script.frame(frame);
        self.settle();
    }

    /// The relay says something of a channel's live subscription, if it has one.
    pub fn say_of(&mut self, place: u8, frame: impl Fn(&str) -> Bytes) {
        if let Some(name) = self.live.get(&place) {
            let frame = frame(name);
            self.say(frame);
        }
    }

    /// The socket of the dial under way opens.
    pub fn open(&mut self) {
        self.dial = Dial::Succeeds;
        let mut facts = Vec::new();
        self.dialed(self.script.conn(), &mut facts);
        for fact in facts {
            self.script.input(fact);
            self.settle();
        }
    }

    pub(super) fn dialed(&mut self, conn: ConnId, facts: &mut Vec<Input>) {
        let (date, code) = (None, None);
        match &self.dial {
            Dial::ByHand | Dial::IsLost => {}
            Dial::Succeeds => {
                self.live.clear();
                facts.push(Input::Connected { conn, date });
                if !self.is_silent {
                    let text = toy::challenge(&conn.0.to_string());
                    facts.push(Input::Frame { conn, text });
                }
            }
            Dial::Drops => {
                facts.push(Input::Connected { conn, date });
                facts.push(Input::Closed { conn, code });
            }
            Dial::Fails(cause) => {
                let cause = cause.clone();
                facts.push(Input::ConnectFailed { conn, cause });
            }
        }
    }

    pub(super) fn sign(&self, ticket: Ticket, facts: &mut Vec<Input>) {
        if self.dial != Dial::ByHand {
            let event = Toy::new(AUTH + ticket.0).kind(22_242).author(ME).bytes();
            facts.push(Input::Signed { ticket, event });
        }
    }

    /// Accepts an AUTH frame.
    pub(super) fn welcome(&self, text: &str, facts: &mut Vec<Input>) {
        let frame: Vec<serde_json::Value> = serde_json::from_str(text).expect("a frame");
        if frame[0] == "AUTH" && !self.is_silent {
            let event = serde_json::from_value(frame[1]["id"].clone()).expect("an id");
            let (conn, text) = (self.script.conn(), toy::ok(event, true, ""));
            facts.push(Input::Frame { conn, text });
        }
    }

    /// The relay tells nothing of itself.
    pub(super) fn inform(&self, ticket: Ticket, facts: &mut Vec<Input>) {
        if self.dial != Dial::ByHand {
            let answer = HttpAnswer {
                status: 404,
                retry_after: None,
                date: None,
                body: Bytes::new(),
            };
            facts.push(Input::Answered { ticket, answer });
        }
    }

    pub(super) fn pinged(&self, conn: ConnId, facts: &mut Vec<Input>) {
        if !self.is_silent {
            facts.push(Input::Pong { conn });
        }
    }

    /// Whether a channel's live subscription is asked for on this socket.
    #[must_use]
    pub fn is_asked_for(&self, place: u8) -> bool {
        let conn = self.script.conn();
        self.requests.iter().any(|request| {
            !request.is_page()
                && request.conn == conn
                && request.filter.channel == Some(channel(place))
        })
    }
}
