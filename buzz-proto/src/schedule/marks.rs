//! What people see on their messages: that they were seen, and that they wait for long. The mark
//! goes with the outcome.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::Action;
use super::part::Part;
use crate::ids::{EventId, PubKey};
use crate::publish::{Command, Mark};
use crate::time::Now;

#[derive(Clone, Debug)]
pub(super) struct Marks {
    is_on: bool,
    /// Messages that bear a mark, and their authors.
    shown: BTreeMap<EventId, PubKey>,
}

impl Marks {
    pub(super) const fn new(is_on: bool) -> Self {
        Self {
            is_on,
            shown: BTreeMap::new(),
        }
    }

    /// A message bears this mark from now on.
    pub(super) fn show(
        &mut self,
        message: EventId,
        author: PubKey,
        mark: Mark,
        out: &mut Vec<Action>,
    ) {
        if self.is_on {
            self.shown.insert(message, author);
            out.push(react(message, author, Some(mark)));
        }
    }

    /// Takes the marks away of all messages that have their outcome in the orders from `first` on.
    /// They are read from the orders, so that no way to an outcome can forget them.
    pub(super) fn follow(&mut self, first: usize, out: &mut Vec<Action>) {
        if self.shown.is_empty() {
            return;
        }
        let orders = out.get(first..).unwrap_or_default();
        let mut over = Vec::new();
        for order in orders {
            if let Action::Dispose { event, how: _ } = order
                && let Some(author) = self.shown.remove(event)
            {
                over.push(react(*event, author, None));
            }
        }
        out.append(&mut over);
    }

    /// Takes all marks away: what has no outcome by now is handed back, and is seen anew then.
    pub(super) fn clear(&mut self, out: &mut Vec<Action>) {
        for (message, author) in core::mem::take(&mut self.shown) {
            out.push(react(message, author, None));
        }
    }
}

impl Part {
    /// Shows that messages wait for long, and says so where that may take hours; whether there were
    /// any.
    pub(super) fn pump_waiting(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        if !self.marks.is_on && !self.usage.is_limited() {
            return false;
        }
        let mut moved = false;
        while let Some((scope, event)) = self.queue.mark_waiting(now) {
            self.marks
                .show(event.id(), event.author(), Mark::Waiting, out);
            if self.usage.is_limited() {
                self.say_usage_limited(scope, &event, out);
            }
            moved = true;
        }
        moved
    }
}

const fn react(message: EventId, author: PubKey, mark: Option<Mark>) -> Action {
    Action::Publish(Command::React {
        message,
        author,
        mark,
    })
}
