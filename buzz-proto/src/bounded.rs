//! A queue that cannot grow past its limit and cannot lose an item in silence.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// First in, first out, with at most `capacity` items. Memory is taken as items come.
///
/// Whatever does not fit is handed back, so that its owner decides what the loss means.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    items: VecDeque<T>,
    capacity: usize,
}

impl<T> Queue<T> {
    /// An empty queue for at most `capacity` items. With a capacity of zero every item is refused.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self {
            items: VecDeque::new(),
            capacity,
        }
    }

    /// Puts `item` at the back; hands it back when the queue is full.
    #[must_use = "an item that does not fit is handed back"]
    pub fn push(&mut self, item: T) -> Option<T> {
        if self.is_full() {
            return Some(item);
        }
        self.items.push_back(item);
        None
    }

    /// Puts `item` at the back; a full queue hands out its oldest item to make room.
    /// With a capacity of zero that is `item` itself.
    #[must_use = "the item that had to go is handed back"]
    pub fn push_evicting(&mut self, item: T) -> Option<T> {
        if !self.is_full() {
            self.items.push_back(item);
            return None;
        }
        let Some(oldest) = self.items.pop_front() else {
            return Some(item);
        };
        self.items.push_back(item);
        Some(oldest)
    }

    /// Puts `item` at the front, to be next; hands it back when the queue is full.
    #[must_use = "an item that does not fit is handed back"]
    pub fn push_front(&mut self, item: T) -> Option<T> {
        if self.is_full() {
            return Some(item);
        }
        self.items.push_front(item);
        None
    }

    /// Takes the item at the front.
    pub fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    /// The item at the front.
    #[must_use]
    pub fn front(&self) -> Option<&T> {
        self.items.front()
    }

    /// The items from front to back.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.items.iter()
    }

    /// The items from front to back, to be changed in place.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> + ExactSizeIterator {
        self.items.iter_mut()
    }

    /// Keeps the items for which `keep` holds, and hands out the others; both keep their order.
    #[must_use = "the items taken out are handed back"]
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut removed = Vec::new();
        for _ in 0..self.items.len() {
            let Some(item) = self.items.pop_front() else {
                break;
            };
            if keep(&item) {
                self.items.push_back(item);
            } else {
                removed.push(item);
            }
        }
        removed
    }

    /// How many items wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether the next [`push`](Self::push) is refused.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.items.len() >= self.capacity
    }

    /// The most items it holds.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }
}
