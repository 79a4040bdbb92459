//! Events of NIP-01: what is hashed, and their JSON form.

use std::io::{self, Write};

use buzz_proto::ids::{EventId, PubKey};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// An event before it is signed: `{"kind","created_at","tags","content"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draft {
    /// 0 to 65535.
    pub kind: u16,
    /// Seconds of the Unix epoch.
    pub created_at: u64,
    /// Each a name and its values.
    pub tags: Vec<Vec<String>>,
    /// Any text.
    pub content: String,
}

impl Draft {
    /// Reads the JSON form.
    ///
    /// # Errors
    /// The bytes are not the JSON form of a draft.
    pub fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// The id that the event has when `author` signs it.
    #[must_use]
    pub fn id(&self, author: &PubKey) -> EventId {
        let tags = &self.tags;
        event_id(author, self.created_at, self.kind, tags, &self.content)
    }

    /// The JSON form of the event with its signature.
    pub(crate) fn signed(&self, author: PubKey, signature: [u8; 64]) -> Option<Bytes> {
        let event = Signed {
            id: self.id(&author),
            pubkey: author,
            created_at: self.created_at,
            kind: self.kind,
            tags: &self.tags,
            content: &self.content,
            sig: hex(&signature),
        };
        serde_json::to_vec(&event).ok().map(Bytes::from)
    }
}

#[derive(Serialize)]
struct Signed<'a> {
    id: EventId,
    pubkey: PubKey,
    created_at: u64,
    kind: u16,
    tags: &'a [Vec<String>],
    content: &'a str,
    sig: String,
}

/// SHA-256 of `[0, author, created_at, kind, tags, content]` without spaces (NIP-01). Control
/// characters without a short escape are written `\u00xx`, as the JSON writers of the other
/// implementations do.
pub(crate) fn event_id<S: Serialize>(
    author: &PubKey,
    created_at: u64,
    kind: u16,
    tags: &[Vec<S>],
    content: &str,
) -> EventId {
    let mut hash = HashWriter(Sha256::new());
    let canonical = (0, author, created_at, kind, tags, content);
    // Neither the hash nor these types can fail to be written.
    drop(serde_json::to_writer(&mut hash, &canonical));
    EventId(hash.0.finalize().into())
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    let digit = |value: u8| DIGITS[usize::from(value & 15)];
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

/// 64 bytes from 128 hex digits of lower case.
pub(crate) fn signature_bytes(text: &str) -> Option<[u8; 64]> {
    let digit = |letter: u8| match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 64];
    if text.len() != 128 {
        return None;
    }
    for (place, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *place = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

struct HashWriter(Sha256);

impl Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
