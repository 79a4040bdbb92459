//! What is kept for the next life, and what is said at the end of this one.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::history::answers::Answers;
use super::link::Return;
use super::{Action, Channels, CloseCause, End, Record, Relay, Sub};
use crate::dedup::Cursor;
use crate::note::{GapWhy, Note};
use crate::time::{Now, UnixTime, Why};

impl Relay {
    /// Takes over what an earlier life left. What it answered and did not record is looked for
    /// where answers are this machine's.
    pub(super) fn restore(&mut self, has_workers: bool) {
        let records = self.config.records.take();
        let is_channel = |record: &&Record| record.sub != Sub::Membership;
        for record in records.iter().flatten().filter(is_channel) {
            for done in &record.done {
                let unknown = |_| Cursor::Unknown;
                self.seen
                    .insert(done.event, record.sub, done.dated, unknown);
            }
            self.ledger.restore(record);
            self.restored.insert(record.sub, record.settled);
        }
        self.resumed = self.restored.values().max().copied();
        let oldest = self.restored.values().min();
        if let (true, Some(oldest)) = (has_workers, oldest) {
            self.answers = Answers::since(*oldest);
        }
        self.config.records = records.map(|_| Vec::new());
    }

    /// Records of channels that the roster does not name any more are of no use.
    fn drop_records(&mut self) {
        let is_settled = self.config.channels == Channels::Roster && self.roster.has_agreed();
        if !is_settled {
            return;
        }
        for sub in core::mem::take(&mut self.restored).into_keys() {
            self.ledger.forget(sub);
        }
    }

    /// Has what changed kept.
    pub(super) fn keep_records(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        self.drop_records();
        let at_once = self.end != End::Running;
        if !self.ledger.is_due(at_once, now) {
            return false;
        }
        let mut settled = BTreeMap::new();
        // The roster tells what the notices of membership would.
        let channels = self.subs.iter().filter(|(sub, _)| *sub != Sub::Membership);
        for (sub, row) in channels {
            // Nothing says yet that what is not owed was seen: it would be taken for owed.
            let received = if self.pending.has_unowed(sub) {
                row.floor.date()
            } else {
                row.received_owed()
            };
            let Some(received) = received else {
                continue;
            };
            // What precedes the floor of a first read is not owed, and what is nevertheless, is lost.
            let first = row.floor.date().filter(|_| row.is_first);
            let held = self.recovery.held(sub);
            let held = held.filter(|dated| first.is_none_or(|floor| *dated >= floor));
            let in_hand = self.pending.owed(sub).chain(held).min();
            let received: UnixTime = in_hand.map_or(received, |oldest| received.min(oldest));
            settled.insert(sub, received);
        }
        let drift = self.config.limits.drift;
        self.ledger
            .persist(&settled, drift, &mut self.tickets, now, out)
    }

    /// Ends once no receipt is owed and all is kept, or the grace is over.
    pub(super) fn finish(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let End::Draining(until) = self.end else {
            return false;
        };
        let is_sent = !self.outbound.owes() || self.link.live().is_none();
        let idle = is_sent && self.ledger.is_quiet();
        if !idle && !now.reached(until, Why::Shutdown) {
            return false;
        }
        self.tell_unread(out);
        self.close(CloseCause::Shutdown, Return::End, now.time(), out);
        self.link.stop();
        self.announce(out);
        self.outbound.settle(&self.config.limits, now, out);
        self.end = End::Ended;
        out.push(Action::Ended);
        true
    }

    /// What is owed and was not read again is lost, unless the next life will read it.
    fn tell_unread(&self, out: &mut Vec<Action>) {
        let why = if self.room.is_closed() {
            GapWhy::ConsumerGone
        } else {
            GapWhy::Ended
        };
        for (sub, row) in self.subs.iter() {
            out.extend(row.loss.gap(sub).map(Action::Note));
            if self.config.records.is_none() {
                out.extend(self.unread(sub, why).map(Action::Note));
            }
        }
    }

    /// What is owed of a subscription, as a gap.
    pub(super) fn unread(&self, sub: Sub, why: GapWhy) -> Option<Note> {
        let loss = &self.subs.row(sub)?.loss;
        let in_hand = || self.pending.owed(sub).chain(self.recovery.held(sub));
        let ids = loss.ids_len().saturating_add(in_hand().count());
        let from = in_hand().chain(loss.oldest()).min()?;
        let to = in_hand().chain(loss.newest()).max().unwrap_or(from);
        Some(Note::Gap {
            sub,
            count: u64::try_from(ids).ok().filter(|_| !loss.has_windows()),
            from,
            to: to.max(from),
            why,
        })
    }
}
