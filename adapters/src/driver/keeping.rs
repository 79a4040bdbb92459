//! Records on their way to the keeper: off the driver's task, one batch at a time.

use std::io;
use std::time::Duration;

use buzz_proto::ids::Ticket;
use buzz_proto::input::Input;
use buzz_proto::relay::{self, Record, Sub};
use futures_util::StreamExt as _;

use super::{Driver, Message};
use crate::connect::Report;
use crate::keep::Keeper;
use crate::runtime::{Runtime, within};

/// What the last write may take after the machine has ended.
const LAST_WRITE_MAX: Duration = Duration::from_secs(5);

/// One order to keep records.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) ticket: Ticket,
    pub(super) records: Vec<Record>,
    pub(super) forgotten: Vec<Sub>,
}

/// A write has ended.
pub(crate) struct Kept {
    ticket: Ticket,
    /// The keeper, unless it panicked or the runtime stops.
    keeper: Option<Box<dyn Keeper>>,
    result: io::Result<()>,
}

/// The keeper, and what is ordered of it.
pub(super) struct Keeping {
    phase: Phase,
    /// Failures since the last success.
    failures: u64,
    /// Why the last write failed, if it did.
    failure: Option<io::Error>,
}

enum Phase {
    /// There is no keeper, or it broke.
    Absent,
    Idle(Box<dyn Keeper>),
    /// A write is under way. The machine may have given it up and ordered another, which holds all
    /// that this one does: so one place to wait is enough.
    Busy {
        waiting: Option<Batch>,
    },
}

impl Keeping {
    pub(super) fn new(keeper: Option<Box<dyn Keeper>>) -> Self {
        Self {
            phase: keeper.map_or(Phase::Absent, Phase::Idle),
            failures: 0,
            failure: None,
        }
    }

    const fn is_busy(&self) -> bool {
        matches!(self.phase, Phase::Busy { .. })
    }

    /// Forgets a batch that is not begun; a write cannot be stopped.
    pub(super) fn abort(&mut self, ticket: Ticket) {
        if let Phase::Busy { waiting } = &mut self.phase {
            waiting.take_if(|batch| batch.ticket == ticket);
        }
    }

    /// Whether a failure is to be told: with the first in a row the second, fourth, eighth …
    fn failed(&mut self, error: &io::Error) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.failure = Some(io::Error::new(error.kind(), error.to_string()));
        self.failures.is_power_of_two()
    }
}

impl<R: Runtime> Driver<R> {
    pub(super) fn persist(&mut self, batch: Batch) {
        match std::mem::replace(&mut self.keeping.phase, Phase::Absent) {
            Phase::Absent => self.refuse(batch.ticket),
            Phase::Idle(keeper) => self.write(keeper, batch),
            Phase::Busy { waiting } => {
                self.keeping.phase = Phase::Busy {
                    waiting: Some(batch),
                };
                if let Some(former) = waiting {
                    self.refuse(former.ticket);
                }
            }
        }
    }

    /// A write has ended: the next one begins.
    pub(super) fn kept(&mut self, kept: Kept) -> Input {
        let Kept {
            ticket,
            keeper,
            result,
        } = kept;
        let phase = std::mem::replace(&mut self.keeping.phase, Phase::Absent);
        let waiting = match phase {
            Phase::Busy { waiting } => waiting,
            Phase::Absent | Phase::Idle(_) => None,
        };
        match (keeper, waiting) {
            (Some(keeper), Some(batch)) => self.write(keeper, batch),
            (Some(keeper), None) => self.keeping.phase = Phase::Idle(keeper),
            (None, Some(batch)) => self.refuse(batch.ticket),
            (None, None) => {}
        }
        Input::Relay(match result {
            Ok(()) => {
                self.keeping.failures = 0;
                self.keeping.failure = None;
                relay::Input::Persisted { ticket }
            }
            Err(error) => {
                if self.keeping.failed(&error) {
                    (self.report)(Report::KeepFailed(error));
                }
                relay::Input::PersistFailed { ticket }
            }
        })
    }

    /// Waits for the write that is under way, and does the one that waits: the last records of a
    /// life are the ones that the next one needs. That they are missing is told.
    pub(super) async fn finish_keeping(&mut self) {
        let last = async {
            while self.keeping.is_busy() {
                match self.inbox.next().await {
                    // The machine has ended and needs no fact.
                    Some(Message::Kept(kept)) => drop(self.kept(*kept)),
                    Some(_) => {}
                    None => return,
                }
            }
        };
        if within::<R, _>(LAST_WRITE_MAX, last).await.is_none() {
            let late = io::Error::new(io::ErrorKind::TimedOut, "the last write has not ended");
            self.keeping.failure = Some(late);
        }
        if let Some(error) = self.keeping.failure.take() {
            (self.report)(Report::NotKept(error));
        }
    }

    fn write(&mut self, mut keeper: Box<dyn Keeper>, batch: Batch) {
        self.keeping.phase = Phase::Busy { waiting: None };
        let Batch {
            ticket,
            records,
            forgotten,
        } = batch;
        let inbox = self.sender.clone();
        R::spawn(async move {
            let work = move || {
                let result = keeper.keep(records, forgotten);
                (keeper, result)
            };
            let (keeper, result) = match R::spawn_blocking(work).await {
                Some((keeper, result)) => (Some(keeper), result),
                None => (None, Err(io::Error::other("what keeps records broke"))),
            };
            let kept = Box::new(Kept {
                ticket,
                keeper,
                result,
            });
            let _gone = inbox.unbounded_send(Message::Kept(kept));
        });
    }

    fn refuse(&self, ticket: Ticket) {
        let fact = Input::Relay(relay::Input::PersistFailed { ticket });
        let _gone = self.sender.unbounded_send(Message::Fact(fact));
    }
}
