//! What is known of one scope from outside: what waits, which turn runs, which session is the
//! newest, and how long it has been kept waiting.

use std::time::Duration;

use buzz_proto::ids::{EventId, TurnId};
use buzz_proto::schedule::{Scope, SessionRef, WorkerId};
use buzz_proto::time::{MonoTime, UnixTime};

#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    waiting: Vec<Waiting>,
    pub(super) turn: Option<Running>,
    /// No turn begins before then.
    pub(super) retry_at: MonoTime,
    /// The session that was opened last, while it lives.
    pub(super) session: Option<SessionRef>,
    /// How long it was ready with a worker free, and not held.
    open: Duration,
    /// Since when it is held, for the first time since its last turn.
    pub(super) held_since: Option<MonoTime>,
    /// How long a worker was free since then.
    held: Option<Duration>,
    /// When its last hold began.
    pub(super) hold_began: MonoTime,
    /// What the notes say.
    pub(super) is_told_held: bool,
    /// Turns whose end its owner wanted.
    pub(super) condemned: Vec<TurnId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) dated: UnixTime,
    pub(super) sequence: u64,
    pub(super) id: EventId,
    /// Attempts in vain, and those at which a worker ended.
    pub(super) attempts: u16,
    pub(super) crashes: u16,
    /// Whether a turn with it has begun.
    pub(super) is_begun: bool,
}

/// A turn from its claim to its end.
#[derive(Clone, Debug)]
pub(super) struct Running {
    /// The id that the notes name.
    pub(super) told: TurnId,
    pub(super) claimed: MonoTime,
    pub(super) worker: WorkerId,
    pub(super) batch: Vec<Waiting>,
    /// What the worker was given, if anything.
    pub(super) given: Option<Given>,
    /// Whether it leaves a session behind that lives elsewhere.
    pub(super) leaves: Option<Leaves>,
    /// Whether its worker was gone before it was given anything.
    pub(super) is_stranded: bool,
    /// Whether a worker ended at it by itself.
    pub(super) is_crashed: bool,
    /// Whether it was asked to end.
    pub(super) is_cancelled: bool,
    /// Since when its worker is reserved and was told nothing.
    pub(super) reserved: Option<MonoTime>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) turn: TurnId,
    /// The session to be opened.
    pub(super) fresh: Option<SessionRef>,
    pub(super) is_over: bool,
    /// Its session was gone: it is to be given once more.
    pub(super) is_reopened: bool,
}

/// The state of the newest session's worker when a turn is claimed elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    Busy,
    Free,
}

/// How long a scope was kept waiting before a claim.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waited {
    pub(super) open: Duration,
    pub(super) held: Duration,
}

impl Room {
    pub(super) fn arrive(&mut self, waiting: Waiting) {
        self.waiting.push(waiting);
        self.waiting.sort_by_key(|it| (it.dated, it.sequence));
    }

    /// Whether something waits and nothing runs.
    pub(super) fn is_pending(&self) -> bool {
        self.turn.is_none() && !self.waiting.is_empty()
    }

    /// The oldest of what waits.
    pub(super) fn oldest(&self, count: usize) -> Vec<Waiting> {
        self.waiting.iter().take(count).copied().collect()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = EventId> {
        self.waiting.iter().map(|it| it.id)
    }

    /// These do not wait any more. Gives those that did. What was never tried has no reason to rest.
    pub(super) fn remove(&mut self, ids: &[EventId]) -> Vec<EventId> {
        let found: Vec<_> = self.ids().filter(|id| ids.contains(id)).collect();
        self.waiting.retain(|it| !ids.contains(&it.id));
        if !found.is_empty() && !self.waiting.iter().any(|it| it.is_begun) {
            self.retry_at = MonoTime::ZERO;
        }
        found
    }

    pub(super) fn clear(&mut self) -> Vec<EventId> {
        let all = self.ids().collect();
        self.waiting.clear();
        all
    }

    /// Time from `from` to `until` has passed with a worker free.
    pub(super) fn pass(&mut self, from: MonoTime, until: MonoTime, window: Duration) {
        let from = from.max(self.retry_at);
        let span = until.saturating_since(from);
        if let Some(held) = &mut self.held {
            *held = held.saturating_add(span);
        }
        // A hold that has run out keeps nobody waiting.
        let open = self.held_since.map_or(span, |since| {
            until.saturating_since(from.max(since.after(window)))
        });
        self.open = self.open.saturating_add(open);
    }

    /// What waits and was part of a turn does not wait any more.
    pub(super) fn clear_begun(&mut self) -> Vec<EventId> {
        let begun = self.waiting.iter().filter(|it| it.is_begun);
        let ids: Vec<_> = begun.map(|it| it.id).collect();
        self.remove(&ids)
    }

    /// It waits for its own worker from now on, or does already. Whether that is news.
    pub(super) fn hold(&mut self, now: MonoTime) -> bool {
        let is_news = self.held_since.is_none();
        if is_news {
            self.held_since = Some(now);
            self.hold_began = now;
        }
        self.held.get_or_insert_default();
        is_news
    }

    /// There is nothing to wait for.
    pub(super) const fn release(&mut self) {
        self.held_since = None;
    }

    /// The wait is over, one way or the other.
    pub(super) fn end_wait(&mut self) -> Waited {
        self.held_since = None;
        Waited {
            open: std::mem::take(&mut self.open),
            held: self.held.take().unwrap_or_default(),
        }
    }
}

impl Running {
    pub(super) const fn is_over(&self) -> bool {
        self.is_stranded || matches!(self.given, Some(Given { is_over: true, .. }))
    }

    pub(super) fn ids(&self) -> Vec<EventId> {
        self.batch.iter().map(|it| it.id).collect()
    }
}

pub(super) const fn is_thread(scope: Scope) -> bool {
    matches!(scope, Scope::Thread(..))
}
