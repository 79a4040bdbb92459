//! Reactions: what each message is to bear, and what it bears.

mod failures;
mod order;
mod wishes;

use std::time::Duration;

use buzz_proto::ids::{EventId, PubKey, Ticket};
use buzz_proto::publish::{Action, Command, Input, Mark};
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_proto::wire::Draft;

use crate::support::{ACCEPTED, Script, answered, event_of, sleep, without_wake};

/// A script at whose beginning a message bears this mark.
fn showing(message: u64, mark: Mark, reaction: u64) -> Script {
    let mut script = Script::new();
    let _ = script.at(0, react(message, Some(mark)));
    let _ = script.at(0, signed(0, reaction));
    assert_eq!(script.at(0, answered(1, 200, ACCEPTED)), [sleep()]);
    script
}

/// The mark of message 1 may be stored as 91; when the gate opens.
fn doubtful(script: &mut Script) -> MonoTime {
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    let _ = script.at(0, signed(0, 91));
    let said = script.at(0, answered(1, 500, "{}"));
    script.opening(&said[0])
}

/// A step's call fails, and its time runs out before the gate opens; when that is.
fn end_in_doubt(script: &mut Script, ticket: u64, expected: &[Action]) -> MonoTime {
    let said = script.now(answered(ticket, 500, "{}"));
    let gate = script.opening(&said[0]);
    let late = script.last.after(Duration::from_secs(3));
    assert_eq!(without_wake(script.at_time(late, Input::Tick)), expected);
    gate
}

fn react(message: u64, mark: Option<Mark>) -> Input {
    Input::Command(Command::React {
        message: id(message),
        author: PubKey([3; 32]),
        mark,
    })
}

fn id(number: u64) -> EventId {
    format!("{number:064x}").parse().expect("an id")
}

/// An added mark is dated after the one that was removed.
fn after_removal(mut add: Draft) -> Draft {
    add.created_at = UnixTime(1);
    add
}

fn add(message: u64, content: &str) -> Draft {
    let tags = [
        ["e".to_owned(), format!("{message:064x}")],
        ["p".to_owned(), "03".repeat(32)],
    ];
    Draft {
        kind: 7,
        created_at: UnixTime(0),
        tags: tags.map(Vec::from).into(),
        content: content.to_owned(),
    }
}

fn removal(reaction: u64) -> Draft {
    let tags = [
        ["e".to_owned(), format!("{reaction:064x}")],
        ["k".to_owned(), "7".to_owned()],
    ];
    Draft {
        kind: 5,
        created_at: UnixTime(0),
        tags: tags.map(Vec::from).into(),
        content: String::new(),
    }
}

const fn sign_of(ticket: u64, draft: Draft) -> Action {
    Action::Sign {
        ticket: Ticket(ticket),
        draft,
    }
}

/// A reaction or deletion as the signer gives it back.
fn mark_event(number: u64) -> buzz_proto::wire::Event {
    let draft = if number < 90 {
        removal(91)
    } else {
        add(1, "👀")
    };
    event_of(number, &draft)
}

fn signed(ticket: u64, number: u64) -> Input {
    Input::Signed {
        ticket: Ticket(ticket),
        event: mark_event(number).raw().clone(),
    }
}

fn post_mark(ticket: u64, attempt: u16, number: u64) -> Action {
    Action::Post {
        ticket: Ticket(ticket),
        attempt,
        event: mark_event(number),
    }
}

fn show_mark(ticket: u64, number: u64) -> Action {
    Action::Send {
        ticket: Ticket(ticket),
        durable: false,
        event: mark_event(number),
    }
}
