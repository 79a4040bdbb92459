//! Signatures: events, AUTH (NIP-42), HTTP requests (NIP-98) and the owner's attestation.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use buzz_proto::ids::PubKey;
use buzz_proto::time::UnixTime;
use buzz_proto::wire::{Draft, Event};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use secp256k1::schnorr;
use sha2::{Digest as _, Sha256};

use crate::event::{draft_id, hex, signature_bytes, signed_json};
use crate::keys::SecretKey;
use crate::verify::is_signed;

/// Signs for one identity. The key may be local, in another process or in hardware.
pub trait Signer: Send + Sync + 'static {
    /// Whose signatures these are.
    fn public_key(&self) -> PubKey;

    /// The event in JSON, with id, author and signature.
    ///
    /// # Errors
    /// There is no signature; nothing was signed.
    fn sign(&self, draft: Draft) -> BoxFuture<'_, Result<Bytes, SignError>>;
}

/// Signs with a key in memory.
#[derive(Clone, Debug)]
pub struct LocalSigner {
    key: Arc<SecretKey>,
}

impl LocalSigner {
    /// Signs with `key`.
    #[must_use]
    pub fn new(key: SecretKey) -> Self {
        Self { key: Arc::new(key) }
    }

    /// The signed event in JSON; the same as [`Signer::sign`] without waiting.
    ///
    /// # Errors
    /// [`SignError::Refused`] for a kind over 65535, which NIP-01 does not allow;
    /// [`SignError::Unavailable`] when the system has no random numbers.
    pub fn sign_now(&self, draft: &Draft) -> Result<Bytes, SignError> {
        let author = self.key.public_key();
        let kind = u16::try_from(draft.kind).map_err(|_| SignError::Refused)?;
        let id = draft_id(draft, kind, &author);
        let auxiliary = random::<32>()?;
        let signature = self
            .key
            .with_keypair(|pair| schnorr::sign_with_aux_rand(&id.0, pair, &auxiliary))
            .ok_or(SignError::Unavailable)?;
        signed_json(draft, id, author, signature.to_byte_array()).ok_or(SignError::Unavailable)
    }
}

impl Signer for LocalSigner {
    fn public_key(&self) -> PubKey {
        self.key.public_key()
    }

    fn sign(&self, draft: Draft) -> BoxFuture<'_, Result<Bytes, SignError>> {
        Box::pin(async move { self.sign_now(&draft) })
    }
}

/// Why there is no signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignError {
    /// The signer refuses this event.
    Refused,
    /// The signer cannot be reached or does not work now.
    Unavailable,
}

impl fmt::Display for SignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "the signer refuses to sign this event",
            Self::Unavailable => "the signer cannot sign now",
        })
    }
}

impl std::error::Error for SignError {}

/// The event that answers an AUTH challenge (NIP-42). `relay` is
/// [`RelayUrl::relay_tag`](crate::url::RelayUrl::relay_tag).
#[must_use]
pub fn auth_draft(
    relay: &str,
    challenge: &str,
    attestation: Option<&Attestation>,
    now: UnixTime,
) -> Draft {
    let mut tags = vec![tag("relay", relay), tag("challenge", challenge)];
    tags.extend(attestation.map(Attestation::tag));
    Draft {
        kind: 22_242,
        created_at: now,
        tags,
        content: String::new(),
    }
}

/// The value of the `Authorization` header for one attempt of one request (NIP-98). Never used
/// twice: relays remember the ids and refuse a repetition, so each call draws a nonce.
///
/// `url` is the whole URL requested; `body` is covered by its hash.
///
/// # Errors
/// Those of the signer.
pub async fn http_auth(
    signer: &dyn Signer,
    url: &str,
    method: &str,
    body: Option<&[u8]>,
    now: UnixTime,
) -> Result<String, SignError> {
    let nonce = hex(&random::<16>()?);
    let mut tags = vec![tag("u", url), tag("method", method), tag("nonce", &nonce)];
    tags.extend(body.map(|body| tag("payload", &hex(&Sha256::digest(body)))));
    let draft = Draft {
        kind: 27_235,
        created_at: now,
        tags,
        content: String::new(),
    };
    let event = signer.sign(draft).await?;
    Ok(format!("Nostr {}", STANDARD.encode(event)))
}

/// The owner whose attestation an event of an agent bears (NIP-OA), if it holds for its author.
#[must_use]
pub fn attested_owner(event: &Event) -> Option<PubKey> {
    let mut tags = event.tags().filter(|tag| tag.name() == "auth");
    let tag = tags.next()?;
    if tags.next().is_some() {
        return None;
    }
    let values: Vec<_> = tag.values().collect();
    let attestation = Attestation::parse(&serde_json::to_string(&values).ok()?).ok()?;
    attestation
        .is_for(&event.author())
        .then(|| attestation.owner())
}

/// An owner's statement that an agent is theirs (NIP-OA): a tag of the AUTH event, and the header
/// `x-auth-tag` of HTTP requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attestation {
    owner: PubKey,
    conditions: String,
    signature: String,
}

impl Attestation {
    /// Reads `["auth", owner, conditions, signature]`. Owner and signature are hex. Whether the
    /// signature holds is another question: [`Attestation::is_for`].
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(json: &str) -> Result<Self, AttestationError> {
        let [name, owner, conditions, signature]: [String; 4] =
            serde_json::from_str(json).map_err(|_| AttestationError)?;
        let owner = owner.parse().map_err(|_| AttestationError)?;
        if name != "auth" || signature_bytes(&signature).is_none() {
            return Err(AttestationError);
        }
        Ok(Self {
            owner,
            conditions,
            signature,
        })
    }

    /// Who made it.
    #[must_use]
    pub const fn owner(&self) -> PubKey {
        self.owner
    }

    /// Whether the owner signed it for `agent`, who must be another. Its conditions are not
    /// evaluated: relays do not evaluate them at AUTH either.
    #[must_use]
    pub fn is_for(&self, agent: &PubKey) -> bool {
        let text = format!("nostr:agent-auth:{agent}:{}", self.conditions);
        let Some(signature) = signature_bytes(&self.signature) else {
            return false;
        };
        self.owner != *agent && is_signed(&self.owner, &Sha256::digest(text).into(), signature)
    }

    /// The tag of the AUTH event.
    #[must_use]
    pub fn tag(&self) -> Vec<String> {
        let owner = self.owner.to_string();
        vec![
            "auth".into(),
            owner,
            self.conditions.clone(),
            self.signature.clone(),
        ]
    }

    /// The value of the header `x-auth-tag`.
    #[must_use]
    pub fn header(&self) -> String {
        serde_json::Value::from(self.tag()).to_string()
    }
}

/// The text is no attestation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttestationError;

impl fmt::Display for AttestationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a JSON array: \"auth\", owner key, conditions, signature")
    }
}

impl std::error::Error for AttestationError {}

fn tag(name: &str, value: &str) -> Vec<String> {
    vec![name.to_owned(), value.to_owned()]
}

fn random<const N: usize>() -> Result<[u8; N], SignError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| SignError::Unavailable)?;
    Ok(bytes)
}
