//! One subscription: what is wanted, from when on, how far it has come, and what it owes.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::time::Duration;

use super::history::loss::{Doubts, Loss, Window};
use super::{Interest, Limits, Sub};
use crate::backoff::Ladder;
use crate::gate::Generation;
use crate::ids::{EventId, PubKey, WriteId};
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::{Event, Filter, SubName};

/// Notices about this agent's membership (kinds of the Buzz relay).
pub(super) const MEMBER_ADDED: u32 = 44_100;
pub(super) const MEMBER_REMOVED: u32 = 44_101;

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) interest: Interest,
    /// Events dated before this are not owed.
    pub(super) floor: Floor,
    /// What is dated before this was read, or is among what is owed.
    pub(super) read_to: Option<UnixTime>,
    /// Whether the first read is under way: what it brings may not be owed.
    pub(super) is_first: bool,
    /// The newest date among what was delivered.
    pub(super) known: Option<UnixTime>,
    pub(super) loss: Loss,
    pub(super) phase: Phase,
    pub(super) ladder: Ladder,
    pub(super) confirmations: u32,
    /// Whether it was asked for on the present socket.
    pub(super) was_asked: bool,
    /// Whether it was refused since something spoke for it last.
    pub(super) is_doubtful: bool,
}

/// From when on events are owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Floor {
    At(UnixTime),
    /// As `At`, and there is nothing to be learnt from what lies before it.
    Known(UnixTime),
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

#[derive(Clone, Debug)]
pub(super) enum Phase {
    Wanted,
    Requested(Box<Request>),
    Live {
        n: u64,
        /// That of its request. It holds for what comes live as well: only so can what was
        /// delivered long ago, and forgotten since, not be delivered again.
        since: Option<UnixTime>,
    },
    Waiting {
        until: MonoTime,
    },
    /// It is asked for again then, or when something changes.
    Refused {
        until: MonoTime,
    },
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
    pub(super) newest: Newest,
    /// The newest date among what was delivered before it was sent.
    pub(super) known: Option<UnixTime>,
    /// Whether it brought something that could not be kept.
    pub(super) has_failed: bool,
    /// Whether it was not answered in time. A late answer still counts.
    pub(super) is_overdue: bool,
    pub(super) filter: Filter,
}

/// The newest of the distinct events that a request brought, as many as it asked for.
#[derive(Clone, Debug)]
pub(super) struct Newest {
    limit: usize,
    events: BTreeSet<(UnixTime, core::cmp::Reverse<EventId>)>,
}

impl Request {
    /// Whether nothing came that is as old as what is known, although it was asked for.
    fn lacks(&self, known: Option<UnixTime>) -> bool {
        let asked = known.filter(|known| self.filter.since.is_none_or(|since| *known >= since));
        asked.is_some_and(|known| self.newest.oldest().is_none_or(|oldest| oldest > known))
    }
}

impl Newest {
    pub(super) const fn new(limit: usize) -> Self {
        let events = BTreeSet::new();
        Self { limit, events }
    }

    pub(super) fn add(&mut self, event: &Event) {
        let id = core::cmp::Reverse(event.id());
        self.events.insert((event.created_at(), id));
        if self.events.len() > self.limit {
            self.events.pop_first();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    fn oldest(&self) -> Option<UnixTime> {
        self.events.first().map(|(dated, _)| *dated)
    }

    /// How far a history that may hold more was read: the last of the newest, in the order of a
    /// relay (by date, the newest first, then by id). Nothing when there was room for more. Live
    /// events may be among them, so the oldest that came proves nothing. `most` is the largest
    /// page that the relay gives, as far as it has told.
    pub(super) fn end(&self, most: Option<u32>) -> Option<(UnixTime, EventId)> {
        let (dated, id) = self.events.first()?;
        let most = most.map_or(usize::MAX, |most| most as usize);
        (self.events.len() >= self.limit.min(most)).then_some((*dated, id.0))
    }
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
            (Self::Start { .. }, None) | (Self::At(_) | Self::Known(_), _) => self,
        }
    }

    /// The floor, if it is not above this one.
    pub(super) fn lowered(self, to: UnixTime) -> Self {
        match self {
            Self::At(date) => Self::At(date.min(to)),
            Self::Known(date) => Self::Known(date.min(to)),
            Self::Start { .. } => Self::At(to),
        }
    }

    pub(super) const fn date(self) -> Option<UnixTime> {
        match self {
            Self::At(date) | Self::Known(date) => Some(date),
            Self::Start { .. } => None,
        }
    }
}

impl Row {
    pub(super) fn new(interest: Interest, floor: Floor, wait: (Duration, Duration)) -> Self {
        Self {
            interest,
            floor,
            read_to: None,
            is_first: true,
            known: None,
            loss: Loss::new(),
            phase: Phase::Wanted,
            ladder: Ladder::new(wait.0, wait.1),
            confirmations: 0,
            was_asked: false,
            is_doubtful: false,
        }
    }

