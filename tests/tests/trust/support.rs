//! A relay part whose verdicts are computed as an adapter does, and people who can sign.

use buzz_adapters::verify::is_genuine;
use buzz_dev_relay::client::tag;
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::event::Event as Signed;
use buzz_proto::ids::Ticket;
use buzz_proto::relay::{Action, Config, Relay, Sub};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Event;
use buzz_sim::relay::{channel_sub, given, script};
use buzz_sim::script::Script;
use buzz_sim::toy::{self, ME, START, Toy, channel};
use bytes::Bytes;
use serde_json::json;

/// Where a live event of the channel comes.
pub(crate) fn sub() -> String {
    channel_sub(1, 1)
}

/// An authenticated connection that has read what is stored of its one channel: nothing.
pub(crate) fn live() -> Script<Relay> {
    live_as(given(&[1]))
}

pub(crate) fn live_as(config: Config) -> Script<Relay> {
    let mut relay = script(config);
    relay.live_with_auth();
    relay.confirmed(&[sub()]);
    relay
}

/// Somebody's mention of the agent, signed.
pub(crate) fn mention(author: &Keys, words: &str, dated: UnixTime) -> Signed {
    let tags = vec![tag("h", &channel(1).to_string()), tag("p", &ME.to_string())];
    author.sign_event(9, tags, words, dated.0)
}

pub(crate) fn frame(sub: &str, event: &Signed) -> Bytes {
    json!(["EVENT", sub, event]).to_string().into()
}

pub(crate) fn decoded(event: &Signed) -> Event {
    Event::decode(json!(event).to_string().into()).expect("it is well-formed")
}

/// The events among these orders that are handed over.
pub(crate) fn delivered(orders: Vec<Action>) -> Vec<Event> {
    let events = orders.into_iter().filter_map(|order| {
        let Action::Deliver { event, .. } = order else {
            return None;
        };
        Some(event)
    });
    events.collect()
}

/// Takes the orders, and answers each verification among them as an adapter does.
pub(crate) fn judged(relay: &mut Script<Relay>) -> Vec<Action> {
    let mut others = Vec::new();
    loop {
        let orders = relay.orders();
        if orders.is_empty() {
            return others;
        }
        let mut asked = Vec::new();
        for order in orders {
            if let Action::Verify { ticket, event } = order {
                asked.push((ticket, event));
            } else {
                others.push(order);
            }
        }
        for (ticket, event) in asked {
            relay.verified(ticket, is_genuine(event.raw()));
            others.extend(relay.orders());
        }
    }
}

/// The tickets of the verifications among the orders, which stay without an answer. What else was
/// ordered stays to be looked at.
pub(crate) fn tickets(relay: &mut Script<Relay>) -> Vec<(Ticket, Event)> {
    let (mut others, mut asked) = (relay.timed_orders(), Vec::new());
    others.retain(|(_, order)| {
        if let Action::Verify { ticket, event } = order {
            asked.push((*ticket, event.clone()));
            return false;
        }
        true
    });
    relay.put_back(others);
    asked
}

pub(crate) fn deliver(event: &Toy) -> Action {
    Action::Deliver {
        sub: Sub::Channel(channel(1)),
        event: event.event(),
        lives: 0,
    }
}

/// A mention of the agent by nobody in particular.
pub(crate) fn toy(n: u64) -> Toy {
    Toy::mention(n, channel(1)).dated(START)
}

/// The same id with other words.
pub(crate) fn forged(n: u64, words: &str) -> Toy {
    toy(n).content(words)
}

pub(crate) fn comes(relay: &mut Script<Relay>, event: &Toy) {
    relay.frame(toy::event_frame(&sub(), event));
}
