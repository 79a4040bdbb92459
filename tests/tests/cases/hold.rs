//! Reports of work that waited for a busy worker.

use buzz_proto::note::HoldEnd;
use buzz_proto::schedule::{Config, WorkerId};

use crate::crew::{
    ANNE, BERT, CARA, Conduct, Crew, begun, begun_with, cancelled, hold_ends, holds, settings,
    workers,
};
use crate::player::Case;

/// A thread.
pub(crate) const T: u64 = 900;
pub(crate) const OTHER_T: u64 = 901;

/// The worker in the first slot has the sessions of Anne, Bert and two threads; the others, which
/// come later, have none.
pub(crate) fn owner_of_all(count: u16) -> Crew {
    owner_of_all_with(settings(count))
}

pub(crate) fn owner_of_all_with(config: Config) -> Crew {
    let count = config.workers;
    let mut crew = Crew::unmanned(config);
    crew.ready(0);
    crew.say(1, ANNE);
    crew.answers(1);
    crew.say(2, BERT);
    crew.answers(2);
    crew.say_in(3, T);
    crew.answers(3);
    crew.say_in(4, OTHER_T);
    crew.answers(4);
    for slot in 1..count {
        crew.ready(slot);
    }
    crew.starts = Conduct::Works;
    crew.begins()
}

/// The only turn with an event began then and there; fresh or in the session that there is.
pub(crate) fn expect_begun(crew: &Crew, n: u64, at: u64, slot: u16, is_fresh: bool) {
    let all = begun_with(crew, n);
    let found: Vec<_> = all
        .iter()
        .map(|begun| (begun.at, begun.slot(), begun.is_fresh()))
        .collect();
    if found != [(at, slot, is_fresh)] {
        crew.script.fail(&format!("{found:?}"));
    }
}

#[test]
fn block_buzz_7337_a_conversation_goes_to_another_worker_at_once() {
    Case::new(|| owner_of_all(2))
        .at(0, |crew| crew.say(10, BERT))
        .must(0, |crew| expect_begun(crew, 10, 0, 0, false))
        .at(1000, |crew| crew.say(11, ANNE))
        .must(1000, |crew| expect_begun(crew, 11, 1000, 1, true))
        .at(9000, |crew| crew.answers(11))
        .at(9500, |crew| crew.say(12, ANNE))
        .must(9500, |crew| expect_begun(crew, 12, 9500, 1, false))
        .never(|crew| assert_eq!(holds(crew), []))
        .play();
}

#[test]
fn block_buzz_7337_a_thread_waits_ten_seconds_for_its_worker_and_says_so() {
    Case::new(|| owner_of_all(2))
        .at(0, |crew| crew.say(10, BERT))
        .at(1000, |crew| crew.say_in(11, T))
        .must(1000, |crew| {
            let owner = WorkerId {
                slot: 0,
                incarnation: 1,
            };
            assert_eq!(holds(crew), [(1000, owner)]);
        })
        .must(10_999, |crew| assert!(begun_with(crew, 11).is_empty()))
        .must(11_000, |crew| {
            expect_begun(crew, 11, 11_000, 1, true);
            assert_eq!(hold_ends(crew), [(11_000, HoldEnd::Forked)]);
        })
        .never(|crew| assert_eq!(holds(crew).len(), hold_ends(crew).len()))
        .play();
}

#[test]
fn block_buzz_7340_a_hold_ends_by_itself_and_the_older_session_is_not_used_again() {
    Case::new(|| owner_of_all(2))
        .at(0, |crew| crew.say(10, BERT))
        .at(100, |crew| crew.say_in(11, T))
        .must(100, |crew| assert_eq!(crew.deadline(), Some(10_100)))
        .must(10_100, |crew| expect_begun(crew, 11, 10_100, 1, true))
        .at(12_000, |crew| crew.answers(10))
        .at(12_000, |crew| crew.answers(11))
        .at(13_000, |crew| crew.say_in(12, T))
        .must(13_000, |crew| expect_begun(crew, 12, 13_000, 1, false))
        .play();
}

