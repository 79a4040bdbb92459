//! What becomes of jobs: answers, receipts, verdicts.

use alloc::vec::Vec;

use super::calls::Call;
use super::job::{Content, Phase, Row, Sort};
use super::marks::{Ending, is_mark_job};
use super::part::{Asks, Part, Sent};
use super::retry::{Around, Next};
use super::settle::{self, Failure, Found, Reading};
use super::{Action, Verdict};
use crate::gate::Refusal;
use crate::ids::{JobId, Ticket};
use crate::note::{Note, Quota, Shown};
use crate::quotas::Quotas;
use crate::relay::{BrokeCause, HttpAnswer, Receipt};
use crate::retry_hint::Hint;
use crate::time::MonoTime;

/// A call over HTTP that has ended.
type Ended = (Ticket, Call<Sent>);

impl Part {
    /// A call over HTTP has its answer.
    pub(super) fn answered(
        &mut self,
        ended: Ended,
        answer: &HttpAnswer,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        let wall = self.wall.map(|wall| wall.at(now));
        let Sent { event, asks, .. } = ended.1.kept;
        match asks {
            Asks::ToStore => {
                let reading = settle::read_answer(answer, event, wall);
                if let Reading::Failed(failure) = reading {
                    self.failed(ended, failure, now, quotas, out);
                } else {
                    self.posted(ended, reading, now, quotas);
                }
            }
            Asks::WhetherStored => {
                let found = settle::read_found(answer, event, wall);
                if let Found::Failed(failure) = found {
                    self.failed(ended, failure, now, quotas, out);
                } else {
                    self.looked_up(ended, found, now, quotas);
                }
            }
        }
    }

    /// A call over HTTP will have no answer.
    pub(super) fn broke(
        &mut self,
        ended: Ended,
        cause: BrokeCause,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        self.failed(ended, settle::read_break(cause), now, quotas, out);
    }

    /// A call over HTTP failed in a way that may pass. That concerns the quota even where the job is
    /// gone.
    fn failed(
        &mut self,
        (ticket, call): Ended,
        failure: Failure,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        let Sent { at, asks, .. } = call.kept;
        let is_here = self.awaits(call.job, ticket);
        // A job that fails alone must not test the gate for ever.
        if is_here && quotas.http.is_probe(at) {
            self.outbox.move_back(call.job);
        }
        let hint = failure.hint;
        let refusal = quotas.http.fail(hint.map(|hint| hint.wait), at, now);
        if is_here {
            match asks {
                Asks::ToStore => self.conclude(call.job, Reading::Failed(failure), true, now),
                Asks::WhetherStored => self.conclude_found(call.job, Found::Failed(failure), now),
            }
        }
        self.throttled(refusal, hint, now, quotas, out);
    }

    /// A post has an answer that is no failure.
    fn posted(
        &mut self,
        (ticket, call): Ended,
        reading: Reading,
        now: MonoTime,
        quotas: &mut Quotas,
    ) {
        self.has_no_route |= reading == Reading::NoRoute;
        quotas.http.succeed(call.kept.at);
        if self.awaits(call.job, ticket) {
            self.conclude(call.job, reading, true, now);
        }
    }

    /// A look-up has an answer that is no failure.
    fn looked_up(
        &mut self,
        (ticket, call): Ended,
        found: Found,
        now: MonoTime,
        quotas: &mut Quotas,
    ) {
        quotas.http.succeed(call.kept.at);
        let is_over = found == Found::NoRoute;
        if self.awaits(call.job, ticket) {
            self.conclude_found(call.job, found, now);
        }
        if is_over {
            self.has_no_query = true;
            while let Some(job) = self.outbox.unsure() {
                self.conclude_found(job, Found::NoRoute, now);
            }
        }
    }

    /// An EVENT on the socket has its outcome.
    pub(super) fn sent(&mut self, ticket: Ticket, job: JobId, receipt: Receipt, now: MonoTime) {
        if !self.is_at(job, Phase::Sending { ticket }) {
            return;
        }
        if let Some(row) = self.outbox.get(job) {
            let reading = settle::read_receipt(receipt, row.sort);
            self.conclude(job, reading, false, now);
        }
    }

    /// What a reading means for its job.
    fn conclude(&mut self, job: JobId, reading: Reading, is_gated: bool, now: MonoTime) {
        let around = self.around(job, is_gated);
        if let Some(row) = self.outbox.row_mut(job) {
            let next = row.history.decide(reading, around);
            self.go_on(job, next, now);
        }
    }

    /// What a look-up means for its job.
    fn conclude_found(&mut self, job: JobId, found: Found, now: MonoTime) {
        let around = self.around(job, true);
        if let Some(row) = self.outbox.row_mut(job) {
            let next = row.history.decide_found(found, around);
            self.go_on(job, next, now);
        }
    }

    fn go_on(&mut self, job: JobId, next: Next, now: MonoTime) {
        // Its call is over, so that it is not out from here on.
        self.outbox.enter(job, Phase::Ready);
        match next {
            Next::Settle(verdict) => {
                self.settle(job, verdict);
            }
            Next::Again | Next::SignAgain | Next::Rest(_) | Next::LookUp
                if self.is_outdated(job) =>
            {
                self.settle(job, Verdict::Evicted);
            }
            Next::Again => {}
            Next::SignAgain => self.outbox.unsign(job),
            Next::Rest(span) => {
                let until = now.after(span);
                self.outbox.enter(job, Phase::Resting { until });
            }
            Next::LookUp => self.outbox.enter(job, Phase::Unsure),
        }
    }

