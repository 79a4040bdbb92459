//! Outcomes: what is said of an ended turn, in the order of the turns of a scope, one message at a
//! time; the verdict on the last one disposes of the events.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::control::Life;
use super::queue::{count, dispose};
use super::{Action, Config, Scope, stale, text};
use crate::ids::{EventId, JobId, TurnId};
use crate::note::{Note, StaleWhat, TurnFailure, TurnOutcome};
use crate::publish::{self, AHEAD_MAX, Body, Class, Route, Verdict};
use crate::relay::Disposal;
use crate::time::UnixTime;
use crate::wire::{Draft, MESSAGE};

/// The scheduler's jobs have the upper half of the numbers, applications the lower.
const FIRST_JOB: JobId = JobId(1 << 63);

/// No turn starts while more answers than this wait for their verdict: a relay that takes nothing
/// must not make workers produce what cannot be kept.
const ANSWERS_MAX: usize = 256;
/// As [`ANSWERS_MAX`], in bytes of text: half of what an outbox holds by default.
const BYTES_MAX: usize = 8 << 20;

/// Answers by scope.
#[derive(Clone, Debug)]
pub(super) struct Outcomes {
    lines: BTreeMap<Scope, Line>,
    jobs: BTreeMap<JobId, Scope>,
    next_job: JobId,
    answers: usize,
    bytes: usize,
    has_notices: bool,
}

/// What is to be said in a scope. It stands while something is, or while its last date lies ahead.
#[derive(Clone, Debug, Default)]
struct Line {
    answers: VecDeque<Answer>,
    /// The message of the first answer that has no verdict yet.
    job: Option<JobId>,
    /// The date of the last message.
    dated: UnixTime,
}

impl Line {
    /// A date for the next message: two of one second would be shown in any order.
    fn next_date(&self, wall: UnixTime) -> UnixTime {
        if self.is_ahead(wall) {
            self.dated.after(Duration::from_secs(1))
        } else {
            wall
        }
    }

    /// Whether the clock has not passed the last date yet. One that lies far ahead says that the
    /// clock was set back, and a clock at the epoch that nobody has told it.
    fn is_ahead(&self, wall: UnixTime) -> bool {
        let last = wall.after(AHEAD_MAX);
        wall > UnixTime(0) && (wall..=last).contains(&self.dated)
    }
}

/// What is said of an ended turn.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) turn: TurnId,
    pub(super) events: Vec<EventId>,
    /// Where its messages belong.
    pub(super) tags: Vec<Vec<String>>,
    pub(super) speech: Speech,
}

#[derive(Clone, Debug)]
pub(super) enum Speech {
    /// The worker's answer: what is not stored yet, never empty.
    Reply { parts: VecDeque<String> },
    /// That there is none, after so many attempts.
    Notice { why: TurnFailure, attempts: u16 },
    /// Something that is no outcome of any event.
    Remark { text: String },
}

impl Speech {
    fn bytes(&self) -> usize {
        match self {
            Self::Reply { parts } => parts
                .iter()
                .fold(0, |sum, part| sum.saturating_add(part.len())),
            Self::Notice { .. } | Self::Remark { .. } => 0,
        }
    }

    /// The next message.
    fn message(&self) -> String {
        match self {
            Self::Reply { parts } => parts.front().cloned().unwrap_or_default(),
            Self::Notice { why, attempts } => text::notice(why, *attempts),
            Self::Remark { text } => text.clone(),
        }
    }
}

/// What follows from a verdict.
enum Next {
    /// There is more to say.
    GoOn,
    /// The turn has its outcome.
    Over(TurnOutcome),
    /// It was cut short because the machine ends, maybe between two messages.
    Cut,
    /// A remark was made, or could not be.
    Remarked,
}

impl Outcomes {
    pub(super) const fn new(config: &Config) -> Self {
        Self {
            lines: BTreeMap::new(),
            jobs: BTreeMap::new(),
            next_job: FIRST_JOB,
            answers: 0,
            bytes: 0,
            has_notices: config.notices,
        }
    }

    /// Ended turns that wait for their outcome.
    pub(super) const fn len(&self) -> usize {
        self.answers
    }

    /// Whether more may be produced.
    pub(super) const fn has_room(&self) -> bool {
        self.answers < ANSWERS_MAX && self.bytes < BYTES_MAX
    }

    /// Takes an answer behind those of its scope.
    pub(super) fn push(&mut self, scope: Scope, answer: Answer, out: &mut Vec<Action>) {
        if !self.has_notices {
            match &answer.speech {
                Speech::Reply { .. } => {}
                Speech::Notice { why, .. } => {
                    let outcome = TurnOutcome::Unreported { why: why.clone() };
                    return conclude(scope, &answer, outcome, out);
                }
                Speech::Remark { .. } => return,
            }
        }
        self.answers = self.answers.saturating_add(1);
        self.bytes = self.bytes.saturating_add(answer.speech.bytes());
        self.lines
            .entry(scope)
            .or_default()
            .answers
            .push_back(answer);
    }

