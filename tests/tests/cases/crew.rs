//! A scheduler, workers that do as they are told, and people who write to them.

mod orders;
mod record;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use buzz_proto::ids::{EventId, JobId, Ticket, TurnId};
use buzz_proto::publish::Verdict;
use buzz_proto::relay::{ChannelKind, ChannelState, HttpAnswer, Sub};
use buzz_proto::schedule::{
    Command, Config, DownCause, FailureClass, Input, OpenCause, Scheduler, StopReason, Target,
    TurnEnd, Want, WorkerId,
};
use buzz_proto::seed::Seed;
use buzz_proto::time::MonoTime;
use buzz_proto::wire::Excerpt;
use buzz_sim::script::{Script, script};
use buzz_sim::toy::{self, ME, START, Toy, channel};
use bytes::Bytes;

use crate::player::{Case, ELSEWHERE, Stage, TRAFFIC};
use crate::whole::OWNER;
pub(crate) use record::{
    begun, begun_with, cancelled, closed, ended, ends_of, hold_ends, holds, killed, noted, orders,
    published, retried, spawned, times,
};
pub(crate) use rules::check_promptness;

/// A channel with threads.
pub(crate) const ROOM: u8 = 1;
/// Direct messages: each is one conversation.
pub(crate) const ANNE: u8 = 11;
pub(crate) const BERT: u8 = 12;
pub(crate) const CARA: u8 = 13;

/// What a verdict takes, and an answer that nobody gives by hand.
const LATENCY: Duration = Duration::from_millis(50);
const SECOND: Duration = Duration::from_secs(1);
/// The longest rest that any case leads to is over by then.
const REST_SECONDS: u64 = 6 * 3600;

/// What a worker makes of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// It is carried out at once.
    Works,
    /// It is refused at once.
    Fails,
    /// It is answered by hand, or never.
    ByHand,
}

/// A turn as its worker knows it.
#[derive(Clone, Debug)]
struct Work {
    turn: TurnId,
    worker: WorkerId,
    batch: Vec<u64>,
    is_open: bool,
}

/// A scheduler and all around it.
pub(crate) struct Crew {
    pub(crate) script: Script<Scheduler>,
    pub(crate) config: Config,
    /// What becomes of starts of workers.
    pub(crate) starts: Conduct,
    /// What becomes of sessions to be opened or resumed.
    pub(crate) opens: Conduct,
    /// What becomes of cancels.
    pub(crate) cancels: Conduct,
    /// What becomes of kills.
    pub(crate) kills: Conduct,
    /// What becomes of prompts; nothing where they are answered by hand.
    pub(crate) prompts: Option<TurnEnd>,
    /// What becomes of queries; they find nothing.
    pub(crate) queries: Conduct,
    /// The verdict on what is published.
    pub(crate) verdict: Verdict,
    /// When the case begins.
    zero: MonoTime,
    /// Workers whose start or end is answered by hand.
    starting: BTreeSet<WorkerId>,
    ending: BTreeSet<WorkerId>,
    /// The life in each slot.
    lives: BTreeMap<u16, WorkerId>,
    works: Vec<Work>,
    /// Turns that workers ended.
    over: Vec<Work>,
    /// Facts on their way.
    due: BTreeMap<(MonoTime, u64), Input>,
    facts: u64,
    /// Events without an outcome.
    owed: BTreeSet<EventId>,
    /// Nothing may start: the outbox has no room for what it would say.
    is_stopped_up: bool,
    /// It has ended: what has no outcome belongs to the next life.
    is_over: bool,
}

impl Crew {
    /// As [`idle`](Self::idle), and no worker has started.
    pub(crate) fn unmanned(config: Config) -> Self {
        let scheduler = Scheduler::new(config.clone(), ME, Seed(7), MonoTime::ZERO);
        let mut crew = Self {
            script: script(scheduler.expect("the settings work")),
            config,
            starts: Conduct::ByHand,
            opens: Conduct::Works,
            cancels: Conduct::Works,
            kills: Conduct::Works,
            prompts: None,
            queries: Conduct::Works,
            verdict: Verdict::Stored,
            zero: MonoTime::ZERO,
            starting: BTreeSet::new(),
            ending: BTreeSet::new(),
            lives: BTreeMap::new(),
            works: Vec::new(),
            over: Vec::new(),
            due: BTreeMap::new(),
            facts: 0,
            owed: BTreeSet::new(),
            is_stopped_up: false,
            is_over: false,
        };
        crew.feed(Input::WallClock(START));
        for (place, kind) in [
            (ROOM, ChannelKind::Stream),
            (ELSEWHERE, ChannelKind::Stream),
            (ANNE, ChannelKind::Direct),
            (BERT, ChannelKind::Direct),
            (CARA, ChannelKind::Direct),
        ] {
            let (channel, state) = (channel(place), ChannelState::Joined { kind });
            crew.feed(Input::Channel { channel, state });
        }
        crew.feed(Input::Link { live: true });
        crew
    }

