//! What goes into the relay part, and what comes out of it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::Record;
use crate::ids::{ChannelId, ConnId, EventId, PubKey, Ticket, WriteId};
use crate::note::Note;
use crate::time::{MonoTime, UnixTime};
use crate::wire::{Event, Excerpt, Reason};

/// A subscription that the machine keeps alive over any number of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Sub {
    /// Notices that this agent was added to a channel or removed from one (kinds 44100, 44101).
    Membership,
    /// The events of one channel.
    Channel(ChannelId),
}

impl fmt::Display for Sub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Membership => f.write_str("membership"),
            Self::Channel(channel) => write!(f, "channel {channel}"),
        }
    }
}

/// Which events of a channel are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interest {
    /// Kinds; none means every kind.
    pub kinds: SmallVec<[u32; 4]>,
    /// The key that a `p` tag must name, if any.
    pub mention: Option<PubKey>,
}

/// A fact for the relay part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// The wall clock shows this. Due before `Connected` and every 10 s.
    WallClock(UnixTime),
    /// The application asks for something.
    Command(Command),
    /// The upgrade succeeded.
    Connected {
        /// The dial that this answers.
        conn: ConnId,
        /// The relay's `Date` header, to name clock skew.
        date: Option<UnixTime>,
    },
    /// There is no connection.
    ConnectFailed {
        /// The dial that this answers.
        conn: ConnId,
        /// What went wrong.
        cause: ConnectCause,
    },
    /// The socket has ended, by either side.
    Closed {
        /// The socket.
        conn: ConnId,
        /// The peer's close code (RFC 6455 section 7.4), if it sent one.
        code: Option<u16>,
    },
    /// A text frame came.
    Frame {
        /// The socket.
        conn: ConnId,
        /// The whole message.
        #[serde(with = "crate::json::text")]
        text: Bytes,
    },
    /// Our ping was answered.
    Pong {
        /// The socket.
        conn: ConnId,
    },
    /// The peer pinged; the WebSocket library has answered.
    Pinged {
        /// The socket.
        conn: ConnId,
    },
    /// A frame was handed to the operating system.
    Written {
        /// The write.
        write: WriteId,
    },
    /// A frame was not handed over in full.
    WriteFailed {
        /// The write.
        write: WriteId,
        /// Whether a part of it may have left, so that the socket cannot be used again.
        sent: bool,
    },
    /// An AUTH event was signed.
    Signed {
        /// The call.
        ticket: Ticket,
        /// The signed event, as JSON.
        #[serde(with = "crate::json::text")]
        event: Bytes,
    },
    /// The signer refused or broke.
    SignFailed {
        /// The call.
        ticket: Ticket,
    },
    /// Id and signature of an event were checked. Answers may come in any order.
    Verified {
        /// The call.
        ticket: Ticket,
        /// Whether both hold.
        genuine: bool,
    },
    /// An HTTP call was answered.
    Answered {
        /// The call.
        ticket: Ticket,
        /// The answer.
        answer: HttpAnswer,
    },
    /// An HTTP call has no answer.
    Broke {
        /// The call.
        ticket: Ticket,
        /// What went wrong.
        cause: BrokeCause,
    },
    /// How many events the consumer has taken since the start; never falling.
    Capacity {
        /// The count.
        taken: u64,
    },
    /// The consumer will take no more events.
    ConsumerGone,
    /// Events of a subscription have left the consumer's queue and made room.
    Left {
        /// The subscription that brought them.
        sub: Sub,
        /// How many.
        count: u32,
    },
    /// An event has its final outcome, or is handed back.
    Disposed {
        /// The event.
        event: EventId,
        /// The outcome.
        how: Disposal,
    },
    /// Delivered events are worked on from now on.
    Started {
        /// The events.
        events: Vec<EventId>,
        /// The event that the answer will name: the newest of them.
        target: EventId,
    },
    /// Records were kept.
    Persisted {
        /// The call.
        ticket: Ticket,
    },
    /// Records could not be kept; the ones before still stand.
    PersistFailed {
        /// The call.
        ticket: Ticket,
    },
}

