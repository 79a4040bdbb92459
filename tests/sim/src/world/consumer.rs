//! Whoever takes the events of the agent: holds what was delivered until it is taken, and says what
//! became of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use buzz_proto::ids::EventId;
use buzz_proto::relay::{Disposal, Record, Sub};
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_proto::wire::Event;

/// An event as the consumer received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// When.
    pub at: MonoTime,
    /// In which life of the agent, from 0; see [`World::restart`](super::World::restart).
    pub life: u32,
    /// By which subscription.
    pub sub: Sub,
    /// The event.
    pub event: Event,
}

/// How fast a consumer takes what is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Not at all.
    #[default]
    Stalled,
    /// One event each time so much has passed, but never more than one in a millisecond.
    OneEach(Duration),
    /// Each event as soon as it is there.
    Eager,
}

/// An event, and where a record would name it.
type Waiting = (EventId, Sub, UnixTime);

/// The consumer's own books.
#[derive(Debug, Default)]
pub(super) struct Consumer {
    delivered: Vec<Delivered>,
    /// What this life was given and did not hand back.
    kept: BTreeSet<EventId>,
    waiting: VecDeque<Waiting>,
    taken: u64,
    /// What was accepted, in whichever life, and where a record would name it.
    accepted: BTreeMap<EventId, (Sub, UnixTime)>,
    /// What a record said to be done with when this life began.
    recorded: BTreeSet<EventId>,
    duplicates: u64,
    repeated: u64,
    handed_back: BTreeSet<EventId>,
    pub(super) pace: Pace,
    /// Of so many events taken, one is handed back; 0 for none.
    pub(super) hands_back_one_in: u32,
    until_next: u32,
}

impl Consumer {
    pub(super) fn receive(&mut self, delivered: Delivered) {
        let id = delivered.event.id();
        if !self.kept.insert(id) {
            self.duplicates = self.duplicates.saturating_add(1);
        }
        if self.recorded.contains(&id) {
            self.repeated = self.repeated.saturating_add(1);
        }
        let (sub, dated) = (delivered.sub, delivered.event.created_at());
        self.waiting.push_back((id, sub, dated));
        self.delivered.push(delivered);
    }

    /// Takes at most so many, oldest first, and judges each. An event is handed back once at most.
    pub(super) fn take(&mut self, count: usize) -> Vec<(EventId, Disposal)> {
        let count = count.min(self.waiting.len());
        let taken: Vec<_> = self.waiting.drain(..count).collect();
        let more = u64::try_from(taken.len()).unwrap_or(u64::MAX);
        self.taken = self.taken.saturating_add(more);
        let judged = taken.into_iter().map(|it| (it.0, self.judge(it)));
        judged.collect()
    }

    fn judge(&mut self, (id, sub, dated): Waiting) -> Disposal {
        if self.hands_back_one_in > 0 && !self.handed_back.contains(&id) {
            self.until_next = self.until_next.saturating_add(1);
            if self.until_next >= self.hands_back_one_in {
                self.until_next = 0;
                self.handed_back.insert(id);
                self.kept.remove(&id);
                return Disposal::RefusedForNow;
            }
        }
        self.accepted.insert(id, (sub, dated));
        Disposal::Accepted
    }

    /// How many were taken since the process began.
    pub(super) const fn taken(&self) -> u64 {
        self.taken
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The process ends: what was not taken is gone, and the count begins anew. The next one begins
    /// with these records.
    pub(super) fn die(&mut self, records: &BTreeMap<Sub, Record>) {
        self.waiting.clear();
        self.kept.clear();
        self.taken = 0;
        let accepted = self.accepted.iter();
        let recorded = accepted.filter(|(id, (sub, dated))| {
            records.get(sub).is_some_and(|record| {
                *dated < record.settled || record.done.iter().any(|done| done.event == **id)
            })
        });
        self.recorded = recorded.map(|(id, _)| *id).collect();
    }

    pub(super) fn delivered(&self) -> &[Delivered] {
        &self.delivered
    }

    /// Whether it holds an event or has accepted it.
    pub(super) fn has(&self, id: EventId) -> bool {
        self.kept.contains(&id) || self.accepted.contains_key(&id)
    }

    /// Deliveries beyond the first of an event in one life.
    pub(super) const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Deliveries of what a record said to be done with.
    pub(super) const fn repeated(&self) -> u64 {
        self.repeated
    }
}

#[cfg(test)]
mod tests {
    use buzz_proto::relay::Done;

    use super::*;
    use crate::toy::{START, Toy, channel, id};

    const HERE: Sub = Sub::Channel(channel(1));

    fn delivery(n: u64) -> Delivered {
        Delivered {
            at: MonoTime::ZERO,
            life: 0,
            sub: HERE,
            event: Toy::new(n).event(),
        }
    }

    fn given(numbers: &[u64]) -> Consumer {
        let mut consumer = Consumer::default();
        for n in numbers {
            consumer.receive(delivery(*n));
        }
        consumer
    }

    #[test]
    fn every_delivery_beyond_the_first_of_an_event_is_a_duplicate() {
        let mut consumer = given(&[1, 2, 1, 1, 3]);

        assert_eq!(consumer.duplicates(), 2);
        assert!(consumer.has(id(3)) && !consumer.has(id(4)));
        let accepted = [1, 2].map(|n| (id(n), Disposal::Accepted));
        assert_eq!(consumer.take(2), accepted);
        assert_eq!((consumer.taken(), consumer.waiting()), (2, 3));
    }

    #[test]
    fn what_was_not_taken_dies_with_the_process_and_the_count_begins_anew() {
        let mut consumer = given(&[1, 2]);
        consumer.take(1);

        consumer.die(&BTreeMap::new());

        assert_eq!((consumer.taken(), consumer.waiting()), (0, 0));
        assert!(consumer.has(id(1)) && !consumer.has(id(2)));
        consumer.receive(delivery(1));
        consumer.receive(delivery(2));
        assert_eq!((consumer.duplicates(), consumer.repeated()), (0, 0));
        assert_eq!(consumer.delivered().len(), 4);
    }

    #[test]
    fn what_is_handed_back_is_owed_again_and_not_handed_back_twice() {
        let mut consumer = given(&[1, 2, 3, 4]);
        consumer.hands_back_one_in = 2;

        let judged: Vec<_> = consumer.take(4).into_iter().map(|(_, how)| how).collect();
        let (good, back) = (Disposal::Accepted, Disposal::RefusedForNow);
        assert_eq!(judged, [good, back, good, back]);
        assert!(!consumer.has(id(2)));
        consumer.receive(delivery(2));
        consumer.receive(delivery(4));

        let judged = consumer.take(2);
        assert_eq!(judged, [2, 4].map(|n| (id(n), Disposal::Accepted)));
        assert_eq!(consumer.duplicates(), 0);
    }

    #[test]
    fn a_delivery_of_what_a_record_named_or_lies_before_it_is_a_repetition() {
        let mut consumer = given(&[1, 2]);
        consumer.take(2);
        let (event, dated) = (id(1), START);
        let mut record = Record {
            sub: HERE,
            settled: START,
            done: vec![Done { dated, event }],
            started: Vec::new(),
        };
        consumer.die(&BTreeMap::from([(HERE, record.clone())]));
        for n in [1, 2] {
            consumer.receive(delivery(n));
        }
        assert_eq!(consumer.repeated(), 1);

        record.settled = START.after(Duration::from_secs(1));
        consumer.die(&BTreeMap::from([(HERE, record)]));
        consumer.receive(delivery(2));
        assert_eq!(consumer.repeated(), 2);
    }
}
