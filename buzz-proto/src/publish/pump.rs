//! Decisions of the publisher, taken from its whole state after every fact.

use alloc::vec::Vec;

use super::calls::Call;
use super::outbox::{Content, Phase, Pick, Row, dated};
use super::part::{Life, Part, Sent};
use super::settle;
use super::{Action, Class, Route, Verdict};
use crate::ids::JobId;
use crate::note::Note;
use crate::quotas::{CallLane, Quotas};
use crate::relay::{BrokeCause, Receipt};
use crate::time::{Now, Why};
use crate::wire::Event;

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
        moved |= self.end_rests(now);
        self.tell(out);
        while self.send_next(now, quotas, out) {}
        while self.post_next(now, quotas, out) {}
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
            let reading = settle::read_break(BrokeCause::TimedOut);
            self.posted((ticket, call), reading, now.time(), quotas, out);
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
            moved |= self.end_job(job, Verdict::Expired);
        }
        moved
    }

    fn end_grace(&mut self, now: &mut Now) -> bool {
        let Life::Ending { until } = self.life else {
            return false;
        };
        if self.outbox.len() == 0 || !now.reached(until, Why::Shutdown) {
            return false;
        }
        let mut moved = false;
        while let Some(job) = self.outbox.first() {
            moved |= self.end_job(job, Verdict::Cancelled);
        }
        moved
    }

    /// Ends a job that has no answer: unknown when it may be stored, else with this verdict.
    fn end_job(&mut self, job: JobId, verdict: Verdict) -> bool {
        let may_be_stored = self.outbox.get(job).is_some_and(Row::may_be_stored);
        self.settle(
            job,
            if may_be_stored {
                Verdict::Unknown
            } else {
                verdict
            },
        )
    }

    fn end_rests(&mut self, now: &mut Now) -> bool {
        let mut moved = false;
        while let Some(job) = self.outbox.rested(now) {
            self.outbox.enter(job, Phase::Ready);
            moved = true;
        }
        moved
    }

    /// Tells what was decided.
    fn tell(&mut self, out: &mut Vec<Action>) {
        out.extend(self.aborts.drain(..).map(|ticket| Action::Abort { ticket }));
        for (job, class, verdict) in self.verdicts.drain(..) {
            let is_owed = class == Class::Durable && verdict != Verdict::Stored;
            let note = is_owed.then(|| Note::Unpublished {
                job,
                verdict: verdict.clone(),
            });
            out.push(Action::Settle { job, verdict });
            out.extend(note.map(Action::Note));
        }
    }

    /// Lets one job take its turn over HTTP. Whether one did.
    fn post_next(&mut self, now: &mut Now, quotas: &mut Quotas, out: &mut Vec<Action>) -> bool {
        if self.has_no_route {
            return false;
        }
        let pick = Pick::Only(Route::Post);
        // What is at the signer comes back for the place it was signed for.
        let reserved = self.signs.len();
        if self.outbox.next(pick, false).is_none() || !quotas.http.has_room(reserved, now) {
            return false;
        }
        let Some(job) = self.choose(pick, now) else {
            return false;
        };
        if self.sign(job, now, out) {
            return true;
        }
        let Some(event) = self.event(job) else {
            return false;
        };
        let lane = match self.outbox.get(job).map(|row| row.class) {
            Some(Class::Durable) | None => CallLane::Reply,
            Some(Class::Latest(_)) => CallLane::Cosmetic,
        };
        let Some(at) = quotas.http.start(lane, self.waiting(), now) else {
            return false;
        };
        let (ticket, until) = (self.tickets.take(), now.time().after(self.config.answer));
        let kept = Sent {
            at,
            event: event.id(),
        };
        self.posts.begin(ticket, Call { job, until, kept });
        self.outbox.enter(job, Phase::Posting { ticket });
        let posts = self.outbox.row_mut(job).map_or(1, |row| {
            row.history.posts = row.history.posts.saturating_add(1);
            row.history.posts
        });
        out.push(Action::Post {
            ticket,
            attempt: posts,
            event,
        });
        true
    }

    /// Lets one job take its turn on the socket. Whether one did.
    fn send_next(&mut self, now: &mut Now, quotas: &mut Quotas, out: &mut Vec<Action>) -> bool {
        let pick = if self.has_no_route {
            Pick::Any
        } else {
            Pick::Only(Route::Socket)
        };
        let under_way = self.sends.len().saturating_add(self.signs.len());
        if !self.is_live
            || under_way >= self.config.in_flight_max
            || self.outbox.next(pick, false).is_none()
            || !quotas.messages.is_open(now)
        {
            return false;
        }
        let Some(job) = self.choose(pick, now) else {
            return false;
        };
        if self.sign(job, now, out) {
            return true;
        }
        let Some(event) = self.event(job) else {
            return false;
        };
        let (ticket, until) = (self.tickets.take(), now.time().after(self.config.receipt));
        self.sends.begin(
            ticket,
            Call {
                job,
                until,
                kept: (),
            },
        );
        let durable = self
            .outbox
            .get(job)
            .is_some_and(|row| row.class == Class::Durable);
        self.outbox.enter(job, Phase::Sending { ticket });
        out.push(Action::Send {
            ticket,
            durable,
            event,
        });
        true
    }

    /// The job whose turn it is. While the signer rests it is one that needs no signature.
    fn choose(&mut self, pick: Pick, now: &mut Now) -> Option<JobId> {
        let mut job = self.outbox.next(pick, false)?;
        while self.is_signature_old(job, now) {
            self.outbox.unsign(job);
            job = self.outbox.next(pick, false)?;
        }
        let needs_signer = self.event(job).is_none();
        if needs_signer
            && self
                .signer
                .rests_until
                .is_some_and(|at| !now.reached(at, Why::Retry))
        {
            return self.outbox.next(pick, true);
        }
        Some(job)
    }

    /// Whether a signature is to be made anew, which only an event surely not stored allows: with
    /// another id it could be there twice.
    fn is_signature_old(&self, job: JobId, now: &Now) -> bool {
        let Some(row) = self.outbox.get(job) else {
            return false;
        };
        match &row.content {
            Content::Draft {
                signed: Some((_, at)),
                ..
            } if !row.may_be_stored() => {
                // Asked of a present of its own: growing old is no reason to wake up.
                let mut present = Now::new(now.time());
                present.reached(at.after(self.config.signature_age), Why::Sign)
            }
            Content::Draft { .. } | Content::Signed(_) => false,
        }
    }

    /// Sends a job without a signature to the signer. Whether it was one.
    fn sign(&mut self, job: JobId, now: &Now, out: &mut Vec<Action>) -> bool {
        let draft = match self.outbox.get(job).map(|row| &row.content) {
            Some(Content::Draft {
                draft,
                signed: None,
            }) => draft,
            Some(
                Content::Draft {
                    signed: Some(_), ..
                }
                | Content::Signed(_),
            )
            | None => {
                return false;
            }
        };
        let wall = self.wall.map(|wall| wall.at(now.time()));
        let draft = dated(draft, wall);
        let (ticket, until) = (self.tickets.take(), now.time().after(self.config.sign));
        self.signs.begin(
            ticket,
            Call {
                job,
                until,
                kept: now.time(),
            },
        );
        self.outbox.enter(job, Phase::Signing { ticket });
        out.push(Action::Sign { ticket, draft });
        true
    }

    fn event(&self, job: JobId) -> Option<Event> {
        self.outbox.get(job)?.event().cloned()
    }

    /// The end, once nothing is owed.
    fn end(&mut self, quotas: &mut Quotas, out: &mut Vec<Action>) {
        if !matches!(self.life, Life::Ending { .. }) || self.outbox.len() > 0 {
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
