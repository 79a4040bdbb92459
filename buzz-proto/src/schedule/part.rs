//! The scheduler without the frame of a call: facts in, decisions out.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::authors::Authors;
use super::context::Contexts;
use super::control::Life;
use super::cosmetic::Cosmetics;
use super::marks::Marks;
use super::outcome::Outcomes;
use super::queue::Queue;
use super::retry::Usage;
use super::sessions::Sessions;
use super::slots::Slots;
use super::turn::Turn;
use super::{Action, Command, Config, Input, View, stale};
use crate::ids::{ChannelId, PubKey, Ticket, TurnId};
use crate::note::StaleWhat;
use crate::quotas::Quotas;
use crate::relay::{ChannelKind, HttpAnswer};
use crate::seed::Seed;
use crate::time::{MonoTime, Now, UnixTime, WallClock, Why};

/// Nothing else says that a route is there after all, and whoever cannot be looked up for a quarter
/// of an hour is refused.
const NO_QUERY_FOR: Duration = Duration::from_secs(300);

#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) config: Config,
    pub(super) me: PubKey,
    pub(super) seed: Seed,
    pub(super) wall: Option<WallClock>,
    pub(super) life: Life,
    pub(super) channels: BTreeMap<ChannelId, ChannelKind>,
    pub(super) relay_key: Option<PubKey>,
    pub(super) authors: Authors,
    pub(super) queue: Queue,
    pub(super) slots: Slots,
    pub(super) sessions: Sessions,
    pub(super) turns: BTreeMap<TurnId, Turn>,
    pub(super) next_turn: TurnId,
    pub(super) contexts: Contexts,
    pub(super) usage: Usage,
    pub(super) outcomes: Outcomes,
    /// Whether durable jobs, of whoever, fill half of the outbox.
    pub(super) is_outbox_half_full: bool,
    pub(super) marks: Marks,
    pub(super) cosmetics: Cosmetics,
    pub(super) tickets: Ticket,
    /// Until then `POST /query` is taken not to exist, and nothing is asked.
    no_query_until: Option<MonoTime>,
}

impl Part {
    pub(super) fn new(config: Config, me: PubKey, seed: Seed, now: MonoTime) -> Self {
        Self {
            me,
            seed,
            wall: None,
            life: Life::Working,
            channels: BTreeMap::new(),
            relay_key: None,
            authors: Authors::new(&config.limits),
            queue: Queue::new(&config.limits),
            slots: Slots::new(config.workers, &config.limits, seed, now),
            sessions: Sessions::new(&config.limits),
            turns: BTreeMap::new(),
            next_turn: TurnId::default(),
            contexts: Contexts::default(),
            usage: Usage::new(&config.limits, seed),
            outcomes: Outcomes::new(&config),
            is_outbox_half_full: false,
            marks: Marks::new(config.marks),
            cosmetics: Cosmetics::new(&config),
            tickets: Ticket::default(),
            no_query_until: None,
            config,
        }
    }

    pub(super) fn view(&self) -> View {
        View {
            queued: self.queue.len(),
            held: self.queue.held(),
            resting: self.queue.resting(),
            running: self.turns.len(),
            answering: self.outcomes.len(),
            workers_up: self.slots.up(),
            sessions: self.sessions.len(),
            is_usage_limited: self.usage.is_limited(),
            is_ended: matches!(self.life, Life::Ended),
        }
    }

    pub(super) fn apply(
        &mut self,
        input: Input,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        let before = out.len();
        self.record(input, now, quotas, out);
        self.marks.follow(before, out);
    }

