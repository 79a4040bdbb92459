//! One subscription: what is wanted, from when on, and how far it has come.

use alloc::boxed::Box;
use core::time::Duration;

use super::{Interest, Limits, Sub};
use crate::backoff::Ladder;
use crate::gate::Generation;
use crate::ids::{PubKey, WriteId};
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::{Filter, SubName};

/// Notices about this agent's membership (kinds of the Buzz relay).
pub(super) const MEMBER_ADDED: u32 = 44_100;
pub(super) const MEMBER_REMOVED: u32 = 44_101;

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) interest: Interest,
    /// Events dated before this are not owed.
    pub(super) floor: Floor,
    /// What lies before this has been read, as far as the relay's word goes.
    pub(super) received: Option<UnixTime>,
    /// What lies before this has been read or came live, by the clock of a socket that is over.
    pub(super) lived: Option<UnixTime>,
    /// Whether a read was completed: what a later one brings is owed, or known.
    pub(super) was_read: bool,
    pub(super) phase: Phase,
    pub(super) ladder: Ladder,
    pub(super) confirmations: u32,
    /// Whether a refusal was questioned once without new evidence.
    pub(super) questioned: bool,
}

/// From when on events are owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Floor {
    At(UnixTime),
    /// So long before an instant whose date is not known until the relay's time is.
    Start {
        at: MonoTime,
        look_back: Duration,
    },
}

/// Both clocks are cut to whole seconds: without one more the second of the start would be lost.
const CUT: Duration = Duration::from_secs(1);

/// How a request is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) write: WriteId,
    pub(super) stamp: Generation,
    pub(super) now: MonoTime,
    pub(super) relay_time: Option<UnixTime>,
}

/// What the end of a history says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum History {
    Whole,
    /// It may hold more than was asked for: what is older than `to` may be missing.
    Cut {
        from: UnixTime,
        to: UnixTime,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Phase {
    Wanted,
    Requested(Box<Request>),
    Live { n: u64 },
    Waiting { until: MonoTime },
    Refused,
}

/// A request under way, and what it has brought so far.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) n: u64,
    pub(super) write: WriteId,
    pub(super) stamp: Generation,
    pub(super) written: Option<MonoTime>,
    /// The relay's time when it was sent.
    pub(super) begun: Option<UnixTime>,
    pub(super) brought: u32,
    /// Whether it brought something that was known already.
    pub(super) overlaps: bool,
    pub(super) oldest: Option<UnixTime>,
    pub(super) filter: Filter,
}

impl Floor {
    /// From this instant on.
    pub(super) const fn after(at: MonoTime) -> Self {
        let look_back = Duration::ZERO;
        Self::Start { at, look_back }
    }

    /// The floor as a date, where the relay's time is known.
    pub(super) fn dated(self, sending: &Sending) -> Self {
        match (self, sending.relay_time) {
            (Self::Start { at, look_back }, Some(relay_time)) => {
                let ago = sending
                    .now
                    .saturating_since(at)
                    .saturating_add(look_back)
                    .saturating_add(CUT);
                Self::At(relay_time.before(ago))
            }
            (Self::Start { .. }, None) | (Self::At(_), _) => self,
        }
    }

    pub(super) const fn date(self) -> Option<UnixTime> {
        match self {
            Self::At(date) => Some(date),
            Self::Start { .. } => None,
        }
    }
}

impl Row {
    /// What may be missing between the last read and a history that may have been cut. The newest
    /// events come first, so one that reaches back far enough has left nothing out. A known event
    /// alone does not show that it does: it may be dated ahead.
    pub(super) fn cut(&self, request: &Request, limits: &Limits) -> Option<History> {
        let oldest = request.oldest?;
        if request.brought < limits.page {
            return None;
        }
        let from = match self.received.max(self.lived).or_else(|| self.floor.date()) {
            Some(from) => from,
            // Without the relay's time a known event is the only evidence.
            None if self.was_read && !request.overlaps => UnixTime::default(),
            None => return None,
        };
        (oldest > from).then_some(History::Cut { from, to: oldest })
    }

    pub(super) fn filter(
        &self,
        sub: Sub,
        me: PubKey,
        since: Option<UnixTime>,
        limit: Option<u32>,
    ) -> Filter {
        let base = Filter {
            since,
            limit,
            ..Filter::default()
        };
        match sub {
            Sub::Membership => Filter {
                kinds: [MEMBER_ADDED, MEMBER_REMOVED].into_iter().collect(),
                mention: Some(me),
                ..base
            },
            Sub::Channel(channel) => Filter {
                kinds: self.interest.kinds.clone(),
                channel: Some(channel),
                mention: self.interest.mention,
                ..base
            },
        }
    }

    pub(super) fn is_overdue(&self, limits: &Limits, now: &mut Now) -> bool {
        let Phase::Requested(request) = &self.phase else {
            return false;
        };
        let Some(written) = request.written else {
            return false;
        };
        let doublings = 1_u32.checked_shl(self.confirmations).unwrap_or(u32::MAX);
        let limit = limits
            .confirmation
            .saturating_mul(doublings)
            .min(limits.confirmation_top);
        now.reached(written.after(limit), Why::Confirmation)
    }
}

impl Phase {
    pub(super) const fn n(&self) -> Option<u64> {
        match self {
            Self::Requested(request) => Some(request.n),
            Self::Live { n } => Some(*n),
            Self::Wanted | Self::Waiting { .. } | Self::Refused => None,
        }
    }

    pub(super) fn name(&self, sub: Sub) -> Option<(u64, SubName)> {
        self.n().map(|n| (n, name(sub, n)))
    }
}

pub(super) const fn name(sub: Sub, n: u64) -> SubName {
    match sub {
        Sub::Channel(channel) => SubName::Channel { channel, n },
        Sub::Membership => SubName::Membership { n },
    }
}
