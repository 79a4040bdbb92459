//! How turns end.

use serde::{Deserialize, Serialize};

use crate::publish::Verdict;
use crate::wire::Excerpt;

/// How a turn ended for its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum TurnOutcome {
    /// Its answer is published.
    Answered,
    /// There was no answer, and that is published.
    Reported {
        /// Why there was none.
        why: TurnFailure,
    },
    /// There was no answer, or it could not be published, and that could not be published either.
    Unreported {
        /// What failed.
        why: TurnFailure,
    },
    /// Its owner discarded it.
    Discarded,
}

/// Why a turn has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum TurnFailure {
    /// The worker reported a failure.
    Worker {
        /// Its words.
        text: Excerpt,
    },
    /// The worker ended during the turn.
    WorkerGone,
    /// No session could be opened.
    NoSession {
        /// Why not.
        text: Excerpt,
    },
    /// The worker gave no sign of life for too long.
    Idle,
    /// The turn took too long.
    TooLong,
    /// The worker ended the turn without a word.
    Empty,
    /// The reply was not stored.
    NotStored {
        /// The verdict on it.
        verdict: Verdict,
    },
    /// Work on it was begun in several lives of the agent and never ended.
    Interrupted,
    /// The account of the workers has used up its allowance.
    UsageLimit,
    /// Its worker is replaced, as asked.
    Renewed,
    /// Several workers ended at this one event.
    Poisonous,
    /// Someone must log in or configure something.
    NeedsHuman {
        /// The worker's words.
        text: Excerpt,
    },
}

/// How the wait of a scope for the worker of its session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HoldEnd {
    /// It goes on in its session.
    Home,
    /// It waited long enough and goes on elsewhere, in a fresh session.
    Forked,
    /// The session is gone: there is nothing to wait for. Told at once, or, where the wait was long
    /// enough by then, when it goes on elsewhere.
    Released,
    /// There is no work left.
    Dropped,
}
