//! Frames of a relay and of a client: recorded ones, made ones, and what no honest peer sends.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its support too"
)]

mod events;
mod hostile;
mod recorded;
mod speaks_for;

use buzz_proto::wire::{self, FRAME_BYTES_MAX, Reason, RelayFrame};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

const FRAMES: &str = include_str!("../data/frames.jsonl");

#[derive(Deserialize)]
pub(crate) struct Record<'a> {
    pub(crate) direction: &'a str,
    #[serde(borrow)]
    pub(crate) frame: &'a RawValue,
}

pub(crate) fn records() -> impl Iterator<Item = Record<'static>> {
    FRAMES
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
}

pub(crate) fn relay_frames() -> impl Iterator<Item = &'static str> {
    records()
        .filter(|record| record.direction == "relay->client")
        .map(|record| record.frame.get())
        .filter(|text| text.starts_with('['))
}

pub(crate) fn decode(text: &str) -> Result<RelayFrame, wire::DecodeError> {
    wire::decode(&Bytes::from(text.to_owned()), FRAME_BYTES_MAX)
}

/// A well-formed event of kind 9 with further text among its keys and its tags.
pub(crate) fn event_with(keys: &str, tags: &str) -> String {
    let (id, author, sig) = ("0".repeat(64), "1".repeat(64), "2".repeat(128));
    format!(
        concat!(
            r#"{{{}"id":"{}","pubkey":"{}","created_at":5,"kind":9,"#,
            r#""tags":[["h","{}"]{}],"content":"hello","sig":"{}"}}"#,
        ),
        keys, id, author, "0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501", tags, sig
    )
}

pub(crate) fn told(frame: &RelayFrame) -> String {
    match frame {
        RelayFrame::Event { sub, event } => format!("Event {sub} {}", event.kind()),
        RelayFrame::Ok {
            event,
            accepted,
            reason,
        } => {
            format!("Ok {} {accepted} {}", event.is_some(), said(reason))
        }
        RelayFrame::Eose { sub } => format!("Eose {sub}"),
        RelayFrame::Closed { sub, reason } => format!("Closed {sub} {}", said(reason)),
        RelayFrame::Notice { reason } => format!("Notice {}", said(reason)),
        RelayFrame::Auth { challenge } => format!("Auth {}", challenge.len()),
        RelayFrame::Count { sub, count } => format!("Count {sub} {count}"),
        RelayFrame::SyncRequired { reason } => format!("SyncRequired {reason}"),
        RelayFrame::Unknown { verb } => format!("Unknown {verb}"),
    }
}

/// The class of a reason, and the wait it asks for.
pub(crate) fn said(reason: &Reason) -> String {
    match reason.wait() {
        Some(wait) => format!("{:?} {wait:?}", reason.class),
        None => format!("{:?}", reason.class),
    }
}
