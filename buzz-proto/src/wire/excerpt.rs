//! Text of the peer that is fit to be shown: short, whole characters, nothing that moves a cursor.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt::{self, Write as _};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most bytes of a peer's text that are kept, so that no peer can flood a log.
pub const EXCERPT_BYTES_MAX: usize = 256;

/// The mark at the end of a text that was cut.
const CUT: char = '…';

/// At most [`EXCERPT_BYTES_MAX`] bytes of a peer's text, cut between characters. Control
/// characters, and those that reorder text, are written as `\u{…}`.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Excerpt(Box<str>);

impl Excerpt {
    /// The beginning of a text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self::of(&text)
    }

    /// The beginning of bytes that should be text; what is not UTF-8 becomes U+FFFD.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let head = bytes.get(..EXCERPT_BYTES_MAX.saturating_add(4));
        Self::of(&String::from_utf8_lossy(head.unwrap_or(bytes)))
    }

    /// The beginning of what a value displays. The value is not asked for more.
    #[must_use]
    pub fn of(value: &dyn fmt::Display) -> Self {
        let mut cutter = Cutter::default();
        // An error only says that enough was written.
        let is_whole = write!(cutter, "{value}").is_ok();
        Self(cutter.finish(is_whole).into_boxed_str())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for Excerpt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Excerpt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer).map(|text| Self::new(&text))
    }
}

#[derive(Default)]
struct Cutter {
    text: String,
}

impl Cutter {
    fn finish(mut self, is_whole: bool) -> String {
        if is_whole {
            return self.text;
        }
        while self.text.len().saturating_add(CUT.len_utf8()) > EXCERPT_BYTES_MAX {
            self.text.pop();
        }
        self.text.push(CUT);
        self.text
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.text.len().saturating_add(bytes) <= EXCERPT_BYTES_MAX
    }
}

impl fmt::Write for Cutter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if !moves_the_cursor(letter) {
                self.has_room(letter.len_utf8())
                    .then(|| self.text.push(letter))
                    .ok_or(fmt::Error)?;
                continue;
            }
            let escape = letter.escape_unicode();
            self.has_room(escape.len())
                .then(|| self.text.extend(escape))
                .ok_or(fmt::Error)?;
        }
        Ok(())
    }
}

/// Control characters, line and paragraph separators, and the marks that change the direction of
/// writing.
fn moves_the_cursor(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{061c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}
