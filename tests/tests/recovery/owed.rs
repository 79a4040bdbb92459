//! What is owed stays owed, whatever comes between, until it is delivered or told as lost.

use std::time::Duration;

use buzz_proto::config::Consumer;
use buzz_proto::note::{GapWhy, Note};
use buzz_proto::relay::{Action, Input, Sub};
use buzz_sim::relay::{channel_sub, given, script};
use buzz_sim::toy::{self, ME, START, Toy, channel};

use buzz_sim::bench::{Answer, Bench};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_slow_clock_is_no_reason_to_drop_what_was_lost_while_the_first_read_goes_on() {
    let mut bench = Bench::new(given(&[1]), &Consumer::External { slots: 51 });
    for n in 0..60 {
        bench.store(n, 1, START.after(Duration::from_secs(n)));
    }
    bench.page = Answer::Closed("error: the database is away");
    bench.connect();
    bench.publish(100, 1, START);
    bench.publish(101, 1, START.before(14 * MINUTE));
    assert_eq!(bench.script.part().view().lost, 1);
    bench.page = Answer::Whole;
    for _ in 0..10 {
        bench.take_all();
        bench.run_for(2 * SECOND);
    }
    bench.expect_delivered((0..60).chain([100, 101]).map(toy::id));
}

#[test]
fn an_event_of_two_channels_that_one_has_delivered_is_not_owed_by_the_other() {
    let mut bench = Bench::live(&[1, 2], 1);
    bench.publish(1, 1, START);
    let event = Toy::new(2).tag(&["p", &ME.to_string()]);
    bench.store_as(&event);
    bench.bring(1, &event);
    bench.bring(2, &event);
    assert_eq!(bench.script.part().view().lost, 2);
    bench.take_all();
    bench.run_for(MINUTE);
    bench.expect_delivered([1, 2].map(toy::id));
    assert_eq!(bench.script.part().view().lost, 0);
}

#[test]
fn a_forged_copy_does_not_hide_that_the_verification_of_the_genuine_one_failed() {
    let mut script = script(given(&[1]));
    script.live_with_auth().confirmed(&[channel_sub(1, 1)]);
    let event = Toy::mention(1, channel(1));
    script.frame(toy::event_frame(&channel_sub(1, 1), &event));
    assert_eq!(script.orders().len(), 1);
    script.run_for(5 * SECOND);
    let forged = event.content("something else");
    script.frame(toy::event_frame(&channel_sub(1, 1), &forged));
    let orders = script.orders();
    let [Action::Verify { ticket, .. }] = orders[..] else {
        panic!("expected one question, found {orders:?}");
    };
    script.run_for(6 * SECOND);
    let genuine = false;
    script.input(Input::Verified { ticket, genuine });
    script.take_sent();
    assert_eq!(script.part().view().lost, 1);
}

#[test]
fn an_empty_page_is_doubted_where_the_history_brought_more_than_could_be_kept() {
    let mut config = given(&[1]);
    config.limits.verify_max = 1;
    let mut bench = Bench::new(config, &Consumer::External { slots: 256 });
    let owed = [1, 2].map(|n| bench.store(n, 1, START));
    bench.page = Answer::Empty;
    bench.connect();
    bench.run_for(5 * SECOND);
    bench.page = Answer::Whole;
    bench.run_for(MINUTE);
    bench.expect_delivered(owed);
}

