//! Reports of turns that never ended, and of events that were lost beside them.

use buzz_proto::ids::PubKey;
use buzz_proto::note::{Note, StaleWhat, TurnFailure, TurnOutcome};
use buzz_proto::relay::Disposal;
use buzz_proto::schedule::{FailureClass, RespondTo, StopReason, TurnEnd, Want};
use buzz_proto::wire::Excerpt;
use buzz_sim::toy::{self, Toy, channel};

use crate::crew::{
    ANNE, Conduct, Crew, ROOM, SIGN, alive, begun, begun_with, cancelled, check_promptness, closed,
    ended, ends_of, killed, noted, orders, published, retried, settings, spawned, times, workers,
};
use crate::player::Case;

/// Threads.
const T: u64 = 900;
const OTHER_T: u64 = 901;

const IDLE: u64 = 900_000;
const HARD: u64 = 7_200_000;
const GRACE: u64 = 5000;

/// One worker that does not answer cancels.
fn deaf() -> Crew {
    let mut crew = workers(1);
    crew.cancels = Conduct::ByHand;
    crew
}

fn reported(why: TurnFailure) -> TurnOutcome {
    TurnOutcome::Reported { why }
}

// Time

/// No worker is ended for idleness here; a session is, and counts from the end of its last turn.
#[test]
fn block_buzz_6378_work_is_no_idleness_and_idleness_counts_from_its_end() {
    let end = 6_000_000;
    alive(Case::new(|| workers(1)), 10, end)
        .at(0, |crew| crew.say_in(10, T))
        .at(end, |crew| crew.answers(10))
        .must(end + 2_699_999, |crew| assert!(closed(crew).is_empty()))
        .must(end + 2_700_000, move |crew| {
            assert_eq!(times(&closed(crew)), [end + 2_700_000]);
        })
        .never(move |crew| {
            assert!(closed(crew).iter().all(|(at, _)| *at >= end + 2_700_000));
            assert!(killed(crew).is_empty() && cancelled(crew).is_empty());
        })
        .play();
}

/// What comes during a turn waits for its end: nothing is steered into it.
#[test]
fn block_buzz_4860_what_comes_does_not_prolong_a_silent_turn() {
    Case::new(deaf)
        .at(0, |crew| crew.say_in(10, T))
        .at(60_000, |crew| crew.lives(10))
        .at(800_000, |crew| crew.say_in(11, T))
        .must(60_000 + IDLE - 1, |crew| {
            assert!(cancelled(crew).is_empty());
        })
        .must(60_000 + IDLE, |crew| assert_eq!(cancelled(crew).len(), 1))
        .must(60_000 + IDLE + GRACE - 1, |crew| {
            assert!(killed(crew).is_empty());
        })
        .must(60_000 + IDLE + GRACE, |crew| {
            assert_eq!(killed(crew).len(), 1);
            let (_, attempts, wait) = retried(crew)[0];
            assert_eq!(attempts, 1);
            assert!((4000..=6000).contains(&wait), "{wait}");
        })
        .must(980_000, |crew| {
            assert_eq!(spawned(crew).len(), 1);
            let again = begun_with(crew, 10);
            assert!(again.len() == 2 && again[1].is_fresh());
        })
        .at(1_600_000, |crew| crew.say_in(12, T))
        .at(2_400_000, |crew| crew.say_in(13, T))
        .never(|crew| {
            let first = times(&cancelled(crew))[0];
            assert_eq!(first, 60_000 + IDLE);
        })
        .finally(|crew| {
            let first = |n| begun_with(crew, n)[0].at;
            assert!([10, 11, 12, 13].map(first).is_sorted());
        })
        .play();
}

#[test]
fn block_buzz_4860_no_sign_of_life_prolongs_a_turn_over_its_limit() {
    alive(Case::new(deaf), 10, HARD + SIGN)
        .at(0, |crew| crew.say_in(10, T))
        .at(1_000_000, |crew| crew.say_in(11, T))
        .must(HARD - 1, |crew| assert!(cancelled(crew).is_empty()))
        .must(HARD, |crew| assert_eq!(cancelled(crew).len(), 1))
        .must(HARD + GRACE, |crew| {
            assert_eq!(times(&killed(crew)), [HARD + GRACE]);
        })
        .never(|crew| {
            assert_eq!(times(&cancelled(crew))[0], HARD);
            assert_eq!(times(&killed(crew))[0], HARD + GRACE);
        })
        .finally(|crew| assert!(!begun_with(crew, 11).is_empty()))
        .play();
}

