//! How work is handed to workers, and what people see of it.

use clap::builder::BoolishValueParser;
use clap::{Args as ClapArgs, ValueEnum};

/// Seconds of a day.
const DAY: u64 = 24 * 3600;

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Work")]
pub(crate) struct WorkArgs {
    /// How many workers run at a time, 1 to 32.
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=32))]
    #[arg(env = "BUZZ_ACP_AGENTS", hide_env = true)]
    pub(crate) workers: u16,
    /// What is one conversation; a direct message always is.
    #[arg(long, value_enum, default_value_t = SessionPolicy::Thread)]
    #[arg(env = "BUZZ_ACP_SESSION_POLICY", hide_env = true)]
    pub(crate) policy: SessionPolicy,
    /// How long a thread waits for the worker that knows it while that one is busy, before it goes
    /// to another one; 0 does not wait, 3600 is the most.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub(crate) hold: u64,
    /// A turn without a sign of life is ended after this, and tried again; 1 to a day.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=DAY))]
    #[arg(env = "BUZZ_ACP_IDLE_TIMEOUT", hide_env = true)]
    pub(crate) turn_idle: u64,
    /// A turn is ended after this whatever it does, and that is said in its thread; 1 to seven days.
    #[arg(long, value_name = "SECONDS", default_value_t = 7200)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=7 * DAY))]
    #[arg(env = "BUZZ_ACP_MAX_TURN_DURATION", hide_env = true)]
    pub(crate) turn_limit: u64,
    /// From a cancel to the end of its turn; then the worker is replaced; 1 to 300.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=300))]
    pub(crate) cancel_grace: u64,
    /// Attempts at a message before its thread is told that it failed, 1 to 100.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) attempts: u16,
    /// Sessions that a worker keeps, 1 to 100.
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) sessions: u16,
    /// A session without a turn is closed after this; 1 to a day.
    #[arg(long, value_name = "SECONDS", default_value_t = 2700)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=DAY))]
    pub(crate) session_idle: u64,
    /// Messages that one turn answers, 1 to 500.
    #[arg(long, value_name = "N", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) batch: u32,
    /// Messages of one channel that may wait, 1 to 5000; what is beyond is read again later.
    #[arg(long, value_name = "N", default_value_t = 500)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=5000))]
    pub(crate) queue: u32,
    /// Messages that may wait in all, 1 to 50000.
    #[arg(long, value_name = "N", default_value_t = 5000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub(crate) queue_total: u32,
    /// Earlier messages of its thread that a new session is told, 0 to 100.
    #[arg(long, value_name = "N", default_value_t = 12)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100))]
    #[arg(env = "BUZZ_ACP_CONTEXT_MESSAGE_LIMIT", hide_env = true)]
    pub(crate) context: u32,
    /// What a message does that comes during a turn of its conversation.
    #[arg(long, value_enum, default_value_t = During::Queue)]
    #[arg(env = "BUZZ_ACP_MULTIPLE_EVENT_HANDLING", hide_env = true)]
    pub(crate) during_turn: During,
    /// What a worker that asks for permission is told [default: allow-once where only the owner is
    /// answered, else reject-once].
    #[arg(long, value_enum)]
    pub(crate) permissions: Option<Permission>,
    /// Put no marks on messages that were seen or wait.
    #[arg(long, value_parser = BoolishValueParser::new())]
    pub(crate) no_marks: bool,
    /// Show neither that the agent is there nor that it is typing.
    #[arg(long, value_parser = BoolishValueParser::new())]
    #[arg(env = "BUZZ_ACP_NO_PRESENCE", hide_env = true)]
    pub(crate) no_presence: bool,
    /// Do not say in its thread that a message got no answer, and why: it stands in the report
    /// alone.
    #[arg(long, value_parser = BoolishValueParser::new())]
    pub(crate) no_notices: bool,
}

/// What is one conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SessionPolicy {
    /// Each thread.
    Thread,
    /// Each channel.
    Channel,
}

/// What a message does that comes during a turn of its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum During {
    /// It waits for the end of the turn.
    Queue,
    /// Accepted for the existing harness's sake; means queue.
    Steer,
    /// Accepted for the existing harness's sake; means queue.
    Interrupt,
}

/// What a worker that asks for permission is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Permission {
    /// Yes, this once. Only where you trust everyone who is answered.
    AllowOnce,
    /// No, this once.
    RejectOnce,
}
