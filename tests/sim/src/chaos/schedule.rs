//! Facts for the scheduler.

use std::time::Duration;

use buzz_proto::ids::{JobId, Ticket, TurnId};
use buzz_proto::publish::{Command as Job, Verdict};
use buzz_proto::relay::{BrokeCause, ChannelKind, ChannelState, HttpAnswer, Sub};
use buzz_proto::schedule::{
    Action, Command, DownCause, FailureClass, Input, OpenCause, Scheduler, StopReason, Target,
    TurnEnd, Want, WorkerId,
};
use buzz_proto::wire::Excerpt;

use super::{Chaos, Dice, Known, relay};
use crate::toy::{self, Toy, channel, key};

impl Chaos for Scheduler {
    fn learn(action: &Action, known: &mut Known) {
        match action {
            Action::Spawn { worker } => known.workers.push(*worker),
            Action::Start { turn, .. } => known.turns.push(turn.0),
            Action::Publish(Job::Submit { job, .. }) => known.jobs.push(job.0),
            Action::Query { ticket, .. } | Action::Verify { ticket, .. } => {
                known.questions.push(ticket.0);
            }
            Action::Publish(Job::React { .. } | Job::Cancel { .. } | Job::Shutdown { .. })
            | Action::Kill { .. }
            | Action::CancelTurn { .. }
            | Action::CloseSession { .. }
            | Action::Left { .. }
            | Action::Dispose { .. }
            | Action::Started { .. }
            | Action::Abort { .. }
            | Action::ShutdownRequested
            | Action::Ended
            | Action::Note(_)
            | Action::WakeAt(_) => {}
        }
    }

    fn draw(dice: &mut Dice<'_>, known: &Known) -> Input {
        let turn = TurnId(dice.id(&known.turns));
        let place = channel(1 + dice.roll(3));
        match dice.roll(32) {
            0 => Input::Tick,
            1 => Input::WallClock(dice.wall()),
            2..7 => Input::Arrived {
                sub: Sub::Channel(place),
                event: relay::event(dice).event(),
                lives: u32::from(dice.roll(5)),
            },
            7 => Input::Channel {
                channel: place,
                state: state(dice),
            },
            8 => Input::Link {
                live: !dice.rarely(3),
            },
            9..12 => Input::WorkerUp {
                worker: worker(dice, known),
            },
            12 => Input::WorkerDown {
                worker: worker(dice, known),
                cause: down_cause(dice),
            },
            13..15 => Input::SessionOpened { turn },
            15 => Input::SessionFailed {
                turn,
                cause: open_cause(dice),
            },
            16 => Input::Progressed { turn },
            17..20 => Input::Finished {
                turn,
                end: end(dice),
            },
            20..22 => Input::Settled {
                job: JobId(dice.id(&known.jobs)),
                verdict: dice
                    .pick(&[Verdict::Stored, Verdict::Stored, Verdict::Expired])
                    .unwrap_or(Verdict::Stored),
            },
            22 => Input::Command(Command::Control {
                target: Target::Channel(place),
                want: dice
                    .pick(&[
                        Want::Run,
                        Want::Stop,
                        Want::StopAndDrop,
                        Want::StopAndRotate,
                    ])
                    .unwrap_or_default(),
            }),
            23..31 => told(dice, known),
            _ if dice.rarely(32) => Input::Command(Command::Shutdown {
                grace: Duration::from_secs(9),
            }),
            _ => Input::Tick,
        }
    }
}

/// What the other parts tell, and answers to questions.
fn told(dice: &mut Dice<'_>, known: &Known) -> Input {
    let ticket = Ticket(dice.id(&known.questions));
    match dice.roll(8) {
        0 => Input::Outbox {
            is_half_full: dice.rarely(2),
        },
        1 => Input::RelayKey {
            key: dice.rarely(2).then(|| key(0xb2 + dice.roll(2))),
        },
        2..4 => Input::Answered {
            ticket,
            answer: rows(dice),
        },
        4 => Input::Answered {
            ticket,
            answer: relay::answer(dice),
        },
        5 => Input::Broke {
            ticket,
            cause: dice
                .pick(&[BrokeCause::Connection, BrokeCause::TimedOut])
                .unwrap_or(BrokeCause::Connection),
        },
        6 => Input::Verified {
            ticket,
            genuine: !dice.rarely(3),
        },
        _ => Input::Command(Command::Renew),
    }
}

/// What was said before, and whose agent the author is.
fn rows(dice: &mut Dice<'_>) -> HttpAnswer {
    let owner = key(0xb2 + dice.roll(2)).to_string();
    let profile = Toy::new(90)
        .kind(0)
        .tag(&["auth", &owner, "", &"0".repeat(128)]);
    let said = Toy::mention(u64::from(dice.roll(24)), channel(1 + dice.roll(3)));
    let rows = [profile, said];
    let shown = usize::from(dice.roll(3));
    HttpAnswer {
        status: 200,
        retry_after: None,
        date: None,
        body: toy::events(rows.get(..shown).unwrap_or_default()),
    }
}

fn worker(dice: &mut Dice<'_>, known: &Known) -> WorkerId {
    let recent = known.workers.len().saturating_sub(4);
    let recent = known.workers.get(recent..).unwrap_or_default();
    dice.pick(recent).unwrap_or_else(|| WorkerId {
        slot: u16::from(dice.roll(4)),
        incarnation: u32::from(dice.roll(4)),
    })
}

fn state(dice: &mut Dice<'_>) -> ChannelState {
    let states = [
        ChannelState::Joined {
            kind: ChannelKind::Stream,
        },
        ChannelState::Joined {
            kind: ChannelKind::Direct,
        },
        ChannelState::Left,
    ];
    dice.pick(&states).unwrap_or(ChannelState::Left)
}

fn end(dice: &mut Dice<'_>) -> TurnEnd {
    match dice.roll(5) {
        0 => TurnEnd::Cancelled,
        1 | 2 => TurnEnd::Failed {
            class: class(dice),
            text: broken(),
        },
        _ => TurnEnd::Answered {
            reply: "x".repeat(usize::from(dice.roll(40))),
            stop: dice
                .pick(&[StopReason::EndTurn, StopReason::MaxTokens])
                .unwrap_or(StopReason::EndTurn),
        },
    }
}

fn class(dice: &mut Dice<'_>) -> FailureClass {
    match dice.roll(7) {
        0 => FailureClass::UsageLimit { until: None },
        1 => FailureClass::UsageLimit {
            until: Some(dice.wall()),
        },
        2 => FailureClass::NeedsHuman,
        3 => FailureClass::SessionGone,
        4 => FailureClass::Protocol,
        _ => FailureClass::Transient,
    }
}

fn down_cause(dice: &mut Dice<'_>) -> DownCause {
    let text = broken();
    match dice.roll(6) {
        0 => DownCause::CannotStart { text },
        1 => DownCause::NoHandshake { text },
        2 => DownCause::Protocol { text },
        3 => DownCause::Killed,
        n => DownCause::Exited {
            code: (n == 4).then_some(1),
            text,
        },
    }
}

fn open_cause(dice: &mut Dice<'_>) -> OpenCause {
    if dice.rarely(2) {
        return OpenCause::Refused { text: broken() };
    }
    OpenCause::Unknown
}

fn broken() -> Excerpt {
    Excerpt::new("it broke")
}
