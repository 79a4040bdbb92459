//! Reports of messages that were lost, sent too often, or called sent when they were not.

use std::ops::RangeInclusive;
use std::time::Duration;

use buzz_proto::publish::{Command, Mark, Verdict};
use buzz_proto::relay::ConnectCause;
use buzz_proto::time::MonoTime;
use buzz_sim::bench::Dial;
use buzz_sim::toy;

use crate::outcomes::{
    Leaving, calls, expect_stored, gaps, ids_stay, is_stored, leaving_of, posts, rejection,
    verdicts,
};
use crate::player::Case;
use crate::transcript::waits;
use crate::whole::{OWNER, SLOTS, Said, Whole, Word, live, live_with, settings};

const A: u8 = 1;
const SECOND: Duration = Duration::from_secs(1);

fn sent(whole: &Whole, job: u64) -> usize {
    leaving_of(whole, job).len()
}

fn by_hand(whole: &mut Whole) {
    whole.socket = Word::Nothing;
}

fn heal(whole: &mut Whole) {
    whole.heal();
}

fn limit(whole: &mut Whole, seconds: u64) {
    let text = format!("rate-limited: too many messages; retry in {seconds}s");
    whole.say(toy::notice(&text));
}

/// The time of a job is counted from when it was submitted, at this instant of a case.
fn ends_by(whole: &Whole, job: u64, at: Duration) {
    let zero = MonoTime::ZERO.after(Duration::from_secs(100));
    let (ended, verdict) = verdicts(whole, job).pop().expect("a verdict");
    assert!(ended <= zero.after(at).round_up(), "{ended}: {verdict:?}");
}

// A verdict for each event

/// Also 6170, 5165, and 509 of a client library.
#[test]
fn block_buzz_6961_each_event_has_its_own_verdict_and_its_reason_decides() {
    Case::new(|| live(&[A]))
        .at(0, by_hand)
        .at(1, |whole| {
            for job in 1..=4 {
                whole.send(job);
            }
        })
        .must(1, |whole| assert!((1..=4).all(|job| sent(whole, job) == 1)))
        .at(1000, |whole| {
            whole.ok(1, false, "rate-limited: too many; retry in 5s")
        })
        .at(1000, |whole| whole.ok(2, true, ""))
        .at(1000, |whole| whole.ok(3, false, "invalid: bad tag"))
        .at(1000, |whole| {
            whole.ok(4, false, "auth-required: not authenticated")
        })
        .at(1500, |whole| {
            whole.say(toy::ok(toy::id(9), true, ""));
            if let Some(second) = leaving_of(whole, 2).first() {
                let id = second.event.id();
                whole.say(toy::ok(id, false, "error: too late"));
            }
        })
        .at(2000, |whole| whole.say(toy::challenge("again")))
        .must(6500, |whole| {
            assert!((1..=4).all(|job| sent(whole, job) == 1));
            assert!(verdicts(whole, 1).is_empty() && verdicts(whole, 4).is_empty());
            expect_stored(whole, [2]);
            assert_eq!(rejection(whole, 3).as_deref(), Some("invalid: bad tag"));
        })
        .must(9000, |whole| {
            assert_eq!([1, 2, 3, 4].map(|job| sent(whole, job)), [2, 1, 1, 2]);
        })
        .at(9000, |whole| limit(whole, 2))
        .must(11_500, |whole| {
            assert!(sent(whole, 1) == 2 && sent(whole, 4) == 2)
        })
        .must(14_000, |whole| {
            assert!(sent(whole, 1) == 3 && sent(whole, 4) == 3)
        })
        .at(14_000, |whole| whole.ok(1, true, ""))
        .must(14_000, |whole| expect_stored(whole, [1]))
        .at(14_500, Whole::disconnect)
        .must(20_000, |whole| assert_eq!(sent(whole, 4), 4))
        .at(20_000, |whole| whole.ok(4, true, ""))
        .must(20_000, |whole| {
            expect_stored(whole, [1, 2, 4]);
            assert_eq!([1, 2, 3, 4].map(|job| sent(whole, job)), [3, 1, 1, 4]);
        })
        .never(ids_stay)
        .finally(|whole| expect_stored(whole, [1, 2, 4]))
        .play();
}

