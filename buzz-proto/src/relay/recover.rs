//! Recovery: what was lost is read again, one subscription at a time, when there is room for it.
//!
//! An attempt is one page of ids, or up to five pages of a window. It ends when all that it brought
//! was handed over, and only then is it known what it was good for. Room is a fact that comes in;
//! nothing looks for it, no slot is kept for what was lost, and the live subscription is not
//! touched.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use super::call::Call;
use super::page::{Page, Via};
use super::read_end::Read;
use super::sub_row::Phase;
use super::verify::Source;
use super::{Action, Relay, Sub};
use crate::ids::{ConnId, EventId};
use crate::note::{Note, ReadFailure};
use crate::quotas::Quotas;
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::{self, Event, Filter, SubName};

/// Pages of one attempt.
const PAGES_MAX: u32 = 5;
/// Fewer events than this are not worth a page.
const PAGE_MIN: u64 = 50;
/// After an attempt that failed, or whose events did not all find room.
const COOL_DOWN: Duration = Duration::from_secs(5);
/// A loss that has waited for so long is content with any room.
const PATIENCE: Duration = Duration::from_secs(60);
/// Author dates may lie before the date of a loss by this.
const OVERLAP: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
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
    /// Whether less is owed than before.
    has_shrunk: bool,
    /// Whether something did not go as it should.
    has_failed: bool,
}

#[derive(Clone, Debug)]
enum AttemptPhase {
    /// The next page is to be asked.
    Asking(Plan),
    Reading(alloc::boxed::Box<Page>, Plan),
    /// What it brought is handed over.
    Handing,
}

/// What a page asks for.
#[derive(Clone, Debug)]
enum Plan {
    Ids(Vec<(UnixTime, EventId)>),
    Window { limit: u32 },
}

/// How a page ended.
#[derive(Clone, Debug)]
enum Ending {
    /// The relay says that there is no more of it.
    Whole,
    Broken(ReadFailure),
}

impl Recovery {
    /// The oldest date among what was read of a subscription and is not verified.
    pub(super) fn held(&self, sub: Sub) -> impl Iterator<Item = UnixTime> {
        let held = self.held.iter().filter(move |(of, _, _)| *of == sub);
        held.map(|(_, event, _)| event.created_at())
    }

    fn page(&mut self) -> Option<(&mut Page, &Plan)> {
        match &mut self.attempt.as_mut()?.phase {
            AttemptPhase::Reading(page, plan) => Some((page, plan)),
            AttemptPhase::Asking(_) | AttemptPhase::Handing => None,
        }
    }

    /// The page under way, if it is the one wanted.
    pub(super) fn page_if(&mut self, is_wanted: impl Fn(&Page) -> bool) -> Option<&mut Page> {
        self.page()
            .map(|(page, _)| page)
            .filter(|page| is_wanted(page))
    }

    fn in_attempt(&mut self, source: Source) -> Option<&mut Attempt> {
        let Source::Attempt(number) = source else {
            return None;
        };
        self.attempt
            .as_mut()
            .filter(|attempt| attempt.number == number)
    }

    /// An attempt that cannot ask yet is none: by the time that it could, there may be less room,
    /// or nothing left to ask for.
    fn withdraw(&mut self) {
        let is_unasked = |attempt: &mut Attempt| {
            attempt.pages == 0 && matches!(attempt.phase, AttemptPhase::Asking(_))
        };
        self.attempt.take_if(is_unasked);
    }

    /// An event of a page has its verdict, and what became of it.
    pub(super) fn handed(&mut self, source: Source, found_room: bool) {
        if let Some(attempt) = self.in_attempt(source) {
            attempt.in_hand = attempt.in_hand.saturating_sub(1);
            attempt.has_failed |= !found_room;
        }
    }

    /// A lost event of this subscription was handed over, whoever brought it.
    pub(super) fn shrunk(&mut self, sub: Sub) {
        if let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.sub == sub) {
            attempt.has_shrunk = true;
        }
    }
}

