//! What is tried again, when, and when it is given up; and the rest of all workers when their
//! account has used up its allowance.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use super::finish::{Failure, Then};
use super::outcome::{Answer, Speech};
use super::part::Part;
use super::queue::Waiting;
use super::turn::{Turn, ids};
use super::{Action, Limits, Scope, text};
use crate::backoff::Ladder;
use crate::ids::TurnId;
use crate::note::{Note, TurnFailure};
use crate::seed::Seed;
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::{Event, answer_tags};

/// The least and the most that is put on top of a usage limit's end, so that agents of one account
/// do not come back together.
const EXTRA: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// The most on top of a short one.
const EXTRA_MAX_SHORT: Duration = Duration::from_millis(1500);
/// The first rung of the least waits.
const WAIT_MIN: Duration = Duration::from_secs(5);

impl Part {
    /// A turn has no answer: its events are tried again, or reported.
    pub(super) fn fail(
        &mut self,
        turn: Turn,
        failure: Failure,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let scope = turn.scope;
        if failure.then == Then::GiveUp {
            self.queue.end(scope, now);
            let speech = Speech::Notice {
                why: failure.why,
                attempts: turn.attempts(),
            };
            return self.say(&turn, speech, out);
        }
        if self.life.is_ending() {
            // There is no time for another attempt: the next life has it.
            self.queue.end(scope, now);
            return turn.say_unanswered(out);
        }
        match failure.then {
            Then::GiveUp => {}
            Then::Again => self.give_back(turn, failure.why, Duration::ZERO, out),
            Then::AwaitUsage { until } => self.await_usage(turn, until, now, out),
            Then::Retry => self.retry(turn, failure.why, false, now, out),
            Then::RetryAlone => self.retry(turn, failure.why, true, now, out),
        }
    }

    fn retry(
        &mut self,
        turn: Turn,
        why: TurnFailure,
        is_crash: bool,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let Turn {
            told, scope, batch, ..
        } = turn;
        let limits = &self.config.limits;
        let tried = batch.into_iter().map(|waiting| waiting.tried(is_crash));
        let (poisonous, rest): (Vec<_>, Vec<_>) =
            tried.partition(|waiting| waiting.crashes >= limits.crashes_max);
        let (spent, again): (Vec<_>, Vec<_>) = rest
            .into_iter()
            .partition(|waiting| waiting.attempts >= limits.attempts_max);
        let attempts = most_attempts(&again);
        if again.is_empty() {
            self.queue.end(scope, now);
        } else {
            let wait = rest_before(attempts, limits, self.seed, told);
            out.push(Action::Note(Note::TurnRetried {
                turn: told,
                scope,
                why: why.clone(),
                attempts,
                wait,
            }));
            self.queue.give_back(scope, again, Some(now.after(wait)));
        }
        self.report((told, scope), &poisonous, TurnFailure::Poisonous, out);
        self.report((told, scope), &spent, why, out);
    }

    /// Says that events of a turn are given up, if there are any.
    fn report(
        &mut self,
        (turn, scope): (TurnId, Scope),
        events: &[Waiting],
        why: TurnFailure,
        out: &mut Vec<Action>,
    ) {
        let Some(newest) = events.last() else {
            return;
        };
        let answer = Answer {
            turn,
            events: ids(events),
            tags: answer_tags(Some(scope.channel()), &newest.event),
            speech: Speech::Notice {
                why,
                attempts: most_attempts(events),
            },
        };
        self.outcomes.push(scope, answer, out);
    }

    /// Nothing is tried until the allowance is there again. Who waits for an answer is told so, once.
    fn await_usage(
        &mut self,
        turn: Turn,
        until: Option<UnixTime>,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        self.shut_usage(until, now, out);
        if let Some(newest) = turn.batch.last() {
            self.say_usage_limited(turn.scope, &newest.event, out);
        }
        let wait = self.usage.rest(now);
        self.give_back(turn, TurnFailure::UsageLimit, wait, out);
    }

    /// No turn starts until the allowance is there again.
    pub(super) fn shut_usage(
        &mut self,
        until: Option<UnixTime>,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        if !self.life.is_ending() {
            let wall = self.wall.map(|wall| wall.at(now));
            if !self.usage.is_limited() {
                // Whoever waits already is to be told why it will take longer.
                self.queue.unmark();
            }
            self.usage.shut((until, wall), now, out);
        }
    }

    /// Says to whoever waits for the answer to an event that it will take long. Once in each
    /// scope, and only while answers have room: they must not give way to it.
    pub(super) fn say_usage_limited(&mut self, scope: Scope, event: &Event, out: &mut Vec<Action>) {
        if !self.outcomes.has_room() || !self.usage.told.insert(scope) {
            return;
        }
        let answer = Answer {
            turn: self.next_turn,
            events: Vec::new(),
            tags: answer_tags(Some(scope.channel()), event),
            speech: Speech::Remark {
                text: text::usage_limited(self.usage.named),
            },
        };
        self.outcomes.push(scope, answer, out);
    }

    /// A turn was no attempt: its events wait again as they did.
    fn give_back(&mut self, turn: Turn, why: TurnFailure, wait: Duration, out: &mut Vec<Action>) {
        let Turn {
            told, scope, batch, ..
        } = turn;
        out.push(Action::Note(Note::TurnRetried {
            turn: told,
            scope,
            why,
            attempts: most_attempts(&batch),
            wait,
        }));
        self.queue.give_back(scope, batch, None);
    }
}

