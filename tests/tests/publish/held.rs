//! What a relay holds of us.

use std::collections::BTreeMap;

use buzz_proto::ids::EventId;
use buzz_proto::publish::Mark;
use buzz_proto::wire::Event;
use bytes::Bytes;

/// Reaction (NIP-25).
const REACTION: u32 = 7;
/// Deletion (NIP-09).
const DELETION: u32 = 5;

/// Whether an event is a step towards a mark.
pub(crate) fn is_of_mark(event: &Event) -> bool {
    matches!(event.head().kind, REACTION | DELETION)
}

#[derive(Default)]
pub(crate) struct Held {
    events: BTreeMap<EventId, Event>,
}

impl Held {
    /// Stores an event. A deletion takes away what it names.
    pub(crate) fn take(&mut self, event: &Event) {
        if event.head().kind == DELETION {
            let target = target(event);
            self.events.retain(|id, _| Some(*id) != target);
        }
        self.events.insert(event.id(), event.clone());
    }

    /// The answer to the question for an event.
    pub(crate) fn rows(&self, body: &Bytes) -> String {
        let filters: serde_json::Value = serde_json::from_slice(body).expect("filters");
        assert!(filters[0]["kinds"][0].is_u64(), "a question names kinds");
        let id = filters[0]["ids"][0]
            .as_str()
            .expect("a question names an id");
        let event = self.events.get(&id.parse().expect("an id"));
        let row = event.map(|event| String::from_utf8_lossy(event.raw()).into_owned());
        format!("[{}]", row.unwrap_or_default())
    }

    /// What a message bears.
    pub(crate) fn marks_of(&self, message: EventId) -> Vec<Mark> {
        let reactions = self
            .events
            .values()
            .filter(|event| event.head().kind == REACTION && target(event) == Some(message));
        reactions.map(mark).collect()
    }

    /// Whether a job that was signed more than once is stored more than once.
    pub(crate) fn has_repeats(&self) -> bool {
        let texts = self.events.values().map(text);
        let mut jobs: Vec<_> = texts.filter(|text| text.contains("job")).collect();
        let all = jobs.len();
        jobs.sort_unstable();
        jobs.dedup();
        jobs.len() < all
    }

    /// How many marks the message with the most of them bears.
    pub(crate) fn marks_max(&self) -> usize {
        let reactions = self
            .events
            .values()
            .filter(|event| event.head().kind == REACTION);
        let counts = reactions
            .filter_map(target)
            .map(|message| self.marks_of(message).len());
        counts.max().unwrap_or_default()
    }
}

/// An event without what its signature makes of it.
fn text(event: &Event) -> String {
    let raw = String::from_utf8_lossy(event.raw());
    let content = raw.split_once("\"content\"");
    content.map_or_else(String::new, |(_, content)| content.to_owned())
}

fn target(event: &Event) -> Option<EventId> {
    let tag = event.tags().find(|tag| tag.name() == "e")?;
    tag.value(1)?.parse().ok()
}

fn mark(event: &Event) -> Mark {
    match text(event) {
        text if text.contains("👀") => Mark::Seen,
        text if text.contains("⏳") => Mark::Waiting,
        text => panic!("no mark of ours: {text}"),
    }
}
