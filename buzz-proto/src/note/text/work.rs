//! Notes on workers, turns and messages.

use core::fmt;
use core::time::Duration;

use super::Span;
use crate::ids::{JobId, TurnId};
use crate::note::{HoldEnd, Note, TurnFailure, TurnOutcome};
use crate::publish::Verdict;
use crate::schedule::{DownCause, Scope, Want, WorkerId};
use crate::time::UnixTime;
use crate::utc::Utc;
use crate::wire::Excerpt;

/// Writes a note on workers, turns or controls.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the others are written elsewhere"
)]
pub(super) fn write(note: &Note, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match note {
        Note::WorkerUp { worker } => write!(f, "worker {} is ready", worker.slot),
        Note::WorkerDown {
            worker,
            cause,
            wait,
        } => write_down(*worker, cause, *wait, f),
        Note::TurnStarted {
            turn,
            scope,
            worker,
            events,
        } => write_started(*turn, *scope, *worker, *events, f),
        Note::TurnRetried {
            turn,
            scope,
            why,
            attempts,
            wait,
        } => write_retried((*turn, *scope), why, (*attempts, *wait), f),
        Note::ContextUnread { turn, scope } => write_context_unread(*turn, *scope, f),
        Note::Held { scope, worker } => write_held(*scope, *worker, f),
        Note::HoldEnded {
            scope,
            worker,
            wait,
            how,
        } => write_hold_ended(*scope, *worker, (*wait, *how), f),
        Note::UsageLimited { until, wait } => write_usage_limited(*until, *wait, f),
        Note::UsageRestored => f.write_str("the workers' account has an allowance again"),
        Note::BreakerOpened { worker, wait } => write_breaker_opened(*worker, *wait, f),
        Note::TurnEnded {
            turn,
            scope,
            outcome,
        } => write_ended(*turn, *scope, outcome, f),
        Note::Controlled {
            scope,
            want,
            discarded,
        } => write_controlled(*scope, *want, *discarded, f),
        Note::NothingToControl { want } => write_nothing_to_control(*want, f),
        Note::HandedBack { scope, count } => write_handed_back(*scope, *count, f),
        _ => Ok(()),
    }
}

fn write_down(
    worker: WorkerId,
    cause: &DownCause,
    wait: Option<Duration>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "worker {} is down: ", worker.slot)?;
    match cause {
        DownCause::CannotStart { text } => write!(f, "the command cannot be run: {text}"),
        DownCause::NoHandshake { text } => write!(f, "it does not speak ACP: {text}"),
        DownCause::Exited {
            code: Some(code),
            text,
        } => {
            write!(f, "it ended with exit code {code}{}", After(text))
        }
        DownCause::Exited { code: None, text } => {
            write!(f, "it was ended by a signal{}", After(text))
        }
        DownCause::Protocol { text } => write!(f, "it broke the protocol: {text}"),
        DownCause::Killed => f.write_str("it was stopped"),
    }?;
    match wait {
        Some(wait) => write!(f, "; the next start is in {}", Span(wait)),
        None => Ok(()),
    }
}

fn write_started(
    turn: TurnId,
    scope: Scope,
    worker: WorkerId,
    events: u32,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(
        f,
        "turn {} on worker {}: {events} events of {scope}",
        turn.0, worker.slot
    )
}

fn write_ended(
    turn: TurnId,
    scope: Scope,
    outcome: &TurnOutcome,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "turn {} of {scope}: ", turn.0)?;
    write_outcome(outcome, f)
}

fn write_retried(
    (turn, scope): (TurnId, Scope),
    why: &TurnFailure,
    (attempts, wait): (u16, Duration),
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "turn {} of {scope}: attempt {attempts} failed, ", turn.0)?;
    write_failure(why, f)?;
    write!(f, "; the next is in {}", Span(wait))
}

fn write_context_unread(turn: TurnId, scope: Scope, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "turn {} of {scope} begins without what was said before: it could not be read",
        turn.0
    )
}

fn write_held(scope: Scope, worker: WorkerId, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "{scope} waits for worker {}, which has its session and is busy",
        worker.slot
    )
}