    /// Submits the next message of every scope that has none under way; whether there was one.
    pub(super) fn pump(&mut self, wall: UnixTime, out: &mut Vec<Action>) -> bool {
        let mut moved = false;
        self.lines
            .retain(|_, line| !line.answers.is_empty() || line.is_ahead(wall));
        for (scope, line) in &mut self.lines {
            let (None, Some(answer)) = (line.job, line.answers.front()) else {
                continue;
            };
            let job = self.next_job.take();
            line.dated = line.next_date(wall);
            let draft = Draft {
                kind: MESSAGE,
                created_at: line.dated,
                tags: answer.tags.clone(),
                content: answer.speech.message(),
            };
            line.job = Some(job);
            self.jobs.insert(job, *scope);
            out.push(Action::Publish(publish::Command::Submit {
                job,
                class: Class::Durable,
                route: Route::Post,
                body: Body::SignWhenSent(draft),
                ttl: None,
            }));
            moved = true;
        }
        moved
    }

    /// A message has its verdict, at `wall`.
    pub(super) fn settled(
        &mut self,
        job: JobId,
        verdict: Verdict,
        (life, wall): (Life, UnixTime),
        out: &mut Vec<Action>,
    ) {
        let Some(scope) = self.jobs.remove(&job) else {
            return stale(StaleWhat::Job, out);
        };
        let Some(line) = self.lines.get_mut(&scope) else {
            return;
        };
        line.job = None;
        // It may have waited, and was then dated when it was signed, which is not after now.
        line.dated = line.dated.max(wall);
        let Some(answer) = line.answers.front_mut() else {
            return;
        };
        let before = answer.speech.bytes();
        let next = next(&mut answer.speech, verdict, self.has_notices, life);
        let after = if matches!(next, Next::GoOn) {
            answer.speech.bytes()
        } else {
            0
        };
        self.bytes = self.bytes.saturating_sub(before.saturating_sub(after));
        if matches!(next, Next::GoOn) {
            return;
        }
        self.answers = self.answers.saturating_sub(1);
        let Some(answer) = line.answers.pop_front() else {
            return;
        };
        match next {
            Next::GoOn | Next::Remarked => {}
            Next::Over(outcome) => conclude(scope, &answer, outcome, out),
            Next::Cut => {
                let count = count(&answer.events);
                out.push(Action::Note(Note::HandedBack { scope, count }));
            }
        }
    }

    /// Gives up the answers of which no message is under way. Of the others each has its outcome
    /// with the verdict on that message: until then nobody knows whether it is stored.
    pub(super) fn hand_back(&mut self, out: &mut Vec<Action>) {
        for (scope, line) in &mut self.lines {
            let under_way = usize::from(line.job.is_some());
            let given_up = line.answers.split_off(under_way.min(line.answers.len()));
            let counts = given_up.iter().map(|answer| count(&answer.events));
            let count = counts.fold(0_u32, u32::saturating_add);
            if count > 0 {
                let scope = *scope;
                out.push(Action::Note(Note::HandedBack { scope, count }));
            }
            let bytes = given_up.iter().map(|answer| answer.speech.bytes());
            self.bytes = bytes.fold(self.bytes, usize::saturating_sub);
            self.answers = self.answers.saturating_sub(given_up.len());
        }
    }
}

/// What follows from a verdict. Once the grace is over no further message is submitted.
fn next(speech: &mut Speech, verdict: Verdict, has_notices: bool, life: Life) -> Next {
    match (speech, verdict) {
        (Speech::Remark { .. }, _) => Next::Remarked,
        (_, Verdict::Cancelled) if life.is_ending() => Next::Cut,
        // Its answer was not waited for: the next life asks whether it is stored.
        (_, Verdict::Unknown) if life.is_over() => Next::Cut,
        (Speech::Reply { parts }, Verdict::Stored) => {
            parts.pop_front();
            if parts.is_empty() {
                Next::Over(TurnOutcome::Answered)
            } else if life.is_over() {
                Next::Cut
            } else {
                Next::GoOn
            }
        }
        (speech @ Speech::Reply { .. }, verdict) => {
            let why = TurnFailure::NotStored { verdict };
            if !has_notices || life.is_over() {
                return Next::Over(TurnOutcome::Unreported { why });
            }
            *speech = Speech::Notice { why, attempts: 1 };
            Next::GoOn
        }
        (Speech::Notice { why, .. }, Verdict::Stored) => {
            Next::Over(TurnOutcome::Reported { why: why.clone() })
        }
        (Speech::Notice { why, .. }, _) => Next::Over(TurnOutcome::Unreported { why: why.clone() }),
    }
}

fn conclude(scope: Scope, answer: &Answer, outcome: TurnOutcome, out: &mut Vec<Action>) {
    out.push(Action::Note(Note::TurnEnded {
        turn: answer.turn,
        scope,
        outcome,
    }));
    dispose(answer.events.iter().copied(), Disposal::Accepted, out);
}
