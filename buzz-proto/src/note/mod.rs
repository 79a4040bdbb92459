//! Facts worth telling, as values. An adapter prints them; the machine has no logger.
//!
//! Outcomes ([`Note::is_outcome`]) and progress ([`Note::is_progress`]) are told one by one. All
//! others pass a limiter: the first of a kind at once, later ones as one summary with a count per
//! period.

mod history;
mod link;
mod text;
mod weight;
mod work;

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{ChannelId, EventId, JobId, TurnId};
use crate::publish::Verdict;
use crate::relay::Sub;
use crate::retry_hint::HintSource;
use crate::schedule::{DownCause, Scope, Want, WorkerId};
use crate::time::UnixTime;
use crate::wire::{Excerpt, Reason};
pub use history::*;
pub use link::*;
pub use weight::Weight;
pub use work::*;

/// A fact worth telling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub enum Note {
    /// The connection moved to another phase.
    Link(LinkNote),
    /// A subscription moved to another phase.
    Subscription {
        /// The subscription.
        sub: Sub,
        /// The phase.
        phase: SubPhase,
    },
    /// Events of a subscription will not be delivered.
    Gap {
        /// The subscription.
        sub: Sub,
        /// How many, where that is known.
        count: Option<u64>,
        /// The oldest date among them.
        from: UnixTime,
        /// The newest date among them.
        to: UnixTime,
        /// Why they are lost.
        why: GapWhy,
    },
    /// An event found no room, the first since the last [`CaughtUp`](Self::CaughtUp); such events
    /// are read again when there is some.
    Behind {
        /// The subscription.
        sub: Sub,
        /// Its date.
        dated: UnixTime,
    },
    /// What was lost waits for long: any room will do from now on.
    Lagging {
        /// The subscription.
        sub: Sub,
        /// How many events are known by id.
        count: u64,
        /// How long the loss has waited.
        #[serde(with = "crate::json::nanos")]
        wait: Duration,
    },
    /// All that was lost has been read again, or is told as a gap.
    CaughtUp {
        /// The subscription.
        sub: Sub,
        /// How many events were delivered late.
        count: u64,
    },
    /// A read of stored events failed, otherwise than because the relay wants less traffic; what
    /// was lost stays lost until a later one.
    ReadFailed {
        /// The subscription.
        sub: Sub,
        /// What went wrong.
        why: ReadFailure,
    },
    /// The relay stores an event that the live subscription did not bring.
    Missed {
        /// The subscription.
        sub: Sub,
        /// The event.
        event: EventId,
    },
    /// What is older than this could not be compared with what the relay stores.
    Unaudited {
        /// The subscription.
        sub: Sub,
        /// The date.
        before: UnixTime,
    },
    /// The memory of delivered events is too short: one was forgotten that may come again.
    DedupShort {
        /// Its date.
        dated: UnixTime,
    },
    /// A restored record reaches beyond the relay's time, and is not trusted.
    RecordAhead {
        /// The subscription.
        sub: Sub,
        /// By how much.
        seconds: u64,
    },
    /// Records could not be kept: a restart would begin further back.
    NotPersisted,
    /// What this agent has published before its start could not be read: an event that an earlier
    /// life answered in its last second may be answered again.
    AnswersUnread,
    /// An event was refused before delivery.
    Refused {
        /// The event.
        event: EventId,
        /// Why.
        why: RefusedWhy,
    },
    /// A frame could not be read, or says nothing that this machine knows.
    BadFrame {
        /// What was wrong, with the start of the frame.
        text: Excerpt,
    },
    /// The relay said something that belongs to no request.
    Notice {
        /// In its words.
        reason: Reason,
    },
    /// The relay asks for less traffic.
    Throttled {
        /// Which quota.
        quota: Quota,
        /// Where the wait comes from; nothing where the relay gave no hint.
        source: Option<HintSource>,
        /// Whether the relay asked for more than is waited.
        capped: bool,
        /// The wait.
        #[serde(with = "crate::json::nanos")]
        wait: Duration,
        /// Calls under way.
        in_flight: u32,
        /// Calls that wait.
        waiting: u32,
        /// Refusals in a row.
        attempt: u32,
    },
    /// The roster could not be read, otherwise than because the relay wants less traffic.
    RosterFailed {
        /// The HTTP status, if there was an answer.
        status: Option<u16>,
    },
    /// A channel was joined.
    Joined {
        /// The channel.
        channel: ChannelId,
    },
    /// A channel was left; what still waited there is dropped.
    Left {
        /// The channel.
        channel: ChannelId,
        /// How many events were dropped.
        dropped: u32,
    },
    /// A job ended otherwise than stored.
    Unpublished {
        /// The job.
        job: JobId,
        /// The verdict.
        verdict: Verdict,
    },
    /// Something that is only good to see could not be shown: there was no room for it, or the
    /// relay would not have it.
    NotShown {
        /// What it was.
        what: Shown,
    },
    /// A worker is ready.
    WorkerUp {
        /// The worker.
        worker: WorkerId,
    },
    /// A worker is down.
    WorkerDown {
        /// The worker.
        worker: WorkerId,
        /// Why.
        cause: DownCause,
        /// When the next one is started; nothing when the machine ends.
        #[serde(with = "crate::json::optional_nanos")]
        wait: Option<Duration>,
    },
    /// A turn began.
    TurnStarted {
        /// The turn.
        turn: TurnId,
        /// For which scope.
        scope: Scope,
        /// Where.
        worker: WorkerId,
        /// How many events it answers.
        events: u32,
    },
    /// A turn ended without an answer, and what it was to answer is tried again.
    TurnRetried {
        /// The turn.
        turn: TurnId,
        /// Its scope.
        scope: Scope,
        /// Why there was no answer.
        why: TurnFailure,
        /// Attempts so far.
        attempts: u16,
        /// Until the next one, at least.
        #[serde(with = "crate::json::nanos")]
        wait: Duration,
    },
    /// A turn begins in a fresh session without what was said before, which could not be read.
    ContextUnread {
        /// The turn.
        turn: TurnId,
        /// Its scope.
        scope: Scope,
    },
    /// A scope waits for the worker that has its session and is busy with another scope.
    Held {
        /// The scope.
        scope: Scope,
        /// The worker.
        worker: WorkerId,
    },
    /// The wait for a worker is over.
    HoldEnded {
        /// The scope.
        scope: Scope,
        /// The worker.
        worker: WorkerId,
        /// How long it lasted.
        #[serde(with = "crate::json::nanos")]
        wait: Duration,
        /// How it ended.
        how: HoldEnd,
    },
    /// The workers' account has used up its allowance: no turn starts for a while.
    UsageLimited {
        /// The end that was named.
        until: Option<UnixTime>,
        /// Until one turn tries again.
        #[serde(with = "crate::json::nanos")]
        wait: Duration,
    },
    /// The workers' account has an allowance again.
    UsageRestored,
    /// A slot's workers end too often: the next one is started after a longer rest, to try.
    BreakerOpened {
        /// The worker that ended last.
        worker: WorkerId,
        /// The rest.
        #[serde(with = "crate::json::nanos")]
        wait: Duration,
    },
    /// A turn ended, and its events have an outcome.
    TurnEnded {
        /// The turn.
        turn: TurnId,
        /// Its scope.
        scope: Scope,
        /// The outcome.
        outcome: TurnOutcome,
    },
    /// A control took effect.
    Controlled {
        /// Which scope.
        scope: Scope,
        /// What is wanted of it.
        want: Want,
        /// How many events were discarded by it.
        discarded: u32,
    },
    /// A control found nothing to act on.
    NothingToControl {
        /// What was wanted.
        want: Want,
    },
    /// Events are handed back because the machine ends.
    HandedBack {
        /// Their scope.
        scope: Scope,
        /// How many.
        count: u32,
    },
    /// A completion named an effect that is over or never was; it changed nothing.
    Stale {
        /// What it was about.
        what: StaleWhat,
    },
    /// The wall clock was set.
    ClockStepped {
        /// Seconds, forward positive.
        seconds: i64,
    },
    /// Our clock and the relay's differ by more than the relay allows.
    ClockSkew {
        /// Seconds that ours is ahead.
        seconds: i64,
    },
    /// Notes of one kind that were not told one by one.
    Repeated {
        /// The kind.
        kind: String,
        /// How many.
        count: u64,
        /// The last of them.
        last: alloc::boxed::Box<Self>,
    },
}

