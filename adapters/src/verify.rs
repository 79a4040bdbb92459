//! Whether an event is what it claims: its id and its signature, recomputed.

use std::borrow::Cow;

use buzz_proto::ids::{EventId, PubKey};
use secp256k1::{XOnlyPublicKey, schnorr};
use serde::Deserialize;

use crate::event::{event_id, signature_bytes};

/// Says whether events are what they claim.
pub trait Verifier: Send + Sync + 'static {
    /// Whether `json`, one event in JSON, has the id and the signature that it needs. Called where
    /// it may take its time; a panic counts as no.
    fn is_genuine(&self, json: &[u8]) -> bool;
}

/// Checks signatures in this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalVerifier;

impl Verifier for LocalVerifier {
    fn is_genuine(&self, json: &[u8]) -> bool {
        is_genuine(json)
    }
}

/// Whether `json`, one event in JSON, has the id of its canonical form (NIP-01) and a valid
/// BIP-340 signature of it by its author. Anything else, malformed JSON included, is not genuine.
///
/// Takes some tens of microseconds, most of it for the signature: run it on a blocking pool.
#[must_use]
pub fn is_genuine(json: &[u8]) -> bool {
    serde_json::from_slice(json).is_ok_and(|event: Event<'_>| event.is_genuine())
}

/// Whether `signature` is the BIP-340 signature of `message` by `author`.
pub(crate) fn is_signed(author: &PubKey, message: &[u8; 32], signature: [u8; 64]) -> bool {
    let signature = schnorr::Signature::from_byte_array(signature);
    XOnlyPublicKey::from_byte_array(author.0)
        .is_ok_and(|key| schnorr::verify(&signature, message, &key).is_ok())
}

/// Fields beyond these are legal and not covered by the signature. A field that comes twice is an
/// error, because another reader might take the other one.
#[derive(Deserialize)]
struct Event<'a> {
    id: EventId,
    pubkey: PubKey,
    created_at: u64,
    kind: u16,
    #[serde(borrow)]
    tags: Vec<Vec<Text<'a>>>,
    #[serde(borrow)]
    content: Cow<'a, str>,
    #[serde(borrow)]
    sig: Cow<'a, str>,
}

/// Borrowed where it holds no escapes; serde borrows a `Cow` only directly in a field.
#[derive(Deserialize, serde::Serialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Event<'_> {
    fn is_genuine(&self) -> bool {
        let id = event_id(
            &self.pubkey,
            self.created_at,
            self.kind,
            &self.tags,
            &self.content,
        );
        let Some(signature) = signature_bytes(&self.sig) else {
            return false;
        };
        id == self.id && is_signed(&self.pubkey, &id.0, signature)
    }
}
