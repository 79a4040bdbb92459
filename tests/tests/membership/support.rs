//! A relay part that keeps a roster, and the relay that tells it.

use std::time::Duration;

use buzz_proto::ids::Ticket;
use buzz_proto::relay::{Action, ChannelKind, ChannelState, Config, Input, Relay, Sub, SubState};
use buzz_sim::relay::{URL, request_name, script};
use buzz_sim::script::Script;
use buzz_sim::toy::{self, Toy, channel};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Live, with membership confirmed and a first roster that names nothing.
pub(crate) fn settled() -> Script<Relay> {
    settled_with(Config::new(URL))
}

pub(crate) fn settled_with(config: Config) -> Script<Relay> {
    let mut relay = script(config);
    relay.live_with_auth();
    read(&mut relay, &[], &[]);
    relay.frame(toy::eose("membership-1")).orders();
    relay.notes();
    relay
}

/// Waits for the next roster read and answers it.
pub(crate) fn sweep(relay: &mut Script<Relay>, members: &[Toy]) {
    let ticket = next_query(relay);
    answer(relay, ticket, members, &[]);
}

/// Answers the roster read that was just asked for.
pub(crate) fn read(relay: &mut Script<Relay>, members: &[Toy], metadata: &[Toy]) {
    let ticket = query(relay);
    relay.written();
    answer(relay, ticket, members, metadata);
}

pub(crate) fn answer(relay: &mut Script<Relay>, ticket: Ticket, members: &[Toy], metadata: &[Toy]) {
    relay.found(ticket, members);
    if !members.is_empty() {
        let ticket = query(relay);
        relay.found(ticket, metadata);
    }
}

/// The ticket of the one query among the orders.
pub(crate) fn query(relay: &mut Script<Relay>) -> Ticket {
    let orders = relay.orders();
    let mut tickets = Vec::new();
    for action in &orders {
        if let Action::Query { ticket, .. } = action {
            tickets.push(*ticket);
        }
    }
    assert_eq!(tickets.len(), 1, "{}", relay.transcript());
    tickets[0]
}

/// Lets time pass until the roster is read.
pub(crate) fn next_query(relay: &mut Script<Relay>) -> Ticket {
    relay.orders();
    for _ in 0..200 {
        let conn = relay.conn();
        relay.input(Input::Pinged { conn }).run_for(SECOND);
        let orders = relay.timed_orders();
        if orders.iter().any(|(_, action)| is_query(action)) {
            relay.put_back(orders);
            return query(relay);
        }
    }
    relay.fail("no roster read in 200 s");
}

pub(crate) const fn is_query(action: &Action) -> bool {
    matches!(action, Action::Query { .. })
}

/// What was said of channels since the last look.
pub(crate) fn channels(relay: &mut Script<Relay>) -> Vec<Action> {
    let mut orders = confirm(relay);
    orders.retain(|action| matches!(action, Action::Channel { .. }));
    orders
}

/// The orders since the last look. What was asked for is confirmed.
pub(crate) fn confirm(relay: &mut Script<Relay>) -> Vec<Action> {
    let orders = relay.orders();
    relay.written();
    for action in &orders {
        if let Action::Send { text, .. } = action
            && let Some(name) = request_name(&String::from_utf8_lossy(text))
        {
            relay.frame(toy::eose(&name)).orders();
        }
    }
    orders
}

/// The first bytes of the channels that were refused since the last look.
pub(crate) fn refused(relay: &mut Script<Relay>) -> Vec<u8> {
    let mut refused = Vec::new();
    for order in confirm(relay) {
        if let Action::Report {
            sub: Sub::Channel(channel),
            state: SubState::Refused { .. },
        } = order
        {
            refused.push(channel.0[0]);
        }
    }
    refused
}

pub(crate) fn joined(n: u8, kind: ChannelKind) -> Action {
    let (channel, state) = (channel(n), ChannelState::Joined { kind });
    Action::Channel { channel, state }
}

pub(crate) fn left(n: u8) -> Action {
    let (channel, state) = (channel(n), ChannelState::Left);
    Action::Channel { channel, state }
}
