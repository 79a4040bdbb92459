//! Turns: from the batch that a worker is given to the one way in which it ends.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::control::Life;
use super::outcome::{Answer, Speech};
use super::queue::{Waiting, count, dispose, tell_left};
use super::scope::answer_tags;
use super::{
    Action, FailureClass, OpenCause, Scheduler, Scope, Session, StopReason, TurnEnd, Want,
    WorkerId, stale, text,
};
use crate::ids::{EventId, TurnId};
use crate::note::{Note, StaleWhat, TurnFailure, TurnOutcome};
use crate::relay::Disposal;
use crate::time::{MonoTime, Now, Why};
use crate::wire::{Event, Excerpt};

/// A turn under way.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// The id that the notes name: that of its first start, should it be started twice.
    told: TurnId,
    pub(super) scope: Scope,
    session: Session,
    /// Oldest first, never empty.
    batch: Vec<Waiting>,
    /// What its owner wants of it.
    want: Want,
    /// Whether it was cut short because the machine ends: what becomes of its events is said, though
    /// the worker is still at it.
    is_cut: bool,
    phase: Phase,
    /// When the next typing indicator is due.
    pub(super) typing_at: MonoTime,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Its session is not there yet.
    Opening { until: MonoTime },
    /// The worker has the prompt.
    Prompting { until: MonoTime, alive: MonoTime },
    /// It was asked to end. Past `until` the worker is replaced.
    Cancelling {
        until: MonoTime,
        /// Whether the session may still open: the grace runs from then.
        is_opening: bool,
        /// The limit that was passed; nothing where someone wanted the end.
        failure: Option<TurnFailure>,
    },
}

impl Turn {
    /// Whether it is worked on and may still answer.
    pub(super) const fn is_at_work(&self) -> bool {
        matches!(self.phase, Phase::Opening { .. } | Phase::Prompting { .. })
    }

    pub(super) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Merges what is wanted by strength. Gives how many events are discarded by it.
    pub(super) fn want(&mut self, want: Want) -> u32 {
        let is_news = self.want == Want::Run && want > Want::Run;
        self.want = self.want.max(want);
        if is_news { count(&self.batch) } else { 0 }
    }

    const fn worker(&self) -> WorkerId {
        self.session.reference().worker
    }

    fn events(&self) -> Vec<EventId> {
        self.batch
            .iter()
            .map(|waiting| waiting.event.id())
            .collect()
    }

    /// The limit that was passed, if any. Limits of a cancelled turn are not asked.
    fn passed(&self, idle: Duration, now: &mut Now) -> Option<TurnFailure> {
        match self.phase {
            Phase::Opening { until } => now
                .reached(until, Why::SessionOpen)
                .then(|| no_session("the session did not open in time")),
            Phase::Prompting { until, alive } => {
                let is_silent = now.reached(alive.after(idle), Why::TurnIdle);
                let is_long = now.reached(until, Why::TurnHard);
                if is_long {
                    Some(TurnFailure::TooLong)
                } else {
                    is_silent.then_some(TurnFailure::Idle)
                }
            }
            Phase::Cancelling { .. } => None,
        }
    }

    /// Says what becomes of its events when it ends without a word to anyone.
    fn say_unanswered(&self, out: &mut Vec<Action>) {
        let scope = self.scope;
        if self.want == Want::Run {
            let count = count(&self.batch);
            return out.push(Action::Note(Note::HandedBack { scope, count }));
        }
        let outcome = TurnOutcome::Discarded;
        out.push(Action::Note(Note::TurnEnded {
            turn: self.told,
            scope,
            outcome,
        }));
        dispose(self.events(), Disposal::Discarded, out);
    }

    /// Asks it to end.
    fn cancel(&mut self, failure: Option<TurnFailure>, grace: Duration, now: MonoTime) {
        let (from, is_opening) = match self.phase {
            Phase::Opening { until } => (until.max(now), failure.is_none()),
            Phase::Prompting { .. } | Phase::Cancelling { .. } => (now, false),
        };
        self.phase = Phase::Cancelling {
            until: from.after(grace),
            is_opening,
            failure,
        };
    }
}

impl Scheduler {
    /// Gives ready scopes to idle workers; whether a turn began.
    pub(super) fn pump_starts(&mut self, now: &Now, out: &mut Vec<Action>) -> bool {
        let mut moved = false;
        while matches!(self.life, Life::Working) && self.outcomes.has_room() {
            let Some(worker) = self.pool.idle_worker() else {
                break;
            };
            let Some(scope) = self.queue.next() else {
                break;
            };
            let turn = self.next_turn.take();
            let batch = self.queue.begin(scope, turn);
            tell_left(&batch, out);
            let session = match self.pool.idle_session(scope) {
                Some(session) => {
                    self.pool.resume(session, turn);
                    Session::Resume(session)
                }
                None => Session::Fresh(self.pool.open(worker, scope, turn, out)),
            };
            out.push(Action::Note(Note::TurnStarted {
                turn,
                scope,
                worker: session.reference().worker,
                events: count(&batch),
            }));
            tell_started(&batch, out);
            self.begin((turn, turn), session, (scope, batch), now.time(), out);
            moved = true;
        }
        moved
    }

