//! How orders of the relay part are carried out.

use buzz_proto::relay::{Action, BrokeCause, Disposal, HttpAnswer, Input, Relay, View};
use buzz_proto::time::UnixTime;
use bytes::Bytes;
use serde_json::Value;

use super::{Oblige, World};
use crate::toy::{self, ME, Toy, channel};

/// The numbers of AUTH events, from this on.
const AUTH: u64 = 1_000_000;
/// The numbers of roster rows.
const ROSTER: u64 = 900_000;

impl Oblige for Relay {
    fn greet(wall: UnixTime) -> Vec<Input> {
        vec![Input::WallClock(wall)]
    }

    fn is_sure(order: &Action) -> bool {
        matches!(order, Action::Deliver { .. })
    }

    fn oblige(order: Action, world: &mut World) -> Vec<Input> {
        let silence = world.silence;
        match order {
            Action::Connect { conn, .. } => {
                let text = toy::challenge(&conn.0.to_string());
                let connected = Input::Connected { conn, date: None };
                vec![connected, Input::Frame { conn, text }]
            }
            Action::Close { conn, .. } => vec![Input::Closed { conn, code: None }],
            Action::Send { conn, write, text } => {
                let written = Input::Written { write };
                let reply = reply(&text).map(|text| Input::Frame { conn, text });
                std::iter::once(written).chain(reply).collect()
            }
            Action::Ping { conn } => vec![Input::Pong { conn }],
            Action::SignAuth { ticket, .. } => {
                let event = Toy::new(AUTH + ticket.0).kind(22_242).author(ME).bytes();
                vec![Input::Signed { ticket, event }]
            }
            Action::Verify { ticket, .. } => {
                let genuine = true;
                vec![Input::Verified { ticket, genuine }]
            }
            Action::Query { ticket, .. } if silence.queries => {
                let cause = BrokeCause::Connection;
                vec![Input::Broke { ticket, cause }]
            }
            Action::Query { ticket, body } => {
                let answer = answer(rows(&body));
                vec![Input::Answered { ticket, answer }]
            }
            Action::Inform { .. } if silence.documents => Vec::new(),
            Action::Inform { ticket } => {
                let answer = answer(Bytes::from_static(b"{}"));
                vec![Input::Answered { ticket, answer }]
            }
            Action::Persist { ticket, .. } if silence.records => {
                vec![Input::PersistFailed { ticket }]
            }
            Action::Persist { ticket, .. } => vec![Input::Persisted { ticket }],
            Action::Deliver { event, .. } => {
                world.taken += 1;
                let taken = world.taken;
                let (event, how) = (event.id(), Disposal::Accepted);
                vec![Input::Disposed { event, how }, Input::Capacity { taken }]
            }
            Action::Abort { .. }
            | Action::Report { .. }
            | Action::Channel { .. }
            | Action::Receipt { .. }
            | Action::Link { .. }
            | Action::RelayKey { .. }
            | Action::Ended
            | Action::Note(_)
            | Action::WakeAt(_) => Vec::new(),
        }
    }

    fn unsettled(&self) -> Option<String> {
        unsettled(&self.view())
    }

    fn is_over(&self) -> bool {
        is_over(&self.view())
    }

    fn is_desertion(fact: &Input) -> bool {
        matches!(fact, Input::ConsumerGone)
    }
}

/// Whether nothing is wanted of it any more.
pub(super) const fn is_over(view: &View) -> bool {
    view.is_stopped || view.is_ended
}

/// What is still to be settled.
pub(super) fn unsettled(view: &View) -> Option<String> {
    let is_settled = view.is_live
        && view.subscriptions_live == view.subscriptions
        && view.verifying == 0
        && view.outbound == 0
        && view.lost == 0;
    (!is_settled).then(|| format!("{view:?}"))
}

/// What the relay says to a frame.
fn reply(text: &[u8]) -> Option<Bytes> {
    let frame: Vec<Value> = serde_json::from_slice(text).expect("a frame");
    let accept = |event: &Value| {
        let id = serde_json::from_value(event["id"].clone()).expect("an event has an id");
        toy::ok(id, true, "")
    };
    match frame[0].as_str() {
        Some("REQ") => frame[1].as_str().map(toy::eose),
        Some("EVENT" | "AUTH") => Some(accept(&frame[1])),
        _ => None,
    }
}

/// The agent is in one channel, and nobody ever said anything.
fn rows(body: &[u8]) -> Bytes {
    let place = channel(1);
    let asks_for = |kind: &str| body.windows(kind.len()).any(|part| part == kind.as_bytes());
    if asks_for("39002") {
        return toy::events(&[Toy::members(ROSTER, place)]);
    }
    if asks_for("39000") {
        return toy::events(&[Toy::metadata(ROSTER + 1, place)]);
    }
    toy::events(&[])
}

pub(super) const fn answer(body: Bytes) -> HttpAnswer {
    HttpAnswer {
        status: 200,
        retry_after: None,
        date: None,
        body,
    }
}