impl Note {
    /// Whether it tells the final outcome of something owed: such notes are never merged.
    #[must_use]
    pub const fn is_outcome(&self) -> bool {
        matches!(
            self,
            Self::Gap { .. }
                | Self::Unpublished { .. }
                | Self::TurnEnded { .. }
                | Self::HandedBack { .. }
                | Self::Left { .. }
                | Self::Controlled { .. }
                | Self::Repeated { .. }
        )
    }

    /// Whether it tells of work that goes its way, at the pace of that work, or of the connection
    /// and workers coming, at the pace of their ladders: nothing to merge.
    #[must_use]
    pub const fn is_progress(&self) -> bool {
        matches!(
            self,
            Self::Joined { .. }
                | Self::WorkerUp { .. }
                | Self::TurnStarted { .. }
                | Self::TurnRetried { .. }
                | Self::Held { .. }
                | Self::HoldEnded { .. }
                | Self::UsageLimited { .. }
                | Self::UsageRestored
                | Self::Link(LinkNote::Live { .. } | LinkNote::Lost { .. })
        )
    }

    /// Its kind: notes of one kind share a limit. The name of its variant, and of what varies in
    /// meaning within it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Link(link) => link.kind(),
            Self::Subscription { phase, .. } => phase.kind(),
            Self::Gap { .. } => "gap",
            Self::Behind { .. } => "behind",
            Self::Lagging { .. } => "lagging",
            Self::CaughtUp { .. } => "caught up",
            Self::ReadFailed { .. } => "read failed",
            Self::Missed { .. } => "missed",
            Self::Unaudited { .. } => "unaudited",
            Self::DedupShort { .. } => "dedup short",
            Self::RecordAhead { .. } => "record ahead",
            Self::NotPersisted => "not persisted",
            Self::AnswersUnread => "answers unread",
            Self::Refused { why, .. } => why.kind(),
            Self::BadFrame { .. } => "bad frame",
            Self::Notice { .. } => "notice",
            Self::Throttled { quota, .. } => quota.kind(),
            Self::RosterFailed { .. } => "roster failed",
            Self::Joined { .. } => "joined",
            Self::Left { .. } => "left",
            Self::Unpublished { .. } => "unpublished",
            Self::NotShown { what } => what.kind(),
            Self::WorkerUp { .. } => "worker up",
            Self::WorkerDown { .. } => "worker down",
            Self::TurnStarted { .. } => "turn started",
            Self::TurnRetried { .. } => "turn retried",
            Self::ContextUnread { .. } => "context unread",
            Self::Held { .. } => "held",
            Self::HoldEnded { .. } => "hold ended",
            Self::UsageLimited { .. } => "usage limited",
            Self::UsageRestored => "usage restored",
            Self::BreakerOpened { .. } => "breaker opened",
            Self::TurnEnded { .. } => "turn ended",
            Self::Controlled { .. } => "controlled",
            Self::NothingToControl { .. } => "nothing to control",
            Self::HandedBack { .. } => "handed back",
            Self::Stale { what } => what.kind(),
            Self::ClockStepped { .. } => "clock stepped",
            Self::ClockSkew { .. } => "clock skew",
            Self::Repeated { .. } => "repeated",
        }
    }
}

/// What a stale completion was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StaleWhat {
    /// A socket.
    Connection,
    /// A write.
    Write,
    /// A signature.
    Signature,
    /// A verification.
    Verification,
    /// An HTTP call.
    Call,
    /// A receipt.
    Receipt,
    /// A subscription.
    Subscription,
    /// A worker.
    Worker,
    /// A turn.
    Turn,
    /// A job.
    Job,
    /// An event.
    Event,
    /// An input for a part that this machine does not have.
    Part,
}

impl StaleWhat {
    const fn kind(self) -> &'static str {
        match self {
            Self::Connection => "stale: connection",
            Self::Write => "stale: write",
            Self::Signature => "stale: signature",
            Self::Verification => "stale: verification",
            Self::Call => "stale: call",
            Self::Receipt => "stale: receipt",
            Self::Subscription => "stale: subscription",
            Self::Worker => "stale: worker",
            Self::Turn => "stale: turn",
            Self::Job => "stale: job",
            Self::Event => "stale: event",
            Self::Part => "stale: part",
        }
    }
}

impl fmt::Display for Note {
    /// One line for people: the kind and its facts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write(self, f)
    }
}
