//! Histories: what is read again after a loss, what is owed, and what may be missing.

use std::time::Duration;

use buzz_proto::note::{GapWhy, Note};
use buzz_proto::relay::{Action, Command, Config, Relay, Sub};
use buzz_proto::time::UnixTime;
use buzz_sim::relay::{channel_sub, given, request_name, script, unaudited};
use buzz_sim::script::{Script, secs};
use buzz_sim::toy::{self, ME, START, Toy, channel};

/// The start of a machine, less the second that clocks cut to seconds may hide.
const FLOOR: UnixTime = UnixTime(START.0 - 1);
const SECOND: Duration = Duration::from_secs(1);
const DRIFT: Duration = Duration::from_secs(1080);
const SIGNAL: &str = r#"["BUZZ_SYNC_REQUIRED","backpressure"]"#;
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
    relay.expect_sent([&request(1, 2, Some(FLOOR.before(DRIFT)))]);
    relay.written();
    relay.frame(toy::event_frame(&channel_sub(1, 2), &known));
    relay.expect([]);
    let missed = Toy::mention(2, channel(1));
    relay.event(&channel_sub(1, 2), &missed);
    relay.expect([deliver(1, &missed)]);
}

#[test]
fn the_next_read_begins_a_drift_before_the_last_one_that_brought_anything() {
    let hour = Duration::from_secs(3600);
    for (brings, since) in [(false, FLOOR), (true, START.after(hour + SECOND))] {
        let mut relay = script(unaudited(given(&[1])));
        relay.live_with_auth();
        relay.confirmed(&[channel_sub(1, 1)]);
        relay.alive_for(hour);
        relay.closed(None).expect([DOWN]);
        relay.run_for(SECOND).live_with_auth().requested();
        if brings {
            relay.written();
            relay.event(&channel_sub(1, 2), &Toy::mention(1, channel(1)));
            relay.orders();
        }
        relay
            .written()
            .frame(toy::eose(&channel_sub(1, 2)))
            .orders();
        relay.alive_for(SECOND).closed(None).expect([DOWN]);
        relay.run_for(2 * SECOND).live_with_auth();
        relay.expect_sent([&request(1, 3, Some(since.before(DRIFT)))]);
    }
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
    relay.expect_live();
    relay.expect_sent([&request(1, 1, Some(floor.before(DRIFT)))]);
    relay.written();
    for (dated, is_owed) in [(floor.before(SECOND), false), (floor, true)] {
        let event = Toy::mention(dated.0, channel(1)).dated(dated);
        relay.event(&channel_sub(1, 1), &event);
        assert_eq!(relay.orders().len(), usize::from(is_owed));
    }
}

#[test]
fn a_history_longer_than_the_first_page_is_read_on_from_where_that_ended() {
    let mut relay = with_pages_of_two();
    let [first, second, third] = [1, 2, 3].map(|n| {
        let dated = START.before(Duration::from_secs(n));
        Toy::mention(n, channel(1)).dated(dated)
    });
    for event in [&first, &second] {
        relay.event(&channel_sub(1, 1), event);
        relay.expect([deliver(1, event)]);
    }
    relay.frame(toy::eose(&channel_sub(1, 1)));
    let until = START.before(2 * SECOND);
    assert_eq!(relay.take_sent(), [page(2, until)]);
    assert_eq!(relay.orders().len(), 1, "the report");
    relay.notes();
    relay.page("page-2", &[&second, &third]);
    assert_eq!(relay.take_sent(), [page(3, until.before(SECOND))]);
    relay.expect([deliver(1, &third)]);
    relay.page("page-3", &[&third]).expect([]);
    let (sub, count) = (Sub::Channel(channel(1)), 1);
    relay.expect_notes([Note::CaughtUp { sub, count }]);
}

#[test]
fn a_second_that_holds_more_than_a_page_is_a_gap_where_only_the_socket_is_read() {
    let mut relay = with_pages_of_two();
    let dated = START.before(2 * SECOND);
    let [first, second] = [1, 2].map(|n| Toy::mention(n, channel(1)).dated(dated));
    for event in [&first, &second] {
        relay.event(&channel_sub(1, 1), event).orders();
    }
    relay.frame(toy::eose(&channel_sub(1, 1))).orders();
    relay.page("page-2", &[&first, &second]);
    let [(_, Action::Query { ticket, .. })] = relay.timed_orders()[..] else {
        relay.fail("no query that tells events of one second apart");
    };
    relay.answered(ticket, 404, "");
    assert_eq!(relay.requested(), ["page-3"]);
    relay.notes();
    relay.page("page-3", &[&first, &second]);
    let gap = Note::Gap {
        sub: Sub::Channel(channel(1)),
        count: None,
        from: dated,
        to: dated,
        why: GapWhy::HistoryLimit,
    };
    relay.expect_notes([gap]);
    relay.expect_sent([&page(4, dated.before(SECOND))]);
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
    for is_full in [true, false] {
        let mut config = unaudited(given(&[1]));
        config.limits.live_page = 2;
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
        if is_full {
            let missed = Toy::mention(2, channel(1)).dated(START.after(hour));
            relay.event(&channel_sub(1, 2), &missed).orders();
        }
        relay.frame(toy::eose(&channel_sub(1, 2)));
        let is_read_on = !relay.take_sent().is_empty();
        assert_eq!(is_read_on, is_full);
    }
}

