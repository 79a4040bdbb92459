//! One job: what it publishes, where it stands, what it weighs.

use alloc::string::String;
use core::time::Duration;

use super::retry::History;
use super::{Body, Class, LatestKey, Route};
use crate::ids::{JobId, Ticket};
use crate::note::Shown;
use crate::time::{MonoTime, UnixTime};
use crate::wire::{Draft, Event};

/// What a row weighs beside its texts: author, id, signature and field names of a signed event.
const ROW_BYTES: u64 = 512;
/// How far ahead of our clock a draft may be dated. Parts of an answer are dated a second apart to
/// keep their order; a date further ahead comes from a clock that was set back since. A third of
/// what a Buzz relay takes (900 s), so that there is room for a clock that is wrong.
pub(crate) const AHEAD_MAX: Duration = Duration::from_secs(300);
/// Kinds that no relay keeps (NIP-01), so that none can be asked for them.
const EPHEMERAL: core::ops::Range<u32> = 20_000..30_000;

/// One job.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) sort: Sort,
    pub(super) content: Content,
    pub(super) expires: MonoTime,
    pub(super) history: History,
    pub(super) route: Route,
    pub(super) phase: Phase,
    /// Its place among those of its rank; the submission's, until it goes behind the others.
    pub(super) place: u64,
    pub(super) submitted: u64,
    pub(super) bytes: u64,
}

/// What sort of job it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Kept until it has a verdict.
    Durable,
    /// Only the newest of its key matters.
    Latest(LatestKey),
    /// A step towards a mark that is wanted. There is one at most.
    Mark,
}

/// Who goes before whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// What people wait for.
    Durable,
    /// What is only good to see.
    Cosmetic,
}

/// What a job publishes.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// An event signed by the caller, and when it came.
    Signed(Event, MonoTime),
    /// A draft, and its last signature with the time it was asked for.
    Draft {
        draft: Draft,
        signed: Option<Signature>,
    },
}

/// A signed event, and when its signature was asked for.
pub(super) type Signature = (Event, MonoTime);

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It waits its turn.
    Ready,
    /// It waits before it waits its turn.
    Resting { until: MonoTime },
    /// It waits for the relay to be asked whether it is stored.
    Unsure,
    /// Its draft is at the signer.
    Signing { ticket: Ticket },
    /// Its post awaits the answer.
    Posting { ticket: Ticket },
    /// The relay is asked whether it is stored.
    LookingUp { ticket: Ticket },
    /// Its EVENT awaits the receipt.
    Sending { ticket: Ticket },
}

impl Phase {
    /// Whether the event is out, so that it can be stored at any moment.
    pub(super) const fn is_out(self) -> bool {
        matches!(self, Self::Posting { .. } | Self::Sending { .. })
    }

    /// Whether a call over HTTP is under way for it.
    pub(super) const fn is_asking(self) -> bool {
        matches!(self, Self::Posting { .. } | Self::LookingUp { .. })
    }
}

impl Sort {
    pub(super) const fn of(class: Class) -> Self {
        match class {
            Class::Durable => Self::Durable,
            Class::Latest(key) => Self::Latest(key),
        }
    }

    pub(super) const fn rank(self) -> Rank {
        match self {
            Self::Durable => Rank::Durable,
            Self::Latest(_) | Self::Mark => Rank::Cosmetic,
        }
    }

    /// What people do not see when there is no room for it.
    pub(super) const fn shown(self) -> Option<Shown> {
        match self {
            Self::Durable => None,
            Self::Latest(LatestKey::Presence) => Some(Shown::Presence),
            Self::Latest(LatestKey::Typing(_)) => Some(Shown::Typing),
            Self::Mark => Some(Shown::Reaction),
        }
    }
}

impl Row {
    /// A row for a job, not yet in the outbox.
    pub(super) fn new(
        sort: Sort,
        route: Route,
        content: Content,
        expires: MonoTime,
        stored: u64,
    ) -> Self {
        Self {
            bytes: weight(&content),
            history: History::new(stored),
            phase: Phase::Ready,
            place: 0,
            submitted: 0,
            sort,
            content,
            expires,
            route,
        }
    }

    pub(super) const fn phase(&self) -> Phase {
        self.phase
    }

    /// The event as it can be sent, and since when its signature is known.
    pub(super) const fn signature(&self) -> Option<(&Event, MonoTime)> {
        match &self.content {
            Content::Signed(event, at)
            | Content::Draft {
                signed: Some((event, at)),
                ..
            } => Some((event, *at)),
            Content::Draft { signed: None, .. } => None,
        }
    }

    /// Whether it can be signed anew.
    pub(super) const fn is_draft(&self) -> bool {
        matches!(self.content, Content::Draft { .. })
    }

    /// Whether the job was sent and may be stored, for all that is known.
    pub(super) const fn may_be_stored(&self) -> bool {
        self.history.is_doubtful || self.phase.is_out()
    }

    /// Whether asking the relay for the event would tell whether it was taken, and is worth a call.
    pub(super) fn can_be_found(&self) -> bool {
        let kind = self.signature().map(|(event, _)| event.head().kind);
        !matches!(self.sort, Sort::Latest(_)) && kind.is_some_and(|kind| !EPHEMERAL.contains(&kind))
    }

    pub(super) const fn key(&self, job: JobId) -> Key {
        Key {
            rank: self.sort.rank(),
            place: self.place,
            job,
        }
    }

    /// Weighs it anew.
    pub(super) fn weigh(&mut self) {
        self.bytes = weight(&self.content);
    }
}

impl Content {
    pub(super) fn of(body: Body, now: MonoTime) -> Self {
        match body {
            Body::Signed(event) => Self::Signed(event, now),
            Body::SignWhenSent(draft) => Self::Draft {
                draft,
                signed: None,
            },
        }
    }
}

/// The order in which jobs take their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) rank: Rank,
    pub(super) place: u64,
    pub(super) job: JobId,
}

impl Key {
    /// The first there can be of a rank.
    pub(super) const fn first(rank: Rank) -> Self {
        Self {
            rank,
            place: 0,
            job: JobId(0),
        }
    }
}

/// The draft as it is to be signed at `wall`: dated then, unless it is to come after another part.
pub(super) fn dated(draft: &Draft, wall: Option<UnixTime>) -> Draft {
    let mut draft = draft.clone();
    if let Some(wall) = wall
        && !(wall..=wall.after(AHEAD_MAX)).contains(&draft.created_at)
    {
        draft.created_at = wall;
    }
    draft
}

fn weight(content: &Content) -> u64 {
    let bytes = match content {
        Content::Signed(event, _) => event.raw().len(),
        Content::Draft { draft, signed } => {
            let cell = size_of::<String>();
            let tags = draft
                .tags
                .iter()
                .flatten()
                .map(|text| text.len().saturating_add(cell));
            let signed = signed.as_ref().map_or(0, |(event, _)| event.raw().len());
            tags.fold(draft.content.len(), usize::saturating_add)
                .saturating_add(signed)
        }
    };
    ROW_BYTES.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX))
}
