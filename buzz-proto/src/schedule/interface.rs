//! What goes into the scheduler, and what comes out of it.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::ids::{ChannelId, EventId, JobId, PubKey, Ticket, TurnId};
use crate::note::Note;
use crate::publish;
use crate::relay::{BrokeCause, ChannelState, Disposal, HttpAnswer, Sub};
use crate::time::{MonoTime, UnixTime};
use crate::wire::{Event, Excerpt};

/// One conversation: what is in it is worked on in order, one turn at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// All of a channel.
    Conversation(ChannelId),
    /// One thread, named by its root.
    Thread(ChannelId, EventId),
}

impl Scope {
    /// The channel it lies in.
    #[must_use]
    pub const fn channel(&self) -> ChannelId {
        match self {
            Self::Conversation(channel) | Self::Thread(channel, _) => *channel,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conversation(channel) => write!(f, "conversation {channel}"),
            Self::Thread(channel, root) => write!(f, "thread {root} in {channel}"),
        }
    }
}

/// One life of a worker in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerId {
    /// The slot, counted from zero.
    pub slot: u16,
    /// One more with every start.
    pub incarnation: u32,
}

/// A session, fenced by the life of its worker and by its epoch, which no other session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRef {
    /// Where it lives.
    pub worker: WorkerId,
    /// One more with every session opened by the machine.
    pub epoch: u64,
}

/// Which session a turn runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Session {
    /// Open one under this name.
    Fresh(SessionRef),
    /// Go on with this one.
    Resume(SessionRef),
}

impl Session {
    /// Its name.
    #[must_use]
    pub const fn reference(&self) -> SessionRef {
        match self {
            Self::Fresh(session) | Self::Resume(session) => *session,
        }
    }
}

/// What a worker is told of the time before a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Context {
    /// Nothing: its session knows, or the conversation begins with the batch.
    Known,
    /// What was said, oldest first; may be empty.
    Before(Vec<Event>),
    /// That it could not be read.
    Unread,
}

/// What a control is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// One scope.
    Scope(Scope),
    /// Every scope of a channel.
    Channel(ChannelId),
}

/// A desired state; a stronger one replaces a weaker one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Want {
    /// Work goes on.
    #[default]
    Run,
    /// The running batch ends, discarded.
    Stop,
    /// As `Stop`, and what waited before the control is discarded too.
    StopAndDrop,
    /// As `Stop`, and the session is given up.
    StopAndRotate,
}

/// A fact for the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// The wall clock shows this.
    WallClock(UnixTime),
    /// The application asks for something.
    Command(Command),
    /// An event was delivered.
    Arrived {
        /// The subscription that brought it.
        sub: Sub,
        /// The event.
        event: Event,
        /// In how many earlier lives work on it was begun and not ended.
        lives: u32,
    },
    /// A channel was joined, left, or is better known.
    Channel {
        /// The channel.
        channel: ChannelId,
        /// Its standing.
        state: ChannelState,
    },
    /// The connection is live, or not.
    Link {
        /// Whether it is live.
        live: bool,
    },
    /// A worker is ready for turns.
    WorkerUp {
        /// The worker.
        worker: WorkerId,
    },
    /// A worker has ended or could not start.
    WorkerDown {
        /// The worker.
        worker: WorkerId,
        /// Why.
        cause: DownCause,
    },
    /// The session of a turn exists, and its prompt is under way.
    SessionOpened {
        /// The turn.
        turn: TurnId,
    },
    /// The session of a turn could not be opened or resumed: the turn has ended.
    SessionFailed {
        /// The turn.
        turn: TurnId,
        /// Why.
        cause: OpenCause,
    },
    /// The worker gave a sign of life.
    Progressed {
        /// The turn.
        turn: TurnId,
    },
    /// A turn has ended.
    Finished {
        /// The turn.
        turn: TurnId,
        /// How.
        end: TurnEnd,
    },
    /// A job that the scheduler submitted has its verdict.
    Settled {
        /// The job.
        job: JobId,
        /// The verdict.
        verdict: publish::Verdict,
    },
    /// Whether durable jobs fill half of the outbox.
    Outbox {
        /// Whether they do.
        is_half_full: bool,
    },
    /// The key that the relay signs with, as it tells (NIP-11 `self`).
    RelayKey {
        /// The key; nothing where the relay names none.
        key: Option<PubKey>,
    },
    /// A query was answered.
    Answered {
        /// The call.
        ticket: Ticket,
        /// The answer.
        answer: HttpAnswer,
    },
    /// A query has no answer.
    Broke {
        /// The call.
        ticket: Ticket,
        /// What went wrong.
        cause: BrokeCause,
    },
    /// An event was checked.
    Verified {
        /// The call.
        ticket: Ticket,
        /// Whether it is genuine, and says what it was asked for.
        genuine: bool,
    },
}

/// A request of the application to the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Command {
    /// Change what is wanted of a scope or a channel.
    Control {
        /// Which.
        target: Target,
        /// What.
        want: Want,
    },
    /// Start every worker anew, as whoever starts them now would: another model, other settings.
    /// Sessions are given up; a batch under way goes back and is worked on again.
    /// A usage limit of the workers until now is tried out by one turn, for the account may be another.
    Renew,
    /// End within this time.
    Shutdown {
        /// At most this long.
        #[serde(with = "crate::json::nanos")]
        grace: Duration,
    },
}

