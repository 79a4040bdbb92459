//! What waits: one row per scope, first in, first out, within the caps; and the orders in which
//! rows are asked for.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use super::hold::Hold;
use super::{Action, Limits, Scope};
use crate::ids::{ChannelId, EventId, TurnId};
use crate::relay::{Disposal, Sub};
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::Event;

/// An admitted event.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) sub: Sub,
    pub(super) event: Event,
    /// Attempts at it that failed.
    pub(super) attempts: u16,
    /// Workers that ended at it.
    pub(super) crashes: u16,
    /// Whether a turn had it before: then it was told that it left the queue.
    pub(super) is_begun: bool,
    /// When it came, by both clocks.
    arrived: MonoTime,
    /// Its author's date, but not later than its arrival: nobody can place himself at the end.
    dated: UnixTime,
    sequence: u64,
}

impl Waiting {
    /// After one more attempt in vain, at which a worker ended or did not.
    pub(super) fn tried(self, is_crash: bool) -> Self {
        Self {
            attempts: self.attempts.saturating_add(1),
            crashes: self.crashes.saturating_add(u16::from(is_crash)),
            ..self
        }
    }
}

/// Rows by scope. A row stands while it holds events or a turn runs.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    rows: BTreeMap<Scope, Row>,
    /// Rows that may start, the one that has waited longest first.
    ready: BTreeSet<Key>,
    /// Rows that wait for the worker of their session, by the end of that.
    held: BTreeSet<(MonoTime, Scope)>,
    /// Rows that rest before the next attempt, by the end of that.
    resting: BTreeSet<(MonoTime, Scope)>,
    /// Rows whose oldest event does not bear the mark of a long wait, by when it will.
    unmarked: BTreeSet<(MonoTime, Scope)>,
    /// How many wait in each channel; channels where nothing waits have no entry.
    channels: BTreeMap<ChannelId, u32>,
    total: u32,
    sequence: u64,
    batch_max: usize,
    channel_max: u32,
    total_max: u32,
    waiting_max: Duration,
}

/// A place among the rows that may start: since when it waits, and its oldest event.
type Key = (MonoTime, u64, Scope);

#[derive(Clone, Debug, Default)]
struct Row {
    /// In order of arrival.
    waiting: Vec<Waiting>,
    phase: Phase,
    /// The end of its last finished turn.
    served: MonoTime,
    /// Since when it waits for the worker of its session. Stands until it starts, or that session
    /// or the work is gone.
    hold: Option<Hold>,
    /// Whether an event of it bears the mark of a long wait.
    is_marked: bool,
}

/// What a row with events waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// A worker that is idle.
    #[default]
    Ready,
    /// The worker of its session, at most until then.
    Held { until: MonoTime },
    /// The time of its next attempt.
    Resting { until: MonoTime },
    /// The end of its turn.
    Running(TurnId),
}

impl Row {
    /// Since its oldest event came or its last turn ended, so that a busy scope cannot keep others
    /// out with its backlog.
    fn key(&self, scope: Scope) -> Option<Key> {
        let oldest = self.waiting.first()?;
        Some((oldest.arrived.max(self.served), oldest.sequence, scope))
    }
}

