//! The subscriptions: one row each, from the wish to the confirmation and over any number of
//! sockets.
//!
//! A subscription is wanted, requested, live, waiting or refused; every phase that is not final
//! has a deadline. A request is confirmed by its EOSE. Its wire name is never used twice, so that
//! frames of an older request cannot be taken for those of a newer one.

use alloc::collections::BTreeMap;
use core::time::Duration;

use super::history::loss::Window;
use super::names::Names;
use super::sub_row::{Floor, Phase, Row};
use super::{Interest, Limits, Sub};
use crate::gate::Generation;
use crate::ids::{EventId, PubKey, WriteId};
use crate::time::{MonoTime, Now, UnixTime};
use crate::wire::{Event, Reason, ReasonClass, SubName};

/// A relay that fails to answer so often in a row is not listening to this socket.
const EXPIRIES_MAX: u32 = 3;
/// Errors of the relay's own: its database may be back in a second, or in a while.
const ERROR_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

#[derive(Clone, Debug)]
pub(super) struct Subs {
    pub(super) rows: BTreeMap<Sub, Row>,
    pub(super) names: Names,
    /// Requests in a row that were not answered.
    expiries: u32,
}

/// A relay that refuses for good may have been asked before it knew of a membership.
const ONCE_MORE: Duration = Duration::from_secs(90);
/// From then on, because nobody may tell when it changes its mind.
const NOW_AND_THEN: Duration = Duration::from_secs(3600);

/// Whose frame it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Current(Sub),
    Page(u64),
    Superseded,
}

/// How a refused request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// As soon as the gate lets it.
    Gate,
    /// After a wait of its own.
    Later,
    /// Not before something changes.
    Never,
}

/// What became of a request that was not answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// It brought events, so it stands; its history may have a gap.
    Live(Sub),
    /// It is asked anew.
    Again(Sub),
    /// It is asked anew, and the relay does not listen to this socket.
    Deaf(Sub),
}

