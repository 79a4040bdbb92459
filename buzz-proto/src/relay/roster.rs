//! Reads of the roster: which channels name the agent as a member, then what they are.
//!
//! Notices are the fast path, the roster is the truth, and both converge: it is read when the
//! connection is live, when a notice leaves something open, and again at intervals. A read that
//! failed is no information.

use alloc::vec::Vec;
use core::time::Duration;

use super::membership::{Change, MEMBERS, METADATA, Membership, membership};
use super::{Action, HttpAnswer, Limits};
use crate::backoff::Ladder;
use crate::call::{Call, Measure};
use crate::ids::{ChannelId, PubKey, Ticket};
use crate::quotas::{CallLane, Quotas};
use crate::seed::Seed;
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::{self, Event, Filter};

/// The relay sends at most so many events to one query: a full answer may be cut.
const ANSWER_MAX: usize = 1000;
/// After a read that failed: a relay that cannot answer, or has no such route, is not asked more
/// often than one that can.
const RETRY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(90));
/// A read that names no channel at all, where there were some, is believed from this one on: a
/// relay whose database has just come back answers so.
const EMPTY: u32 = 3;

#[derive(Clone, Debug)]
pub(super) struct Roster {
    me: PubKey,
    seed: Seed,
    reads: u64,
    phase: Phase,
    channels: Membership,
    /// Between reads that fail in a row.
    retry: Ladder,
    /// Reads in a row that named no channel at all.
    empty: u32,
}

#[derive(Clone, Debug)]
enum Phase {
    /// The next read is due then; at once when that is nothing.
    Idle {
        next: Option<MonoTime>,
        /// Whether the last read failed: no notice shortens the wait then.
        failed: bool,
    },
    Members {
        call: Call,
    },
    /// What the channels are is asked next.
    Describe {
        members: Vec<ChannelId>,
    },
    Metadata {
        call: Call,
        members: Vec<ChannelId>,
    },
}

impl Roster {
    pub(super) fn new(me: PubKey, limits: &Limits, seed: Seed) -> Self {
        Self {
            me,
            seed,
            reads: 0,
            phase: Phase::Idle {
                next: None,
                failed: false,
            },
            channels: Membership::new(limits.subscriptions_max as usize),
            retry: Ladder::new(RETRY.0, RETRY.1),
            empty: 0,
        }
    }

    /// The next read is due at once, unless it repeats one that failed.
    pub(super) const fn hasten(&mut self) {
        if let Phase::Idle {
            next,
            failed: false,
        } = &mut self.phase
        {
            *next = None;
        }
    }

    /// A genuine notice about this agent. The roster is read when it leaves something open.
    pub(super) fn noticed(&mut self, event: &Event) -> Option<Change> {
        let change = self.channels.noticed(event);
        if change.is_none() {
            self.hasten();
        }
        change
    }

    /// A read failed: what was announced is joined all the same.
    pub(super) fn give_up_describing(&mut self) -> Vec<Change> {
        self.channels.give_up_describing()
    }

    /// Asks what is due. True when it did.
    pub(super) fn read(
        &mut self,
        quotas: &mut Quotas,
        tickets: &mut Ticket,
        now: &mut Now,
        out: &mut Vec<Action>,
    ) -> bool {
        let filter = match &self.phase {
            Phase::Idle { next, .. } => {
                if !next.is_none_or(|next| now.reached(next, Why::Roster)) {
                    return false;
                }
                Filter {
                    mention: Some(self.me),
                    ..of_kind(MEMBERS)
                }
            }
            Phase::Describe { members } => Filter {
                d: members.clone(),
                ..of_kind(METADATA)
            },
            Phase::Members { .. } | Phase::Metadata { .. } => return false,
        };
        let Some(call) = Call::start(CallLane::Roster, quotas, tickets, now) else {
            return false;
        };
        out.push(Action::Query {
            ticket: call.ticket,
            body: wire::query(&[filter]),
        });
        let idle = Phase::Idle {
            next: None,
            failed: false,
        };
        self.phase = match core::mem::replace(&mut self.phase, idle) {
            Phase::Describe { members } => Phase::Metadata { call, members },
            Phase::Idle { .. } | Phase::Members { .. } | Phase::Metadata { .. } => {
                Phase::Members { call }
            }
        };
        true
    }

