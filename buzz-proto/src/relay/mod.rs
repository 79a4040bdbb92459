//! The relay part: one connection, the subscriptions over it, and the events that come.
//!
//! Frames become facts in `apply`; what follows from them is decided in `pump`, from the whole
//! state: dial, authenticate, ask for subscriptions within the quotas, have events verified, and
//! deliver each id once, or say why not.

mod ask;
mod auth;
mod config;
mod decide;
mod deliver;
mod facts;
mod frames;
mod history;
mod inform;
mod interface;
mod keep;
mod ledger;
mod link;
mod membership;
mod names;
mod outbound;
mod record;
mod room;
mod roster;
mod roster_read;
mod sub_row;
mod sub_turns;
mod subs;
mod verify;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

pub use config::{Channels, Config, Limits};
pub(crate) use inform::Document;
pub use interface::*;
pub use record::{Done, Record, Started};
pub(crate) use room::Room;

use self::history::page::Page;
use crate::backoff::Ladder;
use crate::config::{ConfigError, Consumer};
use crate::dedup::Seen;
use crate::ids::{ChannelId, ConnId, PubKey, Ticket, WriteId};
use crate::note::{LinkNote, Note, ReadFailure, StaleWhat};
use crate::quotas::Quotas;
use crate::seed::Seed;
use crate::step::Step;
use crate::time::{MonoTime, Now, UnixTime, WallClock, Why};

/// The relay part of a machine, or a machine of its own.
#[derive(Clone, Debug)]
pub struct Relay {
    config: Config,
    me: PubKey,
    step: Step,
    /// Quotas for use alone; a [`Machine`](crate::machine::Machine) lends its own.
    quotas: Quotas,
    started: MonoTime,
    wall: Option<WallClock>,
    relay_time: Option<WallClock>,
    begun: bool,
    link: link::Link,
    auth: auth::Auth,
    subs: subs::Subs,
    pending: verify::Pending,
    seen: Seen<Sub>,
    /// The newest date of an id that was forgotten although it may come again.
    forgotten: Option<UnixTime>,
    room: Room,
    recovery: history::recover::Recovery,
    audits: history::audit::Audits,
    ledger: ledger::Ledger,
    /// Where an earlier life left off, for subscriptions that are not wanted yet.
    restored: BTreeMap<Sub, UnixTime>,
    /// An earlier life went on until then at least.
    resumed: Option<UnixTime>,
    answers: history::answers::Answers,
    inform: inform::Inform,
    /// Whether `/query` can be used.
    route: crate::call::Route,
    outbound: outbound::Outbound,
    roster: roster::Roster,
    changes: VecDeque<membership::Change>,
    /// Channels that found no room for a subscription, and were told of.
    unplaced: BTreeSet<ChannelId>,
    writes: Writes,
    tickets: Ticket,
    sync: Sync,
    /// How subscriptions stand, not yet told.
    reports: VecDeque<(Sub, SubState)>,
    announced_live: bool,
    /// A socket that must not go on, and how soon the next one may come.
    doomed: Option<(CloseCause, link::Return)>,
    end: End,
}

/// Frames handed to the socket, oldest first.
#[derive(Clone, Debug, Default)]
struct Writes {
    next: WriteId,
    under_way: VecDeque<(WriteId, MonoTime)>,
    broken: bool,
}

/// The relay said that it dropped frames.
#[derive(Clone, Debug)]
struct Sync {
    is_due: bool,
    /// Since when what it asks for is being read.
    under_way: Option<MonoTime>,
    /// The earliest next read.
    next: Option<MonoTime>,
    ladder: Ladder,
}

/// Between two reads because of a signal.
const SYNC_PAUSE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));
/// After so long without such a read, the first pause is enough again.
const SYNC_QUIET: Duration = Duration::from_secs(600);
/// Calls under way when the part is used alone.
const HTTP_CALLS_MAX: u32 = 4;
/// So many events are handed over before the other steps of a round have their turn.
const DELIVERIES_PER_ROUND: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Running,
    /// Until then what is outbound may still be answered.
    Draining(MonoTime),
    Ended,
}

/// Numbers for tests and status pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct View {
    /// Whether the connection carries subscriptions.
    pub is_live: bool,
    /// Whether the relay knows who we are.
    pub is_authenticated: bool,
    /// Subscriptions kept.
    pub subscriptions: usize,
    /// Subscriptions confirmed.
    pub subscriptions_live: usize,
    /// Events awaiting verification.
    pub verifying: usize,
    /// EVENTs on the socket without a receipt.
    pub outbound: usize,
    /// Lost events that are known by id and will be read again.
    pub lost: usize,
    /// Whether no connection is tried any more, because the relay's URL cannot be used.
    pub is_stopped: bool,
    /// Whether the part has ended.
    pub is_ended: bool,
}

