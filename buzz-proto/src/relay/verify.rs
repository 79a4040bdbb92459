//! Events that await their verification.
//!
//! Nothing of an event counts before its id and signature were checked outside: a forged copy can
//! neither be delivered nor stand in the way of the genuine one. Verdicts come in any order;
//! events leave in the order in which their subscription brought them.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::{Action, Limits, Sub};
use crate::ids::{EventId, Ticket};
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::Event;

#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    lanes: BTreeMap<Sub, VecDeque<Row>>,
    /// Where the row of a call is.
    asked: BTreeMap<Ticket, Sub>,
    /// Copies of an id: until a verdict, nobody knows which one is genuine.
    copies: BTreeMap<EventId, u32>,
    len: usize,
    bytes: usize,
    /// Rows that were not asked yet.
    unasked: usize,
}

#[derive(Clone, Debug)]
struct Row {
    event: Event,
    /// Whether it is owed: what is not is remembered as seen, and not delivered.
    owed: bool,
    source: Source,
    phase: Phase,
}

/// What brought an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A live subscription.
    Live,
    /// The attempt to recover with this number.
    Attempt(u64),
    /// A comparison of what is stored with what was delivered.
    Audit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Asked { ticket: Ticket, since: MonoTime },
    Genuine,
    Forged,
}

/// An event that leaves the table.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) sub: Sub,
    pub(super) event: Event,
    pub(super) owed: bool,
    pub(super) source: Source,
    pub(super) verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Genuine,
    Forged,
    Unanswered,
}

/// There was no room for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Pending {
    /// Whether a copy of an event awaits its verdict.
    pub(super) fn contains(&self, id: EventId) -> bool {
        self.copies.contains_key(&id)
    }

    /// Whether the very same event awaits its verdict: one answer serves both.
    pub(super) fn merge(&mut self, sub: Sub, event: &Event, owed: bool) -> bool {
        if !self.contains(event.id()) {
            return false;
        }
        let mut rows = self.lanes.get_mut(&sub).into_iter().flatten();
        let Some(row) = rows.find(|row| row.event.raw() == event.raw()) else {
            return false;
        };
        row.owed |= owed;
        true
    }

    pub(super) fn push(
        &mut self,
        sub: Sub,
        event: Event,
        (owed, source): (bool, Source),
        limits: &Limits,
    ) -> Result<(), Full> {
        if !self.has_room(&event, limits) {
            return Err(Full);
        }
        let copies = self.copies.entry(event.id()).or_default();
        *copies = copies.saturating_add(1);
        self.len = self.len.saturating_add(1);
        self.bytes = self.bytes.saturating_add(event.raw().len());
        self.unasked = self.unasked.saturating_add(1);
        self.lanes.entry(sub).or_default().push_back(Row {
            event,
            owed,
            source,
            phase: Phase::Waiting,
        });
        Ok(())
    }

    pub(super) fn has_room(&self, event: &Event, limits: &Limits) -> bool {
        let bytes = self.bytes.saturating_add(event.raw().len());
        let bytes_max = usize::try_from(limits.verify_bytes_max).unwrap_or(usize::MAX);
        self.len < limits.verify_max as usize && bytes <= bytes_max
    }

    /// The dates of what is owed of a subscription.
    pub(super) fn owed(&self, sub: Sub) -> impl Iterator<Item = UnixTime> {
        let rows = self.lanes.get(&sub).into_iter().flatten();
        rows.filter(|row| row.owed)
            .map(|row| row.event.created_at())
    }

    /// Whether any of a subscription is here that is not owed.
    pub(super) fn has_unowed(&self, sub: Sub) -> bool {
        let mut rows = self.lanes.get(&sub).into_iter().flatten();
        rows.any(|row| !row.owed)
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// A verdict came. False when it is not awaited.
    pub(super) fn verified(&mut self, ticket: Ticket, genuine: bool) -> bool {
        let Some(sub) = self.asked.remove(&ticket) else {
            return false;
        };
        let rows = self.lanes.get_mut(&sub).into_iter().flatten();
        for row in rows {
            if matches!(row.phase, Phase::Asked { ticket: asked, .. } if asked == ticket) {
                row.phase = if genuine {
                    Phase::Genuine
                } else {
                    Phase::Forged
                };
                return true;
            }
        }
        false
    }

    /// Asks for every verdict not yet asked for. True when it did.
    pub(super) fn ask(
        &mut self,
        tickets: &mut Ticket,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) -> bool {
        if self.unasked == 0 {
            return false;
        }
        for (sub, lane) in &mut self.lanes {
            for row in lane.iter_mut().filter(|row| row.phase == Phase::Waiting) {
                let ticket = tickets.take();
                row.phase = Phase::Asked { ticket, since: now };
                self.asked.insert(ticket, *sub);
                out.push(Action::Verify {
                    ticket,
                    event: row.event.clone(),
                });
            }
        }
        self.unasked = 0;
        true
    }

    /// The next event whose turn it is to leave.
    pub(super) fn next(&mut self, limits: &Limits, now: &mut Now) -> Option<Checked> {
        let lanes = self.lanes.iter_mut();
        let (sub, lane, verdict) = lanes.into_iter().find_map(|(sub, lane)| {
            let verdict = lane.front()?.verdict(limits, now)?;
            Some((*sub, lane, verdict))
        })?;
        let row = lane.pop_front()?;
        if lane.is_empty() {
            self.lanes.remove(&sub);
        }
        if let Phase::Asked { ticket, .. } = row.phase {
            self.asked.remove(&ticket);
        }
        self.forget_copy(row.event.id());
        self.len = self.len.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(row.event.raw().len());
        Some(Checked {
            sub,
            event: row.event,
            owed: row.owed,
            source: row.source,
            verdict,
        })
    }
}

impl Pending {
    fn forget_copy(&mut self, id: EventId) {
        let Some(copies) = self.copies.get_mut(&id) else {
            return;
        };
        *copies = copies.saturating_sub(1);
        if *copies == 0 {
            self.copies.remove(&id);
        }
    }
}

impl Row {
    fn verdict(&self, limits: &Limits, now: &mut Now) -> Option<Verdict> {
        match self.phase {
            Phase::Genuine => Some(Verdict::Genuine),
            Phase::Forged => Some(Verdict::Forged),
            Phase::Asked { since, .. } => now
                .reached(since.after(limits.verify), Why::Verify)
                .then_some(Verdict::Unanswered),
            Phase::Waiting => None,
        }
    }
}
