//! Calls under way: what was asked of the outside, for which job, and until when it is awaited.

use alloc::collections::BTreeMap;

use crate::ids::{JobId, Ticket};
use crate::time::{MonoTime, Now, Why};

/// Calls of one sort, each with a `T` to keep until it ends. There are a few at any time.
#[derive(Clone, Debug)]
pub(super) struct Calls<T> {
    why: Why,
    open: BTreeMap<Ticket, Call<T>>,
}

/// One call. Its job may have ended before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<T> {
    pub(super) job: JobId,
    pub(super) until: MonoTime,
    pub(super) kept: T,
}

impl<T> Calls<T> {
    /// No calls; the wake for their limits is armed as `why`.
    pub(super) const fn new(why: Why) -> Self {
        Self {
            why,
            open: BTreeMap::new(),
        }
    }

    /// A call began.
    pub(super) fn begin(&mut self, ticket: Ticket, call: Call<T>) {
        self.open.insert(ticket, call);
    }

    /// A call ended; nothing when it had ended before, or never began.
    pub(super) fn end(&mut self, ticket: Ticket) -> Option<Call<T>> {
        self.open.remove(&ticket)
    }

    /// A call past its limit, ended. The wake is armed for the next one.
    pub(super) fn overdue(&mut self, now: &mut Now) -> Option<(Ticket, Call<T>)> {
        let ticket = self.open.iter().find_map(|(ticket, call)| {
            let is_over = now.reached(call.until, self.why);
            is_over.then_some(*ticket)
        })?;
        Some((ticket, self.open.remove(&ticket)?))
    }

    /// Any call, ended.
    pub(super) fn pop(&mut self) -> Option<(Ticket, Call<T>)> {
        self.open.pop_first()
    }

    /// Their jobs.
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobId> + Clone {
        self.open.values().map(|call| call.job)
    }

    /// How many are under way.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.open.len()).unwrap_or(u32::MAX)
    }
}
