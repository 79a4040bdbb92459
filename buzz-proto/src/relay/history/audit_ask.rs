//! Audits, of what: the subscriptions that are due, several in one read.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::audit::{Asked, Progress, Read};
use super::page::{Page, Via};
use super::read::To;
use crate::call::Call;
use crate::ids::ConnId;
use crate::quotas::{CallLane, Quotas};
use crate::relay::sub_row::Phase;
use crate::relay::{Action, Relay, Sub};
use crate::time::{Now, Why};
use crate::wire::{self, Filter};

/// Events of one subscription in one read.
const LIMIT: u32 = 100;

impl Relay {
    /// Says what was missed, and reads what is due.
    pub(in crate::relay) fn audit(
        &mut self,
        conn: Option<ConnId>,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let mut moved = self.tell_missed(now, out);
        moved |= self.end_silent_audit(now, quotas, out);
        let Some(conn) = conn.filter(|_| self.audits.read.is_none()) else {
            return moved;
        };
        let Some((first, _)) = self.audits.by_due.first() else {
            return moved;
        };
        if !now.reached(*first, Why::Audit) || !self.audits.pace.is_ready(now, Why::Audit) {
            return moved;
        }
        let (asked, has_changed) = self.due_audits(now);
        moved |= has_changed;
        moved | (!asked.is_empty() && self.ask_audit(conn, &asked, now, quotas, out))
    }

    /// What is asked for next, longest overdue first; and whether anything was put off. A
    /// subscription that owes something waits until it does not.
    fn due_audits(&mut self, now: &mut Now) -> (Vec<Asked>, bool) {
        let most = if self.route.is_open() {
            self.audits.group
        } else {
            1
        };
        let relay_time = self.relay_time_at(now.time());
        let (mut asked, mut idle, mut blind) = (Vec::new(), Vec::new(), Vec::new());
        for (at, sub) in &self.audits.by_due {
            if asked.len() >= most || !now.reached(*at, Why::Audit) {
                break;
            }
            let (Some(row), Some(audit)) = (self.subs.row(*sub), self.audits.rows.get(sub)) else {
                idle.push(*sub);
                continue;
            };
            if !matches!(row.phase, Phase::Live { .. }) {
                idle.push(*sub);
                continue;
            }
            let waits = !row.loss.is_empty()
                || (audit.is_alone && !asked.is_empty())
                || (self.audits.is_recheck(*sub)
                    && !self.audits.rechecks.is_ready(now, Why::Audit));
            if waits {
                continue;
            }
            let since = row.received(&self.config.limits);
            let (Some(begun), Some(since)) = (relay_time, since) else {
                blind.push(*sub);
                continue;
            };
            let begun = Progress::new(begun, since);
            let progress = audit.progress.filter(|progress| progress.since == since);
            let progress = progress.unwrap_or(begun);
            let Some(filter) = self.audit_filter(*sub, &progress) else {
                continue;
            };
            asked.push((*sub, progress, filter));
            if audit.is_alone {
                break;
            }
        }
        let has_changed = !(idle.is_empty() && blind.is_empty());
        for sub in idle {
            self.audits.rest(sub);
        }
        for sub in blind {
            self.audits.next_round(sub, now.time());
        }
        (asked, has_changed)
    }

    fn audit_filter(&self, sub: Sub, progress: &Progress) -> Option<Filter> {
        let by_http = self.route.is_open();
        let told = self.inform.limit_max().unwrap_or(u32::MAX);
        let most = LIMIT.min(self.config.limits.page).min(told);
        let limit = most.checked_shr(progress.halvings).unwrap_or(0).max(1);
        let row = self.subs.row(sub)?;
        let mut filter = row.filter(sub, self.me, Some(progress.since), Some(limit));
        if by_http && filter.kinds.is_empty() {
            filter.kinds = self.config.read_kinds.iter().copied().collect();
        }
        Some(Filter {
            until: progress.until,
            before_id: progress.after.filter(|_| by_http),
            ..filter
        })
    }

    /// Asks, if the gate lets it.
    fn ask_audit(
        &mut self,
        conn: ConnId,
        asked: &[Asked],
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let read = if self.route.is_open() {
            let Some(call) = Call::start(CallLane::History, quotas, &mut self.tickets, now) else {
                return false;
            };
            let filters: Vec<_> = asked.iter().map(|(_, _, filter)| filter.clone()).collect();
            out.push(Action::Query {
                ticket: call.ticket,
                body: wire::query(&filters),
            });
            let page = |filter: &Filter| Page::new(Via::Http(call), filter.clone());
            let pages = asked.iter().map(|(sub, _, filter)| (*sub, page(filter)));
            Read::Http(call, pages.collect())
        } else {
            let Some((sub, _, filter)) = asked.first() else {
                return false;
            };
            let Some(via) = self.start_read(To::Socket(conn), filter, now, quotas, out) else {
                return false;
            };
            Read::Socket(*sub, Box::new(Page::new(via, filter.clone())))
        };
        self.audits.begin(asked, read, now);
        true
    }

    /// Gives up a read that takes too long.
    fn end_silent_audit(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let limits = &self.config.limits;
        match &self.audits.read {
            Some(Read::Http(call, _)) if call.is_overdue(limits.answer, now) => {
                let ticket = call.ticket;
                out.push(Action::Abort { ticket });
                self.audit_unanswered(now.time(), quotas, out);
                true
            }
            Some(Read::Socket(_, page)) if page.is_too_large(limits) => {
                self.audit_page_too_large(now.time(), out);
                true
            }
            Some(Read::Socket(_, page)) if page.is_silent(limits, now) => {
                self.audit_page_broke(now.time(), out);
                true
            }
            Some(Read::Http(..) | Read::Socket(..)) | None => false,
        }
    }
}