impl Queue {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            rows: BTreeMap::new(),
            ready: BTreeSet::new(),
            held: BTreeSet::new(),
            resting: BTreeSet::new(),
            unmarked: BTreeSet::new(),
            channels: BTreeMap::new(),
            total: 0,
            sequence: 0,
            batch_max: usize::try_from(limits.batch_max).unwrap_or(usize::MAX),
            channel_max: limits.channel_max,
            total_max: limits.total_max,
            waiting_max: limits.waiting,
        }
    }

    pub(super) fn len(&self) -> usize {
        usize::try_from(self.total).unwrap_or(usize::MAX)
    }

    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    pub(super) fn resting(&self) -> usize {
        self.resting.len()
    }

    /// Queues an event; gives it back where there is no room.
    pub(super) fn push(
        &mut self,
        scope: Scope,
        sub: Sub,
        event: Event,
        (arrived, wall): (MonoTime, UnixTime),
    ) -> Option<Event> {
        let waiting = self.channels.get(&scope.channel()).copied().unwrap_or(0);
        if waiting >= self.channel_max || self.total >= self.total_max {
            return Some(event);
        }
        self.sequence = self.sequence.wrapping_add(1);
        let waiting = Waiting {
            sub,
            attempts: 0,
            crashes: 0,
            is_begun: false,
            arrived,
            dated: event.created_at().min(wall),
            sequence: self.sequence,
            event,
        };
        self.came(scope, 1);
        self.change(scope, |row| row.waiting.push(waiting));
        None
    }

    /// The row that may start and has waited longest.
    pub(super) fn first_ready(&self) -> Option<Scope> {
        self.ready.first().map(|(_, _, scope)| *scope)
    }

    /// Whether a row may start.
    pub(super) fn is_ready(&self, scope: Scope) -> bool {
        let row = self.rows.get(&scope);
        row.is_some_and(|row| row.phase == Phase::Ready && !row.waiting.is_empty())
    }

    /// Rows whose rest is over may start; whether there was one.
    pub(super) fn wake(&mut self, now: &mut Now) -> bool {
        let mut moved = false;
        while let Some((until, scope)) = self.resting.first().copied() {
            if !now.reached(until, Why::Attempt) {
                break;
            }
            self.change(scope, |row| row.phase = Phase::Ready);
            moved = true;
        }
        moved
    }

    /// Takes the oldest events of a row for a turn, oldest first: a single one as long as any is there
    /// at which a worker ended, so that the one at fault is found out and the others have an answer.
    pub(super) fn begin(&mut self, scope: Scope, turn: TurnId) -> Vec<Waiting> {
        let batch_max = self.batch_max;
        let mut batch = Vec::new();
        self.change(scope, |row| {
            row.phase = Phase::Running(turn);
            row.hold = None;
            row.is_marked = false;
            let is_suspect = row.waiting.iter().any(|waiting| waiting.crashes > 0);
            let most = if is_suspect { 1 } else { batch_max };
            batch = mem::take(&mut row.waiting);
            batch.sort_by_key(|waiting| (waiting.dated, waiting.sequence));
            row.waiting = batch.split_off(batch.len().min(most));
            row.waiting.sort_by_key(|waiting| waiting.sequence);
        });
        self.left(scope, batch.len());
        batch
    }

    /// Names the turn that goes on with the batch of another.
    pub(super) fn rename(&mut self, scope: Scope, turn: TurnId) {
        self.change(scope, |row| row.phase = Phase::Running(turn));
    }

    /// The turn of a row has ended, and its events are on the way to their outcome.
    pub(super) fn end(&mut self, scope: Scope, now: MonoTime) {
        self.change(scope, |row| {
            row.phase = Phase::Ready;
            row.served = now;
        });
    }

    /// The turn of a row has ended, and these of its events wait again: until the time of their next
    /// attempt, or for a worker. They count in the caps, but are let in whatever these say.
    pub(super) fn give_back(
        &mut self,
        scope: Scope,
        batch: Vec<Waiting>,
        rest_until: Option<MonoTime>,
    ) {
        self.came(scope, batch.len());
        self.change(scope, |row| {
            row.phase = match rest_until {
                Some(until) => Phase::Resting { until },
                None => Phase::Ready,
            };
            let again = batch.into_iter().map(|waiting| Waiting {
                is_begun: true,
                ..waiting
            });
            row.waiting.extend(again);
            row.waiting.sort_by_key(|waiting| waiting.sequence);
        });
    }

    /// Takes out what waits in a row and fits; the hold that this ends, if nothing is left.
    pub(super) fn take(
        &mut self,
        scope: Scope,
        mut fits: impl FnMut(&Waiting) -> bool,
    ) -> (Vec<Waiting>, Option<Hold>) {
        let mut taken = Vec::new();
        let mut hold = None;
        self.change(scope, |row| {
            let before = row.waiting.first().map(|waiting| waiting.sequence);
            let (fitting, rest) = mem::take(&mut row.waiting)
                .into_iter()
                .partition(|waiting| fits(waiting));
            (taken, row.waiting) = (fitting, rest);
            // The mark goes with its message, which is the oldest as a rule.
            row.is_marked &= row.waiting.first().map(|waiting| waiting.sequence) == before;
            if row.waiting.is_empty() {
                hold = row.hold.take();
            }
            // What was never tried has no reason to rest.
            let is_resting = matches!(row.phase, Phase::Resting { .. });
            if is_resting && !row.waiting.iter().any(|waiting| waiting.is_begun) {
                row.phase = Phase::Ready;
            }
        });
        self.left(scope, taken.len());
        (taken, hold)
    }

    /// The turn that runs in a row.
    pub(super) fn turn(&self, scope: Scope) -> Option<TurnId> {
        match self.rows.get(&scope)?.phase {
            Phase::Running(turn) => Some(turn),
            Phase::Ready | Phase::Held { .. } | Phase::Resting { .. } => None,
        }
    }

    /// Whether events wait in a row.
    pub(super) fn has_work(&self, scope: Scope) -> bool {
        self.rows
            .get(&scope)
            .is_some_and(|row| !row.waiting.is_empty())
    }

    /// The scopes with events or a turn.
    pub(super) fn scopes(&self) -> impl Iterator<Item = Scope> {
        self.rows.keys().copied()
    }

    /// The next event that has waited for long and does not bear the mark of it.
    pub(super) fn mark_waiting(&mut self, now: &mut Now) -> Option<(Scope, Event)> {
        let (at, scope) = self.unmarked.first().copied()?;
        if !now.reached(at, Why::Waiting) {
            return None;
        }
        let mut marked = None;
        self.change(scope, |row| {
            row.is_marked = true;
            let oldest = row.waiting.first();
            marked = oldest.map(|waiting| (scope, waiting.event.clone()));
        });
        marked
    }

    /// What has waited for long is to be marked anew.
    pub(super) fn unmark(&mut self) {
        let marked = self.rows.iter().filter(|(_, row)| row.is_marked);
        let marked: Vec<Scope> = marked.map(|(scope, _)| *scope).collect();
        for scope in marked {
            self.change(scope, |row| row.is_marked = false);
        }
    }

    /// Changes a row, and its places in the orders with it. One that holds nothing any more goes.
    fn change(&mut self, scope: Scope, change: impl FnOnce(&mut Row)) {
        let mut row = self.rows.remove(&scope).unwrap_or_default();
        self.unindex(scope, &row);
        change(&mut row);
        if row.waiting.is_empty() && !matches!(row.phase, Phase::Running(_)) {
            return;
        }
        self.index(scope, &row);
        self.rows.insert(scope, row);
    }

    fn index(&mut self, scope: Scope, row: &Row) {
        match (row.phase, row.key(scope)) {
            (Phase::Ready, Some(key)) => {
                self.ready.insert(key);
            }
            (Phase::Held { until }, _) => {
                self.held.insert((until, scope));
            }
            (Phase::Resting { until }, _) => {
                self.resting.insert((until, scope));
            }
            (Phase::Ready, None) | (Phase::Running(_), _) => {}
        }
        if let Some(at) = self.marked_at(row) {
            self.unmarked.insert((at, scope));
        }
    }

    fn unindex(&mut self, scope: Scope, row: &Row) {
        if let Some(key) = row.key(scope) {
            self.ready.remove(&key);
        }
        if let Phase::Held { until } = row.phase {
            self.held.remove(&(until, scope));
        }
        if let Phase::Resting { until } = row.phase {
            self.resting.remove(&(until, scope));
        }
        if let Some(at) = self.marked_at(row) {
            self.unmarked.remove(&(at, scope));
        }
    }

    fn marked_at(&self, row: &Row) -> Option<MonoTime> {
        let oldest = row.waiting.first().filter(|_| !row.is_marked)?;
        Some(oldest.arrived.after(self.waiting_max))
    }

    fn came(&mut self, scope: Scope, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.total = self.total.saturating_add(count);
        let all = self.channels.entry(scope.channel()).or_default();
        *all = all.saturating_add(count);
    }

    fn left(&mut self, scope: Scope, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.total = self.total.saturating_sub(count);
        let channel = scope.channel();
        let rest = self
            .channels
            .get(&channel)
            .map_or(0, |all| all.saturating_sub(count));
        if rest == 0 {
            self.channels.remove(&channel);
        } else {
            self.channels.insert(channel, rest);
        }
    }
}

