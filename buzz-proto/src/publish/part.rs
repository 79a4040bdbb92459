//! The publisher without the frame of a call: facts in, decisions out.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::calls::{Call, Calls};
use super::outbox::{Content, Outbox, Phase};
use super::retry::{Around, Next};
use super::settle::{self, Reading};
use super::{Action, Body, Class, Command, Config, Input, Route, Verdict, View};
use crate::backoff::Ladder;
use crate::gate::Generation;
use crate::ids::{EventId, JobId, Ticket};
use crate::note::{Note, StaleWhat};
use crate::quotas::Quotas;
use crate::relay::Receipt;
use crate::seed::Seed;
use crate::time::{MonoTime, WallClock, Why};
use crate::wire::{Event, Reason};

/// The signer's rest after a failure: the fault is local, so it is short at first.
const SIGNER_REST_FIRST: Duration = Duration::from_secs(1);
const SIGNER_REST_TOP: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) config: Config,
    pub(super) seed: Seed,
    pub(super) outbox: Outbox,
    /// Verdicts that were reached and not yet told.
    pub(super) verdicts: Vec<(JobId, Class, Verdict)>,
    /// Calls that were given up, and not yet told.
    pub(super) aborts: Vec<Ticket>,
    pub(super) tickets: Ticket,
    pub(super) signs: Calls<MonoTime>,
    pub(super) posts: Calls<Sent>,
    pub(super) sends: Calls<()>,
    pub(super) signer: Signer,
    /// Jobs stored so far.
    pub(super) stored: u64,
    pub(super) wall: Option<WallClock>,
    pub(super) is_live: bool,
    /// Whether `POST /events` is known not to exist: then all jobs go by the socket.
    pub(super) has_no_route: bool,
    pub(super) life: Life,
}

/// What is kept of a post until its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Generation,
    pub(super) event: EventId,
}

#[derive(Clone, Debug)]
pub(super) struct Signer {
    ladder: Ladder,
    pub(super) rests_until: Option<MonoTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Jobs are taken.
    Open,
    /// None are taken; those there are have until then.
    Ending {
        until: MonoTime,
    },
    Ended,
}

impl Part {
    pub(super) fn new(config: Config, seed: Seed) -> Self {
        Self {
            outbox: Outbox::new(&config),
            config,
            seed,
            verdicts: Vec::new(),
            aborts: Vec::new(),
            tickets: Ticket::default(),
            signs: Calls::new(Why::Sign),
            posts: Calls::new(Why::Answer),
            sends: Calls::new(Why::Receipt),
            signer: Signer {
                ladder: Ladder::new(SIGNER_REST_FIRST, SIGNER_REST_TOP),
                rests_until: None,
            },
            stored: 0,
            wall: None,
            is_live: false,
            has_no_route: false,
            life: Life::Open,
        }
    }

    pub(super) fn view(&self) -> View {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let (len, latest) = (self.outbox.len(), self.outbox.latest_len());
        View {
            waiting: self.waiting(),
            in_flight: self.posts.len().saturating_add(self.sends.len()),
            durable: count(len.saturating_sub(latest)),
            is_ended: self.life == Life::Ended,
        }
    }

    /// Jobs that are not out. A post may have outlived its job.
    pub(super) fn waiting(&self) -> u32 {
        let posts = self
            .posts
            .jobs()
            .filter(|job| self.outbox.get(*job).is_some())
            .count();
        let posts = u32::try_from(posts).unwrap_or(u32::MAX);
        let jobs = u32::try_from(self.outbox.len()).unwrap_or(u32::MAX);
        jobs.saturating_sub(posts).saturating_sub(self.sends.len())
    }
}

