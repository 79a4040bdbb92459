//! The sessions that live in workers, and the directory of those that are current: only what the
//! directory names is ever resumed.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Action, Limits, Scope, SessionRef, WorkerId};
use crate::time::{MonoTime, Now, Why};

#[derive(Clone, Debug)]
pub(super) struct Sessions {
    rows: BTreeMap<SessionRef, Row>,
    /// The session that each scope goes on in.
    directory: BTreeMap<Scope, SessionRef>,
    epoch: u64,
    of_worker_max: usize,
    idle_max: Duration,
}

/// A session as the machine knows it.
#[derive(Clone, Copy, Debug)]
struct Row {
    scope: Scope,
    phase: Phase,
    /// Turns in a row that failed in it.
    failures: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It was asked for; the scope's earlier session is still the current one.
    Opening,
    /// A turn runs in it.
    Busy,
    /// No turn runs in it.
    Idle { since: MonoTime },
}

impl Sessions {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            rows: BTreeMap::new(),
            directory: BTreeMap::new(),
            epoch: 0,
            of_worker_max: usize::from(limits.sessions_max),
            idle_max: limits.session_idle,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The session that a scope goes on in.
    pub(super) fn current(&self, scope: Scope) -> Option<SessionRef> {
        self.directory.get(&scope).copied()
    }

    /// The scopes that have a current session.
    pub(super) fn current_scopes(&self) -> impl Iterator<Item = Scope> {
        self.directory.keys().copied()
    }

    /// The scopes whose sessions live in a worker, those that open included.
    pub(super) fn scopes_of(&self, worker: WorkerId) -> impl Iterator<Item = Scope> {
        self.of(worker).map(|(_, row)| row.scope)
    }

    /// Begins a session in a worker. One without work makes room for it: `has_work` says of which
    /// scopes events wait.
    pub(super) fn open(
        &mut self,
        worker: WorkerId,
        scope: Scope,
        has_work: impl Fn(Scope) -> bool,
        out: &mut Vec<Action>,
    ) -> SessionRef {
        while self.of(worker).count() >= self.of_worker_max {
            let idle = self
                .of(worker)
                .filter_map(|(session, row)| match row.phase {
                    Phase::Idle { since } => Some((has_work(row.scope), since, session)),
                    Phase::Opening | Phase::Busy => None,
                });
            let Some((_, _, session)) = idle.min() else {
                break;
            };
            self.close(session, out);
        }
        self.epoch = self.epoch.wrapping_add(1);
        let session = SessionRef {
            worker,
            epoch: self.epoch,
        };
        let row = Row {
            scope,
            phase: Phase::Opening,
            failures: 0,
        };
        self.rows.insert(session, row);
        session
    }

    /// The session exists: it is the scope's current one now, and the earlier one is let go.
    pub(super) fn opened(&mut self, session: SessionRef, scope: Scope, out: &mut Vec<Action>) {
        if let Some(earlier) = self.current(scope).filter(|earlier| *earlier != session) {
            self.close(earlier, out);
        }
        self.directory.insert(scope, session);
        self.occupy(session);
    }

    /// A turn runs in the session.
    pub(super) fn occupy(&mut self, session: SessionRef) {
        self.set(session, Phase::Busy);
    }

    /// The session is free for the next turn of its scope.
    pub(super) fn release(&mut self, session: SessionRef, now: MonoTime) {
        self.set(session, Phase::Idle { since: now });
    }

    /// A turn in the session went well, or failed; gives how many failed in a row.
    pub(super) fn judge(&mut self, session: SessionRef, is_well: bool) -> u16 {
        let Some(row) = self.rows.get_mut(&session) else {
            return 0;
        };
        row.failures = if is_well {
            0
        } else {
            row.failures.saturating_add(1)
        };
        row.failures
    }

    /// The worker does not have it. Whether it was known.
    pub(super) fn forget(&mut self, session: SessionRef) -> bool {
        let Some(row) = self.rows.remove(&session) else {
            return false;
        };
        if self.current(row.scope) == Some(session) {
            self.directory.remove(&row.scope);
        }
        true
    }

    /// Lets a session go, if it is there.
    pub(super) fn close(&mut self, session: SessionRef, out: &mut Vec<Action>) {
        if self.forget(session) {
            out.push(Action::CloseSession { session });
        }
    }

    /// The worker is gone, and its sessions with it.
    pub(super) fn lose(&mut self, worker: WorkerId) {
        let lost: Vec<SessionRef> = self.of(worker).map(|(session, _)| session).collect();
        for session in lost {
            self.forget(session);
        }
    }

    /// Lets the sessions go that had no turn for too long.
    pub(super) fn close_unused(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let limit = self.idle_max;
        let mut is_unused = |row: &Row| match row.phase {
            Phase::Idle { since } => now.reached(since.after(limit), Why::SessionIdle),
            Phase::Opening | Phase::Busy => false,
        };
        let unused: Vec<SessionRef> = self
            .rows
            .iter()
            .filter(|(_, row)| is_unused(row))
            .map(|(session, _)| *session)
            .collect();
        for session in &unused {
            self.close(*session, out);
        }
        !unused.is_empty()
    }

    fn set(&mut self, session: SessionRef, phase: Phase) {
        if let Some(row) = self.rows.get_mut(&session) {
            row.phase = phase;
        }
    }

    fn of(&self, worker: WorkerId) -> impl Iterator<Item = (SessionRef, Row)> {
        let first = SessionRef { worker, epoch: 0 };
        let last = SessionRef {
            worker,
            epoch: u64::MAX,
        };
        self.rows
            .range(first..=last)
            .map(|(session, row)| (*session, *row))
    }
}
