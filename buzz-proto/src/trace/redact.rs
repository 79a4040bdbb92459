//! What people and workers wrote, replaced letter by letter.
//!
//! Lengths stay, and so do line breaks and owner commands, because they decide actions. The
//! replacement of a part is a part of the replacement, so that a redacted input leads to the
//! redacted actions.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::action::Action;
use crate::input::Input;
use crate::note::Note;
use crate::schedule::TurnEnd;
use crate::wire::{Draft, Event, Excerpt};
use crate::{publish, relay, schedule};

/// A fact without what was written.
pub(super) fn input(input: Input) -> Input {
    match input {
        Input::Relay(input) => Input::Relay(relay_input(input)),
        Input::Publish(input) => Input::Publish(publish_input(input)),
        Input::Schedule(input) => Input::Schedule(schedule_input(input)),
        other @ (Input::Tick | Input::WallClock(_) | Input::Command(_)) => other,
    }
}

/// An order without what was written.
pub(super) fn action(action: Action) -> Action {
    match action {
        Action::Relay(action) => Action::Relay(relay_action(action)),
        Action::Publish(action) => Action::Publish(publish_action(action)),
        Action::Schedule(action) => Action::Schedule(schedule_action(action)),
        Action::Note(note) => Action::Note(self::note(note)),
        other @ (Action::Ended | Action::WakeAt(_)) => other,
    }
}

fn relay_input(input: relay::Input) -> relay::Input {
    use relay::Input as I;
    match input {
        I::Frame { conn, text } => I::Frame {
            conn,
            text: json(&text),
        },
        I::Signed { ticket, event } => I::Signed {
            ticket,
            event: json(&event),
        },
        I::Answered { ticket, mut answer } => {
            answer.body = json(&answer.body);
            I::Answered { ticket, answer }
        }
        I::Command(relay::Command::Send { ticket, event }) => I::Command(relay::Command::Send {
            ticket,
            event: json(&event),
        }),
        other @ (I::Tick
        | I::WallClock(_)
        | I::Command(_)
        | I::Connected { .. }
        | I::ConnectFailed { .. }
        | I::Closed { .. }
        | I::Pong { .. }
        | I::Pinged { .. }
        | I::Written { .. }
        | I::WriteFailed { .. }
        | I::SignFailed { .. }
        | I::Verified { .. }
        | I::Broke { .. }
        | I::Capacity { .. }
        | I::ConsumerGone
        | I::Left { .. }
        | I::Disposed { .. }) => other,
    }
}

fn publish_input(input: publish::Input) -> publish::Input {
    use publish::{Body, Command, Input as I};
    match input {
        I::Signed { ticket, event } => I::Signed {
            ticket,
            event: json(&event),
        },
        I::Command(Command::Submit {
            job,
            class,
            route,
            body,
            ttl,
        }) => {
            let body = match body {
                Body::Signed(event) => Body::Signed(self::event(event)),
                Body::SignWhenSent(draft) => Body::SignWhenSent(self::draft(draft)),
            };
            I::Command(Command::Submit {
                job,
                class,
                route,
                body,
                ttl,
            })
        }
        other @ (I::Tick
        | I::WallClock(_)
        | I::Command(_)
        | I::SignFailed { .. }
        | I::Answered { .. }
        | I::Broke { .. }
        | I::Receipt { .. }
        | I::Link { .. }) => other,
    }
}

fn schedule_input(input: schedule::Input) -> schedule::Input {
    use schedule::Input as I;
    match input {
        I::Arrived { sub, event } => I::Arrived {
            sub,
            event: self::event(event),
        },
        I::Finished {
            turn,
            end: TurnEnd::Answered { reply, stop },
        } => I::Finished {
            turn,
            end: TurnEnd::Answered {
                reply: text(&reply),
                stop,
            },
        },
        other @ (I::Tick
        | I::WallClock(_)
        | I::Command(_)
        | I::Channel { .. }
        | I::Link { .. }
        | I::WorkerUp { .. }
        | I::WorkerDown { .. }
        | I::SessionOpened { .. }
        | I::SessionFailed { .. }
        | I::Progressed { .. }
        | I::Finished { .. }
        | I::Settled { .. }) => other,
    }
}

fn relay_action(action: relay::Action) -> relay::Action {
    use relay::Action as A;
    match action {
        A::Send { conn, write, text } => A::Send {
            conn,
            write,
            text: json(&text),
        },
        A::Verify { ticket, event } => A::Verify {
            ticket,
            event: self::event(event),
        },
        A::Deliver { sub, event } => A::Deliver {
            sub,
            event: self::event(event),
        },
        A::Note(note) => A::Note(self::note(note)),
        other @ (A::Connect { .. }
        | A::Close { .. }
        | A::Ping { .. }
        | A::SignAuth { .. }
        | A::Query { .. }
        | A::Abort { .. }
        | A::Report { .. }
        | A::Channel { .. }
        | A::Receipt { .. }
        | A::Link { .. }
        | A::Ended
        | A::WakeAt(_)) => other,
    }
}

