//! The end of the outbox: what is still waited for, and for how long.
//!
//! Of what is only good to see one thing matters at the end: the last presence, which says that the
//! agent is gone. It has a moment to go, if it can go at all.

use core::time::Duration;

use super::part::{Life, Part};
use super::{LatestKey, Verdict};
use crate::ids::JobId;
use crate::quotas::Quotas;
use crate::time::{MonoTime, Now};

/// How long the end waits for the last presence, its receipt included.
const PRESENCE: Duration = Duration::from_secs(2);

impl Part {
    /// Takes no more jobs, and ends within this grace; a longer one than before changes nothing.
    pub(super) fn shut_down(&mut self, grace: Duration, now: MonoTime) {
        let until = now.after(grace);
        self.life = match self.life {
            Life::Open => Life::Ending { until },
            Life::Ending { until: before } => Life::Ending {
                until: before.min(until),
            },
            Life::Ended => Life::Ended,
        };
        let presence = self.last_presence();
        while let Some(job) = self.outbox.oldest_latest(presence) {
            self.settle(job, Verdict::Cancelled);
        }
        if let Some(job) = presence {
            self.outbox.hasten(job, now.after(PRESENCE));
        }
        self.marks.close();
        self.take_mark_back();
    }

    /// Does not wait for a presence that cannot go in its time. Whether there was one.
    pub(super) fn give_up_presence(&mut self, now: &Now, quotas: &Quotas) -> bool {
        if !matches!(self.life, Life::Ending { .. }) {
            return false;
        }
        let Some(job) = self.outbox.newest(LatestKey::Presence) else {
            return false;
        };
        if self.can_go_in_time(job, now.time(), quotas) {
            return false;
        }
        self.settle(job, Verdict::Cancelled)
    }

    fn last_presence(&self) -> Option<JobId> {
        let job = self.outbox.newest(LatestKey::Presence)?;
        let row = self.outbox.get(job)?;
        (self.is_live && self.goes_by_socket(row)).then_some(job)
    }

    fn can_go_in_time(&self, job: JobId, now: MonoTime, quotas: &Quotas) -> bool {
        let Some(row) = self.outbox.get(job).filter(|_| self.is_live) else {
            return false;
        };
        if row.phase().is_out() {
            return true;
        }
        let shut = quotas.messages.wait(now);
        let shut = shut.max(quotas.operations.pace.wait(now));
        let needs_signer = row.signature().is_none();
        let rests = self.signer.rests_until.filter(|_| needs_signer);
        let goes_at = rests.unwrap_or_default().max(now.after(shut));
        goes_at < row.expires
    }
}