#[test]
fn an_empty_page_is_doubted_where_something_was_delivered_before() {
    let mut bench = Bench::live(&[1], 256);
    let known = bench.publish(1, 1, START);
    let owed = bench.store(2, 1, START);
    bench.page = Answer::Empty;
    bench.say(r#"["BUZZ_SYNC_REQUIRED","backpressure"]"#);
    bench.run_for(5 * SECOND);
    bench.page = Answer::Whole;
    bench.run_for(30 * SECOND);
    bench.expect_delivered([known, owed]);
}

#[test]
fn what_is_read_again_and_found_to_be_forged_ends_as_a_gap() {
    let mut bench = Bench::live(&[1], 1);
    bench.publish(1, 1, START);
    bench.publish(2, 1, START);
    bench.forged.insert(toy::id(2));
    bench.take_all();
    bench.run_for(MINUTE);
    assert_eq!(bench.script.part().view().lost, 0);
    let gap = Note::Gap {
        sub: Sub::Channel(channel(1)),
        count: Some(1),
        from: START,
        to: START,
        why: GapWhy::NotStored,
    };
    assert_eq!(bench.gaps(), [gap]);
}

#[test]
fn a_page_setting_beyond_what_can_be_owed_is_no_reason_to_read_nothing() {
    let mut config = given(&[1]);
    config.limits.page = 2000;
    let mut bench = Bench::new(config, &Consumer::External { slots: 4096 });
    bench.connect();
    bench.disconnect();
    let owed: Vec<_> = (0..100)
        .map(|n| bench.store(n, 1, START.after(Duration::from_secs(n))))
        .collect();
    bench.script.run_for(SECOND);
    bench.reopen();
    bench.run_for(MINUTE);
    bench.expect_delivered(owed);
}

#[test]
fn a_relay_that_does_not_page_within_a_second_is_not_asked_for_ever() {
    let mut bench = Bench::live(&[1], 1024);
    bench.has_query = true;
    bench.pages_within_seconds = false;
    bench.disconnect();
    let begin = bench.present();
    let older = bench.store(1000, 1, begin);
    for n in 0..300 {
        bench.store(n, 1, begin.after(SECOND));
    }
    bench.script.run_for(SECOND);
    bench.reopen();
    bench.run_for(MINUTE);
    let pages = bench.pages().len();
    assert!(pages < 10, "{pages} pages");
    assert!(bench.delivered.contains(&older));
    assert_eq!(bench.gaps().len(), 1);
}

/// The next socket opens, to a relay that tells nobody its time.
fn reopen_without_time(bench: &mut Bench) {
    for _ in 0..70 {
        bench.script.run_for(SECOND);
        let orders = bench.script.timed_orders();
        let is_dialed = orders
            .iter()
            .any(|(_, order)| matches!(order, Action::Connect { .. }));
        let (dials, rest) = orders
            .into_iter()
            .partition(|(_, order)| matches!(order, Action::Connect { .. }));
        bench.script.put_back(rest);
        bench.settle();
        bench.script.put_back(dials);
        if is_dialed {
            break;
        }
    }
    bench.script.live();
    bench.settle();
}

#[test]
fn without_a_time_three_outages_before_the_first_read_lose_nothing() {
    let mut config = given(&[1]);
    config.limits.page = 50;
    let mut bench = Bench::new(config, &Consumer::External { slots: 90 });
    bench.script.live();
    bench.settle();
    let mut owed = Vec::new();
    for outage in 0..3 {
        bench.disconnect();
        let begin = bench.present();
        owed.extend((0..60).map(|n| {
            let dated = begin.after(Duration::from_millis(n * 20));
            bench.store(outage * 100 + n, 1, dated)
        }));
        reopen_without_time(&mut bench);
    }
    for _ in 0..40 {
        bench.take_all();
        bench.run_for(2 * SECOND);
    }
    bench.expect_delivered(owed);
}

#[test]
fn without_a_time_a_known_event_that_is_newer_does_not_end_the_search_for_what_was_not_kept() {
    let mut config = given(&[1]);
    config.limits.page = 50;
    config.limits.verify_max = 1;
    let mut bench = Bench::new(config, &Consumer::External { slots: 256 });
    bench.script.live();
    bench.settle();
    let mut owed: Vec<_> = (10..70)
        .map(|n| bench.publish(n, 1, START.after(Duration::from_secs(n))))
        .collect();
    for n in 1..=2 {
        let event = Toy::mention(n, channel(1)).dated(START.after(Duration::from_secs(n)));
        bench.store_as(&event);
        let orders = bench.script.timed_orders();
        let name = bench.live_name(1);
        bench.script.frame(toy::event_frame(&name, &event));
        bench.script.put_back(orders);
        owed.push(toy::id(n));
    }
    bench.settle();
    bench.run_for(MINUTE);
    bench.expect_delivered(owed);
}

#[test]
fn one_live_event_does_not_make_an_empty_history_believed() {
    let mut bench = Bench::live(&[1], 256);
    let known = bench.publish(1000, 1, START);
    bench.disconnect();
    let begin = bench.present();
    let missed: Vec<_> = (0..20).map(|n| bench.store(n, 1, begin)).collect();
    bench.script.run_for(SECOND);
    bench.history = Answer::Cut(0);
    bench.reopen();
    let live = bench.publish(2000, 1, bench.present());
    bench.say_of(1, toy::eose);
    bench.run_for(30 * SECOND);
    bench.expect_delivered(missed.into_iter().chain([known, live]));
}

#[test]
fn without_a_time_a_first_start_owes_nothing_of_a_full_first_page_and_all_that_follows() {
    let mut config = given(&[1]);
    config.limits.page = 50;
    let mut bench = Bench::new(config, &Consumer::External { slots: 256 });
    let begin = bench.present();
    for n in 0..160 {
        bench.store(n, 1, begin);
    }
    bench.script.live();
    bench.settle();
    let owed: Vec<_> = (200..260)
        .map(|n| bench.publish(n, 1, bench.present()))
        .collect();
    bench.run_for(20 * MINUTE);
    bench.expect_delivered(owed);
}