#[test]
fn a_sign_of_dropped_frames_before_a_loss_costs_no_second_read() {
    let mut relay = script(given(&[1]));
    relay.live();
    relay.confirmed(&[channel_sub(1, 1)]);
    relay.frame(SIGNAL);
    assert_eq!(relay.requested(), ["page-2"]);
    relay.written().frame(SIGNAL).expect([]);
    relay.closed(None).expect([DOWN]);
    relay.run_for(SECOND).live();
    relay.confirmed(&[channel_sub(1, 3)]);
    relay.run_for(5 * SECOND);
    assert_eq!(relay.requested(), ["page-4"]);
    relay.page("page-4", &[]).expect([]);
    relay.alive_for(60 * SECOND);
}

#[test]
fn everything_that_is_let_go_at_once_is_closed() {
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
    relay.frame(toy::challenge("nothing is sent before its answer"));
    let event = relay.sign(1);
    relay.written();
    for n in &channels {
        let channel = channel(*n);
        relay.command(Command::Unsubscribe { channel });
        assert_eq!(relay.take_sent(), [""; 0]);
        relay.orders();
    }
    relay.frame(toy::ok(event, true, ""));
    let sent = relay.sent();
    let closes = sent.iter().filter(|text| text.starts_with("[\"CLOSE"));
    assert_eq!(closes.count(), channels.len());
}

#[test]
fn a_sign_of_dropped_frames_reads_each_history_beside_its_live_subscription() {
    let mut relay = script(given(&[1, 2]));
    relay.live();
    relay.confirmed(&[channel_sub(1, 1), channel_sub(2, 2)]);
    let [lost, next] = [1, 2].map(|n| Toy::mention(n, channel(1)));
    relay.frame(SIGNAL);
    assert_eq!(relay.requested(), ["page-3"]);
    relay.event(&channel_sub(1, 1), &next);
    relay.expect([deliver(1, &next)]);
    relay.page("page-3", &[&lost, &next]);
    let sent = relay.take_sent();
    assert!(
        sent.len() == 1 && sent[0].contains("\"page-4\""),
        "{sent:?}"
    );
    relay.expect([deliver(1, &lost)]);
    relay.page("page-4", &[]).expect([]);
}

#[test]
fn each_sign_of_dropped_frames_is_followed_by_a_longer_wait() {
    let mut relay = script(given(&[1, 2]));
    relay.live();
    relay.confirmed(&[channel_sub(1, 1), channel_sub(2, 2)]);
    let mut n = 3;
    for pause in [5, 10, 20] {
        relay.frame(SIGNAL);
        assert_eq!(relay.requested(), [format!("page-{n}")]);
        relay.written().frame(SIGNAL).expect([]);
        relay.page(&format!("page-{n}"), &[]);
        assert_eq!(relay.requested(), [format!("page-{}", n + 1)]);
        relay.page(&format!("page-{}", n + 1), &[]).expect([]);
        relay.quiet_for(Duration::from_secs(pause));
        n += 2;
    }
}

#[test]
fn a_subscription_refused_for_good_holds_up_no_later_read_of_the_others() {
    let mut relay = script(given(&[1, 2]));
    relay.live();
    relay.confirmed(&[channel_sub(1, 1), channel_sub(2, 2)]);
    relay.frame(SIGNAL);
    assert_eq!(relay.requested(), ["page-3"]);
    let text = "restricted: not a channel member";
    relay.frame(toy::closed(&channel_sub(2, 2), text)).orders();
    relay.page("page-3", &[]).expect([]);
    relay.alive_for(60 * SECOND).frame(SIGNAL);
    assert_eq!(relay.requested(), ["page-4"]);
}

/// A subscription from 100 s before the start on, asked for by pages of two events.
fn with_pages_of_two() -> Script<Relay> {
    let mut config = given(&[]);
    config.limits.live_page = 2;
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
    relay
}

/// The request for a page of two events up to this second.
fn page(n: u64, until: UnixTime) -> String {
    let (channel, since) = (channel(1), START.before(100 * SECOND).before(DRIFT));
    let wanted = format!(r##""kinds":[9,46010,40007],"#h":["{channel}"],"#p":["{ME}"]"##);
    format!(r#"["REQ","page-{n}",{{{wanted},"since":{since},"until":{until},"limit":2}}]"#)
}

fn request(n: u8, request: u64, since: Option<UnixTime>) -> String {
    let (sub, channel) = (channel_sub(n, request), channel(n));
    let since = since.map_or_else(String::new, |since| format!(r#""since":{since},"#));
    let wanted = format!(r##""kinds":[9,46010,40007],"#h":["{channel}"],"#p":["{ME}"]"##);
    format!(r#"["REQ","{sub}",{{{wanted},{since}"limit":50}}]"#)
}

fn deliver(n: u8, event: &Toy) -> Action {
    let (sub, event) = (Sub::Channel(channel(n)), event.event());
    Action::Deliver {
        sub,
        event,
        lives: 0,
    }
}
