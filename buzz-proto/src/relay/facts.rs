//! What is recorded of each fact, frames apart.

use alloc::vec::Vec;

use bytes::Bytes;

use super::history::reader::Reader;
use super::link::Return;
use super::membership::Change;
use super::sub_row::Floor;
use super::subs::Subs;
use super::{
    Action, Channels, CloseCause, Command, ConnectCause, End, HttpAnswer, Interest, Relay, Sub,
    SubState, stale,
};
use crate::call::{Call, Measure};
use crate::ids::{ChannelId, ConnId, Ticket, WriteId};
use crate::note::{LinkNote, Note, ReadFailure, StaleWhat, SubPhase};
use crate::quotas::Quotas;
use crate::time::{MonoTime, UnixTime, WallClock};
use crate::wire::{Event, Reason};

/// The relay accepts an AUTH whose date is this near its own clock (NIP-42 as Buzz applies it).
const SKEW_MAX_SECONDS: u64 = 60;

impl Relay {
    pub(super) fn command(&mut self, command: Command, now: MonoTime, out: &mut Vec<Action>) {
        match command {
            Command::Subscribe {
                channel,
                interest,
                floor,
            } => {
                if self.has_room_for(Sub::Channel(channel)) {
                    let interest = interest.unwrap_or_else(|| self.interest());
                    let floor = floor.map_or_else(|| Floor::after(now), Floor::At);
                    let sub = Sub::Channel(channel);
                    let floor = if self.subs.contains(sub) {
                        floor
                    } else {
                        self.floor_of(sub, floor)
                    };
                    self.subs.want(sub, interest, floor);
                } else {
                    self.refuse(Sub::Channel(channel), out);
                }
            }
            Command::Unsubscribe { channel } => {
                self.changes.push_back(Change::Left { channel });
            }
            Command::Send {
                ticket,
                durable,
                event,
            } => {
                let has_socket = self.link.live().is_some();
                let limits = &self.config.limits;
                self.outbound
                    .push(ticket, durable, &event, has_socket, limits);
            }
            Command::Withdraw { ticket } => self.outbound.withdraw(ticket),
            Command::Reconnect => {
                if self.link.current().is_some() {
                    self.doomed = Some((CloseCause::Requested, Return::Ladder));
                }
            }
            Command::Shutdown { grace } => {
                let until = now.after(grace);
                self.end = match self.end {
                    End::Running => {
                        self.ledger.hurry();
                        End::Draining(until)
                    }
                    End::Draining(earlier) => End::Draining(earlier.min(until)),
                    End::Ended => End::Ended,
                };
            }
        }
    }

    pub(super) fn connected(
        &mut self,
        conn: ConnId,
        date: Option<UnixTime>,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        if !self.link.connected(conn, now) {
            out.push(stale(StaleWhat::Connection));
            return;
        }
        let Some(date) = date else { return };
        self.relay_time = Some(WallClock::new(date, now));
        let Some(wall) = self.wall_at(now) else {
            return;
        };
        let ahead = wall.saturating_since(date).as_secs();
        let behind = date.saturating_since(wall).as_secs();
        if ahead.max(behind) > SKEW_MAX_SECONDS {
            let seconds = i64::try_from(ahead).unwrap_or(i64::MAX);
            let behind = i64::try_from(behind).unwrap_or(i64::MAX);
            out.push(Action::Note(Note::ClockSkew {
                seconds: seconds.saturating_sub(behind),
            }));
        }
    }

    pub(super) fn connect_failed(
        &mut self,
        conn: ConnId,
        cause: ConnectCause,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        if self.link.current() != Some(conn) || self.link.open().is_some() {
            out.push(stale(StaleWhat::Connection));
            return;
        }
        let back = Return::after_failure(&cause);
        out.push(Action::Note(Note::Link(LinkNote::Failed { cause })));
        self.lose(back, now, out);
    }

    pub(super) fn closed(
        &mut self,
        conn: ConnId,
        code: Option<u16>,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        if self.link.current() != Some(conn) {
            out.push(stale(StaleWhat::Connection));
            return;
        }
        out.push(Action::Note(Note::Link(LinkNote::Lost { code })));
        self.lose(Return::after_close(code), now, out);
    }

    pub(super) fn written(&mut self, write: WriteId, now: MonoTime, out: &mut Vec<Action>) {
        if !self.writes.take(write) {
            out.push(stale(StaleWhat::Write));
            return;
        }
        self.subs.written(write, now);
        if let Some(page) = self.page_if(|page| page.is_write(write)) {
            page.written(write, now);
        }
    }

    pub(super) fn write_failed(
        &mut self,
        write: WriteId,
        sent: bool,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        if !self.writes.take(write) {
            out.push(stale(StaleWhat::Write));
            return;
        }
        if sent {
            self.writes.broken = true;
            return;
        }
        self.auth.not_sent(write);
        self.outbound.not_sent(write);
        self.subs.not_sent(write);
        if let Some(reader) = self.reader_of(|page| page.is_write(write)) {
            self.read_failed(reader, ReadFailure::NotSent, now, out);
        }
    }

