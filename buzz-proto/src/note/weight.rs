//! How much a note weighs with those who run an agent.

use super::{HoldEnd, LinkNote, Note, RefusedWhy, SubPhase, TurnOutcome};
use crate::schedule::DownCause;

/// How much a note weighs with those who run an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weight {
    /// It explains the machine; nobody needs it in daily work.
    Detail,
    /// Work goes its way.
    Work,
    /// Something is lost, late or broken, and somebody may have to act.
    Trouble,
}

impl Note {
    /// How much it weighs with those who run an agent. A summary weighs as much as what it sums up.
    #[must_use]
    pub fn weight(&self) -> Weight {
        match self {
            Self::Repeated { last, .. } => last.weight(),
            Self::Link(link) => link.weight(),
            Self::Subscription { phase, .. } => phase.weight(),
            Self::TurnEnded { outcome, .. } => outcome.weight(),
            Self::HoldEnded { how, .. } => how.weight(),
            Self::WorkerDown { cause, .. } if *cause == DownCause::Killed => Weight::Work,
            Self::Refused { why, .. } => why.weight(),
            Self::Stale { .. } | Self::NotShown { .. } => Weight::Detail,
            Self::CaughtUp { .. }
            | Self::Joined { .. }
            | Self::Left { dropped: 0, .. }
            | Self::WorkerUp { .. }
            | Self::TurnStarted { .. }
            | Self::Held { .. }
            | Self::UsageRestored
            | Self::Controlled { .. }
            | Self::NothingToControl { .. }
            | Self::ClockStepped { .. } => Weight::Work,
            Self::Gap { .. }
            | Self::Behind { .. }
            | Self::Lagging { .. }
            | Self::ReadFailed { .. }
            | Self::Missed { .. }
            | Self::Unaudited { .. }
            | Self::DedupShort { .. }
            | Self::RecordAhead { .. }
            | Self::NotPersisted
            | Self::AnswersUnread
            | Self::BadFrame { .. }
            | Self::Notice { .. }
            | Self::Throttled { .. }
            | Self::RosterFailed { .. }
            | Self::Left { .. }
            | Self::Unpublished { .. }
            | Self::WorkerDown { .. }
            | Self::TurnRetried { .. }
            | Self::ContextUnread { .. }
            | Self::UsageLimited { .. }
            | Self::BreakerOpened { .. }
            | Self::HandedBack { .. }
            | Self::ClockSkew { .. } => Weight::Trouble,
        }
    }
}

impl LinkNote {
    const fn weight(&self) -> Weight {
        match self {
            Self::Dialing | Self::Live { .. } | Self::Closed { .. } | Self::Waiting { .. } => {
                Weight::Work
            }
            Self::Failed { .. } | Self::AuthRefused { .. } | Self::Lost { .. } | Self::Stopped => {
                Weight::Trouble
            }
        }
    }
}

impl SubPhase {
    const fn weight(&self) -> Weight {
        match self {
            Self::Requested | Self::Live => Weight::Detail,
            Self::Unconfirmed | Self::Waiting { .. } | Self::Refused { .. } => Weight::Trouble,
        }
    }
}

impl TurnOutcome {
    const fn weight(&self) -> Weight {
        match self {
            Self::Answered | Self::Discarded => Weight::Work,
            Self::Reported { .. } | Self::Unreported { .. } => Weight::Trouble,
        }
    }
}

impl HoldEnd {
    const fn weight(self) -> Weight {
        match self {
            Self::Home | Self::Released | Self::Dropped => Weight::Work,
            Self::Forked => Weight::Trouble,
        }
    }
}

impl RefusedWhy {
    const fn weight(self) -> Weight {
        match self {
            Self::NotGenuine | Self::NotTheRelay => Weight::Trouble,
            Self::NoMatch
            | Self::Author
            | Self::AuthorUnknown
            | Self::NoMention
            | Self::Kind
            | Self::StaleCommand => Weight::Detail,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_summary_weighs_as_much_as_what_it_sums_up() {
        for link in [LinkNote::Dialing, LinkNote::Lost { code: None }] {
            let note = Note::Link(link);
            let alone = note.weight();

            let summary = Note::Repeated {
                kind: note.kind().to_string(),
                count: 3,
                last: Box::new(note),
            };

            assert_eq!(summary.weight(), alone);
        }
    }

    #[test]
    fn to_go_on_elsewhere_is_trouble_and_to_wait_is_not() {
        use crate::ids::ChannelId;
        use crate::schedule::{Scope, WorkerId};
        let scope = Scope::Conversation(ChannelId([1; 16]));
        let worker = WorkerId {
            slot: 0,
            incarnation: 1,
        };
        assert_eq!(Note::Held { scope, worker }.weight(), Weight::Work);
        for (how, weight) in [
            (HoldEnd::Home, Weight::Work),
            (HoldEnd::Forked, Weight::Trouble),
        ] {
            let wait = core::time::Duration::from_secs(10);
            let note = Note::HoldEnded {
                scope,
                worker,
                wait,
                how,
            };
            assert_eq!(note.weight(), weight);
        }
    }
}
