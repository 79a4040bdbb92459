//! What only an audit has brought, and what follows from it.

use std::time::Duration;

use buzz_proto::note::Note;
use buzz_proto::relay::{CloseCause, Sub};
use buzz_sim::relay::{channel_sub, close, request_name};
use buzz_sim::toy::{self, START, Toy, channel};

use crate::support::*;

#[test]
fn an_event_that_was_not_seen_is_delivered_at_once_and_requested_anew_unless_it_comes() {
    let mut relay = live(&[1]);
    let missed = mention(1, 100);
    assert_eq!(
        audit(&mut relay, std::slice::from_ref(&missed)),
        [deliver(1, &missed)]
    );
    relay.notes();
    let sent = missed_after(&mut relay, Duration::from_secs(30));
    assert_eq!(sent[0], format!(r#"["CLOSE","{}"]"#, channel_sub(1, 1)));
    assert_eq!(request_name(&sent[1]), Some(channel_sub(1, 2)));
    let sub = Sub::Channel(channel(1));
    let event = missed.event().id();
    assert_eq!(relay.notes()[0], Note::Missed { sub, event });
    relay
        .written()
        .frame(toy::event_frame(&channel_sub(1, 2), &missed));
    relay.frame(toy::eose(&channel_sub(1, 2))).orders();
    let live = relay.now();
    let again = next_read(&mut relay);
    assert_eq!(again.at, live.after(MINUTE));
    relay.answered(again.ticket, 200, toy::events(&[missed]));
    let next = next_read(&mut relay);
    assert!(next.at.saturating_since(again.at) >= PERIOD.0);
}

#[test]
fn what_the_live_subscription_brings_meanwhile_is_not_missed() {
    for is_early in [true, false] {
        let mut relay = live(&[1]);
        let event = mention(1, 100);
        let read = next_read(&mut relay);
        relay.answered(read.ticket, 200, toy::events(std::slice::from_ref(&event)));
        let (ticket, _) = relay.asked_to_verify()[0];
        let frame = toy::event_frame(&channel_sub(1, 1), &event);
        if is_early {
            relay.frame(frame.clone()).expect([]);
        }
        relay.verified(ticket, true).expect([deliver(1, &event)]);
        if !is_early {
            relay.alive_for(Duration::from_secs(29));
            relay.frame(frame).expect([]);
        }
        relay.notes();
        relay.alive_for(2 * MINUTE).expect_notes([]);
    }
}

#[test]
fn what_is_not_genuine_is_not_missed() {
    let mut relay = live(&[1]);
    let read = next_read(&mut relay);
    relay.answered(read.ticket, 200, toy::events(&[mention(1, 100)]));
    let (ticket, _) = relay.asked_to_verify()[0];
    relay.verified(ticket, false).expect([]);
    relay.alive_for(2 * MINUTE);
}

#[test]
fn what_was_not_asked_for_is_left_out() {
    let mut relay = live(&[1]);
    let other = mention(1, 100).kind(1);
    let old = mention(2, 0).dated(START.before(2 * DRIFT));
    let read = next_read(&mut relay);
    relay.answered(read.ticket, 200, toy::events(&[other, old]));
    relay.expect([]);
}

#[test]
fn three_subscriptions_that_miss_events_when_requested_anew_end_the_connection() {
    for deaf in [2, 3] {
        let mut relay = live(&[1, 2, 3]);
        let first: Vec<_> = (1..=3)
            .map(|n| Toy::mention(n.into(), channel(n)))
            .collect();
        let read = overdue_read(&mut relay);
        answer(&mut relay, read.ticket, &first);
        let sent = missed(&mut relay);
        assert_eq!(sent.len(), 6, "{sent:?}");
        relay.written();
        let names = sent.iter().filter_map(|text| request_name(text));
        for (name, event) in names.zip(&first) {
            relay.frame(toy::event_frame(&name, event));
            relay.frame(toy::eose(&name)).orders();
        }
        let again = next_read(&mut relay);
        assert_eq!(again.channels().len(), 3);
        let second: Vec<_> = (1..=deaf)
            .map(|n| Toy::mention(10 + u64::from(n), channel(n)))
            .collect();
        answer(&mut relay, again.ticket, &second);
        relay.alive_for(Duration::from_secs(30)).tick();
        let orders = relay.orders();
        let closed = close(1, CloseCause::Lossy);
        assert_eq!(orders.contains(&closed), deaf == 3, "{orders:?}");
    }
}

#[test]
fn a_subscription_that_misses_nothing_when_requested_anew_is_trusted_again() {
    let mut relay = live(&[1, 2, 3]);
    let events = |start: u64| -> Vec<_> {
        let toy = |n: u8| Toy::mention(start + u64::from(n), channel(n));
        (1..=3).map(toy).collect()
    };
    let read = overdue_read(&mut relay);
    answer(&mut relay, read.ticket, &events(0));
    let sent = missed(&mut relay);
    let names = sent.iter().filter_map(|text| request_name(text));
    for (name, event) in names.zip(&events(0)) {
        relay.written().frame(toy::event_frame(&name, event));
        relay.frame(toy::eose(&name)).orders();
    }
    let again = next_read(&mut relay);
    answer(&mut relay, again.ticket, &events(0));
    let later = overdue_read(&mut relay);
    answer(&mut relay, later.ticket, &events(10));
    let sent = missed(&mut relay);
    assert_eq!(sent.len(), 6, "{sent:?}");
}

#[test]
fn rechecks_are_at_most_half_of_the_reads() {
    let channels: Vec<u8> = (1..=11).collect();
    let mut relay = live(&channels);
    let first = overdue_read(&mut relay);
    let one = Toy::mention(1, channel(first.channels()[0]));
    answer(&mut relay, first.ticket, std::slice::from_ref(&one));
    let second = next_read(&mut relay);
    assert_eq!(second.at.saturating_since(first.at), PACE);
    let other = Toy::mention(2, channel(second.channels()[0]));
    answer(&mut relay, second.ticket, std::slice::from_ref(&other));
    for event in [one, other] {
        let sent = missed(&mut relay);
        assert_eq!(sent.len(), 2, "{sent:?}");
        let name = request_name(&sent[1]).expect("a request");
        relay.written().frame(toy::event_frame(&name, &event));
        relay.frame(toy::eose(&name)).orders();
    }
    let third = next_read(&mut relay);
    assert_eq!(third.at.saturating_since(first.at), Duration::from_secs(90));
    relay.answered(third.ticket, 200, toy::events(&[]));
    let fourth = next_read(&mut relay);
    assert_eq!(fourth.at.saturating_since(third.at), 2 * PACE);
}
