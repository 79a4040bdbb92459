//! Decisions of the publisher, taken from its whole state after every fact.

use alloc::vec::Vec;

use super::job::{Phase, Row};
use super::marks::is_mark_job;
use super::part::{Life, Part};
use super::{Action, Verdict};
use crate::quotas::Quotas;
use crate::relay::{BrokeCause, Receipt};
use crate::time::{Now, Why};

impl Part {
    /// Does everything that can be done now. Whether anything moved.
    pub(super) fn pump(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let before = out.len();
        let mut moved = self.give_up_calls(now, quotas, out);
        moved |= self.expire(now);
        moved |= self.end_grace(now);
        moved |= self.give_up_presence(now, quotas);
        moved |= self.end_rests(now);
        out.append(&mut self.decided);
        self.tell_filling(out);
        self.line_up(quotas);
        while self.take_turn(now, quotas, out) {
            moved = true;
        }
        self.end(quotas, out);
        moved || out.len() > before
    }

    /// A call without an answer by its limit is a failure, and its answer will be stale.
    fn give_up_calls(&mut self, now: &mut Now, quotas: &mut Quotas, out: &mut Vec<Action>) -> bool {
        let before = out.len();
        while let Some((ticket, call)) = self.signs.overdue(now) {
            out.push(Action::Abort { ticket });
            self.sign_failed(ticket, call, now.time());
        }
        while let Some((ticket, call)) = self.posts.overdue(now) {
            out.push(Action::Abort { ticket });
            self.broke(
                (ticket, call),
                BrokeCause::TimedOut,
                now.time(),
                quotas,
                out,
            );
        }
        while let Some((ticket, call)) = self.sends.overdue(now) {
            out.push(Action::Abort { ticket });
            self.sent(ticket, call.job, Receipt::Unanswered, now.time());
        }
        out.len() > before
    }

    fn expire(&mut self, now: &mut Now) -> bool {
        let mut moved = false;
        while let Some(job) = self.outbox.expired(now) {
            let verdict = self.outbox.row_mut(job).map(|row| {
                let is_out = row.phase().is_out();
                let late = row.history.verdict_when_late();
                // What was said last is not the last word on a mark: it is tried again.
                let is_put_off = is_mark_job(job) && matches!(late, Verdict::Rejected { .. });
                if is_out {
                    Verdict::Unknown
                } else if is_put_off {
                    Verdict::Expired
                } else {
                    late
                }
            });
            moved |= self.settle(job, verdict.unwrap_or(Verdict::Expired));
        }
        moved
    }

    fn end_grace(&mut self, now: &mut Now) -> bool {
        let Life::Ending { until } = self.life else {
            return false;
        };
        if !self.owes() || !now.reached(until, Why::Shutdown) {
            return false;
        }
        self.marks.clear();
        while let Some(job) = self.outbox.first() {
            // What was not stored, whatever the relay said of it, can be submitted in the next life.
            let may_be_stored = self.outbox.get(job).is_some_and(Row::may_be_stored);
            let verdict = if may_be_stored {
                Verdict::Unknown
            } else {
                Verdict::Cancelled
            };
            self.settle(job, verdict);
        }
        true
    }

    /// Whether there is anything that the end waits for.
    fn owes(&self) -> bool {
        self.outbox.len() > 0 || self.marks.has_work()
    }

    fn end_rests(&mut self, now: &mut Now) -> bool {
        let mut moved = false;
        while let Some(job) = self.outbox.rested(now) {
            self.outbox.enter(job, Phase::Ready);
            moved = true;
        }
        moved
    }

    /// Says when durable jobs begin or cease to fill half of the outbox.
    fn tell_filling(&mut self, out: &mut Vec<Action>) {
        let is_half_full = self.outbox.is_half_full();
        if is_half_full != self.is_half_full {
            self.is_half_full = is_half_full;
            out.push(Action::Outbox { is_half_full });
        }
    }

    /// The end, once nothing is owed.
    fn end(&mut self, quotas: &mut Quotas, out: &mut Vec<Action>) {
        if !matches!(self.life, Life::Ending { .. }) || self.owes() {
            return;
        }
        while let Some((ticket, call)) = self.posts.pop() {
            quotas.http.abandon(call.kept.at);
            out.push(Action::Abort { ticket });
        }
        self.life = Life::Ended;
        out.push(Action::Ended);
    }
}
