//! The names of requests on the wire: never used twice, and closed when they are over.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use super::Limits;
use crate::time::{MonoTime, Now, Why};
use crate::wire::SubName;

/// Names of superseded requests that still bring frames; or as many as there may be subscriptions.
const STRAYS_MIN: usize = 64;
/// A CLOSE that overtook its REQ is sent again after this.
const STRAY_WAIT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(super) struct Names {
    next: u64,
    /// Names whose CLOSE is due. The relay counts them until it has come, so none is forgotten:
    /// there are no more than requests that stood.
    closing: VecDeque<(u64, SubName)>,
    /// Names that were closed, or that the peer brought up.
    strays: BTreeMap<u64, Stray>,
    strays_max: usize,
}

#[derive(Clone, Debug)]
struct Stray {
    name: SubName,
    due: bool,
    closed: Option<MonoTime>,
}

impl Names {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            next: 1,
            closing: VecDeque::new(),
            strays: BTreeMap::new(),
            strays_max: STRAYS_MIN.max(limits.subscriptions_max as usize),
        }
    }

    /// The number of a new name.
    pub(super) const fn take(&mut self) -> u64 {
        let taken = self.next;
        self.next = self.next.saturating_add(1);
        taken
    }

    /// Whether this number was in a name of ours.
    pub(super) const fn is_former(&self, n: u64) -> bool {
        n != 0 && n < self.next
    }

    /// The socket is over, and every name on it.
    pub(super) fn reset(&mut self) {
        self.closing.clear();
        self.strays.clear();
    }

    /// A request is over: its CLOSE is due.
    pub(super) fn supersede(&mut self, name: Option<(u64, SubName)>) {
        self.closing.extend(name);
    }

    /// A read of stored events is over: its CLOSE is due.
    pub(super) fn supersede_page(&mut self, n: u64) {
        self.supersede(Some((n, SubName::Page { n })));
    }

    /// The CLOSE of a name is sent outside of the order.
    pub(super) fn closed(&mut self, n: u64, name: &SubName, now: MonoTime) {
        self.stray_at(n, name).closed = Some(now);
    }

    /// A superseded request still brings frames: its CLOSE may have overtaken it.
    pub(super) fn brought(&mut self, n: u64, name: &SubName) {
        if self.closing.iter().all(|(closing, _)| *closing != n) {
            self.stray_at(n, name).due = true;
        }
    }

    /// A CLOSE that is due.
    pub(super) fn stray(&mut self, now: &mut Now) -> Option<SubName> {
        if let Some((n, name)) = self.closing.pop_front() {
            self.stray_at(n, &name).closed = Some(now.time());
            return Some(name);
        }
        for stray in self.strays.values_mut().filter(|stray| stray.due) {
            let open = stray
                .closed
                .is_none_or(|at| now.reached(at.after(STRAY_WAIT), Why::Resubscribe));
            if open {
                stray.due = false;
                stray.closed = Some(now.time());
                return Some(stray.name.clone());
            }
        }
        None
    }

    /// What is remembered of a name that is over; the oldest makes room.
    fn stray_at(&mut self, n: u64, name: &SubName) -> &mut Stray {
        if self.strays.len() >= self.strays_max && !self.strays.contains_key(&n) {
            self.strays.pop_first();
        }
        self.strays.entry(n).or_insert_with(|| Stray {
            name: name.clone(),
            due: false,
            closed: None,
        })
    }
}
