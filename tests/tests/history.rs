//! Histories: what is read again after a loss, what is owed, and what may be missing.

use std::time::Duration;

use buzz_proto::note::{GapWhy, Note};
use buzz_proto::relay::{Action, Command, Config, Sub};
use buzz_proto::time::UnixTime;
use buzz_sim::relay::{channel_sub, given, request_name, script};
use buzz_sim::script::secs;
use buzz_sim::toy::{self, ME, START, Toy, channel};

/// The start of a machine, less the second that clocks cut to seconds may hide.
const FLOOR: UnixTime = UnixTime(START.0 - 1);
const SECOND: Duration = Duration::from_secs(1);
const DRIFT: Duration = Duration::from_secs(1080);
const DOWN: Action = Action::Link { live: false };

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

fn deliver(n: u8, event: &Toy) -> Action {
    let (sub, event) = (Sub::Channel(channel(n)), event.event());
    Action::Deliver {
        sub,
        event,
        lives: 0,
    }
}
