//! Reports of what was sent while nobody listened, between two sockets or two lives.

use std::time::Duration;

use buzz_proto::config::Consumer;
use buzz_proto::note::Note;
use buzz_proto::relay::{Record, Sub};
use buzz_proto::time::UnixTime;
use buzz_sim::bench::{Answer, Bench, Dial};
use buzz_sim::toy::{self, START, channel};

use crate::player::{Case, dated, live, new, settings};
use crate::reconnect::DOWN;
use crate::transcript::{asked, expect_delivered, is_caught_up, pages, told};

const A: u8 = 1;
const SECOND: Duration = Duration::from_secs(1);

/// A part with records to begin with.
fn restored(settled: UnixTime) -> Bench {
    let sub = Sub::Channel(channel(A));
    let (done, started) = (Vec::new(), Vec::new());
    let mut config = settings(&[A]);
    config.records = Some(vec![Record {
        sub,
        settled,
        done,
        started,
    }]);
    Bench::new(config, &Consumer::External { slots: 256 })
}

#[test]
fn openclaw_openclaw_116925_a_full_page_is_not_taken_for_all() {
    Case::new(|| live(&[A], 256))
        .at(1000, |bench| {
            bench.dial = DOWN;
            bench.disconnect();
            for n in 0..150 {
                bench.store(n, A, dated(100 + n / 3));
            }
        })
        .at(60_000, |bench| bench.dial = Dial::Succeeds)
        .must(130_000, |bench| {
            expect_delivered(bench, 0..150);
            assert!(!pages(bench, A).is_empty());
        })
        .never(|bench| assert!(!told(bench, |note| matches!(note, Note::Gap { .. }))))
        .finally(|bench| expect_delivered(bench, 0..150))
        .play();
}

#[test]
fn openclaw_openclaw_116925_a_history_that_cannot_be_read_on_is_told() {
    Case::new(|| {
        let mut bench = live(&[A], 256);
        bench.page = Answer::Closed("restricted: no reads of history");
        bench
    })
    .at(1000, |bench| {
        bench.dial = DOWN;
        bench.disconnect();
        for n in 0..150 {
            bench.store(n, A, dated(100 + n / 3));
        }
    })
    .at(60_000, |bench| bench.dial = Dial::Succeeds)
    .at(130_000, |_| {})
    .finally(|bench| {
        assert!(bench.delivered.len() < 150);
        assert!(told(bench, |note| matches!(note, Note::ReadFailed { .. })));
        assert!(!told(bench, is_caught_up));
    })
    .play();
}

#[test]
fn block_buzz_6772_what_was_sent_between_two_lives_is_delivered() {
    let settled = START.before(5000 * SECOND);
    Case::new(move || {
        let mut bench = restored(settled);
        bench.store(1, A, settled.after(10 * SECOND));
        bench.attend(Dial::Succeeds);
        bench
    })
    .must(1000, move |bench| {
        assert!(asked(bench, A)[0].filter.since <= Some(settled));
        expect_delivered(bench, [1]);
    })
    .finally(|bench| expect_delivered(bench, [1]))
    .play();
}

#[test]
fn block_buzz_6772_no_date_of_a_record_stops_the_start() {
    for settled in [
        UnixTime(0),
        UnixTime(1),
        UnixTime(u64::MAX - 1),
        UnixTime(u64::MAX),
    ] {
        let is_ahead = settled > START;
        Case::new(move || {
            let mut bench = restored(settled);
            bench.attend(Dial::Succeeds);
            bench
        })
        .feed(200_000, A, 1..=1)
        .finally(move |bench| {
            expect_delivered(bench, [1]);
            let ahead = told(bench, |note| matches!(note, Note::RecordAhead { .. }));
            assert_eq!(ahead, is_ahead);
        })
        .play();
    }
}

#[test]
fn block_buzz_3978_what_is_sent_while_the_start_takes_its_time_is_owed() {
    Case::new(|| {
        let mut bench = new(&[A], 256);
        bench.attend(Dial::IsLost);
        bench
    })
    .at(3000, |bench| {
        bench.store(1, A, dated(3));
    })
    .at(10_000, Bench::open)
    .must(10_000, |bench| {
        assert!(asked(bench, A)[0].filter.since <= Some(START));
        expect_delivered(bench, [1]);
    })
    .never(|bench| {
        for request in asked(bench, A) {
            assert!(request.filter.since <= Some(START), "{request:?}");
        }
    })
    .finally(|bench| expect_delivered(bench, [1]))
    .play();
}

#[test]
fn block_buzz_4752_a_new_connection_asks_from_before_the_outage() {
    Case::new(|| live(&[A], 256))
        .feed(0, A, 500..=500)
        .at(1000, |bench| {
            bench.dial = DOWN;
            bench.disconnect();
        })
        .at(2000, |bench| {
            bench.store(510, A, dated(102));
        })
        .at(60_000, |bench| bench.dial = Dial::Succeeds)
        .must(125_000, |bench| {
            let last = asked(bench, A).pop().expect("a request");
            assert!(last.filter.since <= Some(dated(100)));
            expect_delivered(bench, [500, 510]);
        })
        .finally(|bench| expect_delivered(bench, [500, 510]))
        .play();
}

#[test]
fn block_buzz_5500_how_far_a_first_start_looks_back_is_a_setting() {
    for (look_back, is_owed) in [(Duration::ZERO, false), (100 * SECOND, true)] {
        Case::new(move || {
            let mut config = settings(&[A]);
            config.look_back = look_back;
            let mut bench = Bench::new(config, &Consumer::External { slots: 256 });
            bench.store(1, A, START.before(50 * SECOND));
            bench.attend(Dial::Succeeds);
            bench
        })
        .at(1000, |_| {})
        .finally(move |bench| {
            assert_eq!(bench.delivered.contains(&toy::id(1)), is_owed);
        })
        .play();
    }
}

#[test]
fn mikedilger_gossip_33_a_relay_that_never_ends_its_history_delays_and_repeats_nothing() {
    Case::new(|| live(&[A], 256))
        .at(0, |bench| {
            for n in 1..=3 {
                bench.store(n, A, dated(100));
            }
            bench.history = Answer::Cut(3);
            bench.disconnect();
        })
        .must(10_000, |bench| expect_delivered(bench, 1..=3))
        .feed(11_000, A, 4..=4)
        .must(11_000, |bench| expect_delivered(bench, [4]))
        .at(20_000, Bench::disconnect)
        .must(30_000, |bench| {
            let last = asked(bench, A).pop().expect("a request");
            assert!(last.filter.since <= Some(dated(100)));
        })
        .finally(|bench| expect_delivered(bench, 1..=4))
        .play();
}
