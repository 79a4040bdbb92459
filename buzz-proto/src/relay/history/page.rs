//! One read of stored events, held until its end.
//!
//! A relay answers the newest events first; they are kept until the read has ended and then handed
//! over oldest first. How a read ends is the relay's word or its silence, never the writing of the
//! request.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::call::Call;
use crate::gate::Generation;
use crate::ids::{EventId, Ticket, WriteId};
use crate::relay::Limits;
use crate::relay::sub_row::Newest;
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::{Event, Filter};

/// A relay that sends so much more than was asked for is not listened to.
const EXCESS_MAX: usize = 1000;

#[derive(Clone, Debug)]
pub(in crate::relay) struct Page {
    pub(in crate::relay) via: Via,
    pub(in crate::relay) filter: Filter,
    newest: Newest,
    ids: BTreeSet<EventId>,
    /// What came, each event once; but of an id every copy, because nobody knows yet which one is
    /// genuine.
    events: Vec<Event>,
    bytes: usize,
    limit: usize,
    run: Run,
}

/// How a read is made.
#[derive(Clone, Copy, Debug)]
pub(in crate::relay) enum Via {
    /// A request that is closed at its end.
    Socket {
        n: u64,
        write: WriteId,
        stamp: Generation,
        /// When it left, or brought something last.
        heard: Option<MonoTime>,
    },
    Http(Call),
}

/// Whether the events came in a relay's order, the newest first: then, however the read ends,
/// nothing is missing between them. Live events among them are told by their being out of order.
#[derive(Clone, Copy, Debug)]
enum Run {
    GoesOn(Option<UnixTime>),
    Broken,
}

impl Page {
    pub(in crate::relay) fn new(via: Via, filter: Filter) -> Self {
        let limit = filter.limit.unwrap_or(u32::MAX) as usize;
        Self {
            via,
            filter,
            newest: Newest::new(limit),
            ids: BTreeSet::new(),
            events: Vec::new(),
            bytes: 0,
            limit,
            run: Run::GoesOn(None),
        }
    }

    /// The number of its request.
    pub(in crate::relay) const fn n(&self) -> Option<u64> {
        match self.via {
            Via::Socket { n, .. } => Some(n),
            Via::Http(_) => None,
        }
    }

    /// Whether it is the request with this number.
    pub(in crate::relay) const fn is_n(&self, wanted: u64) -> bool {
        matches!(self.via, Via::Socket { n, .. } if n == wanted)
    }

    /// Whether it is this call.
    pub(in crate::relay) fn is_ticket(&self, wanted: Ticket) -> bool {
        self.call().is_some_and(|call| call.ticket == wanted)
    }

    pub(in crate::relay) const fn call(&self) -> Option<Call> {
        match self.via {
            Via::Http(call) => Some(call),
            Via::Socket { .. } => None,
        }
    }

    /// At which generation of the gate its request was sent.
    pub(in crate::relay) const fn stamp(&self) -> Option<Generation> {
        match self.via {
            Via::Socket { stamp, .. } => Some(stamp),
            Via::Http(_) => None,
        }
    }

    /// Takes an event. False when it was not asked for.
    pub(in crate::relay) fn take(&mut self, event: Event, now: MonoTime) -> bool {
        if !self.filter.matches(&event) {
            return false;
        }
        if !self.ids.insert(event.id()) && self.has(&event) {
            return true;
        }
        if let Via::Socket { heard, .. } = &mut self.via {
            *heard = Some(now);
        }
        self.newest.add(&event);
        self.run = self.run.after(event.created_at());
        self.bytes = self.bytes.saturating_add(event.raw().len());
        self.events.push(event);
        true
    }

    fn has(&self, event: &Event) -> bool {
        let same = |it: &Event| it.id() == event.id() && it.raw() == event.raw();
        self.events.iter().any(same)
    }

    /// Whether it brought more than is held.
    pub(in crate::relay) fn is_too_large(&self, limits: &Limits) -> bool {
        let bytes_max = usize::try_from(limits.frame_bytes_max).unwrap_or(usize::MAX);
        self.bytes > bytes_max || self.events.len() > self.limit.saturating_add(EXCESS_MAX)
    }

    /// The request has left.
    pub(in crate::relay) fn written(&mut self, done: WriteId, now: MonoTime) {
        if let Via::Socket { write, heard, .. } = &mut self.via
            && *write == done
        {
            *heard = Some(now);
        }
    }

    pub(in crate::relay) const fn is_write(&self, wanted: WriteId) -> bool {
        matches!(self.via, Via::Socket { write, .. } if write.0 == wanted.0)
    }

    /// Whether the relay has been silent about it for too long.
    pub(in crate::relay) fn is_silent(&self, limits: &Limits, now: &mut Now) -> bool {
        match self.via {
            Via::Socket { heard, .. } => {
                heard.is_some_and(|heard| now.reached(heard.after(limits.page_silence), Why::Page))
            }
            Via::Http(call) => call.is_overdue(limits.answer, now),
        }
    }

    /// Whether it asked for so many events.
    pub(in crate::relay) const fn has_limit(&self, limit: u32) -> bool {
        self.limit >= limit as usize
    }

    pub(in crate::relay) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(in crate::relay) fn brought(&self, id: EventId) -> bool {
        self.ids.contains(&id)
    }

    /// See [`Newest::end`].
    pub(in crate::relay) fn end(&self) -> Option<(UnixTime, EventId)> {
        self.newest.end(None)
    }

    /// The second down to which nothing is missing, should no more come.
    pub(in crate::relay) const fn run_end(&self) -> Option<UnixTime> {
        match self.run {
            Run::GoesOn(end) => end,
            Run::Broken => None,
        }
    }

    /// The events that it brought.
    pub(in crate::relay) fn events(&self) -> &[Event] {
        &self.events
    }

    /// The events, as they came.
    pub(in crate::relay) fn into_unsorted(self) -> Vec<Event> {
        self.events
    }

    /// The events, oldest first.
    pub(in crate::relay) fn into_events(mut self) -> Vec<Event> {
        self.events
            .sort_by_key(|event| (event.created_at(), Reverse(event.id())));
        self.events
    }
}

impl Run {
    fn after(self, dated: UnixTime) -> Self {
        match self {
            Self::GoesOn(end) if end.is_none_or(|end| dated <= end) => Self::GoesOn(Some(dated)),
            Self::GoesOn(_) | Self::Broken => Self::Broken,
        }
    }
}