    /// Whether enough reads were complete for what they lack to be believed.
    pub(super) const fn has_agreed(&self) -> bool {
        self.reads >= 3 && self.empty == 0
    }

    pub(super) fn awaits(&self, ticket: Ticket) -> bool {
        self.call().is_some_and(|call| call.ticket == ticket)
    }

    /// The call that took too long, given up.
    pub(super) fn overdue(
        &mut self,
        limits: &Limits,
        quotas: &mut Quotas,
        now: &mut Now,
        out: &mut Vec<Action>,
    ) -> Option<Ticket> {
        let call = self.call()?;
        if !call.is_overdue(limits.answer, now) {
            return None;
        }
        self.broke(quotas, now.time(), out);
        Some(call.ticket)
    }

    /// The call has no answer.
    pub(super) fn broke(&mut self, quotas: &mut Quotas, now: MonoTime, out: &mut Vec<Action>) {
        if let Some(call) = self.call() {
            call.broke(quotas, now, out);
        }
        self.failed(now);
    }

    fn failed(&mut self, now: MonoTime) {
        self.phase = Phase::Idle {
            next: Some(now.after(self.retry.climb())),
            failed: true,
        };
    }

    /// The call was answered. Gives the events of a good answer.
    pub(super) fn answered(
        &mut self,
        answer: &HttpAnswer,
        measure: Measure,
        quotas: &mut Quotas,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) -> Option<Vec<Event>> {
        let call = self.call()?;
        let events = call
            .answered(answer, measure, quotas, now, out)
            .filter(|events| events.len() < ANSWER_MAX);
        if events.is_none() {
            self.failed(now);
        }
        events
    }

    /// Takes the events of a good answer further. The changes, once the read is complete.
    pub(super) fn advance(
        &mut self,
        events: &[Event],
        relay_time: Option<UnixTime>,
        limits: &Limits,
        now: MonoTime,
    ) -> Vec<Change> {
        let idle = Phase::Idle {
            next: Some(now.after(self.pause(limits))),
            failed: false,
        };
        let members = match core::mem::replace(&mut self.phase, idle) {
            Phase::Members { .. } => {
                let me = self.me;
                let members: Vec<_> = events
                    .iter()
                    .filter_map(|event| membership(event, me))
                    .collect();
                if !members.is_empty() {
                    self.phase = Phase::Describe { members };
                    return Vec::new();
                }
                members
            }
            Phase::Metadata { members, .. } => members,
            Phase::Idle { .. } | Phase::Describe { .. } => return Vec::new(),
        };
        self.reads = self.reads.wrapping_add(1);
        self.retry.reset();
        self.empty = if members.is_empty() {
            self.empty.saturating_add(1)
        } else {
            0
        };
        let doubtful = (1..EMPTY).contains(&self.empty) && !self.channels.is_empty();
        let changes = if doubtful {
            Vec::new()
        } else {
            self.channels.compare(&members, events, relay_time)
        };
        if self.channels.awaits_description() {
            self.hasten();
        }
        changes
    }

    /// Between two reads: the interval, a fifth more or less.
    fn pause(&self, limits: &Limits) -> Duration {
        let fifth = limits.sweep.checked_div(5).unwrap_or_default();
        let (low, high) = (
            limits.sweep.saturating_sub(fifth),
            limits.sweep.saturating_add(fifth),
        );
        self.seed.between(self.reads, 0, low, high)
    }

    const fn call(&self) -> Option<Call> {
        match &self.phase {
            Phase::Members { call } | Phase::Metadata { call, .. } => Some(*call),
            Phase::Idle { .. } | Phase::Describe { .. } => None,
        }
    }
}

fn of_kind(kind: u32) -> Filter {
    Filter {
        kinds: [kind].into_iter().collect(),
        ..Filter::default()
    }
}
