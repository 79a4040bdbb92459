//! What was sent while nobody listened.

use std::time::Duration;

use buzz_proto::note::{GapWhy, Note};
use buzz_proto::relay::Sub;
use buzz_sim::toy::{self, START, channel};

use buzz_sim::bench::{Answer, Bench};

const SECOND: Duration = Duration::from_secs(1);

/// An outage of 2,500 events in one channel, 500 of them in one second.
fn outage(bench: &mut Bench) -> Vec<buzz_proto::ids::EventId> {
    bench.disconnect();
    let begin = bench.present();
    let dated = |n: u64| match n {
        0..1000 => begin.after(Duration::from_secs(n / 10)),
        1000..1500 => begin.after(100 * SECOND),
        n => begin.after(Duration::from_secs(100 + (n - 1500) / 10)),
    };
    let sent = (0..2500).map(|n| bench.store(n, 1, dated(n))).collect();
    bench
        .script
        .sleep_until(bench.script.now().after(300 * SECOND));
    sent
}

#[test]
fn an_outage_of_2500_events_is_delivered_whole() {
    let mut bench = Bench::live(&[1], 256);
    bench.has_query = true;
    let owed = outage(&mut bench);
    bench.reopen();
    for _ in 0..30 {
        bench.take_all();
        bench.run_for(SECOND);
    }
    bench.expect_delivered(owed);
    assert_eq!(bench.gaps(), []);
    let requests = bench.requests.len();
    assert!(requests < 40, "{requests} requests");
}

#[test]
fn without_query_a_second_that_holds_more_than_a_page_is_a_gap() {
    let mut bench = Bench::live(&[1], 256);
    let owed = outage(&mut bench);
    let second = bench.date_of(1000);
    bench.reopen();
    for _ in 0..60 {
        bench.take_all();
        bench.run_for(SECOND);
    }
    let gaps = bench.gaps();
    let expected = Note::Gap {
        sub: Sub::Channel(channel(1)),
        count: None,
        from: second,
        to: second,
        why: GapWhy::HistoryLimit,
    };
    assert_eq!(gaps, [expected]);
    let delivered: std::collections::BTreeSet<_> = bench.delivered.iter().collect();
    let missing = owed.iter().filter(|id| !delivered.contains(id)).count();
    assert_eq!(missing, 510 - 200, "all but a page of that second");
}

#[test]
fn events_of_a_page_are_handed_over_oldest_first() {
    let mut bench = Bench::live(&[1], 256);
    bench.disconnect();
    let begin = bench.present();
    for n in 0..120 {
        bench.store(n, 1, begin.after(Duration::from_secs(n)));
    }
    bench.script.run_for(SECOND);
    bench.reopen();
    bench.run_for(SECOND);
    // The live request brings the newest fifty, newest first; the page brings the rest.
    let page = bench.delivered.split_off(50);
    assert_eq!(page, (0..70).map(toy::id).collect::<Vec<_>>());
}

#[test]
fn a_history_that_ends_without_a_word_costs_nothing_but_time() {
    let mut bench = Bench::live(&[1], 256);
    bench.disconnect();
    let begin = bench.present();
    let owed: Vec<_> = (0..200)
        .map(|n| bench.store(n, 1, begin.after(Duration::from_secs(n))))
        .collect();
    bench.script.run_for(SECOND);
    bench.history = Answer::Cut(20);
    bench.page = Answer::Cut(30);
    bench.reopen();
    bench.history = Answer::Whole;
    for _ in 0..40 {
        bench.take_all();
        bench.run_for(10 * SECOND);
    }
    bench.page = Answer::Whole;
    for _ in 0..40 {
        bench.take_all();
        bench.run_for(10 * SECOND);
    }
    bench.expect_delivered(owed);
    assert_eq!(bench.gaps(), []);
}

#[test]
fn an_empty_history_after_an_error_costs_nothing_but_time() {
    let mut bench = Bench::live(&[1], 256);
    let known = bench.publish(1000, 1, START);
    bench.disconnect();
    let begin = bench.present();
    let owed: Vec<_> = (0..20)
        .map(|n| bench.store(n, 1, begin.after(Duration::from_secs(n))))
        .collect();
    bench.script.run_for(SECOND);
    bench.history = Answer::Empty;
    bench.reopen();
    bench.run_for(19 * SECOND);
    bench.expect_delivered([known]);
    bench.run_for(2 * SECOND);
    bench.expect_delivered(owed.into_iter().chain([known]));
}

#[test]
fn an_event_lost_before_an_outage_is_asked_for_by_the_next_live_request() {
    let mut bench = Bench::live(&[1], 2);
    let early = START.before(600 * SECOND);
    bench.publish(1, 1, START);
    bench.publish(2, 1, START);
    bench.publish(3, 1, early);
    bench.take_all();
    bench.run_for(SECOND);
    bench.publish(4, 1, START);
    bench.disconnect();
    bench.requests.clear();
    bench.script.run_for(SECOND);
    bench.reopen();
    let since = bench.requests[0].filter.since.expect("a since");
    assert!(since <= early, "{since}");
}

#[test]
fn a_sign_of_dropped_frames_reads_each_live_channel_and_touches_no_subscription() {
    let mut bench = Bench::live(&[1, 2], 256);
    let owed = [bench.store(1, 1, START), bench.store(2, 2, START)];
    bench.requests.clear();
    bench
        .script
        .frame(r#"["BUZZ_SYNC_REQUIRED","backpressure"]"#);
    bench.settle();
    bench.expect_delivered(owed);
    let names: Vec<_> = bench
        .requests
        .iter()
        .map(|request| request.is_page())
        .collect();
    assert_eq!(names, [true, true]);
}
