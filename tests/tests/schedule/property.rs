//! Whatever happens in whatever order: one turn per scope and worker, one outcome per event, no
//! wait without an end.

use std::collections::BTreeMap;

use buzz_proto::ids::TurnId;
use buzz_proto::note::{Note, StaleWhat};
use buzz_proto::publish::Verdict;
use buzz_proto::relay::{ChannelKind, ChannelState};
use buzz_proto::schedule::{
    Action, Command, DownCause, FailureClass, Input, Limits, OpenCause, Scope, StopReason, Target,
    TurnEnd, Want,
};
use buzz_proto::wire::Excerpt;
use quickcheck::{Gen, QuickCheck};

use crate::support::{
    DIRECT, ME, OWNER, ROOM, STRANGER, Said, begun, exited, found, id, joined, life, millis, secs,
    stale,
};
use crate::watch::{Standing, Watch};

/// One thing that happens, chosen by numbers that mean something in every state.
type Step = (u8, u8, u16);

impl Watch {
    fn step(&mut self, (what, which, how): Step) {
        let pick = usize::from(which);
        match what % 16 {
            0..=3 => self.arrive(which, how),
            4 | 5 => self.worker_up(pick),
            6 => self.worker_down(pick),
            7 | 8 => self.of_a_turn(pick, |turn| Input::SessionOpened { turn }),
            9 => self.session_failed(pick, how),
            10 | 11 => self.finish(pick, how),
            12 => self.settle(pick, how),
            13 => self.control(how),
            14 if how.is_multiple_of(2) => {
                let actions = self.script.jump();
                self.see(actions);
            }
            14 => {
                let actions = self.script.wait(millis(u64::from(how)));
                self.see(actions);
            }
            _ => self.disturb(pick, how),
        }
    }

    fn arrive(&mut self, which: u8, how: u16) {
        let number = u16::try_from(self.arrived).expect("a short run") + 100;
        let said = Said {
            id: number,
            author: [STRANGER, STRANGER, STRANGER, OWNER, ME][usize::from(which % 5)],
            root: (!how.is_multiple_of(4)).then_some(how % 4),
            channel: if which.is_multiple_of(7) {
                DIRECT
            } else {
                ROOM
            },
            mentions: !which.is_multiple_of(11),
            content: ["hi", "hi", "hi", "!cancel", "!rotate"][usize::from(how % 5)],
            ..Said::default()
        };
        let event = said.event();
        self.arrived += 1;
        let scope = if said.channel == DIRECT || self.kind == ChannelKind::Direct {
            Scope::Conversation(said.channel)
        } else {
            Scope::Thread(ROOM, id(said.root.unwrap_or(number)))
        };
        self.owed.insert(event.id(), scope);
        let lives = u32::from(how / 5 % 5);
        let actions = self.script.give(begun(&event, lives));
        let is_out = |action: &Action| matches!(action, Action::Dispose { event, .. } if *event == id(number));
        // A command that finds nothing is answered, and some authors are looked up.
        let is_apart = |action: &Action| {
            matches!(
                action,
                Action::Query { .. } | Action::Note(Note::NothingToControl { .. })
            )
        };
        if lives < 3
            && !actions
                .iter()
                .any(|action| is_out(action) || is_apart(action))
        {
            self.queued.insert(event.id(), scope);
        }
        self.see(actions);
        for ticket in std::mem::take(&mut self.queries) {
            let answer = found(&[]);
            self.give(Input::Answered { ticket, answer });
        }
    }

    fn worker_up(&mut self, pick: usize) {
        let starting = self
            .workers
            .iter_mut()
            .filter(|(_, is)| **is == Standing::Starting);
        let Some((worker, standing)) = starting.into_iter().nth(pick % 2) else {
            return;
        };
        let worker = *worker;
        *standing = Standing::Up;
        self.give(Input::WorkerUp { worker });
    }

    fn worker_down(&mut self, pick: usize) {
        let worker = self.workers.keys().nth(pick % 4).copied();
        if let Some(worker) = worker {
            self.give(Input::WorkerDown {
                worker,
                cause: exited(),
            });
        }
    }

    fn turn(&self, pick: usize) -> Option<TurnId> {
        self.turns.keys().nth(pick % 3).copied()
    }

    fn of_a_turn(&mut self, pick: usize, input: impl FnOnce(TurnId) -> Input) {
        if let Some(turn) = self.turn(pick) {
            self.give(input(turn));
        }
    }

    /// A refusal ends a turn only while its session opens, which the answer tells.
    fn session_failed(&mut self, pick: usize, how: u16) {
        let Some(turn) = self.turn(pick) else {
            return;
        };
        let cause = if how.is_multiple_of(2) {
            OpenCause::Unknown
        } else {
            OpenCause::Refused {
                text: Excerpt::new("no"),
            }
        };
        let actions = self.script.give(Input::SessionFailed { turn, cause });
        if actions != [stale(StaleWhat::Turn)] {
            self.turns.remove(&turn);
            self.over.insert(turn);
        }
        self.see(actions);
    }

