//! Notes as lines of [`tracing`], for programs that collect these; the report is the same in full.

use buzz_proto::note::{LinkNote, Note, RefusedWhy, SubPhase, TurnOutcome};
use buzz_proto::schedule::DownCause;
use tracing::Level;

/// Writes a note. What is lost or broken is a warning, what belongs to the work is information,
/// and what only explains the machine is for debugging.
pub(crate) fn trace(note: &Note) {
    let kind = note.kind();
    // The level of a line is part of its code.
    match level(note) {
        Level::WARN => tracing::warn!(kind, "{note}"),
        Level::INFO => tracing::info!(kind, "{note}"),
        _ => tracing::debug!(kind, "{note}"),
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "gaps, failures, and kinds of a later version are rather seen than not"
)]
fn level(note: &Note) -> Level {
    match note {
        Note::Repeated { last, .. } => level(last),
        Note::Link(link) => of_link(link),
        Note::Subscription { phase, .. } => of_subscription(phase),
        Note::TurnEnded { outcome, .. } => of_turn(outcome),
        Note::WorkerDown { cause, .. } if *cause == DownCause::Killed => Level::INFO,
        Note::Refused { why, .. } if *why != RefusedWhy::NotGenuine => Level::DEBUG,
        Note::Stale { .. } => Level::DEBUG,
        Note::Joined { .. }
        | Note::Left { dropped: 0, .. }
        | Note::WorkerUp { .. }
        | Note::TurnStarted { .. }
        | Note::Controlled { .. }
        | Note::NothingToControl { .. }
        | Note::ClockStepped { .. } => Level::INFO,
        _ => Level::WARN,
    }
}

const fn of_link(link: &LinkNote) -> Level {
    match link {
        LinkNote::Dialing
        | LinkNote::Live { .. }
        | LinkNote::Closed { .. }
        | LinkNote::Waiting { .. } => Level::INFO,
        LinkNote::Failed { .. }
        | LinkNote::AuthRefused { .. }
        | LinkNote::Lost { .. }
        | LinkNote::Stopped => Level::WARN,
    }
}

const fn of_subscription(phase: &SubPhase) -> Level {
    match phase {
        SubPhase::Requested | SubPhase::Live => Level::DEBUG,
        SubPhase::Unconfirmed | SubPhase::Waiting { .. } | SubPhase::Refused { .. } => Level::WARN,
    }
}

const fn of_turn(outcome: &TurnOutcome) -> Level {
    match outcome {
        TurnOutcome::Answered | TurnOutcome::Discarded => Level::INFO,
        TurnOutcome::Reported { .. } | TurnOutcome::Unreported { .. } => Level::WARN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_as_loud_as_what_it_sums_up() {
        for link in [LinkNote::Dialing, LinkNote::Lost { code: None }] {
            let note = Note::Link(link);
            let alone = level(&note);

            let summary = Note::Repeated {
                kind: note.kind().to_owned(),
                count: 3,
                last: Box::new(note),
            };

            assert_eq!(level(&summary), alone);
        }
    }
}