/// Holds.
impl Queue {
    /// A row is to wait for the worker of its session; whether that is news.
    pub(super) fn hold(&mut self, scope: Scope, hold: Hold, limit: Duration) -> bool {
        let mut is_news = false;
        self.change(scope, |row| {
            is_news = row.hold.is_none();
            let since = row.hold.get_or_insert(hold).since;
            row.phase = Phase::Held {
                until: since.after(limit),
            };
        });
        is_news
    }

    /// The hold of a row, from its beginning to its start.
    pub(super) fn hold_of(&self, scope: Scope) -> Option<Hold> {
        self.rows.get(&scope)?.hold
    }

    /// The rows that wait for the worker of their session.
    pub(super) fn held_scopes(&self) -> impl Iterator<Item = Scope> {
        self.held.iter().map(|(_, scope)| *scope)
    }

    /// A held row may start.
    pub(super) fn release(&mut self, scope: Scope) {
        self.change(scope, |row| row.phase = Phase::Ready);
    }

    /// There is nothing to wait for any more: gives the hold that ends.
    pub(super) fn end_hold(&mut self, scope: Scope) -> Option<Hold> {
        let mut hold = None;
        self.change(scope, |row| {
            hold = row.hold.take();
            if matches!(row.phase, Phase::Held { .. }) {
                row.phase = Phase::Ready;
            }
        });
        hold
    }

