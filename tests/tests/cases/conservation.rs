//! Reports of accepted events that vanished: whatever happens, each has one outcome, and it is told.

use std::time::Duration;

use buzz_proto::note::Note;
use buzz_proto::publish::Verdict;
use buzz_proto::relay::{ChannelKind, ChannelState};
use buzz_proto::schedule::{Action, Command, FailureClass, Input, OpenCause, TurnEnd, Want};
use buzz_proto::wire::Excerpt;
use buzz_sim::toy::{START, channel};

use crate::crew::{ANNE, BERT, CARA, Conduct, Crew, ROOM, settings, workers};
use crate::player::{Dice, Stage};

const SEEDS: u64 = 60;
const STEPS: u64 = 250;
const ROOTS: [u64; 4] = [900, 901, 902, 903];
const PEOPLE: [u8; 3] = [ANNE, BERT, CARA];

fn pick<T: Copy>(dice: &mut Dice, all: &[T]) -> T {
    all[dice.roll(all.len())]
}

fn class(dice: &mut Dice) -> FailureClass {
    let until = Some(START.after(Duration::from_secs(40 * dice.roll(100) as u64)));
    let all = [
        FailureClass::Transient,
        FailureClass::Transient,
        FailureClass::SessionGone,
        FailureClass::Protocol,
        FailureClass::NeedsHuman,
        FailureClass::UsageLimit { until },
    ];
    pick(dice, &all)
}

/// One of the events that workers have, if any.
fn at_work(crew: &Crew, dice: &mut Dice) -> u64 {
    let all = crew.at_work();
    if all.is_empty() { 0 } else { pick(dice, &all) }
}

/// Someone does something.
fn step(crew: &mut Crew, dice: &mut Dice, n: u64) {
    let some = at_work(crew, dice);
    match dice.roll(24) {
        0..5 => crew.say_in(n, pick(dice, &ROOTS)),
        5..8 => crew.say(n, pick(dice, &PEOPLE)),
        8..11 => crew.answers(some),
        11 | 12 => {
            let class = class(dice);
            crew.fails(some, class);
        }
        13 => crew.exits(u16::try_from(dice.roll(3)).expect("a slot")),
        14 => {
            let want = [Want::Stop, Want::StopAndDrop, Want::StopAndRotate];
            let place = pick(dice, &[ROOM, ANNE, BERT]);
            crew.control(place, pick(dice, &want));
        }
        15 => crew.lives(some),
        16 => crew.ends_late(some.max(1), TurnEnd::Cancelled),
        17 => crew.opens = pick(dice, &[Conduct::Works, Conduct::Fails, Conduct::ByHand]),
        18 => crew.cancels = pick(dice, &[Conduct::Works, Conduct::ByHand]),
        19 => {
            let text = Excerpt::new("busy");
            let cause = pick(dice, &[0, 1]);
            let refused = OpenCause::Refused { text };
            crew.not_opened(
                some,
                if cause == 0 {
                    refused
                } else {
                    OpenCause::Unknown
                },
            );
        }
        20 if dice.roll(4) == 0 => rejoin(crew),
        20 => crew.opened(some),
        21 if dice.roll(2) == 0 => around(crew, dice),
        21 => crew.run_for(Duration::from_secs(dice.roll(900) as u64)),
        _ => crew.run_for(Duration::from_millis(dice.roll(9000) as u64)),
    }
}

/// Something changes around the workers.
fn around(crew: &mut Crew, dice: &mut Dice) {
    match dice.roll(4) {
        0 => crew.queries = pick(dice, &[Conduct::Works, Conduct::Fails, Conduct::ByHand]),
        1 => {
            let verdicts = [Verdict::Stored, Verdict::Expired, Verdict::Unknown];
            crew.verdict = verdicts[dice.roll(verdicts.len())].clone();
        }
        2 => crew.feed(Input::Command(Command::Renew)),
        _ => {
            let is_half_full = dice.roll(2) == 0;
            crew.feed(Input::Outbox { is_half_full });
        }
    }
}

/// All is shown that can be, and fresh sessions are told what was said before.
fn talkative() -> Crew {
    let mut config = settings(3);
    config.cosmetics = true;
    config.marks = true;
    config.limits.context_max = 12;
    Crew::idle(config)
}

/// We leave the room and come back.
fn rejoin(crew: &mut Crew) {
    let kind = ChannelKind::Stream;
    for state in [ChannelState::Left, ChannelState::Joined { kind }] {
        let channel = channel(ROOM);
        crew.feed(Input::Channel { channel, state });
    }
}

/// An outcome comes with the word that tells it.
fn each_outcome_is_told(crew: &Crew) {
    for (at, _, actions) in crew.script.calls() {
        let is_told = |action: &Action| {
            matches!(
                action,
                Action::Note(Note::TurnEnded { .. } | Note::Controlled { .. } | Note::Left { .. })
            )
        };
        let is_outcome = |action: &Action| matches!(action, Action::Dispose { .. });
        if actions.iter().any(is_outcome) && !actions.iter().any(is_told) {
            crew.script
                .fail(&format!("{at}: an outcome that nobody told"));
        }
    }
}

#[test]
fn block_buzz_4903_whatever_happens_each_event_has_one_outcome_and_it_is_told() {
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let mut crew = if seed % 2 == 0 {
            workers(3)
        } else {
            talkative()
        };
        for n in 1..=STEPS {
            step(&mut crew, &mut dice, n);
            crew.check_present();
            let view = crew.script.part().view();
            let known = view.queued + crew.at_work().len();
            assert!(known <= crew.owed(), "seed {seed}, step {n}");
        }
        crew.feed(Input::Outbox {
            is_half_full: false,
        });
        crew.come_to_rest();
        crew.check_transcript();
        each_outcome_is_told(&crew);
        let view = crew.script.part().view();
        let left = (
            view.queued,
            view.held,
            view.resting,
            view.running,
            view.answering,
        );
        assert_eq!(left, (0, 0, 0, 0, 0), "seed {seed}");
    }
}
