//! A relay that sends without end: what is kept and said of it stays bounded, what has a time keeps
//! it, and afterwards everything is as before.

mod flooded;

use std::collections::BTreeSet;
use std::time::Duration;

use buzz_proto::input::Input;
use buzz_proto::relay;
use buzz_sim::toy::{self, START, Toy, channel};
use bytes::Bytes;
use flooded::{Flooded, SECOND, SPAN};

/// Floods of frames that say nothing to this machine. Gives how many orders there were.
fn ignored(frames: impl ExactSizeIterator<Item = Bytes>) -> u64 {
    let mut flooded = Flooded::new();
    let before = flooded.orders;
    flooded.flood(frames);
    let orders = flooded.orders - before;
    flooded.is_as_before();
    orders
}

/// Pings, the reads of an audit or two, and their ends, in ten minutes.
const QUIET: u64 = 100;

#[test]
fn ends_of_histories_that_nobody_asked_for_change_nothing() {
    let orders = ignored((0..400_000_u32).map(|n| match n % 4 {
        0 => toy::eose(&format!("x{n}")),
        1 => toy::eose(&format!("page-{n}")),
        2 => toy::eose(&format!("ch-{}-{n}", channel(1))),
        _ => toy::eose(&format!("membership-{n}")),
    }));
    assert!(orders < QUIET, "{orders}");
}

#[test]
fn receipts_refusals_and_counts_that_nobody_waits_for_change_nothing() {
    let orders = ignored((0..100_000_u32).map(|n| match n % 4 {
        0 => toy::ok(toy::id(u64::from(n)), true, ""),
        1 => toy::ok(toy::id(u64::from(n)), false, "blocked: go away"),
        2 => toy::closed(&format!("ch-{}-{n}", channel(2)), "restricted: no"),
        _ => format!(r#"["COUNT","x{n}",{{"count":{n}}}]"#).into(),
    }));
    assert!(orders < QUIET, "{orders}");
}

#[test]
fn notices_and_unknown_words_are_told_a_few_times() {
    let long = "x".repeat(10_000);
    let orders = ignored((0..100_000_u32).map(|n| match n % 2 {
        0 => toy::notice(&format!("{n} {long}")),
        _ => format!(r#"["WORD{n}","{n}"]"#).into(),
    }));
    assert!(orders < QUIET, "{orders}");
}

#[test]
fn deep_and_large_frames_are_told_a_few_times() {
    let deep = "[".repeat(1_000_000);
    let closed = format!("{deep}{}", "]".repeat(1_000_000));
    let large = "x".repeat(64 << 20);
    let frames: [Bytes; 5] = [
        deep.clone().into(),
        format!(r#"["EVENT","x",{deep}"#).into(),
        format!(r#"["EVENT","x",{closed}]"#).into(),
        format!(r#"["EOSE","page-1",{closed}]"#).into(),
        format!(r#"["NOTICE","{large}"]"#).into(),
    ];
    let frames: Vec<_> = frames.iter().cycle().take(40).cloned().collect();
    let orders = ignored(frames.into_iter());
    assert!(orders < QUIET, "{orders}");
}

#[test]
fn pings_change_nothing() {
    let mut flooded = Flooded::new();
    let (before, conn) = (flooded.orders, flooded.conn);
    for _ in 0..100_000 {
        flooded.tell(Input::Relay(relay::Input::Pinged { conn }));
        flooded.pass(SPAN / 100_000);
    }
    assert!(flooded.orders - before < QUIET);
    flooded.is_as_before();
}

#[test]
fn challenges_are_answered_ten_times_a_minute_at_most() {
    let orders = ignored((0..100_000_u32).map(|n| toy::challenge(&format!("challenge {n}"))));
    // A signature and a frame each, and ten at once in the first minute.
    assert!(orders <= 2 * 110 + QUIET, "{orders}");
}

#[test]
fn a_wait_beyond_all_numbers_is_five_minutes_at_most() {
    for hint in [
        "9223372036854775808",
        "18446744073709551616",
        "99999999999999999999999999",
    ] {
        let limit = format!("rate-limited: retry in {hint}s");
        let orders = ignored((0..20_000).map(|_| toy::notice(&limit)));
        assert!(orders < QUIET, "{orders}");
    }
}

#[test]
fn a_subscription_that_is_ended_with_such_a_wait_is_asked_for_again_in_time() {
    let mut flooded = Flooded::new();
    let reason = "rate-limited: retry in 9223372036854775808s";
    for _ in 0..20_000 {
        let closed = toy::closed(&flooded.live, reason);
        flooded.frame(closed);
        flooded.pass(SPAN / 20_000);
    }
    flooded.is_as_before();
}

#[test]
fn signals_of_lost_frames_are_followed_at_a_growing_distance() {
    let orders = ignored((0..100_000).map(|_| r#"["BUZZ_SYNC_REQUIRED","x"]"#.into()));
    assert!(orders < 200, "{orders}");
}

/// Messages of the channel, each another one.
fn messages(name: &str) -> impl ExactSizeIterator<Item = Bytes> {
    (0..20_000_u32).map(move |n| {
        let dated = START.after(Duration::from_millis(30 * u64::from(n)));
        let event = Toy::mention(1000 + u64::from(n), channel(1)).dated(dated);
        toy::event_frame(name, &event)
    })
}

#[test]
fn a_history_without_an_end_brings_its_events_and_holds_nothing_up() {
    let mut flooded = Flooded::unanswered();
    let name = flooded.live.clone();
    flooded.flood(messages(&name));
    assert_eq!(flooded.delivered.len(), 20_000);
    flooded.is_answering = true;
    flooded.is_as_before();
}

#[test]
fn a_page_without_an_end_is_given_up_and_its_events_are_delivered_once() {
    let mut flooded = Flooded::new();
    flooded.is_answering = false;
    flooded.frame(r#"["BUZZ_SYNC_REQUIRED","x"]"#.into());
    flooded.pass(10 * SECOND);
    let mut pages = BTreeSet::new();
    for n in 0..20_000 {
        let page = flooded.page.clone().expect("a page is read");
        flooded.pass(SPAN / 20_000);
        let event = Toy::mention(1000 + n, channel(1)).dated(START.after(5 * SECOND));
        flooded.frame(toy::event_frame(&page, &event));
        pages.insert(page);
    }
    // Each ends at a thousand events more than were asked for.
    assert!((4..60).contains(&pages.len()), "{} reads", pages.len());
    let mut ids = flooded.delivered.clone();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), flooded.delivered.len(), "each once");
    flooded.is_answering = true;
    flooded.is_as_before();
}

#[test]
fn what_nobody_takes_is_kept_within_bounds() {
    let mut flooded = Flooded::new();
    flooded.is_taking = false;
    let name = flooded.live.clone();
    flooded.flood(messages(&name));
    let view = flooded.machine.relay();
    assert!(view.lost <= 1024 && view.verifying == 0, "{view:?}");
    assert_eq!(flooded.delivered.len(), 64, "the room there is");
    flooded.is_taking = true;
    flooded.takes();
    flooded.is_as_before();
}
