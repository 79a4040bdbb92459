//! Records, and the lives that begin with them.

use std::collections::BTreeSet;
use std::time::Duration;

use buzz_proto::config::Consumer;
use buzz_proto::ids::EventId;
use buzz_proto::note::Note;
use buzz_proto::relay::{Config, Disposal, Record, Sub};
use buzz_proto::schedule;
use buzz_sim::bench::{Answer, Bench};
use buzz_sim::relay::given;
use buzz_sim::toy::{START, channel};

const SECOND: Duration = Duration::from_secs(1);
const DRIFT: Duration = Duration::from_secs(1080);
const SLOTS: Consumer = Consumer::External { slots: 256 };
const HERE: Sub = Sub::Channel(channel(1));

#[test]
fn without_records_to_begin_with_nothing_is_kept() {
    let mut bench = Bench::live(&[1], 8);
    let event = bench.publish(1, 1, START);
    bench.dispose(event, Disposal::Accepted);
    bench.run_for(60 * SECOND);
    bench.shut_down();
    assert_eq!(bench.persists, []);
}

#[test]
fn the_next_life_delivers_what_was_sent_meanwhile_and_what_has_no_outcome() {
    let mut bench = first_life(&[1], &SLOTS);
    let ids: Vec<_> = (0..6)
        .map(|n| bench.publish(n, 1, bench.present()))
        .collect();
    for id in &ids[..4] {
        bench.dispose(*id, Disposal::Accepted);
    }
    bench.run_for(2 * SECOND);
    bench.disconnect();
    let missed = bench.store(10, 1, bench.present());
    let mut bench = bench.restart(&[1], &SLOTS);
    bench.connect();
    bench.run_for(SECOND);
    bench.expect_delivered([ids[4], ids[5], missed]);
}

#[test]
fn a_record_says_how_far_all_has_its_outcome_and_what_has_it_beyond() {
    let mut bench = first_life(&[1], &SLOTS);
    bench.run_for(3600 * SECOND);
    let [old, new] = [1, 2].map(|n| {
        let dated = bench.present().before(Duration::from_secs(100 * (3 - n)));
        bench.publish(n, 1, dated)
    });
    bench.reconnect();
    let begun = bench.present();
    bench.dispose(new, Disposal::Accepted);
    bench.run_for(2 * SECOND);
    let record = &bench.records[&HERE];
    assert_eq!(record.settled, begun.before(DRIFT));
    let done: Vec<_> = record.done.iter().map(|done| done.event).collect();
    assert_eq!((done, record.started.len()), (vec![new], 0));
    bench.start(old, new);
    bench.run_for(2 * SECOND);
    let started = &bench.records[&HERE].started;
    assert_eq!(
        (started[0].event, started[0].target, started[0].lives),
        (old, new, 1)
    );
    bench.dispose(old, Disposal::Accepted);
    bench.run_for(2 * SECOND);
    assert_eq!(bench.records[&HERE].started, []);
}

#[test]
fn what_was_lost_holds_the_record_back_until_it_is_delivered_and_disposed_of() {
    let mut bench = first_life(&[1], &Consumer::External { slots: 1 });
    let early = START.before(1000 * SECOND);
    bench.run_for(7200 * SECOND);
    let first = bench.publish(1, 1, bench.present());
    let late = bench.present().before(900 * SECOND);
    let second = bench.publish(2, 1, late);
    bench.reconnect();
    bench.run_for(2 * SECOND);
    assert!(bench.records[&HERE].settled <= late);
    assert!(bench.records[&HERE].settled > early);
    bench.dispose(first, Disposal::Accepted);
    bench.take_all();
    bench.dispose(second, Disposal::Accepted);
    bench.run_for(2 * SECOND);
    let done: BTreeSet<_> = bench.records[&HERE]
        .done
        .iter()
        .map(|done| done.event)
        .collect();
    assert_eq!(done, BTreeSet::from([first, second]));
}

