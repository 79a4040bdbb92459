//! Client frames: reading them, and writing the relay's answers.

use serde_json::{Value, json};

use super::event::Event;
use super::filter::Filter;
use crate::keys::is_hex64;

/// The most filters of one REQ or COUNT.
pub const FILTERS_MAX: usize = 10;
/// The largest frame or reassembled message from a client, in bytes.
pub const FRAME_BYTES_MAX: usize = 524_288;
const SUBSCRIPTION_ID_BYTES_MAX: usize = 256;

/// A frame from a client.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientFrame {
    /// Publish.
    Event(Box<Submission>),
    /// Subscribe.
    Req {
        /// Subscription id.
        id: String,
        /// At least none, at most [`FILTERS_MAX`].
        filters: Vec<Filter>,
    },
    /// Count (NIP-45).
    Count {
        /// Query id.
        id: String,
        /// As for a REQ.
        filters: Vec<Filter>,
    },
    /// Unsubscribe.
    Close {
        /// Subscription id.
        id: String,
    },
    /// Authenticate (NIP-42).
    Auth(Box<Submission>),
}

/// An event from outside with the verdict on its id and signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The event as sent.
    pub event: Event,
    /// See [`Event::forgery`].
    pub forgery: Option<String>,
}

impl Submission {
    /// Checks id and signature.
    #[must_use]
    pub fn check(event: Event) -> Self {
        let forgery = event.forgery();
        Self { event, forgery }
    }
}

/// Reads a frame and checks the signature it carries.
///
/// # Errors
/// The text of the NOTICE that answers it.
pub fn parse(text: &str) -> Result<ClientFrame, String> {
    parse_body(text).map_err(|detail| format!("invalid message: Invalid message format: {detail}"))
}

pub(crate) fn parse_event(value: Value) -> Result<Event, String> {
    let event: Event = serde_json::from_value(value).map_err(|error| error.to_string())?;
    if !is_hex64(&event.id) {
        return Err("id: expected 64 hex digits".to_owned());
    }
    if !is_hex64(&event.pubkey) {
        return Err("pubkey: expected 64 hex digits".to_owned());
    }
    Ok(event)
}

pub(crate) fn ok(id: &str, accepted: bool, message: &str) -> String {
    json!(["OK", id, accepted, message]).to_string()
}

pub(crate) fn closed(id: &str, reason: &str) -> String {
    json!(["CLOSED", id, reason]).to_string()
}

pub(crate) fn notice(text: &str) -> String {
    json!(["NOTICE", text]).to_string()
}

pub(crate) fn eose(id: &str) -> String {
    json!(["EOSE", id]).to_string()
}

pub(crate) fn count(id: &str, count: usize) -> String {
    json!(["COUNT", id, { "count": count }]).to_string()
}

pub(crate) fn stored_event(id: &str, event_json: &str) -> String {
    format!("[\"EVENT\",{},{event_json}]", json!(id))
}

/// A live frame carries the subscription id unescaped, as a Buzz relay writes it: an id with a
/// quotation mark or a backslash makes the frame invalid JSON.
pub(crate) fn live_event(id: &str, event_json: &str) -> String {
    format!("[\"EVENT\",\"{id}\",{event_json}]")
}

fn parse_body(text: &str) -> Result<ClientFrame, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Value::Array(items) = value else {
        return Err("expected an array".to_owned());
    };
    let mut items = items.into_iter();
    let Some(Value::String(head)) = items.next() else {
        return Err("expected a message type".to_owned());
    };
    match head.as_str() {
        "EVENT" => Ok(ClientFrame::Event(submission(&mut items)?)),
        "AUTH" => Ok(ClientFrame::Auth(submission(&mut items)?)),
        "REQ" => {
            let id = subscription_id("REQ", &mut items)?;
            Ok(ClientFrame::Req {
                id,
                filters: filters("REQ", items)?,
            })
        }
        "COUNT" => {
            let id = subscription_id("COUNT", &mut items)?;
            Ok(ClientFrame::Count {
                id,
                filters: filters("COUNT", items)?,
            })
        }
        "CLOSE" => Ok(ClientFrame::Close {
            id: subscription_id("CLOSE", &mut items)?,
        }),
        other => Err(format!("unknown message type: {other}")),
    }
}

fn submission(items: &mut impl Iterator<Item = Value>) -> Result<Box<Submission>, String> {
    let Some(value) = items.next() else {
        return Err("invalid event: missing".to_owned());
    };
    let event = parse_event(value).map_err(|detail| format!("invalid event: {detail}"))?;
    Ok(Box::new(Submission::check(event)))
}

fn subscription_id(head: &str, items: &mut impl Iterator<Item = Value>) -> Result<String, String> {
    let Some(Value::String(id)) = items.next() else {
        return Err(format!("{head} sub_id must be a string"));
    };
    if id.is_empty() {
        return Err(format!("{head} sub_id must not be empty"));
    }
    if id.len() > SUBSCRIPTION_ID_BYTES_MAX {
        return Err(format!(
            "{head} sub_id exceeds maximum length of {SUBSCRIPTION_ID_BYTES_MAX} bytes"
        ));
    }
    Ok(id)
}

fn filters(head: &str, items: impl Iterator<Item = Value>) -> Result<Vec<Filter>, String> {
    let values: Vec<Value> = items.collect();
    if values.len() > FILTERS_MAX {
        let count = values.len();
        return Err(format!(
            "{head} contains {count} filters, maximum is {FILTERS_MAX}"
        ));
    }
    values
        .iter()
        .map(|value| Filter::parse(value).map_err(|detail| format!("invalid filter: {detail}")))
        .collect()
}
