//! How many events the consumer can still take.
//!
//! Room is a number that the machine holds, counted from what was delivered and what has left.
//! Nothing polls for it, and no slot is kept back.

use alloc::collections::BTreeMap;

use super::Sub;

#[derive(Clone, Debug)]
pub(crate) struct Room {
    policy: Policy,
    gone: bool,
}

#[derive(Clone, Debug)]
enum Policy {
    /// One queue of so many slots, whose taker counts what it has taken.
    Slots {
        slots: u64,
        delivered: u64,
        taken: u64,
    },
    /// A queue with a cap of its own for each subscription and one for all.
    Queues {
        each: u32,
        all: u32,
        held: BTreeMap<Sub, u32>,
        total: u32,
    },
}

impl Room {
    pub(crate) fn slots(slots: u32) -> Self {
        let policy = Policy::Slots {
            slots: u64::from(slots),
            delivered: 0,
            taken: 0,
        };
        Self {
            policy,
            gone: false,
        }
    }

    pub(crate) const fn queues(each: u32, all: u32) -> Self {
        let policy = Policy::Queues {
            each,
            all,
            held: BTreeMap::new(),
            total: 0,
        };
        Self {
            policy,
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

    /// Takes one slot for an event of `sub`. False when there is none. One that will not stay in
    /// its queue always finds room in it, and is counted until it has left.
    pub(super) fn take(&mut self, sub: Sub, passes: bool) -> bool {
        if self.gone {
            return false;
        }
        match &mut self.policy {
            Policy::Slots {
                slots,
                delivered,
                taken,
            } => {
                let free = delivered.saturating_sub(*taken) < *slots;
                *delivered = delivered.saturating_add(u64::from(free));
                free
            }
            Policy::Queues {
                each,
                all,
                held,
                total,
            } => {
                let own = held.entry(sub).or_default();
                let free = passes || (*own < *each && *total < *all);
                *own = own.saturating_add(u32::from(free));
                *total = total.saturating_add(u32::from(free));
                free
            }
        }
    }

    /// The taker has taken so many in all. A count that falls, or is beyond what was delivered,
    /// is corrected.
    pub(super) fn taken(&mut self, count: u64) {
        match &mut self.policy {
            Policy::Slots {
                delivered, taken, ..
            } => *taken = count.clamp(*taken, *delivered),
            Policy::Queues { .. } => {}
        }
    }

    /// So many events of `sub` have left their queue.
    pub(super) fn left(&mut self, sub: Sub, count: u32) {
        let Policy::Queues { held, total, .. } = &mut self.policy else {
            return;
        };
        let Some(own) = held.get_mut(&sub) else {
            return;
        };
        let count = count.min(*own);
        *own = own.saturating_sub(count);
        *total = total.saturating_sub(count);
        if *own == 0 {
            held.remove(&sub);
        }
    }
}
