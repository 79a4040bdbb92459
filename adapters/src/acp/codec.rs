//! Lines and JSON-RPC 2.0 messages, both directions. Reading is tolerant: agents differ in the
//! order of keys, send fields of later versions, and write other things to standard output.

use std::borrow::Cow;

use bytes::{Buf as _, BytesMut};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// JSON-RPC 2.0: the method does not exist.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;

/// JSON-RPC 2.0: the parameters are wrong.
pub(super) const INVALID_PARAMS: i64 = -32602;

/// ACP: someone has to log in first.
pub(super) const AUTH_REQUIRED: i64 = -32000;

/// ACP: a session or file was not found.
pub(super) const RESOURCE_NOT_FOUND: i64 = -32002;

/// Cuts a stream into lines of bounded length.
#[derive(Debug)]
pub(super) struct Lines {
    buffer: BytesMut,
    scanned: usize,
    bytes_max: usize,
}

/// A line is longer than its bound; the stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Lines {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            scanned: 0,
            bytes_max,
        }
    }

    /// Where what was read is put.
    pub(super) const fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next whole line, without its end.
    pub(super) fn next(&mut self) -> Result<Option<BytesMut>, TooLong> {
        let fresh = self.buffer.get(self.scanned..).unwrap_or_default();
        let Some(length) = fresh.iter().position(|byte| *byte == b'\n') else {
            self.scanned = self.buffer.len();
            return if self.scanned > self.bytes_max {
                Err(TooLong)
            } else {
                Ok(None)
            };
        };
        let line = self.buffer.split_to(self.scanned.saturating_add(length));
        self.buffer.advance(1);
        self.scanned = 0;
        if line.len() > self.bytes_max {
            return Err(TooLong);
        }
        Ok(Some(line))
    }
}

/// A line as text, in which all that no text can hold is `U+FFFD`: bytes that are not UTF-8, and
/// halves of surrogate pairs, which agents write that cut a text in the middle of a character. One
/// such character must not cost the message around it.
pub(super) fn mended(line: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(line);
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return text;
    }
    let mut mended = String::with_capacity(text.len());
    let mut rest: &str = &text;
    while let Some((head, tail)) = rest.split_once('\\') {
        mended.push_str(head);
        mended.push('\\');
        match (
            surrogate(tail),
            tail.get(5..)
                .and_then(|next| surrogate(next.strip_prefix('\\')?)),
        ) {
            (Some(Half::First), Some(Half::Second)) => {
                let (pair, after) = tail.split_at_checked(11).unwrap_or((tail, ""));
                mended.push_str(pair);
                rest = after;
            }
            (Some(Half::First | Half::Second), _) => {
                mended.push_str("ufffd");
                rest = tail.get(5..).unwrap_or_default();
            }
            (None, _) => {
                // What is escaped is no escape itself.
                let escaped = head_char(tail);
                mended.push_str(escaped);
                rest = tail.strip_prefix(escaped).unwrap_or_default();
            }
        }
    }
    mended.push_str(rest);
    Cow::Owned(mended)
}

/// A part of a character that UTF-16 writes in two.
#[derive(Clone, Copy)]
enum Half {
    First,
    Second,
}

/// Whether a text begins like `ud83d`, behind a backslash.
fn surrogate(text: &str) -> Option<Half> {
    let digits = text.strip_prefix('u')?.get(..4)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    match u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)? {
        0xd800..=0xdbff => Some(Half::First),
        0xdc00..=0xdfff => Some(Half::Second),
        _ => None,
    }
}

fn head_char(text: &str) -> &str {
    let length = text.chars().next().map_or(0, char::len_utf8);
    text.get(..length).unwrap_or_default()
}

/// What a line is.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    /// White space.
    Blank,
    /// No JSON at all.
    NotJson,
    /// JSON, but nothing that asks for or answers anything.
    Other,
    /// An answer to one of our requests.
    Response {
        id: u64,
        outcome: Result<Option<&'a RawValue>, RpcError>,
    },
    /// The peer wants an answer. Its id is echoed as it is: it lives apart from ours.
    Request {
        id: &'a RawValue,
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    /// The peer tells something.
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
}

