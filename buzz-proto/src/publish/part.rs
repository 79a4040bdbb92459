//! The publisher without the frame of a call: facts in, decisions out.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::calls::{Call, Calls};
use super::job::{Content, Phase, Row, Sort};
use super::marks::{Marks, is_mark_job};
use super::outbox::{Outbox, Victim};
use super::{Action, Class, Command, Config, Input, Verdict, View};
use crate::backoff::Ladder;
use crate::gate::Generation;
use crate::ids::{EventId, JobId, Ticket};
use crate::note::{Note, Shown, StaleWhat};
use crate::quotas::Quotas;
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
    pub(super) marks: Marks,
    /// What was decided and not yet told.
    pub(super) decided: Vec<Action>,
    pub(super) tickets: Ticket,
    pub(super) signs: Calls<MonoTime>,
    pub(super) posts: Calls<Sent>,
    pub(super) sends: Calls<()>,
    pub(super) signer: Signer,
    /// Jobs stored so far.
    pub(super) stored: u64,
    pub(super) wall: Option<WallClock>,
    pub(super) is_live: bool,
    /// Whether it was last said that durable jobs fill half of the outbox.
    pub(super) is_half_full: bool,
    /// Whether `POST /events` is known not to exist: then all jobs go by the socket.
    pub(super) has_no_route: bool,
    /// Whether `POST /query` is known not to exist, or not for us: then nothing is looked up.
    pub(super) has_no_query: bool,
    pub(super) life: Life,
}

/// What is kept of a call over HTTP until its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Generation,
    pub(super) event: EventId,
    pub(super) asks: Asks,
}

/// What a call over HTTP asks of the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// To take the event.
    ToStore,
    /// Whether it has the event.
    WhetherStored,
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
            marks: Marks::new(&config),
            config,
            seed,
            decided: Vec::new(),
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
            is_half_full: false,
            has_no_route: false,
            has_no_query: false,
            life: Life::Open,
        }
    }

    pub(super) fn view(&self) -> View {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        View {
            waiting: self.waiting(),
            in_flight: self.posts.len().saturating_add(self.sends.len()),
            durable: count(self.outbox.durable_len()),
            marks: count(self.marks.len()),
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
                Some(call) => self.answered((ticket, call), &answer, now, quotas, out),
                None => stale(StaleWhat::Call, out),
            },
            Input::Broke { ticket, cause } => match self.posts.end(ticket) {
                Some(call) => self.broke((ticket, call), cause, now, quotas, out),
                None => stale(StaleWhat::Call, out),
            },
            Input::Receipt { ticket, receipt } => match self.sends.end(ticket) {
                Some(call) => self.sent(ticket, call.job, receipt, now),
                None => stale(StaleWhat::Receipt, out),
            },
            Input::Link { live } => {
                // What answers after a new dial may be another relay.
                let is_new = live && !self.is_live;
                self.has_no_route &= !is_new;
                self.has_no_query &= !is_new;
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
                if self.life != Life::Open || is_mark_job(job) {
                    self.refuse(job, Sort::of(class), Verdict::Cancelled);
                    return;
                }
                let ttl = ttl.unwrap_or(match class {
                    Class::Durable => self.config.durable_ttl,
                    Class::Latest(_) => self.config.latest_ttl,
                });
                let (content, expires) = (Content::of(body, now), now.after(ttl));
                let row = Row::new(Sort::of(class), route, content, expires, self.stored);
                self.submit(job, row);
            }
            Command::React {
                message,
                author,
                mark,
            } => {
                if self.life != Life::Ended && !self.marks.want(message, author, mark) {
                    let what = Shown::Reaction;
                    out.push(Action::Note(Note::NotShown { what }));
                }
                self.take_mark_back();
            }
            Command::Cancel { job } => {
                if is_mark_job(job) || !self.settle(job, Verdict::Cancelled) {
                    stale(StaleWhat::Job, out);
                }
            }
            Command::Shutdown { grace } => self.shut_down(grace, now),
        }
    }

    fn submit(&mut self, job: JobId, row: Row) {
        loop {
            match self.outbox.victim(&row) {
                Ok(None) => return self.outbox.insert(job, row),
                Ok(Some(Victim::Replaced(victim))) => {
                    self.settle(victim, Verdict::Evicted);
                }
                Ok(Some(Victim::Crowded(victim))) => self.crowd_out(victim),
                Err(_) => return self.refuse(job, row.sort, Verdict::Evicted),
            }
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
}

/// A completion that nobody awaits.
pub(super) fn stale(what: StaleWhat, out: &mut Vec<Action>) {
    out.push(Action::Note(Note::Stale { what }));
}
