//! Reads that fail keep what was lost; only the relay's word settles it.

use std::time::Duration;

use buzz_proto::note::{GapWhy, Note, ReadFailure};
use buzz_proto::relay::Sub;
use buzz_sim::toy::{self, START, channel};

use buzz_sim::bench::{Answer, Bench};

const SECOND: Duration = Duration::from_secs(1);

/// Two events in the queue, and two that found no room.
fn overfull() -> Bench {
    let mut bench = Bench::live(&[1], 2);
    for n in 1..=4 {
        bench.publish(n, 1, START.after(Duration::from_secs(n)));
    }
    bench.pages();
    bench.notes();
    bench
}

#[test]
fn a_read_that_is_refused_cut_or_not_answered_keeps_what_was_lost() {
    let endings = [
        Answer::Closed("rate-limited: quota exceeded; retry in 3s"),
        Answer::Closed("error: the database is away"),
        Answer::Closed("restricted: no reads of history"),
        Answer::Cut(0),
        Answer::Cut(1),
    ];
    for ending in endings {
        let mut bench = overfull();
        bench.page = ending.clone();
        bench.take(2);
        bench.run_for(29 * SECOND);
        assert_ne!(bench.script.part().view().lost, 0, "{ending:?}");
        bench.page = Answer::Whole;
        bench.run_for(20 * SECOND);
        bench.take_all();
        bench.run_for(5 * SECOND);
        bench.expect_delivered((1..=4).map(toy::id));
        assert_eq!(bench.gaps(), [], "{ending:?}");
    }
}

#[test]
fn a_read_that_the_end_of_the_connection_interrupts_keeps_what_was_lost() {
    let mut bench = overfull();
    bench.page = Answer::Cut(0);
    bench.take(2);
    bench.disconnect();
    let failed = Note::ReadFailed {
        sub: Sub::Channel(channel(1)),
        why: ReadFailure::Disconnected,
    };
    assert!(bench.notes().contains(&failed));
    bench.page = Answer::Whole;
    bench.script.run_for(SECOND);
    bench.reopen();
    bench.run_for(6 * SECOND);
    bench.expect_delivered((1..=4).map(toy::id));
}

#[test]
fn silence_of_thirty_seconds_ends_a_read_and_what_came_is_handed_over() {
    let mut bench = overfull();
    bench.page = Answer::Cut(1);
    bench.take(2);
    bench.run_for(29 * SECOND);
    bench.expect_delivered([1, 2].map(toy::id));
    bench.run_for(2 * SECOND);
    bench.expect_delivered([1, 2, 4].map(toy::id));
}

#[test]
fn what_the_relay_no_longer_has_ends_as_one_gap() {
    let mut bench = Bench::live(&[1], 3);
    for n in 0..6 {
        bench.publish(n, 1, START.after(Duration::from_secs(n)));
    }
    bench.delete(3);
    bench.delete(4);
    bench.take(3);
    bench.expect_delivered([0, 1, 2, 5].map(toy::id));
    let gap = Note::Gap {
        sub: Sub::Channel(channel(1)),
        count: Some(2),
        from: START.after(3 * SECOND),
        to: START.after(4 * SECOND),
        why: GapWhy::NotStored,
    };
    assert_eq!(bench.gaps(), [gap]);
    bench.pages();
    bench.run_for(200 * SECOND);
    assert!(bench.pages().is_empty());
}

#[test]
fn an_empty_answer_is_doubted_and_asked_again_after_twenty_seconds_then_over_http() {
    let mut bench = overfull();
    bench.has_query = true;
    bench.page = Answer::Empty;
    let begun = bench.script.now();
    bench.take(2);
    bench.run_for(60 * SECOND);
    let pages = bench.pages();
    let asked: Vec<_> = pages
        .iter()
        .map(|page| {
            (
                page.at.saturating_since(begun).as_secs(),
                page.name == "/query",
            )
        })
        .collect();
    assert_eq!(asked, [(0, false), (20, false), (40, true)]);
    bench.expect_delivered((1..=4).map(toy::id));
}

#[test]
fn without_query_the_third_empty_answer_is_believed() {
    let mut bench = overfull();
    bench.page = Answer::Empty;
    bench.take(2);
    bench.run_for(150 * SECOND);
    let socket = bench
        .pages()
        .into_iter()
        .filter(|page| page.name != "/query");
    assert_eq!(socket.count(), 3);
    assert_eq!(bench.gaps().len(), 1);
}
