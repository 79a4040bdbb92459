//! What the judge learns from what the machine is told.

use std::time::Duration;

use buzz_proto::ids::TurnId;
use buzz_proto::input::{Command, Input};
use buzz_proto::relay;
use buzz_proto::schedule::{self, DownCause, FailureClass, OpenCause, Target, TurnEnd, WorkerId};
use buzz_proto::time::{MonoTime, UnixTime, WallClock};
use buzz_proto::wire::{Event, OwnerCommand};

use super::room::Waiting;
use super::{Gate, Judge, Post};

/// A usage limit ends later than it says by at most this, or a fifth of it; and a time that is
/// told in whole seconds is off by one.
const GATE_JITTER: Duration = Duration::from_millis(3500);

impl Judge {
    pub(super) fn learn(&mut self, input: &Input) {
        match input {
            Input::WallClock(seen) => self.wall = Some(WallClock::new(*seen, self.now)),
            Input::Command(Command::Shutdown { .. }) => self.is_ending = true,
            Input::Relay(relay::Input::Verified { ticket, genuine }) => {
                for event in self.arrivals.verified(*ticket, *genuine) {
                    self.arrive(&event);
                }
            }
            Input::Schedule(input) => self.learn_of_work(input),
            Input::Tick | Input::Relay(_) | Input::Publish(_) => {}
        }
    }

    fn learn_of_work(&mut self, input: &schedule::Input) {
        use schedule::Input as I;
        match input {
            I::WorkerUp { worker } => {
                self.workers.entry(*worker).or_default();
            }
            I::WorkerDown { worker, cause } => {
                let is_crash =
                    matches!(cause, DownCause::Exited { .. } | DownCause::Protocol { .. });
                self.lose(*worker, is_crash);
            }
            I::SessionOpened { turn } => self.open(*turn),
            I::SessionFailed { turn, cause } => {
                let is_unknown = matches!(cause, OpenCause::Unknown);
                if is_unknown {
                    self.forget(*turn);
                }
                if !(is_unknown && self.is_reopened(*turn)) {
                    self.end_turn(*turn);
                }
            }
            I::Finished { turn, end } => {
                if let Some(claimed) = self.claimed(*turn) {
                    self.learn_of_limit(end, claimed);
                }
                if let TurnEnd::Failed {
                    class: FailureClass::SessionGone,
                    ..
                } = end
                {
                    self.forget(*turn);
                }
                self.end_turn(*turn);
            }
            I::Command(schedule::Command::Control { target, .. }) => {
                let channel = match target {
                    Target::Scope(scope) => scope.channel(),
                    Target::Channel(channel) => *channel,
                };
                self.controlled.insert(channel);
            }
            I::Command(schedule::Command::Shutdown { .. }) => self.is_ending = true,
            I::Command(schedule::Command::Renew)
            | I::Tick
            | I::WallClock(_)
            | I::Arrived { .. }
            | I::Channel { .. }
            | I::Link { .. }
            | I::Progressed { .. }
            | I::Settled { .. }
            | I::Outbox { .. }
            | I::RelayKey { .. }
            | I::Answered { .. }
            | I::Broke { .. }
            | I::Verified { .. } => {}
        }
    }

    fn arrive(&mut self, event: &Event) {
        let id = event.id();
        if let Some(scope) = self.owed.get(&id).copied() {
            if self.outcomes.accept(id, scope) {
                self.arrived = self.arrived.saturating_add(1);
                let waiting = Waiting {
                    dated: event.created_at().min(self.unix()),
                    sequence: self.arrived,
                    id,
                    attempts: 0,
                    crashes: 0,
                    is_begun: false,
                };
                self.rooms.entry(scope).or_default().arrive(waiting);
            }
        } else if self.owner == Some(event.author())
            && OwnerCommand::of(event).is_some()
            && let Some(channel) = event.channel()
        {
            self.controlled.insert(channel);
        }
    }

    /// The session that a turn opened is the newest of its scope from now on.
    fn open(&mut self, turn: TurnId) {
        let room = self.turns.get(&turn).and_then(|it| self.rooms.get_mut(it));
        let Some(room) = room else { return };
        let given = room.turn.as_ref().and_then(|it| it.given);
        if let Some(given) = given.filter(|it| it.turn == turn && !it.is_over) {
            room.session = given.fresh.or(room.session);
        }
    }