    pub(super) fn signed(
        &mut self,
        ticket: Ticket,
        event: Bytes,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        match Event::decode(event) {
            Ok(event) if self.auth.signed(ticket, &event, now) => {}
            Ok(_) => out.push(stale(StaleWhat::Signature)),
            Err(_) => self.sign_failed(ticket, out),
        }
    }

    /// Without a signature the relay will not know us: the socket is of no use.
    pub(super) fn sign_failed(&mut self, ticket: Ticket, out: &mut Vec<Action>) {
        if self.auth.awaits(ticket) {
            self.doomed = Some((CloseCause::AuthRefused, Return::Ladder));
        } else {
            out.push(stale(StaleWhat::Signature));
        }
    }

    pub(super) fn answered(
        &mut self,
        ticket: Ticket,
        answer: &HttpAnswer,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        if self.inform.awaits(ticket) {
            self.inform.answered(answer);
            let date = answer.date.filter(|_| self.relay_time.is_none());
            self.relay_time = date
                .map(|date| WallClock::new(date, now))
                .or(self.relay_time);
            return;
        }
        self.read_answered(ticket, answer, now, quotas, out);
    }

    pub(super) fn broke(
        &mut self,
        ticket: Ticket,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        if self.inform.awaits(ticket) {
            self.inform.broke();
            return;
        }
        self.read_broke(ticket, now, quotas, out);
    }

    /// What an answer is read by.
    pub(super) fn measure(&self, now: MonoTime) -> Measure {
        let bytes_max = self.config.limits.frame_bytes_max;
        Measure {
            wall: self.wall_at(now),
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
        }
    }

    /// A read of stored events over HTTP was answered.
    fn read_answered(
        &mut self,
        ticket: Ticket,
        answer: &HttpAnswer,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        let measure = self.measure(now);
        let Some((reader, call)) = self.call_under_way(ticket) else {
            out.push(stale(StaleWhat::Call));
            return;
        };
        self.route.learn(Some(answer));
        let events = call.answered(answer, measure, quotas, now, out);
        let Some(events) = events else {
            let status = Some(answer.status);
            return self.read_failed(reader, ReadFailure::Http { status }, now, out);
        };
        if let Some(page) = self.page_of(reader) {
            for event in events {
                page.take(event, now);
            }
        }
        self.read_ended(reader, quotas, now, out);
    }

    /// A read of stored events over HTTP has no answer.
    fn read_broke(
        &mut self,
        ticket: Ticket,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        let Some((reader, call)) = self.call_under_way(ticket) else {
            out.push(stale(StaleWhat::Call));
            return;
        };
        self.route.learn(None);
        call.broke(quotas, now, out);
        self.read_failed(reader, ReadFailure::Http { status: None }, now, out);
    }

    /// The call of a read under way, and whose it is.
    fn call_under_way(&mut self, ticket: Ticket) -> Option<(Reader, Call)> {
        let reader = self.reader_of(|page| page.is_ticket(ticket))?;
        let call = self.page_of(reader)?.call()?;
        Some((reader, call))
    }

    /// A copy of an event was checked.
    pub(super) fn verified(
        &mut self,
        ticket: Ticket,
        genuine: bool,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        if self.pending.verified(ticket, genuine) {
            return;
        }
        if self.roster.awaits_check(ticket) {
            self.roster_row_checked(ticket, genuine, now, out);
        } else if !self.answers.checked(ticket, genuine, out) {
            out.push(stale(StaleWhat::Verification));
        }
    }

    /// What is wanted of a channel unless the application says otherwise.
    pub(super) fn interest(&self) -> Interest {
        Interest {
            kinds: self.config.read_kinds.iter().copied().collect(),
            mention: self.config.mention_only.then_some(self.me),
        }
    }

    /// Whether one more subscription fits.
    pub(super) fn has_room_for(&self, sub: Sub) -> bool {
        let subs: &Subs = &self.subs;
        subs.contains(sub) || subs.len() < self.config.limits.subscriptions_max as usize
    }

    /// A subscription is one too many.
    pub(super) fn refuse(&mut self, sub: Sub, out: &mut Vec<Action>) {
        let reason =
            Reason::new("too many subscriptions; relay.limits.subscriptions_max is reached");
        let state = SubState::Refused {
            reason: reason.clone(),
        };
        self.reports.push_back((sub, state));
        let phase = SubPhase::Refused { reason };
        out.push(Action::Note(Note::Subscription { sub, phase }));
    }

    /// The channels that need no roster.
    pub(super) fn given_channels(&self) -> Vec<ChannelId> {
        match &self.config.channels {
            Channels::Roster => Vec::new(),
            Channels::Given(channels) => channels.clone(),
        }
    }
}
