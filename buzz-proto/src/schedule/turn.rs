//! Turns under way: what each is for, how far it is, and which limits it keeps.

use alloc::vec::Vec;
use core::time::Duration;

use super::part::Part;
use super::queue::{Waiting, count, dispose};
use super::{Action, Scope, Session, Want, WorkerId, stale};
use crate::ids::{EventId, TurnId};
use crate::note::{Note, StaleWhat, TurnFailure, TurnOutcome};
use crate::relay::Disposal;
use crate::time::{MonoTime, Now, Why};
use crate::wire::Excerpt;

/// A turn under way.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// The id that the notes name: that of its first start, should it be started twice.
    pub(super) told: TurnId,
    pub(super) scope: Scope,
    pub(super) session: Session,
    /// Oldest first, never empty.
    pub(super) batch: Vec<Waiting>,
    /// What its owner wants of it.
    pub(super) want: Want,
    /// Whether it was cut short because the machine ends: what becomes of its events is said, though
    /// the worker is still at it.
    pub(super) is_cut: bool,
    /// Whether its worker is to be replaced.
    pub(super) is_outdated: bool,
    /// Whether the worker gave a sign of life since it has the prompt.
    pub(super) has_sign: bool,
    pub(super) phase: Phase,
    /// When the next typing indicator is due.
    pub(super) typing_at: MonoTime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// What was said before is read; the worker is reserved and was told nothing.
    Gathering,
    /// Its session is not there yet.
    Opening { until: MonoTime },
    /// The worker has the prompt.
    Prompting { until: MonoTime, alive: MonoTime },
    /// It was asked to end. Past `until` the worker is replaced.
    Cancelling {
        until: MonoTime,
        /// Whether the session may still open: the grace runs from then.
        is_opening: bool,
        cause: Cause,
    },
}

/// Why a turn was asked to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Someone wants it, or the machine ends.
    Wanted,
    /// It passed a limit.
    Limit(TurnFailure),
    /// Its worker is to be replaced.
    Renewal,
}

impl Turn {
    /// Whether it is worked on and may still answer.
    pub(super) const fn is_at_work(&self) -> bool {
        matches!(
            self.phase,
            Phase::Gathering | Phase::Opening { .. } | Phase::Prompting { .. }
        )
    }

    /// Merges what is wanted by strength. Gives how many events are discarded by it.
    pub(super) fn want(&mut self, want: Want) -> u32 {
        let is_news = self.want == Want::Run && want > Want::Run;
        self.want = self.want.max(want);
        if is_news { count(&self.batch) } else { 0 }
    }

    pub(super) const fn worker(&self) -> WorkerId {
        self.session.reference().worker
    }

    /// Says what becomes of its events when it ends without a word to anyone.
    pub(super) fn say_unanswered(&self, out: &mut Vec<Action>) {
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
        dispose(ids(&self.batch), Disposal::Discarded, out);
    }

    /// Why it has to end, if it has to. Limits of a turn that ends are not asked.
    fn has_to_end(&self, idle: Duration, now: &mut Now) -> Option<Cause> {
        if self.want > Want::Run {
            return Some(Cause::Wanted);
        }
        if self.is_outdated {
            return Some(Cause::Renewal);
        }
        match self.phase {
            Phase::Gathering | Phase::Cancelling { .. } => None,
            Phase::Opening { until } => now
                .reached(until, Why::SessionOpen)
                .then(|| Cause::Limit(no_session("the session did not open in time"))),
            Phase::Prompting { until, alive } => {
                let is_silent = now.reached(alive.after(idle), Why::TurnIdle);
                let is_long = now.reached(until, Why::TurnHard);
                if is_long {
                    Some(Cause::Limit(TurnFailure::TooLong))
                } else {
                    is_silent.then_some(Cause::Limit(TurnFailure::Idle))
                }
            }
        }
    }

    /// Asks it to end.
    fn cancel(&mut self, cause: Cause, grace: Duration, now: MonoTime) {
        let (from, is_opening) = match self.phase {
            Phase::Opening { until } => (until.max(now), !matches!(cause, Cause::Limit(_))),
            Phase::Gathering | Phase::Prompting { .. } | Phase::Cancelling { .. } => (now, false),
        };
        self.phase = Phase::Cancelling {
            until: from.after(grace),
            is_opening,
            cause,
        };
    }
}

impl Part {
    /// Enforces limits and controls; whether anything moved.
    pub(super) fn pump_turns(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let limits = &self.config.limits;
        let (idle, grace) = (limits.turn_idle, limits.cancel_grace);
        let mut moved = false;
        let mut unstarted = Vec::new();
        for (id, turn) in &mut self.turns {
            if let Phase::Cancelling { until, .. } = turn.phase {
                moved |= now.reached(until, Why::CancelGrace)
                    && self.slots.kill(turn.worker(), now.time(), out);
                continue;
            }
            let Some(cause) = turn.has_to_end(idle, now) else {
                continue;
            };
            moved = true;
            let is_started = turn.phase != Phase::Gathering;
            turn.cancel(cause, grace, now.time());
            if is_started {
                out.push(Action::CancelTurn { turn: *id });
            } else {
                unstarted.push(*id);
            }
        }
        for id in unstarted {
            self.end_unstarted(id, now.time(), out);
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
                let is_started = turn.phase != Phase::Gathering;
                turn.cancel(Cause::Wanted, Duration::ZERO, now);
                if is_started {
                    out.push(Action::CancelTurn { turn: *id });
                }
            }
            self.slots.kill(turn.worker(), now, out);
        }
    }

    /// Every worker is replaced; what runs goes back and is worked on again.
    pub(super) fn renew(&mut self, now: MonoTime) {
        if self.life.is_ending() {
            return;
        }
        self.slots.renew(now);
        self.usage.renew();
        for turn in self.turns.values_mut() {
            turn.is_outdated = true;
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
            Phase::Gathering | Phase::Prompting { .. } | Phase::Cancelling { .. } => {
                return stale(StaleWhat::Turn, out);
            }
        }
        self.slots.judge_opening(turn.worker(), true);
        self.sessions
            .opened(turn.session.reference(), turn.scope, out);
    }

    pub(super) fn progressed(&mut self, id: TurnId, now: MonoTime, out: &mut Vec<Action>) {
        let Some(turn) = self.turns.get_mut(&id) else {
            return stale(StaleWhat::Turn, out);
        };
        match &mut turn.phase {
            Phase::Prompting { alive, .. } => {
                *alive = now;
                turn.has_sign = true;
            }
            Phase::Gathering | Phase::Opening { .. } | Phase::Cancelling { .. } => {}
        }
    }
}

/// The ids of events.
pub(super) fn ids(batch: &[Waiting]) -> Vec<EventId> {
    batch.iter().map(|waiting| waiting.event.id()).collect()
}

pub(super) fn no_session(text: &str) -> TurnFailure {
    TurnFailure::NoSession {
        text: Excerpt::new(text),
    }
}
