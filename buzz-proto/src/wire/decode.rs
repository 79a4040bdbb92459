//! Frames and answers of a relay, from bytes to values.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use smallvec::SmallVec;

use super::{DecodeError, DecodeErrorKind, Event, Excerpt, FramePart, Reason, RelayFrame, SubName};

/// The default limit of a frame: the largest legal one is a little over 1 MiB, so a larger one
/// than this is not worth its memory.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Challenges are signed and kept; real ones have 32 to 64 bytes.
const CHALLENGE_BYTES_MAX: usize = 1024;

/// Verb, and at most three elements that mean something.
const ELEMENTS_MAX: usize = 4;

/// Reads one frame of a relay. Extra elements of the array are ignored.
///
/// # Errors
/// When the frame is larger than `bytes_max`, is not a JSON array in UTF-8, or lacks what its verb
/// asks for.
pub fn decode(frame: &Bytes, bytes_max: usize) -> Result<RelayFrame, DecodeError> {
    let text = checked_text(frame, bytes_max)?;
    let elements: Elements<'_> = serde_json::from_str(text).map_err(|_| not_an_array(text))?;
    let Some(verb) = elements.0.first() else {
        return Err(DecodeError::new(DecodeErrorKind::Empty, text));
    };
    match &*string(verb, FramePart::Verb)?.0 {
        "EVENT" => {
            let raw = elements.part(2, text, FramePart::Event)?;
            if !raw.starts_with('{') {
                return Err(DecodeError::wrong_type(FramePart::Event, raw));
            }
            let event = Event::read(frame, raw)?;
            let sub = elements.sub(text)?;
            Ok(RelayFrame::Event { sub, event })
        }
        "OK" => {
            let id = elements.string(1, text, FramePart::EventId)?;
            Ok(RelayFrame::Ok {
                event: id.0.parse().ok(),
                accepted: elements.flag(2)?,
                reason: Reason::new(&elements.message(3)?.0),
            })
        }
        "EOSE" => elements.sub(text).map(|sub| RelayFrame::Eose { sub }),
        "CLOSED" => Ok(RelayFrame::Closed {
            sub: elements.sub(text)?,
            reason: Reason::new(&elements.message(2)?.0),
        }),
        "NOTICE" => Ok(RelayFrame::Notice {
            reason: Reason::new(&elements.message(1)?.0),
        }),
        "AUTH" => {
            let challenge = elements.string(1, text, FramePart::Challenge)?.0;
            if challenge.len() > CHALLENGE_BYTES_MAX {
                return Err(DecodeError::wrong_type(FramePart::Challenge, &challenge));
            }
            let challenge = Arc::from(challenge);
            Ok(RelayFrame::Auth { challenge })
        }
        "COUNT" => Ok(RelayFrame::Count {
            sub: elements.sub(text)?,
            count: elements.count(text)?,
        }),
        "BUZZ_SYNC_REQUIRED" => Ok(RelayFrame::SyncRequired {
            reason: Excerpt::new(&elements.message(1)?.0),
        }),
        verb => Ok(RelayFrame::Unknown {
            verb: Excerpt::new(verb),
        }),
    }
}

/// The answer to a query over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryAnswer {
    /// The events in the order of the answer, slices of it: [`Event::hold`] before keeping one.
    pub events: Vec<Event>,
    /// How many elements were no events.
    pub malformed: u64,
    /// What was wrong with the first of them.
    pub first_error: Option<DecodeError>,
}

/// Reads the body of an answer to `/query`: a flat array of events. An element that is no event
/// does not spoil the others.
///
/// # Errors
/// When the body is larger than `bytes_max` or is not a JSON array in UTF-8.
pub fn decode_events(body: &Bytes, bytes_max: usize) -> Result<QueryAnswer, DecodeError> {
    let text = checked_text(body, bytes_max)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let answer = deserializer
        .deserialize_seq(EventsVisitor { body })
        .and_then(|answer| deserializer.end().map(|()| answer));
    answer.map_err(|_| not_an_array(text))
}

/// A string, borrowed where the peer escaped nothing. `Cow` itself never borrows within a sequence.
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor).map(Self)
    }
}

impl DecodeError {
    pub(super) fn new(kind: DecodeErrorKind, text: &str) -> Self {
        let excerpt = Excerpt::new(text);
        Self { kind, excerpt }
    }

