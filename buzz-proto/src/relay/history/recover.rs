//! Recovery: what was lost is read again, one subscription at a time, when there is room for it.
//!
//! An attempt is one page of ids, or up to five pages of a window. It ends when all that it brought
//! was handed over, and only then is it known what it was good for. Room is a fact that comes in;
//! nothing looks for it, no slot is kept for what was lost, and the live subscription is not
//! touched.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use super::choose::{Choice, Plan};
use super::page::{Page, Via};
use super::read::To;
use super::read_end::Read;
use crate::ids::{ConnId, EventId};
use crate::note::{Note, ReadFailure};
use crate::quotas::{CallLane, Quotas};
use crate::relay::sub_row::Phase;
use crate::relay::verify::Source;
use crate::relay::{Action, Relay, Sub};
use crate::time::{MonoTime, Now, UnixTime};
use crate::wire::Event;

/// Pages of one attempt.
const PAGES_MAX: u32 = 5;
/// After an attempt that failed, or whose events did not all find room.
const COOL_DOWN: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Default)]
pub(in crate::relay) struct Recovery {
    attempt: Option<Attempt>,
    attempts: u64,
    cool_until: Option<MonoTime>,
    /// Events of pages on their way to verification, oldest first.
    held: VecDeque<(Sub, Event, u64)>,
}

#[derive(Clone, Debug)]
struct Attempt {
    sub: Sub,
    number: u64,
    pages: u32,
    phase: AttemptPhase,
    /// Events that were read and have no verdict.
    in_hand: u32,
    /// Whether it began with less than half of the room, because it had waited for long.
    is_scant: bool,
    /// Whether less is owed than before.
    has_shrunk: bool,
    /// Whether something did not go as it should.
    has_failed: bool,
}

#[derive(Clone, Debug)]
enum AttemptPhase {
    /// The next page is to be asked.
    Asking,
    Reading(Box<Page>, Plan),
    /// What it brought is handed over.
    Handing,
}

/// How a page ended.
#[derive(Clone, Debug)]
enum Ending {
    /// The relay says that there is no more of it.
    Whole,
    Broken(ReadFailure),
}

impl Recovery {
    /// The dates of what was read of a subscription and is not verified.
    pub(in crate::relay) fn held(&self, sub: Sub) -> impl Iterator<Item = UnixTime> {
        let held = self.held.iter().filter(move |(of, _, _)| *of == sub);
        held.map(|(_, event, _)| event.created_at())
    }

    /// Whether another copy of an event was read and is not verified.
    pub(in crate::relay) fn holds(&self, id: EventId) -> bool {
        self.held.iter().any(|(_, event, _)| event.id() == id)
    }

    /// Nothing but what a new connection left is read before.
    pub(in crate::relay) const fn cool_until(&self) -> Option<MonoTime> {
        self.cool_until
    }

    fn page(&mut self) -> Option<(&mut Page, &Plan)> {
        match &mut self.attempt.as_mut()?.phase {
            AttemptPhase::Reading(page, plan) => Some((page, plan)),
            AttemptPhase::Asking | AttemptPhase::Handing => None,
        }
    }

    /// The page under way.
    pub(in crate::relay) fn page_mut(&mut self) -> Option<&mut Page> {
        self.page().map(|(page, _)| page)
    }

    fn in_attempt(&mut self, source: Source) -> Option<&mut Attempt> {
        let Source::Attempt(number) = source else {
            return None;
        };
        self.attempt
            .as_mut()
            .filter(|attempt| attempt.number == number)
    }

    /// An event of a page has its verdict, and what became of it.
    pub(in crate::relay) fn handed(&mut self, source: Source, found_room: bool) {
        if let Some(attempt) = self.in_attempt(source) {
            attempt.in_hand = attempt.in_hand.saturating_sub(1);
            attempt.has_failed |= !found_room;
        }
    }

    /// Whether this subscription is read.
    pub(in crate::relay) fn reads(&self, sub: Sub) -> bool {
        self.attempt
            .as_ref()
            .is_some_and(|attempt| attempt.sub == sub)
    }

    /// A lost event of this subscription was handed over, whoever brought it.
    pub(in crate::relay) fn shrunk(&mut self, sub: Sub) {
        if let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.sub == sub) {
            attempt.has_shrunk = true;
        }
    }
}

