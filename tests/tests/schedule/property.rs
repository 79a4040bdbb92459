//! Whatever happens in whatever order: one turn per scope and worker, one outcome per event, no
//! wait without an end.

use std::collections::BTreeMap;

use buzz_proto::ids::{PubKey, TurnId};
use buzz_proto::note::StaleWhat;
use buzz_proto::publish::Verdict;
use buzz_proto::schedule::{
    Action, Command, FailureClass, Input, Limits, OpenCause, Session, StopReason, TurnEnd, WorkerId,
};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::{Event, Excerpt};
use quickcheck::{Gen, QuickCheck};

use crate::support::{
    DIRECT, ME, OWNER, ROOM, START, STRANGER, Said, begun, exited, millis, secs, stale, tagged,
};
use crate::watch::{Given, Standing, Watch};

/// The relay's own key, which signs the posts of workflows.
pub(super) const RELAY: PubKey = PubKey([0xdd; 32]);

/// One thing that happens, chosen by numbers that mean something in every state.
type Step = (u8, u8, u16);

impl Watch {
    fn step(&mut self, (what, which, how): Step) {
        let pick = usize::from(which);
        match what % 32 {
            0..=4 => self.arrive(which, how),
            5..=8 => self.worker_up(pick),
            9 => self.worker_down(pick),
            10..=13 => self.session_opened(pick),
            14 if how.is_multiple_of(2) => self.session_failed(pick, how / 2),
            14 => self.answer(pick, how / 2),
            15..=18 => self.finish(pick, how),
            19 | 20 => self.settle(pick, how),
            21 => self.control(how),
            22 => {
                let actions = self.script.wait(millis(u64::from(how)));
                self.see(actions);
            }
            23 | 24 => {
                if how.is_multiple_of(2) {
                    self.worker_up(0);
                    self.worker_up(0);
                }
                let actions = self.script.jump();
                self.see(actions);
            }
            25 | 26 => self.answer(pick, how),
            27 | 28 => self.check(pick, how),
            29 => self.arrive_again(pick),
            30 => self.oversleep(which, how),
            _ => self.disturb(pick, how),
        }
    }

    fn arrive(&mut self, which: u8, how: u16) {
        let number = u16::try_from(self.known.len()).expect("a short run") + 100;
        let elapsed = self.script.now().as_nanos() / 1_000_000_000;
        let said = Said {
            id: number,
            author: if which.is_multiple_of(19) {
                ME
            } else {
                [STRANGER, STRANGER, OWNER][usize::from(which % 3)]
            },
            root: (!how.is_multiple_of(6)).then_some(how % 3 + 1),
            channel: if which.is_multiple_of(7) {
                DIRECT
            } else {
                ROOM
            },
            mentions: !which.is_multiple_of(31),
            content: ["!cancel", "!rotate", "hi"][usize::from((how / 8 % 16).min(2))],
            created_at: START + elapsed - u64::from(how % 3).min(elapsed),
            ..Said::default()
        };
        if which.is_multiple_of(13) {
            let owner = [STRANGER, OWNER][usize::from(how % 2)];
            return self.deliver(&workflow(number, owner), 0);
        }
        // Whoever is looked up may be let in later, and elsewhere.
        let is_owner = said.author == OWNER;
        let lives = if is_owner { u32::from(how / 5 % 5) } else { 0 };
        self.deliver(&said.event(), lives);
    }

    fn deliver(&mut self, event: &Event, lives: u32) {
        self.arrived += 1;
        let channel = event.channel().expect("an event of a channel");
        let root = event.thread().root.unwrap_or_else(|| event.id());
        self.owed.insert(event.id(), self.scope_of(channel, root));
        // What is reported, or comes during the end, is judged at once.
        if lives < 3 && !self.is_ending {
            self.unjudged.insert(event.id(), (channel, root));
        }
        self.known.insert(event.id(), event.clone());
        self.give(begun(event, lives));
    }

    /// What was refused for now is brought again.
    fn arrive_again(&mut self, pick: usize) {
        if !self.refused.is_empty() {
            let event = self.refused.swap_remove(pick % self.refused.len());
            self.deliver(&event, 0);
        }
    }

    /// Time passes unseen, and what comes next is no tick.
    fn oversleep(&mut self, which: u8, how: u16) {
        let longest = if which.is_multiple_of(3) { 7200 } else { 30 };
        self.script.sleep(secs(u64::from(how % longest)));
        match which % 4 {
            0 => self.worker_up(usize::from(which)),
            1 => self.finish(usize::from(which), how),
            2 => self.answer(usize::from(which), how),
            _ => self.arrive(which, how),
        }
        self.give(Input::Tick);
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
        let is_at_work = |worker: &WorkerId| self.workers_at_work().any(|busy| busy == *worker);
        // Those that do nothing end less often.
        let worker = worker.filter(|worker| pick.is_multiple_of(16) || is_at_work(worker));
        if let Some(worker) = worker {
            self.give(Input::WorkerDown {
                worker,
                cause: exited(),
            });
        }
    }

    pub(super) fn turn(&self, pick: usize) -> Option<(TurnId, Given)> {
        let mut turns = self.turns.iter();
        let count = self.turns.len().max(1);
        turns.nth(pick % count).map(|(id, turn)| (*id, *turn))
    }

