//! What the relay tells of itself (NIP-11): its largest page, and, in the header of the answer,
//! its time.

use core::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

use super::HttpAnswer;
use crate::ids::Ticket;
use crate::time::{MonoTime, Now, Why};

/// After this nobody waits for the answer.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Default)]
pub(super) struct Inform {
    phase: Phase,
    limit_max: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    /// To be asked once on this connection.
    #[default]
    Due,
    Asked {
        ticket: Ticket,
        since: MonoTime,
    },
    Over,
}

impl Inform {
    /// A new connection: the relay may be another one.
    pub(super) const fn reset(&mut self) {
        self.phase = Phase::Due;
    }

    /// The largest page that the relay gives, as far as it is known.
    pub(super) const fn limit_max(&self) -> Option<u32> {
        self.limit_max
    }

    /// Whether an answer is not to be waited for.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Asks, if that is due.
    pub(super) fn ask(&mut self, tickets: &mut Ticket, now: MonoTime) -> Option<Ticket> {
        if !matches!(self.phase, Phase::Due) {
            return None;
        }
        let ticket = tickets.take();
        self.phase = Phase::Asked { ticket, since: now };
        Some(ticket)
    }

    pub(super) fn awaits(&self, wanted: Ticket) -> bool {
        matches!(self.phase, Phase::Asked { ticket, .. } if ticket == wanted)
    }

    /// The call that took too long, given up.
    pub(super) fn overdue(&mut self, now: &mut Now) -> Option<Ticket> {
        let Phase::Asked { ticket, since } = self.phase else {
            return None;
        };
        if !now.reached(since.after(PATIENCE), Why::Answer) {
            return None;
        }
        self.phase = Phase::Over;
        Some(ticket)
    }

    /// There is no answer.
    pub(super) const fn broke(&mut self) {
        self.phase = Phase::Over;
    }

    /// The answer came.
    pub(super) fn answered(&mut self, answer: &HttpAnswer) {
        self.phase = Phase::Over;
        if answer.status == 200 {
            self.limit_max = limit_max(&answer.body);
        }
    }
}

/// `limitation.max_limit` of the document.
pub(crate) fn limit_max(body: &Bytes) -> Option<u32> {
    #[derive(Deserialize)]
    struct Document {
        limitation: Option<Limitation>,
    }
    #[derive(Deserialize)]
    struct Limitation {
        max_limit: Option<u32>,
    }
    let document: Document = serde_json::from_slice(body).ok()?;
    document.limitation?.max_limit.filter(|limit| *limit > 0)
}
