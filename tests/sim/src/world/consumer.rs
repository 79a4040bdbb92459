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
