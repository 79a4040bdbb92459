//! How turns end: with an answer, or with a failure and what follows from it.

use alloc::string::String;
use alloc::vec::Vec;

use super::outcome::{Answer, Speech};
use super::part::Part;
use super::turn::{Cause, Phase, Turn, ids, no_session};
use super::{
    Action, DownCause, FailureClass, OpenCause, Session, StopReason, TurnEnd, Want, stale, text,
};
use crate::ids::TurnId;
use crate::note::{StaleWhat, TurnFailure};
use crate::time::{MonoTime, UnixTime};
use crate::wire::{Excerpt, answer_tags};

/// A turn without an answer.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) why: TurnFailure,
    pub(super) then: Then,
}

/// What follows from a failure for the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It may pass: after a rest they are tried again, so often.
    Retry,
    /// A worker ended: as `Retry`, one event at a time.
    RetryAlone,
    /// They are tried again when there is an allowance.
    AwaitUsage { until: Option<UnixTime> },
    /// They are tried again at once: it was no fault of theirs, nor of anyone.
    Again,
    /// They are reported.
    GiveUp,
}

impl Failure {
    const fn new(why: TurnFailure, then: Then) -> Self {
        Self { why, then }
    }

    /// The worker ended while it had a turn.
    const fn gone(turn: &Turn, cause: &DownCause) -> Self {
        // A session to resume is known to be there only by what it says to the prompt.
        let is_resumed = matches!(turn.session, Session::Resume(_));
        let has_prompt = match turn.phase {
            // It had not heard of the turn.
            Phase::Gathering => return Self::new(TurnFailure::WorkerGone, Then::Again),
            Phase::Opening { .. } => is_resumed,
            Phase::Prompting { .. } => true,
            Phase::Cancelling { is_opening, .. } => is_resumed || !is_opening,
        };
        let then = match cause {
            DownCause::Exited { .. } | DownCause::Protocol { .. } if has_prompt => Then::RetryAlone,
            // One that was ended as ordered, or before it had the event, did not end at it.
            DownCause::Exited { .. }
            | DownCause::Protocol { .. }
            | DownCause::Killed
            | DownCause::CannotStart { .. }
            | DownCause::NoHandshake { .. } => Then::Retry,
        };
        Self::new(TurnFailure::WorkerGone, then)
    }

    /// The reason why a turn was asked to end counts more than what came of it.
    fn because_of(cause: Cause, other: Self) -> Self {
        match cause {
            Cause::Wanted => other,
            Cause::Renewal => Self::new(TurnFailure::Renewed, Then::Again),
            Cause::Limit(TurnFailure::TooLong) => Self::new(TurnFailure::TooLong, Then::GiveUp),
            Cause::Limit(why) => Self::new(why, Then::Retry),
        }
    }
}

