//! The hold: a thread whose session lives on a worker that is busy with another scope waits for
//! that worker, for a while, because elsewhere nobody knows what was said. A conversation never
//! waits so: what is said in a whole channel or direct message is wanted soon.
//!
//! What is held is decided anew in every round from what is true then, so that nothing that could
//! end a hold has to remember to.

use alloc::vec::Vec;
use core::time::Duration;

use super::part::Part;
use super::{Action, Scope, SessionRef, WorkerId};
use crate::note::{HoldEnd, Note};
use crate::time::MonoTime;

/// The wait of a row for the worker of its session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) worker: WorkerId,
    pub(super) since: MonoTime,
    /// Whether it was long enough. It stays so until the row starts.
    pub(super) is_expired: bool,
}

/// Where a row that may start goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// To the worker of its session.
    Home(SessionRef),
    /// To any worker that is idle, in a fresh session.
    Anywhere,
    /// Nowhere for now: it waits for this worker.
    Hold(WorkerId),
}

/// What is known of the session that a scope goes on in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// There is none.
    None,
    /// Its worker could take a turn.
    Idle(SessionRef),
    /// Its worker is at work for another scope.
    Busy(WorkerId),
}

/// The whole decision. `limit` is how long a thread is held at most, zero for not at all.
pub(super) const fn placement(
    scope: Scope,
    home: Home,
    is_expired: bool,
    limit: Duration,
) -> Placement {
    match (home, scope) {
        (Home::Idle(session), _) => Placement::Home(session),
        (Home::Busy(worker), Scope::Thread(..)) if !is_expired && !limit.is_zero() => {
            Placement::Hold(worker)
        }
        (Home::None | Home::Busy(_), Scope::Thread(..) | Scope::Conversation(_)) => {
            Placement::Anywhere
        }
    }
}

impl Part {
    /// Where a row goes that may start now.
    pub(super) fn placement(&self, scope: Scope) -> Placement {
        let is_expired = self
            .queue
            .hold_of(scope)
            .is_some_and(|hold| hold.is_expired);
        placement(scope, self.home(scope), is_expired, self.config.limits.hold)
    }

    fn home(&self, scope: Scope) -> Home {
        let Some(session) = self.sessions.current(scope) else {
            return Home::None;
        };
        let worker = session.worker;
        if self.slots.is_idle(worker) {
            Home::Idle(session)
        } else if self.slots.is_busy(worker) {
            Home::Busy(worker)
        } else {
            Home::None
        }
    }

    /// Holds what has to wait, whether or not a worker is idle, and releases what need not;
    /// whether anything moved.
    pub(super) fn judge_holds(&mut self, now: MonoTime, out: &mut Vec<Action>) -> bool {
        let mut moved = false;
        let held: Vec<Scope> = self.queue.held_scopes().collect();
        for scope in held {
            match self.placement(scope) {
                Placement::Hold(_) => continue,
                Placement::Home(_) => self.queue.release(scope),
                Placement::Anywhere => {
                    let hold = self.queue.end_hold(scope);
                    tell_end(scope, hold, HoldEnd::Released, now, out);
                }
            }
            moved = true;
        }
        let ready: Vec<Scope> = self
            .sessions
            .current_scopes()
            .filter(|scope| self.queue.is_ready(*scope))
            .collect();
        for scope in ready {
            if let Placement::Hold(worker) = self.placement(scope) {
                self.hold(scope, worker, now, out);
                moved = true;
            }
        }
        moved
    }

    pub(super) fn hold(
        &mut self,
        scope: Scope,
        worker: WorkerId,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let hold = Hold {
            worker,
            since: now,
            is_expired: false,
        };
        if self.queue.hold(scope, hold, self.config.limits.hold) {
            out.push(Action::Note(Note::Held { scope, worker }));
        }
    }
}

/// Tells the end of a hold, if there was one.
pub(super) fn tell_end(
    scope: Scope,
    hold: Option<Hold>,
    how: HoldEnd,
    now: MonoTime,
    out: &mut Vec<Action>,
) {
    out.extend(hold.map(|hold| {
        Action::Note(Note::HoldEnded {
            scope,
            worker: hold.worker,
            wait: now.saturating_since(hold.since),
            how,
        })
    }));
}
