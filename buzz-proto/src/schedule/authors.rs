//! Whether an author is an agent of the same owner: asked of the relay, and of whoever can check
//! signatures, beside everything else.
//!
//! Only what is known is remembered. A look-up that fails leaves its events as ones that are refused
//! for now; they come again, and are refused for good after a while.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::part::Part;
use super::queue::dispose;
use super::{Action, Limits};
use crate::call::{Call, Measure};
use crate::ids::{ChannelId, EventId, PubKey, Ticket};
use crate::note::{Note, RefusedWhy};
use crate::quotas::{CallLane, Quotas};
use crate::relay::{Disposal, HttpAnswer, Sub};
use crate::time::{MonoTime, Now, Why};
use crate::wire::{self, Event, Filter};

/// A profile (NIP-01).
const PROFILE: u32 = 0;
/// Authors that are remembered.
const KNOWN_MAX: usize = 256;
/// Look-ups at a time, events that wait for them, and events that came in vain before.
const OPEN_MAX: usize = 64;
const EVENTS_MAX: usize = 256;
const FAILED_MAX: usize = 1024;
/// A profile may change: who is a stranger now may be an agent of the owner soon.
const STRANGER_FOR: Duration = Duration::from_secs(30);
const PROFILE_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Debug)]
pub(super) struct Authors {
    known: BTreeMap<PubKey, Known>,
    sequence: u64,
    open: BTreeMap<PubKey, LookUp>,
    events: usize,
    /// Events whose author could not be looked up.
    failed: BTreeMap<EventId, Failed>,
    limit: Duration,
    patience: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// When a stranger is forgotten; an agent of the same owner stays one.
    stranger_until: Option<MonoTime>,
    /// Its place by age.
    sequence: u64,
}

/// An event whose author could not be looked up.
#[derive(Clone, Copy, Debug)]
struct Failed {
    /// When it is refused, counted from its first arrival.
    until: MonoTime,
    is_over: bool,
}

#[derive(Clone, Debug)]
struct LookUp {
    until: MonoTime,
    phase: Phase,
    /// What waits for it.
    events: Vec<Arrival>,
}

#[derive(Clone, Debug)]
enum Phase {
    /// To be asked.
    Due,
    Asked(Call),
    /// A profile names our owner; whether it is genuine is being checked.
    Checking(Ticket),
    /// Known, or given up.
    Over(Option<bool>),
}

/// An event that came, and in how many lives work on it was begun.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) sub: Sub,
    pub(super) event: Event,
    pub(super) lives: u32,
}

impl Arrival {
    fn channel(&self) -> Option<ChannelId> {
        match self.sub {
            Sub::Channel(channel) => Some(channel),
            Sub::Membership => self.event.channel(),
        }
    }
}

impl Authors {
    pub(super) const fn new(limits: &Limits) -> Self {
        Self {
            known: BTreeMap::new(),
            sequence: 0,
            open: BTreeMap::new(),
            events: 0,
            failed: BTreeMap::new(),
            limit: limits.look_up,
            patience: limits.look_up_patience,
        }
    }

    /// Whether an author is an agent of the same owner, if that is known at present.
    pub(super) fn is_sibling(&self, author: PubKey, now: MonoTime) -> Option<bool> {
        let known = self.known.get(&author)?;
        // Asked of a present of its own: a tick that is late must not keep up what is outdated.
        let is_over = |until| Now::new(now).reached(until, Why::LookUp);
        match known.stranger_until {
            None => Some(true),
            Some(until) => (!is_over(until)).then_some(false),
        }
    }

    /// Whether one more event may wait until its author is known.
    fn has_room(&self, author: PubKey) -> bool {
        let is_new = !self.open.contains_key(&author);
        self.events < EVENTS_MAX && (!is_new || self.open.len() < OPEN_MAX)
    }

    /// Has an event wait until the author is known as whose it counts.
    fn wait(&mut self, author: PubKey, arrival: Arrival, now: MonoTime) {
        self.events = self.events.saturating_add(1);
        let until = now.after(self.limit);
        let look_up = self.open.entry(author).or_insert(LookUp {
            until,
            phase: Phase::Due,
            events: Vec::new(),
        });
        look_up.events.push(arrival);
    }

