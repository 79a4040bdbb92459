//! Notes, and how turns and workers end, without what people and workers wrote.

use super::letters::text;
use crate::note::{Note, TurnFailure, TurnOutcome};
use crate::schedule::{DownCause, OpenCause, TurnEnd};
use crate::wire::Excerpt;

/// A frame that cannot be read may hold anything.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "only these notes can hold such text"
)]
pub(super) fn note(note: Note) -> Note {
    match note {
        Note::BadFrame { .. } => Note::BadFrame {
            text: Excerpt::new("(redacted)"),
        },
        Note::WorkerDown {
            worker,
            cause,
            wait,
        } => Note::WorkerDown {
            worker,
            cause: down_cause(cause),
            wait,
        },
        Note::TurnRetried {
            turn,
            scope,
            why,
            attempts,
            wait,
        } => Note::TurnRetried {
            turn,
            scope,
            why: turn_failure(why),
            attempts,
            wait,
        },
        Note::TurnEnded {
            turn,
            scope,
            outcome,
        } => Note::TurnEnded {
            turn,
            scope,
            outcome: turn_outcome(outcome),
        },
        Note::Repeated { kind, count, last } => Note::Repeated {
            kind,
            count,
            last: alloc::boxed::Box::new(self::note(*last)),
        },
        other => other,
    }
}

fn turn_outcome(outcome: TurnOutcome) -> TurnOutcome {
    match outcome {
        TurnOutcome::Reported { why } => TurnOutcome::Reported {
            why: turn_failure(why),
        },
        TurnOutcome::Unreported { why } => TurnOutcome::Unreported {
            why: turn_failure(why),
        },
        other @ (TurnOutcome::Answered | TurnOutcome::Discarded) => other,
    }
}

fn turn_failure(why: TurnFailure) -> TurnFailure {
    use TurnFailure as F;
    match why {
        F::Worker { text } => F::Worker {
            text: excerpt(&text),
        },
        F::NeedsHuman { text } => F::NeedsHuman {
            text: excerpt(&text),
        },
        F::NoSession { text } => F::NoSession {
            text: excerpt(&text),
        },
        other @ (F::WorkerGone
        | F::Idle
        | F::TooLong
        | F::Empty
        | F::NotStored { .. }
        | F::Poisonous
        | F::UsageLimit
        | F::Renewed
        | F::Interrupted) => other,
    }
}

pub(super) fn turn_end(end: TurnEnd) -> TurnEnd {
    match end {
        TurnEnd::Answered { reply, stop } => TurnEnd::Answered {
            reply: text(&reply),
            stop,
        },
        TurnEnd::Cancelled => TurnEnd::Cancelled,
        TurnEnd::Failed { class, text } => TurnEnd::Failed {
            class,
            text: excerpt(&text),
        },
    }
}

pub(super) fn down_cause(cause: DownCause) -> DownCause {
    use DownCause as C;
    match cause {
        C::CannotStart { text } => C::CannotStart {
            text: excerpt(&text),
        },
        C::NoHandshake { text } => C::NoHandshake {
            text: excerpt(&text),
        },
        C::Exited { code, text } => C::Exited {
            code,
            text: excerpt(&text),
        },
        C::Protocol { text } => C::Protocol {
            text: excerpt(&text),
        },
        C::Killed => C::Killed,
    }
}

pub(super) fn open_cause(cause: OpenCause) -> OpenCause {
    match cause {
        OpenCause::Refused { text } => OpenCause::Refused {
            text: excerpt(&text),
        },
        OpenCause::Unknown => OpenCause::Unknown,
    }
}

fn excerpt(words: &Excerpt) -> Excerpt {
    Excerpt::new(&text(words.as_str()))
}