#[test]
fn block_buzz_6961_a_refused_post_that_is_answered_well_is_not_stored() {
    let refused = r#"{"accepted":false,"message":"invalid: bad tag"}"#;
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole.http_of.insert(1, Some(Said::new(200, refused)));
            whole
                .http_of
                .insert(2, Some(Said::new(200, "<html>welcome</html>")));
        })
        .at(1, |whole| {
            whole.post(1);
            whole.post(2);
        })
        .must(1000, |whole| {
            assert_eq!(rejection(whole, 1).as_deref(), Some("invalid: bad tag"));
            assert!(verdicts(whole, 2).is_empty());
        })
        .at(20_000, |whole| {
            whole.http_of.remove(&2);
        })
        .never(|whole| assert!(sent(whole, 1) == 1 && !is_stored(whole, 1)))
        .never(ids_stay)
        .finally(|whole| expect_stored(whole, [2]))
        .play();
}

#[test]
fn block_buzz_6170_a_refusal_for_good_is_told_and_not_repeated() {
    for reason in [
        "blocked: you are banned",
        "restricted: not a channel member",
        "invalid: no such channel",
        "pow: 20 bits are wanted",
    ] {
        Case::new(|| live(&[A]))
            .at(0, move |whole| {
                whole.socket_of.insert(1, Word::No(reason));
                whole.http_of.insert(2, Some(Said::error(400, reason)));
            })
            .at(1, |whole| {
                whole.send(1);
                whole.post(2);
            })
            .must(1000, move |whole| {
                for job in [1, 2] {
                    assert_eq!(rejection(whole, job).as_deref(), Some(reason));
                    assert_eq!(sent(whole, job), 1);
                }
            })
            .at(60_000, |_| {})
            .never(|whole| assert_eq!(sent(whole, 2), 1))
            .never(|whole| assert!(![1, 2].iter().any(|job| is_stored(whole, *job))))
            .play();
    }
}

#[test]
fn block_buzz_6170_what_may_pass_is_tried_again() {
    for status in [408, 425, 429, 500, 502, 503, 504] {
        Case::new(|| live(&[A]))
            .at(0, move |whole| {
                whole.http = Some(Said::error(status, "later"));
                whole.post(1);
            })
            .at(1000, heal)
            .must(1000, |whole| assert_eq!(sent(whole, 1), 1))
            .must(30_000, |whole| {
                assert_eq!(sent(whole, 1), 2);
                expect_stored(whole, [1]);
            })
            .never(ids_stay)
            .finally(|whole| expect_stored(whole, [1]))
            .play();
    }
}

const REACTION: u32 = 7;

/// The posts of reactions.
fn reactions(whole: &Whole) -> Vec<Leaving> {
    let mut all = posts(whole);
    all.retain(|it| it.event.kind() == REACTION);
    all
}

#[test]
fn block_buzz_6170_a_reaction_that_fails_is_tried_again() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole.http = Some(Said::error(503, "later"));
            whole.publish(Command::React {
                message: toy::id(77),
                author: toy::key(OWNER),
                mark: Some(Mark::Seen),
            });
        })
        .must(1000, |whole| assert_eq!(reactions(whole).len(), 1))
        .at(1000, heal)
        .must(60_000, |whole| {
            assert!((2..=3).contains(&reactions(whole).len()))
        })
        .never(|whole| {
            let all = reactions(whole);
            let apart = |gap: Duration| gap >= SECOND * 11 / 2;
            assert!(gaps(&all).into_iter().all(apart), "{all:?}");
        })
        .finally(|whole| assert!(!reactions(whole).is_empty()))
        .play();
}

#[test]
fn block_buzz_5165_a_refusal_that_names_no_event_keeps_them_and_their_time() {
    Case::new(|| live(&[A]))
        .at(0, by_hand)
        .at(0, |whole| whole.send_within(1, 30))
        .at(200, |whole| limit(whole, 2))
        .must(2699, |whole| assert_eq!(sent(whole, 1), 1))
        .must(4000, |whole| assert_eq!(sent(whole, 1), 2))
        .must(29_999, |whole| assert!(verdicts(whole, 1).is_empty()))
        .must(30_000, |whole| {
            assert_eq!(verdicts(whole, 1), [(whole.now(), Verdict::Unknown)]);
        })
        .never(|whole| ends_by(whole, 1, SECOND * 30))
        .never(ids_stay)
        .play();
}

// Repetitions