#[test]
fn block_buzz_7340_a_worker_that_comes_back_in_time_goes_on_in_its_session() {
    Case::new(|| owner_of_all(2))
        .at(0, |crew| crew.say(10, BERT))
        .at(100, |crew| crew.say_in(11, T))
        .at(6000, |crew| crew.answers(10))
        .must(6000, |crew| {
            expect_begun(crew, 11, 6000, 0, false);
            assert_eq!(hold_ends(crew), [(6000, HoldEnd::Home)]);
            assert_ne!(crew.deadline(), Some(10_100));
        })
        .never(|crew| {
            let all = hold_ends(crew);
            assert!(!all.iter().any(|(_, how)| *how == HoldEnd::Forked));
        })
        .play();
}

#[test]
fn block_buzz_7340_a_limit_that_passes_while_all_are_busy_has_passed() {
    Case::new(|| owner_of_all(3))
        .at(0, |crew| crew.say(10, BERT))
        .at(50, |crew| crew.say_in(11, T))
        .at(100, |crew| crew.say(12, ANNE))
        .at(200, |crew| crew.say(13, CARA))
        .must(200, |crew| {
            let slots: Vec<u16> = [10, 12, 13]
                .iter()
                .map(|n| begun_with(crew, *n)[0].slot())
                .collect();
            assert_eq!(slots, [0, 1, 2]);
        })
        .must(10_050, |crew| {
            assert!(begun_with(crew, 11).is_empty());
            assert!(crew.deadline().is_some_and(|at| at > 10_050));
        })
        .at(25_000, |crew| crew.answers(13))
        .must(25_000, |crew| {
            expect_begun(crew, 11, 25_000, 2, true);
            assert_eq!(hold_ends(crew), [(25_000, HoldEnd::Forked)]);
        })
        .never(|crew| assert_eq!(holds(crew).len(), 1))
        .play();
}

#[test]
fn block_buzz_7340_each_held_thread_has_its_own_limit() {
    Case::new(|| owner_of_all(3))
        .at(0, |crew| crew.say(10, BERT))
        .at(100, |crew| crew.say_in(11, T))
        .at(3000, |crew| crew.say_in(12, OTHER_T))
        .must(3000, |crew| assert_eq!(crew.deadline(), Some(10_100)))
        .must(10_100, |crew| {
            assert_eq!(begun_with(crew, 11)[0].at, 10_100);
            assert!(begun_with(crew, 12).is_empty());
            assert_eq!(crew.deadline(), Some(13_000));
        })
        .must(13_000, |crew| {
            assert_eq!(begun_with(crew, 12)[0].at, 13_000);
            assert_eq!(begun(crew).len(), 3);
        })
        .play();
}

#[test]
fn block_buzz_7340_the_older_work_goes_first_when_a_worker_is_free() {
    Case::new(|| owner_of_all(2))
        .at(0, |crew| crew.say(10, BERT))
        .at(50, |crew| crew.say(13, CARA))
        .at(100, |crew| crew.say_in(11, T))
        .at(3000, |crew| crew.say_in(12, OTHER_T))
        .at(20_000, |crew| crew.answers(13))
        .must(20_000, |crew| {
            expect_begun(crew, 11, 20_000, 1, true);
            assert!(begun_with(crew, 12).is_empty());
        })
        .at(21_000, |crew| crew.answers(11))
        .must(21_000, |crew| expect_begun(crew, 12, 21_000, 1, true))
        .play();
}

#[test]
fn block_buzz_3563_another_thread_of_a_channel_goes_to_another_worker() {
    Case::new(|| workers(2))
        .at(0, |crew| crew.say_in(10, T))
        .at(1000, |crew| crew.say_in(11, OTHER_T))
        .must(1000, |crew| {
            expect_begun(crew, 10, 0, 0, true);
            expect_begun(crew, 11, 1000, 1, true);
        })
        .at(5000, |crew| crew.answers(10))
        .at(6000, |crew| crew.say_in(12, T))
        .must(6000, |crew| expect_begun(crew, 12, 6000, 0, false))
        .never(|crew| assert!(cancelled(crew).is_empty()))
        .play();
}