#[test]
fn records_are_kept_once_a_second_at_most_and_flushed_at_the_end() {
    let mut bench = first_life(&[1], &SLOTS);
    bench.run_for(5 * SECOND);
    bench.persists.clear();
    for n in 0..30 {
        let event = bench.publish(n, 1, START);
        bench.dispose(event, Disposal::Accepted);
        bench.run_for(SECOND / 10);
    }
    let spans = bench.persists.windows(2);
    assert!(spans.len() >= 2);
    for pair in spans {
        assert!(pair[1].saturating_since(pair[0]) >= SECOND);
    }
    let event = bench.publish(100, 1, START);
    bench.dispose(event, Disposal::Accepted);
    bench.shut_down();
    assert!(
        bench.records[&HERE]
            .done
            .iter()
            .any(|done| done.event == event)
    );
    assert!(bench.script.part().view().is_ended);
}

#[test]
fn records_that_could_not_be_kept_are_told_and_tried_again_ever_more_slowly() {
    let mut bench = first_life(&[1], &SLOTS);
    bench.run_for(5 * SECOND);
    bench.keeps = false;
    bench.persists.clear();
    let event = bench.publish(1, 1, START);
    bench.dispose(event, Disposal::Accepted);
    bench.run_for(30 * SECOND);
    let waits: Vec<_> = bench
        .persists
        .windows(2)
        .map(|pair| pair[1].saturating_since(pair[0]).as_secs())
        .collect();
    assert_eq!(waits, [1, 2, 4, 8]);
    assert!(bench.notes().contains(&Note::NotPersisted));
    bench.keeps = true;
    bench.run_for(20 * SECOND);
    assert_eq!(bench.records[&HERE].done.len(), 1);
}

#[test]
fn records_that_could_not_be_kept_for_long_are_tried_at_once_when_the_end_is_near() {
    let mut bench = first_life(&[1], &SLOTS);
    bench.run_for(5 * SECOND);
    bench.keeps = false;
    let event = bench.publish(1, 1, START);
    bench.dispose(event, Disposal::Accepted);
    bench.run_for(600 * SECOND);
    bench.keeps = true;
    bench.persists.clear();
    let told_to_end = bench.script.now();

    bench.shut_down();

    assert_eq!(bench.persists, [told_to_end]);
    assert_eq!(bench.records[&HERE].done.len(), 1);
}

#[test]
fn a_record_ahead_of_the_relays_time_is_told_and_not_trusted() {
    let ahead = Record {
        sub: HERE,
        settled: START.after(100 * SECOND),
        done: Vec::new(),
        started: Vec::new(),
    };
    let config = Config {
        records: Some(vec![ahead]),
        ..given(&[1])
    };
    let mut bench = Bench::new(config, &SLOTS);
    let owed = bench.store(1, 1, START.before(500 * SECOND));
    bench.connect();
    let (sub, seconds) = (HERE, 100);
    assert!(bench.notes().contains(&Note::RecordAhead { sub, seconds }));
    assert_eq!(bench.requests[0].filter.since, Some(START.before(DRIFT)));
    bench.expect_delivered([owed]);
}

#[test]
fn what_was_answered_is_known_even_where_records_are_ahead_of_the_relays_time() {
    let workers = Consumer::Workers(Box::new(schedule::Config::new(1)));
    let ahead = Record {
        sub: HERE,
        settled: START.after(100 * SECOND),
        done: Vec::new(),
        started: Vec::new(),
    };
    let config = Config {
        records: Some(vec![ahead]),
        ..given(&[1])
    };
    let mut bench = Bench::new(config, &workers);
    bench.has_query = true;
    bench.store(1, 1, START.before(DRIFT / 2));
    bench.store_answer(20, 1, START.before(DRIFT + DRIFT / 2));
    let owed = bench.store(2, 1, START);

    bench.connect();

    bench.expect_delivered([owed]);
}

#[test]
fn what_precedes_a_first_start_is_not_owed_to_the_next_life_either() {
    // In the first place the record is written before the verdict, in the second before the end.
    for (history, lived) in [(Answer::Whole, 0), (Answer::Cut(1), 70)] {
        let config = Config {
            records: Some(Vec::new()),
            ..given(&[1])
        };
        let mut bench = Bench::new(config, &SLOTS);
        bench.history = history;
        bench.store(1, 1, START.before(500 * SECOND));
        bench.connect();
        bench.run_for(lived * SECOND);

        let mut bench = bench.restart(&[1], &SLOTS);
        bench.connect();

        bench.expect_delivered([]);
    }
}

