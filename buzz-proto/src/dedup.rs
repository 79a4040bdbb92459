//! A bounded memory of the events that were seen.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::hash::BuildHasher;

use hashbrown::HashTable;

use crate::ids::EventId;
use crate::seed::Seed;
use crate::sip::KeyedState;
use crate::time::UnixTime;

/// A memory that must forget asks, per insertion and on average, about so many owners.
const OWNERS_ASKED: usize = 16;

/// The ids of events, each with its date and the owner that it was seen for.
///
/// An id goes only to make room for a new one, one for one: first those that cannot come again,
/// as they are dated before their owner's [`Cursor`]; then, and this is reported, the one with the
/// oldest date. The new id itself never goes, however old: what has just come is likely to come
/// once more, over the socket and with a history, and one that went at once would be handed over
/// twice. A flood of old ids so pushes out itself and not what is newer.
///
/// Ids are chosen by others, so the table is hashed with a key from the seed; it is asked for
/// membership and never iterated, so its order decides nothing.
///
/// Memory is taken as ids come, and kept. A full one takes about 120 bytes per id where an owner
/// is a channel's number: 262,144 ids take 31 MB.
#[derive(Clone, Debug)]
pub struct Seen<K> {
    capacity: usize,
    keyed: KeyedState,
    /// Slots by the hash of their id.
    table: HashTable<u32>,
    /// By slot. What a slot in `free` holds means nothing.
    entries: Vec<Entry<K>>,
    free: Vec<u32>,
    /// What is remembered for each owner, oldest date first; no owner without any.
    owned: BTreeMap<K, BTreeSet<(UnixTime, u32)>>,
    /// The oldest date of each owner.
    oldest: BTreeSet<(UnixTime, K)>,
    /// Owners that were found with ids below their cursor, the next one last.
    spare: Vec<K>,
    /// Insertions into a full memory before all owners are asked again.
    pause: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry<K> {
    id: EventId,
    owner: K,
    dated: UnixTime,
}

/// From when on an owner's events can come again. A cursor that falls back brings ids that were
/// forgotten under it, and nothing reports that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// That is not known: any may.
    Unknown,
    /// From this second on; none dated before it.
    At(UnixTime),
    /// The owner is gone: none, whatever its date.
    Gone,
}

/// What an insertion found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The id was not known.
    New {
        /// The date of an id that had to be forgotten for it, and that may come again.
        short: Option<UnixTime>,
    },
    /// The id was known; nothing changed, its owner and its date neither.
    Already,
}

impl Cursor {
    /// Whether an event of this date cannot come again.
    #[must_use]
    pub fn is_past(self, dated: UnixTime) -> bool {
        match self {
            Self::Unknown => false,
            Self::At(cursor) => dated < cursor,
            Self::Gone => true,
        }
    }
}

impl<K: Copy + Ord> Seen<K> {
    /// Remembers nothing yet, and at most `capacity` ids, at least one.
    #[must_use]
    pub fn new(capacity: usize, seed: Seed) -> Self {
        Self {
            capacity: capacity.clamp(1, u32::MAX as usize),
            keyed: KeyedState::new(seed),
            table: HashTable::new(),
            entries: Vec::new(),
            free: Vec::new(),
            owned: BTreeMap::new(),
            oldest: BTreeSet::new(),
            spare: Vec::new(),
            pause: 0,
        }
    }

    /// Remembers `id`; when there are too many, another one is forgotten.
    ///
    /// With up to 15 owners, nothing that may come again goes while anything is left that cannot.
    /// With `n` owners, which are asked for their `cursor` every `n / 16` insertions into a full
    /// memory, a cursor that moves may be noticed that much later.
    pub fn insert(
        &mut self,
        id: EventId,
        owner: K,
        dated: UnixTime,
        cursor: impl Fn(K) -> Cursor,
    ) -> Inserted {
        if self.contains(&id) {
            return Inserted::Already;
        }
        let mut short = None;
        if self.len() >= self.capacity {
            short = self.make_room(cursor);
        }
        self.remember(Entry { id, owner, dated });
        Inserted::New { short }
    }

    /// Whether `id` is remembered.
    #[must_use]
    pub fn contains(&self, id: &EventId) -> bool {
        let hash = self.keyed.hash_one(id);
        let found = self
            .table
            .find(hash, |slot| holds(&self.entries, *slot, id));
        found.is_some()
    }