#[test]
fn block_buzz_1844_a_turn_that_took_too_long_is_told_and_not_tried_again() {
    alive(Case::new(|| workers(1)), 10, HARD + SIGN)
        .at(0, |crew| crew.say_in(10, T))
        .must(HARD, |crew| {
            let notices = published(crew);
            assert_eq!(times(&notices), [HARD]);
            let names = |tag: &Vec<String>| tag.contains(&toy::id(10).to_string());
            assert!(notices[0].1.tags.iter().any(names));
        })
        .must(HARD + 100, |crew| {
            let expected = reported(TurnFailure::TooLong);
            assert_eq!(ended(crew)[0].1, expected);
        })
        .never(|crew| {
            assert_eq!(begun_with(crew, 10).len(), 1);
            assert_eq!(published(crew).len(), 1);
            assert_eq!(retried(crew), []);
        })
        .play();
}

#[test]
fn block_buzz_1844_a_silent_turn_is_tried_again_ever_later_and_told_in_the_end() {
    Case::new(|| workers(1))
        .at(0, |crew| crew.say_in(10, T))
        .must(11_000_000, |crew| {
            let tries = begun_with(crew, 10);
            assert_eq!(tries.len(), 10);
            let rungs = [5, 10, 20, 40, 80, 160, 300, 300, 300];
            for (number, rung) in rungs.into_iter().enumerate() {
                let rest = tries[number + 1].at - tries[number].at - IDLE;
                let allowed = rung * 800..=rung * 1200;
                assert!(allowed.contains(&rest), "{number}: {rest}");
                let (_, attempts, wait) = retried(crew)[number];
                assert_eq!(usize::from(attempts), number + 1);
                // Deadlines are rounded up to whole milliseconds.
                assert!((wait..=wait + 1).contains(&rest), "{wait}: {rest}");
            }
            assert_eq!(published(crew).len(), 1);
            assert_eq!(ended(crew)[0].1, reported(TurnFailure::Idle));
            assert!(crew.is_settled(10));
        })
        .never(|crew| assert!(begun_with(crew, 10).len() <= 10))
        .play();
}

/// Both are given in one turn, as nothing is given to a turn under way.
#[test]
fn block_buzz_4434_each_event_of_a_turn_that_never_ends_has_its_outcome() {
    alive(Case::new(deaf), 11, HARD + 2 * SIGN)
        .at(0, |crew| crew.say_in(10, T))
        .at(1000, |crew| crew.say_in(11, T))
        .at(2000, |crew| crew.say_in(12, T))
        .at(3000, |crew| crew.answers(10))
        .must(3000, |crew| {
            assert_eq!(begun_with(crew, 11)[0].batch, [11, 12])
        })
        .must(3000 + HARD + GRACE + 100, |crew| {
            assert_eq!(ended(crew)[1].1, reported(TurnFailure::TooLong));
            for n in [11, 12] {
                assert_eq!(ends_of(crew, n)[0].1, Disposal::Accepted);
            }
            assert_eq!(published(crew).len(), 2);
        })
        .never(|crew| assert_eq!(published(crew).len(), 2))
        .play();
}

// What comes during a turn

#[test]
fn block_buzz_4942_an_event_that_comes_as_a_turn_ends_is_worked_on_next() {
    Case::new(|| workers(1))
        .at(0, |crew| crew.say_in(10, T))
        .at(5000, |crew| crew.say_in(11, T))
        .at(5000, |crew| crew.answers(10))
        .must(5000, |crew| {
            let next = begun_with(crew, 11);
            assert_eq!((next.len(), next[0].at), (1, 5000));
        })
        .finally(|crew| assert_eq!(begun_with(crew, 11).len(), 1))
        .play();
}

#[test]
fn block_buzz_4189_what_comes_during_a_turn_waits_for_its_end() {
    Case::new(|| workers(1))
        .at(0, |crew| crew.say_in(10, T))
        .at(1000, |crew| crew.say_in(11, T))
        .must(1999, |crew| assert!(begun_with(crew, 11).is_empty()))
        .at(2000, |crew| crew.answers(10))
        .must(2000, |crew| {
            let next = &begun_with(crew, 11)[0];
            assert_eq!(
                (next.at, &next.batch[..], next.is_fresh()),
                (2000, &[11][..], false)
            );
        })
        .never(|crew| {
            assert!(cancelled(crew).is_empty());
            assert_eq!(published(crew).len(), 2);
        })
        .play();
}

