//! Why events were not read, not kept or not delivered.

use serde::{Deserialize, Serialize};

use crate::wire::Reason;

/// Why a read of stored events failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ReadFailure {
    /// The relay refused it.
    Refused {
        /// In its words.
        reason: Reason,
    },
    /// The relay fell silent before its end.
    Silent,
    /// It brought more bytes than are held.
    TooLarge,
    /// It did not leave.
    NotSent,
    /// The connection ended first.
    Disconnected,
    /// The HTTP call had no answer, or not a good one.
    Http {
        /// The HTTP status, if there was an answer.
        status: Option<u16>,
    },
    /// It brought nothing where something is known to be: a relay in trouble answers so.
    Empty,
}

impl ReadFailure {
    /// Whether the relay wanted less traffic, which [`Note::Throttled`](super::Note::Throttled) tells.
    #[must_use]
    pub fn is_rate_limit(&self) -> bool {
        match self {
            Self::Refused { reason } => reason.is_rate_limit(),
            Self::Http { status } => matches!(status, Some(429)),
            Self::Silent | Self::TooLarge | Self::NotSent | Self::Disconnected | Self::Empty => {
                false
            }
        }
    }
}

/// Why events are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GapWhy {
    /// The consumer had no room for them, and a relay does not store their kind.
    NoRoom,
    /// The relay does not have them any more.
    NotStored,
    /// One second of history holds more than one request brings, and the relay pages no finer.
    HistoryLimit,
    /// The consumer is gone.
    ConsumerGone,
    /// The agent ended before they were read again.
    Ended,
    /// Their channel was let go before they were read again.
    Left,
}

/// Why an event was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RefusedWhy {
    /// Its id or signature is wrong, or was not checked in time.
    NotGenuine,
    /// It does not match the filter of its subscription.
    NoMatch,
    /// Only the relay may sign its kind, and another key has.
    NotTheRelay,
    /// Its author may not address this agent.
    Author,
    /// It does not mention this agent.
    NoMention,
    /// Its kind is not asked for.
    Kind,
    /// It could not be found out whether its author, an agent, belongs to the same owner.
    AuthorUnknown,
    /// An owner command is older than its limit.
    StaleCommand,
}

impl RefusedWhy {
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::NotGenuine => "refused: not genuine",
            Self::NoMatch => "refused: no match",
            Self::Author => "refused: author",
            Self::NoMention => "refused: no mention",
            Self::Kind => "refused: kind",
            Self::AuthorUnknown => "refused: author unknown",
            Self::NotTheRelay => "refused: not the relay",
            Self::StaleCommand => "refused: stale command",
        }
    }
}
