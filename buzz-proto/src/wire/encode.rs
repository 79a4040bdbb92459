//! Frames and query bodies of a client, from values to bytes.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{DecodeError, DecodeErrorKind, Event, EventPart, Excerpt, MESSAGE, SubName};
use crate::ids::{ChannelId, EventId, PubKey};
use crate::time::UnixTime;

/// `["REQ", sub, filter]` (NIP-01).
#[must_use]
pub fn req(sub: &SubName, filter: &Filter) -> Bytes {
    json(&("REQ", sub, filter))
}

/// `["CLOSE", sub]` (NIP-01).
#[must_use]
pub fn close(sub: &SubName) -> Bytes {
    json(&("CLOSE", sub))
}

/// `["EVENT", event]` (NIP-01), from the JSON of a signed event.
#[must_use]
pub fn event(raw: &Bytes) -> Bytes {
    enclose(b"[\"EVENT\",", raw)
}

/// `["AUTH", event]` (NIP-42), from the JSON of a signed event.
#[must_use]
pub fn auth(raw: &Bytes) -> Bytes {
    enclose(b"[\"AUTH\",", raw)
}

/// The body of a `POST /query`: an array of filters.
#[must_use]
pub fn query(filters: &[Filter]) -> Bytes {
    json(&filters)
}

/// Which events to send (NIP-01). What is empty asks for nothing in particular.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// These events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<EventId>,
    /// Of these authors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<PubKey>,
    /// Of these kinds.
    #[serde(skip_serializing_if = "SmallVec::is_empty")]
    pub kinds: SmallVec<[u32; 4]>,
    /// In this channel: a relay is deaf on a live filter with several.
    #[serde(rename = "#h", with = "one", skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelId>,
    /// Naming this key.
    #[serde(rename = "#p", with = "one", skip_serializing_if = "Option::is_none")]
    pub mention: Option<PubKey>,
    /// Naming one of these events.
    #[serde(rename = "#e", skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventId>,
    /// Describing one of these channels: the `d` tag of kinds 39000 to 39002 (NIP-29).
    #[serde(rename = "#d", skip_serializing_if = "Vec::is_empty")]
    pub d: Vec<ChannelId>,
    /// Not older than this second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<UnixTime>,
    /// Not younger than this second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<UnixTime>,
    /// Of the second `until`, only ids after this one. Only `/query` of a Buzz relay knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_id: Option<EventId>,
    /// At most so many stored events, the youngest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

impl Filter {
    /// Whether an event is one that was asked for. An event without an `h` tag is taken to be in
    /// the channel, because a relay knows the channel of reactions and deletions from what they
    /// point at. `limit` and `before_id` decide nothing here.
    #[must_use]
    pub fn matches(&self, event: &Event) -> bool {
        let head = event.head();
        (self.ids.is_empty() || self.ids.contains(&head.id))
            && (self.authors.is_empty() || self.authors.contains(&head.author))
            && (self.kinds.is_empty() || self.kinds.contains(&head.kind))
            && self.since.is_none_or(|since| since <= head.created_at)
            && self.until.is_none_or(|until| head.created_at <= until)
            && self.mention.is_none_or(|key| event.mentions(&key))
            && self.channel.is_none_or(|channel| is_in(event, channel))
            && (self.events.is_empty() || names(event, "e", &self.events))
            && (self.d.is_empty() || names(event, "d", &self.d))
    }
}

/// What is to be signed: an event without author, id and signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    /// Its kind.
    pub kind: u32,
    /// When it is written.
    pub created_at: UnixTime,
    /// Its tags.
    pub tags: Vec<Vec<String>>,
    /// Its content.
    pub content: String,
}

impl Draft {
    /// A message (kind 9) that answers `event` where it was said: in its channel and its thread, for
    /// its author to see.
    #[must_use]
    pub fn answer(event: &Event, content: impl Into<String>, created_at: UnixTime) -> Self {
        Self {
            kind: MESSAGE,
            created_at,
            tags: answer_tags(event.channel(), event),
            content: content.into(),
        }
    }

    /// Its JSON form.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        json(self)
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// When a field is missing, unknown, there twice or of a wrong type.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        serde_json::from_slice(bytes).map_err(|error| DecodeError {
            kind: DecodeErrorKind::BadEvent {
                what: EventPart::Shape,
            },
            excerpt: Excerpt::of(&error),
        })
    }
}

/// The tags of a message that answers `event`: its channel (`h`, NIP-29), its place in the thread
/// (`e` with markers, NIP-10) and its author (`p`).
///
/// A Buzz relay wants a single `reply` for an answer to the root, and `root` with `reply` below it.
pub(crate) fn answer_tags(channel: Option<ChannelId>, event: &Event) -> Vec<Vec<String>> {
    fn tag<const N: usize>(values: [&str; N]) -> Vec<String> {
        values.iter().map(ToString::to_string).collect()
    }
    let id = event.id();
    let channel = channel.map(|channel| tag(["h", &channel.to_string()]));
    let root = event.thread().root.filter(|root| *root != id);
    let root = root.map(|root| tag(["e", &root.to_string(), "", "root"]));
    let own = [
        tag(["e", &id.to_string(), "", "reply"]),
        tag(["p", &event.author().to_string()]),
    ];
    channel.into_iter().chain(root).chain(own).collect()
}

/// One value as the array of one that NIP-01 writes.
mod one {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(|value| [value]).serialize(serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        <[T; 1]>::deserialize(deserializer).map(|[value]| Some(value))
    }
}

fn is_in(event: &Event, channel: ChannelId) -> bool {
    match event.channel() {
        Some(named) => named == channel,
        None => event.tags().all(|tag| tag.name() != "h"),
    }
}

fn names<T: core::str::FromStr + PartialEq>(event: &Event, tag: &str, wanted: &[T]) -> bool {
    event
        .tags()
        .filter(|candidate| candidate.name() == tag)
        .filter_map(|candidate| candidate.value(1)?.parse().ok())
        .any(|named| wanted.contains(&named))
}

/// Serialisation fails only for maps whose keys are not strings, and there are none here.
fn json<T: Serialize + ?Sized>(value: &T) -> Bytes {
    serde_json::to_vec(value)
        .map(Bytes::from)
        .unwrap_or_default()
}

fn enclose(opening: &[u8], raw: &[u8]) -> Bytes {
    [opening, raw, b"]"].concat().into()
}
