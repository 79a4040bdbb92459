//! What a scheduler did since the case began, with times in milliseconds from then.

use buzz_proto::ids::TurnId;
use buzz_proto::note::{HoldEnd, Note, TurnOutcome};
use buzz_proto::publish::{Body, Class, Command};
use buzz_proto::schedule::{Action, Session, SessionRef, WorkerId};
use buzz_proto::wire::Draft;

use super::{Crew, number};

/// A turn that began.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) at: u64,
    pub(crate) turn: TurnId,
    pub(crate) session: Session,
    pub(crate) batch: Vec<u64>,
}

impl Begun {
    pub(crate) const fn slot(&self) -> u16 {
        self.session.reference().worker.slot
    }

    pub(crate) const fn is_fresh(&self) -> bool {
        matches!(self.session, Session::Fresh(_))
    }
}

/// All orders.
pub(crate) fn orders(crew: &Crew) -> Vec<(u64, Action)> {
    let calls = crew.script.calls().into_iter();
    let timed = calls.filter_map(|(at, _, actions)| Some((crew.ms(at)?, actions)));
    timed
        .flat_map(|(at, actions)| actions.into_iter().map(move |action| (at, action)))
        .collect()
}

fn such<T>(crew: &Crew, pick: impl Fn(u64, Action) -> Option<T>) -> Vec<T> {
    let all = orders(crew).into_iter();
    all.filter_map(|(at, action)| pick(at, action)).collect()
}

/// All turns that began.
pub(crate) fn begun(crew: &Crew) -> Vec<Begun> {
    such(crew, |at, action| {
        let Action::Start {
            turn,
            session,
            batch,
            ..
        } = action
        else {
            return None;
        };
        let batch = batch.iter().map(|event| number(event.id())).collect();
        Some(Begun {
            at,
            turn,
            session,
            batch,
        })
    })
}

/// The turns that began with this event.
pub(crate) fn begun_with(crew: &Crew, n: u64) -> Vec<Begun> {
    let mut all = begun(crew);
    all.retain(|begun| begun.batch.contains(&n));
    all
}

/// All notes.
pub(crate) fn noted(crew: &Crew) -> Vec<(u64, Note)> {
    such(crew, |at, action| {
        let Action::Note(note) = action else {
            return None;
        };
        Some((at, note))
    })
}

/// How turns ended.
pub(crate) fn ended(crew: &Crew) -> Vec<(u64, TurnOutcome)> {
    let all = noted(crew).into_iter();
    let ends = all.filter_map(|(at, note)| {
        let Note::TurnEnded { outcome, .. } = note else {
            return None;
        };
        Some((at, outcome))
    });
    ends.collect()
}

/// When this event had an outcome, and which.
pub(crate) fn ends_of(crew: &Crew, n: u64) -> Vec<(u64, buzz_proto::relay::Disposal)> {
    such(crew, |at, action| {
        let Action::Dispose { event, how } = action else {
            return None;
        };
        (number(event) == n).then_some((at, how))
    })
}

/// When workers were started.
pub(crate) fn spawned(crew: &Crew) -> Vec<(u64, WorkerId)> {
    such(crew, |at, action| {
        let Action::Spawn { worker } = action else {
            return None;
        };
        Some((at, worker))
    })
}

/// When workers were ended.
pub(crate) fn killed(crew: &Crew) -> Vec<(u64, WorkerId)> {
    such(crew, |at, action| {
        let Action::Kill { worker } = action else {
            return None;
        };
        Some((at, worker))
    })
}

/// When sessions were let go.
pub(crate) fn closed(crew: &Crew) -> Vec<(u64, SessionRef)> {
    such(crew, |at, action| {
        let Action::CloseSession { session } = action else {
            return None;
        };
        Some((at, session))
    })
}

/// After which attempts work was put off, with the wait in milliseconds.
pub(crate) fn retried(crew: &Crew) -> Vec<(u64, u16, u64)> {
    let all = noted(crew).into_iter();
    let retries = all.filter_map(|(at, note)| {
        let Note::TurnRetried { attempts, wait, .. } = note else {
            return None;
        };
        let wait = u64::try_from(wait.as_millis()).expect("a short wait");
        Some((at, attempts, wait))
    });
    retries.collect()
}

/// When turns were cancelled.
pub(crate) fn cancelled(crew: &Crew) -> Vec<(u64, TurnId)> {
    such(crew, |at, action| {
        let Action::CancelTurn { turn } = action else {
            return None;
        };
        Some((at, turn))
    })
}

/// What was said for good: answers and notices.
pub(crate) fn published(crew: &Crew) -> Vec<(u64, Draft)> {
    such(crew, |at, action| {
        let Action::Publish(Command::Submit {
            class: Class::Durable,
            body: Body::SignWhenSent(draft),
            ..
        }) = action
        else {
            return None;
        };
        Some((at, draft))
    })
}

/// When these were.
pub(crate) fn times<T>(all: &[(u64, T)]) -> Vec<u64> {
    all.iter().map(|(at, _)| *at).collect()
}

/// When scopes began to wait for a busy worker.
pub(crate) fn holds(crew: &Crew) -> Vec<(u64, WorkerId)> {
    let all = noted(crew).into_iter();
    let held = all.filter_map(|(at, note)| {
        let Note::Held { worker, .. } = note else {
            return None;
        };
        Some((at, worker))
    });
    held.collect()
}

/// When and how such waits ended.
pub(crate) fn hold_ends(crew: &Crew) -> Vec<(u64, HoldEnd)> {
    let all = noted(crew).into_iter();
    let ends = all.filter_map(|(at, note)| {
        let Note::HoldEnded { how, .. } = note else {
            return None;
        };
        Some((at, how))
    });
    ends.collect()
}