    /// Starts a turn that the notes know as `told`.
    fn begin(
        &mut self,
        (turn, told): (TurnId, TurnId),
        session: Session,
        (scope, batch): (Scope, Vec<Waiting>),
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let events: Vec<Event> = batch.iter().map(|waiting| waiting.event.clone()).collect();
        out.push(Action::Start {
            turn,
            session,
            scope,
            batch: events,
        });
        let until = now.after(self.config.limits.session_open);
        let phase = Phase::Opening { until };
        let started = Turn {
            told,
            scope,
            session,
            batch,
            want: Want::Run,
            is_cut: false,
            phase,
            typing_at: now,
        };
        self.turns.insert(turn, started);
    }

    /// Enforces limits and controls; whether anything moved.
    pub(super) fn pump_turns(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let (idle, grace) = (
            self.config.limits.turn_idle,
            self.config.limits.cancel_grace,
        );
        let mut moved = false;
        for (id, turn) in &mut self.turns {
            if let Phase::Cancelling { until, .. } = turn.phase {
                moved |= now.reached(until, Why::CancelGrace)
                    && self.pool.kill(turn.worker(), now.time(), out);
                continue;
            }
            let failure = if turn.want > Want::Run {
                None
            } else {
                turn.passed(idle, now)
            };
            if failure.is_some() || turn.want > Want::Run {
                turn.cancel(failure, grace, now.time());
                out.push(Action::CancelTurn { turn: *id });
                moved = true;
            }
        }
        moved
    }

    /// Ends all turns by force. Their events have no other end than the one that is said now: workers
    /// may take longer to go than there is time.
    pub(super) fn cut_turns(&mut self, now: MonoTime, out: &mut Vec<Action>) {
        for (id, turn) in &mut self.turns {
            turn.say_unanswered(out);
            turn.is_cut = true;
            if turn.is_at_work() {
                turn.cancel(None, Duration::ZERO, now);
                out.push(Action::CancelTurn { turn: *id });
            }
            self.pool.kill(turn.worker(), now, out);
        }
    }

    pub(super) fn session_opened(&mut self, id: TurnId, now: MonoTime, out: &mut Vec<Action>) {
        let limits = &self.config.limits;
        let Some(turn) = self.turns.get_mut(&id) else {
            return stale(StaleWhat::Turn, out);
        };
        match &mut turn.phase {
            Phase::Opening { .. } => {
                let until = now.after(limits.turn_hard);
                turn.phase = Phase::Prompting { until, alive: now };
            }
            Phase::Cancelling {
                until, is_opening, ..
            } if *is_opening => {
                *until = now.after(limits.cancel_grace);
                *is_opening = false;
            }
            Phase::Prompting { .. } | Phase::Cancelling { .. } => {
                return stale(StaleWhat::Turn, out);
            }
        }
        self.pool.opened(turn.session.reference(), turn.scope, out);
    }

    pub(super) fn session_failed(
        &mut self,
        id: TurnId,
        cause: OpenCause,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let Some(turn) = self.turns.get(&id) else {
            return stale(StaleWhat::Turn, out);
        };
        let (is_opening, is_doomed) = match turn.phase {
            Phase::Opening { .. } => (true, turn.want > Want::Run),
            Phase::Prompting { .. } => (false, false),
            Phase::Cancelling { .. } => (true, true),
        };
        if !is_opening {
            return stale(StaleWhat::Turn, out);
        }
        let (session, worker) = (turn.session, turn.worker());
        let is_unknown = matches!(cause, OpenCause::Unknown);
        match (session, is_unknown) {
            (Session::Fresh(_), _) | (_, true) => self.pool.forget(session.reference()),
            // Else the scope would be given the same refusal for ever.
            (Session::Resume(session), false) => self.pool.close(session, out),
        }
        if is_unknown && matches!(session, Session::Resume(_)) && !is_doomed {
            return self.reopen(id, now, out);
        }
        self.pool.free(worker, false);
        let text = match cause {
            OpenCause::Refused { text } => text,
            OpenCause::Unknown => Excerpt::new("the worker does not know the session"),
        };
        self.end_turn(id, Err(TurnFailure::NoSession { text }), now, out);
    }

