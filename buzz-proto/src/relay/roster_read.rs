//! How the roster is asked for, over HTTP or the socket, and whose word it is.

use alloc::vec::Vec;

use super::history::page::{Page, Via};
use super::history::read::To;
use super::roster::Checked;
use super::{Action, Channels, End, Relay};
use crate::ids::{ConnId, PubKey, Ticket};
use crate::note::{Note, ReadFailure, RefusedWhy};
use crate::quotas::{CallLane, Quotas};
use crate::time::{MonoTime, Now};
use crate::wire::Event;

/// Relays give at most so many events to one question: a full answer may be cut.
const ANSWER_MAX: usize = 1000;

impl Relay {
    /// Reads the roster when it is time. True when anything moved.
    pub(super) fn keep_roster(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let limits = &self.config.limits;
        let is_silent = |page: &mut Page| page.is_too_large(limits) || page.is_silent(limits, now);
        let is_late = self.roster.page_mut().is_some_and(is_silent);
        if is_late || self.roster.is_unchecked(limits, now) {
            match self.roster.take_page().map(|page| page.via) {
                Some(Via::Http(call)) => self.call_is_late(call, now.time(), quotas, out),
                Some(via @ Via::Socket { .. }) => self.give_up(via, quotas, out),
                None => {}
            }
            self.roster_failed(None, now.time(), out);
            return true;
        }
        let Some(conn) = self.membership_socket() else {
            return false;
        };
        let Some(filter) = self.roster.due(now) else {
            return false;
        };
        let to = if self.route.is_open() {
            To::Http(CallLane::Roster)
        } else {
            To::Socket(conn)
        };
        let Some(via) = self.start_read(to, &filter, now, quotas, out) else {
            return false;
        };
        self.roster.ask(Page::new(via, filter));
        true
    }

    /// The socket over which membership may be asked for: it is known whose word on it counts.
    pub(super) fn membership_socket(&self) -> Option<ConnId> {
        let wanted = self.config.channels == Channels::Roster && self.end == End::Running;
        self.link.live().filter(|_| wanted && self.inform.is_over())
    }

    /// Whether something that only the relay may sign is signed by another key. Then it may have a
    /// new one.
    pub(super) fn is_of_another(&mut self, event: &Event, out: &mut Vec<Action>) -> bool {
        let author: PubKey = event.author();
        let is_other = self.inform.key().is_some_and(|key| key != author);
        if is_other {
            self.inform.doubt();
            let (event, why) = (event.id(), RefusedWhy::NotTheRelay);
            out.push(Action::Note(Note::Refused { event, why }));
        }
        is_other
    }

    /// All of a read has come.
    pub(super) fn roster_read_ended(&mut self, now: MonoTime, out: &mut Vec<Action>) {
        let Some(page) = self.roster.take_page() else {
            return;
        };
        if let Some(n) = page.n() {
            self.subs.names.supersede_page(n);
        }
        let status = page.call().map(|_| 200);
        let events = page.into_unsorted();
        let max = self
            .inform
            .limit_max()
            .map_or(ANSWER_MAX, |max| max as usize);
        let mut is_sound = events.len() < max.min(ANSWER_MAX);
        for event in &events {
            is_sound &= !self.is_of_another(event, out);
        }
        if !is_sound {
            return self.roster_failed(status, now, out);
        }
        let is_empty = events.is_empty();
        self.roster.check(events, &mut self.tickets, now, out);
        if is_empty {
            self.roster_read_checked(now);
        }
    }

    pub(super) fn roster_row_checked(
        &mut self,
        ticket: Ticket,
        genuine: bool,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        match self.roster.checked(ticket, genuine) {
            Checked::GoesOn => {}
            Checked::Whole => self.roster_read_checked(now),
            Checked::Forged => self.roster_failed(None, now, out),
        }
    }

    fn roster_read_checked(&mut self, now: MonoTime) {
        let (relay_time, limits) = (self.relay_time_at(now), &self.config.limits);
        let changes = self.roster.advance(relay_time, limits, now);
        self.changes.extend(changes);
    }

    /// A read is over without its end.
    pub(super) fn roster_read_failed(
        &mut self,
        why: &ReadFailure,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        if let Some(n) = self.roster.take_page().and_then(|page| page.n()) {
            self.subs.names.supersede_page(n);
        }
        // A relay without the route is asked over the socket at once.
        if matches!(why, ReadFailure::Http { .. }) && !self.route.is_open() {
            return;
        }
        let status = match why {
            ReadFailure::Http { status } => *status,
            ReadFailure::Refused { .. }
            | ReadFailure::Silent
            | ReadFailure::TooLarge
            | ReadFailure::NotSent
            | ReadFailure::Disconnected
            | ReadFailure::Empty => None,
        };
        self.roster_failed(status, now, out);
    }

    fn roster_failed(&mut self, status: Option<u16>, now: MonoTime, out: &mut Vec<Action>) {
        // A rate limit is told as such.
        if status != Some(429) {
            out.push(Action::Note(Note::RosterFailed { status }));
        }
        self.changes.extend(self.roster.failed(now));
    }
}
