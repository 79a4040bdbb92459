//! Whoever takes the events of the agent: holds what was delivered until it is taken.

use std::collections::{BTreeMap, VecDeque};

use buzz_proto::ids::EventId;
use buzz_proto::relay::Sub;
use buzz_proto::time::MonoTime;
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

/// The consumer's own books.
#[derive(Debug, Default)]
pub(super) struct Consumer {
    delivered: Vec<Delivered>,
    times: BTreeMap<EventId, u64>,
    waiting: VecDeque<EventId>,
    taken: u64,
    /// Whether it takes each event as soon as it is there.
    pub(super) is_eager: bool,
}

impl Consumer {
    pub(super) fn receive(&mut self, delivered: Delivered) {
        let id = delivered.event.id();
        let times = self.times.entry(id).or_default();
        *times = times.saturating_add(1);
        self.waiting.push_back(id);
        self.delivered.push(delivered);
    }

    /// Takes at most so many, oldest first.
    pub(super) fn take(&mut self, count: usize) -> Vec<EventId> {
        let count = count.min(self.waiting.len());
        let taken: Vec<_> = self.waiting.drain(..count).collect();
        let more = u64::try_from(taken.len()).unwrap_or(u64::MAX);
        self.taken = self.taken.saturating_add(more);
        taken
    }

    /// How many were taken in this life.
    pub(super) const fn taken(&self) -> u64 {
        self.taken
    }

    /// How many wait to be taken.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The process ends: what was not taken goes with it.
    pub(super) fn die(&mut self) {
        self.waiting.clear();
        self.taken = 0;
    }

    pub(super) fn delivered(&self) -> &[Delivered] {
        &self.delivered
    }

    pub(super) fn has(&self, id: EventId) -> bool {
        self.times.contains_key(&id)
    }

    /// Deliveries beyond the first of an event.
    pub(super) fn duplicates(&self) -> u64 {
        let extra = self.times.values().map(|times| times.saturating_sub(1));
        extra.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::{Toy, channel, id};

    fn delivery(n: u64) -> Delivered {
        Delivered {
            at: MonoTime::ZERO,
            life: 0,
            sub: Sub::Channel(channel(1)),
            event: Toy::new(n).event(),
        }
    }

    #[test]
    fn every_delivery_beyond_the_first_of_an_event_is_a_duplicate() {
        let mut consumer = Consumer::default();
        for n in [1, 2, 1, 1, 3] {
            consumer.receive(delivery(n));
        }

        assert_eq!(consumer.duplicates(), 2);
        assert!(consumer.has(id(3)) && !consumer.has(id(4)));
        assert_eq!(consumer.take(2), [id(1), id(2)]);
        assert_eq!((consumer.taken(), consumer.waiting()), (2, 3));
    }

    #[test]
    fn what_was_not_taken_dies_with_the_process_and_the_count_begins_anew() {
        let mut consumer = Consumer::default();
        consumer.receive(delivery(1));
        consumer.receive(delivery(2));
        consumer.take(1);

        consumer.die();

        assert_eq!((consumer.taken(), consumer.waiting()), (0, 0));
        assert_eq!(consumer.delivered().len(), 2);
    }
}
