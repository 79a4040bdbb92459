//! Whatever happens in whatever order: one turn per scope and worker, one outcome per event, no
//! wait without an end.

use std::collections::{BTreeMap, BTreeSet};

use buzz_proto::ids::{EventId, JobId, TurnId};
use buzz_proto::note::{Note, StaleWhat};
use buzz_proto::publish::{self, Class, Verdict};
use buzz_proto::relay::{ChannelKind, ChannelState};
use buzz_proto::schedule::{
    Action, Command, Config, DownCause, FailureClass, Input, Limits, OpenCause, Scope, StopReason,
    Target, TurnEnd, Want, WorkerId,
};
use buzz_proto::wire::Excerpt;
use quickcheck::{Gen, QuickCheck};

use crate::support::{
    DIRECT, ME, OWNER, ROOM, STRANGER, Said, Script, arrived, config, exited, id, joined, life,
    millis, secs, stale,
};

/// One thing that happens, chosen by numbers that mean something in every state.
type Step = (u8, u8, u16);

/// What must be true, kept by watching inputs and actions alone.
struct Watch {
    script: Script,
    workers: BTreeMap<WorkerId, Standing>,
    turns: BTreeMap<TurnId, (Scope, WorkerId)>,
    over: BTreeSet<TurnId>,
    jobs: BTreeSet<JobId>,
    /// Events without an outcome, the scopes of those that were queued.
    owed: BTreeSet<EventId>,
    queued: BTreeMap<EventId, Scope>,
    kind: ChannelKind,
    arrived: u32,
    left: u32,
    handed_back: usize,
    has_ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    Starting,
    Up,
    Stopping,
}

impl Watch {
    fn new() -> Self {
        let limits = Limits {
            sessions_max: 2,
            batch_max: 3,
            channel_max: 12,
            ..Limits::default()
        };
        let script = Script::new(Config {
            workers: 2,
            cosmetics: true,
            limits,
            ..config()
        });
        let workers = (0..2)
            .map(|slot| (life(slot, 1), Standing::Starting))
            .collect();
        Self {
            script,
            workers,
            turns: BTreeMap::new(),
            over: BTreeSet::new(),
            jobs: BTreeSet::new(),
            owed: BTreeSet::new(),
            queued: BTreeMap::new(),
            kind: ChannelKind::Stream,
            arrived: 0,
            left: 0,
            handed_back: 0,
            has_ended: false,
        }
    }

    fn give(&mut self, input: Input) {
        let actions = self.script.give(input);
        self.see(actions);
    }

    fn see(&mut self, actions: Vec<Action>) {
        for action in actions {
            self.see_one(action);
        }
        let has_idle = self.workers.iter().any(|(worker, standing)| {
            *standing == Standing::Up && !self.turns.values().any(|(_, busy)| busy == worker)
        });
        let is_ready = |scope: &Scope| !self.turns.values().any(|(running, _)| running == scope);
        let ready = self.queued.values().find(|scope| is_ready(scope));
        assert!(
            !has_idle || ready.is_none(),
            "{ready:?} waits beside an idle worker"
        );
        assert_eq!(self.script.scheduler.view().queued, self.queued.len());
        assert_eq!(self.script.scheduler.view().running, self.turns.len());
    }

    fn see_one(&mut self, action: Action) {
        assert!(!self.has_ended || !matches!(action, Action::Spawn { .. } | Action::Ended));
        match action {
            Action::Spawn { worker } => {
                self.workers.insert(worker, Standing::Starting);
            }
            Action::Kill { worker } => {
                let standing = self.workers.insert(worker, Standing::Stopping);
                assert!(matches!(standing, Some(Standing::Starting | Standing::Up)));
            }
            Action::Start {
                turn,
                session,
                scope,
                batch,
            } => {
                let worker = session.reference().worker;
                assert_eq!(self.workers.get(&worker), Some(&Standing::Up));
                assert!(
                    !self
                        .turns
                        .values()
                        .any(|(s, w)| *s == scope || *w == worker)
                );
                assert!(!batch.is_empty() && batch.len() <= 3);
                assert!(!self.over.contains(&turn));
                assert!(self.turns.insert(turn, (scope, worker)).is_none());
                for event in batch {
                    self.queued.remove(&event.id());
                    assert!(self.owed.contains(&event.id()));
                }
            }
            Action::Left { count, .. } => self.left += count,
            Action::Dispose { event, .. } => {
                assert!(self.owed.remove(&event), "{event} has two outcomes");
                self.queued.remove(&event);
            }
            Action::Publish(publish::Command::Submit {
                job,
                class: Class::Durable,
                ..
            }) => {
                assert!(self.jobs.insert(job));
            }
            Action::Note(Note::WorkerDown { worker, .. }) => {
                self.workers.remove(&worker);
                self.end_turns(|(_, busy)| *busy == worker);
            }
            Action::Note(Note::HandedBack { scope, count }) => {
                self.handed_back += usize::try_from(count).unwrap();
                self.queued.retain(|_, queued| *queued != scope);
            }
            Action::Ended => self.has_ended = true,
            Action::CancelTurn { turn } => assert!(self.turns.contains_key(&turn)),
            Action::CloseSession { .. }
            | Action::Publish(_)
            | Action::ShutdownRequested
            | Action::Note(_)
            | Action::WakeAt(_) => {}
        }
    }

