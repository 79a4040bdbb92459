//! What is recorded of each fact, frames apart.

use alloc::vec::Vec;

use bytes::Bytes;

use super::history::page::Page;
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
        if self.recovery.page_if(|page| page.is_write(write)).is_some() {
            self.page_broke(ReadFailure::NotSent, now, out);
        }
        if self.answers.page_if(|page| page.is_write(write)).is_some() {
            self.answers.page_broke(Some(now));
        }
        if self.audits.page_if(|page| page.is_write(write)).is_some() {
            self.audit_page_broke(now, out);
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
        if !self.roster.awaits(ticket) {
            self.read_answered(ticket, answer, now, quotas, out);
            return;
        }
        self.route.learn(Some(answer));
        let measure = self.measure(now);
        let Some(events) = self.roster.answered(answer, measure, quotas, now, out) else {
            self.roster_failed(Some(answer.status), out);
            return;
        };
        let (relay_time, limits) = (self.relay_time_at(now), &self.config.limits);
        let changes = self.roster.advance(&events, relay_time, limits, now);
        self.changes.extend(changes);
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
        if !self.roster.awaits(ticket) {
            self.read_broke(ticket, now, quotas, out);
            return;
        }
        self.route.learn(None);
        self.roster.broke(quotas, now, out);
        self.roster_failed(None, out);
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
        let Some((call, is_answers)) = self.call_under_way(ticket) else {
            out.push(stale(StaleWhat::Call));
            return;
        };
        self.route.learn(Some(answer));
        let events = call.answered(answer, measure, quotas, now, out);
        let is_good = events.is_some();
        if let Some(page) = self.page_if(|page| page.is_ticket(ticket)) {
            for event in events.unwrap_or_default() {
                page.take(event, now);
            }
        }
        let status = Some(answer.status);
        match (is_answers, is_good) {
            (true, true) => self.answers.page_ended(),
            (true, false) => self.answers.page_broke(self.route.is_open().then_some(now)),
            (false, true) => self.page_ended(quotas, now, out),
            (false, false) => self.page_broke(ReadFailure::Http { status }, now, out),
        }
    }

    /// A read of stored events over HTTP has no answer.
    fn read_broke(
        &mut self,
        ticket: Ticket,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        let Some((call, is_answers)) = self.call_under_way(ticket) else {
            out.push(stale(StaleWhat::Call));
            return;
        };
        self.route.learn(None);
        call.broke(quotas, now, out);
        if is_answers {
            self.answers.page_broke(Some(now));
        } else {
            self.page_broke(ReadFailure::Http { status: None }, now, out);
        }
    }

    /// The call of a read under way, and whether this agent's own answers are what it reads.
    fn call_under_way(&mut self, ticket: Ticket) -> Option<(Call, bool)> {
        let is_wanted = |page: &Page| page.is_ticket(ticket);
        let is_answers = self.answers.page_if(is_wanted).is_some();
        let call = self.page_if(is_wanted)?.call()?;
        Some((call, is_answers))
    }

    /// The read under way that is wanted, whoever asked for it.
    pub(super) fn page_if(
        &mut self,
        is_wanted: impl Fn(&Page) -> bool + Copy,
    ) -> Option<&mut Page> {
        self.recovery
            .page_if(is_wanted)
            .or_else(|| self.answers.page_if(is_wanted))
            .or_else(|| self.audits.page_if(is_wanted))
    }

    /// A read gave nothing.
    pub(super) fn roster_failed(&mut self, status: Option<u16>, out: &mut Vec<Action>) {
        // A rate limit is told as such.
        if status != Some(429) {
            out.push(Action::Note(Note::RosterFailed { status }));
        }
        self.changes.extend(self.roster.give_up_describing());
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