    /// All workers are ready, and nothing is to be done.
    pub(crate) fn idle(config: Config) -> Self {
        let mut crew = Self::unmanned(config);
        crew.starts = Conduct::Works;
        for worker in std::mem::take(&mut crew.starting) {
            crew.feed(Input::WorkerUp { worker });
        }
        crew.begins()
    }

    /// The case begins now.
    pub(crate) fn begins(mut self) -> Self {
        self.run_for(SECOND);
        self.zero = self.script.now();
        self
    }

    /// Milliseconds since the case began; nothing before.
    pub(crate) fn ms(&self, at: MonoTime) -> Option<u64> {
        let span = (at >= self.zero).then(|| at.saturating_since(self.zero))?;
        Some(u64::try_from(span.as_millis()).expect("a short case"))
    }

    /// When a tick is wanted, in milliseconds since the case began.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let (at, _) = self.script.part().next_deadline()?;
        self.ms(at)
    }

    /// The owner writes: at top level of a channel, or in direct messages.
    pub(crate) fn say(&mut self, n: u64, place: u8) {
        self.bring(&Toy::mention(n, channel(place)), place);
    }

    /// The owner writes in a thread of the room.
    pub(crate) fn say_in(&mut self, n: u64, root: u64) {
        let root = toy::id(root).to_string();
        let event = Toy::mention(n, channel(ROOM)).tag(&["e", &root, "", "reply"]);
        self.bring(&event, ROOM);
    }

    /// An event comes; the owner's, unless it says otherwise, and dated now.
    pub(crate) fn bring(&mut self, event: &Toy, place: u8) {
        let now = self.script.now().saturating_since(MonoTime::ZERO);
        let event = event.clone().dated(START.after(now)).event();
        self.feed(Input::Arrived {
            sub: Sub::Channel(channel(place)),
            event,
            lives: 0,
        });
    }

    /// The application wants something of a channel.
    pub(crate) fn control(&mut self, place: u8, want: Want) {
        let target = Target::Channel(channel(place));
        self.feed(Input::Command(Command::Control { target, want }));
    }

    /// The session of a turn with this event opens.
    pub(crate) fn opened(&mut self, n: u64) {
        let is_it = |work: &&mut Work| !work.is_open && work.batch.contains(&n);
        if let Some(work) = self.works.iter_mut().find(is_it) {
            work.is_open = true;
            let turn = work.turn;
            self.feed(Input::SessionOpened { turn });
        }
    }

    /// The session of a turn with this event does not open.
    pub(crate) fn not_opened(&mut self, n: u64, cause: OpenCause) {
        let is_it = |work: &Work| !work.is_open && work.batch.contains(&n);
        if self.works.iter().any(is_it)
            && let Some(turn) = self.take(n)
        {
            self.feed(Input::SessionFailed { turn, cause });
        }
    }

    /// The worker with this event gives a sign of life.
    pub(crate) fn lives(&mut self, n: u64) {
        if let Some(turn) = self.turn_with(n) {
            self.feed(Input::Progressed { turn });
        }
    }

    /// The worker with this event answers.
    pub(crate) fn answers(&mut self, n: u64) {
        let (reply, stop) = (format!("answer to {n}"), StopReason::EndTurn);
        self.ends(n, TurnEnd::Answered { reply, stop });
    }

    /// The worker with this event fails.
    pub(crate) fn fails(&mut self, n: u64, class: FailureClass) {
        let text = Excerpt::new("Internal error");
        self.ends(n, TurnEnd::Failed { class, text });
    }

    /// The turn with this event ends.
    pub(crate) fn ends(&mut self, n: u64, end: TurnEnd) {
        if let Some(turn) = self.take(n) {
            self.feed(Input::Finished { turn, end });
        }
    }

    /// What was said of the first turn with this event, which is over, is said again.
    pub(crate) fn ends_late(&mut self, n: u64, end: TurnEnd) {
        let first = self.over.iter().find(|work| work.batch.contains(&n));
        if let Some(turn) = first.map(|work| work.turn) {
            self.feed(Input::Finished { turn, end });
        }
    }

    /// The worker in a slot ends by itself.
    pub(crate) fn exits(&mut self, slot: u16) {
        if let Some(worker) = self.lives.get(&slot).copied() {
            let (code, text) = (Some(137), Excerpt::new("out of memory"));
            self.down(worker, DownCause::Exited { code, text });
        }
    }

    /// The worker whose start was ordered in a slot is ready.
    pub(crate) fn ready(&mut self, slot: u16) {
        let found = self.starting.iter().find(|worker| worker.slot == slot);
        if let Some(worker) = found.copied() {
            self.starting.remove(&worker);
            self.feed(Input::WorkerUp { worker });
        }
    }

    /// The worker whose end was ordered in a slot has ended.
    pub(crate) fn gone(&mut self, slot: u16) {
        let found = self.ending.iter().find(|worker| worker.slot == slot);
        if let Some(worker) = found.copied() {
            self.down(worker, DownCause::Killed);
        }
    }

    /// A worker has ended.
    pub(crate) fn down(&mut self, worker: WorkerId, cause: DownCause) {
        self.starting.remove(&worker);
        self.ending.remove(&worker);
        let (over, works) = std::mem::take(&mut self.works)
            .into_iter()
            .partition(|work| work.worker == worker);
        self.works = works;
        self.over.extend::<Vec<_>>(over);
        self.feed(Input::WorkerDown { worker, cause });
    }

    /// Whether a worker has this event.
    pub(crate) fn is_at(&self, n: u64) -> bool {
        self.turn_with(n).is_some()
    }

    /// The events that workers have.
    pub(crate) fn at_work(&self) -> Vec<u64> {
        let all = self.works.iter().flat_map(|work| &work.batch);
        all.copied().collect()
    }

    /// How many events have no outcome.
    pub(crate) fn owed(&self) -> usize {
        self.owed.len()
    }

    /// Whether the scheduler has ended.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether an event has an outcome.
    pub(crate) fn is_settled(&self, n: u64) -> bool {
        !self.owed.contains(&toy::id(n))
    }

    fn turn_with(&self, n: u64) -> Option<TurnId> {
        let found = self.works.iter().find(|work| work.batch.contains(&n));
        found.map(|work| work.turn)
    }

    fn take(&mut self, n: u64) -> Option<TurnId> {
        let is_it = |work: &Work| work.batch.contains(&n);
        let place = self.works.iter().position(is_it)?;
        let work = self.works.remove(place);
        self.over.push(work.clone());
        Some(work.turn)
    }

    /// Feeds a fact and carries out what follows.
    pub(crate) fn feed(&mut self, fact: Input) {
        if let Input::Arrived { event, .. } = &fact {
            self.owed.insert(event.id());
        }
        if let Input::Outbox { is_half_full } = fact {
            self.is_stopped_up = is_half_full;
        }
        self.script.input(fact);
        self.settle();
    }

    /// Lets time pass.
    pub(crate) fn run_for(&mut self, span: Duration) {
        let end = self.script.now().after(span);
        while self.script.now() < end {
            let due = self.due.first_key_value().map(|((at, _), _)| *at);
            let wake = self.script.part().next_deadline().map(|(at, _)| at);
            let quiet = wake.unwrap_or(end).min(end);
            if due.is_some_and(|at| at <= quiet) {
                if let Some(((at, _), fact)) = self.due.pop_first() {
                    self.script.at(at);
                    self.feed(fact);
                }
            } else {
                self.script.run_until(quiet);
                self.settle();
            }
        }
    }

    /// All trouble is over: workers do as they are told, and answer.
    fn heal(&mut self) {
        self.starts = Conduct::Works;
        self.opens = Conduct::Works;
        self.cancels = Conduct::Works;
        self.kills = Conduct::Works;
        self.prompts = None;
        self.queries = Conduct::Works;
        self.verdict = Verdict::Stored;
        for worker in std::mem::take(&mut self.ending) {
            self.down(worker, DownCause::Killed);
        }
        for worker in std::mem::take(&mut self.starting) {
            self.feed(Input::WorkerUp { worker });
        }
        let open: Vec<u64> = self.works.iter().map(|work| work.batch[0]).collect();
        for n in open {
            self.opened(n);
        }
    }

    fn answer_all(&mut self) {
        let open: Vec<u64> = self.works.iter().map(|work| work.batch[0]).collect();
        for n in open {
            self.answers(n);
        }
    }
}

