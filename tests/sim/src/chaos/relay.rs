//! Facts for the relay part.

use std::time::Duration;

use buzz_proto::ids::{ConnId, Ticket, WriteId};
use buzz_proto::relay::{
    Action, BrokeCause, Command, ConnectCause, Disposal, HttpAnswer, Input, Relay, Sub,
};
use bytes::Bytes;

use super::{Chaos, Dice, Known};
use crate::toy::{self, Toy, channel, key};

/// What relays say, and what they might.
const REASONS: [&str; 10] = [
    "",
    "rate-limited: quota exceeded; retry in 3s",
    "rate-limited",
    "auth-required: who are you",
    "auth-required: already authenticated",
    "restricted: not a channel member",
    "error: database",
    "duplicate: have it",
    "blocked: banned",
    "no reason at all",
];

/// What no relay should say.
const GARBAGE: [&[u8]; 9] = [
    b"",
    b"[]",
    b"\xff\xfe",
    b"[\"EVENT\"]",
    b"[\"EOSE\",\"ch-zz-1\"]",
    b"[\"OK\",17,\"yes\"]",
    b"[\"BUZZ_SYNC_REQUIRED\",\"backpressure\"]",
    b"[[[[[[[[[[[[[[[[",
    b"{\"id\":1e999}",
];

impl Chaos for Relay {
    fn learn(action: &Action, known: &mut Known) {
        match action {
            Action::Connect { conn, .. } => known.conns.push(conn.0),
            Action::Send { write, text, .. } => {
                known.writes.push(write.0);
                let text = String::from_utf8_lossy(text);
                let rest = text.strip_prefix("[\"REQ\",\"");
                let name = rest.and_then(|rest| rest.split_once('"'));
                known.subs.extend(name.map(|(name, _)| name.to_owned()));
            }
            Action::SignAuth { ticket, .. }
            | Action::Verify { ticket, .. }
            | Action::Query { ticket, .. }
            | Action::Inform { ticket }
            | Action::Persist { ticket, .. } => known.tickets.push(ticket.0),
            Action::Close { .. }
            | Action::Ping { .. }
            | Action::Abort { .. }
            | Action::Deliver { .. }
            | Action::Report { .. }
            | Action::Channel { .. }
            | Action::Receipt { .. }
            | Action::RelayKey { .. }
            | Action::Link { .. }
            | Action::Ended
            | Action::Note(_)
            | Action::WakeAt(_) => {}
        }
    }

    fn draw(dice: &mut Dice<'_>, known: &Known) -> Input {
        let conn = ConnId(dice.id(&known.conns));
        let ticket = Ticket(dice.id(&known.tickets));
        let write = WriteId(dice.id(&known.writes));
        match dice.roll(32) {
            0 => Input::Tick,
            1 => Input::WallClock(dice.wall()),
            2..6 => Input::Connected {
                conn,
                date: dice.rarely(3).then(|| dice.wall()),
            },
            6 if dice.rarely(2) => Input::Tick,
            6 => Input::ConnectFailed {
                conn,
                cause: cause(dice),
            },
            7 if !dice.rarely(4) => Input::WallClock(dice.wall()),
            7 if dice.rarely(3) => Input::Persisted { ticket },
            7 if dice.rarely(3) => Input::PersistFailed { ticket },
            7 => Input::Closed {
                conn,
                code: dice
                    .pick(&[None, Some(1006), Some(1008), Some(1012)])
                    .flatten(),
            },
            8..17 => Input::Frame {
                conn,
                text: frame(dice, known),
            },
            17..20 => Input::Written { write },
            20 => Input::WriteFailed {
                write,
                sent: dice.rarely(3),
            },
            21..23 => Input::Signed {
                ticket,
                event: event(dice).bytes(),
            },
            23 if dice.rarely(4) => Input::SignFailed { ticket },
            23..26 => Input::Verified {
                ticket,
                genuine: !dice.rarely(4),
            },
            26 | 27 => Input::Answered {
                ticket,
                answer: answer(dice),
            },
            28 => Input::Broke {
                ticket,
                cause: BrokeCause::Connection,
            },
            29 => consumer(dice),
            30 if dice.rarely(2) => Input::Pong { conn },
            30 => Input::Pinged { conn },
            _ => Input::Command(command(dice)),
        }
    }
}

