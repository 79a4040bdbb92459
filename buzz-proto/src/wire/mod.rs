//! The wire: frames of a relay into values, values into frames (NIP-01, NIP-42, NIP-45).
//!
//! Bytes of a peer go in, values that cannot be wrong come out; nothing behind this module checks
//! them again. An event stays a slice of its frame, with its head parsed once. Whatever a peer
//! sends, decoding takes time and memory in proportion to the bytes and never panics.

mod command;
mod decode;
mod encode;
mod event;
mod excerpt;
mod reason;
mod speaks_for;
mod sub_name;
mod tags;

use alloc::sync::Arc;
use core::fmt;

use serde::{Deserialize, Serialize};

pub use command::{MESSAGE, OwnerCommand};
pub use decode::{FRAME_BYTES_MAX, QueryAnswer, decode, decode_events};
pub(crate) use encode::answer_tags;
pub use encode::{Draft, Filter, auth, close, event, query, req};
pub use event::{Event, EventHead, Thread};
pub use excerpt::{EXCERPT_BYTES_MAX, Excerpt};
pub use reason::{
    AuthReason, ErrorReason, EventAnswer, HttpAuthReason, InvalidReason, Reason, ReasonClass,
    RestrictedReason, body_reason, event_answer,
};
pub use speaks_for::Workflow;
pub use sub_name::SubName;
pub use tags::{Tag, Tags};

use crate::ids::EventId;

/// One frame of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayFrame {
    /// An event of a subscription.
    Event {
        /// The subscription.
        sub: SubName,
        /// A slice of the frame: [`Event::hold`] before keeping it.
        event: Event,
    },
    /// The answer to an EVENT or AUTH.
    Ok {
        /// The event; nothing when the id was not 64 hex digits.
        event: Option<EventId>,
        /// Whether the relay took it; a missing flag reads as no.
        accepted: bool,
        /// Why.
        reason: Reason,
    },
    /// The end of the stored events of a subscription.
    Eose {
        /// The subscription.
        sub: SubName,
    },
    /// The relay ended or refused a subscription.
    Closed {
        /// The subscription.
        sub: SubName,
        /// Why.
        reason: Reason,
    },
    /// A text that names no frame.
    Notice {
        /// The text.
        reason: Reason,
    },
    /// A challenge to authenticate (NIP-42).
    Auth {
        /// At most 1,024 bytes.
        challenge: Arc<str>,
    },
    /// The answer to a COUNT (NIP-45).
    Count {
        /// The query.
        sub: SubName,
        /// How many events match.
        count: u64,
    },
    /// The relay dropped frames: every subscription may have a gap.
    SyncRequired {
        /// Why.
        reason: Excerpt,
    },
    /// A verb this client does not know.
    Unknown {
        /// The verb.
        verb: Excerpt,
    },
}

/// Why bytes of a peer are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecodeError {
    /// What is wrong.
    pub kind: DecodeErrorKind,
    /// The beginning of the part that is wrong, or the parser's words about it.
    pub excerpt: Excerpt,
}

/// What is wrong with bytes of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum DecodeErrorKind {
    /// More bytes than allowed.
    TooLarge {
        /// Bytes received.
        bytes: u64,
        /// Bytes allowed.
        bytes_max: u64,
    },
    /// Not UTF-8.
    NotUtf8,
    /// Not JSON (RFC 8259).
    NotJson,
    /// JSON, but not an array.
    NotAnArray,
    /// An array without a verb.
    Empty,
    /// A part is missing or of the wrong type.
    WrongType {
        /// The part.
        what: FramePart,
    },
    /// An event that is not one by NIP-01.
    BadEvent {
        /// The part.
        what: EventPart,
    },
}

/// A part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FramePart {
    /// The first element: a string.
    Verb,
    /// A subscription id: a string.
    Subscription,
    /// An event: an object.
    Event,
    /// An event id: a string.
    EventId,
    /// The flag of an OK: a boolean.
    Flag,
    /// A message: a string.
    Message,
    /// A challenge: a string of at most 1,024 bytes.
    Challenge,
    /// A count: an object with an unsigned 64-bit `count`.
    Count,
}

/// A part of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventPart {
    /// An object with each field once, `created_at` of 64 bits and `kind` of 32, both unsigned.
    Shape,
    /// `id`: 64 hex digits.
    Id,
    /// `pubkey`: 64 hex digits.
    Author,
    /// `sig`: 128 hex digits.
    Signature,
    /// `tags`: an array of arrays of strings.
    Tags,
    /// `content`: a string.
    Content,
    /// The whole: less than 4 GiB.
    Size,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DecodeErrorKind::TooLarge { bytes, bytes_max } => {
                write!(f, "{bytes} bytes received where {bytes_max} are allowed")
            }
            DecodeErrorKind::NotUtf8 => f.write_str("the frame is not UTF-8"),
            DecodeErrorKind::NotJson => f.write_str("the frame is not JSON"),
            DecodeErrorKind::NotAnArray => f.write_str("the frame is not a JSON array"),
            DecodeErrorKind::Empty => f.write_str("the frame is an empty array"),
            DecodeErrorKind::WrongType { what } => write!(f, "the frame lacks {what}"),
            DecodeErrorKind::BadEvent { what } => write!(f, "the event lacks {what}"),
        }?;
        write!(f, ": {}", self.excerpt)
    }
}

impl core::error::Error for DecodeError {}

impl fmt::Display for FramePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Verb => "a verb that is a string",
            Self::Subscription => "a subscription id that is a string",
            Self::Event => "an event that is an object",
            Self::EventId => "an event id that is a string",
            Self::Flag => "a flag that is a boolean",
            Self::Message => "a message that is a string",
            Self::Challenge => "a challenge that is a string of at most 1,024 bytes",
            Self::Count => "an object with an unsigned 64-bit count",
        })
    }
}

impl fmt::Display for EventPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shape => "the fields of NIP-01",
            Self::Id => "an id of 64 hex digits",
            Self::Author => "a pubkey of 64 hex digits",
            Self::Signature => "a sig of 128 hex digits",
            Self::Tags => "tags that are an array of arrays of strings",
            Self::Content => "a content that is a string",
            Self::Size => "a size below 4 GiB",
        })
    }
}
