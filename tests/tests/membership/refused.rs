//! Channels that the relay refuses for good: what that costs, and what makes it ask again.

use std::time::Duration;

use buzz_proto::relay::{Action, Config, Input, Relay};
use buzz_sim::relay::{URL, channel_sub, given, request_name, script, unaudited};
use buzz_sim::script::Script;
use buzz_sim::toy::{self, START, Toy, channel};

use crate::support::{SECOND, answer, is_query, query, settled_with};

const REFUSED: &str = "restricted: not a channel member";

/// The names of the channels' requests while time passes. The roster names channel 1 each time.
fn asked_within(relay: &mut Script<Relay>, span: Duration) -> Vec<String> {
    let end = relay.now().after(span);
    let mut names = Vec::new();
    loop {
        let orders = relay.orders();
        relay.written();
        for order in &orders {
            if let Action::Query { ticket, .. } = order {
                relay.put_back(vec![(relay.now(), order.clone())]);
                answer_roster(relay, *ticket, "stream");
            }
            if let Action::Send { text, .. } = order {
                names.extend(request_name(&String::from_utf8_lossy(text)));
            }
        }
        if relay.now() >= end {
            return names;
        }
        let conn = relay.conn();
        let step = end.saturating_since(relay.now()).min(5 * SECOND);
        relay.input(Input::Pinged { conn }).run_for(step);
    }
}

fn answer_roster(relay: &mut Script<Relay>, ticket: buzz_proto::ids::Ticket, kind: &str) {
    relay.orders();
    let described = Toy::metadata(2, channel(1)).tag(&["t", kind]);
    answer(relay, ticket, &[Toy::members(1, channel(1))], &[described]);
}

/// Channel 1 was refused.
fn refused() -> Script<Relay> {
    let mut relay = settled_with(unaudited(Config::new(URL)));
    relay.event("membership-1", &Toy::notice(9, 44_100, channel(1)));
    let ticket = query(&mut relay);
    answer_roster(&mut relay, ticket, "stream");
    relay.orders();
    relay.written();
    relay.frame(toy::closed(&channel_sub(1, 2), REFUSED));
    relay.orders();
    relay
}

fn refuse(relay: &mut Script<Relay>, n: u64) {
    relay
        .frame(toy::closed(&channel_sub(1, n), REFUSED))
        .orders();
}

#[test]
fn a_channel_that_is_refused_for_good_costs_one_request_another_after_ninety_seconds_then_one_an_hour()
 {
    let mut relay = refused();
    assert_eq!(asked_within(&mut relay, 89 * SECOND), Vec::<String>::new());
    assert_eq!(asked_within(&mut relay, SECOND), [channel_sub(1, 3)]);
    for n in 3..6 {
        refuse(&mut relay, n);
        assert_eq!(
            asked_within(&mut relay, 3599 * SECOND),
            Vec::<String>::new()
        );
        assert_eq!(asked_within(&mut relay, SECOND), [channel_sub(1, n + 1)]);
    }
}

#[test]
fn a_newer_notice_has_a_refused_channel_asked_for_at_once() {
    let mut relay = refused();
    let notice = Toy::notice(10, 44_100, channel(1)).dated(START.after(50 * SECOND));
    relay.event("membership-1", &notice);
    assert_eq!(asked_within(&mut relay, SECOND), [channel_sub(1, 3)]);
    refuse(&mut relay, 3);
    assert_eq!(asked_within(&mut relay, 89 * SECOND), Vec::<String>::new());
    assert_eq!(
        asked_within(&mut relay, SECOND),
        [channel_sub(1, 4)],
        "once more"
    );
}

#[test]
fn a_channel_that_becomes_something_else_is_asked_for_at_once() {
    let mut relay = refused();
    asked_within(&mut relay, 90 * SECOND);
    refuse(&mut relay, 3);
    loop {
        let conn = relay.conn();
        relay.input(Input::Pinged { conn }).run_for(SECOND);
        let orders = relay.timed_orders();
        if orders.iter().any(|(_, action)| is_query(action)) {
            relay.put_back(orders);
            break;
        }
    }
    let ticket = query(&mut relay);
    answer_roster(&mut relay, ticket, "dm");
    assert_eq!(asked_within(&mut relay, SECOND), [channel_sub(1, 4)]);
}

#[test]
fn other_channels_go_on_beside_one_that_is_refused() {
    let mut relay = script(unaudited(given(&[1, 2])));
    relay.live();
    relay.requested();
    relay.written();
    refuse(&mut relay, 1);
    relay.frame(toy::eose(&channel_sub(2, 2))).orders();
    relay.event(&channel_sub(2, 2), &Toy::mention(5, channel(2)));
    let orders = relay.orders();
    assert!(matches!(orders[..], [Action::Deliver { .. }]), "{orders:?}");
    assert!(relay.part().view().is_live);
}
