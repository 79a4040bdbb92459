//! Whose turn it is to be asked for, and the request itself.

use alloc::boxed::Box;

use super::sub_row::{Newest, Phase, Request, Row, Sending, name};
use super::subs::Subs;
use super::{Limits, Sub};
use crate::ids::PubKey;
use crate::quotas::OperationLane;
use crate::time::{Now, Why};
use crate::wire::{Filter, SubName};

/// Subscriptions that are due, by their right of way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// The one to notices.
    Membership,
    /// Not asked for on this socket.
    New,
    /// Asked for in vain.
    Again,
}

impl Sort {
    pub(super) const fn lane(self) -> OperationLane {
        match self {
            Self::Membership => OperationLane::Membership,
            Self::New => OperationLane::New,
            Self::Again => OperationLane::Retry,
        }
    }
}

/// A request to send, and the name of the one that it takes the place of.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) former: Option<(u64, SubName)>,
    pub(super) name: SubName,
    pub(super) filter: Filter,
}

impl Subs {
    /// How many requests have neither EOSE nor CLOSED, those given up apart.
    pub(super) fn unanswered(&self) -> usize {
        let is_awaited =
            |row: &&Row| matches!(&row.phase, Phase::Requested(request) if !request.is_overdue);
        self.rows.values().filter(is_awaited).count()
    }

    /// The next subscription of this sort to be asked for, and how many there are. Of those asked
    /// for in vain the one that was so least often, or a few that are never answered would keep
    /// the others out.
    pub(super) fn next(&self, sort: Sort, now: &mut Now) -> Option<(Sub, u32)> {
        let mut count = 0_u32;
        let due = self.rows.iter().filter(|(sub, row)| {
            let is_due = sort == row.sort(**sub)
                && match &row.phase {
                    Phase::Wanted => true,
                    Phase::Requested(request) => request.is_overdue,
                    Phase::Waiting { until } | Phase::Refused { until } => {
                        now.reached(*until, Why::Resubscribe)
                    }
                    Phase::Live { .. } => false,
                };
            count = count.saturating_add(u32::from(is_due));
            is_due
        });
        let first = due.min_by_key(|(sub, row)| (row.confirmations, **sub));
        let sub = first.map(|(sub, _)| *sub)?;
        Some((sub, count))
    }

    /// The request for a subscription; it counts as sent from now on.
    pub(super) fn request(
        &mut self,
        sub: Sub,
        me: PubKey,
        limits: &Limits,
        sending: &Sending,
    ) -> Option<Asked> {
        let row = self.rows.get_mut(&sub)?;
        let former = row.phase.name(sub);
        let n = self.names.take();
        row.floor = row.floor.dated(sending);
        row.was_asked = true;
        let filter = row.live_filter(sub, me, sending.relay_time, limits);
        row.phase = Phase::Requested(Box::new(Request {
            n,
            write: sending.write,
            stamp: sending.stamp,
            written: None,
            begun: sending.relay_time,
            newest: Newest::new(limits.live_page as usize),
            known: row.known,
            has_failed: false,
            is_overdue: false,
            filter: filter.clone(),
        }));
        let name = name(sub, n);
        Some(Asked {
            former,
            name,
            filter,
        })
    }
}

impl Row {
    const fn sort(&self, sub: Sub) -> Sort {
        match sub {
            Sub::Membership => Sort::Membership,
            Sub::Channel(_) if self.was_asked => Sort::Again,
            Sub::Channel(_) => Sort::New,
        }
    }
}
