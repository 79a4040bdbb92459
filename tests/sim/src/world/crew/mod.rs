//! The workers of a world: they carry out what the scheduler orders, in their own time and in their
//! own way, and say so.

mod conduct;
mod turn;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use buzz_proto::ids::{EventId, TurnId};
use buzz_proto::schedule::{DownCause, Input, OpenCause, SessionRef, TurnEnd, WorkerId};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Excerpt;

use super::clock::Chance;
use turn::{Job, Stage};

pub use conduct::{Conduct, Deed, Span, Task};
pub(super) use turn::Given;

/// Every answer of a worker begins so; the machine's notices do not.
pub const ANSWER: &str = "answer of turn ";

/// A worker that is ended is gone after so long.
const EXIT: Span = (Duration::from_millis(10), Duration::from_millis(200));
/// A cancel is heard after so long.
const HEED: Span = (Duration::from_millis(5), Duration::from_millis(400));
/// A session that is there is taken up after so long.
const RESUME: Span = (Duration::from_millis(2), Duration::from_millis(20));
/// What is said once more, or too late, is said after so long.
const AGAIN: Span = (Duration::from_millis(1), Duration::from_secs(3));

/// What a worker does at an instant of its own.
#[derive(Clone, Debug)]
pub(super) enum Doing {
    /// It is ready.
    Up,
    /// It is gone.
    Gone(DownCause),
    /// The session of a turn opens, or does not.
    Opens(TurnId),
    /// It gives a sign of life.
    Breathes(TurnId),
    /// A turn comes to its end.
    Ends(TurnId),
    /// A cancel is heard.
    Heeds(TurnId),
    /// It says something that nobody waits for.
    Says(TurnId, TurnEnd),
}

/// What follows: something that is said now, and what is done later.
#[derive(Debug, Default)]
pub(super) struct Then {
    pub(super) says: Option<Input>,
    pub(super) later: Vec<(Duration, WorkerId, Doing)>,
}

impl Then {
    fn says(input: Input) -> Self {
        let says = Some(input);
        Self {
            says,
            ..Self::default()
        }
    }

    fn later(wait: Duration, worker: WorkerId, doing: Doing) -> Self {
        Self {
            says: None,
            later: vec![(wait, worker, doing)],
        }
    }

    fn and(mut self, wait: Duration, worker: WorkerId, doing: Doing) -> Self {
        self.later.push((wait, worker, doing));
        self
    }
}

/// The processes, and what is planned for them.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) conduct: Conduct,
    tasks: BTreeMap<EventId, VecDeque<Task>>,
    members: BTreeMap<WorkerId, Member>,
    chance: Chance,
}

/// A process.
#[derive(Debug, Default)]
struct Member {
    sessions: BTreeSet<SessionRef>,
    job: Option<Job>,
    /// It was ordered to end.
    is_killed: bool,
}

impl Crew {
    pub(super) fn new(chance: Chance) -> Self {
        Self {
            conduct: Conduct::default(),
            tasks: BTreeMap::new(),
            members: BTreeMap::new(),
            chance,
        }
    }

    /// The turns that this event is part of go like this, one after the other.
    pub(super) fn assign(&mut self, event: EventId, tasks: &[Task]) {
        self.tasks.entry(event).or_default().extend(tasks);
    }

    /// The agent's process ends, and its workers with it.
    pub(super) fn die(&mut self) {
        self.members.clear();
    }

    pub(super) fn spawn(&mut self, worker: WorkerId) -> Then {
        self.members.insert(worker, Member::default());
        if self.one_of_a_thousand(self.conduct.stuck_starts) {
            return Then::default();
        }
        let (low, high) = self.conduct.start;
        Then::later(self.chance.between(low, high), worker, Doing::Up)
    }

    pub(super) fn kill(&mut self, worker: WorkerId) -> Then {
        let wait = self.draw(EXIT);
        let Some(member) = self.members.get_mut(&worker) else {
            return Then::default();
        };
        member.is_killed = true;
        member.job = None;
        Then::later(wait, worker, Doing::Gone(DownCause::Killed))
    }

    pub(super) fn close(&mut self, session: SessionRef) {
        if let Some(member) = self.members.get_mut(&session.worker) {
            member.sessions.remove(&session);
        }
    }

    pub(super) fn cancel(&mut self, turn: TurnId) -> Then {
        let wait = self.draw(HEED);
        let mut members = self.members.iter();
        let found = members.find(|(_, member)| member.job.as_ref().is_some_and(|it| it.id == turn));
        let Some((worker, _)) = found else {
            return Then::default();
        };
        Then::later(wait, *worker, Doing::Heeds(turn))
    }

    /// A turn begins on a worker that has none.
    pub(super) fn start(&mut self, given: &Given) -> Then {
        let task = self.task(&given.events);
        let worker = given.session.reference().worker;
        let wait = if given.is_fresh() {
            let (low, high) = self.conduct.open;
            self.chance.between(low, high)
        } else {
            self.draw(RESUME)
        };
        let id = given.turn;
        let Some(member) = self.members.get_mut(&worker).filter(|it| !it.is_killed) else {
            return Then::default();
        };
        member.job = Some(Job::new(given, task));
        if task.deed == Deed::Linger {
            return Then::default();
        }
        Then::later(wait, worker, Doing::Opens(id))
    }

