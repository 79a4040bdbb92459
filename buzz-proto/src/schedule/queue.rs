//! What waits: one row per scope, first in, first out, within the caps.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

use super::{Action, Limits, Scope};
use crate::ids::{ChannelId, EventId, TurnId};
use crate::relay::{Disposal, Sub};
use crate::time::{MonoTime, UnixTime};
use crate::wire::Event;

/// An admitted event.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) sub: Sub,
    pub(super) event: Event,
    /// When it came, by both clocks.
    arrived: MonoTime,
    /// Its author's date, but not later than its arrival: nobody can place himself at the end.
    dated: UnixTime,
    sequence: u64,
}

/// Rows by scope. A row stands while it holds events or a turn runs.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    rows: BTreeMap<Scope, Row>,
    /// How many wait in each channel; channels where nothing waits have no entry.
    channels: BTreeMap<ChannelId, u32>,
    total: u32,
    sequence: u64,
    batch_max: usize,
    channel_max: u32,
    total_max: u32,
}

#[derive(Clone, Debug, Default)]
struct Row {
    /// In order of arrival.
    waiting: Vec<Waiting>,
    turn: Option<TurnId>,
    /// The end of its last turn.
    served: MonoTime,
}

impl Queue {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            rows: BTreeMap::new(),
            channels: BTreeMap::new(),
            total: 0,
            sequence: 0,
            batch_max: usize::try_from(limits.batch_max).unwrap_or(usize::MAX),
            channel_max: limits.channel_max,
            total_max: limits.total_max,
        }
    }

    pub(super) fn len(&self) -> usize {
        usize::try_from(self.total).unwrap_or(usize::MAX)
    }

    /// Puts an event at the end of its scope's row; hands it back where there is no room.
    #[must_use = "an event that does not fit is handed back"]
    pub(super) fn push(
        &mut self,
        scope: Scope,
        sub: Sub,
        event: Event,
        arrived: (MonoTime, UnixTime),
    ) -> Option<Event> {
        let waiting = self.channels.get(&scope.channel()).copied().unwrap_or(0);
        if waiting >= self.channel_max || self.total >= self.total_max {
            return Some(event);
        }
        self.channels
            .insert(scope.channel(), waiting.saturating_add(1));
        self.total = self.total.saturating_add(1);
        self.sequence = self.sequence.wrapping_add(1);
        let (arrived, wall) = arrived;
        let dated = event.created_at().min(wall);
        let sequence = self.sequence;
        let row = self.rows.entry(scope).or_default();
        row.waiting.push(Waiting {
            sub,
            event,
            arrived,
            dated,
            sequence,
        });
        None
    }

    /// The ready scope that has waited longest: since its oldest event came or its last turn
    /// ended, so that a busy scope cannot keep others out with its backlog.
    pub(super) fn next(&self) -> Option<Scope> {
        self.rows
            .iter()
            .filter(|(_, row)| row.turn.is_none())
            .filter_map(|(scope, row)| {
                let oldest = row.waiting.first()?;
                Some((oldest.arrived.max(row.served), oldest.sequence, *scope))
            })
            .min()
            .map(|(_, _, scope)| scope)
    }

    /// Takes the oldest events of a scope for a turn, oldest first.
    pub(super) fn begin(&mut self, scope: Scope, turn: TurnId) -> Vec<Waiting> {
        let Some(row) = self.rows.get_mut(&scope) else {
            return Vec::new();
        };
        row.turn = Some(turn);
        let mut batch = mem::take(&mut row.waiting);
        batch.sort_by_key(|waiting| (waiting.dated, waiting.sequence));
        row.waiting = batch.split_off(batch.len().min(self.batch_max));
        row.waiting.sort_by_key(|waiting| waiting.sequence);
        self.left(scope, batch.len());
        batch
    }

    /// Names the turn that goes on with the batch of another.
    pub(super) fn rename(&mut self, scope: Scope, turn: TurnId) {
        if let Some(row) = self.rows.get_mut(&scope) {
            row.turn = Some(turn);
        }
    }

    /// The turn of a scope has ended.
    pub(super) fn end(&mut self, scope: Scope, now: MonoTime) {
        if let Some(row) = self.rows.get_mut(&scope) {
            row.turn = None;
            row.served = now;
        }
        self.prune(scope);
    }

    /// Takes out all that waits in a scope.
    pub(super) fn clear(&mut self, scope: Scope) -> Vec<Waiting> {
        let cleared = self
            .rows
            .get_mut(&scope)
            .map(|row| mem::take(&mut row.waiting));
        let cleared = cleared.unwrap_or_default();
        self.left(scope, cleared.len());
        self.prune(scope);
        cleared
    }

    /// The turn that runs in a scope.
    pub(super) fn turn(&self, scope: Scope) -> Option<TurnId> {
        self.rows.get(&scope)?.turn
    }

    /// The scopes with events or a turn.
    pub(super) fn scopes(&self) -> impl Iterator<Item = Scope> {
        self.rows.keys().copied()
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

    fn prune(&mut self, scope: Scope) {
        let is_done = self
            .rows
            .get(&scope)
            .is_some_and(|row| row.waiting.is_empty() && row.turn.is_none());
        if is_done {
            self.rows.remove(&scope);
        }
    }
}

/// Tells the relay part that events have left the queue: one order for each subscription.
pub(super) fn tell_left(events: &[Waiting], out: &mut Vec<Action>) {
    let mut counts: BTreeMap<Sub, u32> = BTreeMap::new();
    for waiting in events {
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