impl Stage for Crew {
    fn instant(&self) -> MonoTime {
        self.script.now()
    }

    fn pass(&mut self, span: Duration) {
        self.run_for(span);
    }

    fn lose_connection(&mut self) {
        self.feed(Input::Link { live: false });
        self.feed(Input::Link { live: true });
    }

    /// A message of a stranger and one of our own, and answers to what is over or never was.
    fn bring_traffic(&mut self, number: u64) {
        let stranger = Toy::mention(TRAFFIC + 2 * number, channel(ELSEWHERE));
        self.bring(&stranger.author(toy::key(0xcc)), ELSEWHERE);
        let own = Toy::mention(TRAFFIC + 2 * number + 1, channel(ELSEWHERE));
        self.bring(&own.author(ME), ELSEWHERE);
        let (turn, job) = (TurnId(u64::MAX - number), JobId(u64::MAX / 2 + 5));
        let (end, verdict) = (TurnEnd::Cancelled, Verdict::Stored);
        self.feed(Input::SessionOpened { turn });
        self.feed(Input::Progressed { turn });
        self.feed(Input::Finished { turn, end });
        self.feed(Input::Settled { job, verdict });
        let (ticket, answer) = (Ticket(u64::MAX - number), nothing_found());
        self.feed(Input::Answered { ticket, answer });
        let never = WorkerId {
            slot: 0,
            incarnation: 0,
        };
        let cause = DownCause::Killed;
        self.feed(Input::WorkerUp { worker: never });
        let worker = never;
        self.feed(Input::WorkerDown { worker, cause });
    }