/// Facts.
impl Part {
    pub(super) fn apply(
        &mut self,
        input: Input,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        match input {
            Input::Tick => {}
            Input::WallClock(seen) => self.wall = Some(WallClock::new(seen, now)),
            Input::Command(command) => self.command(command, now, out),
            Input::Signed { ticket, event } => self.signed(ticket, event, now, out),
            Input::SignFailed { ticket } => match self.signs.end(ticket) {
                Some(call) => self.sign_failed(ticket, call, now),
                None => stale(StaleWhat::Signature, out),
            },
            Input::Answered { ticket, answer } => match self.posts.end(ticket) {
                Some(call) => {
                    let wall = self.wall.map(|wall| wall.at(now));
                    let reading = settle::read_answer(&answer, call.kept.event, wall);
                    self.posted((ticket, call), reading, now, quotas, out);
                }
                None => stale(StaleWhat::Call, out),
            },
            Input::Broke { ticket, cause } => match self.posts.end(ticket) {
                Some(call) => {
                    let reading = settle::read_break(cause);
                    self.posted((ticket, call), reading, now, quotas, out);
                }
                None => stale(StaleWhat::Call, out),
            },
            Input::Receipt { ticket, receipt } => match self.sends.end(ticket) {
                Some(call) => self.sent(ticket, call.job, receipt, now),
                None => stale(StaleWhat::Receipt, out),
            },
            Input::Link { live } => {
                // What answers after a new dial may be another relay.
                self.has_no_route &= !live || self.is_live;
                self.is_live = live;
            }
        }
    }

    fn command(&mut self, command: Command, now: MonoTime, out: &mut Vec<Action>) {
        match command {
            Command::Submit {
                job,
                class,
                route,
                body,
                ttl,
            } => {
                if self.outbox.get(job).is_some() {
                    stale(StaleWhat::Job, out);
                    return;
                }
                if self.life != Life::Open {
                    self.verdicts.push((job, class, Verdict::Cancelled));
                    return;
                }
                let ttl = ttl.unwrap_or(match class {
                    Class::Durable => self.config.durable_ttl,
                    Class::Latest(_) => self.config.latest_ttl,
                });
                self.submit(job, class, route, body, now.after(ttl));
            }
            // Nothing is shown yet.
            Command::React { .. } => {}
            Command::Cancel { job } => {
                if !self.settle(job, Verdict::Cancelled) {
                    stale(StaleWhat::Job, out);
                }
            }
            Command::Shutdown { grace } => self.shut_down(now.after(grace)),
        }
    }

    fn submit(&mut self, job: JobId, class: Class, route: Route, body: Body, expires: MonoTime) {
        let row = Outbox::row(class, route, body, expires, self.stored);
        loop {
            match self.outbox.victim(&row) {
                Ok(None) => return self.outbox.insert(job, row),
                Ok(Some(victim)) => {
                    self.settle(victim, Verdict::Evicted);
                }
                Err(_) => return self.verdicts.push((job, class, Verdict::Evicted)),
            }
        }
    }

    fn shut_down(&mut self, until: MonoTime) {
        self.life = match self.life {
            Life::Open => Life::Ending { until },
            Life::Ending { until: before } => Life::Ending {
                until: before.min(until),
            },
            Life::Ended => Life::Ended,
        };
        while let Some(job) = self.outbox.oldest_latest() {
            self.settle(job, Verdict::Cancelled);
        }
    }

    fn signed(&mut self, ticket: Ticket, event: Bytes, now: MonoTime, out: &mut Vec<Action>) {
        let Some(call) = self.signs.end(ticket) else {
            return stale(StaleWhat::Signature, out);
        };
        let Ok(event) = Event::decode(event) else {
            return self.sign_failed(ticket, call, now);
        };
        self.signer.ladder.reset();
        if self.is_at(call.job, Phase::Signing { ticket }) {
            self.outbox.sign(call.job, Some((event, call.kept)));
            self.outbox.enter(call.job, Phase::Ready);
        }
    }