    fn finish(&mut self, pick: usize, how: u16) {
        let Some(turn) = self.turn(pick) else {
            return;
        };
        let end = match how % 8 {
            0 => TurnEnd::Answered {
                reply: "hi".to_string(),
                stop: StopReason::EndTurn,
            },
            1 => TurnEnd::Answered {
                reply: String::new(),
                stop: StopReason::MaxTokens,
            },
            2 => TurnEnd::Cancelled,
            other => {
                let class = match other {
                    3 => FailureClass::Protocol,
                    4 => FailureClass::SessionGone,
                    5 => FailureClass::NeedsHuman,
                    6 => FailureClass::UsageLimit { until: None },
                    _ => FailureClass::Transient,
                };
                let text = Excerpt::new("no");
                TurnEnd::Failed { class, text }
            }
        };
        self.turns.remove(&turn);
        self.over.insert(turn);
        self.give(Input::Finished { turn, end });
    }

    fn settle(&mut self, pick: usize, how: u16) {
        let Some(job) = self.jobs.iter().nth(pick % 4).copied() else {
            return;
        };
        self.jobs.remove(&job);
        let verdict = match how % 4 {
            0 | 1 => Verdict::Stored,
            2 => Verdict::Expired,
            _ => Verdict::Cancelled,
        };
        self.give(Input::Settled { job, verdict });
    }

    fn control(&mut self, how: u16) {
        let want = [
            Want::Run,
            Want::Stop,
            Want::StopAndDrop,
            Want::StopAndRotate,
        ][usize::from(how % 4)];
        let target = if how.is_multiple_of(3) {
            Target::Channel(ROOM)
        } else {
            Target::Scope(Scope::Thread(ROOM, id(how % 4)))
        };
        self.give(Input::Command(Command::Control { target, want }));
    }

    fn disturb(&mut self, pick: usize, how: u16) {
        match how % 6 {
            5 => self.give(Input::Command(Command::Renew)),
            0 => self.give(Input::Link {
                live: pick.is_multiple_of(2),
            }),
            1 => {
                let kind = [ChannelKind::Stream, ChannelKind::Direct][pick % 2];
                self.kind = kind;
                self.give(joined(ROOM, kind));
            }
            2 => {
                self.kind = ChannelKind::Direct;
                self.give(Input::Channel {
                    channel: ROOM,
                    state: ChannelState::Left,
                });
            }
            3 => self.of_a_turn(pick, |turn| Input::Progressed { turn }),
            _ => self.say_what_is_stale(pick),
        }
    }

    fn say_what_is_stale(&mut self, pick: usize) {
        let Some(turn) = self.over.iter().nth(pick % 8).copied() else {
            return;
        };
        let before = self.script.scheduler.view();
        let end = TurnEnd::Answered {
            reply: "late".to_string(),
            stop: StopReason::EndTurn,
        };
        let actions = self.script.give(Input::Finished { turn, end });
        assert_eq!(actions, [stale(StaleWhat::Turn)]);
        let worker = life(0, 0);
        let cause = DownCause::Killed;
        let actions = self.script.give(Input::WorkerDown { worker, cause });
        assert_eq!(actions, [stale(StaleWhat::Worker)]);
        assert_eq!(self.script.scheduler.view(), before);
    }

    /// Some things still happen, then nothing answers any more, and yet it ends in time with every
    /// event accounted for: it has its outcome, or it is handed back.
    fn shut_down(mut self, steps: Vec<Step>) {
        let grace = secs(30);
        self.give(Input::Command(Command::Shutdown { grace }));
        for step in steps {
            self.step(step);
        }
        let actions = self.script.wait(grace);
        self.see(actions);
        let actions = self.script.wait(Limits::default().exit);
        self.see(actions);
        assert!(self.has_ended && self.script.scheduler.view().is_ended);
        assert_eq!(self.script.scheduler.next_deadline(), None);
        // What was under way has its outcome with its verdict.
        for verdict in 0..4 {
            self.settle(0, verdict);
        }
        while !self.jobs.is_empty() {
            self.settle(0, 0);
        }
        assert_eq!(self.script.scheduler.view().answering, 0);
        assert_eq!(self.script.scheduler.next_deadline(), None);
        assert_eq!(self.left, self.arrived);
        let mut owed = BTreeMap::new();
        for scope in self.owed.into_values() {
            *owed.entry(scope).or_default() += 1;
        }
        assert_eq!(self.handed_back, owed);
    }

    /// All goes well from now on, and every event has its outcome.
    fn heal(mut self) {
        for _ in 0..10_000 {
            if self.owed.is_empty() {
                return;
            }
            self.worker_up(0);
            self.worker_up(0);
            self.finish(0, 0);
            self.settle(0, 0);
            let actions = self.script.jump();
            self.see(actions);
        }
        panic!("{} events wait for ever", self.owed.len());
    }
}

#[test]
fn every_event_has_one_outcome_and_no_worker_idles_beside_work() {
    fn property(steps: Vec<Step>, last: Option<Vec<Step>>) -> bool {
        let mut watch = Watch::new();
        for step in steps {
            watch.step(step);
        }
        match last {
            Some(last) => watch.shut_down(last),
            None => watch.heal(),
        }
        true
    }
    QuickCheck::new()
        .rng(Gen::from_size_and_seed(120, 1))
        .tests(400)
        .quickcheck(property as fn(Vec<Step>, Option<Vec<Step>>) -> bool);
}
