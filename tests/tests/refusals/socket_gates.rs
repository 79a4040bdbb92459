//! The gates of the socket: one for messages and one for all frames, which outlive sockets.

use std::time::Duration;

use buzz_proto::publish::Verdict;
use buzz_proto::time::MonoTime;
use buzz_sim::toy;

use crate::desk::{Desk, ok};
use crate::support::{SECOND, extra_max, is_for, ms};

const MINUTES: Duration = Duration::from_secs(600);

#[test]
fn a_gate_outlives_any_number_of_sockets() {
    let mut desk = refused("rate-limited: quota exceeded; retry in 40s");
    let start = desk.now();
    // One that was never refused waits as well.
    desk.submit(2, MINUTES);
    for _ in 0..5 {
        desk.disconnect();
        desk.run_for(7 * SECOND);
    }
    assert_eq!(desk.numbers(), [1]);
    desk.run_for(40 * SECOND);

    let after = desk.events[1].0.saturating_since(start);
    let wait = 40 * SECOND;
    assert!(after >= wait + ms(500), "{after:?}");
    assert!(after <= wait + extra_max(wait) + 10 * SECOND, "{after:?}");
    for job in [1, 2] {
        assert_eq!(desk.verdict(job), Some(&Verdict::Stored));
    }
}

#[test]
fn the_ladder_outlives_sockets_too() {
    let mut desk = Desk::live();
    desk.on_event = |number| Some(ok(number, false, "rate-limited: slow down"));
    desk.submit(1, 3_000 * SECOND);
    for _ in 0..12 {
        desk.run_for(50 * SECOND);
        desk.disconnect();
    }
    // 5, 5, 5, 8, 16, 32, 60, 60 … s, and what is put on top.
    assert!((10..=16).contains(&desk.events.len()), "{:?}", desk.events);
    let gaps = gaps(&desk);
    assert!(
        gaps[gaps.len() - 3..].iter().all(|gap| *gap >= 60 * SECOND),
        "{gaps:?}"
    );
}

#[test]
fn the_first_event_that_is_taken_goes_back_to_the_first_rung() {
    let mut desk = Desk::live();
    desk.on_event = |number| Some(ok(number, false, "rate-limited: slow down"));
    desk.submit(1, MINUTES);
    desk.run_for(60 * SECOND);
    assert!(gaps(&desk).last().is_some_and(|gap| *gap >= 16 * SECOND));
    desk.on_event = |number| Some(ok(number, true, ""));
    desk.run_for(60 * SECOND);
    assert_eq!(desk.verdict(1), Some(&Verdict::Stored));

    let before = desk.events.len();
    desk.submit(2, MINUTES);
    assert_eq!(desk.verdict(2), Some(&Verdict::Stored));
    desk.on_event = |number| Some(ok(number, false, "rate-limited: slow down"));
    desk.submit(3, MINUTES);
    desk.run_for(8 * SECOND);
    let gap = gaps(&desk)[before + 1];
    assert!(is_for(gap, 5 * SECOND), "{gap:?}");
}

#[test]
fn a_long_hint_to_an_event_does_not_hold_up_requests_and_a_short_one_or_none_does() {
    for (reason, seconds) in [
        ("rate-limited: quota exceeded; retry in 40s", None),
        ("rate-limited: quota exceeded; retry in 6s", None),
        ("rate-limited: quota exceeded; retry in 5s", Some(5)),
        ("rate-limited: quota exceeded; retry in 2s", Some(2)),
        ("rate-limited: shared admission unavailable", Some(5)),
    ] {
        let mut desk = refused(reason);
        let start = desk.now();
        desk.subscribe(1);
        desk.run_for(60 * SECOND);

        let after = desk.requests[0].0.saturating_since(start);
        match seconds.map(Duration::from_secs) {
            None => assert_eq!(after, Duration::ZERO, "{reason}"),
            Some(wait) => assert!(is_for(after, wait), "{reason}: {after:?}"),
        }
        assert_eq!(desk.verdict(1), Some(&Verdict::Stored));
    }
}

