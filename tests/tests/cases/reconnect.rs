//! Reports of connections that were not there, or not any more.

use std::time::Duration;

use buzz_proto::relay::{Action, CloseCause, ConnectCause, Input, SubState};
use buzz_proto::time::MonoTime;
use buzz_sim::bench::{Answer, Bench, Dial};
use buzz_sim::toy::{self, channel};

use crate::player::{Case, ELSEWHERE, dated, live};
use crate::transcript::{
    asked, closes, dials, expect_delivered, frames, standings, waits_grow, when,
};

const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;
const D: u8 = 4;
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const DOWN: Dial = Dial::Fails(ConnectCause::Transport);

fn hush(bench: &mut Bench) {
    bench.hear_ping();
    bench.is_silent = true;
}

pub(crate) fn come_back(bench: &mut Bench) {
    bench.is_silent = false;
    bench.writes_stall = false;
    bench.dial = Dial::Succeeds;
}

/// Sleeps for so long, as a machine whose lid is shut.
fn sleep(bench: &mut Bench, span: Duration) {
    let end = bench.script.now().after(span);
    bench.script.sleep_until(end);
}

pub(crate) fn is_live(bench: &Bench) -> bool {
    bench.script.part().view().is_live
}

pub(crate) fn expect_all_live(bench: &Bench, channels: &[u8]) {
    for place in channels {
        let last = standings(bench, *place).pop().map(|(_, state)| state);
        assert_eq!(last, Some(SubState::Live), "{place}");
        assert!(bench.is_asked_for(*place), "{place}");
    }
}

// Subscriptions that are not confirmed

#[test]
fn block_buzz_6935_a_request_without_an_answer_is_not_a_subscription_and_is_repeated() {
    Case::new(|| live(&[A, B, C], 256))
        .at(0, |bench| {
            bench.history_of.insert(C, Answer::Cut(0));
            bench.disconnect();
        })
        .must(30_000, |bench| {
            assert_eq!(bench.script.part().view().subscriptions_live, 3);
        })
        .must(62_000, |bench| {
            let asked = asked(bench, C);
            assert_eq!(asked.len(), 3, "{asked:?}");
            assert_eq!(asked[2].at, asked[1].at.after(MINUTE));
            assert_eq!(asked[2].filter.since, asked[1].filter.since);
            let ends = frames(bench).into_iter().find(|one| one.verb == "CLOSE");
            assert_eq!(ends.map(|one| one.name), Some(asked[1].name.clone()));
        })
        .at(63_000, |bench| {
            let former = asked(bench, C).swap_remove(1);
            bench.say(toy::closed(&former.name, "error: shutting down"));
        })
        .must(64_000, |bench| assert_eq!(asked(bench, C).len(), 3))
        .at(70_000, |bench| {
            bench.say_of(C, toy::eose);
            bench.history_of.clear();
        })
        .must(70_000, |bench| expect_all_live(bench, &[A, B, C]))
        .never(|bench| confirmed_by_the_relay(bench, C))
        .finally(|bench| expect_all_live(bench, &[A, B, C]))
        .play();
}

/// A subscription counts as live with an EOSE of its request only.
pub(crate) fn confirmed_by_the_relay(bench: &Bench, place: u8) {
    for (at, _) in standings(bench, place)
        .into_iter()
        .filter(|(_, state)| *state == SubState::Live)
    {
        let name = asked(bench, place)
            .into_iter()
            .rfind(|request| request.at <= at);
        let eose = toy::eose(&name.expect("a request").name);
        let is_answered = bench
            .script
            .facts()
            .any(|fact| matches!(fact, Input::Frame { text, .. } if *text == eose));
        assert!(is_answered, "{at}");
    }
}

#[test]
fn block_buzz_6935_an_event_before_the_confirmation_is_delivered() {
    Case::new(|| live(&[A], 256))
        .at(0, |bench| {
            bench.history_of.insert(A, Answer::Cut(0));
            bench.disconnect();
        })
        .feed(10_000, A, 1..=1)
        .must(10_000, |bench| expect_delivered(bench, [1]))
        .at(11_000, |bench| bench.history_of.clear())
        .at(90_000, |_| {})
        .finally(|bench| {
            expect_delivered(bench, [1]);
            expect_all_live(bench, &[A]);
        })
        .play();
}

#[test]
fn block_buzz_6935_a_request_that_the_relay_ended_is_repeated_under_another_name() {
    Case::new(|| live(&[A], 256))
        .at(0, |bench| {
            bench.say_of(A, |name| {
                toy::closed(name, "auth-required: not authenticated")
            });
        })
        .at(1000, |bench| bench.say(toy::challenge("again")))
        .must(1000, |bench| {
            let auths = frames(bench).into_iter().filter(|one| one.verb == "AUTH");
            assert_eq!(auths.count(), 2);
        })
        .must(20_000, |bench| {
            assert_eq!(dials(bench).len(), 1);
            expect_all_live(bench, &[A]);
            assert_eq!(asked(bench, A).len(), 2);
        })
        .at(21_000, |bench| {
            bench.say_of(A, |name| toy::closed(name, "error: shutting down"));
        })
        .must(21_000, |bench| assert_eq!(asked(bench, A).len(), 2))
        .must(90_000, |bench| assert_eq!(asked(bench, A).len(), 3))
        .finally(|bench| expect_all_live(bench, &[A]))
        .play();
}

