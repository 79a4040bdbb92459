//! How subscriptions are asked for.

use alloc::vec::Vec;

use super::link::Return;
use super::sub_row::{Floor, Sending};
use super::sub_turns::Sort;
use super::subs::Expiry;
use super::{Action, CloseCause, End, Relay, SYNC_PAUSE, SYNC_QUIET, Sub, SubState};
use crate::ids::ConnId;
use crate::note::{Note, SubPhase};
use crate::quotas::Quotas;
use crate::time::{Now, UnixTime, Why};
use crate::wire;

impl Relay {
    /// Gives up requests without an answer, and ends what is superseded at the relay.
    pub(super) fn keep_subscriptions(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let Some(conn) = self.asking() else {
            return false;
        };
        let mut moved = self.resync(now);
        while let Some(expiry) = self.subs.expired(&self.config.limits, now) {
            moved = true;
            let (sub, phase) = match expiry {
                Expiry::Live(sub) => (sub, SubPhase::Live),
                Expiry::Again(sub) | Expiry::Deaf(sub) => (sub, SubPhase::Unconfirmed),
            };
            if phase == SubPhase::Live {
                self.audits.is_live(sub, now.time());
                self.reports.push_back((sub, SubState::Live));
            }
            out.push(Action::Note(Note::Subscription { sub, phase }));
            if matches!(expiry, Expiry::Deaf(_)) {
                let cause = CloseCause::Unconfirmed;
                return self.close(cause, Return::Ladder, now.time(), out);
            }
        }
        while let Some(name) = self.subs.names.stray(now) {
            self.send(conn, wire::close(&name), now.time(), out);
            moved = true;
        }
        moved
    }

    /// Asks for subscriptions as their turn comes, and never for more at once than the relay's
    /// buffer takes.
    pub(super) fn ask_for_subscriptions(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let before = out.len();
        for (sort, conn) in [
            (Sort::Membership, self.asking_membership()),
            (Sort::New, self.reading()),
            (Sort::Again, self.reading()),
        ] {
            if let Some(conn) = conn {
                self.ask(conn, sort, now, quotas, out);
            }
        }
        out.len() > before
    }

    /// The socket over which subscriptions may be asked for.
    pub(super) fn asking(&self) -> Option<ConnId> {
        // Without the relay's time nobody can say how far back to read.
        let is_timed = self.relay_time.is_some() || self.inform.is_over();
        let may = is_timed && !self.auth.is_blocking() && self.end == End::Running;
        self.link.live().filter(|_| may)
    }

    /// The socket over which notices of membership may be asked for.
    fn asking_membership(&self) -> Option<ConnId> {
        self.asking().and_then(|_| self.membership_socket())
    }

    /// The socket over which channels may be read: what was answered before the start is known.
    pub(super) fn reading(&self) -> Option<ConnId> {
        self.asking().filter(|_| self.answers.are_known())
    }

    /// Sends one REQ of this sort if it is its turn.
    fn ask(
        &mut self,
        conn: ConnId,
        sort: Sort,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        let Some((sub, count)) = self.subs.next(sort, now) else {
            return;
        };
        quotas.operations.wait(sort.lane(), count);
        if self.subs.unanswered() >= self.config.limits.unanswered_max as usize {
            return;
        }
        let Some(stamp) = quotas.operations.start(sort.lane(), now) else {
            return;
        };
        let write = self.writes.next.take();
        let sending = Sending {
            write,
            stamp,
            now: now.time(),
            relay_time: self.relay_time_at(now.time()),
        };
        self.distrust_record(sub, sending.relay_time, out);
        let limits = &self.config.limits;
        let Some(asked) = self.subs.request(sub, self.me, limits, &sending) else {
            return;
        };
        if let Some((n, former)) = asked.former {
            self.send(conn, wire::close(&former), now.time(), out);
            self.subs.names.closed(n, &former, now.time());
        }
        let text = wire::req(&asked.name, &asked.filter);
        self.write(conn, write, text, now.time(), out);
        out.push(Action::Note(Note::Subscription {
            sub,
            phase: SubPhase::Requested,
        }));
    }

    /// A record that reaches beyond the relay's time would hide what is sent until then.
    fn distrust_record(&mut self, sub: Sub, relay_time: Option<UnixTime>, out: &mut Vec<Action>) {
        let drift = self.config.limits.drift;
        let Some(row) = self.subs.row_mut(sub) else {
            return;
        };
        if let (Floor::Known(settled), Some(relay_time)) = (row.floor, relay_time)
            && settled > relay_time
        {
            row.floor = Floor::Known(relay_time.before(drift));
            let seconds = settled.saturating_since(relay_time).as_secs();
            out.push(Action::Note(Note::RecordAhead { sub, seconds }));
        }
    }

    /// Asks what the relay tells of itself, once on each connection.
    pub(super) fn learn_of_relay(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        if let Some(ticket) = self.inform.overdue(now) {
            out.push(Action::Abort { ticket });
            return true;
        }
        if let Some(key) = self.inform.tell_key() {
            out.push(Action::RelayKey { key });
            return true;
        }
        if self.link.live().is_none() {
            return false;
        }
        let ticket = self.inform.ask(&mut self.tickets, now);
        out.extend(ticket.map(|ticket| Action::Inform { ticket }));
        ticket.is_some()
    }

    /// Reads everything again because the relay said that it dropped frames. Such a read that has
    /// ended keeps the next one away, each time twice as long: a relay that drops frames is busy.
    fn resync(&mut self, now: &mut Now) -> bool {
        if let Some(begun) = self.sync.under_way {
            // One that finds no room for long is not to keep the next signal from being heeded.
            let patience = begun.after(SYNC_PAUSE.1);
            if self.subs.are_doubted() && !now.reached(patience, Why::Resubscribe) {
                return false;
            }
            self.sync.under_way = None;
            self.sync.next = Some(now.time().after(self.sync.ladder.climb()));
        }
        if !self.sync.is_due || self.subs.unanswered() > 0 {
            return false;
        }
        if let Some(next) = self.sync.next {
            if !now.reached(next, Why::Resubscribe) {
                return false;
            }
            if now.reached(next.after(SYNC_QUIET), Why::Resubscribe) {
                self.sync.ladder.reset();
            }
        }
        self.sync.is_due = false;
        self.sync.under_way = Some(now.time());
        self.subs.doubt(now.time(), &self.config.limits);
        true
    }
}