    /// Forgets `id`, so that it counts as new again. Whether it was remembered.
    pub fn remove(&mut self, id: &EventId) -> bool {
        let hash = self.keyed.hash_one(id);
        let holds = |slot: &u32| holds(&self.entries, *slot, id);
        let Ok(found) = self.table.find_entry(hash, holds) else {
            return false;
        };
        let (slot, _) = found.remove();
        self.free.push(slot);
        if let Some(Entry { owner, dated, .. }) = entry_at(&self.entries, slot) {
            self.reorder(owner, |owned| owned.remove(&(dated, slot)));
        }
        true
    }

    /// How many ids are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Forgets one id; returns its date when it may come again.
    fn make_room(&mut self, cursor: impl Fn(K) -> Cursor) -> Option<UnixTime> {
        self.find_spare(&cursor);
        let owner = match self.spare.last() {
            Some(owner) => *owner,
            None => self.oldest.first()?.1,
        };
        let (dated, slot) = *self.owned.get(&owner)?.first()?;
        let id = entry_at(&self.entries, slot)?.id;
        self.remove(&id);
        (!cursor(owner).is_past(dated)).then_some(dated)
    }

    /// Lets go of owners that have nothing to spare any more; when none is left, asks all of them,
    /// unless that was just done.
    fn find_spare(&mut self, cursor: impl Fn(K) -> Cursor) {
        let rested = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        while let Some(owner) = self.spare.last() {
            let oldest = self.owned.get(owner).and_then(BTreeSet::first);
            if oldest.is_some_and(|(dated, _)| cursor(*owner).is_past(*dated)) {
                return;
            }
            self.spare.pop();
        }
        if rested {
            let oldest = self.oldest.iter().rev();
            let below = oldest.filter(|(dated, owner)| cursor(*owner).is_past(*dated));
            self.spare.extend(below.map(|(_, owner)| *owner));
            self.pause = self.oldest.len() / OWNERS_ASKED;
        }
    }

    fn remember(&mut self, entry: Entry<K>) {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            // There are never more entries than the capacity, which fits.
            None => u32::try_from(self.entries.len()).unwrap_or(u32::MAX),
        };
        match self.entries.get_mut(slot as usize) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        let (keyed, entries) = (&self.keyed, &self.entries);
        let hash_of =
            |slot: &u32| entry_at(entries, *slot).map_or(0, |entry| keyed.hash_one(entry.id));
        self.table
            .insert_unique(keyed.hash_one(entry.id), slot, hash_of);
        self.reorder(entry.owner, |owned| owned.insert((entry.dated, slot)));
    }

    /// Changes what an owner has, and keeps the order of owners in step.
    fn reorder(&mut self, owner: K, change: impl FnOnce(&mut BTreeSet<(UnixTime, u32)>) -> bool) {
        let owned = self.owned.entry(owner).or_default();
        let oldest = |owned: &BTreeSet<(UnixTime, u32)>| owned.first().map(|(dated, _)| *dated);
        let before = oldest(owned);
        change(owned);
        let after = oldest(owned);
        if after.is_none() {
            self.owned.remove(&owner);
        }
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.oldest.remove(&(before, owner));
        }
        if let Some(after) = after {
            self.oldest.insert((after, owner));
        }
    }
}

fn entry_at<K: Copy>(entries: &[Entry<K>], slot: u32) -> Option<Entry<K>> {
    entries.get(slot as usize).copied()
}

fn holds<K: Copy>(entries: &[Entry<K>], slot: u32, id: &EventId) -> bool {
    entry_at(entries, slot).is_some_and(|entry| entry.id == *id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_removed_ids_are_taken_again() {
        let mut seen = Seen::new(1000, Seed(1));
        let mut insert = |number| {
            let id = EventId([number; 32]);
            seen.insert(id, (), UnixTime(0), |()| Cursor::Unknown);
            seen.remove(&EventId([1; 32]));
            (seen.entries.len(), seen.free.len())
        };
        assert_eq!(insert(0), (1, 0));
        for _ in 0..100 {
            assert_eq!(insert(1), (2, 1));
        }
    }

    #[test]
    fn an_owner_without_ids_leaves_nothing_behind() {
        let mut seen = Seen::new(1000, Seed(1));
        for owner in 0..100 {
            seen.insert(EventId([1; 32]), owner, UnixTime(owner), |_| {
                Cursor::Unknown
            });
            seen.remove(&EventId([1; 32]));
        }
        assert!(seen.owned.is_empty() && seen.oldest.is_empty());
    }
}
