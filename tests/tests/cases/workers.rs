//! Reports of workers that died, hung, or did not end.

use buzz_proto::note::{Note, StaleWhat, TurnFailure, TurnOutcome};
use buzz_proto::publish::{Class, Command, LatestKey};
use buzz_proto::schedule::{Action, DownCause, OpenCause, StopReason, TurnEnd, Want, WorkerId};
use buzz_proto::wire::Excerpt;

use crate::crew::{
    ANNE, Conduct, Crew, ROOM, begun, begun_with, cancelled, ended, killed, noted, orders,
    published, retried, settings, spawned, times, workers,
};
use crate::player::Case;

/// Threads.
const T: u64 = 900;
const OTHER_T: u64 = 901;
const IDLE: u64 = 900_000;
const GRACE: u64 = 5000;

/// One worker that does not answer cancels.
fn deaf() -> Crew {
    let mut crew = workers(1);
    crew.cancels = Conduct::ByHand;
    crew
}

/// No worker has started; they start as they are told from now on.
fn unmanned(count: u16) -> Crew {
    Crew::unmanned(settings(count)).begins()
}

// Lives

#[test]
fn block_buzz_5327_a_worker_that_ends_again_and_again_is_started_ever_less_often() {
    Case::new(|| {
        let mut crew = workers(1);
        crew.starts = Conduct::Fails;
        crew
    })
    .at(0, |crew| crew.exits(0))
    .must(3_600_000, |crew| {
        let starts = times(&spawned(crew));
        assert!(starts.len() <= 16, "{starts:?}");
        let gaps: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().skip(2).all(|gap| *gap >= 60_000), "{gaps:?}");
        assert!(
            gaps.iter().rev().take(5).all(|gap| *gap >= 300_000),
            "{gaps:?}"
        );
        let opened = |note: &Note| matches!(note, Note::BreakerOpened { .. });
        assert!(noted(crew).iter().any(|(_, note)| opened(note)));
    })
    .at(3_600_000, |crew| crew.starts = Conduct::Works)
    .at(3_600_000, |crew| crew.say_in(10, T))
    .finally(|crew| assert_eq!(begun_with(crew, 10).len(), 1))
    .play();
}

#[test]
fn block_buzz_5849_a_slot_is_taken_until_its_worker_has_ended() {
    Case::new(|| {
        let mut crew = deaf();
        crew.kills = Conduct::ByHand;
        crew
    })
    .at(0, |crew| crew.say_in(10, T))
    .at(1000, |crew| crew.control(ROOM, Want::Stop))
    .at(2000, |crew| crew.say_in(11, OTHER_T))
    .must(5999, |crew| assert!(killed(crew).is_empty()))
    .must(6000, |crew| assert_eq!(killed(crew).len(), 1))
    .must(8000, |crew| assert!(spawned(crew).is_empty()))
    .at(8000, |crew| crew.gone(0))
    .must(9000, |crew| {
        assert_eq!(spawned(crew).len(), 1);
        let next = &begun_with(crew, 11)[0];
        assert_eq!(next.session.reference().worker.incarnation, 2);
        assert!(next.at > 8000);
    })
    .play();
}

#[test]
fn block_buzz_5849_a_worker_that_does_not_end_when_it_is_killed_holds_its_slot_for_a_while() {
    Case::new(|| {
        let mut crew = deaf();
        crew.kills = Conduct::ByHand;
        crew
    })
    .at(0, |crew| crew.say_in(10, T))
    .at(1000, |crew| crew.control(ROOM, Want::Stop))
    .at(2000, |crew| crew.say_in(11, OTHER_T))
    .must(10_999, |crew| assert!(spawned(crew).is_empty()))
    .must(12_000, |crew| {
        assert_eq!(spawned(crew).len(), 1);
        assert_eq!(begun_with(crew, 11).len(), 1);
    })
    .at(13_000, |crew| crew.gone(0))
    .must(13_000, |crew| {
        let stale = Note::Stale {
            what: StaleWhat::Worker,
        };
        assert!(noted(crew).contains(&(13_000, stale)));
        assert!(crew.is_at(11));
    })
    .never(|crew| assert_eq!(begun_with(crew, 11).len(), 1))
    .play();
}