impl<'a> Incoming<'a> {
    pub(super) fn read(line: &'a [u8]) -> Self {
        if line.trim_ascii().is_empty() {
            return Self::Blank;
        }
        let Ok(whole) = serde_json::from_slice::<&RawValue>(line) else {
            return Self::NotJson;
        };
        // A derived struct would also be read from an array.
        if !whole.get().starts_with('{') {
            return Self::Other;
        }
        let Ok(envelope) = serde_json::from_str::<Envelope<'a>>(whole.get()) else {
            return Self::Other;
        };
        let Envelope {
            id,
            method,
            params,
            result,
            error,
        } = envelope;
        match (id, method) {
            (Some(id), Some(method)) => Self::Request { id, method, params },
            (None, Some(method)) => Self::Notification { method, params },
            (Some(id), None) => match id.get().parse() {
                Ok(id) => Self::Response {
                    id,
                    outcome: error.map_or(Ok(result), |error| Err(RpcError::read(error))),
                },
                Err(_) => Self::Other,
            },
            (None, None) => Self::Other,
        }
    }
}

/// An error answer of JSON-RPC 2.0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<serde_json::Value>,
}

impl RpcError {
    fn read(error: &RawValue) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Fields {
            code: i64,
            message: String,
            data: Option<serde_json::Value>,
        }
        match serde_json::from_str(error.get()) {
            Ok(Fields {
                code,
                message,
                data,
            }) => Self {
                code,
                message,
                data,
            },
            Err(_) => Self {
                code: 0,
                message: error.get().to_owned(),
                data: None,
            },
        }
    }
}

/// A request of ours.
pub(super) fn request(id: u64, method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Request<'a, P> {
        jsonrpc: &'a str,
        id: u64,
        method: &'a str,
        params: &'a P,
    }
    line(&Request {
        jsonrpc: "2.0",
        id,
        method,
        params,
    })
}

/// A notification of ours.
pub(super) fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        jsonrpc: &'a str,
        method: &'a str,
        params: &'a P,
    }
    line(&Notification {
        jsonrpc: "2.0",
        method,
        params,
    })
}

/// Our answer to a request.
pub(super) fn response(id: &RawValue, result: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Response<'a, R> {
        jsonrpc: &'a str,
        id: &'a RawValue,
        result: &'a R,
    }
    line(&Response {
        jsonrpc: "2.0",
        id,
        result,
    })
}

/// Our refusal of a request.
pub(super) fn refusal(id: &RawValue, code: i64, message: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct Refusal<'a> {
        jsonrpc: &'a str,
        id: &'a RawValue,
        error: Reason<'a>,
    }
    #[derive(Serialize)]
    struct Reason<'a> {
        code: i64,
        message: &'a str,
    }
    line(&Refusal {
        jsonrpc: "2.0",
        id,
        error: Reason { code, message },
    })
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// A message as a line. Writing to memory fails only for maps whose keys are not text and paths
/// that are not UTF-8, and the empty line that then goes out is ignored by every reader.
fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_text_can_hold_is_replaced_and_nothing_else() {
        for (line, text) in [
            (
                &br#""plain \n \\ud83d \u00e4""#[..],
                r#""plain \n \\ud83d \u00e4""#,
            ),
            (br#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (br#""\uD83D\uDE00x""#, r#""\uD83D\uDE00x""#),
            (br#""a\ud83d""#, r#""a\ufffd""#),
            (br#""\ude00a""#, r#""\ufffda""#),
            (br#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (br#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
            (br#""\ud83d\n""#, r#""\ufffd\n""#),
            (br#""\\\ud83d""#, r#""\\\ufffd""#),
            (br#""\ud8"#, r#""\ud8"#),
            (br#""\ud83d\"#, r#""\ufffd\"#),
            (br#""\ud83\xc3\xa4""#, r#""\ud83\xc3\xa4""#),
            (b"\"\xff\xc3\xa4\"", "\"\u{fffd}\u{e4}\""),
        ] {
            assert_eq!(mended(line), text, "{line:?}");
        }
    }

    #[test]
    fn a_mended_message_can_be_read() {
        for half in [r"\ud83d", r"\ude00", r"\ud83d\ud83d"] {
            let line = format!(r#"{{"x":"a{half}b"}}"#);
            assert!(serde_json::from_str::<serde_json::Value>(&line).is_err());
            let mended = mended(line.as_bytes());
            assert!(
                serde_json::from_str::<serde_json::Value>(&mended).is_ok(),
                "{mended}"
            );
        }
    }
}
