//! Reads of the roster: which channels name the agent as a member, then what they are.
//!
//! Notices are the fast path, the roster is the truth, and both converge: it is read when the
//! connection is live, when a notice leaves something open, and again at intervals. A read that
//! failed is no information, nor is one with a row that is not the relay's own.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use super::history::page::Page;
use super::membership::{Change, MEMBERS, METADATA, Membership, Noticed, membership};
use super::{Action, Limits};
use crate::backoff::Ladder;
use crate::ids::{ChannelId, PubKey, Ticket};
use crate::seed::Seed;
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::{Event, Filter};

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
    /// This is asked next.
    Due(Question),
    Reading(Question, Box<Page>),
    /// What was read is verified.
    Checking(Question, Rows),
}

#[derive(Clone, Debug)]
enum Question {
    Members,
    /// What these channels are.
    Metadata(Vec<ChannelId>),
}

/// What a read brought.
#[derive(Clone, Debug)]
struct Rows {
    events: Vec<Event>,
    /// Those without a verdict.
    open: BTreeSet<Ticket>,
    since: MonoTime,
}

/// Where a read stands after a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checked {
    /// Others are open.
    GoesOn,
    /// All of it is genuine.
    Whole,
    Forged,
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

    /// The socket is over: what was asked over it is asked anew.
    pub(super) fn reset(&mut self) {
        if self.page_mut().is_some_and(|page| page.call().is_none()) {
            let (next, failed) = (None, false);
            self.phase = Phase::Idle { next, failed };
            self.channels.read_over();
        }
    }

    /// A genuine notice about this agent. The roster is read when it leaves something open.
    pub(super) fn noticed(&mut self, event: &Event) -> Option<Change> {
        let is_reading = !matches!(self.phase, Phase::Idle { .. });
        match self.channels.noticed(event, is_reading) {
            Noticed::Change(change) => Some(change),
            Noticed::Open => {
                self.hasten();
                None
            }
            Noticed::Old => None,
        }
    }

    /// What is asked now, if anything.
    pub(super) fn due(&mut self, now: &mut Now) -> Option<Filter> {
        if let Phase::Idle { next, .. } = &self.phase
            && next.is_none_or(|next| now.reached(next, Why::Roster))
        {
            self.phase = Phase::Due(Question::Members);
        }
        match &self.phase {
            Phase::Due(Question::Members) => Some(Filter {
                mention: Some(self.me),
                ..of_kind(MEMBERS)
            }),
            Phase::Due(Question::Metadata(members)) => Some(Filter {
                d: members.clone(),
                ..of_kind(METADATA)
            }),
            Phase::Idle { .. } | Phase::Reading(..) | Phase::Checking(..) => None,
        }
    }

    /// What is due is asked.
    pub(super) fn ask(&mut self, page: Page) {
        if let Some(question) = self.take_question() {
            self.phase = Phase::Reading(question, Box::new(page));
        }
    }

    /// The read under way.
    pub(super) fn page_mut(&mut self) -> Option<&mut Page> {
        match &mut self.phase {
            Phase::Reading(_, page) => Some(page),
            Phase::Idle { .. } | Phase::Due(_) | Phase::Checking(..) => None,
        }
    }

    /// Whether enough reads were complete for what they lack to be believed.
    pub(super) const fn has_agreed(&self) -> bool {
        self.reads >= 3 && self.empty == 0
    }

    /// The read under way is over, for good or bad.
    pub(super) fn take_page(&mut self) -> Option<Page> {
        let (question, page) = match core::mem::replace(&mut self.phase, IDLE) {
            Phase::Reading(question, page) => (question, page),
            other @ (Phase::Idle { .. } | Phase::Due(_) | Phase::Checking(..)) => {
                self.phase = other;
                return None;
            }
        };
        self.phase = Phase::Due(question);
        Some(*page)
    }

    /// Has what a read brought verified.
    pub(super) fn check(
        &mut self,
        events: Vec<Event>,
        tickets: &mut Ticket,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let Some(question) = self.take_question() else {
            return;
        };
        let mut open = BTreeSet::new();
        for event in &events {
            let (ticket, event) = (tickets.take(), event.clone());
            open.insert(ticket);
            out.push(Action::Verify { ticket, event });
        }
        let rows = Rows {
            events,
            open,
            since: now,
        };
        self.phase = Phase::Checking(question, rows);
    }

    pub(super) fn awaits_check(&self, ticket: Ticket) -> bool {
        matches!(&self.phase, Phase::Checking(_, rows) if rows.open.contains(&ticket))
    }

    /// A row was checked.
    pub(super) fn checked(&mut self, ticket: Ticket, genuine: bool) -> Checked {
        let Phase::Checking(_, rows) = &mut self.phase else {
            return Checked::GoesOn;
        };
        if !rows.open.remove(&ticket) {
            Checked::GoesOn
        } else if !genuine {
            Checked::Forged
        } else if rows.open.is_empty() {
            Checked::Whole
        } else {
            Checked::GoesOn
        }
    }

    /// Whether verdicts are too long in coming.
    pub(super) fn is_unchecked(&self, limits: &Limits, now: &mut Now) -> bool {
        match &self.phase {
            Phase::Checking(_, rows) => now.reached(rows.since.after(limits.verify), Why::Verify),
            Phase::Idle { .. } | Phase::Due(_) | Phase::Reading(..) => false,
        }
    }

    /// The read gave nothing: it is repeated later. What was announced is joined all the same.
    pub(super) fn failed(&mut self, now: MonoTime) -> Vec<Change> {
        self.phase = Phase::Idle {
            next: Some(now.after(self.retry.climb())),
            failed: true,
        };
        self.channels.read_over();
        self.channels.give_up_describing()
    }

    /// Takes what was read further. The changes, once all of it is.
    pub(super) fn advance(
        &mut self,
        relay_time: Option<UnixTime>,
        limits: &Limits,
        now: MonoTime,
    ) -> Vec<Change> {
        let next = Some(now.after(self.pause(limits)));
        let idle = Phase::Idle {
            next,
            failed: false,
        };
        let (members, events) = match core::mem::replace(&mut self.phase, idle) {
            Phase::Checking(Question::Members, Rows { events, .. }) => {
                let me = self.me;
                let members: Vec<_> = events
                    .iter()
                    .filter_map(|event| membership(event, me))
                    .collect();
                if !members.is_empty() {
                    self.phase = Phase::Due(Question::Metadata(members));
                    return Vec::new();
                }
                (members, events)
            }
            Phase::Checking(Question::Metadata(members), rows) => (members, rows.events),
            other @ (Phase::Idle { .. } | Phase::Due(_) | Phase::Reading(..)) => {
                self.phase = other;
                return Vec::new();
            }
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
            self.channels.read_over();
            Vec::new()
        } else {
            self.channels.compare(&members, &events, relay_time)
        };
        if self.channels.awaits_description() {
            self.hasten();
        }
        changes
    }

    fn take_question(&mut self) -> Option<Question> {
        match core::mem::replace(&mut self.phase, IDLE) {
            Phase::Due(question) => Some(question),
            other @ (Phase::Idle { .. } | Phase::Reading(..) | Phase::Checking(..)) => {
                self.phase = other;
                None
            }
        }
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
}

/// While a phase is taken apart.
const IDLE: Phase = Phase::Idle {
    next: None,
    failed: false,
};

fn of_kind(kind: u32) -> Filter {
    Filter {
        kinds: [kind].into_iter().collect(),
        ..Filter::default()
    }
}