    /// Time passes until every event has its outcome.
    fn come_to_rest(&mut self) {
        self.heal();
        for _ in 0..REST_SECONDS {
            if self.is_over || (self.owed.is_empty() && self.works.is_empty()) {
                return;
            }
            self.answer_all();
            self.run_for(SECOND);
            self.check_present();
        }
        self.script.fail("events are left without an outcome");
    }

    /// What is owed and not with a worker or on its way wants to be woken.
    fn check_present(&self) {
        let is_due = self.script.part().next_deadline().is_some();
        let is_wanted = !self.owed.is_empty() && !self.is_stopped_up && !self.is_over;
        if is_wanted && self.due.is_empty() && !is_due {
            self.script.fail("something is owed and nothing is due");
        }
    }

    fn check_transcript(&self) {
        rules::check(self);
    }
}

/// The settings of a case: nothing is shown but answers and notices.
pub(crate) fn settings(workers: u16) -> Config {
    let mut config = Config::new(workers);
    config.owner = Some(toy::key(OWNER));
    config.cosmetics = false;
    config.marks = false;
    config.limits.context_max = 0;
    config
}

/// So many workers, ready.
pub(crate) fn workers(count: u16) -> Crew {
    Crew::idle(settings(count))
}

/// The number of an event.
pub(crate) fn number(id: EventId) -> u64 {
    let (head, _) = id.0.split_at(8);
    u64::from_be_bytes(head.try_into().expect("eight bytes"))
}

fn nothing_found() -> HttpAnswer {
    HttpAnswer {
        status: 200,
        retry_after: None,
        date: None,
        body: Bytes::from_static(b"[]"),
    }
}

/// A worker with an event gives signs of life so often that none is far from the one before.
pub(crate) const SIGN: u64 = 600_000;

/// The worker with an event gives signs of life until then.
pub(crate) fn alive(mut case: Case<Crew>, n: u64, until: u64) -> Case<Crew> {
    for number in 1..until / SIGN {
        case = case.at(number * SIGN, move |crew| crew.lives(n));
    }
    case
}