    fn session_opened(&mut self, pick: usize) {
        let Some((turn, given)) = self.turn(pick) else {
            return;
        };
        let actions = self.script.give(Input::SessionOpened { turn });
        if !actions.contains(&stale(StaleWhat::Turn)) {
            let session = given.session.reference();
            self.prompted.insert(given.told);
            let earlier = self.directory.insert(given.scope, session);
            let is_replaced = |earlier| earlier != session;
            if let Some(earlier) = earlier.filter(|earlier| is_replaced(*earlier)) {
                assert!(actions.contains(&Action::CloseSession { session: earlier }));
            }
        }
        self.see(actions);
    }

    /// A refusal ends a turn only while its session opens, which the answer tells.
    fn session_failed(&mut self, pick: usize, how: u16) {
        let Some((turn, given)) = self.turn(pick) else {
            return;
        };
        let is_unknown = how.is_multiple_of(2);
        let cause = if is_unknown {
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
            let session = given.session.reference();
            let is_resumed = matches!(given.session, Session::Resume(_));
            if is_unknown || !is_resumed {
                self.give_up(session);
            }
            if is_unknown && is_resumed && !given.is_cancelled {
                self.prompted.remove(&given.told);
                self.reserved
                    .insert(given.scope, (given.told, session.worker));
            }
        }
        self.see(actions);
    }

    /// A turn ends, most often after its session has opened and the worker gave a sign of life.
    fn finish(&mut self, pick: usize, how: u16) {
        if !(how / 12).is_multiple_of(4) {
            self.session_opened(pick);
        }
        if let Some((turn, _)) = self.turn(pick)
            && (how / 48).is_multiple_of(2)
        {
            self.give(Input::Progressed { turn });
        }
        let Some((turn, given)) = self.turn(pick) else {
            return;
        };
        let end = match how % 12 {
            0 | 9..=11 => TurnEnd::Answered {
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
                    7 => FailureClass::UsageLimit {
                        until: Some(UnixTime(START + u64::from(how))),
                    },
                    _ => FailureClass::Transient,
                };
                let text = Excerpt::new("no");
                TurnEnd::Failed { class, text }
            }
        };
        self.turns.remove(&turn);
        self.over.insert(turn);
        if how % 12 == 4 {
            self.give_up(given.session.reference());
        }
        self.give(Input::Finished { turn, end });
    }

    fn settle(&mut self, pick: usize, how: u16) {
        let Some(job) = self.jobs.iter().nth(pick % 4).copied() else {
            return;
        };
        self.jobs.remove(&job);
        if std::mem::take(&mut self.is_half_full) {
            let is_half_full = false;
            self.give(Input::Outbox { is_half_full });
        }
        let verdict = match how % 4 {
            0 | 1 => Verdict::Stored,
            2 => Verdict::Expired,
            _ => Verdict::Cancelled,
        };
        self.give(Input::Settled { job, verdict });
        let verdict = Verdict::Stored;
        let twice = self.script.give(Input::Settled { job, verdict });
        assert_eq!(twice, [stale(StaleWhat::Job)]);
    }

    /// Some things still happen, then nothing answers any more, and yet it ends in time with every
    /// event accounted for: it has its outcome, or it is handed back.
    fn shut_down(mut self, steps: Vec<Step>) {
        let grace = secs(30);
        self.is_ending = true;
        self.give(Input::Command(Command::Shutdown { grace }));
        for step in steps.into_iter().take(30) {
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
        assert_eq!(self.marked, BTreeMap::new());
        let mut owed = BTreeMap::new();
        for scope in self.owed.into_values() {
            *owed.entry(scope).or_default() += 1;
        }
        assert_eq!(self.handed_back, owed);
    }

    /// All goes well from now on, and every event has its outcome within two days, the longest
    /// usage limit included.
    fn heal(mut self) {
        let begin = self.script.now();
        let is_half_full = false;
        self.is_half_full = false;
        self.give(Input::Outbox { is_half_full });
        for _ in 0..10_000 {
            if self.owed.is_empty() {
                let view = self.script.scheduler.view();
                assert_eq!((view.queued, view.running, view.resting), (0, 0, 0));
                assert_eq!(self.marked, BTreeMap::new());
                assert_eq!(self.left, self.arrived);
                let took = self.script.now().saturating_since(begin);
                assert!(took < secs(2 * 86_400), "{took:?}");
                return;
            }
            self.worker_up(0);
            self.worker_up(0);
            self.answer_all();
            self.session_opened(0);
            self.finish(0, 0);
            self.settle(0, 0);
            let actions = self.script.jump();
            self.see(actions);
        }
        panic!("{} events wait for ever", self.owed.len());
    }
}

/// A post of a workflow in the room that wants this agent to hear it.
fn workflow(n: u16, owner: PubKey) -> Event {
    let (owner, me, room) = (owner.to_string(), ME.to_string(), ROOM.to_string());
    let tags: [&[&str]; 4] = [
        &["h", &room],
        &["buzz:workflow", "true"],
        &["buzz:workflow-owner", &owner],
        &["buzz:workflow-mention", &me],
    ];
    tagged(n, RELAY, 9, &tags)
}

#[test]
fn every_event_has_one_outcome_and_no_worker_idles_beside_work() {
    fn property(how: u8, steps: Vec<Step>, last: Option<Vec<Step>>) -> bool {
        let mut watch = Watch::new(how);
        watch.give(Input::RelayKey { key: Some(RELAY) });
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
        .rng(Gen::from_size_and_seed(800, 1))
        .tests(600)
        .quickcheck(property as fn(u8, Vec<Step>, Option<Vec<Step>>) -> bool);
}