/// A request of the application to the relay part. Accepted in every phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Command {
    /// Keep a channel subscribed.
    Subscribe {
        /// The channel.
        channel: ChannelId,
        /// What of it; nothing means as configured.
        interest: Option<Interest>,
        /// Events dated before this are not owed; nothing means from now on.
        floor: Option<UnixTime>,
    },
    /// Let a channel go.
    Unsubscribe {
        /// The channel.
        channel: ChannelId,
    },
    /// Send a signed event over the socket; answered by one `Receipt`.
    Send {
        /// Echoed by the receipt.
        ticket: Ticket,
        /// Whether it goes before requests for channels; else it goes after everything.
        durable: bool,
        /// The signed event, as JSON.
        #[serde(with = "crate::json::text")]
        event: Bytes,
    },
    /// An event that was to be sent need not be: it is forgotten if it has not left, and has no
    /// receipt either way. An unknown ticket is no fault.
    Withdraw {
        /// From `Send`.
        ticket: Ticket,
    },
    /// Drop the socket and dial anew by the ladder.
    Reconnect,
    /// End within this time.
    Shutdown {
        /// At most this long.
        #[serde(with = "crate::json::nanos")]
        grace: Duration,
    },
}

/// An order of the relay part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Action {
    /// Dial and upgrade; answer with `Connected` or `ConnectFailed`.
    Connect {
        /// To be echoed.
        conn: ConnId,
        /// `ws://` or `wss://`.
        url: Arc<str>,
    },
    /// Close the socket, or give the dial up; no answer is needed.
    Close {
        /// The socket.
        conn: ConnId,
        /// Why.
        cause: CloseCause,
    },
    /// Write one text frame; answer with `Written` or `WriteFailed`.
    Send {
        /// The socket.
        conn: ConnId,
        /// To be echoed.
        write: WriteId,
        /// The frame.
        #[serde(with = "crate::json::text")]
        text: Bytes,
    },
    /// Send a WebSocket ping.
    Ping {
        /// The socket.
        conn: ConnId,
    },
    /// Sign a NIP-42 AUTH event for this challenge; answer with `Signed` or `SignFailed`.
    SignAuth {
        /// To be echoed.
        ticket: Ticket,
        /// The relay's challenge.
        challenge: Arc<str>,
        /// `created_at`: the present by the machine's wall clock.
        created_at: UnixTime,
    },
    /// Check id and signature; answer with `Verified`.
    Verify {
        /// To be echoed.
        ticket: Ticket,
        /// The event.
        event: Event,
    },
    /// `POST /query`; answer with `Answered` or `Broke`.
    Query {
        /// To be echoed.
        ticket: Ticket,
        /// A JSON array of filters.
        #[serde(with = "crate::json::text")]
        body: Bytes,
    },
    /// `GET` the relay's information document (NIP-11); answer with `Answered` or `Broke`.
    Inform {
        /// To be echoed.
        ticket: Ticket,
    },
    /// Keep these records in the place of those of the same subscriptions, all or none; answer with
    /// `Persisted` or `PersistFailed`. One at a time, at most one a second; not ordered where
    /// [`Config::records`](super::Config::records) is nothing.
    Persist {
        /// To be echoed.
        ticket: Ticket,
        /// The records of the subscriptions whose record changed.
        records: Vec<Record>,
        /// Subscriptions that were let go: their records go too.
        forgotten: Vec<Sub>,
    },
    /// The answer to this call is not awaited any more.
    Abort {
        /// The call.
        ticket: Ticket,
    },
    /// Hand an event to the consumer: it takes one slot. Routed where the machine has workers.
    Deliver {
        /// The subscription that brought it.
        sub: Sub,
        /// The event.
        event: Event,
        /// In how many earlier lives work on it was begun and not ended.
        lives: u32,
    },
    /// A subscription changed its standing.
    Report {
        /// The subscription.
        sub: Sub,
        /// Its standing.
        state: SubState,
    },
    /// The roster, a notice or a command changed a channel. Also told to the workers' scheduler.
    Channel {
        /// The channel.
        channel: ChannelId,
        /// Its standing.
        state: ChannelState,
    },
    /// The outcome of an EVENT on the socket. Routed to the publisher.
    Receipt {
        /// From the command.
        ticket: Ticket,
        /// The outcome.
        receipt: Receipt,
    },
    /// The connection can carry EVENTs from now on, or not. Routed to the publisher and scheduler.
    Link {
        /// Whether it is live.
        live: bool,
    },
    /// The key that the relay signs with, as it tells (NIP-11 `self`). Said when it differs from what
    /// was said before; at first none is known. Routed to the workers' scheduler.
    RelayKey {
        /// The key; nothing where the relay names none.
        key: Option<PubKey>,
    },
    /// The part has ended and wants nothing more.
    Ended,
    /// A fact worth telling.
    Note(Note),
    /// Call `Tick` then; last, and only when it changed.
    WakeAt(Option<MonoTime>),
}

