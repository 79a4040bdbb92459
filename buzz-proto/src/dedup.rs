//! A bounded memory of the events that were seen.

use alloc::collections::VecDeque;

use hashbrown::HashMap;

use crate::ids::EventId;
use crate::seed::Seed;
use crate::sip::KeyedState;

/// Ids remembered unless told otherwise. A full table holds 2 × 40 bytes per id, and up to twice
/// that where a table was just doubled.
pub const SEEN_MAX: usize = 262_144;

/// The ids of events, the oldest forgotten first. Memory is taken as ids come.
///
/// Ids are chosen by others, so the table is hashed with a key from the seed; it is asked for
/// membership and never iterated, so its order decides nothing.
#[derive(Clone, Debug)]
pub struct Seen {
    capacity: usize,
    /// The stamp each id was inserted with.
    stamps: HashMap<EventId, u64, KeyedState>,
    /// In order of insertion. An entry whose stamp is not that of its id was removed.
    order: VecDeque<(u64, EventId)>,
    next_stamp: u64,
}

/// What an insertion found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The id was not known; the one it pushed out is, from here on, not known either.
    New {
        /// The id that was forgotten to make room.
        forgot: Option<EventId>,
    },
    /// The id was known; nothing changed, its age neither.
    Already,
}

impl Seen {
    /// Remembers nothing yet, and at most `capacity` ids, at least one.
    #[must_use]
    pub fn new(capacity: usize, seed: Seed) -> Self {
        Self {
            capacity: capacity.max(1),
            stamps: HashMap::with_hasher(KeyedState::new(seed)),
            order: VecDeque::new(),
            next_stamp: 0,
        }
    }

    /// Remembers `id`, and forgets the oldest when there are too many.
    pub fn insert(&mut self, id: EventId) -> Inserted {
        if self.contains(&id) {
            return Inserted::Already;
        }
        let forgot = if self.stamps.len() >= self.capacity {
            self.forget_oldest()
        } else {
            None
        };
        self.stamps.insert(id, self.next_stamp);
        self.order.push_back((self.next_stamp, id));
        self.next_stamp = self.next_stamp.wrapping_add(1);
        Inserted::New { forgot }
    }

    /// Whether `id` is remembered.
    #[must_use]
    pub fn contains(&self, id: &EventId) -> bool {
        self.stamps.contains_key(id)
    }

    /// Forgets `id`, so that it counts as new again. Whether it was remembered.
    pub fn remove(&mut self, id: &EventId) -> bool {
        let removed = self.stamps.remove(id).is_some();
        // Entries of removed ids are swept once they are the larger part, which costs each removal
        // a constant on average and bounds the list at twice the capacity.
        let entries_max = self.stamps.len().saturating_mul(2).saturating_add(64);
        if self.order.len() > entries_max {
            let stamps = &self.stamps;
            self.order
                .retain(|(stamp, id)| stamps.get(id) == Some(stamp));
        }
        removed
    }

    /// How many ids are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stamps.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }

    fn forget_oldest(&mut self) -> Option<EventId> {
        while let Some((stamp, id)) = self.order.pop_front() {
            if self.stamps.get(&id) == Some(&stamp) {
                self.stamps.remove(&id);
                return Some(id);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_removed_ids_do_not_pile_up_behind_an_old_one() {
        let mut seen = Seen::new(1000, Seed(1));
        seen.insert(EventId([0; 32]));
        for _ in 0..10_000 {
            seen.insert(EventId([1; 32]));
            seen.remove(&EventId([1; 32]));
            assert!(seen.order.len() <= 70);
        }
        assert!(seen.contains(&EventId([0; 32])));
    }
}
