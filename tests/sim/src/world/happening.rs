//! What happens in a world at an instant of its own.

use buzz_dev_relay::rules::http::HttpRequest;
use buzz_proto::ids::{ConnId, Ticket};
use buzz_proto::input::Input;
use buzz_proto::relay::{self, BrokeCause, ConnectCause, HttpAnswer, Record, Sub};
use buzz_proto::schedule::WorkerId;
use buzz_proto::time::{MonoTime, UnixTime};
use bytes::Bytes;

use super::clock;
use super::crew::Doing;

/// The queue of a world.
pub(super) type Clock = clock::Clock<Happening>;

/// One thing that happens.
#[derive(Debug)]
pub(super) enum Happening {
    /// The agent starts.
    Begin,
    /// Something reaches the agent, if it still lives.
    Fact { life: u32, fact: Fact },
    /// Something on a connection reaches the relay.
    Sent { line: LineKey, what: Sent },
    /// An HTTP call of the agent reaches the relay.
    Called {
        life: u32,
        call: Call,
        sent: MonoTime,
        request: Box<HttpRequest>,
    },
    /// The relay has something to do for a connection.
    Due { line: LineKey, what: Due },
}

/// What reaches the agent.
#[derive(Debug)]
pub(super) enum Fact {
    /// The machine is told, whatever else has happened.
    Told(Input),
    /// The machine is told if this is still its socket.
    OnSocket {
        conn: ConnId,
        input: relay::Input,
    },
    Connected {
        conn: ConnId,
        date: UnixTime,
    },
    ConnectFailed {
        conn: ConnId,
        cause: ConnectCause,
    },
    Pinged {
        conn: ConnId,
    },
    Closed {
        conn: ConnId,
        code: Option<u16>,
    },
    Answered {
        call: Call,
        answer: Result<HttpAnswer, BrokeCause>,
    },
    Kept {
        ticket: Ticket,
        records: Vec<Record>,
        forgotten: Vec<Sub>,
    },
    WallClockDue,
    ConsumerReady,
    /// A consumer with a pace takes its next event.
    ConsumerTurn {
        number: u64,
    },
    /// A worker does something.
    Worker {
        worker: WorkerId,
        doing: Doing,
    },
}

/// What reaches the relay on a connection.
#[derive(Debug)]
pub(super) enum Sent {
    Upgrade,
    Text(Bytes),
    Ping,
    Pong,
    Goodbye,
}

/// What the relay does for a connection by itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    /// Hand the next frames to the socket.
    Write,
    /// Queue more of a long history.
    History,
    /// Heartbeat, or the limit of AUTH.
    Tick,
}

/// A connection: the agent numbers those of each life anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LineKey {
    pub(super) life: u32,
    pub(super) conn: ConnId,
}

/// An HTTP call; each part of the machine numbers its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) part: Part,
    pub(super) ticket: Ticket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Relay,
    Publish,
    Schedule,
}