    /// Where the next read begins, what is owed from before apart.
    pub(super) fn base(&self, limits: &Limits) -> Option<UnixTime> {
        self.read_to.or_else(|| match self.floor {
            // What is dated before the floor and known before the end of the first read is not
            // taken for something new later.
            Floor::At(date) => Some(date.before(limits.drift)),
            Floor::Known(date) => Some(date),
            Floor::Start { .. } => None,
        })
    }

    /// Everything dated before this was received, as far as the relay's word goes.
    pub(super) fn received(&self, limits: &Limits) -> Option<UnixTime> {
        let base = self.base(limits)?;
        Some(self.loss.oldest().map_or(base, |oldest| base.min(oldest)))
    }

    /// As [`received`](Self::received), for the next life: what is not owed is not counted.
    pub(super) fn received_owed(&self) -> Option<UnixTime> {
        let (base, oldest) = if self.is_first {
            // A window of the first read reaches back beyond what is owed.
            (self.floor.date()?, self.loss.oldest_id())
        } else {
            let start = self.read_to.or_else(|| self.floor.date());
            (start.unwrap_or_default(), self.loss.oldest())
        };
        Some(oldest.map_or(base, |oldest| base.min(oldest)))
    }

    /// The `since` of a live request. The relay compares it with the dates of live events too, and
    /// those may lie behind by the drift.
    fn since(&self, relay_time: UnixTime, limits: &Limits) -> Option<UnixTime> {
        let latest = relay_time.before(limits.drift);
        self.received(limits).map(|received| received.min(latest))
    }

    /// The filter of the next live request.
    pub(super) fn live_filter(
        &self,
        sub: Sub,
        me: PubKey,
        relay_time: Option<UnixTime>,
        limits: &Limits,
    ) -> Filter {
        let since = relay_time.and_then(|relay_time| self.since(relay_time, limits));
        self.filter(sub, me, since, Some(limits.live_page))
    }

    /// The history of a request has ended, or will not: what it leaves open is recorded.
    pub(super) fn end_read(
        &mut self,
        request: &Request,
        (has_ended, most): (bool, Option<u32>),
        limits: &Limits,
        now: MonoTime,
    ) {
        let base = self.base(limits);
        let is_sound = has_ended && !request.has_failed;
        let end = request.newest.end(most).map(|(dated, _)| dated);
        let is_hollow = end.is_none() && request.lacks(request.known);
        if is_sound && (request.newest.is_empty() || is_hollow) {
            return self.end_empty_read(request, base, now);
        }
        let mut window = Window::from(base.unwrap_or_default());
        window.by_connection = true;
        window.is_known = true;
        match (is_sound, end, base) {
            (true, None, _) => {}
            (true, Some(end), Some(base)) if end < base => {}
            // What precedes the first read is not owed where nobody knows the time.
            (_, Some(end), None) if self.is_first => self.floor = Floor::Known(end),
            (false, None, None) if self.is_first => {}
            (_, _, base) => {
                window.position = if is_sound { end } else { None };
                window.ends_at_known = base.is_none();
                self.loss.open(window, now);
            }
        }
        if let Some(begun) = request.begun {
            self.move_cursor(begun, limits);
        }
        self.is_first &= self.loss.has_windows();
    }

    /// All that is stored was read, by a read that began at this second of the relay's time.
    pub(super) fn move_cursor(&mut self, begun: UnixTime, limits: &Limits) {
        // A cursor from a relay clock that was ahead would hide what is sent until then.
        let former = self.read_to.filter(|read_to| *read_to <= begun);
        self.read_to = former.max(Some(begun.before(limits.drift)));
    }

    /// A history with nothing in it, or nothing but what may have come live meanwhile. A relay
    /// whose database fails answers so too: nothing is taken as read, and where something is known
    /// to be it is read again.
    fn end_empty_read(&mut self, request: &Request, base: Option<UnixTime>, now: MonoTime) {
        let is_empty = request.newest.is_empty();
        let known = if is_empty { self.known } else { request.known };
        let is_wrong = request.lacks(known);
        if is_wrong {
            let mut window = Window::from(base.unwrap_or_default());
            window.by_connection = true;
            window.is_known = true;
            window.ends_at_known = base.is_none();
            window.doubts = Doubts::default();
            window.doubts.add(now);
            self.loss.open(window, now);
        }
        self.read_to = self.read_to.or(base);
        self.is_first &= self.loss.has_windows();
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
        let Some(written) = request.written.filter(|_| !request.is_overdue) else {
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
            Self::Live { n, .. } => Some(*n),
            Self::Wanted | Self::Waiting { .. } | Self::Refused { .. } => None,
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
