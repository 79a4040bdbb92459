//! What a worker is doing.

use std::sync::Arc;

use agent_client_protocol_schema::v1::ContentBlock;
use buzz_proto::ids::TurnId;
use buzz_proto::schedule::{FailureClass, Input, OpenCause, SessionRef, TurnEnd};
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_proto::wire::Excerpt;

use super::codec::RpcError;
use super::reply::Reply;
use super::session::Output;
use super::{answer, failure};

#[derive(Debug)]
pub(super) enum Phase {
    Handshaking {
        request: u64,
        since: MonoTime,
        noise: Noise,
    },
    Idle,
    Opening(Opening),
    Prompting(Prompting),
}

/// What came in place of an answer to `initialize`.
#[derive(Debug, Default)]
pub(super) struct Noise {
    lines: usize,
    bytes: usize,
}

/// A banner is shorter than either; a program that is no agent soon writes more.
const NOISE_LINES_MAX: usize = 100;
const NOISE_BYTES_MAX: usize = 64 << 10;

/// `session/new` is under way.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) request: u64,
    pub(super) since: MonoTime,
    pub(super) turn: TurnId,
    pub(super) session: SessionRef,
    pub(super) prompt: Vec<ContentBlock>,
    pub(super) is_cancelled: bool,
}

/// `session/prompt` is under way.
#[derive(Debug)]
pub(super) struct Prompting {
    pub(super) request: u64,
    pub(super) since: MonoTime,
    pub(super) target: Target,
    pub(super) reply: Reply,
    /// Whether the scheduler knows that the session exists.
    pub(super) is_announced: bool,
    pub(super) is_cancelled: bool,
    pub(super) progressed: Option<MonoTime>,
}

/// A turn in a session that exists.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) turn: TurnId,
    pub(super) session: SessionRef,
    pub(super) acp_session: Arc<str>,
}

impl Noise {
    pub(super) const fn is_too_much_with(&mut self, line: &[u8]) -> bool {
        self.lines = self.lines.saturating_add(1);
        self.bytes = self.bytes.saturating_add(line.len());
        self.lines > NOISE_LINES_MAX || self.bytes > NOISE_BYTES_MAX
    }
}

impl Phase {
    /// Whether this request is under way.
    pub(super) const fn awaits(&self, id: u64) -> bool {
        match self {
            Self::Idle => false,
            Self::Handshaking { request, .. } => *request == id,
            Self::Opening(opening) => opening.request == id,
            Self::Prompting(prompting) => prompting.request == id,
        }
    }
}

impl Opening {
    pub(super) fn failed(&self, text: &str) -> Input {
        let turn = self.turn;
        if self.is_cancelled {
            return finished(turn, TurnEnd::Cancelled);
        }
        let text = Excerpt::new(text);
        Input::SessionFailed {
            turn,
            cause: OpenCause::Refused { text },
        }
    }

    /// The end of a turn whose session the agent refuses to open with this error.
    pub(super) fn refused(&self, error: &RpcError, wall: UnixTime) -> Input {
        let class = failure::class(error, "", wall);
        match class {
            // No other session would be opened either.
            FailureClass::NeedsHuman | FailureClass::UsageLimit { .. } if !self.is_cancelled => {
                finished(self.turn, answer::failure(class, error))
            }
            FailureClass::NeedsHuman
            | FailureClass::UsageLimit { .. }
            | FailureClass::Transient
            | FailureClass::SessionGone
            | FailureClass::Protocol => self.failed(&answer::words(error)),
        }
    }
}

impl Prompting {
    pub(super) fn announce(&mut self, out: &mut Vec<Output>) {
        if !self.is_announced {
            self.is_announced = true;
            let turn = self.target.turn;
            out.push(Output::Fact(Input::SessionOpened { turn }));
        }
    }
}

pub(super) const fn finished(turn: TurnId, end: TurnEnd) -> Input {
    Input::Finished { turn, end }
}
