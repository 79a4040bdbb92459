//! The tags of an event, walked where they stand, without allocation for what has no escapes.

use alloc::borrow::Cow;

use super::decode::Text;

/// The tags of an event, read as they are asked for.
#[derive(Clone, Debug)]
pub struct Tags<'a> {
    rest: &'a str,
}

impl<'a> Tags<'a> {
    /// The tags in `text`, which is known to be an array of arrays of strings.
    pub(super) fn new(text: &'a str) -> Self {
        let text = text.trim_start_matches(SPACE);
        let rest = text.strip_prefix('[').unwrap_or_default();
        Self { rest }
    }
}

impl<'a> Iterator for Tags<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        let text = self.rest.trim_start_matches(SEPARATORS).strip_prefix('[')?;
        let mut values = Values { rest: text };
        while values.next_quoted().is_some() {}
        self.rest = values
            .rest
            .trim_start_matches(SEPARATORS)
            .strip_prefix(']')?;
        Some(Tag { text })
    }
}

/// One tag: strings, the first of which is its name.
#[derive(Clone, Copy, Debug)]
pub struct Tag<'a> {
    text: &'a str,
}

impl<'a> Tag<'a> {
    /// The first string; empty when the tag has none.
    #[must_use]
    pub fn name(&self) -> Cow<'a, str> {
        self.value(0).unwrap_or_default()
    }

    /// The string at `place`: 0 is the name, 1 what NIP-01 calls the value.
    #[must_use]
    pub fn value(&self, place: usize) -> Option<Cow<'a, str>> {
        self.values().nth(place)
    }

    /// All strings, the name first.
    pub fn values(&self) -> impl Iterator<Item = Cow<'a, str>> + use<'a> {
        let mut values = Values { rest: self.text };
        core::iter::from_fn(move || values.next_quoted().map(unquoted))
    }
}

/// White space of JSON (RFC 8259 section 2).
pub(super) const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];
const SEPARATORS: [char; 5] = [' ', '\t', '\n', '\r', ','];

/// The strings of an array that is known to hold nothing else.
struct Values<'a> {
    rest: &'a str,
}

impl<'a> Values<'a> {
    /// The next string, with its quotes and escapes.
    fn next_quoted(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start_matches(SEPARATORS);
        let inner = text.strip_prefix('"')?;
        let mut letters = inner.bytes().enumerate();
        let end = loop {
            match letters.next()? {
                (place, b'"') => break place.checked_add(2)?,
                (_, b'\\') => drop(letters.next()),
                _ => {}
            }
        };
        let (quoted, rest) = text.split_at_checked(end)?;
        self.rest = rest;
        Some(quoted)
    }
}

/// A string of JSON without its quotes and escapes, borrowed where there are no escapes.
pub(super) fn unquoted(quoted: &str) -> Cow<'_, str> {
    let inner = quoted
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    match inner {
        Some(inner) if !inner.contains('\\') => Cow::Borrowed(inner),
        _ => serde_json::from_str::<Text<'_>>(quoted).map_or(Cow::Borrowed(""), |text| text.0),
    }
}
