//! What was handed over and has no outcome yet, what has one, and the records of both.
//!
//! A record says how far the events of a subscription are settled: everything dated before was
//! received and has its outcome. What has its outcome and is dated later is listed beside it, so
//! that the next life reads again what is not settled and delivers none of it twice.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::{Action, Disposal, Done, Record, Started, Sub};
use crate::backoff::Ladder;
use crate::ids::{EventId, Ticket};
use crate::note::Note;
use crate::time::{MonoTime, Now, UnixTime, Why};

/// Between two orders to keep records.
const PERIOD: Duration = Duration::from_secs(1);
/// An order to keep records that is not answered by then has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// After an order that failed.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Events with an outcome that are remembered for the next life.
const DONE_MAX: usize = 65_536;
/// Events that an external consumer may have taken and not disposed of.
const UNDISPOSED_MAX: usize = 65_536;

#[derive(Clone, Debug)]
pub(super) struct Ledger {
    is_kept: bool,
    books: BTreeMap<Sub, Book>,
    /// Where the row of an event is.
    of: BTreeMap<EventId, Sub>,
    done: usize,
    /// Subscriptions that were let go since the last record.
    forgotten: BTreeSet<Sub>,
    /// Whether anything may have changed since the last look.
    is_touched: bool,
    order: Option<Order>,
    next: Option<MonoTime>,
    retry: Ladder,
    /// Whether the last order failed.
    has_failed: bool,
}

/// An order to keep records, not answered yet.
#[derive(Clone, Debug)]
struct Order {
    ticket: Ticket,
    since: MonoTime,
    records: BTreeMap<Sub, (u64, UnixTime)>,
    forgotten: BTreeSet<Sub>,
}

#[derive(Clone, Debug, Default)]
struct Book {
    held: BTreeMap<EventId, Held>,
    by_date: BTreeSet<(UnixTime, EventId)>,
    done: BTreeSet<Done>,
    /// Begun in an earlier life, and not seen in this one.
    earlier: BTreeMap<EventId, Started>,
    version: u64,
    /// Of the last record that was kept.
    kept: Option<(u64, UnixTime)>,
}

/// An event without an outcome.
#[derive(Clone, Copy, Debug)]
struct Held {
    dated: UnixTime,
    /// How often it was handed back.
    refused: u32,
    /// In how many earlier lives it was begun.
    lives: u32,
    started: Option<Started>,
}

/// An event that the consumer hands back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HandedBack {
    pub(super) sub: Sub,
    pub(super) dated: UnixTime,
    pub(super) refused: u32,
}

/// What a disposal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disposed {
    Settled,
    HandedBack(HandedBack),
    /// Nothing is known of such an event.
    Unknown,
}

impl Ledger {
    /// A ledger; with records it is kept for the next life.
    pub(super) fn new(is_kept: bool) -> Self {
        Self {
            is_kept,
            books: BTreeMap::new(),
            of: BTreeMap::new(),
            done: 0,
            forgotten: BTreeSet::new(),
            is_touched: false,
            order: None,
            next: None,
            retry: Ladder::new(RETRY.0, RETRY.1),
            has_failed: false,
        }
    }

    /// Takes over what an earlier life left of a subscription.
    pub(super) fn restore(&mut self, record: &Record) {
        let book = self.books.entry(record.sub).or_default();
        book.done.extend(record.done.iter().copied());
        let earlier = record.started.iter();
        book.earlier
            .extend(earlier.map(|started| (started.event, *started)));
        self.done = self.done.saturating_add(record.done.len());
    }

    /// Something that a record is made of may have changed.
    pub(super) const fn touch(&mut self) {
        self.is_touched = true;
    }

    /// An event is handed over. In how many earlier lives it was begun.
    pub(super) fn hand_over(
        &mut self,
        sub: Sub,
        id: EventId,
        dated: UnixTime,
        refused: u32,
    ) -> u32 {
        let book = self.books.entry(sub).or_default();
        let lives = book.earlier.get(&id).map_or(0, |started| started.lives);
        let held = Held {
            dated,
            refused,
            lives,
            started: None,
        };
        book.held.insert(id, held);
        book.by_date.insert((dated, id));
        self.of.insert(id, sub);
        self.is_touched = true;
        lives
    }

    /// Whether the consumer has taken too many events without a word of what became of them.
    pub(super) fn is_crowded(&self, untaken: usize) -> bool {
        self.of.len().saturating_sub(untaken) >= UNDISPOSED_MAX
    }

