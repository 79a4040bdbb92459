//! What a subscription owes: events that are known by their id, and windows of its history in
//! which nobody knows what there is.
//!
//! Nothing of it is forgotten because a request was written or answered: an id goes when its event
//! is handed over or the relay is believed not to have it, a window when it was read to its end.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use crate::backoff::Ladder;
use crate::ids::EventId;
use crate::note::{GapWhy, Note};
use crate::relay::Sub;
use crate::time::{MonoTime, Now, UnixTime, Why};

/// Events known by id; more are a window.
pub(in crate::relay) const LOST_MAX: usize = 1024;
/// A window that is read, and one that takes in all else.
const WINDOWS_MAX: usize = 2;
/// After a read that recovered nothing, and after an event that was refused again.
const WAIT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));
/// A read that brings nothing where something is known to be is repeated after this: a relay whose
/// database has just failed answers so.
const DOUBT: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub(in crate::relay) struct Loss {
    ids: BTreeMap<EventId, Lost>,
    by_date: BTreeSet<(UnixTime, EventId)>,
    windows: VecDeque<Window>,
    /// Since when it has waited for half of the room.
    since: Option<MonoTime>,
    /// Whether it was told that it has waited for long.
    pub(in crate::relay) is_lagging: bool,
    /// Reads of ids in a row that brought nothing.
    pub(in crate::relay) doubts: Doubts,
    ladder: Ladder,
    not_before: Option<MonoTime>,
    /// The number of its last attempt; nothing was attempted before the first.
    pub(in crate::relay) attempted: u64,
    /// Events delivered late since it began.
    pub(in crate::relay) recovered: u64,
    /// What the relay does not have any more, not told yet.
    gone: Option<Gone>,
}

#[derive(Clone, Copy, Debug)]
struct Gone {
    count: u64,
    from: UnixTime,
    to: UnixTime,
}

/// An event that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::relay) struct Lost {
    pub(in crate::relay) dated: UnixTime,
    /// How often it was read again in vain.
    pub(in crate::relay) refused: u32,
    /// When it was lost last.
    pub(in crate::relay) at: MonoTime,
}

/// A span of history that may hold events that were not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::relay) struct Window {
    /// Its oldest second.
    pub(in crate::relay) from: UnixTime,
    /// How far it has been read, from its newest second down; nothing before the first page.
    pub(in crate::relay) position: Option<UnixTime>,
    /// Of the second `position`, what comes up to this id was read.
    pub(in crate::relay) after: Option<EventId>,
    /// Whether the relay said that it dropped frames.
    pub(in crate::relay) by_signal: bool,
    /// Whether it was opened by a new connection: such a one waits for no cool-down.
    pub(in crate::relay) by_connection: bool,
    /// Whether something is known to be in it.
    pub(in crate::relay) is_known: bool,
    /// Whether a known event ends it, because no date does.
    pub(in crate::relay) ends_at_known: bool,
    /// Only a known event that is older than this ends it.
    pub(in crate::relay) known_below: UnixTime,
    /// Whether the next page is the largest, because a smaller one lay in one second.
    pub(in crate::relay) is_wide: bool,
    /// Pages in a row that did not come to their end: each halves the next.
    pub(in crate::relay) halvings: u32,
    pub(in crate::relay) doubts: Doubts,
}

/// Empty answers in a row where there should be events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::relay) struct Doubts {
    count: u32,
    at: Option<MonoTime>,
}

impl Doubts {
    /// One more empty answer.
    pub(in crate::relay) const fn add(&mut self, now: MonoTime) {
        self.count = self.count.saturating_add(1);
        self.at = Some(now);
    }

    pub(in crate::relay) const fn count(self) -> u32 {
        self.count
    }

    fn is_over(self, now: &mut Now) -> bool {
        self.at
            .is_none_or(|at| now.reached(at.after(DOUBT), Why::Recovery))
    }
}

impl Window {
    /// A window from a second on, to the present.
    pub(in crate::relay) const fn from(from: UnixTime) -> Self {
        Self {
            from,
            position: None,
            after: None,
            by_signal: false,
            by_connection: false,
            is_known: false,
            ends_at_known: false,
            known_below: UnixTime(u64::MAX),
            is_wide: false,
            halvings: 0,
            doubts: Doubts { count: 0, at: None },
        }
    }