/// An order of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Action {
    /// Start a worker; answer with `WorkerUp` or `WorkerDown`.
    Spawn {
        /// Its name.
        worker: WorkerId,
    },
    /// End a worker, by force if it must be; answer with `WorkerDown`.
    Kill {
        /// Its name.
        worker: WorkerId,
    },
    /// Run a turn; answer with `SessionOpened` or `SessionFailed`, `Progressed`, and `Finished`. A
    /// session that does not open for a reason that a [`FailureClass`] names ends its turn as
    /// `Finished` at once.
    /// Where a session to resume is gone, the same batch is started once more under a new id; the
    /// notes go on to name the first.
    Start {
        /// To be echoed.
        turn: TurnId,
        /// In which session, and so on which worker.
        session: Session,
        /// For which scope.
        scope: Scope,
        /// What happened, oldest first; never empty.
        batch: Vec<Event>,
        /// What was said before.
        context: Context,
    },
    /// Ask the worker to end a turn early; `Finished` still comes.
    CancelTurn {
        /// The turn.
        turn: TurnId,
    },
    /// Let a session go; no answer is awaited.
    CloseSession {
        /// The session.
        session: SessionRef,
    },
    /// Events have left the queue. Routed to the relay part.
    Left {
        /// The subscription that brought them.
        sub: Sub,
        /// How many.
        count: u32,
    },
    /// Events are worked on from now on. Routed to the relay part.
    Started {
        /// The events.
        events: Vec<EventId>,
        /// The event that the answer will name: the newest of them.
        target: EventId,
    },
    /// An event has its final outcome, or is refused for now. Routed to the relay part.
    Dispose {
        /// The event.
        event: EventId,
        /// The outcome.
        how: Disposal,
    },
    /// Publish something. Routed to the publisher.
    Publish(publish::Command),
    /// `POST /query` with this body, its NIP-98 header signed anew; answer with `Answered` or
    /// `Broke`.
    Query {
        /// To be echoed.
        ticket: Ticket,
        /// The body.
        #[serde(with = "crate::json::text")]
        body: Bytes,
    },
    /// Check id and signature of an event; answer with `Verified`.
    Verify {
        /// To be echoed.
        ticket: Ticket,
        /// The event.
        event: Event,
        /// Whether its `auth` tag (NIP-OA) must be the word of this owner for its author.
        owner: Option<PubKey>,
    },
    /// The answer to this call is not awaited any more.
    Abort {
        /// The call.
        ticket: Ticket,
    },
    /// Someone with the right to ask wants the whole agent to end. Routed to the machine.
    ShutdownRequested,
    /// Every worker has ended, and nothing more is started or submitted. Messages that are under way
    /// past the grace still want their `Settled`: it tells the outcome of their events, or that they
    /// are handed back.
    Ended,
    /// A fact worth telling.
    Note(Note),
    /// Call `Tick` then; last, and only when it changed.
    WakeAt(Option<MonoTime>),
}

impl From<Note> for Action {
    fn from(note: Note) -> Self {
        Self::Note(note)
    }
}

/// Why a worker is down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum DownCause {
    /// The command cannot be run at all.
    CannotStart {
        /// What the system said.
        text: Excerpt,
    },
    /// It did not get through the ACP handshake.
    NoHandshake {
        /// What was wrong.
        text: Excerpt,
    },
    /// It ended by itself.
    Exited {
        /// Its exit code, if it had one.
        code: Option<i32>,
        /// The end of what it wrote on stderr.
        text: Excerpt,
    },
    /// It broke the protocol and was ended.
    Protocol {
        /// What was wrong.
        text: Excerpt,
    },
    /// It was ended as ordered.
    Killed,
}

/// Why a session could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum OpenCause {
    /// The worker answered with an error.
    Refused {
        /// Its words.
        text: Excerpt,
    },
    /// The worker does not know the session that was to be resumed.
    Unknown,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum TurnEnd {
    /// The worker finished the prompt.
    Answered {
        /// What it streamed as its answer; may be empty.
        reply: String,
        /// Its stop reason.
        stop: StopReason,
    },
    /// It ended the prompt because it was asked to.
    Cancelled,
    /// It could not answer.
    Failed {
        /// What kind of failure.
        class: FailureClass,
        /// Its words.
        text: Excerpt,
    },
}

/// ACP `stopReason` of a finished prompt, `cancelled` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// The answer is complete.
    EndTurn,
    /// The model ran out of tokens.
    MaxTokens,
    /// The turn ran out of requests.
    MaxTurnRequests,
    /// The model refused.
    Refusal,
}

/// What a failure says about the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureClass {
    /// It may pass.
    Transient,
    /// The account has used up its allowance.
    UsageLimit {
        /// Until then, if it said so.
        until: Option<UnixTime>,
    },
    /// Someone must log in or configure something.
    NeedsHuman,
    /// The worker has forgotten the session.
    SessionGone,
    /// The worker broke the protocol.
    Protocol,
}