#[test]
fn block_buzz_6935_the_time_for_a_confirmation_begins_when_the_request_leaves() {
    Case::new(|| live(&[A, B], 256))
        .at(0, |bench| {
            bench.say_of(B, |name| {
                toy::closed(name, "rate-limited: slow; retry in 20s")
            });
            bench.history_of.insert(C, Answer::Cut(0));
            bench.subscribe(C);
        })
        .must(20_000, |bench| assert!(asked(bench, C).is_empty()))
        .must(90_000, |bench| {
            let asked = asked(bench, C);
            assert_eq!(asked.len(), 2);
            assert_eq!(asked[1].at, asked[0].at.after(MINUTE));
        })
        .at(91_000, |bench| bench.history_of.clear())
        .at(300_000, |_| {})
        .finally(|bench| expect_all_live(bench, &[A, B, C]))
        .play();
}

#[test]
fn block_buzz_5913_the_time_for_a_confirmation_ends_with_its_connection() {
    Case::new(|| live(&[A], 256))
        .at(0, |bench| {
            bench.history_of.insert(A, Answer::Cut(0));
            bench.disconnect();
        })
        .at(50_000, Bench::disconnect)
        .must(110_000, |bench| assert_eq!(asked(bench, A).len(), 3))
        .must(120_000, |bench| {
            let asked = asked(bench, A);
            assert_eq!(asked.len(), 4);
            assert_eq!(asked[3].at, asked[2].at.after(MINUTE));
        })
        .never(|bench| {
            for pair in asked(bench, A).windows(2) {
                let span = pair[1].at.saturating_since(pair[0].at);
                assert!(pair[0].conn != pair[1].conn || span >= MINUTE, "{pair:?}");
            }
        })
        .play();
}

// Peers that say nothing

#[test]
fn block_buzz_3974_a_peer_that_sends_nothing_at_all_is_given_up() {
    Case::new(|| live(&[A], 256))
        .at(0, hush)
        .must(24_999, |bench| assert!(pings(bench).is_empty()))
        .must(25_000, |bench| assert_eq!(pings(bench).len(), 1))
        .must(34_999, |bench| assert!(is_live(bench)))
        .must(35_000, |bench| {
            assert_eq!(closes(bench, CloseCause::Silent).len(), 1);
            assert!(!is_live(bench));
        })
        .at(35_000, come_back)
        .must(37_000, |bench| assert_eq!(dials(bench).len(), 2))
        .never(never_live_in_silence)
        .finally(|bench| expect_all_live(bench, &[A]))
        .play();
}

fn pings(bench: &Bench) -> Vec<MonoTime> {
    when(bench, |action| matches!(action, Action::Ping { .. }))
}

/// A link that counts as live has heard something within the last 35 s.
fn never_live_in_silence(bench: &Bench) {
    let (mut live, mut heard) = (false, MonoTime::ZERO);
    for (at, input, actions) in bench.script.calls() {
        if live {
            let silence = at.saturating_since(heard);
            assert!(silence <= 35 * SECOND, "{at}: {silence:?} of silence");
        }
        let is_heard = matches!(
            input,
            Input::Connected { .. }
                | Input::Frame { .. }
                | Input::Pinged { .. }
                | Input::Pong { .. }
        );
        if is_heard {
            heard = at;
        }
        for action in actions {
            if let Action::Link { live: is_live } = action {
                live = is_live;
            }
        }
    }
}

#[test]
fn nousresearch_hermes_agent_98097_after_hours_of_health_silence_is_seen_as_soon() {
    let hours = 7 * 3600 * 1000;
    Case::new(|| live(&[A], 256))
        .feed(hours - 1000, A, 1..=1)
        .must(hours - 1000, |bench| expect_delivered(bench, [1]))
        .at(hours, hush)
        .must(hours + 35_000, |bench| assert!(!is_live(bench)))
        .at(hours + 60_000, come_back)
        .never(never_live_in_silence)
        .finally(|bench| expect_all_live(bench, &[A]))
        .play();
}

#[test]
fn block_buzz_3969_a_parked_request_and_a_silent_peer_end_in_a_new_connection() {
    Case::new(|| live(&[A, B], 256))
        .at(0, rate_limited)
        .at(1000, rate_limited)
        .at(1500, |bench| bench.subscribe(D))
        .at(2000, rate_limited)
        .at(2000, |bench| {
            bench.is_silent = true;
            bench.dial = DOWN;
        })
        .must(10_000, |bench| assert_eq!(asked(bench, D).len(), 1))
        .must(27_000, |bench| assert_eq!(pings(bench).len(), 1))
        .must(37_000, |bench| {
            assert!(!is_live(bench));
            assert_eq!(closes(bench, CloseCause::Silent).len(), 1);
        })
        .must(120_000, |bench| assert!(dials(bench).len() >= 4))
        .at(120_000, come_back)
        .must(185_000, |bench| {
            expect_all_live(bench, &[A, B, D, ELSEWHERE]);
            let last = asked(bench, A).pop().expect("a request");
            assert!(last.filter.since <= Some(dated(102)));
        })
        .never(never_live_in_silence)
        .never(waits_grow)
        .finally(|bench| expect_all_live(bench, &[A, B, D]))
        .play();
}

