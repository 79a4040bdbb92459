//! The subscriptions: one row each, from the wish to the confirmation and over any number of
//! sockets.
//!
//! A subscription is wanted, requested, live, waiting or refused; every phase that is not final
//! has a deadline. A request is confirmed by its EOSE. Its wire name is never used twice, so that
//! frames of an older request cannot be taken for those of a newer one.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use super::sub_row::{Floor, History, Phase, Request, Row, Sending, name};
use super::{Interest, Limits, Sub};
use crate::backoff::Ladder;
use crate::dedup::Cursor;
use crate::gate::Generation;
use crate::ids::{PubKey, WriteId};
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::{Event, Filter, Reason, ReasonClass, SubName};

/// A relay that fails to answer so often in a row is not listening to this socket.
const EXPIRIES_MAX: u32 = 3;
/// Errors of the relay's own: its database may be back in a second, or in a while.
const ERROR_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Names of superseded requests that still bring frames; or as many as there may be subscriptions.
const STRAYS_MIN: usize = 64;
/// A CLOSE that overtook its REQ is sent again after this.
const STRAY_WAIT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(super) struct Subs {
    rows: BTreeMap<Sub, Row>,
    next: u64,
    /// Names whose CLOSE is due. The relay counts them until it has come, so none is forgotten:
    /// there are no more than requests that stood.
    closing: VecDeque<(u64, SubName)>,
    /// Names that were closed, or that the peer brought up.
    strays: BTreeMap<u64, Stray>,
    strays_max: usize,
    /// Requests in a row that were not answered.
    expiries: u32,
}

#[derive(Clone, Debug)]
struct Stray {
    name: SubName,
    due: bool,
    closed: Option<MonoTime>,
}

/// Whose frame it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Current(Sub),
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