    /// Whether all of it was read.
    pub(in crate::relay) fn is_read(&self) -> bool {
        self.position.is_some_and(|position| position < self.from)
    }

    /// Only what is older than this can be known to lie beyond its end.
    fn known_end(&self) -> UnixTime {
        if self.ends_at_known {
            let position = self.position.unwrap_or(UnixTime(u64::MAX));
            position.min(self.known_below)
        } else {
            self.from
        }
    }

    /// Takes in another: what was read of either counts as not read where the other reaches.
    fn join(&mut self, other: Self) {
        self.known_below = self.known_end().min(other.known_end());
        self.from = self.from.min(other.from);
        self.position = match (self.position, other.position) {
            (Some(one), Some(two)) => Some(one.max(two)),
            (None, _) | (_, None) => None,
        };
        self.after = None;
        self.by_signal |= other.by_signal;
        self.by_connection |= other.by_connection;
        self.is_known |= other.is_known;
        self.ends_at_known |= other.ends_at_known;
    }
}

impl Loss {
    pub(in crate::relay) fn new() -> Self {
        Self {
            ids: BTreeMap::new(),
            by_date: BTreeSet::new(),
            windows: VecDeque::new(),
            since: None,
            is_lagging: false,
            doubts: Doubts::default(),
            ladder: Ladder::new(WAIT.0, WAIT.1),
            not_before: None,
            attempted: 0,
            recovered: 0,
            gone: None,
        }
    }