impl Subs {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            rows: BTreeMap::new(),
            names: Names::new(limits),
            expiries: 0,
        }
    }

    pub(super) fn contains(&self, sub: Sub) -> bool {
        self.rows.contains_key(&sub)
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn row(&self, sub: Sub) -> Option<&Row> {
        self.rows.get(&sub)
    }

    pub(super) fn row_mut(&mut self, sub: Sub) -> Option<&mut Row> {
        self.rows.get_mut(&sub)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Sub, &Row)> {
        self.rows.iter().map(|(sub, row)| (*sub, row))
    }

    pub(super) fn live_count(&self) -> usize {
        self.rows
            .values()
            .filter(|row| matches!(row.phase, Phase::Live { .. }))
            .count()
    }

    /// Keeps a subscription from now on; a known one that the relay refused is asked again.
    pub(super) fn want(&mut self, sub: Sub, interest: Interest, floor: Floor) {
        let row = self
            .rows
            .entry(sub)
            .or_insert_with(|| Row::new(Interest::default(), floor, ERROR_WAIT));
        row.is_doubtful = false;
        let same = row.interest == interest;
        if let (false, Floor::At(floor)) = (same, floor) {
            // What is wanted now was not looked for before.
            row.read_to = row.read_to.map(|read_to| read_to.min(floor));
            row.floor = row.floor.lowered(floor);
        }
        row.interest = interest;
        let stands = matches!(row.phase, Phase::Requested(_) | Phase::Live { .. });
        if !(same && stands) {
            let superseded = row.phase.name(sub);
            row.phase = Phase::Wanted;
            self.names.supersede(superseded);
        }
    }

    /// Lets a subscription go. False when there is none.
    pub(super) fn forget(&mut self, sub: Sub) -> bool {
        let Some(row) = self.rows.remove(&sub) else {
            return false;
        };
        self.names.supersede(row.phase.name(sub));
        true
    }

    /// The socket is over: what was asked over it is asked anew.
    pub(super) fn reset(&mut self) {
        self.names.reset();
        self.expiries = 0;
        for row in self.rows.values_mut() {
            row.was_asked = false;
            match row.phase {
                Phase::Requested(_) | Phase::Live { .. } => row.phase = Phase::Wanted,
                Phase::Wanted | Phase::Waiting { .. } | Phase::Refused { .. } => {}
            }
        }
    }

    /// Anything may be missing from what is live: all of it is read again.
    pub(super) fn doubt(&mut self, now: MonoTime, limits: &Limits) {
        for row in self.rows.values_mut() {
            if let Phase::Requested(request) = &mut row.phase {
                request.has_failed = true;
            }
            if matches!(row.phase, Phase::Live { .. }) {
                let base = row.base(limits);
                let mut window = Window::from(base.unwrap_or_default());
                window.by_signal = true;
                window.is_known = row.known >= Some(window.from);
                window.ends_at_known = base.is_none();
                row.loss.open(window, now);
            }
        }
    }

    /// Whether the reads because of a signal are not at their end. What is refused is not read.
    pub(super) fn are_doubted(&self) -> bool {
        self.rows
            .values()
            .any(|row| row.loss.has_signal_window() && !matches!(row.phase, Phase::Refused { .. }))
    }

    /// What waited for authentication waits no more.
    pub(super) fn rearm_waiting(&mut self) {
        for row in self.rows.values_mut() {
            if matches!(row.phase, Phase::Waiting { .. }) {
                row.phase = Phase::Wanted;
            }
        }
    }

    /// What is known of the channel of a refused subscription has changed: it is asked for at once.
    pub(super) fn rearm(&mut self, sub: Sub) {
        let Some(row) = self.rows.get_mut(&sub) else {
            return;
        };
        if matches!(row.phase, Phase::Refused { .. }) {
            row.is_doubtful = false;
            row.phase = Phase::Wanted;
        }
    }

    /// Whose CLOSED it is that names `name`; nothing when it was never ours.
    pub(super) fn origin_of_closed(&self, name: &SubName) -> Option<Origin> {
        let (sub, n) = match name {
            SubName::Channel { channel, n } => (Sub::Channel(*channel), *n),
            SubName::Membership { n } => (Sub::Membership, *n),
            SubName::Page { n } => return self.names.is_former(*n).then_some(Origin::Page(*n)),
            SubName::Other(_) => return None,
        };
        if self.rows.get(&sub).and_then(|row| row.phase.n()) == Some(n) {
            return Some(Origin::Current(sub));
        }
        self.names.is_former(n).then_some(Origin::Superseded)
    }

    /// Whose EVENT or EOSE it is; a superseded request that still brings some is closed again.
    /// Whether a page is superseded only its reader knows.
    pub(super) fn origin(&mut self, name: &SubName) -> Option<Origin> {
        let origin = self.origin_of_closed(name)?;
        if let (Origin::Superseded, SubName::Channel { n, .. } | SubName::Membership { n }) =
            (origin, name)
        {
            self.names.brought(*n, name);
        }
        Some(origin)
    }

    /// Whether an event is one that its request asked for.
    pub(super) fn matches(&self, sub: Sub, me: PubKey, event: &Event) -> bool {
        let Some(row) = self.rows.get(&sub) else {
            return false;
        };
        match &row.phase {
            Phase::Requested(request) => request.filter.matches(event),
            Phase::Live { since, .. } => row.filter(sub, me, *since, None).matches(event),
            // Nothing that comes belongs to it.
            Phase::Wanted | Phase::Waiting { .. } | Phase::Refused { .. } => false,
        }
    }

    /// Counts an event towards the history of a request that has not ended.
    pub(super) fn brought(&mut self, sub: Sub, event: &Event) {
        let Some(row) = self.rows.get_mut(&sub) else {
            return;
        };
        if let Phase::Requested(request) = &mut row.phase {
            request.newest.add(event);
        }
    }

    /// A live frame brought an event that could not be kept: what may hold more of them is read.
    pub(super) fn could_not_keep(
        &mut self,
        sub: Sub,
        dated: UnixTime,
        relay_time: Option<UnixTime>,
        now: MonoTime,
        limits: &Limits,
    ) {
        let Some(row) = self.rows.get_mut(&sub) else {
            return;
        };
        if let Phase::Requested(request) = &mut row.phase {
            request.has_failed = true;
            return;
        }
        let reach = relay_time.map(|relay_time| relay_time.before(limits.drift));
        let from = reach.or_else(|| row.base(limits));
        let mut window = Window::from(from.unwrap_or_default());
        window.ends_at_known = from.is_none();
        window.known_below = dated;
        window.is_known = true;
        row.loss.open(window, now);
    }

    /// Whether an event that a live frame brought is older than what is owed.
    pub(super) fn precedes_floor(&self, sub: Sub, dated: UnixTime) -> bool {
        let Some(row) = self.rows.get(&sub) else {
            return false;
        };
        let is_history = row.is_first && matches!(row.phase, Phase::Requested(_));
        is_history && row.floor.date().is_none_or(|floor| dated < floor)
    }

    /// Whether an event that a page brought is owed: what was lost is, and else what is not older
    /// than the floor of a first read.
    pub(super) fn is_owed_of_page(&self, sub: Sub, id: EventId, dated: UnixTime) -> bool {
        let row = self.rows.get(&sub).filter(|row| row.is_first);
        row.is_none_or(|row| {
            let precedes = row.floor.date().is_some_and(|floor| dated < floor);
            !precedes || row.loss.get(id).is_some()
        })
    }

    /// The history of a request has ended. False when it had ended before.
    /// `most` is the largest page that the relay gives, as far as it has told.
    pub(super) fn confirmed(
        &mut self,
        sub: Sub,
        most: Option<u32>,
        limits: &Limits,
        now: MonoTime,
    ) -> bool {
        self.expiries = 0;
        let row = self.rows.get_mut(&sub);
        row.is_some_and(|row| row.become_live((true, most), limits, now))
    }

    /// The relay ended or refused the current request. One that is refused for good is asked for once
    /// more, and then once an hour.
    pub(super) fn refused(&mut self, sub: Sub, retry: Retry, now: MonoTime) {
        let Some(row) = self.rows.get_mut(&sub) else {
            return;
        };
        self.expiries = 0;
        row.phase = match retry {
            Retry::Gate => Phase::Wanted,
            Retry::Later => Phase::Waiting {
                until: now.after(row.ladder.climb()),
            },
            Retry::Never => {
                let was_doubtful = core::mem::replace(&mut row.is_doubtful, true);
                let wait = if was_doubtful {
                    NOW_AND_THEN
                } else {
                    ONCE_MORE
                };
                Phase::Refused {
                    until: now.after(wait),
                }
            }
        };
    }

    /// At which generation of the gate the current request was sent.
    pub(super) fn stamp(&self, sub: Sub) -> Option<Generation> {
        match &self.rows.get(&sub)?.phase {
            Phase::Requested(request) => Some(request.stamp),
            Phase::Wanted | Phase::Live { .. } | Phase::Waiting { .. } | Phase::Refused { .. } => {
                None
            }
        }
    }

    /// A request did not leave.
    pub(super) fn not_sent(&mut self, write: WriteId) {
        for row in self.rows.values_mut() {
            if matches!(&row.phase, Phase::Requested(request) if request.write == write) {
                row.phase = Phase::Wanted;
            }
        }
    }

    /// A request left for the relay: its confirmation is due from now on.
    pub(super) fn written(&mut self, write: WriteId, now: MonoTime) {
        for row in self.rows.values_mut() {
            if let Phase::Requested(request) = &mut row.phase
                && request.write == write
            {
                request.written = Some(now);
            }
        }
    }

    /// A request whose confirmation is overdue.
    pub(super) fn expired(&mut self, limits: &Limits, now: &mut Now) -> Option<Expiry> {
        let (sub, row) = self
            .rows
            .iter_mut()
            .find(|(_, row)| row.is_overdue(limits, now))?;
        let sub = *sub;
        let Phase::Requested(request) = &mut row.phase else {
            return None;
        };
        if !request.newest.is_empty() {
            self.expiries = 0;
            row.become_live((false, None), limits, now.time());
            return Some(Expiry::Live(sub));
        }
        request.is_overdue = true;
        row.confirmations = row.confirmations.saturating_add(1);
        self.expiries = self.expiries.saturating_add(1);
        Some(if self.expiries >= EXPIRIES_MAX {
            Expiry::Deaf(sub)
        } else {
            Expiry::Again(sub)
        })
    }
}

