//! The text of an answer, collected from what is streamed.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::head;

/// Said at the end of an answer that was cut.
const CUT: &str = "\n\n[cut: the answer is longer]";

/// What was streamed so far.
#[derive(Debug)]
pub(super) struct Reply {
    text: String,
    message: Option<String>,
    is_cut: bool,
    bytes_max: usize,
}

impl Reply {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self {
            text: String::new(),
            message: None,
            is_cut: false,
            bytes_max,
        }
    }

    /// Adds a chunk. Where the agent begins another message, a paragraph begins.
    pub(super) fn add(&mut self, chunk: Chunk) {
        let is_next = chunk.message.is_some() && self.message.is_some();
        if is_next && chunk.message != self.message && !self.text.is_empty() {
            self.append("\n\n");
        }
        self.message = chunk.message.or(self.message.take());
        self.append(&chunk.text);
    }

    pub(super) fn finish(mut self) -> String {
        if self.is_cut {
            self.text.push_str(CUT);
        }
        self.text
    }

    fn append(&mut self, text: &str) {
        if self.is_cut {
            return;
        }
        let room = self.bytes_max.saturating_sub(self.text.len());
        let kept = head(text, room);
        self.is_cut = kept.len() < text.len();
        self.text.push_str(kept);
    }
}

/// Text that belongs to the answer.
#[derive(Debug)]
pub(super) struct Chunk {
    text: String,
    message: Option<String>,
}

/// What `session/update` says, as far as it matters here. The official types know a closed set of
/// updates and contents; agents send others.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) session: String,
    pub(super) chunk: Option<Chunk>,
}

impl Update {
    pub(super) fn read(params: Option<&RawValue>) -> Option<Self> {
        let params: Params<'_> = serde_json::from_str(params?.get()).ok()?;
        let update: Body = serde_json::from_str(params.update.get()).unwrap_or_default();
        let chunk = (update.kind == "agent_message_chunk" && update.content.kind == "text")
            .then_some(Chunk {
                text: update.content.text,
                message: update.message,
            });
        Some(Self {
            session: params.session,
            chunk,
        })
    }
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(rename = "sessionId")]
    session: String,
    #[serde(borrow)]
    update: &'a RawValue,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    #[serde(rename = "sessionUpdate")]
    kind: String,
    #[serde(deserialize_with = "lenient")]
    content: Content,
    #[serde(rename = "messageId")]
    message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Content {
    #[serde(rename = "type")]
    kind: String,
    text: String,
}

/// Other updates have content of other shapes.
fn lenient<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}