#[test]
fn agentclientprotocol_codex_acp_359_the_end_of_a_worker_ends_its_turn_and_no_other() {
    Case::new(|| workers(2))
        .at(0, |crew| crew.say_in(10, T))
        .at(100, |crew| crew.say_in(11, OTHER_T))
        .at(500, |crew| crew.exits(0))
        .must(500, |crew| {
            let again = retried(crew);
            assert_eq!(again.len(), 1);
            assert_eq!(again[0].1, 1);
            let is_gone = |note: &Note| {
                let why = TurnFailure::WorkerGone;
                matches!(note, Note::TurnRetried { why: it, .. } if *it == why)
            };
            assert!(noted(crew).iter().any(|(_, note)| is_gone(note)));
            assert!(crew.is_at(11) && !crew.is_at(10));
        })
        .must(1500, |crew| assert_eq!(spawned(crew).len(), 1))
        .must(7000, |crew| {
            assert_eq!(begun_with(crew, 10).len(), 2);
            assert_eq!(begun_with(crew, 11).len(), 1);
        })
        .never(|crew| assert!(cancelled(crew).is_empty()))
        .play();
}

#[test]
fn agentclientprotocol_codex_acp_359_after_the_end_of_a_worker_events_are_tried_one_by_one() {
    Case::new(|| workers(1))
        .at(0, |crew| crew.say_in(10, T))
        .at(100, |crew| crew.say_in(11, T))
        .at(200, |crew| crew.say_in(12, T))
        .at(1000, |crew| crew.answers(10))
        .must(1000, |crew| assert_eq!(begun(crew)[1].batch, [11, 12]))
        .at(2000, |crew| crew.exits(0))
        .must(9000, |crew| assert_eq!(begun(crew)[2].batch, [11]))
        .at(10_000, |crew| crew.answers(11))
        .must(10_000, |crew| assert_eq!(begun(crew)[3].batch, [12]))
        .play();
}

#[test]
fn agentclientprotocol_codex_acp_359_an_event_at_which_three_workers_ended_is_given_up() {
    let mut case = Case::new(|| workers(1)).at(0, |crew| crew.say_in(10, T));
    for at in [1000, 20_000, 100_000] {
        case = case.at(at, |crew| {
            if crew.is_at(10) {
                crew.exits(0);
            }
        });
    }
    case.must(100_100, |crew| {
        let why = TurnFailure::Poisonous;
        assert_eq!(ended(crew)[0].1, TurnOutcome::Reported { why });
        assert_eq!(published(crew).len(), 1);
    })
    .never(|crew| assert_eq!(begun_with(crew, 10).len(), 3))
    .play();
}

#[test]
fn inaka_worker_pool_37_a_worker_that_could_not_be_given_its_turn_is_free() {
    Case::new(|| {
        let mut crew = workers(1);
        crew.opens = Conduct::ByHand;
        crew
    })
    .at(0, |crew| crew.say_in(10, T))
    .at(100, |crew| crew.say_in(11, OTHER_T))
    .at(1000, |crew| {
        let text = Excerpt::new("the prompt could not be written");
        crew.not_opened(10, OpenCause::Refused { text });
    })
    .must(1000, |crew| {
        assert_eq!(begun_with(crew, 11)[0].at, 1000);
        assert_eq!(retried(crew)[0].1, 1);
    })
    .finally(|crew| assert_eq!(begun_with(crew, 10).len(), 2))
    .play();
}

#[test]
fn inaka_worker_pool_37_a_worker_that_says_nothing_of_its_turn_is_replaced() {
    Case::new(|| {
        let mut crew = deaf();
        crew.opens = Conduct::ByHand;
        crew
    })
    .at(0, |crew| crew.say_in(10, T))
    .must(59_999, |crew| assert!(cancelled(crew).is_empty()))
    .must(60_000 + GRACE, |crew| assert_eq!(killed(crew).len(), 1))
    .must(60_000 + GRACE + 8000, |crew| {
        assert_eq!(begun_with(crew, 10).len(), 2);
        assert_eq!(retried(crew)[0].1, 1);
    })
    .play();
}

#[test]
fn millionco_spawn_agent_2_a_start_that_fails_at_once_is_known_at_once() {
    Case::new(|| unmanned(1))
        .at(0, |crew| crew.say_in(10, T))
        .at(5, |crew| crew.exits(0))
        .must(5, |crew| {
            let told = noted(crew);
            let (at, note) = told.last().expect("a note");
            let Note::WorkerDown { cause, wait, .. } = note else {
                crew.script.fail("the end of the worker is not told");
            };
            assert_eq!(*at, 5);
            assert!(matches!(cause, DownCause::Exited { .. }) && wait.is_some());
        })
        .must(1005, |crew| assert_eq!(spawned(crew).len(), 1))
        .at(2000, |crew| {
            let first = WorkerId {
                slot: 0,
                incarnation: 1,
            };
            crew.down(first, DownCause::Killed);
        })
        .at(2500, |crew| crew.ready(0))
        .must(2500, |crew| assert_eq!(begun_with(crew, 10)[0].at, 2500))
        .never(|crew| {
            assert!(killed(crew).is_empty());
            assert_eq!(begun_with(crew, 10).len(), 1);
        })
        .play();
}

