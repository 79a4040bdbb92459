//! The form of a state file: a JSON object, each record on a line of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write as _};

use buzz_proto::ids::PubKey;
use buzz_proto::relay::{Record, Sub};
use serde::Deserialize;

/// The one form that is known. Whatever changes the meaning of a file gets the next number.
const VERSION: u64 = 1;

/// Whose state it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// `ws://` or `wss://`, host and port: people put tokens into paths and queries.
    pub(super) relay: String,
    pub(super) key: PubKey,
}

/// Why a file says nothing.
#[derive(Debug)]
pub(super) enum Unusable {
    Json(serde_json::Error),
    Version(u64),
    /// It was made for another relay or key.
    Foreign,
    Twice(Sub),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "it is not as this program writes it: {error}"),
            Self::Version(version) if *version > VERSION => write!(
                f,
                "a later program wrote it (version {version}; this one knows {VERSION})"
            ),
            Self::Version(version) => {
                write!(f, "it has version {version}; this program knows {VERSION}")
            }
            Self::Foreign => f.write_str("it belongs to another relay or key"),
            Self::Twice(sub) => write!(f, "it has two records of {sub}"),
        }
    }
}

#[derive(Deserialize)]
struct Head {
    version: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(rename = "version")]
    _version: u64,
    relay: String,
    key: PubKey,
    records: Vec<Record>,
}

/// The text of a file.
///
/// # Errors
/// None that is known: writing to memory does not fail.
pub(super) fn encode(owner: &Owner, records: &BTreeMap<Sub, Record>) -> io::Result<Vec<u8>> {
    let Owner { relay, key } = owner;
    let relay = serde_json::to_string(relay)?;
    let mut text = Vec::new();
    write!(
        text,
        r#"{{"version":{VERSION},"relay":{relay},"key":"{key}","records":["#
    )?;
    for (number, record) in records.values().enumerate() {
        text.extend_from_slice(if number == 0 { b"\n" } else { b",\n" });
        serde_json::to_writer(&mut text, record)?;
    }
    text.extend_from_slice(b"\n]}\n");
    Ok(text)
}

/// The records of a file.
///
/// # Errors
/// Any part that is not as expected: what a file says is believed as a whole or not at all.
pub(super) fn decode(text: &[u8], owner: &Owner) -> Result<BTreeMap<Sub, Record>, Unusable> {
    // Another version may have other fields, so its number is looked at alone.
    let Head { version } = serde_json::from_slice(text).map_err(Unusable::Json)?;
    if version != VERSION {
        return Err(Unusable::Version(version));
    }
    let document: Document = serde_json::from_slice(text).map_err(Unusable::Json)?;
    if document.relay != owner.relay || document.key != owner.key {
        return Err(Unusable::Foreign);
    }
    let mut records = BTreeMap::new();
    for record in document.records {
        let sub = record.sub;
        if records.insert(sub, record).is_some() {
            return Err(Unusable::Twice(sub));
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use buzz_proto::ids::{ChannelId, EventId};
    use buzz_proto::relay::{Done, Started};
    use buzz_proto::time::UnixTime;

    use super::*;

    fn owner() -> Owner {
        Owner {
            relay: "wss://relay.example".into(),
            key: PubKey([7; 32]),
        }
    }

    fn records() -> BTreeMap<Sub, Record> {
        let event = EventId([1; 32]);
        let record = |sub| Record {
            sub,
            settled: UnixTime(1_700_000_000),
            done: vec![Done {
                dated: UnixTime(1_700_000_001),
                event,
            }],
            started: vec![Started {
                dated: UnixTime(1_800_000_000),
                event,
                target: EventId([2; 32]),
                lives: 2,
            }],
        };
        let subs = [Sub::Membership, Sub::Channel(ChannelId([3; 16]))];
        subs.map(|sub| (sub, record(sub))).into()
    }

    #[test]
    fn what_was_written_is_read_back() {
        for records in [BTreeMap::new(), records()] {
            let text = encode(&owner(), &records).unwrap();
            assert_eq!(decode(&text, &owner()).unwrap(), records);
        }
    }

    #[test]
    fn a_file_can_be_read_by_people_line_by_line() {
        let text = String::from_utf8(encode(&owner(), &records()).unwrap()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let key = "07".repeat(32);
        let head =
            format!(r#"{{"version":1,"relay":"wss://relay.example","key":"{key}","records":["#);
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0], head);
        assert!(lines[1].starts_with(r#"{"sub":"Membership","settled":1700000000,"done":[{"#));
        assert!(lines[2].starts_with(r#"{"sub":{"Channel":"#));
        assert_eq!(lines[3], "]}");
    }

    #[test]
    fn anything_that_is_not_as_it_was_written_is_refused() {
        let text = String::from_utf8(encode(&owner(), &records()).unwrap()).unwrap();
        let line = text.lines().nth(1).unwrap();
        for (changed, why) in [
            (String::new(), "it is not as this program writes it"),
            (
                text.replace("]}\n", ""),
                "it is not as this program writes it",
            ),
            (format!("{text}{{}}"), "trailing characters"),
            (
                text.replace("\"relay\"", "\"x\":1,\"relay\""),
                "unknown field `x`",
            ),
            (
                text.replace("\"done\"", "\"x\":1,\"done\""),
                "unknown field `x`",
            ),
            (text.replace("\"key\"", "\"y\""), "unknown field `y`"),
            (
                text.replace("\"version\":1,", ""),
                "missing field `version`",
            ),
            (
                text.replace("\"version\":1,", "\"version\":0,"),
                "it has version 0",
            ),
            (
                text.replace("\"version\":1,", "\"version\":2,\"x\":1,"),
                "a later program wrote it (version 2; this one knows 1)",
            ),
            (
                text.replace("relay.example", "other.example"),
                "another relay or key",
            ),
            (
                text.replace(&"07".repeat(32), &"08".repeat(32)),
                "another relay or key",
            ),
            (
                text.replace(line, &format!("{line}\n{line}")),
                "two records of membership",
            ),
        ] {
            let unusable = decode(changed.as_bytes(), &owner())
                .unwrap_err()
                .to_string();
            assert!(unusable.contains(why), "{unusable:?} does not say {why:?}");
        }
    }
}
