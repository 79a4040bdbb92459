//! Reports of dials that came too often, together, or not at all.

use std::time::Duration;

use buzz_proto::config::Consumer;
use buzz_proto::relay::{CloseCause, ConnectCause, Relay};
use buzz_proto::seed::Seed;
use buzz_proto::time::MonoTime;
use buzz_sim::bench::{Bench, Dial};
use buzz_sim::relay::given;
use buzz_sim::script::{self, Script};
use buzz_sim::toy::ME;

use crate::player::{Case, live, new};
use crate::reconnect::{DOWN, come_back, expect_all_live, is_live};
use crate::transcript::{closes, dials, waits, waits_grow};

const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn lose(bench: &mut Bench) {
    bench.dial = DOWN;
    bench.disconnect();
}

/// Lets time pass in which nothing comes from outside but the answers to orders.
fn undisturbed(bench: &mut Bench, span: Duration) {
    let end = bench.script.now().after(span);
    while bench.script.now() < end {
        let due = bench.script.part().next_deadline();
        bench
            .script
            .run_until(due.map_or(end, |(at, _)| at.min(end)));
        bench.settle();
    }
}

#[test]
fn block_buzz_3975_a_start_without_a_network_is_tried_for_as_long_as_it_takes() {
    Case::new(|| {
        let mut bench = new(&[A], 256);
        bench.attend(Dial::Fails(ConnectCause::Resolve));
        bench
    })
    .must(600_000, |bench| assert!(dials(bench).len() > 10))
    .at(600_000, come_back)
    .must(660_000, |bench| expect_all_live(bench, &[A]))
    .never(waits_grow)
    .finally(|bench| expect_all_live(bench, &[A]))
    .play();
}

#[test]
fn block_buzz_2564_a_first_dial_that_fails_is_followed_by_another() {
    Case::new(|| {
        let mut bench = new(&[A], 256);
        bench.attend(DOWN);
        bench
    })
    .at(0, |bench| bench.dial = Dial::Succeeds)
    .must(1000, |bench| {
        assert_eq!(dials(bench).len(), 2);
        assert!(is_live(bench));
    })
    .finally(|bench| expect_all_live(bench, &[A]))
    .play();
}

#[test]
fn vitorpamplona_amethyst_3219_a_socket_that_opens_and_ends_does_not_reset_the_wait() {
    Case::new(|| live(&[A], 256))
        .at(0, |bench| {
            for _ in 0..10 {
                bench.disconnect();
                while !is_live(bench) {
                    bench.run_for(SECOND / 5);
                }
            }
        })
        .must(0, |bench| {
            let waits = waits(bench);
            for (wait, rung) in waits.iter().zip([1, 2, 4, 8, 16, 32, 60, 60, 60, 60]) {
                let rung = Duration::from_secs(rung);
                assert!(rung / 2 <= *wait && *wait <= rung, "{waits:?}");
            }
        })
        .never(waits_grow)
        .finally(|bench| expect_all_live(bench, &[A]))
        .play();
}

#[test]
fn moq_dev_moq_1806_a_socket_that_ends_at_once_is_waited_after() {
    Case::new(|| live(&[A], 256))
        .at(0, |bench| {
            bench.dial = Dial::Drops;
            bench.disconnect();
        })
        .must(30_000, |bench| assert!(dials(bench).len() <= 7))
        .at(30_000, come_back)
        .never(|bench| {
            for wait in waits(bench) {
                assert!(wait >= SECOND / 2, "{wait:?}");
            }
        })
        .finally(|bench| expect_all_live(bench, &[A]))
        .play();
}

#[test]
fn yonle_bostr_12_a_relay_that_ends_every_socket_is_tried_ever_less_and_for_ever() {
    let two_hours = 7_200_000;
    Case::new(|| live(&[A], 256))
        .at(0, |bench| {
            bench.dial = Dial::Drops;
            bench.disconnect();
        })
        .must(two_hours, |bench| {
            let waits = waits(bench);
            assert!(waits.len() > 120, "{}", waits.len());
            let top = 30 * SECOND..=60 * SECOND;
            assert!(waits[7..].iter().all(|wait| top.contains(wait)));
        })
        .at(two_hours, come_back)
        .never(|bench| {
            for dials in dials(bench).windows(9) {
                assert!(dials[8].saturating_since(dials[0]) > MINUTE, "{dials:?}");
            }
        })
        .never(waits_grow)
        .finally(|bench| expect_all_live(bench, &[A]))
        .play();
}

#[test]
fn nbd_wtf_nostr_tools_538_failed_dials_forget_no_subscription() {
    Case::new(|| live(&[A, B, C], 256))
        .at(0, lose)
        .must(4000, |bench| assert!(dials(bench).len() >= 3))
        .at(4000, come_back)
        .must(15_000, |bench| expect_all_live(bench, &[A, B, C]))
        .finally(|bench| expect_all_live(bench, &[A, B, C]))
        .play();
}

#[test]
fn nbd_wtf_go_nostr_199_dials_need_no_reason_from_outside() {
    Case::new(|| live(&[A], 256))
        .at(0, |bench| {
            lose(bench);
            undisturbed(bench, 10 * MINUTE);
        })
        .must(0, |bench| assert!(dials(bench).len() > 12))
        .at(600_000, come_back)
        .never(waits_grow)
        .finally(|bench| expect_all_live(bench, &[A]))
        .play();
}

#[test]
fn nousresearch_hermes_agent_64712_a_dial_that_is_never_answered_is_given_up_and_repeated() {
    Case::new(|| live(&[A], 256))
        .at(0, |bench| {
            bench.dial = Dial::IsLost;
            bench.disconnect();
        })
        .must(35_000, |bench| {
            assert_eq!(closes(bench, CloseCause::DialLimit).len(), 1);
            assert!(dials(bench).len() >= 3);
        })
        .at(100_000, |bench| bench.dial = Dial::Succeeds)
        .must(200_000, |bench| expect_all_live(bench, &[A]))
        .finally(|bench| expect_all_live(bench, &[A]))
        .play();
}

#[test]
fn xinian_dada_nodelite_27_a_hundred_agents_do_not_come_back_together() {
    for losses in 1..=4_u32 {
        let mut slots = vec![0; 80];
        for seed in 0..100 {
            let wait = last_wait(seed, losses);
            let slot = usize::try_from(wait.as_millis() / 100).expect("small");
            slots[slot] += 1;
        }
        let used = 5 << (losses - 1);
        let most = slots.iter().max().expect("slots");
        assert!(most * used < 3 * 100, "{losses}: {slots:?}");
    }
}

/// The wait after so many losses in a row.
fn last_wait(seed: u64, losses: u32) -> Duration {
    let consumer = Consumer::External { slots: 1 };
    let part = Relay::new(given(&[A]), ME, &consumer, Seed(seed), MonoTime::ZERO);
    let mut relay: Script<Relay> = script::script(part.expect("the settings work"));
    relay.wall_clock();
    let mut wait = Duration::ZERO;
    for _ in 0..losses {
        relay.orders();
        relay.connected();
        relay.closed(None).orders();
        wait = relay.waits().pop().expect("a wait");
        relay.run_for(wait + SECOND / 1000);
    }
    wait
}
