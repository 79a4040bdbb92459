//! What the relay tells of itself (NIP-11): its largest page, the key it signs with, and, in the
//! header of the answer, its time.

use core::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::HttpAnswer;
use crate::ids::{PubKey, Ticket};
use crate::time::{MonoTime, Now, Why};

/// After this nobody waits for the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A doubted document is asked for again no sooner than this after the last time.
const DOUBT: Duration = Duration::from_secs(60);
/// One that did not come is asked for again after this, twice as late each time, up to the top.
const RETRY: (Duration, u32) = (Duration::from_secs(60), 3);

#[derive(Clone, Debug, Default)]
pub(super) struct Inform {
    phase: Phase,
    document: Document,
    /// The key that was told last.
    told: Option<PubKey>,
    /// When it was asked last.
    asked: MonoTime,
    /// Whether another key signed what only the relay may.
    is_doubted: bool,
    /// How often in a row there was no answer.
    failures: u32,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    /// To be asked on this connection.
    #[default]
    Due,
    Asked {
        ticket: Ticket,
        since: MonoTime,
        /// Not for the first time on this connection: nothing waits for it.
        is_again: bool,
    },
    Over,
}

impl Inform {
    /// A new connection: the relay may be another one.
    pub(super) const fn reset(&mut self) {
        self.phase = Phase::Due;
    }

    /// Another key signed what only the relay may: it may have a new one.
    pub(super) const fn doubt(&mut self) {
        self.is_doubted = true;
    }

    /// The key that the relay signs with, if it names one.
    pub(super) const fn key(&self) -> Option<PubKey> {
        self.document.key
    }

    /// The largest page that the relay gives, as far as it is known.
    pub(super) const fn limit_max(&self) -> Option<u32> {
        self.document.limit_max
    }

    /// Whether an answer is not to be waited for.
    pub(super) const fn is_over(&self) -> bool {
        match self.phase {
            Phase::Due => false,
            Phase::Asked { is_again, .. } => is_again,
            Phase::Over => true,
        }
    }

    /// Asks, if that is due.
    pub(super) fn ask(&mut self, tickets: &mut Ticket, now: &mut Now) -> Option<Ticket> {
        let is_again = matches!(self.phase, Phase::Over);
        let is_due = match self.phase {
            Phase::Due => true,
            Phase::Asked { .. } => false,
            Phase::Over => self
                .wait()
                .is_some_and(|wait| now.reached(self.asked.after(wait), Why::Inform)),
        };
        if !is_due {
            return None;
        }
        let (ticket, since) = (tickets.take(), now.time());
        self.phase = Phase::Asked {
            ticket,
            since,
            is_again,
        };
        self.asked = since;
        self.is_doubted = false;
        Some(ticket)
    }

    /// From the last question to the next one on the same connection, if there is to be one.
    fn wait(&self) -> Option<Duration> {
        let (first, doublings) = RETRY;
        let again = self.failures.checked_sub(1).map(|failures| {
            let times = 1_u32.checked_shl(failures.min(doublings)).unwrap_or(1);
            first.saturating_mul(times)
        });
        let doubt = self.is_doubted.then_some(DOUBT);
        doubt.into_iter().chain(again).min()
    }

    pub(super) fn awaits(&self, wanted: Ticket) -> bool {
        matches!(self.phase, Phase::Asked { ticket, .. } if ticket == wanted)
    }

    /// The call that took too long, given up.
    pub(super) fn overdue(&mut self, now: &mut Now) -> Option<Ticket> {
        let Phase::Asked { ticket, since, .. } = self.phase else {
            return None;
        };
        if !now.reached(since.after(PATIENCE), Why::Answer) {
            return None;
        }
        self.broke();
        Some(ticket)
    }

    /// There is no answer.
    pub(super) const fn broke(&mut self) {
        self.phase = Phase::Over;
        self.failures = self.failures.saturating_add(1);
    }

    /// The answer came.
    pub(super) fn answered(&mut self, answer: &HttpAnswer) {
        self.phase = Phase::Over;
        if answer.status == 429 || answer.status >= 500 {
            return self.broke();
        }
        self.failures = 0;
        // Another page than the document, say of a proxy, tells nothing of the relay.
        let document = (answer.status == 200).then(|| Document::read(&answer.body));
        self.document = document.flatten().unwrap_or(self.document);
    }

    /// The key of the relay, if it is not the one told before.
    pub(super) fn tell_key(&mut self) -> Option<Option<PubKey>> {
        let key = self.document.key;
        let is_news = key != self.told;
        self.told = key;
        is_news.then_some(key)
    }
}

/// What of the information document decides actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Document {
    /// `limitation.max_limit`; nothing where it is no number of events.
    pub(crate) limit_max: Option<u32>,
    /// `self`, the key that the relay signs with; nothing where it is no key.
    pub(crate) key: Option<PubKey>,
}

impl Document {
    /// Reads the document. A member that is not as it should be spoils no other one.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Members {
            limitation: Option<Value>,
            #[serde(rename = "self")]
            key: Option<Value>,
        }
        // A derived struct would also be read from an array.
        if !body.trim_ascii_start().starts_with(b"{") {
            return None;
        }
        let Members { limitation, key } = serde_json::from_slice(body).ok()?;
        let limit = limitation.and_then(|limits| limits.get("max_limit")?.as_u64());
        let limit = limit.and_then(|limit| u32::try_from(limit).ok());
        Some(Self {
            limit_max: limit.filter(|limit| *limit > 0),
            key: key.and_then(|key| key.as_str()?.parse().ok()),
        })
    }
}