/// An HTTP answer.
pub(super) fn answer(dice: &mut Dice<'_>) -> HttpAnswer {
    let status = [200, 200, 200, 404, 401, 403, 429, 500, 503];
    let retry_after: [Option<&[u8]>; 4] = [None, None, Some(b"7"), Some(b"soon")];
    let rows = [Toy::members(1, channel(1)), Toy::metadata(2, channel(1))];
    let bodies = [
        toy::events(&[]),
        toy::events(&rows[..1]),
        toy::events(&rows),
        Bytes::from_static(b"{\"accepted\":true}"),
        Bytes::from_static(b"{\"limitation\":{\"max_limit\":2}}"),
        format!(r#"{{"self":"{}"}}"#, key(1 + dice.roll(2))).into(),
        Bytes::from_static(b"{\"error\":\"rate-limited: retry in 2s\"}"),
        Bytes::from_static(b"<html>"),
    ];
    HttpAnswer {
        status: dice.pick(&status).unwrap_or(200),
        retry_after: dice.pick(&retry_after).flatten().map(Bytes::from_static),
        date: dice.rarely(3).then(|| dice.wall()),
        body: dice.pick(&bodies).unwrap_or_default(),
    }
}

/// An event, often one that came before.
pub(super) fn event(dice: &mut Dice<'_>) -> Toy {
    let n = u64::from(dice.roll(24));
    let place = channel(1 + dice.roll(3));
    let event = match dice.roll(8) {
        0 => Toy::notice(n, 44_100, place),
        1 => Toy::notice(n, 44_101, place),
        2 => Toy::new(n),
        _ => Toy::mention(n, place),
    };
    event.dated(dice.wall())
}

fn cause(dice: &mut Dice<'_>) -> ConnectCause {
    let causes = [
        ConnectCause::Transport,
        ConnectCause::Resolve,
        ConnectCause::Protocol,
        ConnectCause::Certificate,
    ];
    if dice.rarely(64) {
        return ConnectCause::Url;
    }
    dice.pick(&causes).unwrap_or(ConnectCause::Transport)
}

fn frame(dice: &mut Dice<'_>, known: &Known) -> Bytes {
    let sub = dice
        .pick_recent(&known.subs)
        .unwrap_or_else(|| "page-1".to_owned());
    let reason = dice.pick(&REASONS).unwrap_or_default();
    match dice.roll(12) {
        0 => toy::challenge(reason),
        1 => toy::notice(reason),
        2 | 3 => toy::ok(toy::id(u64::from(dice.roll(24))), dice.rarely(2), reason),
        4 | 5 => toy::eose(&sub),
        6 => toy::closed(&sub, reason),
        7 => Bytes::from_static(dice.pick(&GARBAGE).unwrap_or_default()),
        8 => toy::event_frame(&sub, &event(dice)),
        _ => toy::event_frame(&sub, &fitting(dice, &sub)),
    }
}

/// An event of the channel that a subscription names.
fn fitting(dice: &mut Dice<'_>, sub: &str) -> Toy {
    let place = sub.get(3..39).and_then(|uuid| uuid.parse().ok());
    let Some(place) = place else {
        return event(dice);
    };
    Toy::mention(u64::from(dice.roll(24)), place).dated(dice.wall())
}

fn consumer(dice: &mut Dice<'_>) -> Input {
    let event = toy::id(u64::from(dice.roll(24)));
    match dice.roll(6) {
        0 if dice.rarely(16) => Input::ConsumerGone,
        0 | 1 => Input::Capacity {
            taken: u64::from(dice.roll(64)),
        },
        2 => Input::Left {
            sub: Sub::Channel(channel(dice.roll(3))),
            count: u32::from(dice.roll(9)),
        },
        3 => Input::Started {
            events: vec![event],
            target: event,
        },
        n => Input::Disposed {
            event,
            how: if n == 4 {
                Disposal::Accepted
            } else {
                Disposal::RefusedForNow
            },
        },
    }
}

fn command(dice: &mut Dice<'_>) -> Command {
    let channel = channel(1 + dice.roll(6));
    match dice.roll(8) {
        0 | 1 => Command::Subscribe {
            channel,
            interest: None,
            floor: dice.rarely(2).then(|| dice.wall()),
        },
        2 => Command::Unsubscribe { channel },
        3 => Command::Reconnect,
        4 if dice.rarely(8) => Command::Shutdown {
            grace: Duration::from_secs(5),
        },
        _ => Command::Send {
            ticket: Ticket(u64::from(dice.roll(12))),
            durable: dice.rarely(2),
            event: event(dice).bytes(),
        },
    }
}