fn publish_action(action: publish::Action) -> publish::Action {
    use publish::Action as A;
    match action {
        A::Sign { ticket, draft } => A::Sign {
            ticket,
            draft: self::draft(draft),
        },
        A::Post {
            ticket,
            attempt,
            event,
        } => A::Post {
            ticket,
            attempt,
            event: self::event(event),
        },
        A::Send { ticket, event } => A::Send {
            ticket,
            event: self::event(event),
        },
        A::Note(note) => A::Note(self::note(note)),
        other @ (A::Abort { .. } | A::Settle { .. } | A::Ended | A::WakeAt(_)) => other,
    }
}

fn schedule_action(action: schedule::Action) -> schedule::Action {
    use schedule::Action as A;
    match action {
        A::Start {
            turn,
            session,
            scope,
            batch,
        } => {
            let batch = batch.into_iter().map(event).collect();
            A::Start {
                turn,
                session,
                scope,
                batch,
            }
        }
        A::Note(note) => A::Note(self::note(note)),
        other @ (A::Spawn { .. }
        | A::Kill { .. }
        | A::CancelTurn { .. }
        | A::CloseSession { .. }
        | A::Left { .. }
        | A::Dispose { .. }
        | A::Publish(_)
        | A::ShutdownRequested
        | A::Ended
        | A::WakeAt(_)) => other,
    }
}

/// A frame that cannot be read may hold anything.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "only these two notes can hold such text"
)]
fn note(note: Note) -> Note {
    match note {
        Note::BadFrame { .. } => Note::BadFrame {
            text: Excerpt::new("(redacted)"),
        },
        Note::Repeated { kind, count, last } => Note::Repeated {
            kind,
            count,
            last: alloc::boxed::Box::new(self::note(*last)),
        },
        other => other,
    }
}

fn draft(draft: Draft) -> Draft {
    Draft {
        content: text(&draft.content),
        ..draft
    }
}

/// The raw form keeps its length, so it stays an event.
fn event(event: Event) -> Event {
    Event::decode(json(event.raw())).unwrap_or(event)
}

fn is_command(content: &str) -> bool {
    content.trim_start().starts_with('!')
}

fn text(content: &str) -> String {
    if is_command(content) {
        return content.into();
    }
    let mut out = String::with_capacity(content.len());
    for letter in content.chars() {
        if letter.is_ascii_whitespace() {
            out.push(letter);
        } else {
            out.extend(core::iter::repeat_n('x', letter.len_utf8()));
        }
    }
    out
}

/// Replaces every string that is the value of a `content` key, at any depth, within its quotes.
/// Works on the letters alone, so that broken JSON is redacted as well.
fn json(raw: &Bytes) -> Bytes {
    let mut out: Vec<u8> = Vec::with_capacity(raw.len());
    let mut rest: &[u8] = raw;
    let mut key_was_content = false;
    while let Some((letter, tail)) = rest.split_first() {
        if *letter != b'"' {
            if !matches!(letter, b':' | b' ' | b'\t' | b'\n' | b'\r') {
                key_was_content = false;
            }
            out.push(*letter);
            rest = tail;
            continue;
        }
        let length = string_length(tail);
        let (inside, tail) = tail.split_at(length);
        let kept = !key_was_content || core::str::from_utf8(inside).is_ok_and(is_command);
        out.push(b'"');
        if kept {
            out.extend_from_slice(inside);
        } else {
            out.extend(core::iter::repeat_n(b'x', inside.len()));
        }
        // A value that happens to read `content` is no key, but then no colon follows it.
        key_was_content = !key_was_content && inside == b"content";
        rest = tail.strip_prefix(b"\"").unwrap_or(tail);
        if rest.len() < tail.len() {
            out.push(b'"');
        }
    }
    Bytes::from(out)
}

/// How far it is to the quote that ends a string, or to the end.
fn string_length(text: &[u8]) -> usize {
    let mut escaped = false;
    let end = text.iter().position(|letter| {
        let ends = *letter == b'"' && !escaped;
        escaped = *letter == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        String::from_utf8(json(&Bytes::copy_from_slice(text.as_bytes())).to_vec()).unwrap()
    }

    #[test]
    fn content_is_replaced_and_keeps_its_length() {
        let frame = r#"["EVENT","s",{"kind":9,"content":"say \"é\" \\","tags":[["p","a"]]}]"#;
        let expected = r#"["EVENT","s",{"kind":9,"content":"xxxxxxxxxxxxx","tags":[["p","a"]]}]"#;
        assert_eq!(redacted(frame).len(), frame.len());
        assert_eq!(redacted(frame), expected);
    }

    #[test]
    fn commands_stay_and_broken_text_is_replaced_too() {
        assert_eq!(
            redacted(r#"{"content": "!cancel"}"#),
            r#"{"content": "!cancel"}"#
        );
        assert_eq!(
            redacted(r#"{"content":"half a secr"#),
            r#"{"content":"xxxxxxxxxxx"#
        );
        assert_eq!(redacted(r#"["content","kept"]"#), r#"["content","kept"]"#);
    }

    #[test]
    fn line_breaks_stay_in_text() {
        assert_eq!(text("ab\ncé d"), "xx\nxxx x");
    }
}
