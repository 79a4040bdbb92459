//! An event (NIP-01): a parsed head, and the rest as the peer wrote it.

use alloc::borrow::Cow;
use core::fmt;
use core::ops::Range;

use bytes::Bytes;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::decode::Text;
use super::tags::{SPACE, Tags, unquoted};
use super::{DecodeError, DecodeErrorKind, EventPart, Excerpt};
use crate::ids::{ChannelId, EventId, PubKey};
use crate::time::UnixTime;

/// The fields of an event that decide what happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventHead {
    /// What the event says its id is; that it fits is for the verifier to say.
    pub id: EventId,
    /// Who is said to have written it.
    pub author: PubKey,
    /// When, by the author's clock.
    pub created_at: UnixTime,
    /// Its kind.
    pub kind: u32,
}

/// An event whose shape was checked: all fields of NIP-01, each once and of its type. Neither id
/// nor signature is verified. Cloning shares the bytes. Its JSON form is its text as one string.
#[derive(Clone, PartialEq, Eq)]
pub struct Event {
    head: EventHead,
    raw: Bytes,
    tags: Span,
    content: Span,
}

/// What an event answers (NIP-10, marked `e` tags).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// The first event of the thread; nothing for an event at top level.
    pub root: Option<EventId>,
    /// The event it answers; nothing for an event at top level.
    pub parent: Option<EventId>,
}

impl Event {
    /// Reads an event. Keys NIP-01 does not name are ignored.
    ///
    /// # Errors
    /// When the bytes are not UTF-8, not a JSON object, lack a field, have one twice or of a wrong
    /// type.
    pub fn decode(raw: Bytes) -> Result<Self, DecodeError> {
        let Ok(text) = core::str::from_utf8(&raw) else {
            return Err(DecodeError {
                kind: DecodeErrorKind::NotUtf8,
                excerpt: Excerpt::from_bytes(&raw),
            });
        };
        Self::read(&raw, text.trim_matches(SPACE))
    }

    /// Reads an event from `text`, which lies within `frame`.
    pub(super) fn read(frame: &Bytes, text: &str) -> Result<Self, DecodeError> {
        // A derived struct would also be read from an array.
        if !text.starts_with('{') {
            return Err(bad(EventPart::Shape, text));
        }
        let fields: Fields<'_> = serde_json::from_str(text).map_err(|error| DecodeError {
            kind: DecodeErrorKind::BadEvent {
                what: EventPart::Shape,
            },
            excerpt: Excerpt::of(&error),
        })?;
        let head = fields.head()?;
        let sig = &fields.sig.0;
        if sig.len() != 128 || !sig.bytes().all(|letter| letter.is_ascii_hexdigit()) {
            return Err(bad(EventPart::Signature, sig));
        }
        let tags = fields.tags.get();
        serde_json::from_str::<TagsCheck>(tags).map_err(|_| bad(EventPart::Tags, tags))?;
        let content = fields.content.get();
        if !is_string(content) {
            return Err(bad(EventPart::Content, content));
        }
        Ok(Self {
            head,
            raw: frame.slice_ref(text.as_bytes()),
            tags: Span::within(text, tags)?,
            content: Span::within(text, content)?,
        })
    }

    /// The fields that decide what happens to the event.
    #[must_use]
    pub const fn head(&self) -> EventHead {
        self.head
    }

    /// What the event says its id is.
    #[must_use]
    pub const fn id(&self) -> EventId {
        self.head.id
    }

    /// Who is said to have written it.
    #[must_use]
    pub const fn author(&self) -> PubKey {
        self.head.author
    }

    /// When, by the author's clock.
    #[must_use]
    pub const fn created_at(&self) -> UnixTime {
        self.head.created_at
    }

    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> u32 {
        self.head.kind
    }

    /// The JSON object exactly as it was sent.
    #[must_use]
    pub const fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// Its tags, in order.
    #[must_use]
    pub fn tags(&self) -> Tags<'_> {
        Tags::new(self.tags.of(&self.raw))
    }

    /// The channel: the first `h` tag that is a UUID.
    #[must_use]
    pub fn channel(&self) -> Option<ChannelId> {
        self.tags()
            .filter(|tag| tag.name() == "h")
            .find_map(|tag| tag.value(1)?.parse().ok())
    }

    /// Whether any `p` tag names this key.
    #[must_use]
    pub fn mentions(&self, key: &PubKey) -> bool {
        self.tags()
            .filter(|tag| tag.name() == "p")
            .filter_map(|tag| tag.value(1)?.parse::<PubKey>().ok())
            .any(|named| named == *key)
    }

    /// What the event answers, by the markers `root` and `reply` of its `e` tags: the first of
    /// each that names an event counts. A reply without a root answers the root; a root alone is
    /// no answer, as a Buzz relay has it.
    #[must_use]
    pub fn thread(&self) -> Thread {
        let mut root = None;
        let mut reply = None;
        for tag in self.tags().filter(|tag| tag.name() == "e") {
            let mut values = tag.values().skip(1);
            let id = values.next().and_then(|id| id.parse::<EventId>().ok());
            let marker = values.nth(1).unwrap_or_default();
            match &*marker {
                "root" => root = root.or(id),
                "reply" => reply = reply.or(id),
                _ => {}
            }
        }
        if reply.is_none() {
            return Thread::default();
        }
        Thread {
            root: root.or(reply),
            parent: reply,
        }
    }

    /// Its content, unescaped.
    #[must_use]
    pub fn content(&self) -> Cow<'_, str> {
        unquoted(self.content.of(&self.raw))
    }

    /// The same event, fit to be kept: one smaller than half of the frame it came in is copied, so
    /// that a small slice cannot pin a large frame.
    #[must_use]
    pub fn hold(mut self, frame_len: usize) -> Self {
        if self.raw.len().saturating_mul(2) < frame_len {
            self.raw = Bytes::copy_from_slice(&self.raw);
        }
        self
    }

    /// The same event with other text. `raw` differs from its own only in letters of the content:
    /// every part stands where it stood.
    pub(crate) fn over(self, raw: Bytes) -> Self {
        Self { raw, ..self }
    }

    /// Whether relays do not store it: kinds 20000 to 29999 (NIP-01).
    #[must_use]
    pub const fn is_ephemeral(&self) -> bool {
        matches!(self.head.kind, 20_000..30_000)
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("head", &self.head)
            .field("bytes", &self.raw.len())
            .finish()
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        crate::json::text::serialize(&self.raw, serializer)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::decode(Bytes::from(text.into_owned())).map_err(D::Error::custom)
    }
}