fn rate_limited(bench: &mut Bench) {
    bench.say(toy::notice("rate-limited: slow down; retry in 5s"));
}

#[test]
fn block_buzz_3969_a_write_that_does_not_end_ends_the_connection() {
    Case::new(|| live(&[A], 256))
        .at(0, |bench| {
            bench.writes_stall = true;
            bench.subscribe(D);
        })
        .must(9999, |bench| assert!(is_live(bench)))
        .must(10_000, |bench| {
            assert_eq!(closes(bench, CloseCause::Write).len(), 1);
        })
        .at(10_000, come_back)
        .finally(|bench| expect_all_live(bench, &[A, D]))
        .play();
}

#[test]
fn block_buzz_3969_a_shut_gate_delays_no_dial() {
    Case::new(|| live(&[A], 256))
        .at(0, |bench| {
            bench.say_of(A, |name| {
                toy::closed(name, "rate-limited: slow; retry in 60s")
            });
        })
        .at(3000, Bench::disconnect)
        .must(4000, |bench| assert!(is_live(bench)))
        .at(70_000, |_| {})
        .finally(|bench| expect_all_live(bench, &[A]))
        .play();
}

// Clocks and sleep

#[test]
fn oxidezap_whatsapp_rust_1376_a_step_of_the_wall_clock_ends_no_connection() {
    let step = |hours: u64| {
        move |bench: &mut Bench| {
            let wall = dated(101).after(Duration::from_secs(hours * 3600));
            bench.script.input(Input::WallClock(wall));
            bench.settle();
        }
    };
    Case::new(|| live(&[A], 256))
        .at(1000, step(12))
        .must(2000, |bench| {
            assert!(is_live(bench));
        })
        .feed(3000, A, 1..=1)
        .at(4000, step(0))
        .never(|bench| {
            let given_up = when(bench, |action| matches!(action, Action::Close { .. }));
            assert!(given_up.is_empty(), "{given_up:?}");
        })
        .finally(|bench| expect_delivered(bench, [1]))
        .play();
}

#[test]
fn coder_claudecode_nvim_141_what_came_during_a_sleep_is_seen_before_the_limit() {
    Case::new(|| live(&[A], 256))
        .at(0, hush)
        .at(29_000, |bench| {
            sleep(bench, 8 * 60 * MINUTE);
            let conn = bench.script.conn();
            bench.is_silent = false;
            bench.script.input(Input::Pong { conn });
            bench.settle();
            bench.script.tick();
            bench.settle();
        })
        .must(29_000, |bench| assert!(is_live(bench)))
        .never(|bench| assert!(closes(bench, CloseCause::Silent).is_empty()))
        .finally(|bench| expect_all_live(bench, &[A]))
        .play();
}

#[test]
fn coder_claudecode_nvim_141_after_a_sleep_an_answer_has_one_more_window() {
    Case::new(|| live(&[A], 256))
        .at(0, hush)
        .at(29_000, |bench| {
            sleep(bench, 8 * 60 * MINUTE);
            bench.script.tick();
            bench.settle();
        })
        .must(29_000, |bench| assert!(is_live(bench)))
        .at(29_001, |bench| bench.run_for(9 * SECOND))
        .must(29_001, |bench| assert!(is_live(bench)))
        .at(29_002, |bench| bench.run_for(SECOND))
        .must(29_002, |bench| {
            assert_eq!(closes(bench, CloseCause::Silent).len(), 1);
        })
        .at(29_003, come_back)
        .finally(|bench| expect_all_live(bench, &[A]))
        .play();
}

#[test]
fn wireapp_wire_webapp_21416_a_socket_is_probed_after_a_sleep() {
    Case::new(|| live(&[A], 256))
        .feed(0, A, 1..=1)
        .at(1000, |bench| {
            hush(bench);
            bench.store(2, A, dated(1000));
            sleep(bench, 8 * 60 * MINUTE);
            bench.script.tick();
            bench.settle();
        })
        .must(1000, |bench| {
            assert_eq!(pings(bench), [bench.script.now()]);
        })
        .at(1001, |bench| bench.run_for(10 * SECOND))
        .must(1001, |bench| {
            assert_eq!(closes(bench, CloseCause::Silent).len(), 1);
        })
        .at(1002, come_back)
        .finally(|bench| {
            let last = asked(bench, A).pop().expect("a request");
            assert_eq!(last.filter.channel, Some(channel(A)));
            assert!(last.filter.since <= Some(dated(100)));
            expect_delivered(bench, [1, 2]);
        })
        .play();
}