#[test]
fn unicity_sphere_sphere_sdk_555_an_event_without_an_answer_is_repeated_as_it_is_and_ever_less() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole.http = None;
            whole.post_within(1, 300);
        })
        .must(299_999, |whole| {
            assert!(verdicts(whole, 1).is_empty());
            let calls = calls(whole);
            assert!((3..=12).contains(&calls.len()), "{calls:?}");
            let gap = |pair: &[MonoTime]| pair[1].saturating_since(pair[0]);
            let gaps: Vec<_> = calls.windows(2).map(gap).collect();
            for pair in gaps.windows(2) {
                assert!(pair[1] + SECOND * 2 >= pair[0], "{gaps:?}");
            }
            let longest = gaps[gaps.len() - 1];
            assert!(longest >= gaps[0] + SECOND * 20, "{gaps:?}");
        })
        .must(300_000, |whole| {
            assert_eq!(verdicts(whole, 1), [(whole.now(), Verdict::Unknown)]);
        })
        .never(|whole| assert!(sent(whole, 1) <= 10))
        .never(|whole| ends_by(whole, 1, SECOND * 300))
        .never(ids_stay)
        .play();
}

#[test]
fn unicity_sphere_sphere_sdk_555_an_event_on_the_socket_keeps_its_id_over_connections() {
    Case::new(|| live(&[A]))
        .at(0, by_hand)
        .at(0, |whole| whole.send(1))
        .at(20_000, Whole::disconnect)
        .at(60_000, Whole::disconnect)
        .at(90_000, heal)
        .must(120_000, |whole| {
            expect_stored(whole, [1]);
            assert!((4..=10).contains(&sent(whole, 1)), "{}", sent(whole, 1));
        })
        .never(ids_stay)
        .finally(|whole| expect_stored(whole, [1]))
        .play();
}

// Without a connection

fn lose(whole: &mut Whole) {
    whole.dial = Dial::Fails(ConnectCause::Transport);
    whole.disconnect();
}

#[test]
fn topcheer_ggcode_964_what_is_sent_without_a_connection_waits_or_is_told_lost() {
    Case::new(|| live(&[A]))
        .at(0, lose)
        .at(1, |whole| {
            whole.send(1);
            whole.send_within(2, 30);
        })
        .must(29_999, |whole| {
            assert!([1, 2].iter().all(|job| verdicts(whole, *job).is_empty()));
        })
        .must(30_001, |whole| {
            assert_eq!(verdicts(whole, 2), [(whole.now(), Verdict::Expired)]);
        })
        .at(60_000, heal)
        .must(125_000, |whole| {
            expect_stored(whole, [1]);
            assert_eq!([1, 2].map(|job| sent(whole, job)), [1, 0]);
        })
        .never(|whole| ends_by(whole, 2, SECOND * 31))
        .never(ids_stay)
        .finally(|whole| expect_stored(whole, [1]))
        .play();
}

#[test]
fn topcheer_ggcode_964_an_outbox_without_room_says_so_at_once() {
    Case::new(|| {
        let mut config = settings(&[A], SLOTS);
        config.publish.jobs_max = 4;
        live_with(config)
    })
    .at(0, lose)
    .at(1, |whole| {
        for job in 1..=9 {
            whole.send(job);
        }
    })
    .must(1, |whole| {
        let ended: Vec<_> = (1..=9).flat_map(|job| verdicts(whole, job)).collect();
        assert_eq!(ended, vec![(whole.now(), Verdict::Evicted); 5]);
    })
    .at(10_000, heal)
    .never(|whole| {
        let stored = (1..=9).filter(|job| is_stored(whole, *job));
        assert!(stored.count() <= 4);
    })
    .never(ids_stay)
    .play();
}

/// Some dials fail, one succeeds and its socket lasts for so long: how long the next dial waits.
fn wait_after(health: Duration, expected: RangeInclusive<Duration>) {
    Case::new(|| live(&[A]))
        .at(0, move |whole| {
            lose(whole);
            whole.send(1);
            let before = waits(whole).len();
            while waits(whole).len() < before + 5 {
                whole.run_for(SECOND / 10);
            }
            whole.heal();
            while !whole.is_live() {
                whole.run_for(SECOND / 10);
            }
            whole.run_for(health);
            whole.disconnect();
            while !whole.is_live() {
                whole.run_for(SECOND / 10);
            }
        })
        .must(0, move |whole| {
            let last = waits(whole).pop().expect("a wait");
            assert!(expected.contains(&last), "{last:?}");
            expect_stored(whole, [1]);
        })
        .never(ids_stay)
        .play();
}

#[test]
fn topcheer_ggcode_964_a_minute_of_health_resets_the_wait_for_a_connection() {
    wait_after(SECOND * 61, SECOND / 2..=SECOND);
    wait_after(SECOND * 58, SECOND * 16..=SECOND * 60);
}
