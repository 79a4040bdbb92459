//! Subscriptions: how they are asked for, confirmed, refused and asked for again.

use std::time::Duration;

use buzz_proto::ids::Ticket;
use buzz_proto::note::{GapWhy, Note, Quota, RefusedWhy};
use buzz_proto::relay::{Action, CloseCause, Command, Config, Interest, Relay};
use buzz_proto::relay::{Sub, SubState};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Reason;
use buzz_sim::relay::{channel_sub, close, given, request_name, script};
use buzz_sim::script::{Script, secs};
use buzz_sim::toy::{self, ME, START, Toy, channel};

/// The start of a machine, less the second that clocks cut to seconds may hide.
const FLOOR: UnixTime = UnixTime(START.0 - 1);
const SECOND: Duration = Duration::from_secs(1);
const DRIFT: Duration = Duration::from_secs(1080);
const DOWN: Action = Action::Link { live: false };

// Requests

#[test]
fn a_request_asks_for_the_configured_kinds_that_mention_the_agent() {
    let mut relay = script(given(&[1]));
    relay.live().expect_sent([&request(1, 1, None)]);
    let mut relay = script(given(&[1]));
    relay.live_with_auth();
    relay.expect_sent([&request(1, 1, Some(FLOOR.before(DRIFT)))]);
}

