//! How many events the consumer can still take, and how much memory they may hold.
//!
//! Room is a number that the machine holds, counted from what was delivered and what has left.
//! Nothing polls for it, and no slot is kept back. What leaves is told as a count: the sizes are
//! given back in the order of delivery, so the bytes are near the truth and never drift from it.

use alloc::collections::{BTreeMap, VecDeque};

use super::Sub;

/// One subscription may hold so much of the bytes of all, or a busy channel would keep the others
/// out.
const SHARE: u64 = 4;

#[derive(Clone, Debug)]
pub(crate) struct Room {
    policy: Policy,
    bytes: Bytes,
    gone: bool,
}

#[derive(Clone, Debug)]
enum Policy {
    /// One queue of so many slots, whose taker counts what it has taken.
    Slots {
        slots: u64,
        /// What was delivered and not taken.
        held: VecDeque<(Sub, u64)>,
        taken: u64,
    },
    /// A queue with a cap of its own for each subscription and one for all.
    Queues {
        each: u32,
        all: u32,
        held: BTreeMap<Sub, VecDeque<u64>>,
        total: u32,
    },
}

/// Bytes of the events that the consumer holds.
#[derive(Clone, Debug)]
struct Bytes {
    max: u64,
    total: u64,
    each: BTreeMap<Sub, u64>,
}

/// What is free for the events of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Free {
    /// So many events.
    pub(super) left: u64,
    /// Whether that is at least half of what it may use.
    pub(super) is_half: bool,
}

impl Free {
    /// Of what takes no place.
    pub(super) const ALL: Self = Self {
        left: u64::MAX,
        is_half: true,
    };
}

impl Room {
    pub(crate) fn slots(slots: u32, bytes_max: u64) -> Self {
        let policy = Policy::Slots {
            slots: u64::from(slots),
            held: VecDeque::new(),
            taken: 0,
        };
        Self::new(policy, bytes_max)
    }

    pub(crate) const fn queues(each: u32, all: u32, bytes_max: u64) -> Self {
        let policy = Policy::Queues {
            each,
            all,
            held: BTreeMap::new(),
            total: 0,
        };
        Self::new(policy, bytes_max)
    }

    const fn new(policy: Policy, bytes_max: u64) -> Self {
        let bytes = Bytes {
            max: bytes_max,
            total: 0,
            each: BTreeMap::new(),
        };
        Self {
            policy,
            bytes,
            gone: false,
        }
    }

    /// The consumer takes nothing more.
    pub(super) const fn close(&mut self) {
        self.gone = true;
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.gone
    }

    /// What is free for the events of `sub`, of the cap that binds it.
    pub(super) fn free(&self, sub: Sub) -> Free {
        let (left, cap) = match &self.policy {
            _ if self.gone => (0, 1),
            Policy::Slots { slots, held, .. } => (slots.saturating_sub(count(held.len())), *slots),
            Policy::Queues {
                each,
                all,
                held,
                total,
            } => {
                let own = held.get(&sub).map_or(0, VecDeque::len);
                let own = (
                    u64::from(*each).saturating_sub(count(own)),
                    u64::from(*each),
                );
                let total = (u64::from(all.saturating_sub(*total)), u64::from(*all));
                if own.0 <= total.0 { own } else { total }
            }
        };
        let (is_full, is_half) = self.bytes.fill(sub);
        Free {
            left: if is_full { 0 } else { left },
            is_half: !is_half && left.saturating_mul(2) >= cap,
        }
    }

    /// How many events were delivered and not taken.
    pub(super) fn untaken(&self) -> usize {
        match &self.policy {
            Policy::Slots { held, .. } => held.len(),
            Policy::Queues { total, .. } => *total as usize,
        }
    }

    /// Takes room for an event of `sub` of this size. False when there is none. One that will not
    /// stay in its queue always finds room in it, and is counted until it has left; whether it is
    /// such a one is asked only when there is no room.
    pub(super) fn take(&mut self, sub: Sub, size: usize, passes: impl FnOnce() -> bool) -> bool {
        if self.gone {
            return false;
        }
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        let fits = self.bytes.fit(sub, size);
        match &mut self.policy {
            Policy::Slots { slots, held, .. } => {
                if !fits || count(held.len()) >= *slots {
                    return false;
                }
                held.push_back((sub, size));
            }
            Policy::Queues {
                each,
                all,
                held,
                total,
            } => {
                let own = held.get(&sub).map_or(0, VecDeque::len);
                let free = fits && count(own) < u64::from(*each) && *total < *all;
                if !(free || passes()) {
                    return false;
                }
                held.entry(sub).or_default().push_back(size);
                *total = total.saturating_add(1);
            }
        }
        self.bytes.take(sub, size);
        true
    }

    /// The taker has taken so many in all. A count that falls, or is beyond what was delivered,
    /// is corrected.
    pub(super) fn taken(&mut self, now_taken: u64) {
        let Policy::Slots { held, taken, .. } = &mut self.policy else {
            return;
        };
        let fresh = now_taken.saturating_sub(*taken).min(count(held.len()));
        *taken = taken.saturating_add(fresh);
        let end = usize::try_from(fresh).unwrap_or(usize::MAX).min(held.len());
        for (sub, size) in held.drain(..end) {
            self.bytes.give(sub, size);
        }
    }

    /// So many events of `sub` have left their queue.
    pub(super) fn left(&mut self, sub: Sub, left: u32) {
        let Policy::Queues { held, total, .. } = &mut self.policy else {
            return;
        };
        let Some(own) = held.get_mut(&sub) else {
            return;
        };
        let end = usize::try_from(left).unwrap_or(usize::MAX).min(own.len());
        for size in own.drain(..end) {
            self.bytes.give(sub, size);
            *total = total.saturating_sub(1);
        }
        if own.is_empty() {
            held.remove(&sub);
        }
    }
}

impl Bytes {
    fn fit(&self, sub: Sub, size: u64) -> bool {
        let own = self.each.get(&sub).copied().unwrap_or(0);
        let share = self.max.checked_div(SHARE).unwrap_or(self.max);
        own.saturating_add(size) <= share && self.total.saturating_add(size) <= self.max
    }

    /// Whether nothing more fits, and whether more than half is used.
    fn fill(&self, sub: Sub) -> (bool, bool) {
        let own = self.each.get(&sub).copied().unwrap_or(0);
        let share = self.max.checked_div(SHARE).unwrap_or(self.max);
        let is_full = own >= share || self.total >= self.max;
        let is_half = own.saturating_mul(2) > share || self.total.saturating_mul(2) > self.max;
        (is_full, is_half)
    }

    fn take(&mut self, sub: Sub, size: u64) {
        let own = self.each.entry(sub).or_default();
        *own = own.saturating_add(size);
        self.total = self.total.saturating_add(size);
    }

    fn give(&mut self, sub: Sub, size: u64) {
        self.total = self.total.saturating_sub(size);
        let Some(own) = self.each.get_mut(&sub) else {
            return;
        };
        *own = own.saturating_sub(size);
        if *own == 0 {
            self.each.remove(&sub);
        }
    }
}

fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
