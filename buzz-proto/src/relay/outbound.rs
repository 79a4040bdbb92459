//! EVENTs on the socket: each is answered by exactly one receipt.
//!
//! Whether to send again is the publisher's decision; here is only what is known: it did not
//! leave, it left and nothing came back, or the relay answered.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::{Action, Limits, Receipt};
use crate::gate::{Generation, Refusal};
use crate::ids::{EventId, Ticket, WriteId};
use crate::quotas::{OperationLane, Quotas};
use crate::time::{MonoTime, Now, Why};
use crate::wire::{self, Event, Reason};

#[derive(Clone, Debug, Default)]
pub(super) struct Outbound {
    rows: VecDeque<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    ticket: Ticket,
    id: EventId,
    /// Whether it goes before requests for channels; else it goes after everything.
    durable: bool,
    /// Whether its receipt is not wanted any more.
    is_withdrawn: bool,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    Waiting {
        frame: Bytes,
    },
    Sent {
        write: WriteId,
        since: MonoTime,
        stamp: MessageStamp,
    },
    /// Its receipt is due.
    Done(Receipt),
}

/// When an EVENT was sent: it is charged to two quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageStamp {
    operations: Generation,
    messages: Generation,
}

/// A refusal with a hint as short as this may be about either quota: their windows are 5 s and
/// one minute.
const OPERATIONS_WINDOW: Duration = Duration::from_secs(5);

impl MessageStamp {
    /// Takes a token of both quotas, or of none, for one of `count` EVENTs that wait.
    fn start(lane: OperationLane, count: u32, quotas: &mut Quotas, now: &mut Now) -> Option<Self> {
        // A turn for an operation is not to be wasted on an EVENT that may not go.
        if !quotas.messages.is_ready(now) {
            return None;
        }
        quotas.operations.wait(lane, count);
        let operations = quotas.operations.start(lane, now)?;
        let messages = quotas.messages.start(now)?;
        Some(Self {
            operations,
            messages,
        })
    }

    /// The stamp of what is sent now.
    pub(super) const fn present(quotas: &Quotas) -> Self {
        let operations = quotas.operations.pace.generation();
        Self {
            operations,
            messages: quotas.messages.generation(),
        }
    }

    /// The EVENT was refused because there were too many.
    pub(super) fn refuse(
        self,
        quotas: &mut Quotas,
        hint: Option<Duration>,
        now: MonoTime,
    ) -> Refusal {
        if hint.is_none_or(|hint| hint <= OPERATIONS_WINDOW) {
            quotas.operations.pace.refuse(hint, self.operations, now);
        }
        quotas.messages.refuse(hint, self.messages, now)
    }

    /// The EVENT was answered otherwise.
    pub(super) fn succeed(self, quotas: &mut Quotas) {
        quotas.operations.pace.succeed(self.operations);
        quotas.messages.succeed(self.messages);
    }
}

/// An EVENT that may be written now.
pub(super) struct Outgoing {
    pub(super) write: WriteId,
    pub(super) frame: Bytes,
}