    /// The time for something has come. `wall` is what the wall clock shows.
    pub(super) fn act(&mut self, worker: WorkerId, doing: Doing, wall: UnixTime) -> Then {
        let breath = self.conduct.breath;
        let again = self.draw(AGAIN);
        match doing {
            Doing::Up => match self.members.get(&worker) {
                Some(member) if !member.is_killed => Then::says(Input::WorkerUp { worker }),
                Some(_) | None => Then::default(),
            },
            Doing::Gone(cause) => match self.members.remove(&worker) {
                Some(_) => Then::says(Input::WorkerDown { worker, cause }),
                None => Then::default(),
            },
            Doing::Says(turn, end) => Then::says(Input::Finished { turn, end }),
            Doing::Opens(turn) => self.open((worker, turn), breath),
            Doing::Breathes(turn) => match self.job(worker, turn) {
                Some(_) => Then::says(Input::Progressed { turn }).and(
                    breath,
                    worker,
                    Doing::Breathes(turn),
                ),
                None => Then::default(),
            },
            Doing::Heeds(turn) => match self.job(worker, turn) {
                Some(job) if job.hears() => {
                    self.end(worker);
                    let end = TurnEnd::Cancelled;
                    Then::says(Input::Finished { turn, end })
                }
                Some(_) | None => Then::default(),
            },
            Doing::Ends(turn) => self.finish((worker, turn), again, wall),
        }
    }

    fn open(&mut self, (worker, turn): (WorkerId, TurnId), breath: Duration) -> Then {
        let Some(member) = self.members.get_mut(&worker) else {
            return Then::default();
        };
        let Some(job) = member.job.as_mut().filter(|job| job.id == turn) else {
            return Then::default();
        };
        let session = job.session;
        let is_known = job.is_fresh || member.sessions.contains(&session);
        let forgets = job.task.deed == Deed::Forget && !job.is_fresh;
        let cause = if !is_known || forgets {
            OpenCause::Unknown
        } else if job.task.deed == Deed::Refuse {
            let text = Excerpt::new("no session today");
            OpenCause::Refused { text }
        } else {
            job.stage = Stage::Working;
            let (takes, hangs) = (job.task.takes, job.task.deed == Deed::Hang);
            member.sessions.insert(session);
            let then = Then::says(Input::SessionOpened { turn });
            if hangs {
                return then;
            }
            return then.and(breath, worker, Doing::Breathes(turn)).and(
                takes,
                worker,
                Doing::Ends(turn),
            );
        };
        member.sessions.remove(&session);
        member.job = None;
        Then::says(Input::SessionFailed { turn, cause })
    }

    fn finish(
        &mut self,
        (worker, turn): (WorkerId, TurnId),
        again: Duration,
        wall: UnixTime,
    ) -> Then {
        let Some(job) = self.job(worker, turn).cloned() else {
            return Then::default();
        };
        if job.task.deed == Deed::Crash {
            self.members.remove(&worker);
            let text = Excerpt::new("segmentation fault");
            let cause = DownCause::Exited {
                code: Some(139),
                text,
            };
            return Then::says(Input::WorkerDown { worker, cause });
        }
        self.end(worker);
        if job.task.deed == Deed::Lose {
            self.close(job.session);
        }
        let end = job.end(wall);
        let then = Then::says(Input::Finished { turn, end });
        match job.second_end() {
            Some(end) => then.and(again, worker, Doing::Says(turn, end)),
            None => then,
        }
    }

    fn job(&self, worker: WorkerId, turn: TurnId) -> Option<&Job> {
        let job = self.members.get(&worker)?.job.as_ref()?;
        (job.id == turn).then_some(job)
    }

    fn end(&mut self, worker: WorkerId) {
        if let Some(member) = self.members.get_mut(&worker) {
            member.job = None;
        }
    }

    /// What was planned for the first of these events for which anything was, else what chance says.
    /// What was planned for the others is used up too: it is the same turn.
    fn task(&mut self, events: &[EventId]) -> Task {
        let mut planned = None;
        for event in events {
            let next = self.tasks.get_mut(event).and_then(VecDeque::pop_front);
            planned = planned.or(next);
        }
        planned.unwrap_or_else(|| self.chance_task())
    }

    fn chance_task(&mut self) -> Task {
        let mut deed = Deed::Answer;
        let mut rest = below(self.chance.number(), 1000);
        for (fault, share) in &self.conduct.faults {
            if rest < u64::from(*share) {
                deed = *fault;
                break;
            }
            rest = rest.saturating_sub(u64::from(*share));
        }
        let weights = self.conduct.turns.iter().map(|(weight, _)| *weight);
        let mut rest = below(self.chance.number(), weights.map(u64::from).sum());
        let mut span = (Duration::ZERO, Duration::ZERO);
        for (weight, own) in &self.conduct.turns {
            span = *own;
            if rest < u64::from(*weight) {
                break;
            }
            rest = rest.saturating_sub(u64::from(*weight));
        }
        let takes = self.draw(span);
        Task { deed, takes }
    }

    fn one_of_a_thousand(&mut self, share: u16) -> bool {
        share > 0 && below(self.chance.number(), 1000) < u64::from(share)
    }

    fn draw(&mut self, (low, high): Span) -> Duration {
        self.chance.between(low, high)
    }
}

fn below(number: u64, sides: u64) -> u64 {
    number.checked_rem(sides).unwrap_or(0)
}
