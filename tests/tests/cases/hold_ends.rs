//! The ways in which the wait for a busy worker ends, besides those of the reports.

use std::time::Duration;

use buzz_proto::note::HoldEnd;
use buzz_proto::relay::{ChannelState, Disposal};
use buzz_proto::schedule::{Input, OpenCause, Want};
use buzz_proto::wire::Excerpt;
use buzz_sim::toy::channel;

use crate::crew::{
    ANNE, BERT, CARA, Conduct, Crew, ROOM, begun_with, closed, ends_of, hold_ends, holds, settings,
    times,
};
use crate::hold::{OTHER_T, T, expect_begun, owner_of_all, owner_of_all_with};
use crate::player::Case;

/// A thread waits for the worker in the first slot, which is busy; the other one is idle.
fn held() -> Case<Crew> {
    Case::new(|| owner_of_all(2))
        .at(0, |crew| crew.say(10, BERT))
        .at(100, |crew| crew.say_in(11, T))
}

#[test]
fn block_buzz_7340_a_rotated_thread_does_not_wait_for_a_session_that_is_gone() {
    held()
        .at(1000, |crew| crew.control(ROOM, Want::StopAndRotate))
        .must(1000, |crew| {
            assert_eq!(hold_ends(crew), [(1000, HoldEnd::Released)]);
            expect_begun(crew, 11, 1000, 1, true);
        })
        .never(|crew| assert_eq!(begun_with(crew, 11).len(), 1))
        .play();
}

#[test]
fn block_buzz_7340_a_thread_whose_worker_ended_does_not_wait_for_it() {
    held()
        .at(1000, |crew| crew.exits(0))
        .must(1000, |crew| {
            assert_eq!(hold_ends(crew), [(1000, HoldEnd::Released)]);
            expect_begun(crew, 11, 1000, 1, true);
        })
        .play();
}

#[test]
fn block_buzz_7340_a_channel_that_is_left_is_not_waited_for() {
    held()
        .at(1000, |crew| {
            let (channel, state) = (channel(ROOM), ChannelState::Left);
            crew.feed(Input::Channel { channel, state });
        })
        .must(1000, |crew| {
            assert_eq!(hold_ends(crew), [(1000, HoldEnd::Dropped)]);
            assert_eq!(ends_of(crew, 11), [(1000, Disposal::Discarded)]);
            assert!(crew.deadline().is_some_and(|at| at > 10_100));
        })
        .play();
}

#[test]
fn block_buzz_7340_dropped_work_is_not_waited_for() {
    held()
        .at(1000, |crew| crew.control(ROOM, Want::StopAndDrop))
        .must(1000, |crew| {
            assert_eq!(hold_ends(crew), [(1000, HoldEnd::Dropped)]);
            assert_eq!(ends_of(crew, 11), [(1000, Disposal::Discarded)]);
        })
        .at(2000, |crew| crew.say_in(12, T))
        .must(2000, |crew| assert_eq!(times(&holds(crew)), [100, 2000]))
        .must(12_000, |crew| expect_begun(crew, 12, 12_000, 1, true))
        .play();
}

#[test]
fn block_buzz_7340_a_session_elsewhere_that_does_not_open_leaves_the_old_one() {
    held()
        .at(5000, |crew| crew.opens = Conduct::ByHand)
        .must(10_100, |crew| expect_begun(crew, 11, 10_100, 1, true))
        .at(10_200, |crew| {
            let text = Excerpt::new("no session for you");
            crew.not_opened(11, OpenCause::Refused { text });
            crew.opens = Conduct::Works;
        })
        .at(10_300, |crew| crew.answers(10))
        .must(17_000, |crew| {
            let again = &begun_with(crew, 11)[1];
            assert_eq!((again.slot(), again.is_fresh()), (0, false));
            assert!(closed(crew).is_empty());
        })
        .play();
}

#[test]
fn block_buzz_7340_two_limits_that_pass_together_need_two_workers() {
    held()
        .at(100, |crew| crew.say_in(12, OTHER_T))
        .must(10_100, |crew| {
            expect_begun(crew, 11, 10_100, 1, true);
            assert!(begun_with(crew, 12).is_empty());
            assert!(crew.deadline().is_some_and(|at| at > 10_100));
        })
        .at(12_000, |crew| crew.answers(11))
        .must(12_000, |crew| {
            expect_begun(crew, 12, 12_000, 1, true);
            assert_eq!(times(&holds(crew)), [100, 100]);
        })
        .play();
}

#[test]
fn block_buzz_7340_what_comes_to_a_waiting_thread_waits_with_it_and_no_longer() {
    held()
        .at(5000, |crew| crew.say_in(12, T))
        .must(5000, |crew| assert_eq!(crew.deadline(), Some(10_100)))
        .must(10_100, |crew| {
            expect_begun(crew, 12, 10_100, 1, true);
            assert_eq!(begun_with(crew, 11)[0].batch, [11, 12]);
        })
        .never(|crew| assert_eq!(holds(crew).len(), 1))
        .play();
}

#[test]
fn block_buzz_7340_a_limit_that_has_passed_does_not_keep_a_thread_from_its_worker() {
    held()
        .at(50, |crew| crew.say(13, CARA))
        .must(10_100, |crew| assert!(begun_with(crew, 11).is_empty()))
        .at(20_000, |crew| crew.answers(10))
        .must(20_000, |crew| {
            expect_begun(crew, 11, 20_000, 0, false);
            assert_eq!(hold_ends(crew), [(20_000, HoldEnd::Home)]);
        })
        .play();
}

#[test]
fn block_buzz_7337_threads_wait_for_nobody_where_that_is_the_setting() {
    Case::new(|| {
        let mut config = settings(2);
        config.limits.hold = Duration::ZERO;
        owner_of_all_with(config)
    })
    .at(0, |crew| crew.say(10, BERT))
    .at(100, |crew| crew.say_in(11, T))
    .must(100, |crew| expect_begun(crew, 11, 100, 1, true))
    .never(|crew| assert_eq!(holds(crew), []))
    .play();
}

/// The worker for new work is one that no other ready scope would go to.
#[test]
fn block_buzz_7337_new_work_does_not_take_the_worker_of_a_thread_that_is_about_to_start() {
    Case::new(|| {
        let mut crew = owner_of_all(2);
        crew.say(5, CARA);
        crew.answers(5);
        crew.begins()
    })
    .at(0, |crew| crew.say(10, BERT))
    .at(0, |crew| crew.say(11, CARA))
    .at(1000, |crew| crew.say_in(12, T))
    .at(2000, |crew| crew.say_in(13, 903))
    .at(3000, |crew| crew.answers(10))
    .must(3000, |crew| expect_begun(crew, 12, 3000, 0, false))
    .at(4000, |crew| crew.answers(11))
    .must(4000, |crew| expect_begun(crew, 13, 4000, 1, true))
    .at(5000, |crew| crew.say(14, ANNE))
    .play();
}