#[test]
fn millionco_spawn_agent_2_a_start_without_a_word_has_its_time() {
    Case::new(|| unmanned(1))
        .at(0, |crew| crew.say_in(10, T))
        .must(58_999, |crew| assert!(killed(crew).is_empty()))
        .must(59_000, |crew| assert_eq!(killed(crew).len(), 1))
        .must(60_000, |crew| assert_eq!(spawned(crew).len(), 1))
        .play();
}

// Ends of turns

#[test]
fn agentclientprotocol_claude_agent_acp_896_a_turn_that_ends_when_it_is_cancelled_ends_once() {
    Case::new(|| workers(1))
        .at(0, |crew| crew.say_in(10, T))
        .at(10_000, |crew| crew.lives(10))
        .must(10_000 + IDLE, |crew| {
            assert_eq!(times(&cancelled(crew)), [10_000 + IDLE]);
            assert_eq!(retried(crew).len(), 1);
            assert!(published(crew).is_empty());
        })
        .at(IDLE + 20_000, |crew| crew.answers(10))
        .must(IDLE + 20_000, |crew| assert_eq!(published(crew).len(), 1))
        .never(|crew| assert_eq!(published(crew).len(), 1))
        .play();
}

#[test]
fn agentclientprotocol_claude_agent_acp_896_an_answer_after_the_cancel_is_taken_or_tried_again() {
    Case::new(deaf)
        .at(0, |crew| crew.say_in(10, T))
        .at(10_000, |crew| crew.lives(10))
        .at(10_000 + IDLE + 100, |crew| {
            let (reply, stop) = ("at last".to_owned(), StopReason::EndTurn);
            crew.ends(10, TurnEnd::Answered { reply, stop });
        })
        .must(10_000 + IDLE + 100, |crew| {
            assert_eq!(published(crew).len() + retried(crew).len(), 1);
        })
        .never(|crew| {
            assert_eq!(published(crew).len(), 1);
            assert!(killed(crew).is_empty());
        })
        .play();
}

/// A worker, and typing is shown.
fn shown(cancels: Conduct) -> Crew {
    let mut config = settings(1);
    config.cosmetics = true;
    let mut crew = Crew::idle(config);
    crew.cancels = cancels;
    crew
}

fn typed(crew: &Crew) -> Vec<u64> {
    let all = orders(crew).into_iter();
    let typed = all.filter(|(_, action)| {
        matches!(
            action,
            Action::Publish(Command::Submit {
                class: Class::Latest(LatestKey::Typing(_)),
                ..
            })
        )
    });
    typed.map(|(at, _)| at).collect()
}

#[test]
fn block_buzz_6826_what_we_show_is_no_sign_of_life_of_the_worker() {
    Case::new(|| shown(Conduct::Works))
        .at(0, |crew| crew.say_in(10, T))
        .at(300_000, |crew| crew.say_in(11, T))
        .at(600_000, |crew| crew.say(12, ANNE))
        .must(IDLE - 1, |crew| {
            assert!(typed(crew).len() > 100 && cancelled(crew).is_empty());
        })
        .must(IDLE, |crew| assert_eq!(times(&cancelled(crew)), [IDLE]))
        .never(|crew| assert_eq!(times(&cancelled(crew))[0], IDLE))
        .play();
}

#[test]
fn block_buzz_188_a_cancel_without_an_answer_ends_and_so_does_typing() {
    Case::new(|| shown(Conduct::ByHand))
        .at(0, |crew| crew.say_in(10, T))
        .at(10_000, |crew| crew.control(ROOM, Want::Stop))
        .must(10_000, |crew| {
            assert_eq!(typed(crew), [0, 3000, 6000, 9000])
        })
        .must(10_000 + GRACE, |crew| assert_eq!(killed(crew).len(), 1))
        .never(|crew| {
            assert!(typed(crew).iter().all(|at| *at <= 10_000));
            assert_eq!(times(&killed(crew)), [10_000 + GRACE]);
        })
        .play();
}
