//! What follows from the state: the steps of the pump, in their order.

use alloc::vec::Vec;

use super::link::Return;
use super::membership::Change;
use super::sub_row::Floor;
use super::verify::{Checked, Verdict};
use super::{
    Action, ChannelKind, ChannelState, Channels, CloseCause, DELIVERIES_PER_ROUND, End, Relay, Sub,
};
use crate::dedup::Inserted;
use crate::ids::{ChannelId, EventId};
use crate::note::{GapWhy, LinkNote, Note, RefusedWhy};
use crate::quotas::Quotas;
use crate::time::{Now, UnixTime, Why};
use crate::wire::OwnerCommand;

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
            self.subs
                .want(Sub::Membership, interest, Floor::after(self.started));
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

    /// Has events verified, and hands over what has been.
    pub(super) fn deliver(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let mut moved = self.pending.ask(&mut self.tickets, now.time(), out);
        for _ in 0..DELIVERIES_PER_ROUND {
            let limits = &self.config.limits;
            let Some(checked) = self.pending.next(limits, now) else {
                break;
            };
            moved = true;
            self.hand_over(checked, out);
        }
        moved
    }

    fn hand_over(&mut self, checked: Checked, out: &mut Vec<Action>) {
        let Checked {
            sub,
            event,
            owed,
            verdict,
        } = checked;
        let (id, dated) = (event.id(), event.created_at());
        let gap = |why| Note::Gap {
            sub,
            count: Some(1),
            from: dated,
            to: dated,
            why,
        };
        match verdict {
            Verdict::Genuine => {}
            Verdict::Forged => {
                out.push(Action::Note(Note::Refused {
                    event: id,
                    why: RefusedWhy::NotGenuine,
                }));
                return;
            }
            Verdict::Unanswered => {
                if owed && self.subs.contains(sub) && self.is_missing(id) {
                    out.push(Action::Note(gap(GapWhy::NotStored)));
                }
                return;
            }
        }
        if !self.subs.contains(sub) || !self.remember(id, sub, dated, out) || !owed {
            return;
        }
        if sub == Sub::Membership {
            self.changes.extend(self.roster.noticed(&event));
            return;
        }
        // A command takes no place in a queue: who may give one, the scheduler decides.
        let is_command = || OwnerCommand::of(&event).is_some();
        if self.room.take(sub, event.raw().len(), is_command) {
            out.push(Action::Deliver {
                sub,
                event,
                lives: 0,
            });
            return;
        }
        self.seen.remove(&id);
        let why = if self.room.is_closed() {
            GapWhy::ConsumerGone
        } else {
            GapWhy::NoRoom
        };
        out.push(Action::Note(gap(why)));
    }

    /// Whether an event is new; it is not from now on.
    fn remember(&mut self, id: EventId, sub: Sub, dated: UnixTime, out: &mut Vec<Action>) -> bool {
        let cursor = |sub| self.subs.cursor(sub);
        let Inserted::New { short } = self.seen.insert(id, sub, dated, cursor) else {
            return false;
        };
        if let Some(dated) = short {
            self.forgotten = self.forgotten.max(short);
            out.push(Action::Note(Note::DedupShort { dated }));
        }
        true
    }

    /// Whether nothing is known of an event, and no copy of it awaits its verdict.
    pub(super) fn is_missing(&self, id: EventId) -> bool {
        !self.seen.contains(&id) && !self.pending.contains(id)
    }

    /// Reads the roster when it is time.
    pub(super) fn keep_roster(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        if let Some(ticket) = self.roster.overdue(&self.config.limits, quotas, now) {
            out.push(Action::Abort { ticket });
            self.roster_failed(None, out);
            return true;
        }
        let wanted = self.config.channels == Channels::Roster
            && self.link.live().is_some()
            && self.end == End::Running;
        wanted && self.roster.read(quotas, &mut self.tickets, now, out)
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
                Change::Seen { channel, .. } => self.subs.question(Sub::Channel(channel)),
                Change::Described { channel, kind } => {
                    self.subs.question(Sub::Channel(channel));
                    let state = ChannelState::Joined { kind };
                    out.push(Action::Channel { channel, state });
                }
                Change::Refused { channel } => self.displace(channel, out),
                Change::Left { channel } => {
                    self.unplaced.remove(&channel);
                    if self.subs.forget(Sub::Channel(channel)) {
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

    /// A channel finds no room. Said once: a later read of the roster tries again.
    fn displace(&mut self, channel: ChannelId, out: &mut Vec<Action>) {
        if self.unplaced.contains(&channel) {
            return;
        }
        if self.unplaced.len() < self.config.limits.subscriptions_max as usize {
            self.unplaced.insert(channel);
        }
        self.refuse(Sub::Channel(channel), out);
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
        let first = Floor::Start {
            at: self.started,
            look_back: self.config.look_back,
        };
        let floor = floor.map_or(first, Floor::At);
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
        while let Some(event) = self.outbound.next(quotas, &mut self.writes.next, now) {
            self.write(conn, event.write, event.frame, now.time(), out);
            moved = true;
        }
        moved
    }

    /// Ends once nothing is outbound, or the grace is over.
    pub(super) fn finish(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let End::Draining(until) = self.end else {
            return false;
        };
        let idle = self.outbound.len() == 0 || self.link.live().is_none();
        if !idle && !now.reached(until, Why::Shutdown) {
            return false;
        }
        self.close(CloseCause::Shutdown, Return::End, now.time(), out);
        self.link.stop();
        self.announce(out);
        self.outbound.settle(&self.config.limits, now, out);
        self.end = End::Ended;
        out.push(Action::Ended);
        true
    }
}
