//! A toy peer: events that are well-formed and not signed, and the frames of a relay.

use buzz_proto::ids::{ChannelId, EventId, PubKey};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Event;
use bytes::Bytes;
use serde_json::{Value, json};

/// The wall clock at the start of a script.
pub const START: UnixTime = UnixTime(1_800_000_000);

/// The key of the agent under test.
pub const ME: PubKey = key(0xa1);

/// A key, told apart by one byte.
#[must_use]
pub const fn key(n: u8) -> PubKey {
    PubKey([n; 32])
}

/// A channel, told apart by one byte.
#[must_use]
pub const fn channel(n: u8) -> ChannelId {
    ChannelId([n; 16])
}

/// An event id, told apart by a number.
#[must_use]
pub fn id(n: u64) -> EventId {
    let mut bytes = [0xee; 32];
    let (head, _) = bytes.split_at_mut(8);
    head.copy_from_slice(&n.to_be_bytes());
    EventId(bytes)
}

/// An event to be; its id comes from `n`.
#[derive(Clone, Debug)]
pub struct Toy {
    n: u64,
    author: PubKey,
    created_at: UnixTime,
    kind: u32,
    tags: Vec<Vec<String>>,
    content: String,
}

impl Toy {
    /// A message by somebody, now, in no channel.
    #[must_use]
    pub fn new(n: u64) -> Self {
        Self {
            n,
            author: key(0xb2),
            created_at: START,
            kind: 9,
            tags: Vec::new(),
            content: format!("message {n}"),
        }
    }

    /// A message in `channel` that mentions the agent.
    #[must_use]
    pub fn mention(n: u64, channel: ChannelId) -> Self {
        Self::new(n)
            .tag(&["h", &channel.to_string()])
            .tag(&["p", &ME.to_string()])
    }

    /// A notice that the agent was added to `channel` (44100) or removed from it (44101).
    #[must_use]
    pub fn notice(n: u64, kind: u32, channel: ChannelId) -> Self {
        Self::mention(n, channel).kind(kind)
    }

    /// The member list of `channel`, with the agent in it.
    #[must_use]
    pub fn members(n: u64, channel: ChannelId) -> Self {
        Self::new(n)
            .kind(39_002)
            .tag(&["d", &channel.to_string()])
            .tag(&["p", &ME.to_string()])
    }

    /// What `channel` is.
    #[must_use]
    pub fn metadata(n: u64, channel: ChannelId) -> Self {
        Self::new(n).kind(39_000).tag(&["d", &channel.to_string()])
    }

    /// By this author.
    #[must_use]
    pub const fn author(mut self, author: PubKey) -> Self {
        self.author = author;
        self
    }

    /// Dated so.
    #[must_use]
    pub const fn dated(mut self, created_at: UnixTime) -> Self {
        self.created_at = created_at;
        self
    }

    /// Of this kind.
    #[must_use]
    pub const fn kind(mut self, kind: u32) -> Self {
        self.kind = kind;
        self
    }

    /// With one more tag.
    #[must_use]
    pub fn tag(mut self, values: &[&str]) -> Self {
        self.tags
            .push(values.iter().map(|value| (*value).to_owned()).collect());
        self
    }

    /// With this text.
    #[must_use]
    pub fn content(mut self, content: &str) -> Self {
        content.clone_into(&mut self.content);
        self
    }

    /// Its JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "id": id(self.n),
            "pubkey": self.author,
            "created_at": self.created_at,
            "kind": self.kind,
            "tags": self.tags,
            "content": self.content,
            "sig": "0".repeat(128),
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.json().to_string().into()
    }

    /// The event, decoded.
    ///
    /// # Panics
    /// Never: what is built here is well-formed.
    #[must_use]
    pub fn event(&self) -> Event {
        Event::decode(self.bytes()).expect("a toy is well-formed")
    }
}

/// `["EVENT", sub, event]`.
#[must_use]
pub fn event_frame(sub: &str, event: &Toy) -> Bytes {
    json!(["EVENT", sub, event.json()]).to_string().into()
}

/// `["EOSE", sub]`.
#[must_use]
pub fn eose(sub: &str) -> Bytes {
    json!(["EOSE", sub]).to_string().into()
}

/// `["CLOSED", sub, reason]`.
#[must_use]
pub fn closed(sub: &str, reason: &str) -> Bytes {
    json!(["CLOSED", sub, reason]).to_string().into()
}

/// `["OK", event, accepted, reason]`.
#[must_use]
pub fn ok(event: EventId, accepted: bool, reason: &str) -> Bytes {
    json!(["OK", event, accepted, reason]).to_string().into()
}

/// `["NOTICE", text]`.
#[must_use]
pub fn notice(text: &str) -> Bytes {
    json!(["NOTICE", text]).to_string().into()
}

/// `["AUTH", challenge]`.
#[must_use]
pub fn challenge(text: &str) -> Bytes {
    json!(["AUTH", text]).to_string().into()
}

/// The body of an answer to `/query`.
#[must_use]
pub fn events(events: &[Toy]) -> Bytes {
    let events: Vec<_> = events.iter().map(Toy::json).collect();
    Value::from(events).to_string().into()
}