#[test]
fn an_event_that_was_begun_and_not_ended_says_in_how_many_lives() {
    let mut bench = first_life(&[1], &SLOTS);
    let event = bench.publish(1, 1, START);
    for lives in 1..=3 {
        bench.start(event, event);
        bench.run_for(2 * SECOND);
        bench = bench.restart(&[1], &SLOTS);
        bench.connect();
        assert_eq!(bench.lives, [lives]);
    }
}

#[test]
fn what_an_earlier_life_answered_is_not_delivered_to_workers_again() {
    let workers = Consumer::Workers(Box::new(schedule::Config::new(1)));
    let mut bench = first_life(&[1], &workers);
    bench.has_query = true;
    let present = bench.present();
    let [first, second, third] = [1, 2, 3].map(|n| bench.publish(n, 1, present));
    bench.start(first, second);
    bench.run_for(2 * SECOND);
    bench.store_answer(20, 2, present);
    let mut bench = bench.restart(&[1], &workers);
    bench.connect();
    assert_eq!(
        bench.requests[0].name, "/query",
        "before anything is asked for"
    );
    bench.expect_delivered([third]);
    bench.dispose(third, Disposal::Accepted);
    bench.run_for(2 * SECOND);
    let done: BTreeSet<EventId> = bench.records[&HERE]
        .done
        .iter()
        .map(|done| done.event)
        .collect();
    assert_eq!(done, BTreeSet::from([first, second, third]));
}

#[test]
fn a_start_that_cannot_read_its_answers_goes_on_after_half_a_minute_and_says_so() {
    let workers = Consumer::Workers(Box::new(schedule::Config::new(1)));
    let mut bench = first_life(&[1], &workers);
    let event = bench.publish(1, 1, START);
    bench.run_for(2 * SECOND);
    let mut bench = bench.restart(&[1], &workers);
    bench.page = Answer::Cut(0);
    bench.connect();
    bench.run_for(29 * SECOND);
    assert_eq!(bench.delivered, []);
    bench.run_for(2 * SECOND);
    bench.expect_delivered([event]);
    assert!(bench.notes().contains(&Note::AnswersUnread));
}

#[test]
fn a_relay_that_refuses_the_reading_of_answers_is_asked_again_after_a_rest() {
    let workers = Consumer::Workers(Box::new(schedule::Config::new(1)));
    let mut bench = first_life(&[1], &workers);
    bench.run_for(2 * SECOND);
    let mut bench = bench.restart(&[1], &workers);
    bench.page = Answer::Closed("error: the database is away");
    bench.connect();
    bench.run_for(29 * SECOND);
    let socket = bench.pages();
    let socket = socket.iter().filter(|page| page.name != "/query");
    assert_eq!(socket.count(), 6, "one each five seconds");
}

#[test]
fn what_precedes_the_start_does_not_move_a_record_back_while_it_waits_for_its_verdict() {
    let mut config = Config {
        records: Some(Vec::new()),
        ..given(&[1])
    };
    config.limits.verify_max = 1;
    let mut bench = Bench::new(config, &SLOTS);
    for n in 0..10 {
        bench.store(n, 1, START.before(Duration::from_secs(600 + n)));
    }
    for n in 10..12 {
        bench.store(n, 1, START.after(SECOND));
    }
    bench.page = Answer::Closed("error: the database is away");
    bench.connect();
    bench.run_for(3 * SECOND);
    bench.page = Answer::Whole;
    let before = bench.pages().len();
    while bench.pages().is_empty() {
        bench.run_for(SECOND);
        assert!(bench.present() < START.after(60 * SECOND), "{before} pages");
    }
    let settled = bench.records[&HERE].settled;
    assert!(settled >= START.before(2 * SECOND), "{settled}");
}

/// A first life that keeps records.
pub(crate) fn first_life(channels: &[u8], consumer: &Consumer) -> Bench {
    let config = Config {
        records: Some(Vec::new()),
        ..given(channels)
    };
    let mut bench = Bench::new(config, consumer);
    bench.connect();
    bench
}
