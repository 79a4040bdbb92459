//! Facts for the publisher.

use std::time::Duration;

use buzz_proto::ids::{JobId, Ticket};
use buzz_proto::publish::{Action, Body, Class, Command, Input, LatestKey, Mark, Publisher, Route};
use buzz_proto::relay::{BrokeCause, HttpAnswer, Receipt};
use buzz_proto::wire::{Draft, Reason};

use super::{Chaos, Dice, Known, relay};
use crate::toy::{self, Toy};

impl Chaos for Publisher {
    fn learn(action: &Action, known: &mut Known) {
        match action {
            Action::Sign { ticket, .. }
            | Action::Post { ticket, .. }
            | Action::Query { ticket, .. }
            | Action::Send { ticket, .. } => known.calls.push(ticket.0),
            Action::Abort { .. }
            | Action::Settle { .. }
            | Action::Outbox { .. }
            | Action::Ended
            | Action::Note(_)
            | Action::WakeAt(_) => {}
        }
    }

    fn draw(dice: &mut Dice<'_>, known: &Known) -> Input {
        let ticket = Ticket(dice.id(&known.calls));
        match dice.roll(16) {
            0 => Input::Tick,
            1 => Input::WallClock(dice.wall()),
            2..5 => Input::Command(submit(dice)),
            5 => Input::Command(react(dice)),
            6 => Input::Command(Command::Cancel {
                job: JobId(u64::from(dice.roll(32))),
            }),
            7..9 => Input::Signed {
                ticket,
                event: relay::event(dice).bytes(),
            },
            9 => Input::SignFailed { ticket },
            10 => Input::Answered {
                ticket,
                answer: relay::answer(dice),
            },
            11 => Input::Answered {
                ticket,
                answer: rows(dice),
            },
            12 => Input::Broke {
                ticket,
                cause: BrokeCause::TimedOut,
            },
            13 => Input::Receipt {
                ticket,
                receipt: receipt(dice),
            },
            14 => Input::Link {
                live: !dice.rarely(3),
            },
            _ if dice.rarely(32) => Input::Command(Command::Shutdown {
                grace: Duration::from_secs(9),
            }),
            _ => Input::Tick,
        }
    }
}

fn submit(dice: &mut Dice<'_>) -> Command {
    let draft = Draft {
        kind: 9,
        created_at: dice.wall(),
        tags: Vec::new(),
        content: "draft".to_owned(),
    };
    let latest = Class::Latest(LatestKey::Presence);
    Command::Submit {
        job: JobId(u64::from(dice.roll(32))),
        class: if dice.rarely(3) {
            latest
        } else {
            Class::Durable
        },
        route: if dice.rarely(3) {
            Route::Socket
        } else {
            Route::Post
        },
        body: if dice.rarely(2) {
            Body::Signed(relay::event(dice).event())
        } else {
            Body::SignWhenSent(draft)
        },
        ttl: dice
            .rarely(3)
            .then(|| Duration::from_secs(u64::from(dice.roll(100)))),
    }
}

fn react(dice: &mut Dice<'_>) -> Command {
    Command::React {
        message: toy::id(u64::from(dice.roll(4))),
        author: toy::ME,
        mark: match dice.roll(3) {
            0 => None,
            1 => Some(Mark::Seen),
            _ => Some(Mark::Waiting),
        },
    }
}

/// The answer to a question for an event: often none, sometimes one that may be meant.
fn rows(dice: &mut Dice<'_>) -> HttpAnswer {
    let event = Toy::new(u64::from(dice.roll(24)));
    let events = if dice.rarely(2) {
        vec![event]
    } else {
        Vec::new()
    };
    HttpAnswer {
        status: 200,
        retry_after: None,
        date: None,
        body: toy::events(&events),
    }
}

fn receipt(dice: &mut Dice<'_>) -> Receipt {
    match dice.roll(4) {
        0 => Receipt::NotSent,
        1 => Receipt::Unanswered,
        2 => Receipt::Answered {
            accepted: false,
            reason: Reason::new("rate-limited: slow down"),
        },
        _ => Receipt::Answered {
            accepted: true,
            reason: Reason::new(""),
        },
    }
}