    /// Takes out what waits of a channel.
    pub(super) fn take(&mut self, channel: ChannelId) -> Vec<Arrival> {
        let mut taken = Vec::new();
        for look_up in self.open.values_mut() {
            let is_of_it = |arrival: &mut Arrival| arrival.channel() == Some(channel);
            taken.extend(look_up.events.extract_if(.., is_of_it));
        }
        self.events = self.events.saturating_sub(taken.len());
        taken
    }

    pub(super) fn awaits(&self, ticket: Ticket) -> bool {
        self.author_of(ticket).is_some()
    }

    pub(super) fn awaits_check(&self, ticket: Ticket) -> bool {
        self.checked_author(ticket).is_some()
    }

    fn author_of(&self, ticket: Ticket) -> Option<PubKey> {
        self.find(|phase| matches!(phase, Phase::Asked(call) if call.ticket == ticket))
    }

    fn checked_author(&self, ticket: Ticket) -> Option<PubKey> {
        self.find(|phase| matches!(phase, Phase::Checking(check) if *check == ticket))
    }

    fn find(&self, fits: impl Fn(&Phase) -> bool) -> Option<PubKey> {
        let mut open = self.open.iter();
        open.find(|(_, look_up)| fits(&look_up.phase))
            .map(|(author, _)| *author)
    }

    fn enter(&mut self, author: PubKey, phase: Phase) {
        if let Some(look_up) = self.open.get_mut(&author) {
            look_up.phase = phase;
        }
    }

    /// A look-up that has ended, and how.
    fn pop(&mut self) -> Option<(PubKey, Option<bool>, Vec<Arrival>)> {
        let mut open = self.open.iter();
        let (author, is_sibling) = open.find_map(|(author, look_up)| match look_up.phase {
            Phase::Over(is_sibling) => Some((*author, is_sibling)),
            Phase::Due | Phase::Asked(_) | Phase::Checking(_) => None,
        })?;
        let events = self.open.remove(&author)?.events;
        self.events = self.events.saturating_sub(events.len());
        Some((author, is_sibling, events))
    }

    fn remember(&mut self, author: PubKey, is_sibling: bool, now: MonoTime) {
        if self.known.len() >= KNOWN_MAX {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.sequence);
            let oldest = oldest.map(|(author, _)| *author);
            oldest.map(|author| self.known.remove(&author));
        }
        self.sequence = self.sequence.wrapping_add(1);
        let known = Known {
            stranger_until: (!is_sibling).then(|| now.after(STRANGER_FOR)),
            sequence: self.sequence,
        };
        self.known.insert(author, known);
    }

    /// Forgets strangers in time, and notes for which events the time is up.
    fn expire(&mut self, now: &mut Now) {
        self.known.retain(|_, known| {
            let until = known.stranger_until;
            !until.is_some_and(|until| now.reached(until, Why::LookUp))
        });
        for failed in self.failed.values_mut().filter(|failed| !failed.is_over) {
            failed.is_over = now.reached(failed.until, Why::LookUp);
        }
    }

    /// The author of an event could not be looked up. Whether that is so for too long.
    fn has_lost_patience(&mut self, event: EventId, now: MonoTime) -> bool {
        if let Some(failed) = self.failed.get(&event) {
            let is_over = failed.is_over;
            if is_over {
                self.failed.remove(&event);
            }
            return is_over;
        }
        if self.failed.len() >= FAILED_MAX {
            let oldest = self.failed.iter().min_by_key(|(_, failed)| failed.until);
            let oldest = oldest.map(|(event, _)| *event);
            oldest.map(|event| self.failed.remove(&event));
        }
        let failed = Failed {
            until: now.after(self.patience),
            is_over: false,
        };
        self.failed.insert(event, failed);
        false
    }
}

impl Part {
    /// The author is looked up as whose an event counts.
    pub(super) fn look_up(
        &mut self,
        author: PubKey,
        arrival: Arrival,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        if self.authors.has_room(author) {
            self.authors.wait(author, arrival, now);
        } else {
            self.put_off(&arrival, now, out);
        }
    }