fn write_hold_ended(
    scope: Scope,
    worker: WorkerId,
    (wait, how): (Duration, HoldEnd),
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let slot = worker.slot;
    write!(f, "{scope} waited {} for worker {slot} and ", Span(wait))?;
    f.write_str(match how {
        HoldEnd::Home => "goes on there",
        HoldEnd::Forked => "goes on elsewhere in a fresh session",
        HoldEnd::Released => "its session there is gone",
        HoldEnd::Dropped => "has no work left",
    })
}

fn write_usage_limited(
    until: Option<UnixTime>,
    wait: Duration,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    f.write_str("the workers' account has used up its allowance")?;
    if let Some(until) = until {
        write!(f, " until {}", Utc(until))?;
    }
    write!(f, "; one turn tries again in {}", Span(wait))
}

fn write_breaker_opened(
    worker: WorkerId,
    wait: Duration,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(
        f,
        "worker {} ends too often: the next one is started in {}",
        worker.slot,
        Span(wait)
    )
}

fn write_controlled(
    scope: Scope,
    want: Want,
    discarded: u32,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let want = want_words(want);
    write!(f, "{scope}: {want}, {discarded} events discarded")
}

fn write_nothing_to_control(want: Want, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let want = want_words(want);
    write!(f, "asked to {want}, but nothing is running there")
}

fn write_handed_back(scope: Scope, count: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "{scope}: {count} events handed back unanswered because the agent ends"
    )
}

pub(super) fn write_unpublished(
    job: JobId,
    verdict: &Verdict,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "message {} not published: ", job.0)?;
    write_verdict(verdict, f)
}

fn write_verdict(verdict: &Verdict, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match verdict {
        Verdict::Stored => f.write_str("it is stored"),
        Verdict::Rejected { reason } => write!(f, "the relay refused it: {}", reason.text),
        Verdict::Unknown => f.write_str("it was sent, and no answer came"),
        Verdict::Expired => f.write_str("its time ran out before it could be sent"),
        Verdict::Evicted => f.write_str("there was no room for it"),
        Verdict::Cancelled => f.write_str("it was taken back"),
    }
}

fn write_outcome(outcome: &TurnOutcome, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match outcome {
        TurnOutcome::Answered => f.write_str("answered"),
        TurnOutcome::Reported { why } => {
            f.write_str("not answered, and said so in the thread: ")?;
            write_failure(why, f)
        }
        TurnOutcome::Unreported { why } => {
            f.write_str("not answered, and that could not be said in the thread: ")?;
            write_failure(why, f)
        }
        TurnOutcome::Discarded => f.write_str("discarded: its scope was stopped or left"),
    }
}

fn write_failure(failure: &TurnFailure, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match failure {
        TurnFailure::Worker { text } => write!(f, "the worker failed: {text}"),
        TurnFailure::WorkerGone => f.write_str("the worker ended during the turn"),
        TurnFailure::NoSession { text } => write!(f, "no session could be opened: {text}"),
        TurnFailure::Idle => f.write_str("the worker fell silent"),
        TurnFailure::TooLong => f.write_str("the turn took too long"),
        TurnFailure::Empty => f.write_str("the worker ended the turn without a word"),
        TurnFailure::NotStored { verdict } => write_verdict(verdict, f),
        TurnFailure::Interrupted => {
            f.write_str("work on it was begun several times and never ended")
        }
        TurnFailure::UsageLimit => f.write_str("the workers' account has used up its allowance"),
        TurnFailure::Renewed => f.write_str("its worker is replaced, as asked"),
        TurnFailure::Poisonous => f.write_str("several workers ended at it"),
        TurnFailure::NeedsHuman { text } => write!(f, "the worker needs a human: {text}"),
    }
}

const fn want_words(want: Want) -> &'static str {
    match want {
        Want::Run => "go on",
        Want::Stop => "stop",
        Want::StopAndDrop => "stop and drop what waits",
        Want::StopAndRotate => "stop and start a fresh session",
    }
}

/// What was said, if anything was.
struct After<'a>(&'a Excerpt);

impl fmt::Display for After<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.0)
    }
}
