//! Keys: secret ones that never show themselves, and the text forms of NIP-19.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::str::FromStr;

use bech32::primitives::decode::CheckedHrpstring;
use bech32::{Bech32, Hrp};
use buzz_proto::ids::PubKey;
use secp256k1::Keypair;
use zeroize::{Zeroize as _, Zeroizing};

use crate::event::read_hex;

/// A file that is longer holds more than one key.
const FILE_BYTES_MAX: usize = 4096;

/// The secret key of an identity. Wiped when dropped; neither printed nor copied.
pub struct SecretKey {
    /// In one place on the heap, so that moving the key leaves no copies on the stack.
    bytes: Box<Zeroizing<[u8; 32]>>,
    public: PubKey,
}

impl SecretKey {
    /// A key drawn from the system's random source.
    ///
    /// # Errors
    /// [`KeyError::Random`] when that source fails.
    pub fn generate() -> Result<Self, KeyError> {
        loop {
            let mut bytes = Box::new(Zeroizing::new([0; 32]));
            getrandom::fill(bytes.as_mut_slice()).map_err(|_| KeyError::Random)?;
            // One draw in 2^128 is no key.
            if let Ok(key) = Self::from_bytes(bytes) {
                return Ok(key);
            }
        }
    }

    /// Reads 64 hex digits or `nsec1…` (NIP-19); space around it is ignored.
    ///
    /// # Errors
    /// [`KeyError::Form`] for another text, [`KeyError::PublicKey`] for `npub1…`,
    /// [`KeyError::Range`] for a number that is no key.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        if starts_with(text, "npub1") {
            return Err(KeyError::PublicKey);
        }
        let mut bytes = Box::new(Zeroizing::new([0; 32]));
        if starts_with(text, "nsec1") {
            read_bech32(text, "nsec", &mut bytes)?;
        } else {
            read_hex(text, bytes.as_mut_slice()).ok_or(KeyError::Form)?;
        }
        Self::from_bytes(bytes)
    }

    /// Reads a file that holds one key, and at most 4096 bytes.
    ///
    /// # Errors
    /// [`KeyError::File`], or those of [`SecretKey::parse`].
    pub fn from_file(path: &Path) -> Result<Self, KeyError> {
        // With room to spare: a vector that grows would leave a copy behind.
        let mut text = Zeroizing::new(Vec::with_capacity(2 * FILE_BYTES_MAX));
        std::fs::File::open(path)
            .and_then(|file| {
                let limit = u64::try_from(FILE_BYTES_MAX + 1).unwrap_or(u64::MAX);
                file.take(limit).read_to_end(&mut text)
            })
            .map_err(|error| KeyError::File(error.kind()))?;
        if text.len() > FILE_BYTES_MAX {
            return Err(KeyError::Form);
        }
        Self::parse(std::str::from_utf8(&text).map_err(|_| KeyError::Form)?)
    }

    /// Reads an environment variable; `None` when it is not set.
    ///
    /// # Errors
    /// Those of [`SecretKey::parse`].
    pub fn from_env(name: &str) -> Option<Result<Self, KeyError>> {
        let text = std::env::var_os(name)?;
        let text = Zeroizing::new(text.into_encoded_bytes());
        Some(match std::str::from_utf8(&text) {
            Ok(text) => Self::parse(text),
            Err(_) => Err(KeyError::Form),
        })
    }

    /// Writes the key as `nsec1…` to a file that only its owner may read. An existing file is
    /// never overwritten, for it may hold the only copy of a key.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn write_file(&self, path: &Path) -> io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        // Not joined: a text that grows would leave a copy behind.
        file.write_all(self.nsec().as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()
    }

    /// The public key.
    #[must_use]
    pub const fn public_key(&self) -> PubKey {
        self.public
    }

    /// The key in its text form, `nsec1…`; wiped when dropped.
    #[must_use]
    pub fn nsec(&self) -> Zeroizing<String> {
        Zeroizing::new(write_bech32("nsec", self.bytes.as_slice()))
    }

    /// Lends the key pair for one use and wipes it afterwards.
    pub(crate) fn with_keypair<T>(&self, work: impl FnOnce(&Keypair) -> T) -> Option<T> {
        let mut pair = Keypair::from_secret_bytes(**self.bytes).ok()?;
        let done = work(&pair);
        pair.non_secure_erase();
        Some(done)
    }

    fn from_bytes(bytes: Box<Zeroizing<[u8; 32]>>) -> Result<Self, KeyError> {
        let mut key = Self {
            bytes,
            public: PubKey([0; 32]),
        };
        let public = key.with_keypair(|pair| pair.x_only_public_key().0.to_byte_array());
        key.public = PubKey(public.ok_or(KeyError::Range)?);
        Ok(key)
    }
}

impl FromStr for SecretKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::parse(text)
    }
}

/// Shows the public key alone.
impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

/// A public key in its text form, `npub1…` (NIP-19).
#[must_use]
pub fn npub(key: &PubKey) -> String {
    write_bech32("npub", &key.0)
}

/// Reads a public key: 64 hex digits or `npub1…`.
///
/// # Errors
/// [`KeyError::Form`] for another text, [`KeyError::Range`] for a number that is no key.
pub fn parse_public_key(text: &str) -> Result<PubKey, KeyError> {
    let text = text.trim();
    let mut bytes = [0; 32];
    if starts_with(text, "npub1") {
        read_bech32(text, "npub", &mut bytes)?;
    } else {
        read_hex(text, &mut bytes).ok_or(KeyError::Form)?;
    }
    secp256k1::XOnlyPublicKey::from_byte_array(bytes).map_err(|_| KeyError::Range)?;
    Ok(PubKey(bytes))
}

/// Why a text gave no key. The text itself is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// Neither 64 hex digits nor the form of NIP-19 with its checksum.
    Form,
    /// A public key where a secret one is wanted.
    PublicKey,
    /// A number that is no key of secp256k1.
    Range,
    /// The file cannot be read.
    File(io::ErrorKind),
    /// The system has no random numbers.
    Random,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str(
                "a key is 64 hex digits, or nsec1… (secret) or npub1… (public) without a typing error",
            ),
            Self::PublicKey => f.write_str("this is a public key; a secret key begins with nsec1"),
            Self::Range => f.write_str("this number is not a key of secp256k1"),
            Self::File(kind) => write!(f, "the key file cannot be read: {kind}"),
            Self::Random => f.write_str("the system gave no random numbers for a key"),
        }
    }
}

impl std::error::Error for KeyError {}

/// Bech32 alone: a decoder that takes any checksum would accept Bech32m as well.
fn read_bech32(text: &str, prefix: &str, bytes: &mut [u8; 32]) -> Result<(), KeyError> {
    let checked = CheckedHrpstring::new::<Bech32>(text).map_err(|_| KeyError::Form)?;
    if checked.hrp() != Hrp::parse_unchecked(prefix) || checked.byte_iter().len() != bytes.len() {
        return Err(KeyError::Form);
    }
    for (place, byte) in bytes.iter_mut().zip(checked.byte_iter()) {
        *place = byte;
    }
    Ok(())
}

fn write_bech32(prefix: &str, bytes: &[u8]) -> String {
    let mut text = String::with_capacity(prefix.len() + 1 + 52 + 6);
    match bech32::encode_lower_to_fmt::<Bech32, _>(&mut text, Hrp::parse_unchecked(prefix), bytes) {
        Ok(()) => text,
        // Only data longer than Bech32 allows fails, and 32 bytes are not.
        Err(_) => {
            text.zeroize();
            text
        }
    }
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}
