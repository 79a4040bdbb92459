//! What a peer writes: frames, events, answers and texts.

use buzz_proto::retry_hint::WAIT_MAX;
use buzz_proto::wire::{
    self, Draft, EXCERPT_BYTES_MAX, Event, Excerpt, FRAME_BYTES_MAX, Filter, OwnerCommand, Reason,
    RelayFrame, SubName,
};
use bytes::Bytes;
use serde_json::Value;

/// The first byte chooses the reader, the others are what it reads.
///
/// What is read as an event says the same to a generic reader of JSON, and what was read and is
/// written reads the same again.
pub fn wire(bytes: &[u8]) {
    let Some((reader, rest)) = bytes.split_first() else {
        return;
    };
    let raw = Bytes::copy_from_slice(rest);
    match reader % 6 {
        0 => frame(&raw),
        1 => events(&raw),
        2 => event(&raw),
        3 => draft(&raw),
        4 => answers(&raw),
        _ => texts(&String::from_utf8_lossy(rest)),
    }
}

fn frame(raw: &Bytes) {
    let read = wire::decode(raw, FRAME_BYTES_MAX);
    assert_eq!(read, wire::decode(raw, raw.len()), "its length is allowed");
    match read {
        Ok(RelayFrame::Event { event, .. }) => is_as_written(&event),
        Ok(RelayFrame::Closed { reason, .. } | RelayFrame::Notice { reason }) => is_short(&reason),
        Ok(_) => {}
        Err(error) => is_fit(&Excerpt::of(&error)),
    }
    if let Some(less) = raw.len().checked_sub(1) {
        assert!(wire::decode(raw, less).is_err(), "longer than allowed");
    }
}

fn events(raw: &Bytes) {
    let Ok(answer) = wire::decode_events(raw, FRAME_BYTES_MAX) else {
        return;
    };
    assert_eq!(answer.malformed > 0, answer.first_error.is_some());
    answer.events.iter().for_each(is_as_written);
    if let Ok(Value::Array(rows)) = serde_json::from_slice(raw) {
        let told = answer.malformed + answer.events.len() as u64;
        assert_eq!(told, rows.len() as u64, "each row is told of");
    }
}

fn event(raw: &Bytes) {
    if let Ok(event) = Event::decode(raw.clone()) {
        is_as_written(&event);
        let frame = enclosed(&event);
        let Ok(RelayFrame::Event { event: again, .. }) = wire::decode(&frame, FRAME_BYTES_MAX)
        else {
            panic!("an event is one in a frame, too: {frame:?}");
        };
        assert_eq!(again.head(), event.head());
        let held = again.hold(frame.len());
        assert_eq!(held.raw(), event.raw());
    }
}

fn enclosed(event: &Event) -> Bytes {
    let raw = event.raw();
    [b"[\"EVENT\",\"s\",", &raw[..], b"]"].concat().into()
}

/// A generic reader finds the same in it.
fn is_as_written(event: &Event) {
    let again = Event::decode(event.raw().clone()).expect("its own text");
    assert_eq!(again.head(), event.head());
    assert!(Filter::default().matches(event));
    let _ = (event.channel(), event.thread(), event.workflow());
    let Ok(value) = serde_json::from_slice::<Value>(event.raw()) else {
        // Keys that nobody knows may hold what only a strict reader minds.
        return;
    };
    assert!(same_hex(&value["id"], &event.id().to_string()));
    assert!(same_hex(&value["pubkey"], &event.author().to_string()));
    assert_eq!(value["created_at"], event.created_at().0);
    assert_eq!(value["kind"], event.kind());
    assert_eq!(value["content"], *event.content());
    let tags: Vec<Value> = event.tags().map(|tag| tag.values().collect()).collect();
    assert_eq!(value["tags"], Value::Array(tags));
}

fn same_hex(value: &Value, hex: &str) -> bool {
    value
        .as_str()
        .is_some_and(|it| it.eq_ignore_ascii_case(hex))
}

fn draft(raw: &Bytes) {
    if let Ok(draft) = Draft::decode(raw) {
        let again = Draft::decode(&draft.to_bytes()).expect("a draft that was written");
        assert_eq!(again, draft);
    }
}

fn answers(raw: &Bytes) {
    is_short(&wire::body_reason(raw));
    if let Some(answer) = wire::event_answer(raw) {
        is_short(&answer.reason);
    }
}

fn texts(text: &str) {
    is_fit(&Excerpt::new(text));
    is_short(&Reason::new(text));
    let name = SubName::parse(text);
    if let SubName::Other(excerpt) = &name {
        is_fit(excerpt);
    } else {
        assert_eq!(name.to_string(), text);
    }
    let padded = format!(" {text}\n");
    assert_eq!(OwnerCommand::parse(text), OwnerCommand::parse(&padded));
}

fn is_short(reason: &Reason) {
    is_fit(&reason.text);
    assert!(reason.wait().is_none_or(|wait| wait <= WAIT_MAX));
}

/// It can be shown on a terminal as it is, and is short.
fn is_fit(excerpt: &Excerpt) {
    let text = excerpt.as_str();
    assert!(text.len() <= EXCERPT_BYTES_MAX, "{} bytes", text.len());
    assert!(!text.chars().any(char::is_control), "{text:?}");
    assert_eq!(&Excerpt::new(text), excerpt);
}
