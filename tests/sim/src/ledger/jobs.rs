//! Jobs of the application: one verdict for each that was handed over, and no other.

use std::collections::BTreeSet;

use buzz_proto::action::Action;
use buzz_proto::ids::JobId;
use buzz_proto::input::Input;
use buzz_proto::publish::{self, Command};

use super::Fault;

#[derive(Clone, Debug, Default)]
pub(super) struct Jobs {
    open: BTreeSet<JobId>,
}

impl Jobs {
    pub(super) const fn open(&self) -> &BTreeSet<JobId> {
        &self.open
    }

    /// A number that is used again while its job is open means that same job.
    pub(super) fn learn(&mut self, input: &Input) {
        if let Input::Publish(publish::Input::Command(Command::Submit { job, .. })) = input {
            self.open.insert(*job);
        }
    }

    pub(super) fn order(&mut self, action: &Action) -> Result<(), Fault> {
        if let Action::Publish(publish::Action::Settle { job, .. }) = action
            && !self.open.remove(job)
        {
            return Err("a verdict of a job that has none to get".to_owned());
        }
        Ok(())
    }
}
