//! Subscriptions: how they are asked for, confirmed, refused and asked for again.

use std::time::Duration;

use buzz_proto::ids::Ticket;
use buzz_proto::note::{Note, Quota, RefusedWhy};
use buzz_proto::relay::{Action, CloseCause, Command, Interest, Relay};
use buzz_proto::relay::{Sub, SubState};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Reason;
use buzz_sim::relay::{channel_sub, close, given, script};
use buzz_sim::script::{Script, secs};
use buzz_sim::toy::{self, ME, START, Toy, channel};

/// The start of a machine, less the second that clocks cut to seconds may hide.
const FLOOR: UnixTime = UnixTime(START.0 - 1);
const SECOND: Duration = Duration::from_secs(1);
const DRIFT: Duration = Duration::from_secs(1080);
const DOWN: Action = Action::Link { live: false };

// Requests

#[test]
fn without_the_relays_time_nothing_is_asked_for_before_the_relay_has_told_of_itself() {
    let dated = START.after(7 * SECOND);
    for (date, since) in [(None, None), (Some(dated), Some(dated))] {
        let mut relay = script(given(&[1]));
        relay.open().quiet_until(secs(3)).tick();
        relay.expect_live_told("{}", date);
        let since = since.map(|dated| dated.before(4 * SECOND).before(DRIFT));
        relay.expect_sent([&request(1, 1, since)]);
    }
}

#[test]
fn a_relay_that_tells_nothing_of_itself_for_five_seconds_is_used_all_the_same() {
    let mut relay = script(given(&[1]));
    relay.open().quiet_until(secs(3)).tick();
    let ticket = Ticket(1);
    let live = true;
    relay.expect([Action::Inform { ticket }, Action::Link { live }]);
    relay.quiet_until(secs(8)).tick();
    let orders = relay.timed_orders();
    assert_eq!(orders[0].1, Action::Abort { ticket });
    relay.put_back(orders[1..].to_vec());
    relay.expect_sent([&request(1, 1, None)]);
}

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
    let text = format!(r##"["REQ","{sub}",{{"#h":["{h}"],"since":{since},"limit":50}}]"##);
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
    let channels: Vec<u8> = (1..=12).collect();
    let mut relay = script(given(&channels));
    relay.live();
    let mut asked = relay.requested();
    asked.extend(relay.run_for(SECOND).requested());
    let first: Vec<_> = (1..=10).map(|n| channel_sub(n, u64::from(n))).collect();
    assert_eq!(asked, first);
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
    relay
        .command(Command::Send {
            ticket,
            durable: true,
            event,
        })
        .expect([]);
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
    let asked = [(4, 6), (5, 7), (1, 8), (2, 9), (3, 10)].map(|(sub, n)| channel_sub(sub, n));
    assert_eq!(relay.requested(), asked);
}

#[test]
fn a_request_that_expired_gives_its_turn_to_another_and_its_late_answer_counts() {
    let mut config = given(&[1, 2]);
    config.limits.unanswered_max = 1;
    let mut relay = script(config);
    relay.live();
    assert_eq!(relay.requested(), [channel_sub(1, 1)]);
    relay.written().alive_for(60 * SECOND).tick();
    relay.expect_sent([&request(2, 2, None)]).written();
    relay.frame(toy::eose(&channel_sub(1, 1)));
    relay.expect([report(1, SubState::Live)]);
    relay.frame(toy::eose(&channel_sub(2, 2)));
    relay.expect([report(2, SubState::Live)]);
}

#[test]
fn a_request_that_expired_is_closed_only_when_the_new_one_goes() {
    let mut relay = script(given(&[1, 2]));
    relay.live().requested();
    relay.written().alive_for(55 * SECOND).notes();
    let text = "rate-limited: slow down; retry in 20s";
    relay.frame(toy::closed(&channel_sub(2, 2), text));
    let (wait, _) = throttled(&mut relay);
    relay.alive_for(wait).run_for(SECOND / 1000);
    let close = format!(r#"["CLOSE","{}"]"#, channel_sub(1, 1));
    relay.expect_sent([&request(2, 3, None), &close, &request(1, 4, None)]);
}

#[test]
fn a_request_that_brought_events_and_no_end_is_live_and_its_history_is_read_by_pages() {
    let mut relay = script(given(&[1]));
    relay.live_with_auth().requested();
    relay.written();
    let event = Toy::mention(1, channel(1));
    relay.event(&channel_sub(1, 1), &event);
    relay.expect([deliver(1, &event)]);
    relay.alive_for(60 * SECOND).tick();
    let mut orders = relay.timed_orders();
    let first = orders.remove(0).1;
    assert_eq!(first, report(1, SubState::Live));
    relay.put_back(orders);
    assert_eq!(relay.requested(), ["page-2"]);
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
    let asked = relay.requested();
    assert_eq!(
        asked,
        [channel_sub(2, 2), channel_sub(1, 3)],
        "the new one first"
    );
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
        relay.alive_for(89 * SECOND);
        relay.subscribe(channel(1));
        assert_eq!(relay.requested(), [channel_sub(1, 3)]);
    }
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

fn request(n: u8, request: u64, since: Option<UnixTime>) -> String {
    let (sub, channel) = (channel_sub(n, request), channel(n));
    let since = since.map_or_else(String::new, |since| format!(r#""since":{since},"#));
    let wanted = format!(r##""kinds":[9,46010,40007],"#h":["{channel}"],"#p":["{ME}"]"##);
    format!(r#"["REQ","{sub}",{{{wanted},{since}"limit":50}}]"#)
}

fn report(n: u8, state: SubState) -> Action {
    let sub = Sub::Channel(channel(n));
    Action::Report { sub, state }
}

fn deliver(n: u8, event: &Toy) -> Action {
    let (sub, event) = (Sub::Channel(channel(n)), event.event());
    Action::Deliver {
        sub,
        event,
        lives: 0,
    }
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
