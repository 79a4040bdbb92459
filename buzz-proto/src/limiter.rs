//! Limits how often a kind of note is said: the first at once, then summaries with a count.

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::backoff::Ladder;
use crate::time::{MonoTime, Now, Why};

/// Kinds that are counted each for itself. Every part has fewer kinds of diagnostics than this.
const KINDS_MAX: usize = 64;
/// The period of summaries: short enough to follow a disturbance, and doubled while it lasts, so
/// that hours of it stay a page.
const PERIOD_FIRST: Duration = Duration::from_secs(30);
const PERIOD_TOP: Duration = Duration::from_secs(300);

/// Per kind `K`: the first occurrence passes, the later ones are counted, and each period in which
/// there was one ends in one summary. After five minutes without an occurrence the next one is a
/// first one again: what recurs each minute, the usual window of a quota, is told as one thing.
///
/// At most 64 kinds are told apart. Those past that share one count, under the key of the first
/// of them. Every occurrence is either passed or in exactly one summary.
#[derive(Clone, Debug)]
pub struct Limiter<K> {
    rows: BTreeMap<K, Row>,
    rest: Option<(K, Row)>,
}

impl<K: Ord + Clone> Limiter<K> {
    /// Nothing has occurred.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            rows: BTreeMap::new(),
            rest: None,
        }
    }

    /// An occurrence of `key`: whether it is to be said at once. If not it is counted, and
    /// [`due`](Self::due) arms the wake for its summary.
    pub fn admit(&mut self, key: K, now: &Now) -> bool {
        if let Some(row) = self.rows.get_mut(&key) {
            return row.admit(now);
        }
        if self.rows.len() >= KINDS_MAX {
            self.rows.retain(|_, row| !row.is_over(now));
        }
        if self.rows.len() < KINDS_MAX {
            self.rows.insert(key, Row::new(now.time()));
            return true;
        }
        if let Some((_, row)) = &mut self.rest
            && !row.is_over(now)
        {
            return row.admit(now);
        }
        self.rest = Some((key, Row::new(now.time())));
        true
    }

    /// A summary that is due: the kind, and how often it occurred since it was last spoken of.
    /// Call it until it gives nothing; the wake is then armed for the next one.
    pub fn due(&mut self, now: &mut Now) -> Option<(K, u64)> {
        let rest = self.rest.iter_mut().map(|(key, row)| (&*key, row));
        self.rows
            .iter_mut()
            .chain(rest)
            .find_map(|(key, row)| Some((key.clone(), row.due(now)?)))
    }
}

impl<K: Ord + Clone> Default for Limiter<K> {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Clone, Debug)]
struct Row {
    count: u64,
    period: Ladder,
    ends: MonoTime,
    /// When it occurred last, or was spoken of.
    last: MonoTime,
}

impl Row {
    fn new(now: MonoTime) -> Self {
        let mut period = Ladder::new(PERIOD_FIRST, PERIOD_TOP);
        Self {
            count: 0,
            ends: now.after(period.climb()),
            period,
            last: now,
        }
    }

    fn admit(&mut self, now: &Now) -> bool {
        if self.is_over(now) {
            *self = Self::new(now.time());
            return true;
        }
        if self.count == 0 && is_past(self.ends, now) {
            // What comes back ever again, a little further apart than a period, is one thing.
            self.ends = now.time().after(self.period.climb());
        }
        self.count = self.count.saturating_add(1);
        self.last = now.time();
        false
    }

    /// Whether it is so long ago that the next occurrence is a first one.
    fn is_over(&self, now: &Now) -> bool {
        self.count == 0 && is_past(self.last.after(PERIOD_TOP), now)
    }

    fn due(&mut self, now: &mut Now) -> Option<u64> {
        if self.count == 0 || !now.reached(self.ends, Why::Summary) {
            return None;
        }
        self.ends = now.time().after(self.period.climb());
        self.last = now.time();
        Some(core::mem::take(&mut self.count))
    }
}

/// Asked of a present of its own: that nothing occurs is no reason to wake up.
fn is_past(at: MonoTime, now: &Now) -> bool {
    Now::new(now.time()).reached(at, Why::Summary)
}