    /// Rows that were held for long enough may start anywhere; whether there was one.
    pub(super) fn expire(&mut self, now: &mut Now) -> bool {
        let mut moved = false;
        while let Some((until, scope)) = self.held.first().copied() {
            if !now.reached(until, Why::Hold) {
                break;
            }
            self.change(scope, |row| {
                row.phase = Phase::Ready;
                if let Some(hold) = &mut row.hold {
                    hold.is_expired = true;
                }
            });
            moved = true;
        }
        moved
    }
}

/// Tells the relay part that events have left the queue: one order for each subscription.
pub(super) fn tell_left(events: &[Waiting], out: &mut Vec<Action>) {
    let mut counts: BTreeMap<Sub, u32> = BTreeMap::new();
    for waiting in events.iter().filter(|waiting| !waiting.is_begun) {
        let count = counts.entry(waiting.sub).or_default();
        *count = count.saturating_add(1);
    }
    out.extend(
        counts
            .into_iter()
            .map(|(sub, count)| Action::Left { sub, count }),
    );
}

/// Tells the final outcome of events.
pub(super) fn dispose(
    events: impl IntoIterator<Item = EventId>,
    how: Disposal,
    out: &mut Vec<Action>,
) {
    out.extend(
        events
            .into_iter()
            .map(|event| Action::Dispose { event, how }),
    );
}

/// How many, as notes count.
pub(super) fn count<T>(events: &[T]) -> u32 {
    u32::try_from(events.len()).unwrap_or(u32::MAX)
}
