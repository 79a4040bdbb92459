//! What goes into the publisher, and what comes out of it.

use core::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::ids::{EventId, JobId, PubKey, Ticket};
use crate::note::Note;
use crate::relay::{BrokeCause, HttpAnswer, Receipt};
use crate::schedule::Scope;
use crate::time::{MonoTime, UnixTime};
use crate::wire::{Draft, Event, Reason};

/// How a job is treated when there is more to publish than the relay takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Class {
    /// Replies, notices, deletions: kept until they have a verdict.
    Durable,
    /// Only the newest of its key matters; it replaces the one that waits.
    Latest(LatestKey),
}

/// What a `Latest` job is the newest of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LatestKey {
    /// Whether the agent is online.
    Presence,
    /// Whether it is typing there.
    Typing(Scope),
}

/// Which way a job goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Route {
    /// `POST /events`, or the socket where the relay has no such route.
    Post,
    /// An EVENT on the socket: ephemeral kinds can go no other way.
    Socket,
}

/// What a job publishes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// A signed event.
    Signed(Event),
    /// A draft, signed when its turn comes, so that its date is fresh.
    SignWhenSent(Draft),
}

/// A fact for the publisher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// The wall clock shows this.
    WallClock(UnixTime),
    /// The application asks for something.
    Command(Command),
    /// A draft was signed.
    Signed {
        /// The call.
        ticket: Ticket,
        /// The signed event, as JSON.
        #[serde(with = "crate::json::text")]
        event: Bytes,
    },
    /// The signer refused or broke.
    SignFailed {
        /// The call.
        ticket: Ticket,
    },
    /// A post or a query was answered.
    Answered {
        /// The call.
        ticket: Ticket,
        /// The answer.
        answer: HttpAnswer,
    },
    /// A post or a query has no answer.
    Broke {
        /// The call.
        ticket: Ticket,
        /// What went wrong.
        cause: BrokeCause,
    },
    /// The outcome of an EVENT on the socket.
    Receipt {
        /// The call.
        ticket: Ticket,
        /// The outcome.
        receipt: Receipt,
    },
    /// The socket can carry EVENTs from now on, or not.
    Link {
        /// Whether it is live.
        live: bool,
    },
}

/// A request of the application to the publisher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Command {
    /// Publish this; answered by exactly one `Settle`.
    Submit {
        /// Chosen by the caller, never used twice; the uppermost 2⁵⁶ numbers are taken.
        job: JobId,
        /// How it is treated.
        class: Class,
        /// Which way it goes.
        route: Route,
        /// What it is.
        body: Body,
        /// The caller's limit from now; nothing means the class's own.
        #[serde(with = "crate::json::optional_nanos")]
        ttl: Option<Duration>,
    },
    /// From now on the message is to bear this mark as a reaction of the agent, and no other.
    /// Marks go after all durable jobs, and have no verdict: what cannot be shown is noted.
    React {
        /// The message.
        message: EventId,
        /// Its author.
        author: PubKey,
        /// The mark; nothing takes away the one that is there.
        mark: Option<Mark>,
    },
    /// The verdict of this job is not wanted any more.
    Cancel {
        /// The job.
        job: JobId,
    },
    /// End within this time.
    Shutdown {
        /// At most this long.
        #[serde(with = "crate::json::nanos")]
        grace: Duration,
    },
}

/// What a reaction of the agent says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mark {
    /// The agent has it.
    Seen,
    /// It waits for longer than usual.
    Waiting,
}

/// An order of the publisher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Action {
    /// Sign this draft; answer with `Signed` or `SignFailed`.
    Sign {
        /// To be echoed.
        ticket: Ticket,
        /// The draft.
        draft: Draft,
    },
    /// `POST /events`, its NIP-98 header signed anew; answer with `Answered` or `Broke`.
    Post {
        /// To be echoed.
        ticket: Ticket,
        /// Counted from one.
        attempt: u16,
        /// The event.
        event: Event,
    },
    /// `POST /query` with this body, its NIP-98 header signed anew: whether the relay has an event;
    /// answer with `Answered` or `Broke`.
    Query {
        /// To be echoed.
        ticket: Ticket,
        /// The body.
        #[serde(with = "crate::json::text")]
        body: Bytes,
    },
    /// The answer to this call is not awaited any more.
    Abort {
        /// The call.
        ticket: Ticket,
    },
    /// Send an EVENT over the socket. Routed to the relay part.
    Send {
        /// To be echoed by the receipt.
        ticket: Ticket,
        /// Whether it goes before requests; else it goes after everything.
        durable: bool,
        /// The event.
        event: Event,
    },
    /// A job has its verdict.
    Settle {
        /// The job.
        job: JobId,
        /// The verdict.
        verdict: Verdict,
    },
    /// Durable jobs fill half of the outbox from now on, by number or by bytes, or do so no more.
    /// Routed to the workers' scheduler.
    Outbox {
        /// Whether they do.
        is_half_full: bool,
    },
    /// Every job has its verdict and none will be taken.
    Ended,
    /// A fact worth telling.
    Note(Note),
    /// Call `Tick` then; last, and only when it changed.
    WakeAt(Option<MonoTime>),
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Verdict {
    /// The relay has it (or took it, where the kind is not stored).
    Stored,
    /// The relay will not have it; or it refused the last try in a way that might have passed, and
    /// the deadline came before another.
    Rejected {
        /// In the relay's words.
        reason: Reason,
    },
    /// It was sent, and no answer came by its deadline.
    Unknown,
    /// Its deadline passed before it could be sent, or while the relay took no more.
    Expired,
    /// There was no room for it, or a newer one took its place.
    Evicted,
    /// The caller took it back, or the machine ended.
    Cancelled,
}
