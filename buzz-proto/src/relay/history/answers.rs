//! What this agent has said before its start.
//!
//! A life that was cut short may have answered what its last record does not show. Before anything
//! is asked for, the agent's own messages since the oldest record are read once: what they answer
//! has its outcome. A forged one would have an event end without an answer, so they are verified.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use smallvec::smallvec;

use super::page::{Page, Via};
use super::read::To;
use crate::ids::{ConnId, EventId, Ticket};
use crate::note::{Note, RefusedWhy};
use crate::quotas::{CallLane, Quotas};
use crate::relay::{Action, Relay};
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::Filter;

/// A message of a channel (a kind of the Buzz relay), as this agent answers.
const MESSAGE: u32 = 9;
const PAGES_MAX: u32 = 20;
/// From being live to the end of the reading; then the start goes on without it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between a read that failed and its repetition.
const REST: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(in crate::relay) enum Answers {
    /// There is nothing to look for, or it was found.
    Known(BTreeSet<EventId>),
    Unknown {
        since: UnixTime,
        found: BTreeSet<EventId>,
        position: Option<UnixTime>,
        pages: u32,
        begun: Option<MonoTime>,
        /// The earliest next read.
        next: Option<MonoTime>,
        page: Option<alloc::boxed::Box<Page>>,
        /// Messages of the last page without a verdict, and what each answers.
        checking: BTreeMap<Ticket, (EventId, EventId)>,
        /// Whether that was the last page.
        is_read: bool,
    },
}

impl Answers {
    /// Nothing is looked for.
    pub(in crate::relay) const fn none() -> Self {
        Self::Known(BTreeSet::new())
    }

    /// Looks for answers from this second on.
    pub(in crate::relay) const fn since(since: UnixTime) -> Self {
        Self::Unknown {
            since,
            found: BTreeSet::new(),
            position: None,
            pages: 0,
            begun: None,
            next: None,
            page: None,
            checking: BTreeMap::new(),
            is_read: false,
        }
    }

    pub(in crate::relay) const fn are_known(&self) -> bool {
        matches!(self, Self::Known(_))
    }

    /// Whether an event was answered before the start.
    pub(in crate::relay) fn contains(&self, id: EventId) -> bool {
        match self {
            Self::Known(found) => found.contains(&id),
            Self::Unknown { .. } => false,
        }
    }

    /// The page under way.
    pub(in crate::relay) fn page_mut(&mut self) -> Option<&mut Page> {
        match self {
            Self::Unknown { page, .. } => page.as_deref_mut(),
            Self::Known(_) => None,
        }
    }

    /// The socket is over: what was asked over it is asked anew.
    pub(in crate::relay) fn reset(&mut self) {
        if let Self::Unknown { page, .. } = self
            && page.as_ref().is_some_and(|page| page.call().is_none())
        {
            *page = None;
        }
    }

    /// The page under way has ended: what it brought is verified.
    pub(in crate::relay) fn page_ended(&mut self, tickets: &mut Ticket, out: &mut Vec<Action>) {
        let Self::Unknown {
            position,
            pages,
            page,
            checking,
            is_read,
            ..
        } = self
        else {
            return;
        };
        let Some(read) = page.take() else { return };
        for event in read.events() {
            let Some(parent) = event.thread().parent else {
                continue;
            };
            let (ticket, event) = (tickets.take(), event.clone());
            checking.insert(ticket, (event.id(), parent));
            out.push(Action::Verify { ticket, event });
        }
        *pages = pages.saturating_add(1);
        let end = read.end().map(|(dated, _)| dated);
        let is_further = end.is_some() && end != *position && *pages < PAGES_MAX;
        *position = end;
        *is_read = !is_further;
        self.stop_if_read();
    }

    /// A message was checked. False when its verdict is not awaited.
    pub(in crate::relay) fn checked(
        &mut self,
        ticket: Ticket,
        genuine: bool,
        out: &mut Vec<Action>,
    ) -> bool {
        let Self::Unknown {
            checking, found, ..
        } = self
        else {
            return false;
        };
        let Some((event, parent)) = checking.remove(&ticket) else {
            return false;
        };
        if genuine {
            found.insert(parent);
        } else {
            let why = RefusedWhy::NotGenuine;
            out.push(Action::Note(Note::Refused { event, why }));
        }
        self.stop_if_read();
        true
    }

    fn stop_if_read(&mut self) {
        if let Self::Unknown {
            checking, is_read, ..
        } = self
            && *is_read
            && checking.is_empty()
        {
            self.stop();
        }
    }

    /// The time to look is over: what was found counts.
    fn stop(&mut self) {
        if let Self::Unknown { found, .. } = self {
            *self = Self::Known(core::mem::take(found));
        }
    }

    /// The page under way has failed: it is asked again while there is time, after a rest if
    /// the present is given: without it, the next read goes another way.
    pub(in crate::relay) fn page_broke(&mut self, now: Option<MonoTime>) {
        if let Self::Unknown { page, next, .. } = self {
            *page = None;
            *next = now.map(|now| now.after(REST));
        }
    }
}

impl Relay {
    /// Reads what this agent has said. True when anything moved.
    pub(in crate::relay) fn look_for_answers(
        &mut self,
        conn: Option<ConnId>,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let relay_time = self.relay_time_at(now.time());
        let limits = &self.config.limits;
        let Answers::Unknown {
            since,
            position,
            begun,
            next,
            page,
            checking,
            is_read,
            ..
        } = &mut self.answers
        else {
            return false;
        };
        // A record that reaches beyond the present is not trusted, and the last `drift` is read: what
        // an author's clock dated ahead was answered as much before its date.
        if let Some(present) = relay_time {
            let latest = present.before(limits.drift).before(limits.drift);
            *since = latest.min(*since);
        }
        let is_broken = page
            .as_ref()
            .is_some_and(|page| page.is_too_large(limits) || page.is_silent(limits, now));
        if conn.is_some() {
            begun.get_or_insert(now.time());
        }
        let is_late = begun.is_some_and(|begun| now.reached(begun.after(PATIENCE), Why::Answer));
        if is_late || is_broken {
            let page = page.take();
            *next = Some(now.time().after(REST));
            return self.stop_looking(is_late, page.map(|page| page.via), now, quotas, out);
        }
        let (None, Some(conn), false) = (page, conn, *is_read || !checking.is_empty()) else {
            return false;
        };
        if next.is_some_and(|next| !now.reached(next, Why::Answer)) {
            return false;
        }
        let filter = Filter {
            authors: [self.me].into(),
            kinds: smallvec![MESSAGE],
            since: Some(*since),
            until: *position,
            limit: Some(limits.page),
            ..Filter::default()
        };
        let to = if self.route.is_open() {
            To::Http(CallLane::LookUp)
        } else {
            To::Socket(conn)
        };
        let Some(via) = self.start_read(to, &filter, now, quotas, out) else {
            return false;
        };
        if let Answers::Unknown { page, .. } = &mut self.answers {
            *page = Some(alloc::boxed::Box::new(Page::new(via, filter)));
        }
        true
    }

    /// Gives up a read that takes too long, and all of them once the time for them is over.
    fn stop_looking(
        &mut self,
        is_late: bool,
        via: Option<Via>,
        now: &Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        match via {
            Some(Via::Http(call)) => self.call_is_late(call, now.time(), quotas, out),
            Some(via @ Via::Socket { .. }) => self.give_up(via, quotas, out),
            None => {}
        }
        if is_late {
            self.answers.stop();
            out.push(Action::Note(Note::AnswersUnread));
        }
        true
    }
}
