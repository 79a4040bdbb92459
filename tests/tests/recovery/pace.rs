//! When an attempt to recover begins, and whose turn it is.

use std::time::Duration;

use buzz_proto::note::Note;
use buzz_proto::time::MonoTime;
use buzz_sim::toy::{self, START};

use buzz_sim::bench::{Answer, Bench};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_attempt_begins_with_the_fact_that_half_the_room_is_free() {
    for (slots, enough) in [(8, 4), (7, 4), (1, 1)] {
        let mut bench = Bench::live(&[1], slots);
        for n in 0..=u64::from(slots) {
            bench.publish(n, 1, START);
        }
        bench.pages();
        bench.take(enough - 1);
        assert!(bench.pages().is_empty(), "{slots}");
        let present = bench.script.now();
        bench.take(1);
        let pages = bench.pages();
        assert_eq!((pages.len(), pages[0].at), (1, present), "{slots}");
    }
}

#[test]
fn nothing_is_looked_for_while_there_is_no_room() {
    let mut bench = Bench::live(&[1], 4);
    for n in 0..8 {
        bench.publish(n, 1, START);
    }
    bench.take(1);
    bench.run_for(50 * SECOND);
    assert!(bench.pages().is_empty());
}

#[test]
fn a_failed_attempt_is_followed_by_five_seconds_of_rest_for_all() {
    let mut bench = Bench::live(&[1, 2], 4);
    for n in 0..4 {
        bench.publish(n, 1, START);
    }
    for n in 4..6 {
        bench.publish(n, 1 + u8::try_from(n % 2).expect("small"), START);
    }
    bench.pages();
    bench.writes_fail = true;
    bench.take(4);
    let first = bench.pages();
    assert_eq!(channels(&first), [1]);
    bench.writes_fail = false;
    bench.run_for(4 * SECOND);
    assert!(bench.pages().is_empty());
    bench.run_for(SECOND);
    let rest = bench.pages();
    assert_eq!(
        channels(&rest)[0],
        2,
        "the one that was not tried goes first"
    );
    assert_eq!(rest[0].at, first[0].at.after(5 * SECOND));
    bench.run_for(10 * SECOND);
    bench.expect_delivered((0..6).map(toy::id));
}

#[test]
fn no_rest_follows_an_attempt_whose_events_all_found_room() {
    let mut bench = Bench::live(&[1, 2, 3], 8);
    for n in 0..14 {
        bench.publish(n, 1 + u8::try_from(n % 3).expect("small"), START);
    }
    bench.pages();
    let present = bench.script.now();
    bench.take(8);
    let pages = bench.pages();
    assert_eq!(channels(&pages), [1, 2, 3]);
    assert!(pages.iter().all(|page| page.at == present));
    bench.expect_delivered((0..14).map(toy::id));
}

#[test]
fn under_lasting_trouble_each_waiting_subscription_is_attempted_in_turn() {
    let mut bench = Bench::live(&[1, 2, 3, 4], 4);
    for n in 0..12 {
        bench.publish(n, 1 + u8::try_from(n % 4).expect("small"), START);
    }
    bench.pages();
    bench.page = Answer::Closed("error: the database is away");
    bench.take(4);
    bench.run_for(40 * SECOND);
    let tried = channels(&bench.pages());
    assert_eq!(tried[..8], [1, 2, 3, 4, 1, 2, 3, 4]);
}

#[test]
fn after_a_minute_without_progress_any_room_will_do() {
    let mut bench = Bench::live(&[1], 8);
    let lost_at = bench.script.now();
    for n in 0..10 {
        bench.publish(n, 1, START);
    }
    bench.take(1);
    bench.pages();
    bench.notes();
    bench.run_for(59 * SECOND);
    assert!(bench.pages().is_empty());
    bench.run_for(SECOND);
    let pages = bench.pages();
    assert_eq!(pages[0].at, lost_at.after(60 * SECOND));
    assert_eq!(pages[0].filter.ids.len(), 1, "as many as there is room for");
    let is_lagging = |note: &Note| matches!(note, Note::Lagging { count: 2, .. });
    assert_eq!(
        bench.notes().iter().filter(|note| is_lagging(note)).count(),
        1
    );
}

#[test]
fn a_shut_gate_holds_an_attempt_back_until_it_opens() {
    let mut bench = Bench::live(&[1, 2], 4);
    for n in 0..6 {
        bench.publish(n, 1, START);
    }
    bench.history = Answer::Closed("rate-limited: quota exceeded; retry in 7s");
    bench.subscribe(3);
    bench.history = Answer::Whole;
    bench.pages();
    bench.take(4);
    bench.run_for(7 * SECOND);
    assert!(bench.pages().is_empty());
    bench.run_for(3 * SECOND);
    assert_eq!(bench.pages().len(), 1);
}

#[test]
fn letting_the_channel_go_a_refusal_and_the_end_cancel_what_waits_for_room() {
    let endings: [fn(&mut Bench); 4] = [
        |bench| bench.unsubscribe(1),
        |bench| {
            let name = bench.live_name(1);
            bench
                .script
                .frame(toy::closed(&name, "restricted: not a channel member"));
            bench.settle();
        },
        Bench::shut_down,
        Bench::disconnect,
    ];
    for ending in endings {
        let mut bench = Bench::live(&[1, 2], 4);
        for n in 0..6 {
            bench.publish(n, 1, START);
        }
        ending(&mut bench);
        bench.pages();
        bench.take(4);
        assert!(bench.pages().is_empty());
    }
}

#[test]
fn no_slot_is_kept_from_what_comes_live() {
    let mut bench = Bench::live(&[1, 2], 4);
    for n in 0..6 {
        bench.publish(n, 1, START);
    }
    bench.page = Answer::Cut(0);
    bench.take(4);
    for n in 10..14 {
        bench.publish(n, 2, START);
    }
    bench.expect_delivered((0..4).chain(10..14).map(toy::id));
}

fn channels(requests: &[buzz_sim::bench::Request]) -> Vec<u8> {
    requests
        .iter()
        .map(buzz_sim::bench::Request::channel)
        .collect()
}

#[test]
fn a_subscription_that_recovers_nothing_waits_longer_each_time_and_keeps_no_other_back() {
    let mut bench = Bench::live(&[1], 4);
    for n in 0..6 {
        bench.publish(n, 1, START);
    }
    bench.pages();
    bench.page = Answer::Closed("error: the database is away");
    bench.take(4);
    bench.run_for(700 * SECOND);
    let pages = bench.pages();
    let waits = pages.windows(2).map(|pair| wait(pair[0].at, pair[1].at));
    assert_eq!(waits.collect::<Vec<_>>(), [5, 10, 20, 40, 80, 160, 300]);
    bench.page = Answer::Whole;
    bench.run_for(300 * SECOND);
    bench.expect_delivered((0..6).map(toy::id));
}

fn wait(from: MonoTime, to: MonoTime) -> u64 {
    to.saturating_since(from).as_secs()
}
