//! Reports of sessions that were gone, and of work that was lost with them.

use buzz_proto::note::TurnOutcome;
use buzz_proto::relay::Disposal;
use buzz_proto::schedule::{FailureClass, OpenCause, TurnEnd};
use buzz_proto::wire::Excerpt;

use crate::crew::{
    ANNE, BERT, Conduct, Crew, begun, begun_with, closed, ended, ends_of, killed, published,
    retried, settings, spawned, times, workers,
};
use crate::player::Case;

/// Threads.
const T: u64 = 900;
const OTHER_T: u64 = 901;

/// One worker, with sessions of two threads.
fn with_sessions() -> Crew {
    let mut crew = workers(1);
    for (n, root) in [(1, T), (2, OTHER_T)] {
        crew.say_in(n, root);
        crew.answers(n);
    }
    crew.begins()
}

fn failure(class: FailureClass) -> TurnEnd {
    let text = Excerpt::new("Internal error");
    TurnEnd::Failed { class, text }
}

fn freshness(crew: &Crew, n: u64) -> Vec<bool> {
    let all = begun_with(crew, n);
    all.iter().map(|begun| begun.is_fresh()).collect()
}

/// In how many turns the session of the first turn with an event was used.
fn uses_of_first(crew: &Crew, n: u64) -> usize {
    let all = begun(crew);
    let first = begun_with(crew, n)[0].session.reference();
    all.iter()
        .filter(|begun| begun.session.reference() == first)
        .count()
}

#[test]
fn block_buzz_4369_a_session_that_is_gone_is_replaced_and_the_others_stay() {
    Case::new(with_sessions)
        .at(0, |crew| crew.say_in(10, T))
        .at(1000, |crew| crew.fails(10, FailureClass::SessionGone))
        .must(8000, |crew| {
            assert_eq!(freshness(crew, 10), [false, true]);
            assert!(published(crew).is_empty());
        })
        .at(9000, |crew| crew.answers(10))
        .at(10_000, |crew| crew.say_in(11, OTHER_T))
        .must(10_000, |crew| assert_eq!(freshness(crew, 11), [false]))
        .at(11_000, |crew| crew.answers(11))
        .at(12_000, |crew| crew.say_in(12, T))
        .must(12_000, |crew| assert_eq!(freshness(crew, 12), [false]))
        .never(|crew| {
            assert_eq!(uses_of_first(crew, 10), 1);
            assert!(killed(crew).is_empty());
        })
        .play();
}

#[test]
fn block_buzz_4369_a_session_in_which_a_turn_failed_twice_is_not_tried_a_third_time() {
    Case::new(with_sessions)
        .at(0, |crew| crew.say_in(10, T))
        .at(500, |crew| crew.lives(10))
        .at(1000, |crew| crew.fails(10, FailureClass::Transient))
        .must(8000, |crew| assert_eq!(freshness(crew, 10), [false, false]))
        .at(9000, |crew| crew.lives(10))
        .at(10_000, |crew| crew.fails(10, FailureClass::Transient))
        .must(25_000, |crew| {
            assert_eq!(freshness(crew, 10), [false, false, true]);
        })
        .at(26_000, |crew| crew.answers(10))
        .at(27_000, |crew| crew.say_in(11, OTHER_T))
        .must(27_000, |crew| assert_eq!(freshness(crew, 11), [false]))
        .never(|crew| assert!(uses_of_first(crew, 10) <= 2))
        .play();
}

#[test]
fn block_buzz_4369_a_session_in_which_a_turn_failed_without_a_sign_of_life_is_given_up() {
    Case::new(with_sessions)
        .at(0, |crew| crew.say_in(10, T))
        .at(1000, |crew| crew.fails(10, FailureClass::Transient))
        .must(8000, |crew| assert_eq!(freshness(crew, 10), [false, true]))
        .at(9000, |crew| crew.answers(10))
        .at(10_000, |crew| crew.say_in(11, OTHER_T))
        .must(10_000, |crew| assert_eq!(freshness(crew, 11), [false]))
        .never(|crew| assert_eq!(uses_of_first(crew, 10), 1))
        .play();
}

#[test]
fn block_buzz_4369_a_session_that_is_not_known_is_replaced_at_once() {
    Case::new(|| {
        let mut crew = with_sessions();
        crew.opens = Conduct::ByHand;
        crew
    })
    .at(0, |crew| crew.say_in(10, T))
    .at(100, |crew| crew.not_opened(10, OpenCause::Unknown))
    .must(100, |crew| {
        let all = begun_with(crew, 10);
        assert_eq!(freshness(crew, 10), [false, true]);
        assert_eq!(all[1].at, 100);
        assert_ne!(all[0].turn, all[1].turn);
        assert_eq!(retried(crew), []);
    })
    .at(200, |crew| crew.opened(10))
    .at(300, |crew| crew.fails(10, FailureClass::Transient))
    .must(300, |crew| assert_eq!(retried(crew)[0].1, 1))
    .never(|crew| assert_eq!(uses_of_first(crew, 10), 1))
    .play();
}

