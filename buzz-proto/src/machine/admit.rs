//! What a driver may tell the machine.
//!
//! The parts tell each other some things that only they can know, and they end in an order of
//! their own. From outside the first are stale, and the second is meant for the whole.

use alloc::vec::Vec;

use super::Machine;
use crate::action::Action;
use crate::input::Input;
use crate::note::{Note, StaleWhat};
use crate::publish::{self, Verdict};
use crate::time::MonoTime;
use crate::{relay, schedule};

impl Machine {
    /// What of a driver's fact is to be recorded.
    pub(super) fn admit(
        &mut self,
        input: Input,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) -> Option<Input> {
        use publish::{Command as PublishCommand, Input as Publish};
        use relay::{Command as RelayCommand, Input as Relay};
        use schedule::{Command as ScheduleCommand, Input as Schedule};
        match input {
            Input::Relay(Relay::Command(RelayCommand::Shutdown { grace }))
            | Input::Publish(Publish::Command(PublishCommand::Shutdown { grace }))
            | Input::Schedule(Schedule::Command(ScheduleCommand::Shutdown { grace })) => {
                self.shut_down(grace, now);
                None
            }
            Input::Publish(Publish::Command(PublishCommand::Submit { job, .. }))
                if schedule::is_own_job(job) =>
            {
                let verdict = Verdict::Cancelled;
                out.push(Action::Publish(publish::Action::Settle { job, verdict }));
                None
            }
            Input::Relay(
                Relay::Command(RelayCommand::Send { .. } | RelayCommand::Withdraw { .. })
                | Relay::Left { .. }
                | Relay::WallClock(_),
            )
            | Input::Publish(
                Publish::Receipt { .. } | Publish::Link { .. } | Publish::WallClock(_),
            )
            | Input::Schedule(
                Schedule::Arrived { .. }
                | Schedule::Channel { .. }
                | Schedule::Link { .. }
                | Schedule::Settled { .. }
                | Schedule::Outbox { .. }
                | Schedule::RelayKey { .. }
                | Schedule::WallClock(_),
            ) => {
                out.push(stale(StaleWhat::Part));
                None
            }
            Input::Relay(Relay::Disposed { .. } | Relay::Started { .. })
                if self.scheduler.is_some() =>
            {
                out.push(stale(StaleWhat::Event));
                None
            }
            other @ (Input::Tick
            | Input::WallClock(_)
            | Input::Command(_)
            | Input::Relay(_)
            | Input::Publish(_)
            | Input::Schedule(_)) => Some(other),
        }
    }
}

const fn stale(what: StaleWhat) -> Action {
    Action::Note(Note::Stale { what })
}
