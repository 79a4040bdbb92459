//! Keys and signatures (NIP-01, BIP-340), independent of the product under test.

use core::fmt;

use secp256k1::{Keypair, XOnlyPublicKey, schnorr};
use sha2::{Digest, Sha256};

use crate::rules::event::Event;

/// A secret key with its public half. `Debug` shows the public half only.
#[derive(Clone)]
pub struct Keys {
    pair: Keypair,
    public: String,
}

impl Keys {
    /// A fresh key from the operating system's random source.
    ///
    /// # Panics
    /// When the operating system has no random source.
    #[must_use]
    pub fn generate() -> Self {
        loop {
            // All but about one in 2^128 draws are valid scalars.
            if let Ok(keys) = Self::from_secret_bytes(random_bytes()) {
                return keys;
            }
        }
    }

    /// The key whose secret is 64 hex digits.
    ///
    /// # Errors
    /// When the text is not 64 hex digits or not a valid scalar. The text itself is not repeated.
    pub fn from_secret(hex_text: &str) -> Result<Self, InvalidSecret> {
        Self::from_secret_bytes(unhex(hex_text).ok_or(InvalidSecret)?)
    }

    /// The key whose secret scalar is `data`, big endian.
    ///
    /// # Errors
    /// When the scalar is zero or not below the order of the curve.
    pub fn from_secret_bytes(data: [u8; 32]) -> Result<Self, InvalidSecret> {
        let pair = Keypair::from_secret_bytes(data).map_err(|_| InvalidSecret)?;
        let public = hex(&pair.x_only_public_key().0.to_byte_array());
        Ok(Self { pair, public })
    }

    /// The public key, 64 lower-case hex digits.
    #[must_use]
    pub fn public(&self) -> &str {
        &self.public
    }

    /// The secret key, 64 lower-case hex digits, for handing it to a child process.
    #[must_use]
    pub fn secret_hex(&self) -> String {
        hex(&self.pair.to_secret_bytes())
    }

    /// A signed event. `created_at` is Unix time in seconds.
    #[must_use]
    pub fn sign_event(
        &self,
        kind: u32,
        tags: Vec<Vec<String>>,
        content: &str,
        created_at: u64,
    ) -> Event {
        let mut event = Event {
            id: String::new(),
            pubkey: self.public.clone(),
            created_at,
            kind,
            tags,
            content: content.to_owned(),
            sig: String::new(),
        };
        let id = event.computed_id();
        event.sig = hex(&self.pair.sign_schnorr_no_aux_rand(&id).to_byte_array());
        event.id = hex(&id);
        event
    }

    /// The owner attestation of NIP-OA for an agent: `["auth", owner, conditions, signature]`.
    #[must_use]
    pub fn attest(&self, agent: &str, conditions: &str) -> Vec<String> {
        let digest = attestation_digest(agent, conditions);
        let signature = self.pair.sign_schnorr_no_aux_rand(&digest).to_byte_array();
        vec![
            "auth".to_owned(),
            self.public.clone(),
            conditions.to_owned(),
            hex(&signature),
        ]
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

/// The text is no secret key: it must be 64 hex digits of a valid scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidSecret;

impl fmt::Display for InvalidSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a secret key: expected 64 hex digits of a valid scalar")
    }
}

impl core::error::Error for InvalidSecret {}

pub(crate) fn attestation_digest(agent: &str, conditions: &str) -> [u8; 32] {
    sha256(format!("nostr:agent-auth:{agent}:{conditions}").as_bytes())
}

pub(crate) fn signature_is_valid(public: &str, message: &[u8; 32], signature: &str) -> bool {
    let (Some(public), Some(signature)) = (unhex::<32>(public), unhex::<64>(signature)) else {
        return false;
    };
    let Ok(public) = XOnlyPublicKey::from_byte_array(public) else {
        return false;
    };
    schnorr::Signature::from_byte_array(signature)
        .verify(message, &public)
        .is_ok()
}

pub(crate) fn sha256(data: &[u8]) -> [u8; 32] {
    Sha256::digest(data).into()
}

/// # Panics
/// When the operating system has no random source: no key or challenge can be made without one.
#[expect(clippy::expect_used, reason = "nothing can go on without randomness")]
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system provides randomness");
    bytes
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    bytes
        .iter()
        .flat_map(|byte| {
            [
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]
        })
        .collect()
}

pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != N * 2 {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(bytes)
}

pub(crate) fn is_hex64(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}
