//! How subscriptions are asked for.

use alloc::vec::Vec;

use super::link::Return;
use super::sub_row::Sending;
use super::{Action, CloseCause, End, Relay, Sub};
use crate::ids::ConnId;
use crate::note::{Note, SubPhase};
use crate::quotas::Quotas;
use crate::time::{Now, Why};
use crate::wire;

impl Relay {
    /// Gives up requests without an answer, and ends what is superseded at the relay.
    pub(super) fn keep_subscriptions(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let Some(conn) = self.asking() else {
            return false;
        };
        let mut moved = self.resync(now);
        while let Some((sub, deaf)) = self.subs.expired(&self.config.limits, now) {
            out.push(Action::Note(Note::Subscription {
                sub,
                phase: SubPhase::Unconfirmed,
            }));
            if deaf {
                let cause = CloseCause::Unconfirmed;
                return self.close(cause, Return::Ladder, now.time(), out);
            }
            moved = true;
        }
        while let Some(name) = self.subs.stray(now) {
            self.send(conn, wire::close(&name), now.time(), out);
            moved = true;
        }
        moved
    }

    /// Asks for the subscription to notices, before anything else takes of the quota.
    pub(super) fn ask_for_membership(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let Some(conn) = self.asking() else {
            return false;
        };
        let due = self.subs.next(now) == Some(Sub::Membership);
        due && self.ask(conn, Sub::Membership, now, quotas, out)
    }

    /// Asks for subscriptions, within the quotas and never more at once than the relay's buffer
    /// takes.
    pub(super) fn ask_for_channels(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let Some(conn) = self.asking() else {
            return false;
        };
        let mut moved = false;
        while let Some(sub) = self.subs.next(now) {
            if !self.ask(conn, sub, now, quotas, out) {
                break;
            }
            moved = true;
        }
        moved
    }

    /// The socket over which subscriptions may be asked for.
    fn asking(&self) -> Option<ConnId> {
        let may = !self.auth.is_blocking() && self.end == End::Running;
        self.link.live().filter(|_| may)
    }

    /// Sends one REQ. False when it cannot go now.
    fn ask(
        &mut self,
        conn: ConnId,
        sub: Sub,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        if self.subs.unanswered() >= self.config.limits.unanswered_max as usize {
            return false;
        }
        let Some(stamp) = quotas.operations.start(now) else {
            return false;
        };
        let write = self.writes.next.take();
        let sending = Sending {
            write,
            stamp,
            now: now.time(),
            relay_time: self.relay_time_at(now.time()),
        };
        let limits = &self.config.limits;
        let Some((name, filter)) = self.subs.request(sub, self.me, limits, &sending) else {
            return false;
        };
        self.write(conn, write, wire::req(&name, &filter), now.time(), out);
        out.push(Action::Note(Note::Subscription {
            sub,
            phase: SubPhase::Requested,
        }));
        true
    }

    /// Reads everything again because the relay said that it dropped frames.
    fn resync(&mut self, now: &mut Now) -> bool {
        if !self.sync.due || self.subs.unanswered() > 0 {
            return false;
        }
        if self
            .sync
            .next
            .is_some_and(|next| !now.reached(next, Why::Resubscribe))
        {
            return false;
        }
        let pause = self.sync.pause(now);
        self.sync.due = false;
        self.sync.next = Some(now.time().after(pause));
        self.subs.reread();
        true
    }
}
