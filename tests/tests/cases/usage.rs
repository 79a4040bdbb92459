//! Reports of accounts that had used up their allowance.

use std::time::Duration;

use buzz_proto::note::Note;
use buzz_proto::schedule::FailureClass;
use buzz_sim::toy::{START, channel};

use crate::crew::{ANNE, Crew, ROOM, alive, begun, begun_with, noted, published, retried, workers};
use crate::player::Case;

const T: u64 = 900;
const HOUR: u64 = 3_600_000;
/// The limit that the cases name ends then: two hours after the start, a second of which is over
/// when a case begins.
const NAMED: u64 = 2 * HOUR - 1000;
/// The rest after a limit that names no end.
const REST: u64 = 30 * 60_000;

fn used_up(crew: &mut Crew, n: u64) {
    let until = Some(START.after(Duration::from_millis(2 * HOUR)));
    crew.fails(n, FailureClass::UsageLimit { until });
}

fn used_up_for_now(crew: &mut Crew, n: u64) {
    crew.fails(n, FailureClass::UsageLimit { until: None });
}

fn notices(crew: &Crew, place: u8) -> usize {
    let of_place = |tag: &Vec<String>| tag.contains(&channel(place).to_string());
    let all = published(crew).into_iter();
    all.filter(|(_, draft)| draft.tags.iter().any(of_place) && !draft.content.starts_with("answer"))
        .count()
}

fn is_restored(crew: &Crew) -> bool {
    let all = noted(crew);
    all.iter().any(|(_, note)| *note == Note::UsageRestored)
}

/// No attempt was spent.
fn attempts_stay(crew: &Crew) {
    assert!(retried(crew).iter().all(|(_, attempts, _)| *attempts == 0));
}

#[test]
fn block_buzz_5918_all_wait_until_the_time_that_was_named_and_one_turn_tries() {
    alive(Case::new(|| workers(2)), 10, 3 * HOUR)
        .at(0, |crew| crew.say_in(10, T))
        .at(1000, |crew| used_up(crew, 10))
        .must(1000, |crew| {
            let limited = |note: &Note| matches!(note, Note::UsageLimited { until: Some(_), .. });
            assert!(noted(crew).iter().any(|(_, note)| limited(note)));
            assert_eq!(notices(crew, ROOM), 1);
        })
        .at(5000, |crew| crew.say(11, ANNE))
        .at(HOUR, |crew| crew.say_in(12, 901))
        .must(NAMED + 499, |crew| assert_eq!(begun(crew).len(), 1))
        .must(NAMED + 500 + NAMED / 5, |crew| {
            assert_eq!((begun(crew).len(), begun_with(crew, 10).len()), (2, 2));
        })
        .at(3 * HOUR, |crew| crew.answers(10))
        .must(3 * HOUR, |crew| {
            assert!(is_restored(crew));
            assert_eq!(begun_with(crew, 11)[0].at, 3 * HOUR);
            assert_eq!(begun_with(crew, 12)[0].at, 3 * HOUR);
        })
        .never(|crew| {
            attempts_stay(crew);
            // Each of the two threads is told once: the one that met the limit, and the one that waits
            // for a minute.
            assert!(notices(crew, ROOM) <= 2);
            let early = |at: u64| (1001..NAMED + 500).contains(&at);
            assert!(!begun(crew).iter().any(|begun| early(begun.at)));
        })
        .play();
}

#[test]
fn block_buzz_5918_a_limit_that_names_no_end_lasts_half_an_hour_and_is_told_once() {
    alive(Case::new(|| workers(2)), 10, 3 * HOUR)
        .at(0, |crew| crew.say_in(10, T))
        .at(1000, |crew| used_up_for_now(crew, 10))
        .must(1000 + REST, |crew| assert_eq!(begun(crew).len(), 1))
        .must(1000 + REST + REST / 5, |crew| {
            assert_eq!(begun(crew).len(), 2);
        })
        .at(HOUR, |crew| used_up_for_now(crew, 10))
        .must(HOUR + REST, |crew| assert_eq!(begun(crew).len(), 2))
        .must(HOUR + REST + REST / 5, |crew| {
            assert_eq!(begun(crew).len(), 3);
        })
        .at(2 * HOUR, |crew| crew.fails(10, FailureClass::Transient))
        .must(2 * HOUR, |crew| {
            let (_, attempts, wait) = *retried(crew).last().expect("another attempt");
            assert_eq!(attempts, 1);
            assert!((4000..=6000).contains(&wait), "{wait}");
        })
        .never(|crew| assert!(notices(crew, ROOM) <= 1))
        .play();
}

#[test]
fn block_buzz_5918_turns_under_way_end_as_they_will_and_begin_no_others() {
    alive(Case::new(|| workers(2)), 10, 3 * HOUR)
        .at(0, |crew| crew.say_in(10, T))
        .at(10, |crew| crew.say(11, ANNE))
        .at(1000, |crew| used_up(crew, 10))
        .at(2000, |crew| crew.say(12, ANNE))
        .at(3000, |crew| used_up(crew, 11))
        .must(NAMED + 499, |crew| {
            assert_eq!(begun(crew).len(), 2);
            assert_eq!(notices(crew, ROOM), 1);
            assert!(notices(crew, ANNE) <= 1);
        })
        .must(NAMED + 500 + NAMED / 5, |crew| {
            assert_eq!(begun(crew).len(), 3);
        })
        .never(attempts_stay)
        .play();
}