impl Relay {
    /// Moves the attempt under way, or begins one.
    pub(in crate::relay) fn recover(
        &mut self,
        conn: Option<ConnId>,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let mut moved = self.feed();
        moved |= self.end_silent_page(now, quotas, out);
        moved |= self.advance_attempt(conn, now, quotas, out);
        let Some(conn) = conn else { return moved };
        if self.recovery.attempt.is_some() {
            return moved | self.go_on(conn, now, quotas, out);
        }
        let told = out.len();
        let Some(choice) = self.choose(now, out) else {
            return moved || out.len() > told;
        };
        self.begin_attempt(conn, choice, now, quotas, out) || moved || out.len() > told
    }

    /// Has what pages brought verified, as there is room.
    fn feed(&mut self) -> bool {
        let limits = &self.config.limits;
        let mut moved = false;
        while let Some((sub, event, number)) = self.recovery.held.front() {
            let (sub, source) = (*sub, Source::Attempt(*number));
            let owed = self
                .subs
                .is_owed_of_page(sub, event.id(), event.created_at());
            let is_known = !self.subs.contains(sub)
                || self.seen.contains(&event.id())
                || self.pending.merge(sub, event, owed);
            if !is_known && !self.pending.has_room(event, limits) {
                break;
            }
            let Some((_, event, _)) = self.recovery.held.pop_front() else {
                break;
            };
            moved = true;
            let is_kept = !is_known
                && self
                    .pending
                    .push(sub, event, (owed, source), limits)
                    .is_ok();
            if !is_kept {
                self.recovery.handed(source, true);
            }
        }
        moved
    }

    /// Begins an attempt with its first page, if the gate lets it: what was chosen holds for the
    /// room that there is now.
    fn begin_attempt(
        &mut self,
        conn: ConnId,
        choice: Choice,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let Choice {
            sub,
            plan,
            is_scant,
        } = choice;
        let Some(page) = self.ask_page(conn, (sub, &plan), now, quotas, out) else {
            return false;
        };
        self.recovery.attempts = self.recovery.attempts.saturating_add(1);
        let number = self.recovery.attempts;
        if let Some(row) = self.subs.row_mut(sub) {
            row.loss.attempted = number;
        }
        self.recovery.attempt = Some(Attempt {
            sub,
            number,
            pages: 1,
            phase: AttemptPhase::Reading(page, plan),
            in_hand: 0,
            is_scant,
            has_shrunk: false,
            has_failed: false,
        });
        true
    }

    /// Asks for the next page of the attempt under way, or ends it where there is none.
    fn go_on(
        &mut self,
        conn: ConnId,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let asking = |attempt: &&Attempt| matches!(attempt.phase, AttemptPhase::Asking);
        let Some(sub) = self
            .recovery
            .attempt
            .as_ref()
            .filter(asking)
            .map(|attempt| attempt.sub)
        else {
            return false;
        };
        let Some(plan) = self.next_page(sub, now) else {
            self.end_attempt(now.time(), quotas, out);
            return true;
        };
        let Some(page) = self.ask_page(conn, (sub, &plan), now, quotas, out) else {
            return false;
        };
        if let Some(attempt) = &mut self.recovery.attempt {
            attempt.pages = attempt.pages.saturating_add(1);
            attempt.phase = AttemptPhase::Reading(page, plan);
        }
        true
    }

