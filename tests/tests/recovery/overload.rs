//! A consumer that falls behind.

use std::time::Duration;

use buzz_proto::config::Consumer;
use buzz_proto::ids::EventId;
use buzz_proto::note::{GapWhy, Note};
use buzz_proto::relay::{Disposal, Sub};
use buzz_proto::wire::Filter;
use buzz_sim::relay::given;
use buzz_sim::toy::{self, ME, START, Toy, channel};

use buzz_sim::bench::Bench;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn three_rounds_of_overload_in_one_of_eighteen_channels_cost_three_requests() {
    let channels: Vec<u8> = (1..=18).collect();
    let mut bench = Bench::live(&channels, 256);
    bench.pages();
    let mut owed: Vec<EventId> = Vec::new();
    for round in 0..3 {
        for n in 0..320 {
            let dated = bench.present();
            owed.push(bench.publish(1 + round * 320 + n, 7, dated));
        }
        assert_eq!(bench.script.part().view().lost, 64);
        bench.run_for(10 * SECOND);
        assert!(bench.pages().is_empty(), "a full consumer is asked nothing");
        bench.take_all();
        let pages = bench.pages();
        assert_eq!(pages.len(), 1, "{pages:?}");
        assert_eq!(pages[0].channel(), 7);
        bench.expect_delivered(owed.iter().copied());
    }
    let live = bench.publish(5000, 7, START);
    bench.expect_delivered(owed.into_iter().chain([live]));
}

#[test]
fn a_loss_is_read_by_id_with_the_filter_of_its_subscription() {
    let mut bench = Bench::live(&[1], 2);
    bench.pages();
    let dated = START.after(10 * SECOND);
    for n in 1..=4 {
        bench.publish(n, 1, dated.after(Duration::from_secs(n)));
    }
    bench.take(1);
    let pages = bench.pages();
    let wanted = Filter {
        ids: vec![toy::id(3)],
        kinds: [9, 46_010, 40_007].into_iter().collect(),
        channel: Some(channel(1)),
        mention: Some(ME),
        since: Some(dated.before(2 * SECOND)),
        limit: Some(1),
        ..Filter::default()
    };
    assert_eq!(pages[0].filter, wanted, "as many as there is room for");
    bench.expect_delivered([1, 2, 3].map(toy::id));
}

#[test]
fn a_thousand_lost_events_are_recovered_in_steps_as_there_is_room() {
    let mut bench = Bench::live(&[1], 256);
    let owed: Vec<_> = (0..1256)
        .map(|n| bench.publish(n, 1, START.after(SECOND)))
        .collect();
    assert_eq!(bench.script.part().view().lost, 1000);
    bench.pages();
    let mut steps = Vec::new();
    while bench.delivered.len() < owed.len() {
        bench.take(128);
        steps.push(bench.script.part().view().lost);
        bench.run_for(SECOND);
        assert!(steps.len() < 20, "{steps:?}");
    }
    assert!(steps.is_sorted_by(|a, b| a > b), "{steps:?}");
    assert_eq!(bench.pages().len(), 8);
    bench.expect_delivered(owed);
}

#[test]
fn more_than_a_thousand_and_twenty_four_lost_events_are_read_as_a_span_of_history() {
    let mut bench = Bench::live(&[1], 256);
    let owed: Vec<_> = (0..2000)
        .map(|n| bench.publish(n, 1, START.after(Duration::from_secs(n / 10))))
        .collect();
    assert_eq!(bench.script.part().view().lost, 1024);
    for _ in 0..60 {
        bench.take_all();
        bench.run_for(SECOND);
    }
    bench.expect_delivered(owed);
    assert_eq!(bench.gaps(), []);
}

#[test]
fn what_only_a_live_subscription_brings_is_said_to_be_lost_at_once() {
    let mut config = given(&[]);
    config.read_kinds = vec![20_001];
    let mut bench = Bench::new(config, &Consumer::External { slots: 1 });
    bench.connect();
    let channel_one = channel(1);
    bench.subscribe(1);
    for n in 1..=2 {
        let event = Toy::mention(n, channel_one).kind(20_001);
        bench.bring(1, &event);
    }
    let gap = Note::Gap {
        sub: Sub::Channel(channel_one),
        count: Some(1),
        from: START,
        to: START,
        why: GapWhy::NoRoom,
    };
    assert_eq!(bench.gaps(), [gap]);
    bench.take(1);
    assert!(bench.pages().is_empty());
}

#[test]
fn what_the_consumer_hands_back_is_read_again_ever_more_slowly() {
    let mut bench = Bench::live(&[1], 8);
    let event = bench.publish(1, 1, START);
    bench.take(1);
    bench.pages();
    let mut waits = Vec::new();
    for _ in 0..9 {
        let refused = bench.script.now();
        bench.dispose(event, Disposal::RefusedForNow);
        let before = bench.delivered.len();
        while bench.delivered.len() == before {
            bench.run_for(SECOND);
        }
        bench.take(1);
        waits.push(bench.script.now().saturating_since(refused).as_secs());
    }
    assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    bench.dispose(event, Disposal::Accepted);
    bench.pages();
    bench.run_for(600 * SECOND);
    let by_id = bench
        .pages()
        .into_iter()
        .filter(|page| !page.filter.ids.is_empty());
    assert_eq!(by_id.count(), 0);
}

#[test]
fn a_consumer_that_stays_full_for_two_hours_costs_no_request() {
    let mut bench = Bench::live(&[1], 4);
    for n in 0..8 {
        bench.publish(n, 1, START);
    }
    bench.pages();
    bench.run_for(7200 * SECOND);
    let pages = bench.pages();
    let lost: Vec<_> = pages
        .iter()
        .filter(|page| !page.filter.ids.is_empty())
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
    bench.take_all();
    bench.run_for(5 * SECOND);
    bench.expect_delivered((0..8).map(toy::id));
}

#[test]
fn at_the_end_what_was_not_read_again_is_told() {
    let mut bench = Bench::live(&[1], 1);
    for n in 1..=3 {
        bench.publish(n, 1, START.after(Duration::from_secs(n)));
    }
    bench.shut_down();
    let gap = Note::Gap {
        sub: Sub::Channel(channel(1)),
        count: Some(2),
        from: START.after(2 * SECOND),
        to: START.after(3 * SECOND),
        why: GapWhy::Ended,
    };
    assert_eq!(bench.gaps(), [gap]);
}
