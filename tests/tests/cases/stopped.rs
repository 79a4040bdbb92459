//! Work that is stopped between two attempts.

use buzz_proto::relay::Disposal;
use buzz_proto::schedule::{FailureClass, Want};

use crate::crew::{Crew, ROOM, begun_with, ends_of, workers};
use crate::player::Case;

const T: u64 = 900;

/// A message whose first attempt failed, and that will have another.
fn resting() -> Case<Crew> {
    Case::new(|| workers(1))
        .at(0, |crew| crew.say_in(10, T))
        .at(1000, |crew| crew.fails(10, FailureClass::Transient))
}

fn stopped_by(want: Want) {
    resting()
        .at(2000, move |crew| crew.control(ROOM, want))
        .must(2000, |crew| {
            assert_eq!(ends_of(crew, 10), [(2000, Disposal::Discarded)]);
        })
        .at(3000, |crew| crew.say_in(11, T))
        .must(3000, |crew| assert_eq!(begun_with(crew, 11)[0].at, 3000))
        .never(|crew| assert_eq!(begun_with(crew, 10).len(), 1))
        .play();
}

#[test]
fn block_buzz_4369_work_that_is_stopped_has_no_other_attempt() {
    stopped_by(Want::Stop);
}

#[test]
fn block_buzz_4369_work_that_is_dropped_has_no_other_attempt() {
    stopped_by(Want::StopAndDrop);
}

#[test]
fn block_buzz_4369_work_whose_session_is_given_up_has_no_other_attempt() {
    stopped_by(Want::StopAndRotate);
}

#[test]
fn block_buzz_4369_what_came_since_does_not_wait_for_the_attempt_that_is_stopped() {
    resting()
        .at(2000, |crew| crew.say_in(11, T))
        .at(3000, |crew| crew.control(ROOM, Want::Stop))
        .must(3000, |crew| {
            assert_eq!(ends_of(crew, 10), [(3000, Disposal::Discarded)]);
            let next: Vec<u64> = begun_with(crew, 11).iter().map(|it| it.at).collect();
            assert_eq!(next, [3000]);
        })
        .play();
}
