//! Which subscription is read next, and what of it.

use alloc::vec::Vec;
use core::time::Duration;

use super::loss::LOST_MAX;
use crate::ids::EventId;
use crate::note::Note;
use crate::relay::room::Free;
use crate::relay::sub_row::{Phase, Row};
use crate::relay::{Action, Relay, Sub};
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::Filter;

/// Fewer events than this are not worth a page.
const PAGE_MIN: u64 = 50;
/// A loss that has waited for so long is content with any room.
const PATIENCE: Duration = Duration::from_secs(60);
/// Author dates may lie before the date of a loss by this.
const OVERLAP: Duration = Duration::from_secs(5);

/// What a page asks for.
#[derive(Clone, Debug)]
pub(in crate::relay) enum Plan {
    Ids(Vec<(UnixTime, EventId)>),
    Window { limit: u32 },
}

/// What an attempt begins with.
#[derive(Clone, Debug)]
pub(in crate::relay) struct Choice {
    pub(in crate::relay) sub: Sub,
    pub(in crate::relay) plan: Plan,
    /// Whether there is less than half of the room, and it has waited for long.
    pub(in crate::relay) is_scant: bool,
}

impl Relay {
    /// The subscription that is read next, and what of it: of those for which there is room, the
    /// one whose last attempt is the oldest.
    pub(in crate::relay) fn choose(
        &mut self,
        now: &mut Now,
        out: &mut Vec<Action>,
    ) -> Option<Choice> {
        let mut lagging = None;
        let mut chosen: Option<(u64, Choice)> = None;
        for (sub, row) in self.subs.iter() {
            if row.loss.is_empty() || !matches!(row.phase, Phase::Live { .. }) {
                continue;
            }
            let free = self.free(sub);
            let is_scant = !free.is_half;
            let has_waited = is_scant && row.loss.has_waited(PATIENCE, now);
            if has_waited && !row.loss.is_lagging {
                lagging = Some(sub);
            }
            if is_scant && !(has_waited && free.left > 0) {
                continue;
            }
            let attempted = row.loss.attempted;
            let is_earlier = chosen.as_ref().is_none_or(|(other, _)| attempted < *other);
            if !(is_earlier && row.loss.is_rested(now)) {
                continue;
            }
            let is_cool = self
                .recovery
                .cool_until()
                .is_none_or(|until| now.reached(until, Why::Recovery));
            if let Some(plan) = self.plan(row, free.left, is_cool, now) {
                let choice = Choice {
                    sub,
                    plan,
                    is_scant,
                };
                chosen = Some((attempted, choice));
            }
        }
        if let Some(sub) = lagging {
            self.tell_lagging(sub, now.time(), out);
        }
        chosen.map(|(_, choice)| choice)
    }

    /// The next page of an attempt under way, while there is room for any of it.
    pub(in crate::relay) fn next_page(&self, sub: Sub, now: &mut Now) -> Option<Plan> {
        let free = self.free(sub).left;
        let row = self.subs.row(sub).filter(|_| free > 0)?;
        self.plan(row, free, true, now)
    }

    /// Membership notices take no place.
    fn free(&self, sub: Sub) -> Free {
        match sub {
            Sub::Membership => Free::ALL,
            Sub::Channel(_) => self.room.free(sub),
        }
    }

    /// What of a subscription may be read now. Ids come first; only a window that a new connection
    /// left waits for no cool-down.
    fn plan(&self, row: &Row, free: u64, is_cool: bool, now: &mut Now) -> Option<Plan> {
        if is_cool {
            let count = free.min(u64::from(self.page_max()));
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let ids = row.loss.due_ids(count, now);
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

    /// Whether a subscription can be read over HTTP: a relay refuses a query that names no kinds.
    pub(in crate::relay) fn has_query(&self, sub: Sub) -> bool {
        let names_kinds = |row: &Row| sub == Sub::Membership || !row.interest.kinds.is_empty();
        self.route.is_open() && self.subs.row(sub).is_some_and(names_kinds)
    }

    /// The largest page that the relay gives and whose events could all be owed.
    pub(in crate::relay) fn page_max(&self) -> u32 {
        let told = self.inform.limit_max().unwrap_or(u32::MAX);
        let held = u32::try_from(LOST_MAX).unwrap_or(u32::MAX);
        self.config.limits.page.min(told).clamp(1, held)
    }

    fn window_limit(&self, free: u64, halvings: u32) -> u32 {
        let wanted = u32::try_from(free.max(PAGE_MIN)).unwrap_or(u32::MAX);
        let limit = wanted.min(self.page_max());
        limit.checked_shr(halvings).unwrap_or(0).max(1)
    }

    fn tell_lagging(&mut self, sub: Sub, now: MonoTime, out: &mut Vec<Action>) {
        let Some(row) = self.subs.row_mut(sub) else {
            return;
        };
        row.loss.is_lagging = true;
        let count = u64::try_from(row.loss.ids_len()).unwrap_or(u64::MAX);
        let wait = row.loss.waited(now);
        out.push(Action::Note(Note::Lagging { sub, count, wait }));
    }

    /// The filter of a page, and whether it goes over HTTP: a doubted answer is asked for there,
    /// and what a request on the socket cannot tell apart.
    pub(in crate::relay) fn page_filter(
        &self,
        sub: Sub,
        plan: &Plan,
        relay_time: Option<UnixTime>,
    ) -> Option<(Filter, bool)> {
        let row = self.subs.row(sub)?;
        match plan {
            Plan::Ids(ids) => {
                let oldest = ids.first().map(|(dated, _)| dated.before(OVERLAP));
                let limit = u32::try_from(ids.len()).ok();
                let base = row.filter(sub, self.me, oldest, limit);
                let ids = ids.iter().map(|(_, id)| *id).collect();
                let is_doubted = row.loss.doubts.count() >= 2;
                Some((Filter { ids, ..base }, is_doubted && self.has_query(sub)))
            }
            Plan::Window { limit } => {
                let window = row.loss.window()?;
                let since = Some(window.from).filter(|from| *from > UnixTime::default());
                let ahead = relay_time.map(|present| present.after(self.config.limits.drift));
                let base = row.filter(sub, self.me, since, Some(*limit));
                let is_wanted = window.after.is_some() || window.doubts.count() >= 2;
                let by_http = is_wanted && self.has_query(sub);
                let filter = Filter {
                    until: window.position.or(ahead),
                    before_id: window.after.filter(|_| by_http),
                    ..base
                };
                Some((filter, by_http))
            }
        }
    }
}
