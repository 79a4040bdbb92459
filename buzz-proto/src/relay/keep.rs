//! What is kept for the next life, and what is said at the end of this one.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::link::Return;
use super::{answers, Action, CloseCause, End, Relay};
use crate::dedup::Cursor;
use crate::note::{GapWhy, Note};
use crate::time::{Now, UnixTime, Why};

impl Relay {
    /// Takes over what an earlier life left. What it answered and did not record is looked for
    /// where answers are this machine's.
    pub(super) fn restore(&mut self, has_workers: bool) {
        let records = self.config.records.take();
        for record in records.iter().flatten() {
            for done in &record.done {
                let unknown = |_| Cursor::Unknown;
                self.seen.insert(done.event, record.sub, done.dated, unknown);
            }
            self.ledger.restore(record);
            self.restored.insert(record.sub, record.settled);
        }
        let oldest = self.restored.values().min();
        if let (true, Some(oldest)) = (has_workers, oldest) {
            self.answers = answers::Answers::since(*oldest);
        }
        self.config.records = records.map(|_| Vec::new());
    }

    /// Has what changed kept.
    pub(super) fn keep_records(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let at_once = self.end != End::Running;
        if !self.ledger.is_due(at_once, now) {
            return false;
        }
        let mut settled = BTreeMap::new();
        for (sub, row) in self.subs.iter() {
            let Some(received) = row.received_owed() else {
                continue;
            };
            let in_hand = self.pending.owed(sub).chain(self.recovery.held(sub)).min();
            let received: UnixTime = in_hand.map_or(received, |oldest| received.min(oldest));
            settled.insert(sub, received);
        }
        self.ledger.persist(&settled, &mut self.tickets, now, out)
    }

    /// Ends once nothing is outbound and all is kept, or the grace is over.
    pub(super) fn finish(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let End::Draining(until) = self.end else {
            return false;
        };
        let is_sent = self.outbound.len() == 0 || self.link.live().is_none();
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
    fn tell_unread(&mut self, out: &mut Vec<Action>) {
        let gone = self.subs.iter().filter_map(|(sub, row)| row.loss.gap(sub));
        out.extend(gone.map(Action::Note));
        if self.config.records.is_some() {
            return;
        }
        let why = if self.room.is_closed() {
            GapWhy::ConsumerGone
        } else {
            GapWhy::Ended
        };
        for (sub, row) in self.subs.iter() {
            let in_hand = || self.pending.owed(sub).chain(self.recovery.held(sub));
            let ids = row.loss.len().saturating_add(in_hand().count());
            let from = in_hand().chain(row.loss.oldest()).min();
            let to = in_hand().chain(row.loss.newest()).max();
            let Some(from) = from else { continue };
            let count = u64::try_from(ids).ok().filter(|_| !row.loss.has_windows());
            let to = to.unwrap_or(from).max(from);
            out.push(Action::Note(Note::Gap {
                sub,
                count,
                from,
                to,
                why,
            }));
        }
    }
}
