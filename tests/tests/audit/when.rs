//! When what is read back, and how it is asked for.

use std::time::Duration;

use buzz_proto::note::Note;
use buzz_proto::relay::{Action, BrokeCause, Channels, Command, Config, Input, Sub};
use buzz_proto::time::MonoTime;
use buzz_sim::relay::{URL, channel_sub, given, request_name, with_slots};
use buzz_sim::toy::{self, START, Toy, channel};
use bytes::Bytes;

use crate::support::*;

#[test]
fn a_subscription_is_read_back_ten_minutes_after_it_became_live_a_fifth_more_or_less() {
    let channels: Vec<u8> = (1..=8).collect();
    let mut relay = live(&channels);
    let mut begun: Vec<Vec<MonoTime>> = vec![Vec::new(); 8];
    while begun.iter().any(|times| times.len() < 2) {
        let read = next_read(&mut relay);
        for n in read.channels() {
            begun[usize::from(n) - 1].push(read.at);
        }
        relay.answered(read.ticket, 200, toy::events(&[]));
    }
    for times in &begun {
        for wait in [
            times[0].saturating_since(MonoTime::ZERO),
            times[1].saturating_since(times[0]),
        ] {
            assert!(wait >= PERIOD.0 && wait <= PERIOD.1 + 2 * PACE, "{begun:?}");
        }
    }
    let firsts = begun.iter().map(|times| times[0]);
    let spread = firsts
        .clone()
        .max()
        .unwrap()
        .saturating_since(firsts.min().unwrap());
    assert!(spread > MINUTE, "{begun:?}");
}

#[test]
fn ten_are_read_at_once_the_longest_overdue_first_and_six_times_a_minute() {
    let channels: Vec<u8> = (1..=65).collect();
    let mut relay = live(&channels);
    let mut prompt = relay.clone();
    let mut order = Vec::new();
    while order.len() < channels.len() {
        let read = next_read(&mut prompt);
        order.extend(read.channels());
        prompt.answered(read.ticket, 200, toy::events(&[]));
    }
    let mut reads = vec![overdue_read(&mut relay)];
    for _ in 0..6 {
        let ticket = reads[reads.len() - 1].ticket;
        relay.answered(ticket, 200, toy::events(&[]));
        reads.push(next_read(&mut relay));
    }
    let counts: Vec<_> = reads.iter().map(|read| read.filters.len()).collect();
    assert_eq!(counts, [10, 10, 10, 10, 10, 10, 5]);
    let asked: Vec<_> = reads.iter().flat_map(Read::channels).collect();
    assert_eq!(asked, order);
    for pair in reads.windows(2) {
        assert_eq!(pair[1].at.saturating_since(pair[0].at), PACE);
    }
}

#[test]
fn a_read_asks_for_what_the_subscription_wants_from_its_cursor_on() {
    let mut relay = live(&[1]);
    let read = next_read(&mut relay);
    let (kinds, me) = ([9, 46_010, 40_007], toy::ME);
    let since = START.before(DRIFT + SECOND);
    let filter = serde_json::json!({
        "kinds": kinds, "#h": [channel(1)], "#p": [me], "since": since, "limit": 100,
    });
    assert_eq!(read.filters, [filter]);
}

#[test]
fn without_the_relays_time_nothing_is_read_back() {
    let mut relay = with_slots(given(&[1]), 256);
    relay.live().confirmed(&[channel_sub(1, 1)]);
    relay.alive_for(3 * PERIOD.1);
}

#[test]
fn what_a_subscription_owes_is_read_first() {
    let mut relay = with_slots(given(&[1]), 1);
    confirm(&mut relay, 1);
    let (held, lost) = (mention(1, 0), mention(2, 1));
    relay.event(&channel_sub(1, 1), &held);
    relay.expect([deliver(1, &held)]);
    relay.event(&channel_sub(1, 1), &lost).expect([]);
    relay.alive_for(OVERDUE);
    relay.input(Input::Capacity { taken: 1 });
    let page = relay.requested();
    relay.written();
    relay.event(&page[0], &lost).expect([]);
    relay.frame(toy::eose(&page[0]));
    let [Action::Send { .. }, Action::Verify { ticket, .. }] = relay.orders()[..] else {
        panic!("the page is not verified and closed");
    };
    relay.verified(ticket, true);
    let orders = relay.orders();
    assert_eq!(orders[0], deliver(1, &lost));
    assert!(
        orders
            .iter()
            .any(|order| matches!(order, Action::Query { .. })),
        "{orders:?}"
    );
}

#[test]
fn while_the_gate_is_shut_nothing_is_read() {
    let mut relay = live(&[1, 2]);
    let read = next_read(&mut relay);
    assert_eq!(read.filters.len(), 1);
    let refusal = br#"{"error":"rate-limited: quota exceeded; retry in 290s"}"#;
    relay.answered(read.ticket, 429, &refusal[..]);
    let opening = relay.now().after(Duration::from_secs(290));
    relay.alive_until(opening);
    let again = next_read(&mut relay);
    assert_eq!(again.filters.len(), 2);
}

#[test]
fn a_subscription_that_is_let_go_is_not_read_any_more() {
    let mut relay = live(&[1]);
    let read = next_read(&mut relay);
    let channel = channel(1);
    relay.command(Command::Unsubscribe { channel }).orders();
    relay.written();
    relay.answered(read.ticket, 200, toy::events(&[mention(1, 0)]));
    relay.alive_for(2 * PERIOD.1);
}