    pub(in crate::relay) fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.windows.is_empty()
    }

    /// How many events are known by id.
    pub(in crate::relay) fn ids_len(&self) -> usize {
        self.ids.len()
    }

    /// The oldest second that something is owed of.
    pub(in crate::relay) fn oldest(&self) -> Option<UnixTime> {
        let window = self.windows.iter().map(|window| window.from).min();
        self.oldest_id().into_iter().chain(window).min()
    }

    /// The oldest date of the events known by id.
    pub(in crate::relay) fn oldest_id(&self) -> Option<UnixTime> {
        self.by_date.first().map(|(dated, _)| *dated)
    }

    /// The newest date of the events known by id.
    pub(in crate::relay) fn newest(&self) -> Option<UnixTime> {
        self.by_date.last().map(|(dated, _)| *dated)
    }

    pub(in crate::relay) fn get(&self, id: EventId) -> Option<Lost> {
        self.ids.get(&id).copied()
    }

    /// Records an event. Whether it is the first thing that is owed.
    pub(in crate::relay) fn lose(&mut self, id: EventId, lost: Lost) -> bool {
        let is_first = self.is_empty();
        self.since.get_or_insert(lost.at);
        if self.ids.len() >= LOST_MAX && !self.ids.contains_key(&id) {
            let mut window = Window::from(lost.dated);
            window.position = Some(lost.dated);
            window.is_known = true;
            self.open(window, lost.at);
            return is_first;
        }
        if let Some(former) = self.ids.insert(id, lost) {
            self.by_date.remove(&(former.dated, id));
        }
        self.by_date.insert((lost.dated, id));
        is_first
    }

    /// An event was handed over, or is believed gone.
    pub(in crate::relay) fn take(&mut self, id: EventId) -> Option<Lost> {
        let lost = self.ids.remove(&id)?;
        self.by_date.remove(&(lost.dated, id));
        self.end_wait();
        Some(lost)
    }

    /// The relay is believed not to have an event any more. Whether it was owed.
    pub(in crate::relay) fn give_up(&mut self, id: EventId) -> bool {
        let Some(Lost { dated, .. }) = self.take(id) else {
            return false;
        };
        let gone = self.gone.get_or_insert(Gone {
            count: 0,
            from: dated,
            to: dated,
        });
        gone.count = gone.count.saturating_add(1);
        gone.from = gone.from.min(dated);
        gone.to = gone.to.max(dated);
        true
    }

    /// What the relay does not have, told as one once no other id is owed.
    pub(in crate::relay) fn take_gap(&mut self, sub: Sub) -> Option<Note> {
        if !self.ids.is_empty() {
            return None;
        }
        let gap = self.gap(sub);
        self.gone = None;
        gap
    }

    /// What the relay does not have and was not told yet.
    pub(in crate::relay) fn gap(&self, sub: Sub) -> Option<Note> {
        let Gone { count, from, to } = self.gone?;
        let (count, why) = (Some(count), GapWhy::NotStored);
        Some(Note::Gap {
            sub,
            count,
            from,
            to,
            why,
        })
    }

    /// Records a window. The one that is being read stays as it is.
    pub(in crate::relay) fn open(&mut self, window: Window, now: MonoTime) {
        self.since.get_or_insert(now);
        if self.windows.len() < WINDOWS_MAX {
            self.windows.push_back(window);
        } else if let Some(last) = self.windows.back_mut() {
            last.join(window);
        }
    }

    /// The window that is read.
    pub(in crate::relay) fn window(&self) -> Option<&Window> {
        self.windows.front()
    }

    pub(in crate::relay) fn window_mut(&mut self) -> Option<&mut Window> {
        self.windows.front_mut()
    }

    /// The window that is read was read to its end.
    pub(in crate::relay) fn close_window(&mut self) {
        self.windows.pop_front();
        self.end_wait();
    }

    pub(in crate::relay) fn has_windows(&self) -> bool {
        !self.windows.is_empty()
    }

    pub(in crate::relay) fn has_signal_window(&self) -> bool {
        self.windows.iter().any(|window| window.by_signal)
    }

    /// Whether anything is owed, and what may be asked now: what was refused again, and what is
    /// doubted, rests. The ids, oldest first, at most `count`.
    pub(in crate::relay) fn due_ids(
        &self,
        count: usize,
        now: &mut Now,
    ) -> Vec<(UnixTime, EventId)> {
        if self.ids.is_empty() || !self.doubts.is_over(now) {
            return Vec::new();
        }
        let due = self.by_date.iter().filter(|(_, id)| {
            self.ids.get(id).is_some_and(|lost| {
                lost.refused == 0 || now.reached(lost.at.after(rest(lost.refused)), Why::Recovery)
            })
        });
        due.take(count).copied().collect()
    }

    /// Whether a page of the window may be asked now: what it brings must find a place among the
    /// ids.
    pub(in crate::relay) fn is_window_due(&self, limit: usize, now: &mut Now) -> bool {
        let fits = self.ids.len().saturating_add(limit) <= LOST_MAX;
        fits && self
            .window()
            .is_some_and(|window| window.doubts.is_over(now))
    }

    /// Whether its own pause is over.
    pub(in crate::relay) fn is_rested(&self, now: &mut Now) -> bool {
        self.not_before
            .is_none_or(|until| now.reached(until, Why::Recovery))
    }

    /// Whether it has waited for so long.
    pub(in crate::relay) fn has_waited(&self, span: Duration, now: &mut Now) -> bool {
        self.since
            .is_some_and(|since| now.reached(since.after(span), Why::Recovery))
    }

    pub(in crate::relay) fn waited(&self, now: MonoTime) -> Duration {
        self.since
            .map_or(Duration::ZERO, |since| now.saturating_since(since))
    }

    /// An attempt has ended. One that made do with little room is followed by a wait as long as the
    /// one before it: what comes live needs that room as well.
    pub(in crate::relay) fn attempt_ended(
        &mut self,
        has_shrunk: bool,
        is_scant: bool,
        now: MonoTime,
    ) {
        if is_scant && !self.is_empty() {
            self.since = Some(now);
        }
        if has_shrunk {
            self.ladder.reset();
            self.not_before = None;
        } else {
            self.not_before = Some(now.after(self.ladder.climb()));
        }
    }

    /// Forgets when it began to wait, once nothing is owed.
    fn end_wait(&mut self) {
        if self.is_empty() {
            self.since = None;
            self.is_lagging = false;
            self.not_before = None;
            self.ladder.reset();
            self.doubts = Doubts::default();
        }
    }
}

/// How long an event that was refused so often is not asked for.
fn rest(refused: u32) -> Duration {
    let factor = 1_u32
        .checked_shl(refused.saturating_sub(1))
        .unwrap_or(u32::MAX);
    WAIT.0.saturating_mul(factor).min(WAIT.1)
}
