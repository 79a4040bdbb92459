//! Handing over: what a verdict makes of an event, and what finds no room.

use alloc::vec::Vec;

use super::history::loss::Lost;
use super::ledger::{Disposed, HandedBack};
use super::verify::{Checked, Source, Verdict};
use super::{Action, DELIVERIES_PER_ROUND, Disposal, Relay, Sub, stale};
use crate::dedup::{Cursor, Inserted};
use crate::ids::EventId;
use crate::note::{GapWhy, Note, RefusedWhy, StaleWhat};
use crate::time::{MonoTime, Now, UnixTime};
use crate::wire::{Event, OwnerCommand};

/// Kinds that a relay hands on and does not store (NIP-01).
const EPHEMERAL: core::ops::Range<u32> = 20_000..30_000;

impl Relay {
    /// Has events verified, and hands over what has been.
    pub(super) fn deliver(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let mut moved = self.pending.ask(&mut self.tickets, now.time(), out);
        for _ in 0..DELIVERIES_PER_ROUND {
            let limits = &self.config.limits;
            let Some(checked) = self.pending.next(limits, now) else {
                break;
            };
            moved = true;
            let source = checked.source;
            let found = self.found_by_audit(&checked);
            let found_room = self.hand_over(checked, now.time(), out);
            self.await_found(found, now.time());
            self.recovery.handed(source, found_room);
            self.ledger.touch();
        }
        moved
    }

    /// False when the event is lost for now.
    fn hand_over(&mut self, checked: Checked, now: MonoTime, out: &mut Vec<Action>) -> bool {
        let (sub, source, owed) = (checked.sub, checked.source, checked.owed);
        let event = checked.event;
        let (id, dated) = (event.id(), event.created_at());
        match checked.verdict {
            Verdict::Genuine => {}
            Verdict::Forged => {
                let why = RefusedWhy::NotGenuine;
                out.push(Action::Note(Note::Refused { event: id, why }));
                let is_last = !self.pending.contains(id) && !self.recovery.holds(id);
                if matches!(source, Source::Attempt(_)) && is_last {
                    self.give_up_lost(sub, id);
                }
                return true;
            }
            Verdict::Unanswered => {
                // Another copy that awaits its verdict may be a forged one.
                let is_lost = owed && !self.seen.contains(&id);
                if is_lost {
                    let refused = self.refusals(sub, id).saturating_add(1);
                    self.put_off(sub, &event, refused, now, out);
                }
                return !is_lost;
            }
        }
        if !self.subs.contains(sub) || !self.remember(id, sub, dated, out) {
            return true;
        }
        if !owed || self.was_answered(sub, id) {
            self.settle(sub, id, out);
            self.ledger.settle(sub, id, dated, out);
            return true;
        }
        if sub == Sub::Membership {
            self.settle(sub, id, out);
            if !self.is_of_another(&event, out) {
                self.changes.extend(self.roster.noticed(&event));
            }
            return true;
        }
        // A command takes no place in a queue: who may give one, the scheduler decides.
        let is_command = || OwnerCommand::of(&event).is_some();
        let is_crowded = self.ledger.is_crowded(self.room.untaken());
        if !is_crowded && self.room.take(sub, event.raw().len(), is_command) {
            self.hand(sub, event, source, out);
            return true;
        }
        self.seen.remove(&id);
        let mut refused = self.refusals(sub, id);
        if matches!(source, Source::Attempt(_)) {
            refused = refused.saturating_add(1);
        }
        self.put_off(sub, &event, refused, now, out);
        false
    }

    /// Whether an event is new; it is not from now on. What may come again is what was not
    /// received, and what the consumer may hand back.
    fn remember(&mut self, id: EventId, sub: Sub, dated: UnixTime, out: &mut Vec<Action>) -> bool {
        let limits = &self.config.limits;
        let cursor = |sub| {
            let Some(row) = self.subs.row(sub) else {
                return Cursor::Gone;
            };
            let held = self.ledger.oldest(sub);
            let received = row.received(limits);
            received.map_or(Cursor::Unknown, |received| {
                Cursor::At(held.map_or(received, |held| held.min(received)))
            })
        };
        let Inserted::New { short } = self.seen.insert(id, sub, dated, cursor) else {
            return false;
        };
        if let Some(dated) = short {
            self.forgotten = self.forgotten.max(short);
            out.push(Action::Note(Note::DedupShort { dated }));
        }
        true
    }