    /// Gives the batch of a turn whose session is gone to the same worker in a fresh one. That is a
    /// new turn to the worker, so that late answers to the first are stale, and the same to the notes.
    fn reopen(&mut self, id: TurnId, now: MonoTime, out: &mut Vec<Action>) {
        let Some(turn) = self.turns.remove(&id) else {
            return;
        };
        let next = self.next_turn.take();
        self.queue.rename(turn.scope, next);
        let session = self.pool.open(turn.worker(), turn.scope, next, out);
        self.begin(
            (next, turn.told),
            Session::Fresh(session),
            (turn.scope, turn.batch),
            now,
            out,
        );
    }

    pub(super) fn progressed(&mut self, id: TurnId, now: MonoTime, out: &mut Vec<Action>) {
        match self.turns.get_mut(&id).map(|turn| &mut turn.phase) {
            Some(Phase::Prompting { alive, .. }) => *alive = now,
            Some(Phase::Opening { .. } | Phase::Cancelling { .. }) => {}
            None => stale(StaleWhat::Turn, out),
        }
    }

    pub(super) fn finished(
        &mut self,
        id: TurnId,
        end: TurnEnd,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let Some(turn) = self.turns.get(&id) else {
            return stale(StaleWhat::Turn, out);
        };
        let (worker, session) = (turn.worker(), turn.session.reference());
        let (is_sound, is_spent) = match &end {
            // A session that has run out would run out again at once.
            TurnEnd::Answered {
                stop: StopReason::MaxTokens | StopReason::MaxTurnRequests,
                ..
            } => (true, true),
            TurnEnd::Answered {
                stop: StopReason::EndTurn | StopReason::Refusal,
                ..
            }
            | TurnEnd::Cancelled => (true, false),
            TurnEnd::Failed { class, .. } => match class {
                FailureClass::Protocol => (false, true),
                FailureClass::Transient
                | FailureClass::UsageLimit { .. }
                | FailureClass::NeedsHuman => (false, false),
            },
        };
        if is_spent {
            self.pool.close(session, out);
        }
        self.pool.free(worker, is_sound);
        let result = match end {
            TurnEnd::Answered { reply, stop } => text::answer(&reply, stop, &self.config.limits),
            TurnEnd::Cancelled => Err(TurnFailure::Worker {
                text: Excerpt::new("the worker cancelled the turn by itself"),
            }),
            TurnEnd::Failed { text, .. } => Err(TurnFailure::Worker { text }),
        };
        self.end_turn(id, result, now, out);
    }

    /// Ends a turn: its scope is free for the next, its events are on the way to their outcome.
    pub(super) fn end_turn(
        &mut self,
        id: TurnId,
        result: Result<Vec<String>, TurnFailure>,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let Some(turn) = self.turns.remove(&id) else {
            return;
        };
        let scope = turn.scope;
        self.queue.end(scope, now);
        self.cosmetics.end_typing(scope, out);
        self.leave_session(&turn, now, out);
        if turn.is_cut {
            return;
        }
        if turn.want > Want::Run {
            return turn.say_unanswered(out);
        }
        let events = turn.events();
        let Some(newest) = turn.batch.last() else {
            return;
        };
        let tags = answer_tags(scope.channel(), &newest.event);
        let speech = match (result, turn.phase) {
            (Ok(parts), _) => Speech::Reply {
                parts: parts.into(),
            },
            // The limit was the cause; what the worker says of it is the effect.
            (
                Err(_),
                Phase::Cancelling {
                    failure: Some(why), ..
                },
            )
            | (Err(why), _) => Speech::Notice { why },
        };
        self.outcomes.push(
            scope,
            Answer {
                turn: turn.told,
                events,
                tags,
                speech,
            },
            out,
        );
    }

    /// Keeps the session for the scope's next turn, unless it is not wanted or never opened.
    fn leave_session(&mut self, turn: &Turn, now: MonoTime, out: &mut Vec<Action>) {
        let session = turn.session.reference();
        let is_open = match turn.phase {
            Phase::Prompting { .. } => true,
            Phase::Opening { .. } | Phase::Cancelling { .. } => {
                self.pool.current(turn.scope) == Some(session)
            }
        };
        if turn.want == Want::StopAndRotate
            && let Some(current) = self.pool.current(turn.scope)
        {
            self.pool.close(current, out);
        }
        if is_open && turn.want != Want::StopAndRotate {
            self.pool.release(session, now);
        } else {
            self.pool.close(session, out);
        }
    }
}

/// Tells the relay part what is worked on, and which event the answer will name.
fn tell_started(batch: &[Waiting], out: &mut Vec<Action>) {
    let events: Vec<EventId> = batch.iter().map(|waiting| waiting.event.id()).collect();
    let target = events.last().copied();
    out.extend(target.map(|target| Action::Started { events, target }));
}

fn no_session(text: &str) -> TurnFailure {
    TurnFailure::NoSession {
        text: Excerpt::new(text),
    }
}
