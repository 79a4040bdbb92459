//! How turns begin: which scope, on which worker, in which session.

use alloc::vec::Vec;

use super::control::Life;
use super::hold::{Placement, tell_end};
use super::part::Part;
use super::queue::{Waiting, count, tell_left};
use super::turn::{Phase, Turn, ids};
use super::{Action, Context, Scope, Session, SessionRef, Want, WorkerId};
use crate::ids::TurnId;
use crate::note::{HoldEnd, Note};
use crate::time::{MonoTime, Now};
use crate::wire::Event;

impl Part {
    /// Gives ready scopes to idle workers; whether anything moved.
    pub(super) fn pump_starts(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        if !matches!(self.life, Life::Working) {
            return false;
        }
        let mut moved = self.queue.wake(now);
        moved |= self.judge_holds(now.time(), out);
        while self.may_start(now) {
            moved |= self.queue.expire(now);
            let Some(scope) = self.queue.first_ready() else {
                break;
            };
            moved = true;
            match self.placement(scope) {
                Placement::Home(session) => self.resume(scope, session, now.time(), out),
                Placement::Hold(worker) => self.hold(scope, worker, now.time(), out),
                Placement::Anywhere => match self.worker_for(scope) {
                    Some(worker) => self.open(scope, worker, now.time(), out),
                    None => break,
                },
            }
        }
        moved
    }

    /// Whether there is a worker for a turn, and room for what it would say.
    fn may_start(&mut self, now: &mut Now) -> bool {
        self.slots.has_idle()
            && self.outcomes.has_room()
            && !self.is_outbox_half_full
            && self.usage.may_start(now)
    }

    /// The worker for a fresh session: rather one that no other ready scope would go to, then the
    /// one with the fewest sessions.
    fn worker_for(&self, scope: Scope) -> Option<WorkerId> {
        self.slots.idle_worker(|worker| {
            let mut sessions = 0_usize;
            let mut is_wanted = false;
            for other in self.sessions.scopes_of(worker) {
                sessions = sessions.saturating_add(1);
                is_wanted |= other != scope && self.queue.is_ready(other);
            }
            (is_wanted, sessions)
        })
    }

    fn resume(&mut self, scope: Scope, session: SessionRef, now: MonoTime, out: &mut Vec<Action>) {
        let turn = self.next_turn.take();
        self.slots.occupy(session.worker, turn);
        self.sessions.occupy(session);
        let session = Session::Resume(session);
        self.claim((turn, scope), session, HoldEnd::Home, now, out);
    }

    fn open(&mut self, scope: Scope, worker: WorkerId, now: MonoTime, out: &mut Vec<Action>) {
        let turn = self.next_turn.take();
        let how = match self.sessions.current(scope) {
            Some(_) => HoldEnd::Forked,
            None => HoldEnd::Released,
        };
        self.slots.occupy(worker, turn);
        let session = self.fresh_session(scope, worker, out);
        self.claim((turn, scope), session, how, now, out);
    }

    fn fresh_session(&mut self, scope: Scope, worker: WorkerId, out: &mut Vec<Action>) -> Session {
        let queue = &self.queue;
        let has_work = |scope| queue.has_work(scope);
        Session::Fresh(self.sessions.open(worker, scope, has_work, out))
    }

    /// The scope has a worker and a session from now on.
    fn claim(
        &mut self,
        (turn, scope): (TurnId, Scope),
        session: Session,
        how: HoldEnd,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        tell_end(scope, self.queue.hold_of(scope), how, now, out);
        let batch = self.queue.begin(scope, turn);
        self.usage.started(turn);
        tell_left(&batch, out);
        out.push(Action::Note(Note::TurnStarted {
            turn,
            scope,
            worker: session.reference().worker,
            events: count(&batch),
        }));
        tell_started(&batch, out);
        self.begin((turn, turn), session, (scope, batch), now, out);
    }

    /// Gives the batch of a turn whose session is gone to the same worker in a fresh one. That is a
    /// new turn to the worker, so that late answers to the first are stale, and the same to the notes.
    pub(super) fn reopen(&mut self, id: TurnId, now: MonoTime, out: &mut Vec<Action>) {
        let Some(turn) = self.turns.remove(&id) else {
            return;
        };
        let next = self.next_turn.take();
        self.queue.rename(turn.scope, next);
        self.usage.renamed(id, next);
        self.slots.occupy(turn.worker(), next);
        let session = self.fresh_session(turn.scope, turn.worker(), out);
        self.begin(
            (next, turn.told),
            session,
            (turn.scope, turn.batch),
            now,
            out,
        );
    }

    /// Begins a turn that the notes know as `told`.
    fn begin(
        &mut self,
        (turn, told): (TurnId, TurnId),
        session: Session,
        (scope, batch): (Scope, Vec<Waiting>),
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let needs_context =
            matches!(session, Session::Fresh(_)) && self.wants_context(turn, scope, &batch, now);
        let started = Turn {
            told,
            scope,
            session,
            batch,
            want: Want::Run,
            is_cut: false,
            is_outdated: false,
            has_sign: false,
            phase: Phase::Gathering,
            typing_at: now,
        };
        self.turns.insert(turn, started);
        if !needs_context {
            self.order_start(turn, Context::Known, now, out);
        }
    }

    /// The worker gets a turn that was only reserved so far.
    pub(super) fn order_start(
        &mut self,
        id: TurnId,
        context: Context,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let Some(turn) = self.turns.get_mut(&id) else {
            return;
        };
        turn.phase = Phase::Opening {
            until: now.after(self.config.limits.session_open),
        };
        let events = turn.batch.iter().map(|waiting| waiting.event.clone());
        let batch: Vec<Event> = events.collect();
        out.push(Action::Start {
            turn: id,
            session: turn.session,
            scope: turn.scope,
            batch,
            context,
        });
    }
}

/// Tells the relay part what is worked on, and which event the answer will name.
fn tell_started(batch: &[Waiting], out: &mut Vec<Action>) {
    let events = ids(batch);
    let target = events.last().copied();
    out.extend(target.map(|target| Action::Started { events, target }));
}
