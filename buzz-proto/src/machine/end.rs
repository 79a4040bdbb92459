//! How a machine ends: one part after the other, each by its share of the time.

use alloc::vec::Vec;
use core::time::Duration;

use super::Machine;
use crate::action::Action;
use crate::input::Input;
use crate::time::{MonoTime, Now, Why};
use crate::{publish, relay, schedule};

/// The parts end one after the other: what runs may still publish, and what is published may
/// still need the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Running,
    /// All of it must be over then.
    Workers(MonoTime),
    Outbox(MonoTime),
    Link(MonoTime),
    Ended,
}

/// The share of a shutdown's time that running turns get: the rest is for their replies.
const TURNS_SHARE: (u32, u32) = (3, 4);
/// The grace of a shutdown that nobody gave a grace: an owner's command, a consumer that is gone.
pub(super) const SHUTDOWN_GRACE: Duration = Duration::from_secs(30);

impl Machine {
    /// Begins the end, or brings it forward; a later deadline changes nothing.
    pub(super) fn shut_down(&mut self, grace: Duration, now: MonoTime) {
        let until = now.after(grace);
        match self.end {
            End::Running => {
                self.end = End::Workers(until);
                let share = grace.checked_div(TURNS_SHARE.1).unwrap_or_default();
                self.end_workers(share.saturating_mul(TURNS_SHARE.0), now);
            }
            End::Workers(earlier) if until < earlier => {
                self.end = End::Workers(until);
                self.end_workers(grace, now);
            }
            End::Outbox(earlier) if until < earlier => {
                self.end = End::Workers(until);
                self.end_outbox(now);
            }
            End::Link(earlier) if until < earlier => {
                self.end = End::Outbox(until);
                self.end_link(now);
            }
            End::Workers(_) | End::Outbox(_) | End::Link(_) | End::Ended => {}
        }
    }

    fn end_workers(&mut self, grace: Duration, now: MonoTime) {
        if self.scheduler.is_none() {
            self.end_outbox(now);
            return;
        }
        let shutdown = schedule::Command::Shutdown { grace };
        self.routed
            .push_back(Input::Schedule(schedule::Input::Command(shutdown)));
    }

    /// Goes on without a part that has not ended by the time that the whole has. Asked when all parts
    /// had their turn, so that each still tells what it owes the others.
    pub(super) fn keep_deadline(&mut self, now: &mut Now) -> bool {
        let (End::Workers(until) | End::Outbox(until)) = self.end else {
            return false;
        };
        if !now.reached(until, Why::Shutdown) {
            return false;
        }
        if matches!(self.end, End::Workers(_)) {
            self.end_outbox(now.time());
        } else {
            self.end_link(now.time());
        }
        true
    }

    pub(super) fn end_outbox(&mut self, now: MonoTime) {
        let End::Workers(until) = self.end else {
            return;
        };
        // A machine that slept past its time still gives the outbox the instant that it needs for
        // its verdicts: both deadlines are then the same one.
        let until = until.max(now);
        self.end = End::Outbox(until);
        let grace = until.saturating_since(now);
        let shutdown = publish::Command::Shutdown { grace };
        self.routed
            .push_back(Input::Publish(publish::Input::Command(shutdown)));
    }

    pub(super) fn end_link(&mut self, now: MonoTime) {
        let End::Outbox(until) = self.end else { return };
        self.end = End::Link(until);
        let grace = until.saturating_since(now);
        let shutdown = relay::Command::Shutdown { grace };
        self.routed
            .push_back(Input::Relay(relay::Input::Command(shutdown)));
    }

    /// The last word of a shutdown.
    pub(super) fn say_end(&self, out: &mut Vec<Action>) -> bool {
        if self.end != End::Ended {
            return false;
        }
        out.push(Action::Ended);
        true
    }
}