    /// All signatures rest, and another draft is tried first: this one may be what the signer
    /// cannot sign.
    pub(super) fn sign_failed(&mut self, ticket: Ticket, call: Call<MonoTime>, now: MonoTime) {
        let key = 0;
        let rest = self.signer.ladder.climb_drawn(self.seed, key);
        self.signer.rests_until = Some(now.after(rest));
        if !self.is_at(call.job, Phase::Signing { ticket }) {
            return;
        }
        let around = self.around(call.job, false);
        let Some(row) = self.outbox.row_mut(call.job) else {
            return;
        };
        if row.history.fail(around) {
            self.outbox.move_back(call.job);
            self.outbox.enter(call.job, Phase::Ready);
        } else {
            let reason = Reason::new("the signer does not sign this event");
            self.settle(call.job, Verdict::Rejected { reason });
        }
    }
    /// A post has its answer, or will have none. That concerns the quota even where the job is gone.
    pub(super) fn posted(
        &mut self,
        (ticket, call): (Ticket, Call<Sent>),
        reading: Reading,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        let sent = call.kept.at;
        let is_here = self.is_at(call.job, Phase::Posting { ticket });
        match &reading {
            Reading::Failed(failure) => {
                // A job that fails alone must not test the gate for ever.
                if is_here && quotas.http.is_probe(sent) {
                    self.outbox.move_back(call.job);
                }
                let hint = failure.hint;
                let refusal = quotas.http.fail(hint.map(|hint| hint.wait), sent, now);
                if is_here {
                    self.conclude(call.job, reading, true, now);
                }
                let note = quotas.http.throttled(refusal, hint, self.waiting(), now);
                out.extend(note.map(Action::Note));
                return;
            }
            Reading::NoRoute => self.has_no_route = true,
            Reading::Stored
            | Reading::Refused(_)
            | Reading::Unauthorized { .. }
            | Reading::Forbidden(_)
            | Reading::Misdated(_)
            | Reading::NotSent
            | Reading::Lost => {}
        }
        quotas.http.succeed(sent);
        if is_here {
            self.conclude(call.job, reading, true, now);
        }
    }

    /// An EVENT on the socket has its outcome.
    pub(super) fn sent(&mut self, ticket: Ticket, job: JobId, receipt: Receipt, now: MonoTime) {
        if !self.is_at(job, Phase::Sending { ticket }) {
            return;
        }
        if let Some(row) = self.outbox.get(job) {
            let reading = settle::read_receipt(receipt, row.class);
            self.conclude(job, reading, false, now);
        }
    }

    /// What a reading means for its job.
    fn conclude(&mut self, job: JobId, reading: Reading, is_gated: bool, now: MonoTime) {
        let around = self.around(job, is_gated);
        let Some(row) = self.outbox.row_mut(job) else {
            return;
        };
        match row.history.decide(reading, around) {
            Next::Settle(verdict) => {
                self.settle(job, verdict);
            }
            Next::Again | Next::SignAgain | Next::Rest(_) if self.outbox.is_outdated(job) => {
                self.settle(job, Verdict::Evicted);
            }
            Next::Again => self.outbox.enter(job, Phase::Ready),
            Next::SignAgain => {
                self.outbox.sign(job, None);
                self.outbox.enter(job, Phase::Ready);
            }
            Next::Rest(span) => {
                self.outbox.enter(
                    job,
                    Phase::Resting {
                        until: now.after(span),
                    },
                );
            }
        }
    }

    /// Ends a job with its verdict. Whether there was such a job. Its post goes on: the answer still
    /// tells how the relay fares.
    pub(super) fn settle(&mut self, job: JobId, verdict: Verdict) -> bool {
        let Some(row) = self.outbox.remove(job) else {
            return false;
        };
        match row.phase() {
            Phase::Signing { ticket } => {
                self.aborts.extend(self.signs.end(ticket).map(|_| ticket));
            }
            Phase::Sending { ticket } => {
                self.aborts.extend(self.sends.end(ticket).map(|_| ticket));
            }
            Phase::Ready | Phase::Resting { .. } | Phase::Posting { .. } => {}
        }
        if verdict == Verdict::Stored {
            self.stored = self.stored.saturating_add(1);
        }
        self.verdicts.push((job, row.class, verdict));
        true
    }

    fn is_at(&self, job: JobId, phase: Phase) -> bool {
        self.outbox.get(job).is_some_and(|row| row.phase() == phase)
    }

    fn around(&self, job: JobId, is_gated: bool) -> Around {
        let content = self.outbox.get(job).map(|row| &row.content);
        Around {
            stored: self.stored,
            attempts_max: self.config.attempts_max,
            can_sign: matches!(content, Some(Content::Draft { .. })),
            is_gated,
        }
    }
}

fn stale(what: StaleWhat, out: &mut Vec<Action>) {
    out.push(Action::Note(Note::Stale { what }));
}