#[test]
fn a_connection_that_is_lost_ends_an_audit() {
    let mut relay = live(&[1]);
    let read = next_read(&mut relay);
    reconnect(&mut relay);
    relay.answered(read.ticket, 200, toy::events(&[mention(1, 0)]));
    relay.expect([]);
    let lost = relay.now();
    let next = next_read(&mut relay);
    assert!(next.at.saturating_since(lost) + SECOND >= PERIOD.0);
}

#[test]
fn a_page_on_a_socket_that_is_lost_keeps_no_other_read_away() {
    let mut relay = live(&[1]);
    let read = next_read(&mut relay);
    relay.answered(read.ticket, 404, "");
    next_request(&mut relay);
    reconnect(&mut relay);
    next_read(&mut relay);
}

#[test]
fn an_answer_that_is_too_large_halves_the_next_read() {
    let channels: Vec<u8> = (1..=10).collect();
    let mut relay = live(&channels);
    let mut read = overdue_read(&mut relay);
    let mut sizes = Vec::new();
    for n in 0..6 {
        sizes.push((read.filters.len(), read.filters[0]["limit"].as_u64()));
        if n % 2 == 0 {
            let (ticket, cause) = (read.ticket, BrokeCause::TooLarge);
            relay.input(Input::Broke { ticket, cause });
        } else {
            let body = Bytes::from(vec![b' '; (8 << 20) + 1]);
            relay.answered(read.ticket, 200, body);
        }
        let next = next_read(&mut relay);
        assert_eq!(next.at.saturating_since(read.at), PACE);
        read = next;
    }
    let hundred = Some(100);
    let expected = [
        (10, hundred),
        (5, hundred),
        (2, hundred),
        (1, hundred),
        (1, Some(50)),
        (1, Some(25)),
    ];
    assert_eq!(sizes, expected);
}

#[test]
fn a_relay_without_a_query_route_is_asked_over_the_socket_one_by_one() {
    let mut relay = live(&[1, 2]);
    let read = overdue_read(&mut relay);
    relay.answered(read.ticket, 404, "");
    let missed = Toy::mention(5, channel(read.channels()[0]));
    let (name, filter) = next_request(&mut relay);
    assert_eq!(filter["limit"], 100);
    assert_eq!(filter["#h"][0], channel(read.channels()[0]).to_string());
    relay
        .written()
        .frame(toy::event_frame(&name, &missed))
        .expect([]);
    relay.frame(toy::eose(&name));
    let orders = relay.orders();
    let [Action::Verify { ticket, .. }, Action::Send { .. }] = orders[..] else {
        panic!("the page is not verified and closed: {orders:?}");
    };
    relay.verified(ticket, true);
    relay.expect([deliver(read.channels()[0], &missed)]);
    let (other, filter) = next_request(&mut relay);
    assert_ne!(other, name);
    assert_eq!(filter["#h"][0], channel(read.channels()[1]).to_string());
}

#[test]
fn an_empty_answer_over_the_socket_proves_nothing_where_an_event_is_known_to_be() {
    for is_known in [true, false] {
        let mut relay = live(&[1]);
        if is_known {
            relay.event(&channel_sub(1, 1), &mention(1, 0)).orders();
        }
        let read = next_read(&mut relay);
        relay.answered(read.ticket, 404, "");
        let (name, _) = next_request(&mut relay);
        relay.written().frame(toy::eose(&name)).orders();
        let begun = START.after(read.at.saturating_since(MonoTime::ZERO));
        let cursor = if is_known {
            START.before(DRIFT + SECOND)
        } else {
            begun.before(DRIFT)
        };
        assert_eq!(reconnect(&mut relay), cursor);
    }
}

#[test]
fn an_event_that_does_not_name_its_channel_is_looked_for_in_one_channel_at_a_time() {
    let mut relay = live(&[1, 2]);
    let event = Toy::new(1).tag(&["p", &toy::ME.to_string()]);
    let read = overdue_read(&mut relay);
    relay.answered(read.ticket, 200, toy::events(std::slice::from_ref(&event)));
    relay.expect([]);
    let first = next_read(&mut relay);
    assert_eq!(first.filters.len(), 1);
    relay.answered(first.ticket, 200, toy::events(&[]));
    let second = next_read(&mut relay);
    assert_eq!(second.filters.len(), 1);
    let n = second.channels()[0];
    answer(&mut relay, second.ticket, &[event]);
    assert_ne!(first.channels(), [n]);
}

#[test]
fn notices_of_membership_are_audited_as_well() {
    let mut config = Config::new(URL);
    config.channels = Channels::Roster;
    let mut relay = with_slots(config, 256);
    relay.live_with_auth();
    let roster = take_read(&mut relay.timed_orders());
    relay.answered(
        roster.expect("the roster is read").ticket,
        200,
        toy::events(&[]),
    );
    relay.written().frame(toy::eose("membership-1")).orders();
    let notice = Toy::notice(1, 44_101, channel(1));
    let read = loop {
        let read = next_read(&mut relay);
        if read.filters[0]["kinds"][0] == 44_100 {
            break read;
        }
        relay.answered(read.ticket, 200, toy::events(&[]));
    };
    relay.answered(read.ticket, 200, toy::events(&[notice]));
    let (ticket, _) = relay.asked_to_verify()[0];
    relay.verified(ticket, true);
    let missed = |note: &Note| {
        matches!(
            note,
            Note::Missed {
                sub: Sub::Membership,
                ..
            }
        )
    };
    while !relay.notes().iter().any(missed) {
        relay.orders();
        step(&mut relay);
    }
    let asked = relay.sent();
    assert_eq!(request_name(&asked[1]), Some("membership-2".to_owned()));
}
