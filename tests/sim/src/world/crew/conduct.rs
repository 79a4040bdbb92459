//! How workers behave: how long things take them, and what goes wrong.

use std::time::Duration;

/// From here to there, both included.
pub type Span = (Duration, Duration);

/// How a turn goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// It is answered.
    Answer,
    /// It is answered, and once more.
    AnswerTwice,
    /// It fails, and is answered when it is over.
    AnswerLate,
    /// It ends without a word.
    SayNothing,
    /// It fails in a way that may pass.
    Fail,
    /// It fails because someone must see to the worker first.
    NeedHuman,
    /// The account has used up its allowance, and is told for how long, if at all.
    Limit(Option<Duration>),
    /// The worker breaks the protocol.
    Babble,
    /// The worker ends in the middle of it.
    Crash,
    /// There is no sign of life, and a cancel is not heard.
    Hang,
    /// It is answered, and a cancel is not heard.
    Ignore,
    /// The session does not open.
    Refuse,
    /// The session never opens, and nobody says so.
    Linger,
    /// The session to go on in is not known any more; a fresh one is answered in.
    Forget,
    /// The session is forgotten in the middle of it.
    Lose,
}

/// What is to become of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// How it goes.
    pub deed: Deed,
    /// From the open session to the end.
    pub takes: Duration,
}

/// How workers behave where nothing else is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conduct {
    /// A worker's start.
    pub start: Span,
    /// Of a thousand starts, so many never come to an end.
    pub stuck_starts: u16,
    /// The opening of a session.
    pub open: Span,
    /// Turns, each kind with its weight.
    pub turns: Vec<(u16, Span)>,
    /// Between two signs of life.
    pub breath: Duration,
    /// Of a thousand turns, so many go this way; the others are answered.
    pub faults: Vec<(Deed, u16)>,
}

impl Default for Conduct {
    /// Sound workers that answer in some seconds.
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self {
            start: (second, second.saturating_mul(3)),
            stuck_starts: 0,
            open: (Duration::from_millis(50), second),
            turns: vec![(1, (second, second.saturating_mul(8)))],
            breath: second.saturating_mul(30),
            faults: Vec::new(),
        }
    }
}
