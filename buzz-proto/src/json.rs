//! The JSON forms that several types share: bytes as text, spans in nanoseconds.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Bytes as a string when they are UTF-8, else as `{"b64": "…"}` (RFC 4648 section 4, padded).
pub mod text {
    use bytes::Bytes;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Form;

    /// Writes the form.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        Form::of(bytes).serialize(serializer)
    }

    /// Reads the form.
    ///
    /// # Errors
    /// When it is neither a string nor an object with valid base64.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let form = Form::deserialize(deserializer)?;
        form.into_bytes()
            .ok_or_else(|| D::Error::custom("b64 is not padded base64"))
    }
}

/// As [`text`], or null.
pub mod optional_text {
    use bytes::Bytes;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Form;

    /// Writes the form.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(
        bytes: &Option<Bytes>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(Form::of).serialize(serializer)
    }

    /// Reads the form.
    ///
    /// # Errors
    /// When it is not null, a string or an object with valid base64.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Bytes>, D::Error> {
        let Some(form) = Option::<Form<'_>>::deserialize(deserializer)? else {
            return Ok(None);
        };
        form.into_bytes()
            .map(Some)
            .ok_or_else(|| D::Error::custom("b64 is not padded base64"))
    }
}

/// A span as whole nanoseconds, at most 584 years.
pub mod nanos {
    use core::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the form.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Reads the form.
    ///
    /// # Errors
    /// When it is not an unsigned 64-bit integer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_nanos)
    }
}

/// As [`nanos`], or null.
pub mod optional_nanos {
    use core::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the form.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(
        span: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let nanos = span.map(|span| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        nanos.serialize(serializer)
    }

    /// Reads the form.
    ///
    /// # Errors
    /// When it is neither null nor an unsigned 64-bit integer.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_nanos))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Form<'a> {
    Text(Cow<'a, str>),
    Binary { b64: String },
}

impl<'a> Form<'a> {
    fn of(bytes: &'a Bytes) -> Self {
        match core::str::from_utf8(bytes) {
            Ok(text) => Self::Text(Cow::Borrowed(text)),
            Err(_) => Self::Binary { b64: encode(bytes) },
        }
    }

    fn into_bytes(self) -> Option<Bytes> {
        match self {
            Self::Text(text) => Some(Bytes::from(text.into_owned())),
            Self::Binary { b64 } => decode(&b64).map(Bytes::from),
        }
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
    for chunk in bytes.chunks(3) {
        let mut word = 0_u32;
        for place in 0..3 {
            word = word << 8 | u32::from(chunk.get(place).copied().unwrap_or(0));
        }
        for place in 0..4_usize {
            let digit = word >> 18 & 63;
            word <<= 6;
            let letter = ALPHABET.get(digit as usize).copied().unwrap_or(b'A');
            out.push(if place > chunk.len() {
                '='
            } else {
                char::from(letter)
            });
        }
    }
    out
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut chunks = text.as_bytes().chunks(4).peekable();
    while let Some(chunk) = chunks.next() {
        let padding = chunk
            .iter()
            .rev()
            .take_while(|letter| **letter == b'=')
            .count();
        if padding > 2 || (padding > 0 && chunks.peek().is_some()) {
            return None;
        }
        let mut word = 0_u32;
        for letter in chunk.iter().take(4_usize.saturating_sub(padding)) {
            let digit = ALPHABET.iter().position(|candidate| candidate == letter)?;
            word = word << 6 | u32::try_from(digit).ok()?;
        }
        word = word.checked_shl(u32::try_from(padding).ok()?.saturating_mul(6))?;
        let [_, bytes @ ..] = word.to_be_bytes();
        out.extend(bytes.iter().take(3_usize.saturating_sub(padding)));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Holder(#[serde(with = "text")] Bytes);

    #[test]
    fn text_stays_text_and_other_bytes_become_base64() {
        for (bytes, form) in [
            (&b"hi \"you\""[..], r#""hi \"you\"""#),
            (&b"\xff"[..], r#"{"b64":"/w=="}"#),
            (&b"\xff\xfe"[..], r#"{"b64":"//4="}"#),
            (&b"\xff\xfe\xfd\xfc"[..], r#"{"b64":"//79/A=="}"#),
        ] {
            let holder = Holder(Bytes::copy_from_slice(bytes));
            let written = serde_json::to_string(&holder).unwrap();
            assert_eq!(written, form);
            let read: Holder = serde_json::from_str(&written).unwrap();
            assert_eq!(read.0, bytes);
        }
    }

    #[test]
    fn base64_that_is_cut_or_foreign_is_refused() {
        for form in [
            r#"{"b64":"/w="}"#,
            r#"{"b64":"=AAA"}"#,
            r#"{"b64":"/w==AAAA"}"#,
            r#"{"b64":"*w=="}"#,
        ] {
            assert!(serde_json::from_str::<Holder>(form).is_err(), "{form}");
        }
    }
}