impl Relay {
    /// A relay part that dials at its first input.
    ///
    /// # Errors
    /// When a setting cannot work.
    pub fn new(
        config: Config,
        me: PubKey,
        consumer: &Consumer,
        seed: Seed,
        now: MonoTime,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let limits = &config.limits;
        let room = match consumer {
            Consumer::External { slots } => Room::slots(*slots, limits.bytes_max),
            Consumer::Workers(schedule) => Room::queues(
                schedule.limits.channel_max,
                schedule.limits.total_max,
                limits.bytes_max,
            ),
        };
        let mut relay = Self {
            me,
            step: Step::new(now),
            quotas: Quotas::new(seed, HTTP_CALLS_MAX),
            started: now,
            wall: None,
            relay_time: None,
            begun: false,
            link: link::Link::new(&config.url, limits, seed.derive(1)),
            auth: auth::Auth::new(),
            subs: subs::Subs::new(limits),
            pending: verify::Pending::default(),
            seen: Seen::new(limits.seen_max as usize, seed.derive(2)),
            forgotten: None,
            room,
            recovery: history::recover::Recovery::default(),
            audits: history::audit::Audits::new(limits.audit, seed.derive(4)),
            ledger: ledger::Ledger::new(config.records.is_some()),
            restored: BTreeMap::new(),
            resumed: None,
            answers: history::answers::Answers::none(),
            inform: inform::Inform::default(),
            route: crate::call::Route::default(),
            outbound: outbound::Outbound::default(),
            roster: roster::Roster::new(me, limits, seed.derive(3)),
            changes: VecDeque::new(),
            unplaced: BTreeSet::new(),
            writes: Writes::default(),
            tickets: Ticket(1),
            sync: Sync::new(),
            reports: VecDeque::new(),
            announced_live: false,
            doomed: None,
            end: End::Running,
            config,
        };
        relay.restore(matches!(consumer, Consumer::Workers(_)));
        Ok(relay)
    }

    /// Takes one fact in; returns what must be done, in order.
    #[must_use = "an action that is dropped is I/O that never happens"]
    pub fn handle_input(&mut self, input: Input, now: MonoTime) -> Vec<Action> {
        let mut out = Vec::new();
        self.handle_input_into(input, now, &mut out);
        out
    }

    /// As [`handle_input`](Self::handle_input), into a buffer that the caller reuses.
    pub fn handle_input_into(&mut self, input: Input, now: MonoTime, out: &mut Vec<Action>) {
        let time = self.step.enter(now);
        let mut quotas = self.quotas.clone();
        self.apply(input, time, &mut quotas, out);
        let mut step = self.step.clone();
        step.settle(|now| self.pump(now, &mut quotas, out) | quotas.choose(now));
        out.extend(step.leave().map(Action::WakeAt));
        self.step = step;
        self.quotas = quotas;
    }

    /// When `Tick` is wanted, and why. Always later than the last `now`.
    #[must_use]
    pub const fn next_deadline(&self) -> Option<(MonoTime, Why)> {
        self.step.wake()
    }

    /// Numbers for tests and status pages.
    #[must_use]
    pub fn view(&self) -> View {
        View {
            is_live: self.link.live().is_some(),
            is_authenticated: self.auth.is_accepted(),
            subscriptions: self.subs.len(),
            subscriptions_live: self.subs.live_count(),
            verifying: self.pending.len(),
            outbound: self.outbound.len(),
            lost: self.subs.iter().map(|(_, row)| row.loss.ids_len()).sum(),
            is_stopped: self.link.is_stopped(),
            is_ended: self.end == End::Ended,
        }
    }

    /// Records a fact. Writes only notes.
    pub(crate) fn apply(
        &mut self,
        input: Input,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        match input {
            Input::Tick => {}
            Input::WallClock(seen) => self.wall = Some(WallClock::new(seen, now)),
            Input::Command(command) => self.command(command, now, out),
            Input::Connected { conn, date } => self.connected(conn, date, now, out),
            Input::ConnectFailed { conn, cause } => self.connect_failed(conn, cause, now, out),
            Input::Closed { conn, code } => self.closed(conn, code, now, out),
            Input::Frame { conn, text } => {
                self.frame(conn, &text, &mut frames::Context { now, quotas, out })
            }
            Input::Pong { conn } | Input::Pinged { conn } => {
                if !self.link.heard(conn, now) {
                    out.push(stale(StaleWhat::Connection));
                }
            }
            Input::Written { write } => self.written(write, now, out),
            Input::WriteFailed { write, sent } => self.write_failed(write, sent, now, out),
            Input::Signed { ticket, event } => self.signed(ticket, event, now, out),
            Input::SignFailed { ticket } => self.sign_failed(ticket, out),
            Input::Verified { ticket, genuine } => self.verified(ticket, genuine, now, out),
            Input::Answered { ticket, answer } if self.audits.awaits(ticket) => {
                self.audit_answered(&answer, now, quotas, out);
            }
            Input::Broke { ticket, cause } if self.audits.awaits(ticket) => {
                self.audit_broke(cause, now, quotas, out);
            }
            Input::Answered { ticket, answer } => self.answered(ticket, &answer, now, quotas, out),
            Input::Broke { ticket, cause: _ } => self.broke(ticket, now, quotas, out),
            Input::Capacity { taken } => self.room.taken(taken),
            Input::ConsumerGone => self.room.close(),
            Input::Left { sub, count } => self.room.left(sub, count),
            Input::Disposed { event, how } => self.disposed(event, how, now, out),
            Input::Started { events, target } => {
                if !self.ledger.started(&events, target) {
                    out.push(stale(StaleWhat::Event));
                }
            }
            Input::Persisted { ticket } => {
                if !self.ledger.persisted(ticket) {
                    out.push(stale(StaleWhat::Call));
                }
            }
            Input::PersistFailed { ticket } => {
                if !self.ledger.not_persisted(ticket, now, out) {
                    out.push(stale(StaleWhat::Call));
                }
            }
        }
    }

