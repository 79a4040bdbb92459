//! Scripts with audits in a word each.

use std::time::Duration;

use buzz_proto::ids::Ticket;
use buzz_proto::relay::{Action, Input, Relay, Sub};
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_sim::relay::{channel_sub, given, request_name, with_slots};
use buzz_sim::script::{Script, secs};
use buzz_sim::toy::{self, START, Toy, channel};
use serde_json::Value;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const DRIFT: Duration = Duration::from_secs(1080);
/// Between two audits of a subscription, at least and at most.
pub(crate) const PERIOD: (Duration, Duration) =
    (Duration::from_secs(480), Duration::from_secs(720));
/// After this every subscription is overdue for an audit.
pub(crate) const OVERDUE: Duration = Duration::from_secs(800);
/// No script waits for longer.
pub(crate) const PATIENCE: MonoTime = secs(4 * 3600);
/// Between two reads.
pub(crate) const PACE: Duration = Duration::from_secs(10);
pub(crate) const DOWN: Action = Action::Link { live: false };

/// A read of audits: when it was asked, and for what.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) at: MonoTime,
    pub(crate) ticket: Ticket,
    pub(crate) filters: Vec<Value>,
}

impl Read {
    /// The channels that are asked for, in order.
    pub(crate) fn channels(&self) -> Vec<u8> {
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
pub(crate) fn live(channels: &[u8]) -> Script<Relay> {
    let mut relay = with_slots(given(channels), 256);
    confirm(&mut relay, channels.len());
    relay
}

pub(crate) fn live_with_pages_of_two() -> Script<Relay> {
    let mut config = given(&[1]);
    config.limits.page = 2;
    let mut relay = with_slots(config, 256);
    confirm(&mut relay, 1);
    relay
}

/// Authenticates and confirms so many subscriptions.
pub(crate) fn confirm(relay: &mut Script<Relay>, count: usize) {
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
pub(crate) fn brought(relay: &mut Script<Relay>, dated: impl Fn(u64) -> u64) -> Vec<Toy> {
    let events: Vec<_> = (0..12).map(|n| mention(n, dated(n))).collect();
    for event in &events {
        relay.event(&channel_sub(1, 1), event);
        assert_eq!(relay.orders().len(), 1);
    }
    events
}

pub(crate) fn mention(n: u64, after: u64) -> Toy {
    Toy::mention(n, channel(1)).dated(START.after(Duration::from_secs(after)))
}

/// Lets time pass to the next deadline, with a peer that gives signs of life.
pub(crate) fn step(relay: &mut Script<Relay>) {
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
pub(crate) fn next_read(relay: &mut Script<Relay>) -> Read {
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

pub(crate) fn take_read(orders: &mut Vec<(MonoTime, Action)>) -> Option<Read> {
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
pub(crate) fn overdue_read(relay: &mut Script<Relay>) -> Read {
    let conn = relay.conn();
    let end = relay.now().after(OVERDUE);
    relay.sleep_until(end).input(Input::Pinged { conn });
    next_read(relay)
}

/// Lets time pass until a page is asked for over the socket: its name and its filter.
pub(crate) fn next_request(relay: &mut Script<Relay>) -> (String, Value) {
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
pub(crate) fn answer(relay: &mut Script<Relay>, ticket: Ticket, events: &[Toy]) -> Vec<Action> {
    relay.answered(ticket, 200, toy::events(events));
    let mut delivered = Vec::new();
    for (ticket, _) in relay.asked_to_verify() {
        relay.verified(ticket, true);
        delivered.extend(relay.orders());
    }
    delivered
}

/// The next read is answered with these events: what is delivered.
pub(crate) fn audit(relay: &mut Script<Relay>, events: &[Toy]) -> Vec<Action> {
    let read = next_read(relay);
    answer(relay, read.ticket, events)
}

/// Lets time pass until frames are sent.
pub(crate) fn missed(relay: &mut Script<Relay>) -> Vec<String> {
    loop {
        let sent = relay.sent();
        if !sent.is_empty() {
            return sent;
        }
        step(relay);
    }
}

/// The frames that are sent exactly after a span.
pub(crate) fn missed_after(relay: &mut Script<Relay>, span: Duration) -> Vec<String> {
    relay.alive_for(span).tick().sent()
}

/// Loses the socket and opens another: the `since` of the request of channel 1.
pub(crate) fn reconnect(relay: &mut Script<Relay>) -> UnixTime {
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

pub(crate) fn frame_text(order: &Action) -> Option<String> {
    let Action::Send { text, .. } = order else {
        return None;
    };
    Some(String::from_utf8_lossy(text).into_owned())
}

pub(crate) fn deliver(n: u8, event: &Toy) -> Action {
    let (sub, event) = (Sub::Channel(channel(n)), event.event());
    Action::Deliver {
        sub,
        event,
        lives: 0,
    }
}