impl Turn {
    /// Attempts at its events, this one included.
    fn attempts(&self) -> u16 {
        most_attempts(&self.batch).saturating_add(1)
    }
}

fn most_attempts(events: &[Waiting]) -> u16 {
    let attempts = events.iter().map(|waiting| waiting.attempts);
    attempts.max().unwrap_or_default()
}

/// The rest after so many attempts: each is twice as long as the one before it, and drawn from a
/// fifth less to a fifth more.
fn rest_before(attempts: u16, limits: &Limits, seed: Seed, turn: TurnId) -> Duration {
    let doublings = u32::from(attempts.saturating_sub(1));
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    let rest = limits
        .retry_first
        .saturating_mul(factor)
        .min(limits.retry_top.max(limits.retry_first));
    let fifth = rest.checked_div(5).unwrap_or_default();
    let (low, high) = (rest.saturating_sub(fifth), rest.saturating_add(fifth));
    seed.between(turn.0, u64::from(attempts), low, high)
}

/// The allowance of the account that all workers share.
#[derive(Clone, Debug)]
pub(super) struct Usage {
    phase: Phase,
    /// The end that was named last, if one was.
    named: Option<UnixTime>,
    /// Scopes that were told that they wait for it.
    told: BTreeSet<Scope>,
    wait: Duration,
    wait_max: Duration,
    seed: Seed,
    /// How often it was used up.
    limits: u64,
    /// The least wait: an account that is used up again as soon as its limit ends is not asked all the
    /// time.
    ladder: Ladder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Turns start.
    Open,
    /// None starts until then.
    Shut { until: MonoTime },
    /// One may start, to try.
    Due,
    /// This one tries.
    Trying(TurnId),
}

impl Usage {
    pub(super) fn new(limits: &Limits, seed: Seed) -> Self {
        Self {
            phase: Phase::Open,
            named: None,
            told: BTreeSet::new(),
            wait: limits.usage_wait,
            wait_max: limits.usage_wait_max,
            seed,
            limits: 0,
            ladder: Ladder::new(WAIT_MIN, limits.usage_wait),
        }
    }

    pub(super) fn is_limited(&self) -> bool {
        self.phase != Phase::Open
    }

    /// Whether a turn may start.
    pub(super) fn may_start(&mut self, now: &mut Now) -> bool {
        match self.phase {
            Phase::Open | Phase::Due => true,
            Phase::Trying(_) => false,
            Phase::Shut { until } => {
                let is_over = now.reached(until, Why::UsageLimit);
                if is_over {
                    self.phase = Phase::Due;
                }
                is_over
            }
        }
    }

    /// Workers are other ones from now on, and their allowance may be another: one turn may try.
    pub(super) const fn renew(&mut self) {
        if matches!(self.phase, Phase::Shut { .. }) {
            self.phase = Phase::Due;
        }
        self.ladder.reset();
    }

    /// A turn started.
    pub(super) fn started(&mut self, turn: TurnId) {
        if self.phase == Phase::Due {
            self.phase = Phase::Trying(turn);
        }
    }

    /// A turn goes on under another name.
    pub(super) fn renamed(&mut self, turn: TurnId, next: TurnId) {
        if self.phase == Phase::Trying(turn) {
            self.phase = Phase::Trying(next);
        }
    }

    /// A turn ended. The one that tries is the proof, if it was answered.
    pub(super) fn ended(&mut self, turn: TurnId, is_answered: bool, out: &mut Vec<Action>) {
        if self.phase != Phase::Trying(turn) {
            return;
        }
        if is_answered {
            self.phase = Phase::Open;
            self.ladder.reset();
            self.told.clear();
            out.push(Action::Note(Note::UsageRestored));
        } else {
            self.phase = Phase::Due;
        }
    }

    /// The allowance is used up, until the time named if one was. The later end counts.
    fn shut(
        &mut self,
        (until, wall): (Option<UnixTime>, Option<UnixTime>),
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let named = until.zip(wall);
        let wait = named.map_or(self.wait, |(until, wall)| until.saturating_since(wall));
        let is_first = !matches!(self.phase, Phase::Shut { .. });
        let least = if is_first {
            self.ladder.climb()
        } else {
            Duration::ZERO
        };
        let wait = wait.max(least);
        let fifth = wait.checked_div(5).unwrap_or_default();
        let (extra_min, extra_max) = EXTRA;
        let most = fifth.clamp(EXTRA_MAX_SHORT, extra_max);
        self.limits = self.limits.wrapping_add(1);
        let extra = self.seed.between(0, self.limits, extra_min, most);
        let wait = wait.min(self.wait_max).saturating_add(extra);
        let end = now.after(wait);
        if let Phase::Shut { until } = self.phase
            && end <= until.after(most)
        {
            return;
        }
        self.phase = Phase::Shut { until: end };
        self.named = until;
        out.push(Action::Note(Note::UsageLimited { until, wait }));
    }

    /// How long no turn starts.
    fn rest(&self, now: MonoTime) -> Duration {
        match self.phase {
            Phase::Shut { until } => until.saturating_since(now),
            Phase::Open | Phase::Due | Phase::Trying(_) => Duration::ZERO,
        }
    }
}
