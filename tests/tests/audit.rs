//! Audits: what the relay stores is compared with what it sent, because it drops frames without a
//! word.

use std::time::Duration;

use buzz_proto::ids::Ticket;
use buzz_proto::note::Note;
use buzz_proto::relay::{
    Action, BrokeCause, Channels, CloseCause, Command, Config, Input, Relay, Sub,
};
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_sim::relay::{URL, channel_sub, close, given, request_name, with_slots};
use buzz_sim::script::{Script, secs};
use buzz_sim::toy::{self, START, Toy, channel};
use bytes::Bytes;
use serde_json::Value;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DRIFT: Duration = Duration::from_secs(1080);
/// Between two audits of a subscription, at least and at most.
const PERIOD: (Duration, Duration) = (Duration::from_secs(480), Duration::from_secs(720));
/// By then every subscription is overdue for an audit.
const OVERDUE: MonoTime = secs(800);
/// No script waits for longer.
const PATIENCE: MonoTime = secs(4 * 3600);
/// Between two reads.
const PACE: Duration = Duration::from_secs(10);
const DOWN: Action = Action::Link { live: false };

// When

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
    relay.alive_until(OVERDUE);
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

// What was missed

#[test]
fn an_event_that_was_not_seen_is_delivered_at_once_and_requested_anew_unless_it_comes() {
    let mut relay = live(&[1]);
    let missed = mention(1, 100);
    assert_eq!(audit(&mut relay, &[missed.clone()]), [deliver(1, &missed)]);
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
        relay.answered(read.ticket, 200, toy::events(&[event.clone()]));
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
fn rechecks_are_at_most_half_of_the_reads() {
    let channels: Vec<u8> = (1..=11).collect();
    let mut relay = live(&channels);
    let first = overdue_read(&mut relay);
    let one = Toy::mention(1, channel(first.channels()[0]));
    answer(&mut relay, first.ticket, &[one.clone()]);
    let second = next_read(&mut relay);
    assert_eq!(second.at.saturating_since(first.at), PACE);
    let other = Toy::mention(2, channel(second.channels()[0]));
    answer(&mut relay, second.ticket, &[other.clone()]);
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

// What an audit proves

#[test]
fn a_complete_audit_moves_the_cursor() {
    let mut relay = live(&[1]);
    let read = next_read(&mut relay);
    let begun = START.after(read.at.saturating_since(MonoTime::ZERO));
    relay.answered(read.ticket, 200, toy::events(&[]));
    assert_eq!(reconnect(&mut relay), begun.before(DRIFT));
}

#[test]
fn an_audit_that_fails_moves_nothing_and_is_repeated_three_times() {
    let mut relay = live(&[1]);
    let since = START.before(DRIFT + SECOND);
    let first = next_read(&mut relay);
    relay.answered(first.ticket, 500, "");
    let second = next_read(&mut relay);
    assert_eq!(second.at.saturating_since(first.at), MINUTE);
    relay.alive_for(Duration::from_secs(15)).tick();
    let ticket = second.ticket;
    relay.expect([Action::Abort { ticket }]);
    let third = next_read(&mut relay);
    relay.notes();
    relay.answered(third.ticket, 200, "no answer");
    let sub = Sub::Channel(channel(1));
    let before = START.after(first.at.saturating_since(MonoTime::ZERO));
    relay.expect_notes([Note::Unaudited { sub, before }]);
    relay.expect([]);
    assert_eq!(reconnect(&mut relay), since);
}

#[test]
fn an_event_that_finds_no_room_for_its_verification_is_left_to_the_next_audit() {
    let mut config = given(&[1]);
    config.limits.verify_max = 1;
    let mut relay = with_slots(config, 256);
    confirm(&mut relay, 1);
    let events = [mention(1, 100), mention(2, 101)];
    assert_eq!(audit(&mut relay, &events), [deliver(1, &events[0])]);
    for event in &events {
        relay.event(&channel_sub(1, 1), event).orders();
    }
    assert_eq!(reconnect(&mut relay), START.before(DRIFT + SECOND));
}

#[test]
fn a_history_is_read_on_to_its_fifth_page_and_what_is_older_is_noted() {
    let mut relay = live_with_pages_of_two();
    let events = brought(&mut relay, |n| n);
    let mut until = None;
    for page in 0..5 {
        let read = next_read(&mut relay);
        assert_eq!(read.filters[0]["until"].as_u64(), until);
        assert_eq!(read.filters[0]["before_id"], Value::Null);
        let newest = [events[11 - page].clone(), events[10 - page].clone()];
        relay.notes();
        relay.answered(read.ticket, 200, toy::events(&newest));
        until = Some(START.0 + 10 - u64::try_from(page).unwrap());
    }
    let sub = Sub::Channel(channel(1));
    let before = START.after(Duration::from_secs(6));
    relay.expect_notes([Note::Unaudited { sub, before }]);
    assert_eq!(reconnect(&mut relay), START.before(DRIFT + SECOND));
}

#[test]
fn within_one_second_a_history_is_read_on_by_the_last_id() {
    let mut relay = live_with_pages_of_two();
    let events = brought(&mut relay, |_| 0);
    for page in 0..3 {
        let read = next_read(&mut relay);
        let after = &read.filters[0]["before_id"];
        if page == 2 {
            assert_eq!(after, &serde_json::json!(events[1].event().id()));
            relay.answered(read.ticket, 200, toy::events(&[]));
            let begun = START.after(read.at.saturating_since(MonoTime::ZERO) - 2 * PACE);
            assert_eq!(reconnect(&mut relay), begun.before(DRIFT));
        } else {
            assert_eq!(after, &Value::Null);
            relay.answered(read.ticket, 200, toy::events(&events[..2]));
        }
    }
}

#[test]
fn after_ids_were_forgotten_nothing_that_is_as_old_is_delivered() {
    let mut config = given(&[1]);
    config.limits.seen_max = 2;
    let mut relay = with_slots(config, 256);
    confirm(&mut relay, 1);
    for n in 1..=3 {
        relay.event(&channel_sub(1, 1), &mention(n, n)).orders();
    }
    relay.notes();
    let newer = mention(9, 2);
    let read = next_read(&mut relay);
    let events = [
        newer.clone(),
        mention(3, 3),
        mention(2, 2),
        mention(8, 1),
        mention(1, 1),
    ];
    relay.answered(read.ticket, 200, toy::events(&events));
    let asked = relay.asked_to_verify();
    assert_eq!(asked.len(), 1);
    relay
        .verified(asked[0].0, true)
        .expect([deliver(1, &newer)]);
    let sub = Sub::Channel(channel(1));
    let before = START.after(SECOND);
    assert_eq!(relay.notes()[0], Note::Unaudited { sub, before });
}

// How

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
    relay.answered(read.ticket, 200, toy::events(&[event.clone()]));
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

/// A read of audits: when it was asked, and for what.
#[derive(Clone, Debug)]
struct Read {
    at: MonoTime,
    ticket: Ticket,
    filters: Vec<Value>,
}

impl Read {
    /// The channels that are asked for, in order.
    fn channels(&self) -> Vec<u8> {
        let named = |filter: &Value| {
            let channels = 1..=u8::MAX;
            channels
                .into_iter()
                .find(|n| filter["#h"][0] == channel(*n).to_string())
        };
        self.filters.iter().filter_map(named).collect()
    }
}

/// A relay part whose channels are live, at the start of time.
fn live(channels: &[u8]) -> Script<Relay> {
    let mut relay = with_slots(given(channels), 256);
    confirm(&mut relay, channels.len());
    relay
}

fn live_with_pages_of_two() -> Script<Relay> {
    let mut config = given(&[1]);
    config.limits.page = 2;
    let mut relay = with_slots(config, 256);
    confirm(&mut relay, 1);
    relay
}

/// Authenticates and confirms so many subscriptions.
fn confirm(relay: &mut Script<Relay>, count: usize) {
    relay.live_with_auth();
    let mut orders = relay.orders();
    while relay.part().view().subscriptions_live < count {
        relay.written();
        for order in std::mem::take(&mut orders) {
            if let Some(name) = frame_text(&order).and_then(|text| request_name(&text)) {
                relay.frame(toy::eose(&name));
                orders.extend(relay.orders());
            }
        }
        if relay.part().view().subscriptions_live < count {
            relay.run_for(SECOND / 8);
            orders.extend(relay.orders());
        }
    }
    relay.notes();
}

/// Eleven events of channel 1 that the live subscription brought, dated so many seconds after the
/// start.
fn brought(relay: &mut Script<Relay>, dated: impl Fn(u64) -> u64) -> Vec<Toy> {
    let events: Vec<_> = (0..12).map(|n| mention(n, dated(n))).collect();
    for event in &events {
        relay.event(&channel_sub(1, 1), event);
        assert_eq!(relay.orders().len(), 1);
    }
    events
}

fn mention(n: u64, after: u64) -> Toy {
    Toy::mention(n, channel(1)).dated(START.after(Duration::from_secs(after)))
}

/// Lets time pass to the next deadline, with a peer that gives signs of life.
fn step(relay: &mut Script<Relay>) {
    if relay.now() > PATIENCE {
        relay.fail("what is waited for does not come");
    }
    let conn = relay.conn();
    relay.written().input(Input::Pinged { conn });
    let alive = relay.now().after(20 * SECOND);
    let next = relay.part().next_deadline();
    relay.run_until(next.map_or(alive, |(next, _)| next.min(alive)));
}

/// Lets time pass until something is read by `/query`; nothing else is ordered.
fn next_read(relay: &mut Script<Relay>) -> Read {
    loop {
        let mut orders = relay.timed_orders();
        if let Some(read) = take_read(&mut orders) {
            return read;
        }
        if !orders.is_empty() {
            relay.fail(&format!("not a read: {orders:?}"));
        }
        step(relay);
    }
}

fn take_read(orders: &mut Vec<(MonoTime, Action)>) -> Option<Read> {
    let is_query = |(_, order): &(MonoTime, Action)| matches!(order, Action::Query { .. });
    let place = orders.iter().position(is_query)?;
    let (at, Action::Query { ticket, body }) = orders.remove(place) else {
        return None;
    };
    let filters = serde_json::from_slice(&body).expect("a body is an array of filters");
    Some(Read {
        at,
        ticket,
        filters,
    })
}

/// Sleeps until every subscription is overdue, and gives the first read.
fn overdue_read(relay: &mut Script<Relay>) -> Read {
    let conn = relay.conn();
    relay.sleep_until(OVERDUE).input(Input::Pinged { conn });
    next_read(relay)
}

/// Lets time pass until a page is asked for over the socket: its name and its filter.
fn next_request(relay: &mut Script<Relay>) -> (String, Value) {
    loop {
        for order in relay.orders() {
            let text = frame_text(&order).unwrap_or_default();
            if let Some(name) = request_name(&text).filter(|name| name.starts_with("page-")) {
                let frame: Value = serde_json::from_str(&text).expect("a frame is JSON");
                return (name, frame[2].clone());
            }
        }
        step(relay);
    }
}

/// A read is answered with events that are all genuine: what is delivered.
fn answer(relay: &mut Script<Relay>, ticket: Ticket, events: &[Toy]) -> Vec<Action> {
    relay.answered(ticket, 200, toy::events(events));
    let mut delivered = Vec::new();
    for (ticket, _) in relay.asked_to_verify() {
        relay.verified(ticket, true);
        delivered.extend(relay.orders());
    }
    delivered
}

/// The next read is answered with these events: what is delivered.
fn audit(relay: &mut Script<Relay>, events: &[Toy]) -> Vec<Action> {
    let read = next_read(relay);
    answer(relay, read.ticket, events)
}

/// Lets time pass until frames are sent.
fn missed(relay: &mut Script<Relay>) -> Vec<String> {
    loop {
        let sent = relay.sent();
        if !sent.is_empty() {
            return sent;
        }
        step(relay);
    }
}

/// The frames that are sent exactly after a span.
fn missed_after(relay: &mut Script<Relay>, span: Duration) -> Vec<String> {
    relay.alive_for(span).tick().sent()
}

/// Loses the socket and opens another: the `since` of the request of channel 1.
fn reconnect(relay: &mut Script<Relay>) -> UnixTime {
    relay.closed(None);
    let orders = relay.orders();
    assert_eq!(orders.last(), Some(&DOWN));
    relay.run_for(SECOND).live_with_auth();
    let sent = relay.sent();
    let request = sent.iter().find(|text| request_name(text).is_some());
    let frame: Value = serde_json::from_str(request.expect("a request")).expect("a frame is JSON");
    relay.written();
    relay
        .frame(toy::eose(frame[1].as_str().expect("a name")))
        .orders();
    relay.notes();
    UnixTime(frame[2]["since"].as_u64().expect("a cursor"))
}

fn frame_text(order: &Action) -> Option<String> {
    let Action::Send { text, .. } = order else {
        return None;
    };
    Some(String::from_utf8_lossy(text).into_owned())
}

fn deliver(n: u8, event: &Toy) -> Action {
    let (sub, event) = (Sub::Channel(channel(n)), event.event());
    Action::Deliver {
        sub,
        event,
        lives: 0,
    }
}