impl Row {
    /// Ends the history of the request under way. False when there is none.
    fn become_live(&mut self, ending: (bool, Option<u32>), limits: &Limits, now: MonoTime) -> bool {
        let Phase::Requested(request) = &self.phase else {
            return false;
        };
        let live = Phase::Live {
            n: request.n,
            since: request.filter.since,
        };
        if let Phase::Requested(request) = core::mem::replace(&mut self.phase, live) {
            self.end_read(&request, ending, limits, now);
        }
        self.confirmations = 0;
        self.is_doubtful = false;
        self.ladder.reset();
        true
    }
}

/// How a request that was answered with CLOSED goes on. What the relay may think better of is
/// asked again; what is wrong with the request or with this key stays wrong until something
/// changes.
pub(super) const fn retry_after(reason: &Reason) -> Retry {
    match reason.class {
        ReasonClass::RateLimited => Retry::Gate,
        ReasonClass::Empty
        | ReasonClass::Duplicate
        | ReasonClass::AuthRequired(_)
        | ReasonClass::Error(_)
        | ReasonClass::Relay
        | ReasonClass::HttpAuth(_)
        | ReasonClass::Unknown => Retry::Later,
        ReasonClass::Restricted(_)
        | ReasonClass::Blocked
        | ReasonClass::Invalid(_)
        | ReasonClass::Pow
        | ReasonClass::Unsupported => Retry::Never,
    }
}