    fn hand(&mut self, sub: Sub, event: Event, source: Source, out: &mut Vec<Action>) {
        let (id, dated) = (event.id(), event.created_at());
        let refused = self.refusals(sub, id);
        let was_lost = self.settle(sub, id, out);
        if let Some(row) = self.subs.row_mut(sub) {
            row.known = row.known.max(Some(dated));
            let is_late = !was_lost && matches!(source, Source::Attempt(_));
            row.loss.recovered = row.loss.recovered.saturating_add(u64::from(is_late));
        }
        let lives = self.ledger.hand_over(sub, id, dated, refused);
        out.push(Action::Deliver { sub, event, lives });
    }

    /// Whether an earlier life answered an event.
    fn was_answered(&self, sub: Sub, id: EventId) -> bool {
        let target = self.ledger.earlier_target(sub, id);
        self.answers.contains(id) || target.is_some_and(|target| self.answers.contains(target))
    }

    /// An event is not owed any more. Whether it was lost.
    fn settle(&mut self, sub: Sub, id: EventId, out: &mut Vec<Action>) -> bool {
        let Some(row) = self.subs.row_mut(sub) else {
            return false;
        };
        if row.loss.take(id).is_none() {
            return false;
        }
        row.loss.recovered = row.loss.recovered.saturating_add(1);
        self.recovery.shrunk(sub);
        if !self.recovery.reads(sub) {
            self.tell_settled(sub, out);
        }
        true
    }

    /// What the relay stores under the id of a lost event is not that event, nor any copy of it.
    fn give_up_lost(&mut self, sub: Sub, id: EventId) {
        if self
            .subs
            .row_mut(sub)
            .is_some_and(|row| row.loss.give_up(id))
        {
            self.recovery.shrunk(sub);
        }
    }

    /// Tells what became of a loss, once nothing of it is owed.
    pub(super) fn tell_settled(&mut self, sub: Sub, out: &mut Vec<Action>) {
        let Some(row) = self.subs.row_mut(sub) else {
            return;
        };
        out.extend(row.loss.take_gap(sub).map(Action::Note));
        if row.loss.is_empty() {
            let count = core::mem::take(&mut row.loss.recovered);
            out.push(Action::Note(Note::CaughtUp { sub, count }));
        }
    }

    /// How often a lost event was read again in vain.
    fn refusals(&self, sub: Sub, id: EventId) -> u32 {
        let row = self.subs.row(sub);
        row.and_then(|row| row.loss.get(id))
            .map_or(0, |lost| lost.refused)
    }

    fn put_off(
        &mut self,
        sub: Sub,
        event: &Event,
        refused: u32,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let dated = event.created_at();
        if EPHEMERAL.contains(&event.kind()) {
            out.push(Action::Note(Note::Gap {
                sub,
                count: Some(1),
                from: dated,
                to: dated,
                why: GapWhy::NoRoom,
            }));
            return;
        }
        self.owe(sub, event.id(), (dated, refused), now, out);
    }

    fn owe(
        &mut self,
        sub: Sub,
        id: EventId,
        (dated, refused): (UnixTime, u32),
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let Some(row) = self.subs.row_mut(sub) else {
            return;
        };
        let lost = Lost {
            dated,
            refused,
            at: now,
        };
        if row.loss.lose(id, lost) {
            out.push(Action::Note(Note::Behind { sub, dated }));
        }
    }

    /// The consumer says what became of an event. What it hands back is a loss like any other.
    pub(super) fn disposed(
        &mut self,
        event: EventId,
        how: Disposal,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        match self.ledger.disposed(event, how, out) {
            Disposed::Settled => {}
            Disposed::Unknown => out.push(stale(StaleWhat::Event)),
            Disposed::HandedBack(HandedBack {
                sub,
                dated,
                refused,
            }) => {
                self.seen.remove(&event);
                self.owe(sub, event, (dated, refused), now, out);
            }
        }
    }
}
