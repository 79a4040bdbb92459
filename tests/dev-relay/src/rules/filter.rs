//! Filters (NIP-01, NIP-50) and their two-step evaluation.
//!
//! A Buzz relay hands part of a filter to its database, together with the limit, and checks the
//! rest afterwards. A page can therefore be short although more matches exist.

use std::collections::BTreeMap;

use serde_json::Value;

use super::event::{Event, Filed};
use crate::keys::is_hex64;

/// The most events of one filter, and the number when the filter names none.
pub const LIMIT_MAX: usize = 1000;

/// One filter of a REQ, a COUNT or a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Full event ids.
    pub ids: Option<Vec<String>>,
    /// Full public keys.
    pub authors: Option<Vec<String>>,
    /// Kinds; an empty list matches nothing.
    pub kinds: Option<Vec<u32>>,
    /// Lower bound of `created_at`, inclusive.
    pub since: Option<u64>,
    /// Upper bound of `created_at`, inclusive.
    pub until: Option<u64>,
    /// The most stored events; see [`LIMIT_MAX`].
    pub limit: Option<usize>,
    /// Values by single-letter tag name.
    pub tags: BTreeMap<char, Vec<String>>,
    /// NIP-50 search text.
    pub search: Option<String>,
    /// Strict cursor of the HTTP query: within the second `until`, only ids above this one.
    pub before_id: Option<String>,
}

impl Filter {
    /// Reads a filter from JSON. Unknown members are ignored.
    ///
    /// # Errors
    /// The text after `invalid filter: `.
    pub fn parse(value: &Value) -> Result<Self, String> {
        let Some(members) = value.as_object() else {
            return Err("expected an object".to_owned());
        };
        let mut filter = Self::default();
        for (name, value) in members {
            match name.as_str() {
                "ids" => filter.ids = Some(full_hex(name, value)?),
                "authors" => filter.authors = Some(full_hex(name, value)?),
                "kinds" => filter.kinds = Some(numbers(value)?),
                "since" => filter.since = Some(number(name, value)?),
                "until" => filter.until = Some(number(name, value)?),
                "limit" => {
                    let limit = number(name, value)?;
                    filter.limit = Some(usize::try_from(limit).unwrap_or(usize::MAX));
                }
                "search" => filter.search = Some(string(name, value)?),
                "before_id" => filter.before_id = Some(string(name, value)?),
                other => {
                    if let Some(letter) = single_letter(other) {
                        filter.tags.insert(letter, strings(name, value)?);
                    }
                }
            }
        }
        Ok(filter)
    }

    /// The number of stored events this filter may deliver.
    #[must_use]
    pub fn effective_limit(&self) -> usize {
        self.limit.unwrap_or(LIMIT_MAX).min(LIMIT_MAX)
    }

    /// Whether an event matches, time bounds included.
    #[must_use]
    pub fn matches(&self, filed: &Filed) -> bool {
        self.database_matches(filed) && self.rest_matches(filed)
    }

    /// The part evaluated before the limit is applied.
    pub(crate) fn database_matches(&self, filed: &Filed) -> bool {
        let event = &filed.event;
        let channel_fits = match self.channels() {
            [only] => is_in_channel(filed, only),
            _ => true,
        };
        channel_fits
            && contains(self.ids.as_deref(), &event.id)
            && contains(self.authors.as_deref(), &event.pubkey)
            && self
                .kinds
                .as_ref()
                .is_none_or(|kinds| kinds.contains(&event.kind))
            && self.since.is_none_or(|since| event.created_at >= since)
            && self.until.is_none_or(|until| event.created_at <= until)
            && self.tags.iter().all(|(name, values)| {
                !self.is_database_tag(*name, values) || tag_matches(event, *name, values)
            })
    }

    /// The part evaluated on the page that the database returned.
    pub(crate) fn rest_matches(&self, filed: &Filed) -> bool {
        self.tags.iter().all(|(name, values)| match name {
            'h' => values.iter().any(|value| is_in_channel(filed, value)),
            _ => self.is_database_tag(*name, values) || tag_matches(&filed.event, *name, values),
        }) && self
            .search
            .as_ref()
            .is_none_or(|text| search_matches(text, &filed.event))
    }

    /// Whether the database alone can answer it.
    pub(crate) fn is_answered_by_database(&self) -> bool {
        self.search.is_none()
            && self.tags.iter().all(|(name, values)| {
                self.is_database_tag(*name, values) || (*name == 'h' && values.len() == 1)
            })
    }

    /// The values of `#h`.
    #[must_use]
    pub fn channels(&self) -> &[String] {
        self.tags.get(&'h').map_or(&[], Vec::as_slice)
    }

    fn is_database_tag(&self, name: char, values: &[String]) -> bool {
        match name {
            'e' => true,
            'p' => values.len() == 1,
            'd' => self.kinds.as_ref().is_some_and(|kinds| {
                !kinds.is_empty() && kinds.iter().all(|kind| (30_000..40_000).contains(kind))
            }),
            _ => false,
        }
    }
}

/// Whether a text is a UUID in the hyphenated lower-case form channels use.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn is_in_channel(filed: &Filed, channel: &str) -> bool {
    filed.channel.as_deref() == Some(channel)
        || filed.event.tag_values("h").any(|value| value == channel)
}

fn tag_matches(event: &Event, name: char, values: &[String]) -> bool {
    let mut buffer = [0; 4];
    let name: &str = name.encode_utf8(&mut buffer);
    event
        .tag_values(name)
        .any(|value| values.iter().any(|wanted| wanted == value))
}

fn search_matches(text: &str, event: &Event) -> bool {
    if !matches!(event.kind, 0 | 9 | 40_002 | 45_001 | 45_003) {
        return false;
    }
    let content = event.content.to_lowercase();
    let words: Vec<&str> = content.split(|c: char| !c.is_alphanumeric()).collect();
    text.to_lowercase()
        .split_whitespace()
        .all(|word| words.contains(&word))
}

fn contains(wanted: Option<&[String]>, value: &str) -> bool {
    wanted.is_none_or(|wanted| wanted.iter().any(|one| one == value))
}

fn single_letter(name: &str) -> Option<char> {
    let mut letters = name.strip_prefix('#')?.chars();
    let letter = letters.next()?;
    (letters.next().is_none() && letter.is_ascii_alphabetic()).then_some(letter)
}

fn full_hex(name: &str, value: &Value) -> Result<Vec<String>, String> {
    let values = strings(name, value)?;
    if let Some(bad) = values.iter().find(|value| !is_hex64(value)) {
        return Err(format!(
            "{name}: expected 64 hex digits, got {} characters",
            bad.len()
        ));
    }
    Ok(values)
}

fn strings(name: &str, value: &Value) -> Result<Vec<String>, String> {
    let Some(values) = value.as_array() else {
        return Err(format!("{name}: expected a list"));
    };
    values.iter().map(|value| string(name, value)).collect()
}

fn string(name: &str, value: &Value) -> Result<String, String> {
    value
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| format!("{name}: expected a string"))
}

fn number(name: &str, value: &Value) -> Result<u64, String> {
    value
        .as_u64()
        .ok_or_else(|| format!("{name}: expected an unsigned integer"))
}

fn numbers(value: &Value) -> Result<Vec<u32>, String> {
    let Some(values) = value.as_array() else {
        return Err("kinds: expected a list".to_owned());
    };
    values
        .iter()
        .map(|value| {
            let number = number("kinds", value)?;
            u32::try_from(number).map_err(|_| "kinds: number too large".to_owned())
        })
        .collect()
}