    /// Events are worked on. False when one is not known.
    pub(super) fn started(&mut self, events: &[EventId], target: EventId) -> bool {
        let mut are_known = true;
        for id in events {
            let Some((book, held)) = self.held(*id) else {
                are_known = false;
                continue;
            };
            let lives = held
                .started
                .map_or_else(|| held.lives.saturating_add(1), |started| started.lives);
            // Begun again in this life, it may be answered together with other events.
            held.started = Some(Started {
                dated: held.dated,
                event: *id,
                target,
                lives,
            });
            *book = book.wrapping_add(1);
        }
        self.is_touched = true;
        are_known
    }

    /// The version of the book that an event is in, and its row.
    fn held(&mut self, id: EventId) -> Option<(&mut u64, &mut Held)> {
        let book = self.books.get_mut(self.of.get(&id)?)?;
        Some((&mut book.version, book.held.get_mut(&id)?))
    }

    /// The consumer says what became of an event.
    pub(super) fn disposed(
        &mut self,
        id: EventId,
        how: Disposal,
        out: &mut Vec<Action>,
    ) -> Disposed {
        let Some(sub) = self.of.remove(&id) else {
            return Disposed::Unknown;
        };
        let held = self.books.get_mut(&sub).and_then(|book| {
            let held = book.held.remove(&id)?;
            book.by_date.remove(&(held.dated, id));
            Some(held)
        });
        let Some(held) = held else {
            return Disposed::Settled;
        };
        self.is_touched = true;
        match how {
            Disposal::RefusedForNow => {
                if let (Some(book), Some(started)) = (self.books.get_mut(&sub), held.started) {
                    book.earlier.insert(id, started);
                }
                Disposed::HandedBack(HandedBack {
                    sub,
                    dated: held.dated,
                    refused: held.refused.saturating_add(1),
                })
            }
            Disposal::Accepted | Disposal::Discarded => {
                self.settle(sub, id, held.dated, out);
                Disposed::Settled
            }
        }
    }

    /// An event has its outcome: it is not to be delivered in a later life.
    pub(super) fn settle(
        &mut self,
        sub: Sub,
        event: EventId,
        dated: UnixTime,
        out: &mut Vec<Action>,
    ) {
        if !self.is_kept || sub == Sub::Membership {
            return;
        }
        let book = self.books.entry(sub).or_default();
        book.earlier.remove(&event);
        book.version = book.version.wrapping_add(1);
        self.is_touched = true;
        if book.done.insert(Done { dated, event }) {
            self.done = self.done.saturating_add(1);
        }
        if self.done > DONE_MAX {
            self.forget_oldest(out);
        }
    }

    fn forget_oldest(&mut self, out: &mut Vec<Action>) {
        let oldest = self
            .books
            .iter()
            .filter_map(|(sub, book)| Some((*book.done.first()?, *sub)))
            .min();
        let Some((done, sub)) = oldest else { return };
        if let Some(book) = self.books.get_mut(&sub) {
            book.done.remove(&done);
            self.done = self.done.saturating_sub(1);
            let dated = done.dated;
            out.push(Action::Note(Note::DedupShort { dated }));
        }
    }

    /// A subscription is let go, and with it what is known of its events. What the consumer still
    /// has is disposed of later, and that is then no news.
    pub(super) fn forget(&mut self, sub: Sub) {
        if let Some(book) = self.books.remove(&sub) {
            self.done = self.done.saturating_sub(book.done.len());
        }
        if let Some(order) = &mut self.order {
            order.records.remove(&sub);
        }
        if self.is_kept {
            self.forgotten.insert(sub);
            self.is_touched = true;
        }
    }

    /// The oldest date among what was handed over and has no outcome.
    pub(super) fn oldest(&self, sub: Sub) -> Option<UnixTime> {
        let book = self.books.get(&sub)?;
        book.by_date.first().map(|(dated, _)| *dated)
    }

    /// The event that the answer of an earlier life to an event names, if it was begun there.
    pub(super) fn earlier_target(&self, sub: Sub, id: EventId) -> Option<EventId> {
        let started = self.books.get(&sub)?.earlier.get(&id)?;
        Some(started.target)
    }

