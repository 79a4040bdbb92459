//! What is looked for among the actions of a scheduler.

use std::time::Duration;

use buzz_proto::ids::{EventId, PubKey, Ticket, TurnId};
use buzz_proto::note::Note;
use buzz_proto::publish::{self, Mark};
use buzz_proto::schedule::{Action, Scope, Session};

/// How long until what a turn was to answer is tried again.
pub(crate) fn rest_of(actions: &[Action]) -> Duration {
    let rest = actions.iter().find_map(|action| {
        if let Action::Note(Note::TurnRetried { wait, .. }) = action {
            return Some(*wait);
        }
        None
    });
    rest.expect("an attempt in vain")
}

/// The only query among actions, and its body.
pub(crate) fn query_of(actions: &[Action]) -> (Ticket, String) {
    let mut queries = actions.iter().filter_map(|action| {
        if let Action::Query { ticket, body } = action {
            return Some((*ticket, body));
        }
        None
    });
    let (ticket, body) = queries.next().expect("a query");
    assert_eq!(queries.next(), None);
    (ticket, String::from_utf8(body.to_vec()).expect("text"))
}

/// The checks among actions: of which events, and whether of whose owner.
pub(crate) fn checks_of(actions: &[Action]) -> Vec<(Ticket, EventId, Option<PubKey>)> {
    let checks = actions.iter().filter_map(|action| {
        if let Action::Verify {
            ticket,
            event,
            owner,
        } = action
        {
            return Some((*ticket, event.id(), *owner));
        }
        None
    });
    checks.collect()
}

/// The turns that start, with their scopes and sessions.
pub(crate) fn starts_of(actions: &[Action]) -> Vec<(TurnId, Scope, Session)> {
    let starts = actions.iter().filter_map(|action| {
        if let Action::Start {
            turn,
            scope,
            session,
            ..
        } = action
        {
            return Some((*turn, *scope, *session));
        }
        None
    });
    starts.collect()
}

/// The marks that messages bear from now on.
pub(crate) fn marks_of(actions: &[Action]) -> Vec<(EventId, Option<Mark>)> {
    let marks = actions.iter().filter_map(|action| {
        if let Action::Publish(publish::Command::React { message, mark, .. }) = action {
            return Some((*message, *mark));
        }
        None
    });
    marks.collect()
}