    /// Whether nobody wants it any more.
    fn is_outdated(&self, job: JobId) -> bool {
        let Some(row) = self.outbox.get(job) else {
            return false;
        };
        match row.sort {
            Sort::Durable => false,
            Sort::Latest(_) => self.outbox.is_outdated(job),
            Sort::Mark => !self.marks.is_current(row.may_be_stored()),
        }
    }

    /// Takes back the step of a mark that is not wanted any more, unless its call is under way.
    pub(super) fn take_mark_back(&mut self) {
        let Some(job) = self.marks.job() else {
            return;
        };
        let phase = self.outbox.get(job).map(Row::phase);
        let is_waiting = phase.is_some_and(|phase| !phase.is_out() && !phase.is_asking());
        if is_waiting && self.is_outdated(job) {
            self.settle(job, Verdict::Evicted);
        }
    }

    /// Ends a job with its verdict. Whether there was such a job. Its post goes on: the answer still
    /// tells how the relay fares.
    pub(super) fn settle(&mut self, job: JobId, verdict: Verdict) -> bool {
        let may_be_stored = self.outbox.get(job).is_some_and(Row::may_be_stored);
        let Some(row) = self.outbox.remove(job) else {
            return false;
        };
        let given_up = match row.phase() {
            Phase::Signing { ticket } => self.signs.end(ticket).map(|_| ticket),
            Phase::Sending { ticket } => self.sends.end(ticket).map(|_| ticket),
            Phase::Ready
            | Phase::Resting { .. }
            | Phase::Unsure
            | Phase::Posting { .. }
            | Phase::LookingUp { .. } => None,
        };
        self.decided
            .extend(given_up.map(|ticket| Action::Abort { ticket }));
        if verdict == Verdict::Stored {
            self.stored = self.stored.saturating_add(1);
        }
        if is_mark_job(job) {
            let signed = match row.content {
                Content::Signed(event, at) => Some((event, at)),
                Content::Draft { signed, .. } => signed,
            };
            let is_given_up = self.marks.end(Ending {
                verdict,
                signed,
                may_be_stored,
            });
            if is_given_up {
                self.not_shown(Some(Shown::Reaction));
            }
            return true;
        }
        self.tell_verdict(job, row.sort, verdict);
        true
    }

    /// Ends a job for which there is no room beside another.
    pub(super) fn crowd_out(&mut self, job: JobId) {
        let sort = self.outbox.get(job).map(|row| row.sort);
        self.settle(job, Verdict::Evicted);
        // The step of a mark comes back by itself.
        let sort = sort.filter(|sort| *sort != Sort::Mark);
        self.not_shown(sort.and_then(Sort::shown));
    }

    /// The verdict of a job that does not come in.
    pub(super) fn refuse(&mut self, job: JobId, sort: Sort, verdict: Verdict) {
        let is_crowded = verdict == Verdict::Evicted;
        self.tell_verdict(job, sort, verdict);
        self.not_shown(sort.shown().filter(|_| is_crowded));
    }

    fn tell_verdict(&mut self, job: JobId, sort: Sort, verdict: Verdict) {
        let is_owed = sort == Sort::Durable && verdict != Verdict::Stored;
        let note = is_owed.then(|| Note::Unpublished {
            job,
            verdict: verdict.clone(),
        });
        self.decided.push(Action::Settle { job, verdict });
        self.decided.extend(note.map(Action::Note));
    }

    fn not_shown(&mut self, what: Option<Shown>) {
        let note = what.map(|what| Action::Note(Note::NotShown { what }));
        self.decided.extend(note);
    }

    pub(super) fn is_at(&self, job: JobId, phase: Phase) -> bool {
        self.outbox.get(job).is_some_and(|row| row.phase() == phase)
    }

    /// Whether a job awaits the answer of this call over HTTP.
    fn awaits(&self, job: JobId, call: Ticket) -> bool {
        match self.outbox.get(job).map(Row::phase) {
            Some(Phase::Posting { ticket } | Phase::LookingUp { ticket }) => ticket == call,
            Some(
                Phase::Ready
                | Phase::Resting { .. }
                | Phase::Unsure
                | Phase::Signing { .. }
                | Phase::Sending { .. },
            )
            | None => false,
        }
    }

    pub(super) fn around(&self, job: JobId, is_gated: bool) -> Around {
        let row = self.outbox.get(job);
        Around {
            stored: self.stored,
            attempts_max: self.config.attempts_max,
            can_sign: row.is_some_and(Row::is_draft),
            can_look_up: !self.has_no_query && row.is_some_and(Row::can_be_found),
            is_gated,
        }
    }

    /// Says that a gate shut, or stays shut for longer.
    fn throttled(
        &self,
        refusal: Refusal,
        hint: Option<Hint>,
        now: MonoTime,
        quotas: &Quotas,
        out: &mut Vec<Action>,
    ) {
        match refusal {
            Refusal::Counted | Refusal::Lengthened => out.push(Action::Note(Note::Throttled {
                quota: Quota::Http,
                source: hint.map(|hint| hint.source),
                capped: hint.is_some_and(|hint| hint.capped),
                wait: quotas.http.wait(now),
                in_flight: quotas.http.in_flight(),
                waiting: self.waiting(),
                attempt: quotas.http.attempt(),
            })),
            Refusal::Known => {}
        }
    }
}