impl Outbound {
    /// Takes an event; one that cannot be taken is answered at once.
    pub(super) fn push(
        &mut self,
        ticket: Ticket,
        durable: bool,
        raw: &Bytes,
        has_socket: bool,
        limits: &Limits,
    ) {
        let has_room = has_socket && self.rows.len() < limits.outbound_max as usize;
        let (id, phase) = match Event::decode(raw.clone()) {
            Ok(event) if has_room => (
                event.id(),
                Phase::Waiting {
                    frame: wire::event(event.raw()),
                },
            ),
            Ok(event) => (event.id(), Phase::Done(Receipt::NotSent)),
            Err(_) => (EventId([0; 32]), Phase::Done(Receipt::NotSent)),
        };
        self.rows.push_back(Row {
            ticket,
            id,
            durable,
            is_withdrawn: false,
            phase,
        });
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether a receipt is wanted that was not given out.
    pub(super) fn owes(&self) -> bool {
        self.rows.iter().any(|row| !row.is_withdrawn)
    }

    /// How many await their OK, and how many wait to be sent.
    pub(super) fn counts(&self) -> (u32, u32) {
        let count = |is: fn(&Phase) -> bool| {
            let rows = self.rows.iter().filter(|row| is(&row.phase));
            u32::try_from(rows.count()).unwrap_or(u32::MAX)
        };
        (count(Phase::is_sent), count(Phase::is_waiting))
    }

    /// An OK came. Nothing when no event awaits it, else the stamp with which it was sent.
    pub(super) fn answered(
        &mut self,
        id: EventId,
        accepted: bool,
        reason: Reason,
    ) -> Option<MessageStamp> {
        let sent = self
            .rows
            .iter_mut()
            .find(|row| row.id == id && row.phase.is_sent())?;
        let Phase::Sent { stamp, .. } = sent.phase else {
            return None;
        };
        sent.phase = Phase::Done(Receipt::Answered { accepted, reason });
        Some(stamp)
    }

    /// An event need not be sent, and has no receipt. One that has left stays, because its answer
    /// tells of the quotas.
    pub(super) fn withdraw(&mut self, ticket: Ticket) {
        self.rows.retain_mut(|row| {
            row.is_withdrawn |= row.ticket == ticket;
            !(row.is_withdrawn && row.phase.is_waiting())
        });
    }

    /// A refusal that names no event: it may be any of those that have no answer. Gives the stamp
    /// of the oldest.
    pub(super) fn take_back(&mut self) -> Option<MessageStamp> {
        let mut oldest = None;
        for row in &mut self.rows {
            if let Phase::Sent { stamp, .. } = row.phase {
                oldest = oldest.or(Some(stamp));
                row.phase = Phase::Done(Receipt::Unanswered);
            }
        }
        oldest
    }

    /// A write broke before anything of it left.
    pub(super) fn not_sent(&mut self, write: WriteId) {
        for row in &mut self.rows {
            if matches!(row.phase, Phase::Sent { write: sent, .. } if sent == write) {
                row.phase = Phase::Done(Receipt::NotSent);
            }
        }
    }

    /// The socket is over.
    pub(super) fn reset(&mut self) {
        for row in &mut self.rows {
            let receipt = match &row.phase {
                Phase::Waiting { .. } => Receipt::NotSent,
                Phase::Sent { .. } => Receipt::Unanswered,
                Phase::Done(_) => continue,
            };
            row.phase = Phase::Done(receipt);
        }
    }

    /// The next event to write, if the quotas let it: a durable one, or one of the others.
    pub(super) fn next(
        &mut self,
        durable: bool,
        quotas: &mut Quotas,
        writes: &mut WriteId,
        now: &mut Now,
    ) -> Option<Outgoing> {
        let waits = |row: &&mut Row| row.durable == durable && row.phase.is_waiting();
        let count = self.rows.iter_mut().filter(waits).count();
        let row = self.rows.iter_mut().find(waits)?;
        let lane = if durable {
            OperationLane::Event
        } else {
            OperationLane::Latest
        };
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let stamp = MessageStamp::start(lane, count, quotas, now)?;
        let write = writes.take();
        let phase = Phase::Sent {
            write,
            since: now.time(),
            stamp,
        };
        let Phase::Waiting { frame } = core::mem::replace(&mut row.phase, phase) else {
            return None;
        };
        Some(Outgoing { write, frame })
    }

    /// Gives out the receipts that are due. True when there were any.
    pub(super) fn settle(&mut self, limits: &Limits, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let before = self.rows.len();
        self.rows.retain_mut(|row| {
            let receipt = match &row.phase {
                Phase::Waiting { .. } => return true,
                Phase::Sent { since, .. } => {
                    if !now.reached(since.after(limits.receipt), Why::Receipt) {
                        return true;
                    }
                    Receipt::Unanswered
                }
                Phase::Done(receipt) => receipt.clone(),
            };
            if !row.is_withdrawn {
                let ticket = row.ticket;
                out.push(Action::Receipt { ticket, receipt });
            }
            false
        });
        self.rows.len() != before
    }
}

impl Phase {
    const fn is_sent(&self) -> bool {
        matches!(self, Self::Sent { .. })
    }

    const fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting { .. })
    }
}