impl Subs {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            rows: BTreeMap::new(),
            next: 1,
            closing: VecDeque::new(),
            strays: BTreeMap::new(),
            strays_max: STRAYS_MIN.max(limits.subscriptions_max as usize),
            expiries: 0,
        }
    }

    pub(super) fn contains(&self, sub: Sub) -> bool {
        self.rows.contains_key(&sub)
    }

    /// From when on events of a subscription can come again.
    pub(super) fn cursor(&self, sub: Sub) -> Cursor {
        self.rows.get(&sub).map_or(Cursor::Gone, |row| {
            row.received.map_or(Cursor::Unknown, Cursor::At)
        })
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn live_count(&self) -> usize {
        self.rows
            .values()
            .filter(|row| matches!(row.phase, Phase::Live { .. }))
            .count()
    }

    /// Keeps a subscription from now on; a known one that the relay refused is asked again.
    pub(super) fn want(&mut self, sub: Sub, interest: Interest, floor: Floor) {
        let row = self.rows.entry(sub).or_insert_with(|| Row {
            interest: Interest::default(),
            floor,
            received: None,
            lived: None,
            was_read: false,
            phase: Phase::Wanted,
            ladder: Ladder::new(ERROR_WAIT.0, ERROR_WAIT.1),
            confirmations: 0,
            questioned: false,
        });
        row.questioned = false;
        let same = row.interest == interest;
        row.interest = interest;
        let stands = matches!(row.phase, Phase::Requested(_) | Phase::Live { .. });
        if !(same && stands) {
            let superseded = row.phase.name(sub);
            row.phase = Phase::Wanted;
            self.supersede(superseded);
        }
    }

    /// Lets a subscription go. False when there is none.
    pub(super) fn forget(&mut self, sub: Sub) -> bool {
        let Some(row) = self.rows.remove(&sub) else {
            return false;
        };
        self.supersede(row.phase.name(sub));
        true
    }

    /// The socket is over: what was asked over it is asked anew. What was live has received all
    /// that is dated before `lived`.
    pub(super) fn reset(&mut self, lived: Option<UnixTime>) {
        self.closing.clear();
        self.strays.clear();
        self.expiries = 0;
        for row in self.rows.values_mut() {
            if matches!(row.phase, Phase::Live { .. }) {
                row.lived = row.lived.max(lived);
            }
            match row.phase {
                Phase::Requested(_) | Phase::Live { .. } => row.phase = Phase::Wanted,
                Phase::Wanted | Phase::Waiting { .. } | Phase::Refused => {}
            }
        }
    }

    /// Everything live is read again.
    pub(super) fn reread(&mut self) {
        let mut superseded = Vec::new();
        for (sub, row) in &mut self.rows {
            if matches!(row.phase, Phase::Live { .. }) {
                superseded.push(row.phase.name(*sub));
                row.phase = Phase::Wanted;
            }
        }
        for name in superseded {
            self.supersede(name);
        }
    }

    /// What waited for authentication waits no more.
    pub(super) fn rearm_waiting(&mut self) {
        for row in self.rows.values_mut() {
            if matches!(row.phase, Phase::Waiting { .. }) {
                row.phase = Phase::Wanted;
            }
        }
    }

    /// The roster still names the channel of a refused subscription: it is asked once more.
    pub(super) fn question(&mut self, sub: Sub) {
        let Some(row) = self.rows.get_mut(&sub) else {
            return;
        };
        if matches!(row.phase, Phase::Refused) && !row.questioned {
            row.questioned = true;
            row.phase = Phase::Wanted;
        }
    }

    /// Whose CLOSED it is that names `name`; nothing when it was never ours.
    pub(super) fn origin_of_closed(&self, name: &SubName) -> Option<Origin> {
        let (sub, n) = match name {
            SubName::Channel { channel, n } => (Sub::Channel(*channel), *n),
            SubName::Membership { n } => (Sub::Membership, *n),
            SubName::Page { .. } | SubName::Other(_) => return None,
        };
        if self.rows.get(&sub).and_then(|row| row.phase.n()) == Some(n) {
            return Some(Origin::Current(sub));
        }
        (n != 0 && n < self.next).then_some(Origin::Superseded)
    }

    /// Whose EVENT or EOSE it is; a superseded request that still brings some is closed again.
    pub(super) fn origin(&mut self, name: &SubName) -> Option<Origin> {
        let origin = self.origin_of_closed(name)?;
        let (Origin::Superseded, SubName::Channel { n, .. } | SubName::Membership { n }) =
            (origin, name)
        else {
            return Some(origin);
        };
        let n = *n;
        if self.closing.iter().all(|(closing, _)| *closing != n) {
            self.stray_at(n, name.clone()).due = true;
        }
        Some(Origin::Superseded)
    }

    /// What is remembered of a name that is over; the oldest makes room.
    fn stray_at(&mut self, n: u64, name: SubName) -> &mut Stray {
        if self.strays.len() >= self.strays_max && !self.strays.contains_key(&n) {
            self.strays.pop_first();
        }
        self.strays.entry(n).or_insert(Stray {
            name,
            due: false,
            closed: None,
        })
    }

    /// Whether an event is one that its request asked for.
    pub(super) fn matches(&self, sub: Sub, me: PubKey, event: &Event) -> bool {
        let Some(row) = self.rows.get(&sub) else {
            return false;
        };
        match &row.phase {
            Phase::Requested(request) => request.filter.matches(event),
            Phase::Live { .. } | Phase::Wanted | Phase::Waiting { .. } | Phase::Refused => {
                row.filter(sub, me, None, None).matches(event)
            }
        }
    }

    /// Counts an event towards the history of a request that has not ended.
    pub(super) fn brought(&mut self, sub: Sub, created_at: UnixTime, known: bool) {
        let Some(row) = self.rows.get_mut(&sub) else {
            return;
        };
        let Phase::Requested(request) = &mut row.phase else {
            return;
        };
        request.brought = request.brought.saturating_add(1);
        request.overlaps |= known;
        request.oldest = Some(
            request
                .oldest
                .map_or(created_at, |oldest| oldest.min(created_at)),
        );
    }

    /// Whether an event is older than what is owed, and not brought live.
    pub(super) fn precedes_floor(&self, sub: Sub, created_at: UnixTime) -> bool {
        let Some(row) = self.rows.get(&sub) else {
            return false;
        };
        let first_read = !row.was_read && matches!(row.phase, Phase::Requested(_));
        first_read && row.floor.date().is_none_or(|floor| created_at < floor)
    }

    /// The history of a request has ended. Nothing when it had ended before.
    pub(super) fn confirmed(&mut self, sub: Sub, limits: &Limits) -> Option<History> {
        let row = self.rows.get_mut(&sub)?;
        let Phase::Requested(request) = &row.phase else {
            return None;
        };
        let begun = request.begun;
        let cut = row.cut(request, limits);
        let n = request.n;
        row.phase = Phase::Live { n };
        row.received = begun
            .map(|begun| begun.before(limits.drift))
            .or(row.received);
        row.was_read = true;
        row.confirmations = 0;
        row.questioned = false;
        row.ladder.reset();
        self.expiries = 0;
        Some(cut.unwrap_or(History::Whole))
    }

    /// The relay ended or refused the current request.
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
            Retry::Never => Phase::Refused,
        };
    }

    /// At which generation of the gate the current request was sent.
    pub(super) fn stamp(&self, sub: Sub) -> Option<Generation> {
        match &self.rows.get(&sub)?.phase {
            Phase::Requested(request) => Some(request.stamp),
            Phase::Wanted | Phase::Live { .. } | Phase::Waiting { .. } | Phase::Refused => None,
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

    /// How many requests have neither EOSE nor CLOSED.
    pub(super) fn unanswered(&self) -> usize {
        self.rows
            .values()
            .filter(|row| matches!(row.phase, Phase::Requested(_)))
            .count()
    }

    /// A CLOSE that is due.
    pub(super) fn stray(&mut self, now: &mut Now) -> Option<SubName> {
        if let Some((n, name)) = self.closing.pop_front() {
            self.stray_at(n, name.clone()).closed = Some(now.time());
            return Some(name);
        }
        for stray in self.strays.values_mut().filter(|stray| stray.due) {
            let open = stray
                .closed
                .is_none_or(|at| now.reached(at.after(STRAY_WAIT), Why::Resubscribe));
            if open {
                stray.due = false;
                stray.closed = Some(now.time());
                return Some(stray.name.clone());
            }
        }
        None
    }

    /// The next subscription to be asked for, membership first. One that was asked for in vain
    /// waits behind the others, or a few that are never answered would keep them out.
    pub(super) fn next(&self, now: &mut Now) -> Option<Sub> {
        let due = self.rows.iter().filter(|(_, row)| match row.phase {
            Phase::Wanted => true,
            Phase::Waiting { until } => now.reached(until, Why::Resubscribe),
            Phase::Requested(_) | Phase::Live { .. } | Phase::Refused => false,
        });
        due.min_by_key(|(sub, row)| (row.confirmations, **sub))
            .map(|(sub, _)| *sub)
    }

    /// The request for a subscription; it counts as sent from now on.
    pub(super) fn request(
        &mut self,
        sub: Sub,
        me: PubKey,
        limits: &Limits,
        sending: &Sending,
    ) -> Option<(SubName, Filter)> {
        let row = self.rows.get_mut(&sub)?;
        let n = self.next;
        self.next = self.next.saturating_add(1);
        let relay_time = sending.relay_time;
        row.floor = row.floor.dated(sending);
        let floor = row.floor.date();
        let since = row
            .received
            .or_else(|| floor.map(|floor| floor.before(limits.drift)));
        let filter = row.filter(sub, me, relay_time.and(since), Some(limits.page));
        row.phase = Phase::Requested(Box::new(Request {
            n,
            write: sending.write,
            stamp: sending.stamp,
            written: None,
            begun: relay_time,
            brought: 0,
            overlaps: false,
            oldest: None,
            filter: filter.clone(),
        }));
        Some((name(sub, n), filter))
    }

    /// A request whose confirmation is overdue; it is asked anew. The second value says that the
    /// relay does not listen to this socket.
    pub(super) fn expired(&mut self, limits: &Limits, now: &mut Now) -> Option<(Sub, bool)> {
        let (sub, row) = self
            .rows
            .iter_mut()
            .find(|(_, row)| row.is_overdue(limits, now))?;
        let (sub, superseded) = (*sub, row.phase.name(*sub));
        row.confirmations = row.confirmations.saturating_add(1);
        row.phase = Phase::Wanted;
        self.expiries = self.expiries.saturating_add(1);
        self.supersede(superseded);
        Some((sub, self.expiries >= EXPIRIES_MAX))
    }

    /// A request that is given up needs its CLOSE.
    fn supersede(&mut self, name: Option<(u64, SubName)>) {
        self.closing.extend(name);
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
