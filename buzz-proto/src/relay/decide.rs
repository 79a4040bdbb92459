//! What follows from the state: the steps of the pump, in their order.

use alloc::vec::Vec;

use super::link::Return;
use super::membership::Change;
use super::sub_row::Floor;
use super::{Action, ChannelKind, ChannelState, Channels, CloseCause, End, Relay, Sub};
use crate::ids::ChannelId;
use crate::note::{GapWhy, LinkNote, Note};
use crate::quotas::Quotas;
use crate::time::{Now, UnixTime, Why};

impl Relay {
    /// The given channels are joined once, before anything else.
    pub(super) fn begin(&mut self) -> bool {
        if self.begun {
            return false;
        }
        self.begun = true;
        let kind = ChannelKind::Stream;
        let joined = |channel| Change::Joined {
            channel,
            kind,
            floor: None,
        };
        self.changes
            .extend(self.given_channels().into_iter().map(joined));
        if self.config.channels == Channels::Roster {
            let interest = self.interest();
            let floor = Floor::after(self.started);
            self.subs.want(Sub::Membership, interest, floor);
        }
        true
    }

    /// Dials, and ends what has passed its limits.
    pub(super) fn keep_link(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        if self.end == End::Running && self.link.dial(now, out) {
            return true;
        }
        if let Some((cause, back)) = self.doomed.take() {
            return self.close(cause, back, now.time(), out);
        }
        let limits = &self.config.limits;
        let before = out.len();
        let mut cause = self.link.overdue(limits, now, out);
        if let Some(opened) = self.link.opened_at()
            && self.link.live().is_none()
            && now.reached(opened.after(limits.auth), Why::Auth)
        {
            cause = cause.or(Some(CloseCause::AuthLimit));
        }
        if self.auth.is_overdue(limits, now) {
            cause = cause.or(Some(CloseCause::AuthLimit));
        }
        if self.writes.is_broken(limits, now) {
            cause = cause.or(Some(CloseCause::Write));
        }
        let Some(cause) = cause else {
            return out.len() > before;
        };
        self.close(cause, Return::Ladder, now.time(), out)
    }

    /// Answers a challenge, or takes the relay for one that sends none.
    pub(super) fn authenticate(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let Some(conn) = self.link.open() else {
            return false;
        };
        let wall = self.wall_at(now.time());
        let mut moved = self.auth.sign(wall, &mut self.tickets, now, out);
        if let Some((write, frame)) = self.auth.send(&mut self.writes.next, now.time()) {
            self.write(conn, write, frame, now.time(), out);
            moved = true;
        }
        moved |= self.auth.presume(&self.config.limits, now);
        let Some(opened) = self.link.opened_at() else {
            return moved;
        };
        if self.link.live().is_some() {
            return moved;
        }
        let known = self.auth.is_accepted();
        let plain = !known
            && !self.auth.is_under_way()
            && now.reached(opened.after(self.config.limits.challenge), Why::NoChallenge);
        if !(known || plain) {
            return moved;
        }
        self.link.set_live(now.time());
        self.inform.reset();
        self.roster.hasten();
        out.push(Action::Note(Note::Link(LinkNote::Live {
            authenticated: known,
        })));
        true
    }

    /// Tells the other parts whether EVENTs can go, and the consumer how subscriptions stand.
    pub(super) fn announce(&mut self, out: &mut Vec<Action>) -> bool {
        let before = out.len();
        let live = self.link.live().is_some();
        if live != self.announced_live {
            self.announced_live = live;
            out.push(Action::Link { live });
        }
        for (sub, state) in self.reports.drain(..) {
            out.push(Action::Report { sub, state });
        }
        out.len() > before
    }

    /// Carries out what notices, reads and commands changed.
    pub(super) fn take_changes(&mut self, out: &mut Vec<Action>) -> bool {
        let moved = !self.changes.is_empty();
        while let Some(change) = self.changes.pop_front() {
            match change {
                Change::Joined {
                    channel,
                    kind,
                    floor,
                } => self.join(channel, kind, floor, out),
                Change::Seen { channel, kind } | Change::Described { channel, kind }
                    if self.unplaced.contains(&channel) =>
                {
                    self.join(channel, kind, None, out);
                }
                Change::Seen { .. } => {}
                Change::Described { channel, kind } => {
                    self.subs.rearm(Sub::Channel(channel));
                    let state = ChannelState::Joined { kind };
                    out.push(Action::Channel { channel, state });
                }
                Change::Refused { channel } => self.displace(channel, out),
                Change::Left { channel } => {
                    self.unplaced.remove(&channel);
                    if self.let_go(Sub::Channel(channel), out) {
                        out.push(Action::Channel {
                            channel,
                            state: ChannelState::Left,
                        });
                    }
                }
            }
        }
        moved
    }

    /// A channel finds no room. Said once, and of as many as are kept, because a relay may name
    /// channels without end: a later read of the roster tries again.
    fn displace(&mut self, channel: ChannelId, out: &mut Vec<Action>) {
        let is_full = self.unplaced.len() >= self.config.limits.subscriptions_max as usize;
        if !is_full && self.unplaced.insert(channel) {
            self.refuse(Sub::Channel(channel), out);
        }
    }

    /// Lets a subscription go, and tells what it owed. False when there is none.
    fn let_go(&mut self, sub: Sub, out: &mut Vec<Action>) -> bool {
        out.extend(self.unread(sub, GapWhy::Left).map(Action::Note));
        let is_known = self.subs.forget(sub);
        if is_known {
            self.ledger.forget(sub);
            self.audits.forget(sub);
            self.restored.remove(&sub);
        }
        is_known
    }

    /// From when on events of a new subscription are owed: where an earlier life left off, if it
    /// had it.
    pub(super) fn floor_of(&mut self, sub: Sub, fresh: Floor) -> Floor {
        let record = self.restored.remove(&sub);
        record.map_or(fresh, Floor::Known)
    }

    fn join(
        &mut self,
        channel: ChannelId,
        kind: ChannelKind,
        floor: Option<UnixTime>,
        out: &mut Vec<Action>,
    ) {
        let sub = Sub::Channel(channel);
        if !self.has_room_for(sub) {
            self.displace(channel, out);
            return;
        }
        self.unplaced.remove(&channel);
        if !self.subs.contains(sub) {
            out.push(Action::Note(Note::Joined { channel }));
        }
        let interest = self.interest();
        // A channel that an earlier life did not know was joined since.
        let is_news = self.config.channels == Channels::Roster;
        let start = Floor::Start {
            at: self.started,
            look_back: self.config.look_back,
        };
        let first = self.resumed.filter(|_| is_news).map_or(start, Floor::At);
        let floor = self.floor_of(sub, floor.map_or(first, Floor::At));
        self.subs.want(sub, interest, floor);
        out.push(Action::Channel {
            channel,
            state: ChannelState::Joined { kind },
        });
    }

    /// Writes EVENTs as the quotas let them, and gives out receipts.
    pub(super) fn send_events(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let mut moved = self.outbound.settle(&self.config.limits, now, out);
        let Some(conn) = self.link.live() else {
            return moved;
        };
        if self.auth.is_blocking() {
            return moved;
        }
        for durable in [true, false] {
            let writes = &mut self.writes.next;
            if let Some(event) = self.outbound.next(durable, quotas, writes, now) {
                self.write(conn, event.write, event.frame, now.time(), out);
                moved = true;
            }
        }
        moved
    }
}