#[test]
fn a_request_of_the_application_says_what_it_wants_itself() {
    let mut relay = script(given(&[]));
    relay.live_with_auth();
    relay.command(Command::Subscribe {
        channel: channel(1),
        interest: Some(Interest::default()),
        floor: Some(UnixTime(1_700_000_000)),
    });
    let (sub, h) = (channel_sub(1, 1), channel(1));
    let since = 1_700_000_000 - 1080;
    let text = format!(r##"["REQ","{sub}",{{"#h":["{h}"],"since":{since},"limit":200}}]"##);
    relay.expect_sent([&text]);
}

#[test]
fn names_are_never_used_twice() {
    let mut relay = script(given(&[1, 2]));
    relay.live();
    assert_eq!(relay.requested(), [channel_sub(1, 1), channel_sub(2, 2)]);
    relay.closed(None).expect([DOWN]);
    relay.run_for(SECOND).live();
    assert_eq!(relay.requested(), [channel_sub(1, 3), channel_sub(2, 4)]);
}

#[test]
fn no_more_requests_are_unanswered_than_the_relay_can_buffer() {
    let mut relay = script(given(&[1, 2, 3, 4, 5, 6]));
    relay.live();
    let first: Vec<_> = (1..5).map(|n| channel_sub(n, u64::from(n))).collect();
    assert_eq!(relay.requested(), first);
    relay.written().frame(toy::eose(&channel_sub(2, 2)));
    let orders = relay.orders();
    assert!(matches!(
        orders[..],
        [Action::Report { .. }, Action::Send { .. }]
    ));
    relay.frame(toy::closed(&channel_sub(3, 3), "error: database"));
    assert_eq!(relay.orders().len(), 2);
}

#[test]
fn events_are_sent_before_more_channels_are_asked_for() {
    let channels: Vec<u8> = (1..=20).collect();
    let mut config = given(&channels);
    config.limits.unanswered_max = 20;
    let mut relay = script(config);
    relay.live();
    assert!(relay.requested().len() < channels.len());
    let (ticket, event) = (Ticket(1000), Toy::new(1).bytes());
    relay.command(Command::Send { ticket, event }).expect([]);
    relay.run_for(SECOND);
    let sent = relay.sent();
    assert!(sent[0].starts_with("[\"EVENT\""), "{sent:?}");
    assert!(sent[1].starts_with("[\"REQ\""), "{sent:?}");
}

// Confirmation

#[test]
fn the_end_of_its_history_makes_a_subscription_live_once() {
    let mut relay = script(given(&[1]));
    relay.live().requested();
    relay.written().frame(toy::eose(&channel_sub(1, 1)));
    relay.expect([report(1, SubState::Live)]);
    assert_eq!(relay.part().view().subscriptions_live, 1);
    relay.frame(toy::eose(&channel_sub(1, 1))).expect([]);
}

#[test]
fn confirmation_counts_from_the_write_and_three_expiries_end_the_connection() {
    let mut relay = script(given(&[1]));
    relay.live().requested();
    relay.quiet_until(secs(8)).written();
    for (at, n) in [(68, 1), (188, 2)] {
        relay.alive_until(secs(at)).tick();
        let close = format!(r#"["CLOSE","{}"]"#, channel_sub(1, n));
        relay.expect_sent([&close, &request(1, n + 1, None)]);
        relay.written();
    }
    relay.alive_until(secs(428)).tick();
    relay.expect([close(1, CloseCause::Unconfirmed), DOWN]);
}

#[test]
fn the_time_for_a_confirmation_doubles_up_to_five_minutes() {
    let mut relay = script(given(&[1]));
    relay.live().requested();
    relay.written();
    let mut names = 2;
    for limit in [60, 120, 240, 300, 300] {
        relay.alive_for(Duration::from_secs(limit)).tick();
        assert_eq!(relay.requested(), [channel_sub(1, names)]);
        relay.written();
        relay.subscribe(channel(2));
        relay.confirmed(&[channel_sub(2, names + 1)]);
        relay.command(Command::Unsubscribe {
            channel: channel(2),
        });
        relay.orders();
        relay.written();
        names += 2;
    }
}

#[test]
fn those_asked_for_in_vain_wait_behind_the_others() {
    let mut relay = script(given(&[1, 2, 3, 4, 5]));
    relay.live().requested();
    relay.written().alive_for(60 * SECOND).tick();
    relay.expect([close(1, CloseCause::Unconfirmed), DOWN]);
    relay.run_for(SECOND).live();
    let asked = [(4, 5), (5, 6), (1, 7), (2, 8)].map(|(sub, n)| channel_sub(sub, n));
    assert_eq!(relay.requested(), asked);
}

// Refusals

#[test]
fn a_rate_limit_shuts_the_gate_for_all_and_the_request_goes_again_after_it() {
    let mut relay = script(given(&[1]));
    relay.live().requested();
    relay.written().notes();
    let text = "rate-limited: quota exceeded; retry in 7s";
    relay
        .frame(toy::closed(&channel_sub(1, 1), text))
        .expect([]);
    let (wait, attempt) = throttled(&mut relay);
    assert!(wait >= 7 * SECOND + SECOND / 2 && wait <= 8 * SECOND + SECOND / 2);
    assert_eq!(attempt, 1);
    relay.subscribe(channel(2)).expect([]);
    relay.quiet_for(wait).tick();
    assert_eq!(relay.requested(), [channel_sub(1, 2), channel_sub(2, 3)]);
}

#[test]
fn refusals_of_one_burst_count_once_and_an_accepted_request_begins_anew() {
    let mut relay = script(given(&[1, 2]));
    relay.live().requested();
    relay.written().notes();
    let text = "rate-limited: slow down";
    relay
        .frame(toy::closed(&channel_sub(1, 1), text))
        .expect([]);
    let (wait, attempt) = throttled(&mut relay);
    assert_eq!(attempt, 1);
    relay
        .frame(toy::closed(&channel_sub(2, 2), text))
        .expect([]);
    assert_eq!(relay.notes(), []);
    relay.quiet_for(wait).tick().requested();
    relay.written().frame(toy::closed(&channel_sub(1, 3), text));
    let (wait, attempt) = throttled(&mut relay);
    assert_eq!(attempt, 2);
    relay.quiet_for(wait).tick().requested();
    relay.written().frame(toy::eose(&channel_sub(1, 5)));
    relay.expect([report(1, SubState::Live)]).notes();
    relay.subscribe(channel(3)).requested();
    relay.written().frame(toy::closed(&channel_sub(3, 6), text));
    assert_eq!(throttled(&mut relay).1, 1);
}

#[test]
fn a_passing_error_is_waited_out_with_a_ladder_of_its_own() {
    let mut relay = script(given(&[1, 2]));
    relay.live();
    relay.confirmed(&[channel_sub(1, 1), channel_sub(2, 2)]);
    let mut name = channel_sub(1, 1);
    for (wait, n) in [(1, 3), (2, 4), (4, 5)] {
        relay.frame(toy::closed(&name, "error: database is away"));
        relay.expect([report(1, SubState::Waiting)]);
        relay.quiet_for(Duration::from_secs(wait)).tick();
        name = channel_sub(1, n);
        assert_eq!(relay.requested(), [name.clone()]);
        relay.written();
    }
}

#[test]
fn a_refusal_for_good_touches_its_channel_only_and_is_reported() {
    for text in [
        "restricted: not a channel member",
        "blocked: banned",
        "invalid: filter",
        "unsupported: no",
    ] {
        let mut relay = script(given(&[1, 2]));
        relay.live();
        relay.confirmed(&[channel_sub(1, 1), channel_sub(2, 2)]);
        relay.frame(toy::closed(&channel_sub(1, 1), text));
        let reason = Reason::new(text);
        relay.expect([report(1, SubState::Refused { reason })]);
        let event = Toy::mention(1, channel(2));
        relay.event(&channel_sub(2, 2), &event);
        relay.expect([deliver(2, &event)]);
        relay.alive_for(3600 * SECOND);
        relay.subscribe(channel(1));
        assert_eq!(relay.requested(), [channel_sub(1, 3)]);
    }
}

// Frames of what is over

#[test]
fn a_superseded_subscription_that_still_brings_frames_is_closed_once_in_thirty_seconds() {
    let mut relay = script(given(&[1]));
    let name = channel_sub(1, 1);
    relay.live();
    relay.confirmed(std::slice::from_ref(&name));
    let channel = channel(1);
    relay.command(Command::Unsubscribe { channel });
    let close = format!(r#"["CLOSE","{name}"]"#);
    let orders = relay.orders();
    assert!(matches!(
        orders[..],
        [Action::Channel { .. }, Action::Send { .. }]
    ));
    relay.written();
    let stray = toy::event_frame(&name, &Toy::mention(1, channel));
    relay.quiet_for(SECOND).frame(stray.clone()).expect([]);
    relay.quiet_for(SECOND).frame(stray.clone()).expect([]);
    relay.alive_for(28 * SECOND).tick().expect_sent([&close]);
    relay.written().alive_for(60 * SECOND).frame(stray);
    relay.expect_sent([&close]);
}

#[test]
fn events_that_the_request_did_not_ask_for_are_refused_before_verification() {
    let mut relay = script(given(&[1]));
    relay.live();
    relay.confirmed(&[channel_sub(1, 1)]);
    let foreign = Toy::mention(1, channel(2));
    let other_kind = Toy::mention(2, channel(1)).kind(1);
    let unmentioned = Toy::new(3).tag(&["h", &channel(1).to_string()]);
    for event in [foreign, other_kind, unmentioned] {
        relay.frame(toy::event_frame(&channel_sub(1, 1), &event));
        relay.expect([]);
        let (event, why) = (event.event().id(), RefusedWhy::NoMatch);
        relay.expect_notes([Note::Refused { event, why }]);
    }
}

// Reading on

#[test]
fn after_a_reconnect_the_overlap_is_read_and_each_event_delivered_once() {
    let mut relay = script(given(&[1]));
    relay.live_with_auth();
    relay.confirmed(&[channel_sub(1, 1)]);
    let known = Toy::mention(1, channel(1));
    relay.event(&channel_sub(1, 1), &known);
    relay.expect([deliver(1, &known)]);
    relay.closed(None).expect([DOWN]);
    relay.run_for(SECOND).live_with_auth();
    relay.expect_sent([&request(1, 2, Some(START.before(DRIFT)))]);
    relay.written();
    relay.frame(toy::event_frame(&channel_sub(1, 2), &known));
    relay.expect([]);
    let missed = Toy::mention(2, channel(1));
    relay.event(&channel_sub(1, 2), &missed);
    relay.expect([deliver(1, &missed)]);
}

#[test]
fn the_same_event_twice_before_its_verdict_is_delivered_once() {
    let mut relay = script(given(&[1]));
    relay.live();
    relay.confirmed(&[channel_sub(1, 1)]);
    let event = Toy::mention(1, channel(1));
    let frame = toy::event_frame(&channel_sub(1, 1), &event);
    let first = relay.frame(frame.clone()).asked_to_verify();
    relay.frame(frame).expect([]);
    relay
        .verified(first[0].0, true)
        .expect([deliver(1, &event)]);
}

#[test]
fn what_the_first_read_brings_from_before_the_floor_is_not_owed() {
    let mut relay = script(given(&[1]));
    relay.live_with_auth().requested();
    relay.written();
    let old = Toy::mention(1, channel(1)).dated(FLOOR.before(SECOND));
    let owed = Toy::mention(2, channel(1));
    relay.event(&channel_sub(1, 1), &old).expect([]);
    relay.event(&channel_sub(1, 1), &owed);
    relay.expect([deliver(1, &owed)]);
    relay.frame(toy::eose(&channel_sub(1, 1))).orders();
    relay
        .frame(toy::event_frame(&channel_sub(1, 1), &old))
        .expect([]);
    let late = Toy::mention(3, channel(1)).dated(START.before(SECOND));
    relay.event(&channel_sub(1, 1), &late);
    relay.expect([deliver(1, &late)]);
}

#[test]
fn the_floor_of_a_first_start_is_the_start_less_the_look_back() {
    let look_back = Duration::from_secs(3600);
    let mut relay = script(Config {
        look_back,
        ..given(&[1])
    });
    relay.wall_clock().orders();
    relay.sleep_until(secs(20)).connected();
    relay.frame(toy::challenge("first"));
    let event = relay.sign(1);
    relay.written().frame(toy::ok(event, true, ""));
    let floor = FLOOR.before(look_back);
    let orders = relay.orders();
    let Action::Send { text, .. } = &orders[1] else {
        panic!("no request: {orders:?}");
    };
    assert_eq!(text, &request(1, 1, Some(floor.before(DRIFT))));
    relay.written();
    for (dated, is_owed) in [(floor.before(SECOND), false), (floor, true)] {
        let event = Toy::mention(dated.0, channel(1)).dated(dated);
        relay.event(&channel_sub(1, 1), &event);
        assert_eq!(relay.orders().len(), usize::from(is_owed));
    }
}

#[test]
fn a_history_longer_than_a_page_without_overlap_is_a_gap() {
    let mut config = given(&[]);
    config.limits.page = 2;
    let mut relay = script(config);
    relay.live();
    relay.command(Command::Subscribe {
        channel: channel(1),
        interest: None,
        floor: Some(START.before(100 * SECOND)),
    });
    relay.requested();
    relay.written();
    for n in 1..3 {
        let dated = START.before(Duration::from_secs(n));
        let event = Toy::mention(n, channel(1)).dated(dated);
        relay.event(&channel_sub(1, 1), &event).orders();
    }
    relay.notes();
    relay.frame(toy::eose(&channel_sub(1, 1))).orders();
    let gap = Note::Gap {
        sub: Sub::Channel(channel(1)),
        count: None,
        from: START.before(100 * SECOND),
        to: START.before(2 * SECOND),
        why: GapWhy::HistoryLimit,
    };
    assert_eq!(relay.notes()[1..], [gap]);
}

#[test]
fn without_the_relays_time_only_the_first_read_brings_what_is_not_owed() {
    let mut relay = script(given(&[1]));
    relay.live().requested();
    relay.written();
    let old = Toy::mention(1, channel(1)).dated(START.before(SECOND));
    relay.event(&channel_sub(1, 1), &old).expect([]);
    relay.frame(toy::eose(&channel_sub(1, 1))).orders();
    relay.closed(None).expect([DOWN]);
    relay.run_for(SECOND).live().requested();
    relay.written();
    relay.event(&channel_sub(1, 2), &old).expect([]);
    let missed = Toy::mention(2, channel(1));
    relay.event(&channel_sub(1, 2), &missed);
    relay.expect([deliver(1, &missed)]);
}

#[test]
fn a_known_event_dated_ahead_does_not_show_that_a_page_reaches_back() {
    let hour = Duration::from_secs(3600);
    for (dated, is_gap) in [(hour + SECOND, true), (hour - DRIFT, false)] {
        let mut config = given(&[1]);
        config.limits.page = 2;
        let mut relay = script(config);
        relay.live_with_auth();
        relay.confirmed(&[channel_sub(1, 1)]);
        relay.alive_for(hour);
        let known = Toy::mention(1, channel(1)).dated(START.after(hour + DRIFT));
        relay.event(&channel_sub(1, 1), &known).orders();
        relay.closed(None).expect([DOWN]);
        relay.run_for(SECOND).live_with_auth().requested();
        relay.written();
        relay.frame(toy::event_frame(&channel_sub(1, 2), &known));
        let missed = Toy::mention(2, channel(1)).dated(START.after(dated));
        relay.event(&channel_sub(1, 2), &missed).orders();
        relay.notes();
        relay.frame(toy::eose(&channel_sub(1, 2))).orders();
        let cut = |note: &Note| {
            matches!(
                note,
                Note::Gap {
                    why: GapWhy::HistoryLimit,
                    ..
                }
            )
        };
        assert_eq!(relay.notes().iter().any(cut), is_gap);
    }
}

#[test]
fn a_sign_of_dropped_frames_before_a_loss_costs_no_second_read() {
    let mut relay = script(given(&[1]));
    relay.live();
    relay.confirmed(&[channel_sub(1, 1)]);
    let signal = r#"["BUZZ_SYNC_REQUIRED","backpressure"]"#;
    relay.frame(signal).orders();
    relay.written().frame(signal).expect([]);
    relay.closed(None).expect([DOWN]);
    relay.run_for(SECOND).live();
    relay.confirmed(&[channel_sub(1, 3)]);
    relay.alive_for(60 * SECOND);
}

#[test]
fn everything_that_is_read_again_is_closed_first() {
    let channels: Vec<u8> = (1..=100).collect();
    let mut relay = script(given(&channels));
    relay.live();
    let mut orders = relay.orders();
    while relay.part().view().subscriptions_live < channels.len() {
        relay.written();
        for order in std::mem::take(&mut orders) {
            if let Action::Send { text, .. } = order
                && let Some(sub) = request_name(&String::from_utf8_lossy(&text))
            {
                relay.frame(toy::eose(&sub));
                orders.extend(relay.orders());
            }
        }
        relay.run_for(SECOND / 4);
        orders.extend(relay.orders());
    }
    relay.frame(r#"["BUZZ_SYNC_REQUIRED","backpressure"]"#);
    let sent = relay.sent();
    let closes = sent.iter().filter(|text| text.starts_with("[\"CLOSE"));
    assert_eq!(closes.count(), channels.len());
}

#[test]
fn a_subscription_too_many_is_reported() {
    let mut config = given(&[1]);
    config.limits.subscriptions_max = 1;
    let mut relay = script(config);
    relay.live();
    relay.confirmed(&[channel_sub(1, 1)]);
    relay.subscribe(channel(2));
    let orders = relay.orders();
    let [Action::Report { sub, state }] = &orders[..] else {
        panic!("no report: {orders:?}");
    };
    assert_eq!(*sub, Sub::Channel(channel(2)));
    assert!(matches!(state, SubState::Refused { .. }));
    assert_eq!(relay.notes().len(), 1);
}

#[test]
fn a_sign_of_dropped_frames_reads_again_and_waits_longer_each_time() {
    let mut relay = script(given(&[1, 2]));
    relay.live();
    relay.confirmed(&[channel_sub(1, 1), channel_sub(2, 2)]);
    let signal = r#"["BUZZ_SYNC_REQUIRED","backpressure"]"#;
    let mut n = 1;
    for pause in [5, 10, 20] {
        relay.frame(signal);
        let sent = relay.sent();
        let kinds: Vec<_> = sent.iter().map(|text| &text[2..5]).collect();
        assert_eq!(kinds, ["CLO", "CLO", "REQ", "REQ"], "{sent:?}");
        relay.written().frame(signal).expect([]);
        n += 2;
        let names = [channel_sub(1, n), channel_sub(2, n + 1)];
        for name in &names {
            relay.frame(toy::eose(name)).orders();
        }
        relay.quiet_for(Duration::from_secs(pause));
    }
}

fn request(n: u8, request: u64, since: Option<UnixTime>) -> String {
    let (sub, channel) = (channel_sub(n, request), channel(n));
    let since = since.map_or_else(String::new, |since| format!(r#""since":{since},"#));
    let wanted = format!(r##""kinds":[9,46010,40007],"#h":["{channel}"],"#p":["{ME}"]"##);
    format!(r#"["REQ","{sub}",{{{wanted},{since}"limit":200}}]"#)
}

fn report(n: u8, state: SubState) -> Action {
    let sub = Sub::Channel(channel(n));
    Action::Report { sub, state }
}

fn deliver(n: u8, event: &Toy) -> Action {
    let (sub, event) = (Sub::Channel(channel(n)), event.event());
    Action::Deliver { sub, event }
}

/// Wait and attempt of the one throttle note.
fn throttled(relay: &mut Script<Relay>) -> (Duration, u32) {
    let notes = relay.notes();
    let mut found = Vec::new();
    for note in &notes {
        if let Note::Throttled {
            quota: Quota::Operations,
            wait,
            attempt,
            ..
        } = note
        {
            found.push((*wait, *attempt));
        }
    }
    assert_eq!(found.len(), 1, "{notes:?}");
    found[0]
}