    fn record(&mut self, input: Input, now: MonoTime, quotas: &mut Quotas, out: &mut Vec<Action>) {
        match input {
            Input::Tick => {}
            Input::WallClock(seen) => self.wall = Some(WallClock::new(seen, now)),
            Input::Arrived { sub, event, lives } => self.arrived((sub, event), lives, now, out),
            Input::Command(Command::Control { target, want }) => {
                self.control(target, want, now, out);
            }
            Input::Command(Command::Renew) => self.renew(now),
            Input::Command(Command::Shutdown { grace }) => self.shut_down(grace, now, out),
            Input::Channel { channel, state } => self.channel(channel, state, now, out),
            Input::Link { live } => {
                // What answers after a new dial may be another relay.
                if live {
                    self.no_query_until = None;
                }
                self.cosmetics.linked(live, now);
            }
            Input::WorkerUp { worker } => self.worker_up(worker, out),
            Input::WorkerDown { worker, cause } => self.worker_down(worker, cause, now, out),
            Input::SessionOpened { turn } => self.session_opened(turn, now, out),
            Input::SessionFailed { turn, cause } => self.session_failed(turn, cause, now, out),
            Input::Progressed { turn } => self.progressed(turn, now, out),
            Input::Finished { turn, end } => self.finished(turn, end, now, out),
            Input::Settled { job, verdict } => {
                if !self.cosmetics.settled(job) {
                    let at = (self.life, self.unix_time(now));
                    self.outcomes.settled(job, verdict, at, out);
                }
            }
            Input::Outbox { is_half_full } => self.is_outbox_half_full = is_half_full,
            Input::RelayKey { key } => self.relay_key = key,
            Input::Answered { ticket, answer } => {
                self.answered(ticket, Some(&answer), now, quotas, out);
            }
            Input::Broke { ticket, cause: _ } => self.answered(ticket, None, now, quotas, out),
            Input::Verified { ticket, genuine } => self.verified(ticket, genuine, out),
        }
    }

    /// Decides from the whole state; whether anything moved.
    pub(super) fn pump(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let before = out.len();
        let ended = self.pump_ending(now, out);
        let workers = self.pump_workers(now, out);
        let authors = self.pump_authors(now, quotas, out);
        let turns = self.pump_turns(now, out);
        let starts = self.pump_starts(now, out);
        let contexts = self.pump_contexts(now, quotas, out);
        let sessions = self.sessions.close_unused(now, out);
        let waiting = self.pump_waiting(now, out);
        let dated = self.unix_time(now.time());
        let outcomes = self.outcomes.pump(dated, out);
        let cosmetics = self.pump_cosmetics(now, dated, out);
        self.marks.follow(before, out);
        let work = workers | authors | turns | starts | contexts | sessions;
        ended | work | waiting | outcomes | cosmetics
    }

    /// The wall clock at `now`; the epoch while nobody has told it.
    pub(super) fn unix_time(&self, now: MonoTime) -> UnixTime {
        self.wall.map_or(UnixTime(0), |wall| wall.at(now))
    }

    /// A query was answered, or has no answer.
    fn answered(
        &mut self,
        ticket: Ticket,
        answer: Option<&HttpAnswer>,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        if self.authors.awaits(ticket) {
            self.profile_answered(ticket, answer, now, quotas, out);
        } else if self.contexts.awaits(ticket) {
            self.context_answered(ticket, answer, now, quotas, out);
        } else {
            return stale(StaleWhat::Call, out);
        }
        // A relay without the route answers so; what stands before it may say it by mistake.
        let is_missing = |answer: &HttpAnswer| matches!(answer.status, 404 | 405 | 426);
        let missing = answer.filter(|answer| is_missing(answer));
        self.no_query_until = missing.map(|_| now.after(NO_QUERY_FOR));
    }

    /// Whether `POST /query` may be asked. What waits is not kept for it, so it arms no wake.
    pub(super) fn has_query(&self, now: MonoTime) -> bool {
        let is_over = |until| Now::new(now).reached(until, Why::LookUp);
        self.no_query_until.is_none_or(is_over)
    }

    /// An event was checked.
    fn verified(&mut self, ticket: Ticket, genuine: bool, out: &mut Vec<Action>) {
        if self.authors.awaits_check(ticket) {
            self.profile_checked(ticket, genuine);
        } else if !self.contexts.checked(ticket, genuine) {
            stale(StaleWhat::Verification, out);
        }
    }
}