    /// Decides from the whole state. True when anything moved.
    pub(crate) fn pump(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        if self.end == End::Ended {
            return false;
        }
        let mut moved = self.begin();
        moved |= self.keep_link(now, out);
        moved |= self.authenticate(now, out);
        moved |= self.learn_of_relay(now, out);
        moved |= self.announce(out);
        moved |= self.deliver(now, out);
        moved |= self.keep_roster(now, quotas, out);
        moved |= self.take_changes(out);
        moved |= self.keep_subscriptions(now, out);
        moved |= self.ask_for_subscriptions(now, quotas, out);
        moved |= self.send_events(now, quotas, out);
        moved |= self.look_for_answers(self.asking(), now, quotas, out);
        moved |= self.recover(self.reading(), now, quotas, out);
        moved |= self.audit(self.reading(), now, quotas, out);
        moved |= self.keep_records(now, out);
        moved | self.finish(now, out)
    }

    fn wall_at(&self, now: MonoTime) -> Option<UnixTime> {
        self.wall.map(|wall| wall.at(now))
    }

    fn relay_time_at(&self, now: MonoTime) -> Option<UnixTime> {
        self.relay_time.map(|clock| clock.at(now))
    }

    /// The socket or dial is over, by whichever side.
    fn lose(&mut self, back: link::Return, now: MonoTime, out: &mut Vec<Action>) {
        // Everything is read anew after a reconnect.
        self.sync.is_due = false;
        self.auth.reset();
        self.route = crate::call::Route::default();
        let is_over = |page: &mut Page| page.call().is_none();
        if self.recovery.page_mut().is_some_and(is_over) {
            self.page_broke(ReadFailure::Disconnected, now, out);
        }
        self.answers.reset();
        self.audits.reset();
        self.roster.reset();
        self.subs.reset();
        self.outbound.reset();
        self.writes.reset();
        self.doomed = None;
        self.link.lose(back, &self.config.limits, now, out);
    }

    /// Ends the socket or dial from our side.
    fn close(
        &mut self,
        cause: CloseCause,
        back: link::Return,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) -> bool {
        let Some(conn) = self.link.current() else {
            return false;
        };
        out.push(Action::Note(Note::Link(LinkNote::Closed { cause })));
        out.push(Action::Close { conn, cause });
        self.lose(back, now, out);
        true
    }

    fn send(&mut self, conn: ConnId, text: bytes::Bytes, now: MonoTime, out: &mut Vec<Action>) {
        let write = self.writes.next.take();
        self.write(conn, write, text, now, out);
    }

    fn write(
        &mut self,
        conn: ConnId,
        write: WriteId,
        text: bytes::Bytes,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        self.writes.under_way.push_back((write, now));
        out.push(Action::Send { conn, write, text });
    }
}

impl Sync {
    fn new() -> Self {
        Self {
            is_due: false,
            under_way: None,
            next: None,
            ladder: Ladder::new(SYNC_PAUSE.0, SYNC_PAUSE.1),
        }
    }
}

impl Writes {
    /// A write has ended. False when it is not under way.
    fn take(&mut self, write: WriteId) -> bool {
        let before = self.under_way.len();
        self.under_way.retain(|(known, _)| *known != write);
        self.under_way.len() != before
    }

    /// Whether the socket cannot be used any more: a frame left in part, or takes too long.
    fn is_broken(&self, limits: &Limits, now: &mut Now) -> bool {
        let oldest = self.under_way.front();
        self.broken
            || oldest.is_some_and(|(_, since)| now.reached(since.after(limits.write), Why::Write))
    }

    fn reset(&mut self) {
        self.under_way.clear();
        self.broken = false;
    }
}

const fn stale(what: StaleWhat) -> Action {
    Action::Note(Note::Stale { what })
}
