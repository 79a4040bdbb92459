//! Identities. Numbers of ours that name an effect, and names of the protocol in their text forms.

use alloc::borrow::Cow;
use core::fmt;
use core::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Declares a number that names an effect; its completion echoes it.
macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The present value; the next call gives the one after it.
            #[must_use]
            pub const fn take(&mut self) -> Self {
                let taken = *self;
                self.0 = self.0.wrapping_add(1);
                taken
            }
        }
    };
}

counter! {
    /// One dial and the socket that came of it.
    ConnId
}
counter! {
    /// One frame written to a socket.
    WriteId
}
counter! {
    /// One call to the outside: a signature, a verification, an HTTP request.
    Ticket
}
counter! {
    /// One event to publish, from submission to verdict.
    JobId
}
counter! {
    /// One turn of a worker.
    TurnId
}

/// Declares a fixed number of bytes written as lower-case hex.
macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 32]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            /// Reads 64 hex digits of either case.
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                read_hex(text).map(Self).ok_or(ParseIdError)
            }
        }

        text_form!($name);
    };
}

/// Serde through `Display` and `FromStr`.
macro_rules! text_form {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Cow::<'de, str>::deserialize(deserializer)?
                    .parse()
                    .map_err(D::Error::custom)
            }
        }
    };
}

hex_id! {
    /// The id of an event: SHA-256 of its canonical form (NIP-01).
    EventId
}
hex_id! {
    /// An author: an x-only secp256k1 public key (NIP-01, BIP-340).
    PubKey
}

/// A channel: a UUID, the value of `h` tags (NIP-29).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub [u8; 16]);

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ChannelId {
    type Err = ParseIdError;

    /// Reads the hyphenated form (RFC 9562), of either case.
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        const HYPHENS: [usize; 4] = [8, 13, 18, 23];
        let mut id = [0; 16];
        let mut places = id.iter_mut();
        let mut high = None;
        if text.len() != 36 {
            return Err(ParseIdError);
        }
        for (place, letter) in text.bytes().enumerate() {
            if HYPHENS.contains(&place) {
                if letter != b'-' {
                    return Err(ParseIdError);
                }
                continue;
            }
            let digit = hex_digit(letter).ok_or(ParseIdError)?;
            match high.take() {
                None => high = Some(digit),
                Some(high) => *places.next().ok_or(ParseIdError)? = high << 4 | digit,
            }
        }
        Ok(Self(id))
    }
}

text_form!(ChannelId);

/// The text is not the written form of such an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseIdError;

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected 64 hex digits, or a hyphenated UUID for a channel")
    }
}

impl core::error::Error for ParseIdError {}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

fn read_hex(text: &str) -> Option<[u8; 32]> {
    let mut id = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (place, pair) in id.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *place = hex_digit(*high)? << 4 | hex_digit(*low)?;
    }
    Some(id)
}

const fn hex_digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter.wrapping_sub(b'0')),
        b'a'..=b'f' => Some(letter.wrapping_sub(b'a').wrapping_add(10)),
        b'A'..=b'F' => Some(letter.wrapping_sub(b'A').wrapping_add(10)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn ids_survive_their_written_form() {
        let id: EventId = "02ab32d1fd4f0a3ad03c45c52a40871f468abc416ec181f6eebfc3226cc4753C"
            .parse()
            .unwrap();
        assert_eq!(id.to_string().parse::<EventId>().unwrap(), id);
        let channel: ChannelId = "0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501".parse().unwrap();
        assert_eq!(channel.to_string(), "0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501");
    }

    #[test]
    fn malformed_ids_are_refused() {
        for text in ["", "02ab", &"g".repeat(64), &"é".repeat(32)] {
            assert!(text.parse::<EventId>().is_err());
        }
        for text in [
            "",
            "0c6d1f3a052b7-4e19-9a84-7f2be0c1d501",
            "0c6d1f3a-52b7-4e19-9a84-7f2be0c1d50z",
        ] {
            assert!(text.parse::<ChannelId>().is_err());
        }
    }
}
