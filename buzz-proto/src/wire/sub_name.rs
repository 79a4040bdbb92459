//! Subscription ids as this client writes them.

use alloc::borrow::Cow;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Excerpt;
use crate::ids::ChannelId;

/// The id of a subscription on the wire (NIP-01). The number grows, so that an id is never used
/// twice on one connection and frames of a superseded subscription can be told apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubName {
    /// `ch-<uuid>-<n>`: the live subscription of a channel.
    Channel {
        /// The channel.
        channel: ChannelId,
        /// How many subscriptions came before it.
        n: u64,
    },
    /// `membership-<n>`: the notices of being added and removed.
    Membership {
        /// How many subscriptions came before it.
        n: u64,
    },
    /// `page-<n>`: a read of stored events that is closed at its end.
    Page {
        /// How many subscriptions came before it.
        n: u64,
    },
    /// An id in another form, as a peer wrote it.
    Other(Excerpt),
}

impl SubName {
    /// Reads an id. Only the exact form this client writes is taken for its own.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        own_form(text).unwrap_or_else(|| Self::Other(Excerpt::new(text)))
    }
}

impl fmt::Display for SubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Channel { channel, n } => write!(f, "ch-{channel}-{n}"),
            Self::Membership { n } => write!(f, "membership-{n}"),
            Self::Page { n } => write!(f, "page-{n}"),
            Self::Other(text) => fmt::Display::fmt(text, f),
        }
    }
}

impl Serialize for SubName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SubName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer).map(|text| Self::parse(&text))
    }
}

fn own_form(text: &str) -> Option<SubName> {
    let (head, n) = text.rsplit_once('-')?;
    let n = canonical_number(n)?;
    match head {
        "membership" => return Some(SubName::Membership { n }),
        "page" => return Some(SubName::Page { n }),
        _ => {}
    }
    let uuid = head.strip_prefix("ch-")?;
    if uuid.bytes().any(|letter| letter.is_ascii_uppercase()) {
        return None;
    }
    let channel = uuid.parse().ok()?;
    Some(SubName::Channel { channel, n })
}

/// Digits as a number is displayed: neither sign nor leading zero.
fn canonical_number(text: &str) -> Option<u64> {
    let is_canonical = text == "0" || text.starts_with(|letter| matches!(letter, '1'..='9'));
    is_canonical.then(|| text.parse().ok()).flatten()
}
