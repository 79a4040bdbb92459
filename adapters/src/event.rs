//! Events of NIP-01: what is hashed, and their JSON form.

use std::io::{self, Write};

use buzz_proto::ids::{EventId, PubKey};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Draft;
use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The id that the event has when `author` signs it.
pub(crate) fn draft_id(draft: &Draft, kind: u16, author: &PubKey) -> EventId {
    let created_at = draft.created_at.0;
    event_id(author, created_at, kind, &draft.tags, &draft.content)
}

/// The JSON form of an event with its signature.
pub(crate) fn signed_json(
    draft: &Draft,
    id: EventId,
    author: PubKey,
    signature: [u8; 64],
) -> Option<Bytes> {
    let event = Signed {
        id,
        pubkey: author,
        created_at: draft.created_at,
        kind: draft.kind,
        tags: &draft.tags,
        content: &draft.content,
        sig: hex(&signature),
    };
    serde_json::to_vec(&event).ok().map(Bytes::from)
}

#[derive(Serialize)]
struct Signed<'a> {
    id: EventId,
    pubkey: PubKey,
    created_at: UnixTime,
    kind: u32,
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

/// Fills `bytes` from twice as many hex digits of either case.
pub(crate) fn read_hex(text: &str, bytes: &mut [u8]) -> Option<()> {
    if text.len() != bytes.len() * 2 {
        return None;
    }
    let digit = |letter: u8| {
        char::from(letter)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    for (place, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *place = digit(*high)? << 4 | digit(*low)?;
    }
    Some(())
}

/// 64 bytes from 128 hex digits of lower case, the only one that NIP-01 knows.
pub(crate) fn signature_bytes(text: &str) -> Option<[u8; 64]> {
    if text.bytes().any(|letter| letter.is_ascii_uppercase()) {
        return None;
    }
    let mut bytes = [0; 64];
    read_hex(text, &mut bytes)?;
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
