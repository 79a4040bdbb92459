//! The judge of the workers finds each fault that is put into a log without any.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::ids::TurnId;
use buzz_proto::input::Input;
use buzz_proto::note::{HoldEnd, Note, TurnOutcome};
use buzz_proto::schedule::{self, Scope, Session};
use buzz_sim::scenario::hold::Hold;
use buzz_sim::world::crew::ANSWER;
use buzz_sim::world::judge::{Judge, Verdict};
use buzz_sim::world::{Said, Told};

use crate::support::SOON;

/// What was told in a run, and what the relay stored in the end.
#[derive(Clone)]
struct Log {
    judge: Judge,
    told: Vec<Told>,
    said: Vec<Said>,
}

static LOG: LazyLock<Log> = LazyLock::new(|| {
    let hold = Hold {
        seed: 4,
        workers: 4,
    };
    let world = hold.played(|_| {}).expect("it is played");
    Log {
        judge: world.judge_begun().expect("there are workers"),
        told: world.told().to_vec(),
        said: world.said(),
    }
});

#[test]
fn a_log_without_a_fault_has_none() {
    let verdict = judged(&LOG);

    assert_eq!(verdict.faults, Vec::<String>::new());
    assert_eq!(
        (verdict.lost, verdict.doubled, verdict.stale_resumes),
        (0, 0, 0)
    );
    assert_eq!(verdict.thread_wait.as_millis(), 10_000);
}

#[test]
fn a_turn_in_a_session_that_is_not_the_newest_is_found() {
    let mut log = LOG.clone();
    let resumed = log.actions().find_map(|action| {
        if let Action::Schedule(schedule::Action::Start {
            session: Session::Resume(session),
            ..
        }) = action
        {
            Some(session)
        } else {
            None
        }
    });
    resumed.expect("some turn goes on in its session").epoch -= 1;

    assert_eq!(judged(&log).stale_resumes, 1);
}

#[test]
fn a_conversation_that_waits_beside_a_free_worker_is_found() {
    let mut log = LOG.clone();
    let is_claim = |note: &Note| {
        matches!(
            note,
            Note::TurnStarted {
                scope: Scope::Conversation(_),
                ..
            }
        )
    };
    log.delay(is_claim, 11 * SOON);

    let verdict = judged(&log);

    assert_eq!(verdict.conversation_wait.as_millis(), 11_000);
    assert_ne!(verdict.faults, Vec::<String>::new());
}

#[test]
fn a_thread_that_is_held_for_too_long_is_found() {
    let mut log = LOG.clone();
    let is_fork = |note: &Note| {
        let how = HoldEnd::Forked;
        matches!(note, Note::HoldEnded { how: ended, wait, .. } if *ended == how && *wait < 11 * SOON)
    };
    log.delay(is_fork, SOON);

    let verdict = judged(&log);

    assert_eq!(verdict.thread_wait.as_millis(), 11_000);
}

#[test]
fn an_answer_that_is_not_stored_and_one_that_is_stored_twice_are_found() {
    let is_answer = |said: &&Said| said.words.starts_with(ANSWER);
    let answers = LOG.said.iter().filter(is_answer).count();
    assert!(answers > 100);
    let mut log = LOG.clone();
    let removed = log.said.iter().position(|said| is_answer(&said));
    let removed = log.said.remove(removed.expect("there is one"));
    let verdict = judged(&log);
    assert!(verdict.lost > 0 && verdict.doubled == 0, "{verdict:?}");

    log.said.extend([removed.clone(), removed]);

    let verdict = judged(&log);
    assert!(verdict.lost == 0 && verdict.doubled > 0, "{verdict:?}");
}

#[test]
fn an_event_that_no_turn_is_given_is_found() {
    let mut log = LOG.clone();
    let answers: BTreeSet<_> = LOG.said.iter().map(|said| said.words.clone()).collect();
    let is_answered = |turn: TurnId| answers.contains(&format!("{ANSWER}{}", turn.0));
    let batch = log.actions().find_map(|action| {
        if let Action::Schedule(schedule::Action::Start { turn, batch, .. }) = action
            && batch.len() > 1
            && is_answered(*turn)
        {
            Some(batch)
        } else {
            None
        }
    });
    batch.expect("some turn has more than one event").remove(0);

    let verdict = judged(&log);

    assert_eq!(verdict.lost, 1);
    assert_ne!(verdict.faults, Vec::<String>::new());
}

#[test]
fn two_turns_of_one_worker_are_found() {
    let mut log = LOG.clone();
    let mut started = log.actions().filter_map(|action| {
        if let Action::Note(Note::TurnStarted { worker, .. }) = action {
            Some(worker)
        } else {
            None
        }
    });
    let first = *started.next().expect("there are turns");
    *started.next().expect("there are two") = first;
    drop(started);

    assert!(says(&judged(&log), "a worker that is not free"));
}

#[test]
fn a_hold_that_is_not_told_is_found() {
    let mut log = LOG.clone();
    log.remove(|note| matches!(note, Note::Held { .. }));

    assert!(says(&judged(&log), "the notes say otherwise"));
}

#[test]
fn a_discard_that_nobody_wanted_is_found() {
    let mut log = LOG.clone();
    let outcome = log.actions().find_map(|action| {
        if let Action::Note(Note::TurnEnded { outcome, .. }) = action {
            Some(outcome)
        } else {
            None
        }
    });
    *outcome.expect("a turn ends") = TurnOutcome::Discarded;

    assert!(says(&judged(&log), "nobody wanted"));
}

impl Log {
    fn actions(&mut self) -> impl Iterator<Item = &mut Action> {
        self.told.iter_mut().flat_map(|told| &mut told.actions)
    }

    /// The first such note is not told.
    fn remove(&mut self, is_it: impl Fn(&Note) -> bool) {
        let (at, index) = self.find(is_it);
        self.told[at].actions.remove(index);
    }

    /// The first such note, and what is ordered after it, comes so much later, and so does all else.
    fn delay(&mut self, is_it: impl Fn(&Note) -> bool, span: Duration) {
        let (at, index) = self.find(is_it);
        let late = Told {
            at: self.told[at].at,
            input: Input::Tick,
            actions: self.told[at].actions.split_off(index),
        };
        self.told.insert(at + 1, late);
        for told in &mut self.told[at + 1..] {
            told.at = told.at.after(span);
        }
    }

    fn find(&self, is_it: impl Fn(&Note) -> bool) -> (usize, usize) {
        let is_it = |action: &Action| matches!(action, Action::Note(note) if is_it(note));
        let mut told = self.told.iter().enumerate();
        let found = told.find_map(|(at, told)| Some((at, told.actions.iter().position(is_it)?)));
        found.expect("there is such a note")
    }
}

fn judged(log: &Log) -> Verdict {
    let mut judge = log.judge.clone();
    for told in &log.told {
        judge.hear(told);
    }
    judge.close(&log.said)
}

fn says(verdict: &Verdict, words: &str) -> bool {
    verdict.faults.iter().any(|fault| fault.contains(words))
}
