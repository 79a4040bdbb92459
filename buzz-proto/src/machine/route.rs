//! What the parts say: orders for the driver, and facts for each other.

use alloc::vec::Vec;

use super::Machine;
use super::end::{End, SHUTDOWN_GRACE};
use crate::action::Action;
use crate::input::Input;
use crate::time::Now;
use crate::{publish, relay, schedule};

impl Machine {
    pub(super) fn lift_relay(&mut self, now: &Now, out: &mut Vec<Action>) {
        let mut actions = core::mem::take(&mut self.buffers.relay);
        for action in actions.drain(..) {
            self.route_relay(action, now, out);
        }
        self.buffers.relay = actions;
    }

    fn route_relay(&mut self, action: relay::Action, now: &Now, out: &mut Vec<Action>) {
        use relay::Action as From;
        match action {
            From::Note(note) => self.note(note, now, out),
            From::Receipt { ticket, receipt } => {
                let receipt = publish::Input::Receipt { ticket, receipt };
                self.routed.push_back(Input::Publish(receipt));
            }
            From::Link { live } => {
                self.routed
                    .push_back(Input::Publish(publish::Input::Link { live }));
                if self.scheduler.is_some() {
                    self.routed
                        .push_back(Input::Schedule(schedule::Input::Link { live }));
                }
                out.push(Action::Relay(From::Link { live }));
            }
            From::Deliver { sub, event, lives } if self.scheduler.is_some() => {
                let arrived = schedule::Input::Arrived { sub, event, lives };
                self.routed.push_back(Input::Schedule(arrived));
            }
            From::Channel { channel, state } => {
                if self.scheduler.is_some() {
                    let told = schedule::Input::Channel { channel, state };
                    self.routed.push_back(Input::Schedule(told));
                }
                out.push(Action::Relay(From::Channel { channel, state }));
            }
            From::RelayKey { key } => {
                if self.scheduler.is_some() {
                    let told = schedule::Input::RelayKey { key };
                    self.routed.push_back(Input::Schedule(told));
                }
            }
            From::Ended => self.end = End::Ended,
            // Wakes are derived at the exit, from the guards that the parts asked.
            From::WakeAt(_) => {}
            other @ (From::Connect { .. }
            | From::Close { .. }
            | From::Send { .. }
            | From::Ping { .. }
            | From::SignAuth { .. }
            | From::Verify { .. }
            | From::Query { .. }
            | From::Inform { .. }
            | From::Persist { .. }
            | From::Abort { .. }
            | From::Deliver { .. }
            | From::Report { .. }) => out.push(Action::Relay(other)),
        }
    }

    pub(super) fn lift_schedule(&mut self, now: &Now, out: &mut Vec<Action>) {
        let mut actions = core::mem::take(&mut self.buffers.schedule);
        for action in actions.drain(..) {
            self.route_schedule(action, now, out);
        }
        self.buffers.schedule = actions;
    }

    fn route_schedule(&mut self, action: schedule::Action, now: &Now, out: &mut Vec<Action>) {
        use schedule::Action as From;
        match action {
            From::Note(note) => self.note(note, now, out),
            From::Left { sub, count } => {
                self.routed
                    .push_back(Input::Relay(relay::Input::Left { sub, count }));
            }
            From::Dispose { event, how } => {
                self.routed
                    .push_back(Input::Relay(relay::Input::Disposed { event, how }));
            }
            From::Started { events, target } => {
                self.routed
                    .push_back(Input::Relay(relay::Input::Started { events, target }));
            }
            From::Publish(command) => {
                self.routed
                    .push_back(Input::Publish(publish::Input::Command(command)));
            }
            From::ShutdownRequested => self.shut_down(SHUTDOWN_GRACE, now.time()),
            From::Ended => self.end_outbox(now.time()),
            From::WakeAt(_) => {}
            other @ (From::Spawn { .. }
            | From::Kill { .. }
            | From::Start { .. }
            | From::Query { .. }
            | From::Verify { .. }
            | From::Abort { .. }
            | From::CancelTurn { .. }
            | From::CloseSession { .. }) => out.push(Action::Schedule(other)),
        }
    }

    pub(super) fn lift_publish(&mut self, now: &Now, out: &mut Vec<Action>) {
        let mut actions = core::mem::take(&mut self.buffers.publish);
        for action in actions.drain(..) {
            self.route_publish(action, now, out);
        }
        self.buffers.publish = actions;
    }

    fn route_publish(&mut self, action: publish::Action, now: &Now, out: &mut Vec<Action>) {
        use publish::Action as From;
        match action {
            From::Note(note) => self.note(note, now, out),
            From::Send {
                ticket,
                durable,
                event,
            } => {
                let event = event.raw().clone();
                let send = relay::Command::Send {
                    ticket,
                    durable,
                    event,
                };
                self.routed
                    .push_back(Input::Relay(relay::Input::Command(send)));
            }
            From::Abort { ticket } => {
                let withdraw = relay::Command::Withdraw { ticket };
                self.routed
                    .push_back(Input::Relay(relay::Input::Command(withdraw)));
                out.push(Action::Publish(From::Abort { ticket }));
            }
            From::Settle { job, verdict } if schedule::is_own_job(job) => {
                if self.scheduler.is_some() {
                    let settled = schedule::Input::Settled { job, verdict };
                    self.routed.push_back(Input::Schedule(settled));
                }
            }
            From::Outbox { is_half_full } => {
                if self.scheduler.is_some() {
                    let told = schedule::Input::Outbox { is_half_full };
                    self.routed.push_back(Input::Schedule(told));
                }
            }
            From::Ended => self.end_link(now.time()),
            From::WakeAt(_) => {}
            other @ (From::Sign { .. }
            | From::Post { .. }
            | From::Query { .. }
            | From::Settle { .. }) => out.push(Action::Publish(other)),
        }
    }
}
