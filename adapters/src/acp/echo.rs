//! The smallest agent: answers each prompt with the last message in it. For trying things out.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::codec::{self, Incoming, Lines};
use super::{head, prompt};

/// The oldest session is forgotten when there are more, so that memory has a bound.
const SESSIONS_MAX: usize = 1024;

/// The longest line that is read.
const LINE_BYTES_MAX: usize = 10_000_000;

/// An answer comes in so many chunks.
const CHUNKS: usize = 3;

/// Speaks ACP version 1 as an agent until `input` ends.
///
/// # Errors
/// When a stream fails, or a line is longer than 10,000,000 bytes.
pub fn run(mut input: impl BufRead, output: impl Write) -> io::Result<()> {
    let mut lines = Lines::new(LINE_BYTES_MAX);
    let mut echo = Echo {
        output,
        sessions: BTreeSet::new(),
        opened: 0,
    };
    loop {
        let bytes = input.fill_buf()?;
        let length = bytes.len();
        if length == 0 {
            return Ok(());
        }
        lines.buffer().extend_from_slice(bytes);
        input.consume(length);
        while let Some(line) = lines.next().map_err(|codec::TooLong| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "a line of the client is too long",
            )
        })? {
            if let Incoming::Request { id, method, params } = Incoming::read(&line) {
                echo.answer(id, &method, params)?;
            }
        }
    }
}

struct Echo<W> {
    output: W,
    sessions: BTreeSet<u64>,
    opened: u64,
}

impl<W: Write> Echo<W> {
    fn answer(&mut self, id: &RawValue, method: &str, params: Option<&RawValue>) -> io::Result<()> {
        let params = params.map_or("{}", RawValue::get);
        let line = match method {
            "initialize" => codec::response(
                id,
                &json!({
                    "protocolVersion": 1,
                    "agentCapabilities": {"sessionCapabilities": {"close": {}}},
                    "agentInfo": {"name": "buzz-echo", "version": env!("CARGO_PKG_VERSION")},
                }),
            ),
            "session/new" => {
                self.opened = self.opened.wrapping_add(1);
                self.sessions.insert(self.opened);
                if self.sessions.len() > SESSIONS_MAX {
                    self.sessions.pop_first();
                }
                codec::response(id, &json!({"sessionId": self.opened.to_string()}))
            }
            "session/close" => {
                if let Ok(Session { session }) = serde_json::from_str(params) {
                    self.sessions.remove(&session.parse().unwrap_or_default());
                }
                codec::response(id, &json!({}))
            }
            "session/prompt" => self.prompt(id, params)?,
            _ => codec::refusal(id, codec::METHOD_NOT_FOUND, "Method not found"),
        };
        self.output.write_all(&line)?;
        self.output.flush()
    }

    fn prompt(&mut self, id: &RawValue, params: &str) -> io::Result<Vec<u8>> {
        let Ok(Prompt { session, prompt }) = serde_json::from_str(params) else {
            return Ok(codec::refusal(id, codec::INVALID_PARAMS, "Invalid params"));
        };
        let is_known = session
            .parse()
            .is_ok_and(|number| self.sessions.contains(&number));
        if !is_known {
            return Ok(codec::refusal(
                id,
                codec::RESOURCE_NOT_FOUND,
                "Session not found",
            ));
        }
        let text = prompt
            .last()
            .map_or("", |block| prompt::message(&block.text));
        for chunk in pieces(text) {
            let update = json!({
                "sessionId": session,
                "update": {
                    "sessionUpdate": "agent_message_chunk",
                    "content": {"type": "text", "text": chunk},
                },
            });
            let line = codec::notification("session/update", &update);
            self.output.write_all(&line)?;
        }
        Ok(codec::response(id, &json!({"stopReason": "end_turn"})))
    }
}

#[derive(Deserialize)]
struct Session {
    #[serde(rename = "sessionId")]
    session: String,
}

#[derive(Deserialize)]
struct Prompt {
    #[serde(rename = "sessionId")]
    session: String,
    prompt: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(default)]
    text: String,
}

/// The text in about [`CHUNKS`] pieces, cut between characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    // Whole characters of at most four bytes: every piece takes at least one.
    let length = text.len().div_ceil(CHUNKS).max(4);
    let mut rest = text;
    std::iter::from_fn(move || {
        let piece = head(rest, length);
        rest = &rest[piece.len()..];
        (!piece.is_empty()).then_some(piece)
    })
}