#[test]
fn block_buzz_4369_a_worker_that_fails_to_open_three_sessions_is_replaced() {
    Case::new(|| {
        let mut crew = workers(1);
        crew.opens = Conduct::Fails;
        crew
    })
    .at(0, |crew| crew.say_in(10, T))
    .must(0, |crew| assert!(killed(crew).is_empty()))
    .must(25_000, |crew| {
        let tries = begun_with(crew, 10);
        assert!(tries.len() >= 3, "{tries:?}");
        assert_eq!(times(&killed(crew)), [tries[2].at]);
        assert_eq!(spawned(crew).len(), 1);
    })
    .at(30_000, |crew| crew.opens = Conduct::Works)
    .never(|crew| {
        let heard = published(crew).into_iter();
        let texts: Vec<String> = heard.map(|(_, draft)| draft.content).collect();
        assert_eq!(texts, ["answer to 10"]);
    })
    .play();
}

#[test]
fn block_buzz_4369_what_comes_before_another_attempt_is_part_of_it() {
    Case::new(with_sessions)
        .at(0, |crew| crew.say_in(10, T))
        .at(1000, |crew| crew.fails(10, FailureClass::Transient))
        .at(2000, |crew| crew.say_in(11, T))
        .must(4999, |crew| assert_eq!(begun(crew).len(), 1))
        .must(8000, |crew| assert_eq!(begun(crew)[1].batch, [10, 11]))
        .at(10_000, |crew| crew.fails(10, FailureClass::Transient))
        .must(10_000, |crew| {
            let attempts: Vec<u16> = retried(crew).iter().map(|it| it.1).collect();
            assert_eq!(attempts, [1, 2]);
        })
        .play();
}

#[test]
fn block_buzz_4369_work_that_is_given_up_is_told_and_the_scope_is_open_for_more() {
    Case::new(|| {
        let mut crew = with_sessions();
        crew.prompts = Some(failure(FailureClass::Transient));
        crew
    })
    .at(0, |crew| crew.say(9, ANNE))
    .at(10, |crew| crew.say_in(10, T))
    .at(10, |crew| crew.say_in(11, T))
    .must(1_600_000, |crew| {
        assert_eq!(begun_with(crew, 10).len(), 10);
        assert_eq!(begun_with(crew, 10)[9].batch, [10, 11]);
        for n in [9, 10, 11] {
            assert_eq!(ends_of(crew, n).len(), 1);
            assert_eq!(ends_of(crew, n)[0].1, Disposal::Accepted);
        }
        assert_eq!(published(crew).len(), 2);
        let told = ended(crew);
        let is_told = |(_, how): &(u64, TurnOutcome)| matches!(how, TurnOutcome::Reported { .. });
        assert!(told.len() == 2 && told.iter().all(is_told), "{told:?}");
    })
    .at(1_600_000, |crew| crew.prompts = None)
    .at(1_600_001, |crew| crew.say_in(12, T))
    .must(1_600_001, |crew| {
        assert_eq!(begun_with(crew, 12)[0].at, 1_600_001);
    })
    .never(|crew| {
        assert!(killed(crew).is_empty() && spawned(crew).is_empty());
        assert!(begun_with(crew, 10).iter().skip(2).any(|it| it.is_fresh()));
    })
    .play();
}

#[test]
fn block_buzz_5598_a_lost_session_and_a_failure_are_not_the_same() {
    Case::new(with_sessions)
        .at(0, |crew| crew.say_in(10, T))
        .at(500, |crew| crew.lives(10))
        .at(1000, |crew| crew.fails(10, FailureClass::Transient))
        .must(1000, |crew| {
            assert_eq!(retried(crew)[0].1, 1);
            assert!(closed(crew).is_empty());
        })
        .at(10_000, |crew| crew.answers(10))
        .at(20_000, |crew| crew.say_in(11, OTHER_T))
        .at(21_000, |crew| crew.fails(11, FailureClass::SessionGone))
        .must(28_000, |crew| {
            assert_eq!(freshness(crew, 11), [false, true])
        })
        .never(|crew| assert!(killed(crew).is_empty()))
        .play();
}

#[test]
fn thunderbird_thunderbolt_1097_a_conversation_that_moves_has_a_session_there_and_none_here() {
    Case::new(|| {
        let mut crew = Crew::unmanned(settings(2));
        crew.ready(0);
        for (n, place) in [(1, ANNE), (2, BERT)] {
            crew.say(n, place);
            crew.answers(n);
        }
        crew.ready(1);
        crew.starts = Conduct::Works;
        crew.begins()
    })
    .at(0, |crew| crew.say(10, BERT))
    .at(1000, |crew| crew.say(11, ANNE))
    .must(1000, |crew| {
        let moved = &begun_with(crew, 11)[0];
        assert!(moved.is_fresh() && moved.slot() == 1);
        let old = closed(crew);
        assert_eq!(times(&old), [1000]);
        assert_eq!(old[0].1.worker.slot, 0);
    })
    .at(2000, |crew| crew.answers(10))
    .at(2000, |crew| crew.answers(11))
    .at(3000, |crew| crew.say(12, ANNE))
    .must(3000, |crew| {
        let next = &begun_with(crew, 12)[0];
        let moved = begun_with(crew, 11)[0].session.reference();
        assert_eq!((next.is_fresh(), next.session.reference()), (false, moved));
    })
    .play();
}