    /// The worker does not know the session of a turn any more.
    fn forget(&mut self, turn: TurnId) {
        let room = self.turns.get(&turn).and_then(|it| self.rooms.get_mut(it));
        let Some(room) = room else { return };
        let given = room.turn.as_ref().and_then(|it| it.given);
        if given.is_some_and(|it| it.turn == turn && !it.is_over && it.fresh.is_none()) {
            room.session = None;
        }
        if given.is_some_and(|it| it.turn == turn && !it.is_over && it.fresh == room.session) {
            room.session = None;
        }
    }

    /// The turn that a worker was given is over, if it is not already.
    fn end_turn(&mut self, turn: TurnId) {
        let room = self.turns.get(&turn).and_then(|it| self.rooms.get_mut(it));
        let Some(running) = room.and_then(|room| room.turn.as_mut()) else {
            return;
        };
        let worker = running.worker;
        let given = running.given.as_mut();
        if let Some(given) = given.filter(|it| it.turn == turn && !it.is_over) {
            given.is_over = true;
            self.free(worker);
        }
    }

    /// A worker is gone, with its sessions and its turn.
    fn lose(&mut self, worker: WorkerId, is_crash: bool) {
        let Some(Post { busy, .. }) = self.workers.remove(&worker) else {
            return;
        };
        for room in self.rooms.values_mut() {
            room.session.take_if(|session| session.worker == worker);
        }
        let room = busy.and_then(|scope| self.rooms.get_mut(&scope));
        if let Some(running) = room.and_then(|room| room.turn.as_mut())
            && running.worker == worker
        {
            running.is_crashed = is_crash;
            match &mut running.given {
                Some(given) => given.is_over = true,
                None => running.is_stranded = true,
            }
        }
    }

    /// Since when a turn runs that a worker was given and has not ended.
    fn claimed(&self, turn: TurnId) -> Option<MonoTime> {
        let room = self.rooms.get(self.turns.get(&turn)?)?;
        let running = room.turn.as_ref()?;
        let given = running.given?;
        (given.turn == turn && !given.is_over).then_some(running.claimed)
    }

    /// Where a session to go on in is gone, the same turn begins once more on the same worker, in a
    /// fresh one, unless it was asked to end.
    fn is_reopened(&mut self, turn: TurnId) -> bool {
        let now = self.now;
        let room = self.turns.get(&turn).and_then(|it| self.rooms.get_mut(it));
        let Some(room) = room else { return false };
        let Some(running) = room.turn.as_mut() else {
            return false;
        };
        let Some(given) = running.given.as_mut() else {
            return false;
        };
        let is_wanted = !running.is_cancelled && !room.condemned.contains(&running.told);
        let reopens = given.turn == turn && !given.is_over && given.fresh.is_none() && is_wanted;
        if reopens {
            given.is_reopened = true;
            running.reserved = Some(now);
        }
        reopens
    }

    fn learn_of_limit(&mut self, end: &TurnEnd, claimed: MonoTime) {
        match end {
            TurnEnd::Failed {
                class: FailureClass::UsageLimit { until },
                ..
            } => {
                let wait = until.map_or(self.limits.usage_wait, |until: UnixTime| {
                    until.saturating_since(self.unix())
                });
                let wait = wait.min(self.limits.usage_wait_max);
                let jitter = GATE_JITTER.max(wait / 5);
                let until = self.now.after(wait).after(jitter);
                let since = self.now;
                // Turns that were under way say nothing new of an end that was named before.
                let later = self.gate.map_or(until, |gate| gate.until.max(until));
                self.gate = Some(Gate {
                    since,
                    until: later,
                });
            }
            TurnEnd::Answered { reply, .. } if !reply.trim().is_empty() => {
                self.gate.take_if(|gate| claimed >= gate.since);
            }
            TurnEnd::Answered { .. } | TurnEnd::Failed { .. } | TurnEnd::Cancelled => {}
        }
    }
}