    /// The author of an event stays unknown for now.
    fn put_off(&mut self, arrival: &Arrival, now: MonoTime, out: &mut Vec<Action>) {
        let (sub, event) = (arrival.sub, arrival.event.id());
        out.push(Action::Left { sub, count: 1 });
        let how = if self.authors.has_lost_patience(event, now) {
            let why = RefusedWhy::AuthorUnknown;
            out.push(Action::Note(Note::Refused { event, why }));
            Disposal::Discarded
        } else {
            Disposal::RefusedForNow
        };
        dispose([event], how, out);
    }

    /// Asks what is due, and lets in or refuses what waited; whether anything moved.
    pub(super) fn pump_authors(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        if !self.life.is_ending() {
            self.authors.expire(now);
        }
        let authors: Vec<PubKey> = self.authors.open.keys().copied().collect();
        let mut moved = false;
        for author in authors {
            moved |= self.pump_look_up(author, now, quotas, out);
        }
        while let Some((author, is_sibling, events)) = self.authors.pop() {
            moved = true;
            let now = now.time();
            if let Some(is_sibling) = is_sibling {
                self.authors.remember(author, is_sibling, now);
            }
            for arrival in events {
                match is_sibling {
                    Some(_) => {
                        self.authors.failed.remove(&arrival.event.id());
                        self.arrived((arrival.sub, arrival.event), arrival.lives, now, out);
                    }
                    None => self.put_off(&arrival, now, out),
                }
            }
        }
        moved
    }

    fn pump_look_up(
        &mut self,
        author: PubKey,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let is_vain = !self.has_query(now.time()) || self.life.is_ending();
        let Some(look_up) = self.authors.open.get_mut(&author) else {
            return false;
        };
        if matches!(look_up.phase, Phase::Over(_)) {
            return true;
        }
        if is_vain || now.reached(look_up.until, Why::LookUp) {
            if let Phase::Asked(call) = look_up.phase {
                call.abandon(quotas);
                let ticket = call.ticket;
                out.push(Action::Abort { ticket });
            }
            look_up.phase = Phase::Over(None);
            return true;
        }
        if !matches!(look_up.phase, Phase::Due) {
            return false;
        }
        let Some(call) = Call::start(CallLane::LookUp, quotas, &mut self.tickets, now) else {
            return false;
        };
        look_up.phase = Phase::Asked(call);
        let profile = Filter {
            kinds: core::iter::once(PROFILE).collect(),
            authors: vec![author],
            limit: Some(1),
            ..Filter::default()
        };
        out.push(Action::Query {
            ticket: call.ticket,
            body: wire::query(&[profile]),
        });
        true
    }

    /// The relay's answer, or that there is none.
    pub(super) fn profile_answered(
        &mut self,
        ticket: Ticket,
        answer: Option<&HttpAnswer>,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        let Some(author) = self.authors.author_of(ticket) else {
            return;
        };
        let Some(Phase::Asked(call)) = self.authors.open.get(&author).map(|row| row.phase.clone())
        else {
            return;
        };
        let measure = Measure {
            wall: self.wall.map(|wall| wall.at(now)),
            bytes_max: PROFILE_BYTES_MAX,
        };
        let events = call.ended(answer, measure, quotas, now, out);
        let phase = match (events, self.config.owner) {
            (Some(events), Some(owner)) => {
                let is_it = |event: &Event| {
                    event.kind() == PROFILE && event.author() == author && event.names_owner(&owner)
                };
                match events.into_iter().find(is_it) {
                    Some(event) => {
                        let ticket = self.tickets.take();
                        let owner = Some(owner);
                        out.push(Action::Verify {
                            ticket,
                            event,
                            owner,
                        });
                        Phase::Checking(ticket)
                    }
                    None => Phase::Over(Some(false)),
                }
            }
            (None, _) | (_, None) => Phase::Over(None),
        };
        self.authors.enter(author, phase);
    }

    /// A profile was checked.
    pub(super) fn profile_checked(&mut self, ticket: Ticket, genuine: bool) {
        if let Some(author) = self.authors.checked_author(ticket) {
            self.authors.enter(author, Phase::Over(Some(genuine)));
        }
    }
}