/// Where a part of an event stands in it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn within(whole: &str, part: &str) -> Result<Self, DecodeError> {
        let start = part.as_ptr().addr().saturating_sub(whole.as_ptr().addr());
        let end = start.saturating_add(part.len());
        match (u32::try_from(start), u32::try_from(end)) {
            (Ok(start), Ok(end)) => Ok(Self { start, end }),
            _ => Err(bad(EventPart::Size, whole)),
        }
    }

    fn of(self, whole: &[u8]) -> &str {
        let range: Option<Range<usize>> = usize::try_from(self.start)
            .ok()
            .zip(usize::try_from(self.end).ok())
            .map(|(start, end)| start..end);
        range
            .and_then(|range| whole.get(range))
            .and_then(|part| core::str::from_utf8(part).ok())
            .unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    pubkey: Text<'a>,
    created_at: u64,
    kind: u32,
    #[serde(borrow)]
    tags: &'a RawValue,
    #[serde(borrow)]
    content: &'a RawValue,
    #[serde(borrow)]
    sig: Text<'a>,
}

impl Fields<'_> {
    fn head(&self) -> Result<EventHead, DecodeError> {
        let id = self.id.0.parse();
        let author = self.pubkey.0.parse();
        Ok(EventHead {
            id: id.map_err(|_| bad(EventPart::Id, &self.id.0))?,
            author: author.map_err(|_| bad(EventPart::Author, &self.pubkey.0))?,
            created_at: UnixTime(self.created_at),
            kind: self.kind,
        })
    }
}

fn bad(what: EventPart, text: &str) -> DecodeError {
    DecodeError::new(DecodeErrorKind::BadEvent { what }, text)
}

/// Whether valid JSON is a string; one with escapes may still hold half a surrogate pair.
fn is_string(json: &str) -> bool {
    json.starts_with('"')
        && (!json.contains('\\') || serde_json::from_str::<StringCheck>(json).is_ok())
}

/// An array of arrays of strings, read without keeping anything.
struct TagsCheck;
struct TagCheck;
struct StringCheck;

impl<'de> Deserialize<'de> for TagsCheck {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Each::<TagCheck>::NEW)?;
        Ok(Self)
    }
}

impl<'de> Deserialize<'de> for TagCheck {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Each::<StringCheck>::NEW)?;
        Ok(Self)
    }
}

impl<'de> Deserialize<'de> for StringCheck {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Self)
    }
}

impl Visitor<'_> for StringCheck {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, _text: &str) -> Result<Self, E> {
        Ok(self)
    }
}

/// Every element of an array is a `T`.
struct Each<T>(core::marker::PhantomData<T>);

impl<T> Each<T> {
    const NEW: Self = Self(core::marker::PhantomData);
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Each<T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<T>()?.is_some() {}
        Ok(())
    }
}
