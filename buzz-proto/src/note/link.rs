//! What notes tell of the connection, of subscriptions and of what is asked of the relay.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::relay::{CloseCause, ConnectCause};
use crate::wire::Reason;

/// What happened to the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum LinkNote {
    /// A dial began.
    Dialing,
    /// It is live.
    Live {
        /// Whether the relay asked who we are.
        authenticated: bool,
    },
    /// There is no connection.
    Failed {
        /// Why.
        cause: ConnectCause,
    },
    /// The relay will not have this key, or not now.
    AuthRefused {
        /// In its words.
        reason: Reason,
    },
    /// The socket ended.
    Lost {
        /// The peer's close code, if it sent one.
        code: Option<u16>,
    },
    /// We ended the socket.
    Closed {
        /// Why.
        cause: CloseCause,
    },
    /// The next dial is this far away.
    Waiting {
        /// The wait.
        #[serde(with = "crate::json::nanos")]
        wait: Duration,
    },
    /// No dial can succeed; nothing is tried any more.
    Stopped,
}

impl LinkNote {
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Dialing => "link dialing",
            Self::Live { .. } => "link live",
            Self::Failed { .. } => "link failed",
            Self::AuthRefused { .. } => "link auth refused",
            Self::Lost { .. } => "link lost",
            Self::Closed { .. } => "link closed",
            Self::Waiting { .. } => "link waiting",
            Self::Stopped => "link stopped",
        }
    }
}

/// The phase that a subscription has reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum SubPhase {
    /// It was asked for.
    Requested,
    /// The relay confirmed it.
    Live,
    /// The relay did not confirm it in time; it is asked again.
    Unconfirmed,
    /// The relay refused it for now.
    Waiting {
        /// In its words.
        reason: Reason,
    },
    /// The relay refused it for good.
    Refused {
        /// In its words.
        reason: Reason,
    },
}

impl SubPhase {
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Requested => "subscription requested",
            Self::Live => "subscription live",
            Self::Unconfirmed => "subscription unconfirmed",
            Self::Waiting { .. } => "subscription waiting",
            Self::Refused { .. } => "subscription refused",
        }
    }
}

/// A quota of the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Quota {
    /// Frames on the socket.
    Operations,
    /// EVENTs on the socket.
    Messages,
    /// HTTP calls.
    Http,
}

impl Quota {
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Operations => "throttled: operations",
            Self::Messages => "throttled: messages",
            Self::Http => "throttled: http",
        }
    }
}

/// What is only good to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shown {
    /// Whether the agent is online.
    Presence,
    /// That it is typing.
    Typing,
    /// A reaction to a message.
    Reaction,
}

impl Shown {
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Presence => "presence not shown",
            Self::Typing => "typing not shown",
            Self::Reaction => "reaction not shown",
        }
    }
}
