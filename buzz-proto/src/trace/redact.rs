//! Facts and orders without what people and workers wrote.
//!
//! What can be read stays readable and what cannot be read stays unreadable, so that a redacted
//! input leads to the redacted actions.

use alloc::vec::Vec;

use bytes::Bytes;

use super::letters::{json, text, unreadable};
use super::told::{self, down_cause, open_cause, turn_end};
use crate::action::Action;
use crate::input::Input;
use crate::relay::HttpAnswer;
use crate::schedule::Context;
use crate::wire::{self, Draft, Event, RelayFrame};
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
        Action::Note(note) => Action::Note(told::note(note)),
        other @ (Action::Ended | Action::WakeAt(_)) => other,
    }
}

fn relay_input(input: relay::Input) -> relay::Input {
    use relay::Input as I;
    match input {
        I::Frame { conn, text } => I::Frame {
            conn,
            text: frame(&text),
        },
        I::Signed { ticket, event } => I::Signed {
            ticket,
            event: raw_event(&event),
        },
        I::Answered { ticket, answer } => I::Answered {
            ticket,
            answer: self::answer(answer),
        },
        I::Command(relay::Command::Send {
            ticket,
            durable,
            event,
        }) => I::Command(relay::Command::Send {
            ticket,
            durable,
            event: raw_event(&event),
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
        | I::Disposed { .. }
        | I::Started { .. }
        | I::Persisted { .. }
        | I::PersistFailed { .. }) => other,
    }
}

fn publish_input(input: publish::Input) -> publish::Input {
    use publish::Input as I;
    match input {
        I::Signed { ticket, event } => I::Signed {
            ticket,
            event: raw_event(&event),
        },
        I::Command(command) => I::Command(publish_command(command)),
        other @ (I::Tick
        | I::WallClock(_)
        | I::SignFailed { .. }
        | I::Answered { .. }
        | I::Broke { .. }
        | I::Receipt { .. }
        | I::Link { .. }) => other,
    }
}

fn publish_command(command: publish::Command) -> publish::Command {
    use publish::{Body, Command};
    match command {
        Command::Submit {
            job,
            class,
            route,
            body,
            ttl,
        } => {
            let body = match body {
                Body::Signed(event) => Body::Signed(self::event(event)),
                Body::SignWhenSent(draft) => Body::SignWhenSent(self::draft(draft)),
            };
            Command::Submit {
                job,
                class,
                route,
                body,
                ttl,
            }
        }
        other @ (Command::React { .. } | Command::Cancel { .. } | Command::Shutdown { .. }) => {
            other
        }
    }
}

fn schedule_input(input: schedule::Input) -> schedule::Input {
    use schedule::Input as I;
    match input {
        I::Arrived { sub, event, lives } => I::Arrived {
            sub,
            event: self::event(event),
            lives,
        },
        I::WorkerDown { worker, cause } => I::WorkerDown {
            worker,
            cause: down_cause(cause),
        },
        I::SessionFailed { turn, cause } => I::SessionFailed {
            turn,
            cause: open_cause(cause),
        },
        I::Finished { turn, end } => I::Finished {
            turn,
            end: turn_end(end),
        },
        I::Answered { ticket, answer } => I::Answered {
            ticket,
            answer: self::answer(answer),
        },
        other @ (I::Tick
        | I::WallClock(_)
        | I::Command(_)
        | I::Channel { .. }
        | I::Link { .. }
        | I::WorkerUp { .. }
        | I::SessionOpened { .. }
        | I::Progressed { .. }
        | I::Settled { .. }
        | I::Outbox { .. }
        | I::RelayKey { .. }
        | I::Broke { .. }
        | I::Verified { .. }) => other,
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
        A::Deliver { sub, event, lives } => A::Deliver {
            sub,
            event: self::event(event),
            lives,
        },
        A::Note(note) => A::Note(told::note(note)),
        other @ (A::Connect { .. }
        | A::Close { .. }
        | A::Ping { .. }
        | A::SignAuth { .. }
        | A::Query { .. }
        | A::Inform { .. }
        | A::Persist { .. }
        | A::Abort { .. }
        | A::Report { .. }
        | A::Channel { .. }
        | A::Receipt { .. }
        | A::Link { .. }
        | A::RelayKey { .. }
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
        A::Send {
            ticket,
            durable,
            event,
        } => A::Send {
            ticket,
            durable,
            event: self::event(event),
        },
        A::Note(note) => A::Note(told::note(note)),
        other @ (A::Query { .. }
        | A::Abort { .. }
        | A::Settle { .. }
        | A::Outbox { .. }
        | A::Ended
        | A::WakeAt(_)) => other,
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
            context,
        } => {
            let batch = batch.into_iter().map(event).collect();
            A::Start {
                turn,
                session,
                scope,
                batch,
                context: self::context(context),
            }
        }
        A::Verify {
            ticket,
            event,
            owner,
        } => A::Verify {
            ticket,
            event: self::event(event),
            owner,
        },
        A::Publish(command) => A::Publish(publish_command(command)),
        A::Note(note) => A::Note(told::note(note)),
        other @ (A::Spawn { .. }
        | A::Kill { .. }
        | A::CancelTurn { .. }
        | A::CloseSession { .. }
        | A::Left { .. }
        | A::Dispose { .. }
        | A::Started { .. }
        | A::Query { .. }
        | A::Abort { .. }
        | A::ShutdownRequested
        | A::Ended
        | A::WakeAt(_)) => other,
    }
}

fn context(context: Context) -> Context {
    match context {
        Context::Before(events) => Context::Before(events.into_iter().map(event).collect()),
        other @ (Context::Known | Context::Unread) => other,
    }
}

fn draft(draft: Draft) -> Draft {
    Draft {
        content: text(&draft.content),
        ..draft
    }
}

fn event(event: Event) -> Event {
    let raw = json(event.raw());
    event.over(raw)
}

fn raw_event(raw: &Bytes) -> Bytes {
    match Event::decode(raw.clone()) {
        Ok(_) => json(raw),
        Err(_) => unreadable(raw),
    }
}

/// A frame that says nothing to the machine is as one that it cannot read.
fn frame(raw: &Bytes) -> Bytes {
    match wire::decode(raw, usize::MAX) {
        Ok(RelayFrame::Unknown { .. }) | Err(_) => unreadable(raw),
        Ok(
            RelayFrame::Event { .. }
            | RelayFrame::Ok { .. }
            | RelayFrame::Eose { .. }
            | RelayFrame::Closed { .. }
            | RelayFrame::Notice { .. }
            | RelayFrame::Auth { .. }
            | RelayFrame::Count { .. }
            | RelayFrame::SyncRequired { .. },
        ) => json(raw),
    }
}

fn answer(mut answer: HttpAnswer) -> HttpAnswer {
    if (200..300).contains(&answer.status) {
        answer.body = body(&answer.body);
    }
    answer
}

/// The body of a good answer. To a query: one element that is no event spoils it. What a relay
/// tells of itself is no such answer, and only what decides actions stays of it.
fn body(body: &Bytes) -> Bytes {
    match wire::decode_events(body, usize::MAX) {
        Ok(answer) if answer.malformed == 0 => json(body),
        Ok(_) | Err(_) => relay::Document::read(body).map_or_else(|| unreadable(body), document),
    }
}

fn document(of: relay::Document) -> Bytes {
    let limit = of
        .limit_max
        .map(|limit| alloc::format!(r#""limitation":{{"max_limit":{limit}}}"#));
    let key = of.key.map(|key| alloc::format!(r#""self":"{key}""#));
    let members: Vec<_> = limit.into_iter().chain(key).collect();
    alloc::format!("{{{}}}", members.join(",")).into()
}
