//! EVENTs on the socket: each gets exactly one receipt.

use std::time::Duration;

use buzz_proto::ids::Ticket;
use buzz_proto::note::{Note, Quota};
use buzz_proto::relay::{Action, Command, Input, Receipt, Relay};
use buzz_proto::wire::Reason;
use buzz_sim::relay::{given, script};
use buzz_sim::script::Script;
use buzz_sim::toy::{self, Toy};

const SECOND: Duration = Duration::from_secs(1);
const DOWN: Action = Action::Link { live: false };

#[test]
fn an_ok_is_the_receipt_whatever_it_says() {
    for (accepted, text) in [
        (true, ""),
        (true, "duplicate: have it"),
        (false, "duplicate: have it"),
        (false, "invalid: too long"),
        (false, "restricted: not a channel member"),
    ] {
        let mut relay = script(given(&[]));
        relay.live();
        send(&mut relay, 1);
        let frame = format!("[\"EVENT\",{}]", Toy::new(1).json());
        relay.expect_sent([&frame]).written();
        relay.frame(toy::ok(toy::id(1), accepted, text));
        relay.expect([answered(1, accepted, text)]);
        relay.frame(toy::ok(toy::id(1), accepted, text)).expect([]);
        assert_eq!(relay.part().view().outbound, 0);
    }
}

#[test]
fn answers_are_matched_by_id_in_any_order() {
    let mut relay = script(given(&[]));
    relay.live();
    for n in 1..4 {
        send(&mut relay, n);
        relay.sent();
    }
    relay.written();
    for n in [2, 3, 1] {
        relay.frame(toy::ok(toy::id(n), true, ""));
        relay.expect([answered(n, true, "")]);
    }
}

#[test]
fn an_event_that_is_withdrawn_has_no_receipt_whether_it_has_left_or_not() {
    let mut relay = script(given(&[]));
    relay.live();
    for n in 1..=9 {
        send(&mut relay, n);
    }
    assert_eq!(relay.sent().len(), 8, "one waits for the bucket");
    relay.written();
    for n in [1, 9, 10] {
        let ticket = Ticket(n);
        relay.command(Command::Withdraw { ticket }).expect([]);
    }
    assert_eq!(relay.part().view().outbound, 8, "what has left stays");
    relay.frame(toy::ok(toy::id(1), true, "")).expect([]);
    assert_eq!(relay.part().view().outbound, 7);
}

#[test]
fn the_end_waits_for_receipts_but_not_for_one_that_is_not_wanted() {
    let mut relay = script(given(&[]));
    relay.live();
    for n in 1..=2 {
        send(&mut relay, n);
        relay.sent();
    }
    relay.written();
    let ticket = Ticket(1);
    relay.command(Command::Withdraw { ticket }).expect([]);
    let grace = 30 * SECOND;
    relay.command(Command::Shutdown { grace }).expect([]);
    relay.frame(toy::ok(toy::id(2), true, ""));
    let orders = relay.orders();
    assert_eq!(orders.first(), Some(&answered(2, true, "")));
    assert_eq!(orders.last(), Some(&Action::Ended), "{orders:?}");
}

#[test]
fn without_a_live_link_nothing_is_sent_and_that_is_said_at_once() {
    let mut relay = script(given(&[]));
    relay.tick().orders();
    send(&mut relay, 1);
    relay.expect([receipt(1, Receipt::NotSent)]);
    relay.connected();
    send(&mut relay, 2);
    relay.expect([receipt(2, Receipt::NotSent)]);
}

#[test]
fn an_event_that_is_none_is_not_sent() {
    let mut relay = script(given(&[]));
    relay.live();
    let (ticket, event) = (Ticket(1), "nonsense".into());
    relay.command(Command::Send {
        ticket,
        durable: true,
        event,
    });
    relay.expect([receipt(1, Receipt::NotSent)]);
}

#[test]
fn an_event_without_an_answer_is_settled_after_fifteen_seconds() {
    let mut relay = script(given(&[]));
    relay.live();
    send(&mut relay, 1);
    relay.sent();
    relay.written().quiet_for(15 * SECOND).tick();
    relay.expect([receipt(1, Receipt::Unanswered)]);
    relay.frame(toy::ok(toy::id(1), true, "")).expect([]);
}

#[test]
fn at_a_disconnect_what_left_is_unanswered_and_what_waited_is_not_sent() {
    let mut relay = script(given(&[]));
    relay.live();
    for n in 1..10 {
        send(&mut relay, n);
    }
    assert_eq!(relay.sent().len(), 8);
    relay.written().closed(None);
    let mut orders = relay.orders();
    assert_eq!(orders.remove(0), DOWN);
    let expected: Vec<_> = (1..10)
        .map(|n| match n {
            9 => receipt(n, Receipt::NotSent),
            _ => receipt(n, Receipt::Unanswered),
        })
        .collect();
    assert_eq!(orders, expected);
}

