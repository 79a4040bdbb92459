//! Reports of agents that were woken by what says nothing.

use buzz_proto::relay::Disposal;
use buzz_sim::toy::{Toy, channel, key};

use crate::crew::{Crew, ROOM, begun, begun_with, ends_of, settings, workers};
use crate::player::Case;
use crate::whole::OWNER;

/// Answers every kind, and what mentions nobody.
fn open_to_everything() -> Crew {
    let mut config = settings(1);
    config.kinds = Vec::new();
    config.mention_only = false;
    Crew::idle(config)
}

fn of_kind(crew: &mut Crew, n: u64, kind: u32) {
    let event = Toy::mention(n, channel(ROOM)).author(key(OWNER)).kind(kind);
    crew.bring(&event, ROOM);
}

/// Events of these kinds wake nobody, and a message does.
fn play(begin: fn() -> Crew, kinds: &'static [u32]) {
    let mut case = Case::new(begin);
    for (number, kind) in (0..).zip(kinds) {
        case = case
            .at(number * 100, move |crew| of_kind(crew, 10 + number, *kind))
            .must(number * 100, move |crew| {
                assert_eq!(
                    ends_of(crew, 10 + number),
                    [(number * 100, Disposal::Discarded)]
                );
            });
    }
    case.at(10_000, |crew| of_kind(crew, 99, 9))
        .must(10_000, |crew| assert_eq!(begun_with(crew, 99).len(), 1))
        .never(|crew| assert_eq!(begun(crew).len(), 1))
        .play();
}

const MARKS: [u32; 2] = [7, 5];
const PASSING: [u32; 4] = [20_000, 20_001, 20_002, 29_999];

#[test]
fn block_buzz_4086_marks_and_their_removal_wake_nobody() {
    play(|| workers(1), &MARKS);
}

#[test]
fn block_buzz_4086_marks_wake_nobody_even_where_every_kind_is_answered() {
    play(open_to_everything, &MARKS);
}

#[test]
fn block_buzz_3613_signs_of_typing_wake_nobody() {
    play(|| workers(1), &PASSING);
}

#[test]
fn block_buzz_3613_signs_of_typing_wake_nobody_even_where_every_kind_is_answered() {
    play(open_to_everything, &PASSING);
}