/// No agent is woken by a clock here; what is due while a worker is busy are events.
#[test]
fn primeintellect_ai_prime_agent_820_what_becomes_due_during_a_turn_is_one_turn_after_it() {
    Case::new(|| workers(1))
        .at(0, |crew| crew.say(10, ANNE))
        .at(60_000, |crew| crew.say(11, ANNE))
        .at(120_000, |crew| crew.say(12, ANNE))
        .at(130_000, |crew| crew.answers(10))
        .must(130_000, |crew| {
            let next = &begun(crew)[1];
            assert_eq!((next.at, &next.batch[..]), (130_000, &[11, 12][..]));
        })
        .never(|crew| assert_eq!(begun(crew).len(), 2))
        .play();
}

/// Six people write in a thread.
fn six(mut case: Case<Crew>) -> Case<Crew> {
    for n in 11..=16 {
        case = case.at(n * 100, move |crew| {
            let root = toy::id(T).to_string();
            let event = Toy::mention(n, channel(ROOM))
                .author(author(n))
                .tag(&["e", &root, "", "reply"]);
            crew.bring(&event, ROOM);
        });
    }
    case
}

fn author(n: u64) -> PubKey {
    toy::key(0x40 + u8::try_from(n).expect("few people"))
}

fn open_to_six(batch_max: u32) -> Crew {
    let mut config = settings(1);
    config.respond_to = RespondTo::Allowlist((11..=16).map(author).collect());
    config.limits.batch_max = batch_max;
    Crew::idle(config)
}

/// The tags of what was said last.
fn last_tags(crew: &Crew) -> Vec<Vec<String>> {
    published(crew).last().expect("an answer").1.tags.clone()
}

fn answer_to(n: u64) -> [Vec<String>; 3] {
    let tag = |values: &[&str]| values.iter().map(ToString::to_string).collect();
    [
        tag(&["e", &toy::id(T).to_string(), "", "root"]),
        tag(&["e", &toy::id(n).to_string(), "", "reply"]),
        tag(&["p", &author(n).to_string()]),
    ]
}

#[test]
fn block_buzz_3176_a_batch_keeps_who_said_what_and_in_which_order() {
    six(Case::new(|| open_to_six(50)))
        .at(0, |crew| crew.say_in(10, T))
        .at(5000, |crew| crew.answers(10))
        .must(5000, |crew| {
            let all = orders(crew).into_iter();
            let batches = all.filter_map(|(_, action)| {
                let buzz_proto::schedule::Action::Start { batch, .. } = action else {
                    return None;
                };
                Some(batch)
            });
            let batch = batches.last().expect("a turn");
            let found: Vec<_> = batch
                .iter()
                .map(|event| (event.id(), event.author()))
                .collect();
            let expected: Vec<_> = (11..=16).map(|n| (toy::id(n), author(n))).collect();
            assert_eq!(found, expected);
        })
        .at(6000, |crew| crew.answers(11))
        .must(6000, |crew| assert_eq!(last_tags(crew)[1..], answer_to(16)))
        .never(|crew| assert_eq!(begun(crew).len(), 2))
        .play();
}

#[test]
fn block_buzz_3176_one_event_a_turn_gives_each_its_own_answer() {
    let mut case = six(Case::new(|| open_to_six(1)))
        .at(0, |crew| crew.say_in(10, T))
        .at(5000, |crew| crew.answers(10));
    for n in 11..=16 {
        case = case
            .at(n * 1000, move |crew| crew.answers(n))
            .must(n * 1000 + 100, move |crew| {
                assert_eq!(last_tags(crew)[1..], answer_to(n));
            });
    }
    case.never(|crew| assert_eq!(begun(crew).len(), 7)).play();
}

#[test]
fn block_buzz_4408_work_begins_in_the_step_that_makes_it_possible() {
    Case::new(|| {
        let mut crew = Crew::unmanned(settings(2)).begins();
        crew.starts = Conduct::Works;
        crew
    })
    .at(0, |crew| crew.say(10, ANNE))
    .at(100, |crew| crew.say_in(11, T))
    .at(200, |crew| crew.say_in(12, OTHER_T))
    .at(1000, |crew| crew.ready(0))
    .must(1000, |crew| assert_eq!(begun_with(crew, 10)[0].at, 1000))
    .at(2000, |crew| crew.ready(1))
    .must(2000, |crew| assert_eq!(begun_with(crew, 11)[0].at, 2000))
    .at(3000, |crew| crew.answers(10))
    .must(3000, |crew| assert_eq!(begun_with(crew, 12)[0].at, 3000))
    .at(4000, |crew| crew.answers(11))
    .at(5000, |crew| crew.fails(12, FailureClass::NeedsHuman))
    .at(6000, |crew| crew.say(13, ANNE))
    .at(7000, |crew| crew.say_in(14, 903))
    .at(7000, |crew| crew.say_in(15, 904))
    .at(8000, |crew| crew.exits(0))
    .at(8000, |crew| crew.answers(14))
    .never(check_promptness)
    .play();
}