#[test]
fn a_frame_of_which_nothing_left_is_not_sent() {
    let mut relay = script(given(&[]));
    relay.live();
    send(&mut relay, 1);
    relay.sent();
    let write = relay.unanswered_writes()[0];
    relay.input(Input::WriteFailed { write, sent: false });
    relay.expect([receipt(1, Receipt::NotSent)]);
}

#[test]
fn a_refusal_for_the_rate_is_a_receipt_and_shuts_the_gate_of_messages() {
    let mut relay = script(given(&[]));
    relay.live();
    send(&mut relay, 1);
    relay.sent();
    relay.written().notes();
    let text = "rate-limited: quota exceeded; retry in 20s";
    relay.frame(toy::ok(toy::id(1), false, text));
    relay.expect([answered(1, false, text)]);
    let wait = throttled(&mut relay);
    assert!(
        wait >= 20 * SECOND + SECOND / 2 && wait <= 24 * SECOND,
        "{wait:?}"
    );
    send(&mut relay, 2);
    relay.quiet_for(wait).tick();
    assert_eq!(relay.sent().len(), 1);
}

#[test]
fn a_long_hint_leaves_subscriptions_alone_and_a_short_one_does_not() {
    for (text, stays_open) in [
        ("rate-limited: quota exceeded; retry in 20s", true),
        ("rate-limited: quota exceeded; retry in 5s", false),
        ("rate-limited: slow down", false),
    ] {
        let mut relay = script(given(&[]));
        relay.live();
        send(&mut relay, 1);
        relay.sent();
        relay
            .written()
            .frame(toy::ok(toy::id(1), false, text))
            .orders();
        relay.subscribe(toy::channel(1));
        assert_eq!(relay.sent().len(), usize::from(stays_open), "{text}");
    }
}

#[test]
fn a_notice_of_the_rate_names_no_event_and_takes_all_unanswered_back() {
    let mut relay = script(given(&[]));
    relay.live();
    for n in 1..3 {
        send(&mut relay, n);
        relay.sent();
    }
    relay.written().notes();
    relay.frame(toy::notice("rate-limited: retry in 9s"));
    relay.expect([
        receipt(1, Receipt::Unanswered),
        receipt(2, Receipt::Unanswered),
    ]);
    let wait = throttled(&mut relay);
    send(&mut relay, 3);
    relay.quiet_for(wait).tick();
    assert_eq!(relay.sent().len(), 1);
}

#[test]
fn events_keep_below_the_quota_of_messages_before_being_told() {
    let mut relay = script(given(&[]));
    relay.live();
    for n in 0..60 {
        send(&mut relay, n);
    }
    assert_eq!(relay.sent().len(), 8);
    let mut sent = 8;
    for _ in 0..55 {
        relay.written();
        for n in 0..sent {
            relay.frame(toy::ok(toy::id(n), true, "")).orders();
        }
        relay.run_for(SECOND);
        sent += relay
            .orders()
            .iter()
            .filter(|action| matches!(action, Action::Send { .. }))
            .count() as u64;
    }
    assert!((45..=55).contains(&sent), "{sent}");
}

#[test]
fn an_event_beyond_the_limit_is_not_sent() {
    let mut config = given(&[]);
    config.limits.outbound_max = 2;
    let mut relay = script(config);
    relay.live();
    for n in 1..3 {
        send(&mut relay, n);
        relay.sent();
    }
    send(&mut relay, 3);
    relay.expect([receipt(3, Receipt::NotSent)]);
}

fn send(relay: &mut Script<Relay>, n: u64) {
    let waiting = relay.timed_orders();
    let (ticket, event) = (Ticket(n), Toy::new(n).bytes());
    relay.command(Command::Send {
        ticket,
        durable: true,
        event,
    });
    relay.put_back(waiting);
}

fn receipt(n: u64, receipt: Receipt) -> Action {
    let ticket = Ticket(n);
    Action::Receipt { ticket, receipt }
}

fn answered(n: u64, accepted: bool, text: &str) -> Action {
    let reason = Reason::new(text);
    receipt(n, Receipt::Answered { accepted, reason })
}

/// The wait of the one throttle note.
fn throttled(relay: &mut Script<Relay>) -> Duration {
    let notes = relay.notes();
    let [
        Note::Throttled {
            quota: Quota::Messages,
            wait,
            ..
        },
    ] = notes[..]
    else {
        panic!("expected one throttle note: {notes:?}");
    };
    wait
}