impl Part {
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
        let is_doomed = match turn.phase {
            Phase::Opening { .. } => turn.want > Want::Run || turn.is_outdated,
            Phase::Cancelling { .. } => true,
            Phase::Gathering | Phase::Prompting { .. } => return stale(StaleWhat::Turn, out),
        };
        let (session, worker) = (turn.session, turn.worker());
        let is_unknown = matches!(cause, OpenCause::Unknown);
        match (session, is_unknown) {
            (Session::Fresh(session), _) | (Session::Resume(session), true) => {
                self.sessions.forget(session);
            }
            // Else the scope would be given the same refusal for ever.
            (Session::Resume(session), false) => self.sessions.close(session, out),
        }
        if is_unknown && matches!(session, Session::Resume(_)) && !is_doomed {
            return self.reopen(id, now, out);
        }
        let why = match cause {
            OpenCause::Refused { text } => TurnFailure::NoSession { text },
            OpenCause::Unknown => no_session("the worker does not know the session"),
        };
        self.slots.free(worker, false, now);
        if self.slots.judge_opening(worker, false) {
            self.slots.kill(worker, now, out);
        }
        self.end_turn(id, Err(Failure::new(why, Then::Retry)), now, out);
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
        if turn.phase == Phase::Gathering {
            return stale(StaleWhat::Turn, out);
        }
        let worker = turn.worker();
        self.judge_session(turn.session, turn.has_sign, &end, out);
        let is_finished = !matches!(end, TurnEnd::Failed { .. });
        self.slots.free(worker, is_finished, now);
        let result = match end {
            TurnEnd::Answered { reply, stop } => text::answer(&reply, stop, &self.config.limits)
                .map_err(|why| Failure::new(why, Then::GiveUp)),
            TurnEnd::Cancelled => {
                let text = Excerpt::new("the worker cancelled the turn by itself");
                Err(Failure::new(TurnFailure::Worker { text }, Then::GiveUp))
            }
            TurnEnd::Failed { class, text } => Err(failure(class, text)),
        };
        self.end_turn(id, result, now, out);
    }

    /// Keeps a session for the next turn of its scope, or gives it up.
    fn judge_session(
        &mut self,
        session: Session,
        has_sign: bool,
        end: &TurnEnd,
        out: &mut Vec<Action>,
    ) {
        let session = session.reference();
        match end {
            TurnEnd::Answered { stop, .. } => {
                self.sessions.judge(session, true);
                // A session that has run out would run out again at once.
                if matches!(stop, StopReason::MaxTokens | StopReason::MaxTurnRequests) {
                    self.sessions.close(session, out);
                }
            }
            TurnEnd::Cancelled => {}
            TurnEnd::Failed { class, .. } => match class {
                FailureClass::Protocol => self.sessions.close(session, out),
                FailureClass::SessionGone => {
                    self.sessions.forget(session);
                }
                FailureClass::Transient => {
                    // What failed may be the session, though nobody says so.
                    if self.sessions.judge(session, false) > 1 || !has_sign {
                        self.sessions.close(session, out);
                    }
                }
                FailureClass::UsageLimit { .. } | FailureClass::NeedsHuman => {}
            },
        }
    }

    /// Ends a turn with its worker.
    pub(super) fn end_with_worker(
        &mut self,
        id: TurnId,
        cause: &DownCause,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        if let Some(turn) = self.turns.get(&id) {
            let failure = Failure::gone(turn, cause);
            self.end_turn(id, Err(failure), now, out);
        }
    }

    /// Ends a turn that its worker was told nothing of.
    pub(super) fn end_unstarted(&mut self, id: TurnId, now: MonoTime, out: &mut Vec<Action>) {
        let Some(turn) = self.turns.get(&id) else {
            return;
        };
        let (worker, session) = (turn.worker(), turn.session.reference());
        self.sessions.forget(session);
        self.slots.free(worker, false, now);
        let failure = Failure::new(TurnFailure::Renewed, Then::Again);
        self.end_turn(id, Err(failure), now, out);
    }

    /// Ends a turn: its scope is free for the next, its events are on the way to their outcome, or
    /// wait for another attempt.
    pub(super) fn end_turn(
        &mut self,
        id: TurnId,
        result: Result<Vec<String>, Failure>,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let Some(turn) = self.turns.remove(&id) else {
            return;
        };
        let scope = turn.scope;
        self.cosmetics.end_typing(scope, out);
        self.leave_session(&turn, now, out);
        self.usage.ended(id, result.is_ok(), out);
        if turn.is_cut || turn.want > Want::Run {
            self.queue.end(scope, now);
            if !turn.is_cut {
                turn.say_unanswered(out);
            }
            // What its account has used up, others have not either.
            if let Err(Failure { then, .. }) = result
                && let Then::AwaitUsage { until } = then
                && !turn.is_outdated
            {
                self.shut_usage(until, now, out);
            }
            return;
        }
        match result {
            Ok(parts) => {
                self.queue.end(scope, now);
                let speech = Speech::Reply {
                    parts: parts.into(),
                };
                self.say(&turn, speech, out);
            }
            Err(failure) => {
                let failure = match &turn.phase {
                    Phase::Cancelling { cause, .. } => Failure::because_of(cause.clone(), failure),
                    Phase::Gathering | Phase::Opening { .. } | Phase::Prompting { .. } => failure,
                };
                self.fail(turn, failure, now, out);
            }
        }
    }

    /// Says something about all events of a turn.
    pub(super) fn say(&mut self, turn: &Turn, speech: Speech, out: &mut Vec<Action>) {
        let Some(newest) = turn.batch.last() else {
            return;
        };
        let answer = Answer {
            turn: turn.told,
            events: ids(&turn.batch),
            tags: answer_tags(Some(turn.scope.channel()), &newest.event),
            speech,
        };
        self.outcomes.push(turn.scope, answer, out);
    }

    /// Keeps the session for the scope's next turn, unless it is not wanted or never opened.
    fn leave_session(&mut self, turn: &Turn, now: MonoTime, out: &mut Vec<Action>) {
        let session = turn.session.reference();
        let is_open = match turn.phase {
            Phase::Prompting { .. } => true,
            Phase::Gathering | Phase::Opening { .. } | Phase::Cancelling { .. } => {
                self.sessions.current(turn.scope) == Some(session)
            }
        };
        if turn.want == Want::StopAndRotate
            && let Some(current) = self.sessions.current(turn.scope)
        {
            self.sessions.close(current, out);
        }
        if is_open && turn.want != Want::StopAndRotate {
            self.sessions.release(session, now);
        } else {
            self.sessions.close(session, out);
        }
    }
}

fn failure(class: FailureClass, text: Excerpt) -> Failure {
    match class {
        FailureClass::Transient | FailureClass::Protocol | FailureClass::SessionGone => {
            Failure::new(TurnFailure::Worker { text }, Then::Retry)
        }
        FailureClass::UsageLimit { until } => {
            Failure::new(TurnFailure::UsageLimit, Then::AwaitUsage { until })
        }
        FailureClass::NeedsHuman => Failure::new(TurnFailure::NeedsHuman { text }, Then::GiveUp),
    }
}