#[test]
fn a_refused_request_holds_up_every_frame_and_no_quota_of_messages() {
    let mut desk = Desk::live();
    desk.subscribe(1);
    let (asked, name) = desk.requests[0].clone();
    desk.run_until(asked);
    desk.frame(toy::closed(
        &name,
        "rate-limited: quota exceeded; retry in 4s",
    ));
    let start = desk.now();
    desk.on_event = |number| Some(ok(number, true, ""));
    desk.submit(1, MINUTES);
    desk.run_for(30 * SECOND);

    let after = desk.events[0].0.saturating_since(start);
    assert!(after >= 4 * SECOND + ms(500), "{after:?}");
    assert_eq!(desk.verdict(1), Some(&Verdict::Stored));
    assert!(desk.requests[1].0.saturating_since(start) >= 4 * SECOND + ms(500));
}

#[test]
fn a_burst_of_events_that_is_refused_counts_once() {
    let mut desk = Desk::live();
    for job in 1..=4 {
        desk.submit(job, MINUTES);
    }
    let start = desk.now();
    for job in 1..=4 {
        desk.frame(ok(job, false, "rate-limited: slow down"));
    }
    desk.on_event = |number| Some(ok(number, true, ""));
    desk.run_for(15 * SECOND);

    assert_eq!(desk.throttles().len(), 1);
    assert_eq!(desk.events.len(), 8);
    for (at, _) in &desk.events[4..] {
        let after = at.saturating_since(start);
        assert!(
            after >= 5 * SECOND + ms(500) && after <= 8 * SECOND,
            "{after:?}"
        );
    }
}

#[test]
fn a_late_refusal_on_the_socket_lengthens_by_its_hint_and_never_shortens() {
    let mut desk = Desk::live();
    for job in 1..=3 {
        desk.submit(job, MINUTES);
    }
    let start = desk.now();
    desk.frame(ok(1, false, "rate-limited: quota exceeded; retry in 20s"));
    desk.run_for(SECOND);
    desk.frame(ok(2, false, "rate-limited: quota exceeded; retry in 1s"));
    desk.frame(ok(3, false, "rate-limited: quota exceeded; retry in 50s"));
    desk.on_event = |number| Some(ok(number, true, ""));
    desk.run_for(90 * SECOND);

    assert_eq!(desk.events.len(), 6);
    let first = desk.events[3].0;
    assert!(is_for(
        first.saturating_since(start.after(SECOND)),
        50 * SECOND
    ));
}

#[test]
fn a_refusal_of_posts_and_one_of_events_do_not_touch_each_other() {
    let mut desk = refused("rate-limited: quota exceeded; retry in 60s");
    desk.submit_post(2);
    assert_eq!(
        (desk.posts.len(), desk.verdict(2)),
        (1, Some(&Verdict::Stored))
    );

    let mut desk = Desk::live();
    desk.on_post = || crate::support::limited(60);
    desk.submit_post(1);
    desk.on_event = |number| Some(ok(number, true, ""));
    desk.submit(2, MINUTES);
    assert_eq!(
        (desk.numbers(), desk.verdict(2)),
        (vec![2], Some(&Verdict::Stored))
    );
}

/// Event 1 was refused so just now, and from now on all are taken.
fn refused(reason: &'static str) -> Desk {
    let mut desk = Desk::live();
    desk.submit(1, MINUTES);
    desk.frame(ok(1, false, reason));
    desk.on_event = |number| Some(ok(number, true, ""));
    desk
}

fn gaps(desk: &Desk) -> Vec<Duration> {
    let times: Vec<MonoTime> = desk.events.iter().map(|(at, _)| *at).collect();
    times
        .windows(2)
        .map(|pair| pair[1].saturating_since(pair[0]))
        .collect()
}