    /// Orders what changed to be kept. `settled` gives how far the reading of each subscription is.
    pub(super) fn persist(
        &mut self,
        settled: &BTreeMap<Sub, UnixTime>,
        drift: Duration,
        tickets: &mut Ticket,
        now: &Now,
        out: &mut Vec<Action>,
    ) -> bool {
        if let Some(mut order) = self.order.take() {
            self.forgotten.append(&mut order.forgotten);
            self.failed(now.time(), out);
            return true;
        }
        let records: Vec<_> = settled
            .iter()
            .filter_map(|(sub, settled)| self.record(*sub, *settled, drift))
            .collect();
        for record in &records {
            self.forgotten.remove(&record.sub);
        }
        if records.is_empty() && self.forgotten.is_empty() {
            self.is_touched = false;
            return false;
        }
        let ticket = tickets.take();
        let versions = records
            .iter()
            .map(|record| (record.sub, (self.version(record.sub), record.settled)))
            .collect();
        let forgotten = core::mem::take(&mut self.forgotten);
        self.order = Some(Order {
            ticket,
            since: now.time(),
            records: versions,
            forgotten: forgotten.clone(),
        });
        self.next = Some(now.time().after(PERIOD));
        self.is_touched = false;
        out.push(Action::Persist {
            ticket,
            records,
            forgotten: forgotten.into_iter().collect(),
        });
        true
    }

    /// Whether it is time to look for changes. At the end nothing waits for its period.
    pub(super) fn is_due(&self, at_once: bool, now: &mut Now) -> bool {
        if !self.is_kept {
            return false;
        }
        if let Some(order) = &self.order {
            return now.reached(order.since.after(PATIENCE), Why::Persist);
        }
        let at_once = at_once && !self.has_failed;
        self.is_touched && (at_once || self.next.is_none_or(|next| now.reached(next, Why::Persist)))
    }

    /// The end is near: what could not be kept is tried at once, and then as after a first failure.
    pub(super) const fn hurry(&mut self) {
        self.has_failed = false;
        self.retry.reset();
    }

    /// Whether all is kept that is to be.
    pub(super) const fn is_quiet(&self) -> bool {
        !self.is_kept || (self.order.is_none() && !self.is_touched)
    }

    fn version(&self, sub: Sub) -> u64 {
        self.books.get(&sub).map_or(0, |book| book.version)
    }

    /// The record of a subscription, if it is not the one that was kept last. A later one may begin
    /// further back by `drift`, when the first read has ended.
    fn record(&mut self, sub: Sub, received: UnixTime, drift: Duration) -> Option<Record> {
        let book = self.books.entry(sub).or_default();
        let oldest = book.by_date.first().map(|(dated, _)| *dated);
        let settled = oldest.map_or(received, |oldest| oldest.min(received));
        if book.kept == Some((book.version, settled)) {
            return None;
        }
        let start = Done {
            dated: settled.before(drift),
            event: EventId([0; 32]),
        };
        let kept = book.done.split_off(&start);
        self.done = self.done.saturating_sub(book.done.len());
        book.done = kept;
        book.earlier.retain(|_, earlier| earlier.dated >= settled);
        let begun = book.held.values().filter_map(|held| held.started);
        let mut started: Vec<_> = begun.collect();
        let rest = book.earlier.values();
        started.extend(rest.filter(|earlier| {
            let held = book.held.get(&earlier.event);
            held.is_none_or(|held| held.started.is_none())
        }));
        Some(Record {
            sub,
            settled,
            done: book.done.iter().copied().collect(),
            started,
        })
    }

    /// Records were kept. False when that was not asked.
    pub(super) fn persisted(&mut self, ticket: Ticket) -> bool {
        let Some(order) = self.order.take_if(|order| order.ticket == ticket) else {
            return false;
        };
        self.retry.reset();
        self.has_failed = false;
        for (sub, kept) in order.records {
            if let Some(book) = self.books.get_mut(&sub) {
                book.kept = Some(kept);
            }
        }
        true
    }

    /// Records could not be kept. False when that was not asked.
    pub(super) fn not_persisted(
        &mut self,
        ticket: Ticket,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) -> bool {
        let Some(mut order) = self.order.take_if(|order| order.ticket == ticket) else {
            return false;
        };
        self.forgotten.append(&mut order.forgotten);
        self.failed(now, out);
        true
    }

    fn failed(&mut self, now: MonoTime, out: &mut Vec<Action>) {
        self.is_touched = true;
        self.has_failed = true;
        self.next = Some(now.after(self.retry.climb()));
        out.push(Action::Note(Note::NotPersisted));
    }
}
