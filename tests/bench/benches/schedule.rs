//! What one decision of the scheduler costs, by how many scopes wait.
//!
//! All workers are busy. Each step ends one turn, which starts the next one in the scope that has
//! waited longest, and brings one event to a scope of its own, so that as many wait after it as
//! before. Machines differ and are shared, so that only ratios within one run mean anything, and of
//! each size the fastest pass counts. A cost that grows with the logarithm of the number of scopes
//! is 2.5 times as high for a thousand times as many; the limit leaves room for caches that are too
//! small. Beyond it the run fails.

#![expect(clippy::print_stdout, reason = "figures are what a benchmark is for")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use buzz_proto::ids::{ChannelId, PubKey, TurnId};
use buzz_proto::publish::{Command, Verdict};
use buzz_proto::relay::{ChannelKind, ChannelState, Sub};
use buzz_proto::schedule::{
    Action, Config, Input, Limits, RespondTo, Scheduler, Session, StopReason, TurnEnd,
};
use buzz_proto::seed::Seed;
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_proto::wire::Event;
use serde_json::json;

const SIZES: [u64; 4] = [100, 1_000, 10_000, 100_000];
const WORKERS: u16 = 4;
/// Scopes of one channel.
const THREADS: u64 = 100;
/// Passes of which the fastest counts, and steps of one.
const PASSES: usize = 15;
const STEPS: u32 = 100;
/// Between the smallest and any other size.
const RATIO_MAX: f64 = 3.0;
const START: UnixTime = UnixTime(1_800_000_000);

fn main() -> ExitCode {
    let costs = SIZES.map(cost);
    let [least, ..] = costs;
    println!("{:>9}  {:>15}  {:>9}", "scopes", "one decision", "ratio");
    let ratio = |cost: Duration| cost.as_secs_f64() / least.as_secs_f64();
    for (size, cost) in SIZES.into_iter().zip(costs) {
        let micros = cost.as_secs_f64() * 1e6;
        println!("{size:>9}  {micros:>12.2} us  {:>9.2}", ratio(cost));
    }
    let worst = costs.map(ratio).into_iter().fold(0.0, f64::max);
    if worst > RATIO_MAX {
        println!("grows faster than a logarithm: {worst:.2} times, at most {RATIO_MAX}");
        return ExitCode::FAILURE;
    }
    println!("grows like a logarithm: {worst:.2} times, at most {RATIO_MAX}");
    ExitCode::SUCCESS
}

/// The cost of one step among so many scopes.
fn cost(scopes: u64) -> Duration {
    let mut office = Office::with(scopes);
    office.pass();
    let passes = (0..PASSES).map(|_| office.pass());
    let fastest = passes.min().unwrap_or_default();
    fastest.checked_div(STEPS).unwrap_or_default()
}

/// A scheduler, and who tells it what it has to be told.
struct Office {
    scheduler: Scheduler,
    now: MonoTime,
    channels: u64,
    events: u64,
    /// Turns, the oldest first.
    running: Vec<TurnId>,
}

impl Office {
    /// All workers are busy, and so many scopes wait.
    fn with(scopes: u64) -> Self {
        let now = MonoTime::ZERO;
        let me = PubKey([0xa1; 32]);
        let scheduler = Scheduler::new(config(), me, Seed(7), now).expect("the settings work");
        let mut office = Self {
            scheduler,
            now,
            channels: scopes.div_ceil(THREADS),
            events: 0,
            running: Vec::new(),
        };
        office.tell(Input::WallClock(START));
        for number in 0..office.channels {
            let (channel, kind) = (channel(number), ChannelKind::Stream);
            let state = ChannelState::Joined { kind };
            office.tell(Input::Channel { channel, state });
        }
        for _ in 0..scopes + u64::from(WORKERS) {
            let event = office.event();
            office.tell(arrived(event));
        }
        assert_eq!(office.running.len(), usize::from(WORKERS));
        assert_eq!(office.scheduler.view().queued as u64, scopes);
        office
    }

    /// How long the steps take, without what leads up to them.
    fn pass(&mut self) -> Duration {
        let waiting = self.scheduler.view().queued;
        let mut spent = Duration::ZERO;
        for _ in 0..STEPS {
            let event = self.event();
            self.now = self.now.after(Duration::from_millis(1));
            let turn = self.running.remove(0);
            let begun = Instant::now();
            self.tell(finished(turn));
            self.tell(arrived(event));
            spent += begun.elapsed();
            assert_eq!(self.running.len(), usize::from(WORKERS), "a turn starts");
            assert_eq!(self.scheduler.view().queued, waiting, "one goes, one comes");
        }
        black_box(&self.scheduler);
        spent
    }

    /// A message that begins a thread.
    fn event(&mut self) -> Event {
        self.events += 1;
        let zeros = "0".repeat(128);
        let event = json!({
            "id": format!("{:064x}", self.events),
            "pubkey": PubKey([0xb2; 32]),
            "created_at": START,
            "kind": 9,
            "tags": [["h", channel(self.events % self.channels)]],
            "content": "hello",
            "sig": zeros,
        });
        Event::decode(event.to_string().into()).expect("it is well-formed")
    }

    /// Tells a fact, and all that follows from it at once.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "nothing follows from most orders"
    )]
    fn tell(&mut self, input: Input) {
        for action in self.scheduler.handle_input(input, self.now) {
            match action {
                Action::Spawn { worker } => self.tell(Input::WorkerUp { worker }),
                Action::Start { turn, session, .. } => {
                    self.running.push(turn);
                    if matches!(session, Session::Fresh(_)) {
                        self.tell(Input::SessionOpened { turn });
                    }
                }
                Action::Publish(Command::Submit { job, .. }) => {
                    let verdict = Verdict::Stored;
                    self.tell(Input::Settled { job, verdict });
                }
                _ => {}
            }
        }
    }
}

fn config() -> Config {
    let limits = Limits {
        channel_max: u32::MAX,
        total_max: u32::MAX,
        context_max: 0,
        ..Limits::default()
    };
    Config {
        respond_to: RespondTo::Anyone,
        mention_only: false,
        cosmetics: false,
        marks: false,
        limits,
        ..Config::new(WORKERS)
    }
}

fn arrived(event: Event) -> Input {
    let channel = event.channel().expect("it is in a channel");
    Input::Arrived {
        sub: Sub::Channel(channel),
        event,
        lives: 0,
    }
}

fn finished(turn: TurnId) -> Input {
    let (reply, stop) = ("done".to_owned(), StopReason::EndTurn);
    let end = TurnEnd::Answered { reply, stop };
    Input::Finished { turn, end }
}

/// A channel, told apart by a number.
fn channel(number: u64) -> ChannelId {
    let mut bytes = [0x77; 16];
    let (head, _) = bytes.split_at_mut(8);
    head.copy_from_slice(&number.to_be_bytes());
    ChannelId(bytes)
}