    fn wrong_type(what: FramePart, text: &str) -> Self {
        Self::new(DecodeErrorKind::WrongType { what }, text)
    }
}

/// The first elements of an array, unread.
struct Elements<'a>(SmallVec<[&'a RawValue; ELEMENTS_MAX]>);

impl<'a> Elements<'a> {
    fn get(&self, place: usize) -> Option<&'a RawValue> {
        self.0.get(place).copied()
    }

    fn part(&self, place: usize, frame: &str, what: FramePart) -> Result<&'a str, DecodeError> {
        self.get(place)
            .map(RawValue::get)
            .ok_or_else(|| DecodeError::wrong_type(what, frame))
    }

    fn string(&self, place: usize, frame: &str, what: FramePart) -> Result<Text<'a>, DecodeError> {
        match self.get(place) {
            Some(raw) => string(raw, what),
            None => Err(DecodeError::wrong_type(what, frame)),
        }
    }

    fn sub(&self, frame: &str) -> Result<SubName, DecodeError> {
        let text = self.string(1, frame, FramePart::Subscription)?;
        Ok(SubName::parse(&text.0))
    }

    fn flag(&self, place: usize) -> Result<bool, DecodeError> {
        match self.get(place).map(RawValue::get) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(DecodeError::wrong_type(FramePart::Flag, other)),
        }
    }

    fn message(&self, place: usize) -> Result<Text<'a>, DecodeError> {
        self.get(place).map_or(Ok(Text(Cow::Borrowed(""))), |raw| {
            string(raw, FramePart::Message)
        })
    }

    fn count(&self, frame: &str) -> Result<u64, DecodeError> {
        #[derive(Deserialize)]
        struct Body {
            count: u64,
        }
        let raw = self.part(2, frame, FramePart::Count)?;
        // A derived struct would also be read from an array.
        let body = raw.starts_with('{').then(|| serde_json::from_str(raw).ok());
        let body: Option<Body> = body.flatten();
        body.map(|body| body.count)
            .ok_or_else(|| DecodeError::wrong_type(FramePart::Count, raw))
    }
}

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ElementsVisitor).map(Self)
    }
}

fn string<'a>(raw: &'a RawValue, what: FramePart) -> Result<Text<'a>, DecodeError> {
    serde_json::from_str(raw.get()).map_err(|_| DecodeError::wrong_type(what, raw.get()))
}

fn checked_text(bytes: &Bytes, bytes_max: usize) -> Result<&str, DecodeError> {
    if bytes.len() > bytes_max {
        let kind = DecodeErrorKind::TooLarge {
            bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            bytes_max: u64::try_from(bytes_max).unwrap_or(u64::MAX),
        };
        let excerpt = Excerpt::from_bytes(bytes);
        return Err(DecodeError { kind, excerpt });
    }
    core::str::from_utf8(bytes).map_err(|_| DecodeError {
        kind: DecodeErrorKind::NotUtf8,
        excerpt: Excerpt::from_bytes(bytes),
    })
}

fn not_an_array(text: &str) -> DecodeError {
    let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
    let kind = if is_json {
        DecodeErrorKind::NotAnArray
    } else {
        DecodeErrorKind::NotJson
    };
    DecodeError::new(kind, text)
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(String::from(text)))
    }
}

struct ElementsVisitor;

impl<'de> Visitor<'de> for ElementsVisitor {
    type Value = SmallVec<[&'de RawValue; ELEMENTS_MAX]>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = SmallVec::new();
        while elements.len() < ELEMENTS_MAX {
            let Some(element) = seq.next_element()? else {
                return Ok(elements);
            };
            elements.push(element);
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(elements)
    }
}

struct EventsVisitor<'a> {
    body: &'a Bytes,
}

impl<'de> Visitor<'de> for EventsVisitor<'_> {
    type Value = QueryAnswer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<QueryAnswer, A::Error> {
        let mut answer = QueryAnswer::default();
        while let Some(raw) = seq.next_element::<&'de RawValue>()? {
            match Event::read(self.body, raw.get()) {
                Ok(event) => answer.events.push(event),
                Err(error) => {
                    answer.malformed = answer.malformed.saturating_add(1);
                    answer.first_error.get_or_insert(error);
                }
            }
        }
        Ok(answer)
    }
}
