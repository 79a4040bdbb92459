//! Events as they appear on the wire, and as the relay keeps them.

use serde::{Deserialize, Serialize};

use crate::keys::{hex, sha256, signature_is_valid};

/// A Nostr event (NIP-01). `created_at` is Unix time in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// SHA-256 of the serialised event, 64 lower-case hex digits.
    pub id: String,
    /// The author's public key, 64 lower-case hex digits.
    pub pubkey: String,
    /// The author's clock, Unix seconds.
    pub created_at: u64,
    /// What the event means.
    pub kind: u32,
    /// Lists of strings, the first of each being its name.
    pub tags: Vec<Vec<String>>,
    /// Free text, its form depends on the kind.
    pub content: String,
    /// BIP-340 signature of the id, 128 lower-case hex digits.
    pub sig: String,
}

impl Event {
    /// The id that follows from the other fields.
    #[must_use]
    pub fn computed_id(&self) -> [u8; 32] {
        let fields = (
            0,
            &self.pubkey,
            self.created_at,
            self.kind,
            &self.tags,
            &self.content,
        );
        // Strings, numbers and lists always serialise.
        sha256(&serde_json::to_vec(&fields).unwrap_or_default())
    }

    /// What is wrong with id or signature, in the relay's words; `None` when both are right.
    #[must_use]
    pub fn forgery(&self) -> Option<String> {
        let digest = self.computed_id();
        let computed = hex(&digest);
        if computed != self.id {
            let got = &self.id;
            return Some(format!(
                "invalid: invalid event id: computed {computed} got {got}"
            ));
        }
        if !signature_is_valid(&self.pubkey, &digest, &self.sig) {
            return Some("invalid: invalid schnorr signature".to_owned());
        }
        None
    }

    /// The event as a JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The first value of the first tag of that name.
    #[must_use]
    pub fn tag(&self, name: &str) -> Option<&str> {
        self.tags.iter().find_map(|tag| value_of(tag, name))
    }

    /// The first values of all tags of that name.
    pub fn tag_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.tags.iter().filter_map(move |tag| value_of(tag, name))
    }

    /// The `e` tag carrying this marker (NIP-10).
    #[must_use]
    pub fn marked(&self, marker: &str) -> Option<&str> {
        self.tags
            .iter()
            .find(|tag| {
                tag.first().is_some_and(|first| first == "e")
                    && tag.get(3).is_some_and(|mark| mark == marker)
            })
            .and_then(|tag| tag.get(1).map(String::as_str))
    }

    /// How a kind is kept (NIP-01).
    #[must_use]
    pub fn storage(&self) -> Storage {
        match self.kind {
            20_000..=29_999 => Storage::Ephemeral,
            0 | 3 | 41 | 10_000..=19_999 => Storage::Replaceable,
            30_000..=39_999 => Storage::Addressable,
            _ => Storage::Regular,
        }
    }
}

/// How long an event of a kind is kept, and what takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Kept until it is deleted.
    Regular,
    /// One for each author and kind.
    Replaceable,
    /// One for each author, kind and `d` tag.
    Addressable,
    /// Passed on to live subscriptions, never kept.
    Ephemeral,
}

/// An event with the channel the relay filed it under and its JSON text, made once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filed {
    /// The event itself.
    pub event: Event,
    /// The channel; `None` is the global scope.
    pub channel: Option<String>,
    /// The event as JSON.
    pub json: String,
}

impl Filed {
    pub(crate) fn new(event: Event, channel: Option<String>) -> Self {
        let json = event.to_json();
        Self {
            event,
            channel,
            json,
        }
    }
}

fn value_of<'a>(tag: &'a [String], name: &str) -> Option<&'a str> {
    tag.first().filter(|first| *first == name)?;
    tag.get(1).map(String::as_str)
}