// The end of a turn

#[test]
fn getpaseo_paseo_4719_the_time_of_a_cancel_runs_from_the_wish() {
    Case::new(deaf)
        .at(0, |crew| crew.say_in(10, T))
        .at(1000, |crew| crew.control(ROOM, Want::Stop))
        .at(3000, |crew| crew.lives(10))
        .at(5000, |crew| crew.control(ROOM, Want::Stop))
        .must(5999, |crew| assert!(killed(crew).is_empty()))
        .must(6000, |crew| {
            assert_eq!(killed(crew).len(), 1);
            assert_eq!(ends_of(crew, 10), [(6000, Disposal::Discarded)]);
        })
        .must(7000, |crew| assert_eq!(spawned(crew).len(), 1))
        .at(8000, |crew| crew.say_in(11, T))
        .must(8000, |crew| assert_eq!(begun_with(crew, 11)[0].at, 8000))
        .never(|crew| {
            assert_eq!(times(&killed(crew)), [6000]);
            assert_eq!(begun_with(crew, 10).len(), 1);
        })
        .play();
}

#[test]
fn getpaseo_paseo_4719_a_cancel_of_a_turn_whose_session_does_not_open_has_its_time_too() {
    Case::new(|| {
        let mut crew = deaf();
        crew.opens = Conduct::ByHand;
        crew
    })
    .at(0, |crew| crew.say_in(10, T))
    .at(1000, |crew| crew.control(ROOM, Want::Stop))
    .must(60_000 + GRACE, |crew| assert_eq!(killed(crew).len(), 1))
    .never(|crew| {
        assert!(times(&killed(crew)).iter().all(|at| *at <= 60_000 + GRACE));
        assert_eq!(begun_with(crew, 10).len(), 1);
    })
    .play();
}

#[test]
fn openabdev_openab_732_a_late_answer_to_a_turn_that_is_over_ends_no_other() {
    let late = || TurnEnd::Answered {
        reply: String::new(),
        stop: StopReason::EndTurn,
    };
    Case::new(deaf)
        .at(0, |crew| crew.say_in(10, T))
        .must(IDLE, |crew| assert_eq!(cancelled(crew).len(), 1))
        .must(IDLE + 20_000, |crew| {
            assert_eq!(begun_with(crew, 10).len(), 2);
            assert!(crew.is_at(10));
        })
        .at(IDLE + 21_000, move |crew| crew.ends_late(10, late()))
        .must(IDLE + 21_000, |crew| {
            let stale = Note::Stale {
                what: StaleWhat::Turn,
            };
            assert!(noted(crew).contains(&(IDLE + 21_000, stale)));
            assert!(published(crew).is_empty() && !crew.is_settled(10));
        })
        .at(IDLE + 30_000, |crew| crew.answers(10))
        .must(IDLE + 30_000, |crew| assert_eq!(published(crew).len(), 1))
        .never(|crew| {
            let text = &published(crew)[0].1.content;
            assert_eq!(text, "answer to 10");
        })
        .play();
}

// Failures that another attempt does not mend

#[test]
fn block_buzz_2751_what_a_human_must_mend_is_told_once_and_not_tried_again() {
    Case::new(|| workers(1))
        .at(0, |crew| crew.say_in(10, T))
        .at(1000, |crew| {
            let (class, text) = (FailureClass::NeedsHuman, "Authentication required");
            let text = Excerpt::new(text);
            crew.ends(10, TurnEnd::Failed { class, text });
        })
        .must(1000, |crew| assert_eq!(published(crew).len(), 1))
        .must(1100, |crew| {
            let text = Excerpt::new("Authentication required");
            let expected = reported(TurnFailure::NeedsHuman { text });
            assert_eq!(ended(crew)[0].1, expected);
        })
        .never(|crew| {
            assert_eq!(begun_with(crew, 10).len(), 1);
            assert_eq!(published(crew).len(), 1);
            assert_eq!(retried(crew), []);
        })
        .play();
}
