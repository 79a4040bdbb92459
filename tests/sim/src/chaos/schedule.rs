//! Facts for the scheduler.

use std::time::Duration;

use buzz_proto::ids::{JobId, TurnId};
use buzz_proto::publish::{Command as Job, Verdict};
use buzz_proto::relay::{ChannelKind, ChannelState, Sub};
use buzz_proto::schedule::{
    Action, Command, DownCause, FailureClass, Input, OpenCause, Scheduler, StopReason, Target,
    TurnEnd, Want, WorkerId,
};
use buzz_proto::wire::Excerpt;

use super::{Chaos, Dice, Known, relay};
use crate::toy::channel;

impl Chaos for Scheduler {
    fn learn(action: &Action, known: &mut Known) {
        match action {
            Action::Spawn { worker } => known.workers.push(*worker),
            Action::Start { turn, .. } => known.turns.push(turn.0),
            Action::Publish(Job::Submit { job, .. }) => known.jobs.push(job.0),
            Action::Publish(Job::React { .. } | Job::Cancel { .. } | Job::Shutdown { .. })
            | Action::Kill { .. }
            | Action::CancelTurn { .. }
            | Action::CloseSession { .. }
            | Action::Left { .. }
            | Action::Dispose { .. }
            | Action::Started { .. }
            | Action::ShutdownRequested
            | Action::Ended
            | Action::Note(_)
            | Action::WakeAt(_) => {}
        }
    }

    fn draw(dice: &mut Dice<'_>, known: &Known) -> Input {
        let turn = TurnId(dice.id(&known.turns));
        let place = channel(1 + dice.roll(3));
        match dice.roll(24) {
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
                cause: DownCause::Killed,
            },
            13..15 => Input::SessionOpened { turn },
            15 => Input::SessionFailed {
                turn,
                cause: OpenCause::Unknown,
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
            _ if dice.rarely(32) => Input::Command(Command::Shutdown {
                grace: Duration::from_secs(9),
            }),
            _ => Input::Tick,
        }
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
    let text = Excerpt::new("it broke");
    match dice.roll(4) {
        0 => TurnEnd::Cancelled,
        1 => TurnEnd::Failed {
            class: FailureClass::Transient,
            text,
        },
        _ => TurnEnd::Answered {
            reply: "x".repeat(usize::from(dice.roll(40))),
            stop: StopReason::EndTurn,
        },
    }
}