    /// Asks for a page, if the gate lets it.
    fn ask_page(
        &mut self,
        conn: ConnId,
        (sub, plan): (Sub, &Plan),
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> Option<Box<Page>> {
        let relay_time = self.relay_time_at(now.time());
        let (filter, by_http) = self.page_filter(sub, plan, relay_time)?;
        let to = if by_http {
            To::Http(CallLane::History)
        } else {
            To::Socket(conn)
        };
        let via = self.start_read(to, &filter, now, quotas, out)?;
        Some(Box::new(Page::new(via, filter)))
    }

    /// Gives up a page that the relay does not finish.
    fn end_silent_page(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let limits = &self.config.limits;
        let Some((page, _)) = self.recovery.page() else {
            return false;
        };
        let why = if page.is_too_large(limits) {
            ReadFailure::TooLarge
        } else if page.is_silent(limits, now) {
            ReadFailure::Silent
        } else {
            return false;
        };
        if let Some(call) = page.call() {
            self.call_is_late(call, now.time(), quotas, out);
        }
        self.end_page(Ending::Broken(why), now.time(), out);
        true
    }

    /// The page under way has come to its end, by the relay's word.
    pub(in crate::relay) fn page_ended(&mut self, now: MonoTime, out: &mut Vec<Action>) {
        self.end_page(Ending::Whole, now, out);
    }

    /// The page under way is over without its end.
    pub(in crate::relay) fn page_broke(
        &mut self,
        why: ReadFailure,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        self.end_page(Ending::Broken(why), now, out);
    }

    /// However a page ends, what came is handed over, and what it says of the rest is recorded.
    fn end_page(&mut self, ending: Ending, now: MonoTime, out: &mut Vec<Action>) {
        let limit_max = self.page_max();
        let sub = self.recovery.attempt.as_ref().map(|attempt| attempt.sub);
        let has_query = sub.is_some_and(|sub| self.has_query(sub));
        let Some(attempt) = &mut self.recovery.attempt else {
            return;
        };
        let AttemptPhase::Reading(page, plan) =
            core::mem::replace(&mut attempt.phase, AttemptPhase::Handing)
        else {
            return;
        };
        let (sub, number) = (attempt.sub, attempt.number);
        if let Via::Socket { n, .. } = page.via {
            self.subs.names.supersede_page(n);
        }
        let read = Read {
            page: &page,
            is_whole: matches!(ending, Ending::Whole),
            was_too_much: matches!(
                ending,
                Ending::Broken(ReadFailure::Silent | ReadFailure::TooLarge)
            ),
            has_query,
            limit_max,
            seen: &self.seen,
            now,
        };
        let result = self.subs.row_mut(sub).map(|row| match &plan {
            Plan::Ids(ids) => read.end_ids(row, ids),
            Plan::Window { .. } => read.end_window(sub, row),
        });
        let result = result.unwrap_or_default();
        attempt.has_shrunk |= result.has_shrunk;
        let failure = match ending {
            Ending::Broken(why) => Some(why),
            Ending::Whole => result.is_doubted.then_some(ReadFailure::Empty),
        };
        if let Some(why) = failure {
            attempt.has_failed = true;
            if !why.is_rate_limit() {
                out.push(Action::Note(Note::ReadFailed { sub, why }));
            }
        }
        out.extend(result.gap.map(Action::Note));
        let events = page.into_events();
        let count = u32::try_from(events.len()).unwrap_or(u32::MAX);
        attempt.in_hand = attempt.in_hand.saturating_add(count);
        let held = events.into_iter().map(|event| (sub, event, number));
        self.recovery.held.extend(held);
    }

    /// Goes on with the attempt once all that it brought was handed over, or ends it.
    fn advance_attempt(
        &mut self,
        conn: Option<ConnId>,
        now: &Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let Some(attempt) = &self.recovery.attempt else {
            return false;
        };
        let (sub, pages) = (attempt.sub, attempt.pages);
        let row = self.subs.row(sub);
        let is_live = row.is_some_and(|row| matches!(row.phase, Phase::Live { .. }));
        let is_over = match &attempt.phase {
            AttemptPhase::Asking => conn.is_none() || !is_live,
            AttemptPhase::Reading(..) => row.is_none(),
            AttemptPhase::Handing => attempt.in_hand == 0,
        };
        if !is_over {
            return false;
        }
        let goes_on = matches!(attempt.phase, AttemptPhase::Handing)
            && !attempt.has_failed
            && conn.is_some()
            && is_live
            && pages < PAGES_MAX
            && row.is_some_and(|row| row.loss.ids_len() == 0 && row.loss.has_windows());
        if goes_on && let Some(attempt) = &mut self.recovery.attempt {
            attempt.phase = AttemptPhase::Asking;
            return true;
        }
        self.end_attempt(now.time(), quotas, out);
        true
    }

    fn end_attempt(&mut self, now: MonoTime, quotas: &mut Quotas, out: &mut Vec<Action>) {
        let Some(attempt) = self.recovery.attempt.take() else {
            return;
        };
        if let AttemptPhase::Reading(page, _) = &attempt.phase {
            self.give_up(page.via, quotas, out);
        }
        let needs_rest = attempt.has_failed || attempt.is_scant;
        self.recovery.cool_until = needs_rest.then(|| now.after(COOL_DOWN));
        let Some(row) = self.subs.row_mut(attempt.sub) else {
            return;
        };
        row.loss
            .attempt_ended(attempt.has_shrunk, attempt.is_scant, now);
        row.is_first &= row.loss.has_windows();
        self.tell_settled(attempt.sub, out);
        self.ledger.touch();
    }
}