/// The standing of a subscription, as the consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SubState {
    /// The relay has confirmed it.
    Live,
    /// It waits to be asked again.
    Waiting,
    /// The relay refuses it, or there are too many.
    Refused {
        /// In the relay's words, or our own.
        reason: Reason,
    },
}

/// The standing of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChannelState {
    /// The agent belongs to it.
    Joined {
        /// What it is.
        kind: ChannelKind,
    },
    /// The agent does not belong to it.
    Left,
}

/// What a channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChannelKind {
    /// A room in which threads are conversations of their own.
    Stream,
    /// A direct message; also whatever is not known, because that is the safer reading.
    Direct,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ConnectCause {
    /// The URL cannot be used: no dial can ever succeed.
    Url,
    /// The host name has no address.
    Resolve,
    /// The transport refused or broke.
    Transport,
    /// The certificate was refused.
    Certificate,
    /// The upgrade was answered with this HTTP status.
    Status {
        /// The status.
        status: u16,
        /// The start of the body.
        text: Excerpt,
    },
    /// The peer does not speak WebSocket.
    Protocol,
}

/// Why the machine closes a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CloseCause {
    /// The dial took too long.
    DialLimit,
    /// Authentication took too long.
    AuthLimit,
    /// Authentication was refused.
    AuthRefused,
    /// A write took too long or broke.
    Write,
    /// A ping was not answered.
    Silent,
    /// Subscriptions stay without confirmation.
    Unconfirmed,
    /// Subscriptions do not bring what the relay stores, even when they are requested anew.
    Lossy,
    /// The application asked.
    Requested,
    /// The machine ends.
    Shutdown,
}

/// Why an HTTP call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BrokeCause {
    /// There was no connection.
    Connect,
    /// There was one, and it ended before the answer.
    Connection,
    /// The answer was too large.
    TooLarge,
    /// The call took too long.
    TimedOut,
}

/// An HTTP answer, its body bounded by the adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpAnswer {
    /// The status code (RFC 9110 section 15).
    pub status: u16,
    /// The `Retry-After` header, as sent.
    #[serde(with = "crate::json::optional_text")]
    pub retry_after: Option<Bytes>,
    /// The `Date` header.
    pub date: Option<UnixTime>,
    /// The body.
    #[serde(with = "crate::json::text")]
    pub body: Bytes,
}

impl From<Note> for Action {
    fn from(note: Note) -> Self {
        Self::Note(note)
    }
}

/// What became of an EVENT on the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Receipt {
    /// The relay answered OK.
    Answered {
        /// Its flag.
        accepted: bool,
        /// Its reason.
        reason: Reason,
    },
    /// It left, and nothing came back: it may be stored or not.
    Unanswered,
    /// It did not leave.
    NotSent,
}

/// The outcome of a delivered event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Disposal {
    /// It had its answer, or what became of it was said.
    Accepted,
    /// There was no room: it is handed back.
    RefusedForNow,
    /// It was not for this agent.
    Discarded,
}
