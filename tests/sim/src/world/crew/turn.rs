//! One turn, as its worker sees it.

use std::time::Duration;

use buzz_proto::ids::{EventId, TurnId};
use buzz_proto::schedule::{FailureClass, Session, SessionRef, StopReason, TurnEnd};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Excerpt;

use super::{ANSWER, Deed, Task};

/// What a worker is given.
#[derive(Debug)]
pub(in crate::world) struct Given {
    pub(in crate::world) turn: TurnId,
    pub(in crate::world) session: Session,
    pub(in crate::world) events: Vec<EventId>,
}

impl Given {
    pub(super) const fn is_fresh(&self) -> bool {
        matches!(self.session, Session::Fresh(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Opening,
    Working,
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) id: TurnId,
    pub(super) session: SessionRef,
    pub(super) is_fresh: bool,
    pub(super) task: Task,
    pub(super) stage: Stage,
}

impl Job {
    pub(super) const fn new(given: &Given, task: Task) -> Self {
        Self {
            id: given.turn,
            session: given.session.reference(),
            is_fresh: given.is_fresh(),
            task,
            stage: Stage::Opening,
        }
    }

    /// Whether a cancel ends it.
    pub(super) const fn hears(&self) -> bool {
        !matches!(self.task.deed, Deed::Hang | Deed::Ignore | Deed::Linger)
    }

    /// How it ends.
    pub(super) fn end(&self, wall: UnixTime) -> TurnEnd {
        let failed = |class, text| TurnEnd::Failed {
            class,
            text: Excerpt::new(text),
        };
        match self.task.deed {
            Deed::Answer
            | Deed::AnswerTwice
            | Deed::Ignore
            | Deed::Forget
            | Deed::Crash
            | Deed::Hang
            | Deed::Refuse
            | Deed::Linger => self.answer(),
            Deed::SayNothing => TurnEnd::Answered {
                reply: String::new(),
                stop: StopReason::EndTurn,
            },
            Deed::AnswerLate | Deed::Fail => {
                failed(FailureClass::Transient, "the model is overloaded")
            }
            Deed::NeedHuman => failed(FailureClass::NeedsHuman, "please log in"),
            Deed::Limit(span) => {
                let until = span.map(|span: Duration| wall.after(span));
                failed(FailureClass::UsageLimit { until }, "usage limit reached")
            }
            Deed::Babble => failed(FailureClass::Protocol, "that was no message"),
            Deed::Lose => failed(FailureClass::SessionGone, "no such session"),
        }
    }

    /// What it says when it is over.
    pub(super) fn second_end(&self) -> Option<TurnEnd> {
        let is_due = matches!(self.task.deed, Deed::AnswerTwice | Deed::AnswerLate);
        is_due.then(|| self.answer())
    }

    fn answer(&self) -> TurnEnd {
        TurnEnd::Answered {
            reply: format!("{ANSWER}{}", self.id.0),
            stop: StopReason::EndTurn,
        }
    }
}
