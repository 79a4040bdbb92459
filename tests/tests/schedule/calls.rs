//! Calls under way in a run of chance, and the answers that they may have.

use std::collections::{BTreeMap, BTreeSet};

use buzz_proto::ids::{PubKey, Ticket};
use buzz_proto::note::StaleWhat;
use buzz_proto::relay::{BrokeCause, HttpAnswer};
use buzz_proto::schedule::Input;
use bytes::Bytes;

use crate::support::{OWNER, ROOM, STRANGER, Said, found, id, stale, tagged};
use crate::watch::Watch;

/// What a query asks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    /// Who an author is.
    Profile(PubKey),
    /// What was said before.
    Context,
}

#[derive(Default)]
pub(super) struct Calls {
    pub(super) queries: BTreeMap<Ticket, Asked>,
    pub(super) checks: BTreeSet<Ticket>,
    /// Those that were answered or given up.
    pub(super) over: Vec<Ticket>,
}

impl Calls {
    pub(super) fn ask(&mut self, ticket: Ticket, body: &[u8]) {
        let body = String::from_utf8(body.to_vec()).expect("text");
        let authors = [STRANGER, OWNER];
        let author = authors
            .into_iter()
            .find(|author| body.contains(&format!(r#""authors":["{author}"]"#)));
        let asked = author.map_or(Asked::Context, Asked::Profile);
        assert!(
            matches!(asked, Asked::Profile(_)) || !body.contains("authors"),
            "{body}"
        );
        assert!(self.queries.insert(ticket, asked).is_none());
    }
}

fn refusal(status: u16) -> HttpAnswer {
    HttpAnswer {
        status,
        retry_after: None,
        date: None,
        body: Bytes::from_static(b"<html>no</html>"),
    }
}

/// The profile of an author who names this owner.
fn profile(author: PubKey, owner: PubKey) -> HttpAnswer {
    let signature = "0".repeat(128);
    let tags: [&[&str]; 1] = [&["auth", &owner.to_string(), "", &signature]];
    found(&[tagged(900, author, 0, &tags)])
}

fn said_before() -> HttpAnswer {
    let said = |number, root| {
        let said = Said {
            id: number,
            root,
            channel: ROOM,
            ..Said::default()
        };
        said.event()
    };
    found(&[
        said(1, None),
        said(901, Some(1)),
        said(902, Some(2)),
        said(903, Some(1)),
    ])
}

impl Watch {
    /// A query that has no answer yet.
    fn asked(&self, pick: usize) -> Option<(Ticket, Asked)> {
        let count = self.calls.queries.len().max(1);
        let mut queries = self.calls.queries.iter();
        queries
            .nth(pick % count)
            .map(|(ticket, asked)| (*ticket, *asked))
    }

    /// A query is answered, well or badly, or breaks.
    pub(super) fn answer(&mut self, pick: usize, how: u16) {
        let Some((ticket, asked)) = self.asked(pick) else {
            return;
        };
        let answer = match (how % 12, asked) {
            (0..=3, Asked::Profile(author)) => profile(author, OWNER),
            (4, Asked::Profile(author)) => profile(author, STRANGER),
            (0..=4, Asked::Context) => said_before(),
            (5 | 6, _) => found(&[]),
            (7, _) => refusal(404),
            (8, _) => refusal(429),
            (9, _) => refusal(503),
            (10, _) => refusal(200),
            _ => {
                let cause = BrokeCause::Connect;
                return self.end_call(ticket, Input::Broke { ticket, cause });
            }
        };
        self.end_call(ticket, Input::Answered { ticket, answer });
    }

    fn end_call(&mut self, ticket: Ticket, input: Input) {
        self.calls.queries.remove(&ticket);
        self.calls.over.push(ticket);
        let actions = self.script.give(input);
        assert!(!actions.contains(&stale(StaleWhat::Call)), "it was awaited");
        self.see(actions);
    }

    /// An event is checked, maybe too late.
    pub(super) fn check(&mut self, pick: usize, how: u16) {
        let count = self.calls.checks.len().max(1);
        let Some(ticket) = self.calls.checks.iter().nth(pick % count).copied() else {
            return;
        };
        self.calls.checks.remove(&ticket);
        self.calls.over.push(ticket);
        let genuine = !how.is_multiple_of(4);
        self.give(Input::Verified { ticket, genuine });
    }

    /// All calls have an answer, none of which says anything.
    pub(super) fn answer_all(&mut self) {
        while !self.calls.queries.is_empty() {
            self.answer(0, 5);
        }
        while !self.calls.checks.is_empty() {
            self.check(0, 1);
        }
    }

    /// What comes for a call that is over changes nothing.
    pub(super) fn answer_what_is_over(&mut self, pick: usize) {
        let count = self.calls.over.len().max(1);
        let Some(ticket) = self.calls.over.get(pick % count).copied() else {
            return;
        };
        let before = self.script.scheduler.view();
        let (answer, genuine) = (found(&[id_of_nobody()]), true);
        let told = self.script.give(Input::Answered { ticket, answer });
        assert_eq!(told, [stale(StaleWhat::Call)]);
        let told = self.script.give(Input::Verified { ticket, genuine });
        assert_eq!(told, [stale(StaleWhat::Verification)]);
        assert_eq!(self.script.scheduler.view(), before);
    }
}

fn id_of_nobody() -> buzz_proto::wire::Event {
    let said = Said {
        id: 999,
        ..Said::default()
    };
    assert_eq!(said.event().id(), id(999));
    said.event()
}