    fn end_turns(&mut self, is_over: impl Fn(&(Scope, WorkerId)) -> bool) {
        let over: Vec<TurnId> = self
            .turns
            .iter()
            .filter(|(_, turn)| is_over(turn))
            .map(|(turn, _)| *turn)
            .collect();
        for turn in over {
            self.turns.remove(&turn);
            self.over.insert(turn);
        }
    }

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
            14 if how % 2 == 0 => {
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
        let number = u16::try_from(self.arrived).unwrap() + 100;
        let said = Said {
            id: number,
            author: [STRANGER, STRANGER, STRANGER, OWNER, ME][usize::from(which % 5)],
            root: (how % 4 != 0).then_some(how % 4),
            channel: if which % 7 == 0 { DIRECT } else { ROOM },
            mentions: which % 11 != 0,
            content: ["hi", "hi", "hi", "!cancel", "!rotate"][usize::from(how % 5)],
            ..Said::default()
        };
        let event = said.event();
        self.arrived += 1;
        self.owed.insert(event.id());
        let scope = if said.channel == DIRECT || self.kind == ChannelKind::Direct {
            Scope::Conversation(said.channel)
        } else {
            Scope::Thread(ROOM, id(said.root.unwrap_or(number)))
        };
        let actions = self.script.give(arrived(&event));
        let is_out = |action: &Action| matches!(action, Action::Dispose { event, .. } if *event == id(number));
        if !actions.iter().any(is_out) {
            self.queued.insert(event.id(), scope);
        }
        self.see(actions);
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
        let cause = if how % 2 == 0 {
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
        let end = match how % 4 {
            0 => TurnEnd::Answered {
                reply: "hi".to_string(),
                stop: StopReason::EndTurn,
            },
            1 => TurnEnd::Answered {
                reply: String::new(),
                stop: StopReason::MaxTokens,
            },
            2 => TurnEnd::Cancelled,
            _ => {
                let text = Excerpt::new("no");
                TurnEnd::Failed {
                    class: FailureClass::Protocol,
                    text,
                }
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
        let target = if how % 3 == 0 {
            Target::Channel(ROOM)
        } else {
            Target::Scope(Scope::Thread(ROOM, id(how % 4)))
        };
        self.give(Input::Command(Command::Control { target, want }));
    }

    fn disturb(&mut self, pick: usize, how: u16) {
        match how % 5 {
            0 => self.give(Input::Link {
                live: pick % 2 == 0,
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

    /// Nothing answers any more, and yet it ends in time with every event accounted for.
    fn shut_down(mut self) {
        let grace = secs(30);
        self.give(Input::Command(Command::Shutdown { grace }));
        let actions = self.script.wait(grace);
        self.see(actions);
        let actions = self.script.wait(Limits::default().exit);
        self.see(actions);
        assert!(self.has_ended && self.script.scheduler.view().is_ended);
        assert_eq!(self.script.scheduler.next_deadline(), None);
        assert_eq!(self.left, self.arrived);
        assert_eq!(self.handed_back, self.owed.len());
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
    fn property(steps: Vec<Step>, heals: bool) -> bool {
        let mut watch = Watch::new();
        for step in steps {
            watch.step(step);
        }
        if heals {
            watch.heal()
        } else {
            watch.shut_down()
        }
        true
    }
    QuickCheck::new()
        .rng(Gen::from_size_and_seed(120, 1))
        .tests(400)
        .quickcheck(property as fn(Vec<Step>, bool) -> bool);
}