impl Relay {
    /// Moves the attempt under way, or begins one.
    pub(super) fn recover(
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
        if self.recovery.attempt.is_none() {
            let told = out.len();
            let chosen = self.choose(now, out);
            moved |= out.len() > told;
            let Some((sub, plan)) = chosen else {
                return moved;
            };
            self.begin_attempt(sub, plan);
        }
        let asked = self.ask_page(conn, now, quotas, out);
        if !asked {
            self.recovery.withdraw();
        }
        moved | asked
    }

    /// Has what pages brought verified, as there is room.
    fn feed(&mut self) -> bool {
        let limits = &self.config.limits;
        let mut moved = false;
        while let Some((sub, event, number)) = self.recovery.held.front() {
            let (sub, source) = (*sub, Source::Attempt(*number));
            let owed = !self.subs.page_precedes_floor(sub, event.created_at());
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

    /// The subscription that is read next, and what of it: of those for which there is room, the
    /// one whose last attempt is the oldest.
    fn choose(&mut self, now: &mut Now, out: &mut Vec<Action>) -> Option<(Sub, Plan)> {
        let mut lagging = None;
        let mut chosen: Option<(u64, Sub, Plan)> = None;
        for (sub, row) in self.subs.iter() {
            if row.loss.is_empty() || !matches!(row.phase, Phase::Live { .. }) {
                continue;
            }
            let free = match sub {
                Sub::Membership => super::room::Free::ALL,
                Sub::Channel(_) => self.room.free(sub),
            };
            let has_waited = !free.is_half && row.loss.has_waited(PATIENCE, now);
            if has_waited && !row.loss.is_lagging {
                lagging = Some(sub);
            }
            if !(free.is_half || (has_waited && free.left > 0)) {
                continue;
            }
            let is_earlier = chosen
                .as_ref()
                .is_none_or(|(attempted, _, _)| row.loss.attempted < *attempted);
            if !(is_earlier && row.loss.is_rested(now)) {
                continue;
            }
            let is_cool = self
                .recovery
                .cool_until
                .is_none_or(|until| now.reached(until, Why::Recovery));
            if let Some(plan) = self.plan(sub, free.left, is_cool, now) {
                chosen = Some((row.loss.attempted, sub, plan));
            }
        }
        if let Some(sub) = lagging {
            self.tell_lagging(sub, now.time(), out);
        }
        chosen.map(|(_, sub, plan)| (sub, plan))
    }

    /// What of a subscription may be read now. Ids come first; only a window that a new connection
    /// left waits for no cool-down.
    fn plan(&self, sub: Sub, free: u64, is_cool: bool, now: &mut Now) -> Option<Plan> {
        let row = self.subs.get(sub)?;
        if is_cool {
            let count = free.min(u64::from(self.page_max()));
            let ids = row
                .loss
                .due_ids(usize::try_from(count).unwrap_or(usize::MAX), now);
            if !ids.is_empty() {
                return Some(Plan::Ids(ids));
            }
        }
        let window = row.loss.window()?;
        let may = is_cool || window.by_connection;
        let free = if window.is_wide { u64::MAX } else { free };
        let limit = self.window_limit(free, window.halvings);
        (may && row.loss.is_window_due(limit as usize, now)).then_some(Plan::Window { limit })
    }

    /// The largest page that the relay gives.
    fn page_max(&self) -> u32 {
        let told = self.inform.limit_max().unwrap_or(u32::MAX);
        self.config.limits.page.min(told).max(1)
    }

    fn window_limit(&self, free: u64, halvings: u32) -> u32 {
        let wanted = u32::try_from(free.max(PAGE_MIN)).unwrap_or(u32::MAX);
        let limit = wanted.min(self.page_max());
        limit.checked_shr(halvings).unwrap_or(0).max(1)
    }

    fn tell_lagging(&mut self, sub: Sub, now: MonoTime, out: &mut Vec<Action>) {
        let Some(row) = self.subs.get_mut(sub) else {
            return;
        };
        row.loss.is_lagging = true;
        let (count, wait) = (row.loss.len() as u64, row.loss.waited(now));
        out.push(Action::Note(Note::Lagging { sub, count, wait }));
    }

    fn begin_attempt(&mut self, sub: Sub, plan: Plan) {
        self.recovery.attempts = self.recovery.attempts.saturating_add(1);
        let number = self.recovery.attempts;
        self.recovery.attempt = Some(Attempt {
            sub,
            number,
            pages: 0,
            phase: AttemptPhase::Asking(plan),
            in_hand: 0,
            has_shrunk: false,
            has_failed: false,
        });
    }

    /// Asks for the next page, if the gate lets it.
    fn ask_page(
        &mut self,
        conn: ConnId,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let Some(attempt) = &self.recovery.attempt else {
            return false;
        };
        let (sub, AttemptPhase::Asking(plan)) = (attempt.sub, &attempt.phase) else {
            return false;
        };
        let plan = plan.clone();
        let relay_time = self.relay_time_at(now.time());
        let Some((filter, by_http)) = self.page_filter(sub, &plan, relay_time) else {
            return false;
        };
        let Some(via) = self.start_read(conn, by_http, &filter, now, quotas, out) else {
            return false;
        };
        if let Some(attempt) = &mut self.recovery.attempt {
            let page = alloc::boxed::Box::new(Page::new(via, filter));
            attempt.pages = attempt.pages.saturating_add(1);
            attempt.phase = AttemptPhase::Reading(page, plan);
            if let Some(row) = self.subs.get_mut(sub) {
                row.loss.attempted = attempt.number;
            }
        }
        true
    }

    /// Orders one read of stored events: over HTTP, or as a request that is closed at its end.
    pub(super) fn start_read(
        &mut self,
        conn: ConnId,
        by_http: bool,
        filter: &Filter,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> Option<Via> {
        if by_http {
            let call = Call::start(quotas, &mut self.tickets, now)?;
            out.push(Action::Query {
                ticket: call.ticket,
                body: wire::query(core::slice::from_ref(filter)),
            });
            return Some(Via::Http(call));
        }
        let stamp = quotas.operations.start(now)?;
        let (write, n) = (self.writes.next.take(), self.subs.names.take());
        let text = wire::req(&SubName::Page { n }, filter);
        self.write(conn, write, text, now.time(), out);
        let heard = None;
        Some(Via::Socket {
            n,
            write,
            stamp,
            heard,
        })
    }

    /// The filter of a page, and whether it goes over HTTP: a doubted answer is asked for there,
    /// and what a request on the socket cannot tell apart.
    fn page_filter(
        &self,
        sub: Sub,
        plan: &Plan,
        relay_time: Option<UnixTime>,
    ) -> Option<(Filter, bool)> {
        let row = self.subs.get(sub)?;
        match plan {
            Plan::Ids(ids) => {
                let oldest = ids.first().map(|(dated, _)| dated.before(OVERLAP));
                let limit = u32::try_from(ids.len()).ok();
                let base = row.filter(sub, self.me, oldest, limit);
                let ids = ids.iter().map(|(_, id)| *id).collect();
                let is_doubted = row.loss.doubts.count() >= 2;
                Some((Filter { ids, ..base }, is_doubted && self.route.is_open()))
            }
            Plan::Window { limit } => {
                let window = row.loss.window()?;
                let since = Some(window.from).filter(|from| *from > UnixTime::default());
                let ahead = relay_time.map(|present| present.after(self.config.limits.drift));
                let base = row.filter(sub, self.me, since, Some(*limit));
                let is_wanted = window.after.is_some() || window.doubts.count() >= 2;
                let by_http = is_wanted && self.route.is_open();
                let filter = Filter {
                    until: window.position.or(ahead),
                    before_id: window.after.filter(|_| by_http),
                    ..base
                };
                Some((filter, by_http))
            }
        }
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
            call.broke(quotas, now.time());
            self.route.learn(None);
            let ticket = call.ticket;
            out.push(Action::Abort { ticket });
        }
        self.end_page(Ending::Broken(why), now.time(), out);
        true
    }

    /// The page under way has come to its end, by the relay's word.
    pub(super) fn page_ended(&mut self, quotas: &mut Quotas, now: MonoTime, out: &mut Vec<Action>) {
        if let Some((page, _)) = self.recovery.page()
            && let Via::Socket { stamp, .. } = page.via
        {
            quotas.operations.succeed(stamp);
        }
        self.end_page(Ending::Whole, now, out);
    }

    /// The page under way is over without its end.
    pub(super) fn page_broke(&mut self, why: ReadFailure, now: MonoTime, out: &mut Vec<Action>) {
        self.end_page(Ending::Broken(why), now, out);
    }

    /// However a page ends, what came is handed over, and what it says of the rest is recorded.
    fn end_page(&mut self, ending: Ending, now: MonoTime, out: &mut Vec<Action>) {
        let Some(attempt) = &mut self.recovery.attempt else {
            return;
        };
        let AttemptPhase::Reading(page, plan) =
            core::mem::replace(&mut attempt.phase, AttemptPhase::Handing)
        else {
            return;
        };
        let (sub, number) = (attempt.sub, attempt.number);
        let told = self.inform.limit_max().unwrap_or(u32::MAX);
        if let Via::Socket { n, .. } = page.via {
            self.subs.names.supersede(Some((n, SubName::Page { n })));
        }
        let read = Read {
            page: &page,
            is_whole: matches!(ending, Ending::Whole),
            route: self.route,
            limit_max: self.config.limits.page.min(told),
            seen: &self.seen,
            now,
        };
        let result = self.subs.get_mut(sub).map(|row| match &plan {
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
            out.push(Action::Note(Note::ReadFailed { sub, why }));
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
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let Some(attempt) = &self.recovery.attempt else {
            return false;
        };
        let (sub, pages) = (attempt.sub, attempt.pages);
        let row = self.subs.get(sub);
        let is_live = row.is_some_and(|row| matches!(row.phase, Phase::Live { .. }));
        let is_over = match &attempt.phase {
            AttemptPhase::Asking(_) => conn.is_none() || !is_live,
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
            && row.is_some_and(|row| row.loss.len() == 0);
        if goes_on && let Some(plan) = self.next_page(sub, now) {
            if let Some(attempt) = &mut self.recovery.attempt {
                attempt.phase = AttemptPhase::Asking(plan);
            }
            return true;
        }
        self.end_attempt(now.time(), quotas, out);
        true
    }

    /// The next page of a window, while there is room for any of it.
    fn next_page(&self, sub: Sub, now: &mut Now) -> Option<Plan> {
        let free = match sub {
            Sub::Membership => super::room::Free::ALL,
            Sub::Channel(_) => self.room.free(sub),
        };
        (free.left > 0).then_some(())?;
        self.plan(sub, free.left, true, now)
    }

    fn end_attempt(&mut self, now: MonoTime, quotas: &mut Quotas, out: &mut Vec<Action>) {
        let Some(attempt) = self.recovery.attempt.take() else {
            return;
        };
        if let AttemptPhase::Reading(page, _) = &attempt.phase {
            self.give_up(page.via, quotas, out);
        }
        let was_asked = attempt.pages > 0;
        self.recovery.cool_until = (was_asked && attempt.has_failed).then(|| now.after(COOL_DOWN));
        let Some(row) = self.subs.get_mut(attempt.sub) else {
            return;
        };
        if was_asked {
            row.loss.attempt_ended(attempt.has_shrunk, now);
        }
        row.is_first &= row.loss.has_windows();
        out.extend(row.loss.take_gap(attempt.sub).map(Action::Note));
        if row.loss.is_empty() {
            let (sub, count) = (attempt.sub, core::mem::take(&mut row.loss.recovered));
            out.push(Action::Note(Note::CaughtUp { sub, count }));
        }
        self.ledger.touch();
    }

    /// Nobody wants the answer to a read any more.
    pub(super) fn give_up(&mut self, via: Via, quotas: &mut Quotas, out: &mut Vec<Action>) {
        match via {
            Via::Socket { n, .. } => self.subs.names.supersede(Some((n, SubName::Page { n }))),
            Via::Http(call) => {
                call.abandon(quotas);
                let ticket = call.ticket;
                out.push(Action::Abort { ticket });
            }
        }
    }
}
