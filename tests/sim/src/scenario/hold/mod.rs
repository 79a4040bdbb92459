//! Hold: more conversations than workers, over an hour in which workers are slow, forget, fail and
//! end.
//!
//! People write in bursts, in threads and in direct messages, and then there is nothing for a while:
//! no message, no clock, nothing but the deadlines that the agent keeps itself. Turns take from
//! seconds to minutes, so that the worker that knows a conversation is often busy with another one;
//! it comes back before the wait for it is over, or after, or everybody is busy then. The owner
//! cancels and rotates, a channel is left in the middle, an allowance is used up, and the agent ends
//! while there is work. The figures are a judge's who watches what the machine is told and what it
//! orders, keeps books of his own, and looks into the relay's store.

mod figures;

use std::time::Duration;

use buzz_dev_relay::rules::Settings;
use buzz_proto::ids::{ChannelId, EventId};
use buzz_proto::seed::Seed;
use buzz_proto::time::MonoTime;

use super::ScenarioError;
use crate::world::clock::Chance;
use crate::world::crew::{Conduct, Deed, Task};
use crate::world::judge::Verdict;
use crate::world::{OWNER, Person, World, channel, workers_config};

pub use figures::Figures;

/// What the scenario is called.
pub const NAME: &str = "hold";

/// Subscriptions may take so long.
const START_MAX: Duration = Duration::from_secs(60);
/// After the last subscription.
const CALM: Duration = Duration::from_secs(5);
/// Rooms with threads.
const ROOMS: u16 = 3;
/// The room that is left.
const LEFT: ChannelId = channel(9);
/// Direct messages begin with this channel.
const DIRECT: u16 = 20;
const DIRECTS: u16 = 2;
/// Bursts of messages.
const ROUNDS: u32 = 22;
/// Messages of a large burst, which keeps all workers busy.
const LARGE: (u64, u64) = (12, 18);
/// Messages of a small one, which leaves some idle. Bursts are large and small in turn.
const SMALL: (u64, u64) = (3, 7);
/// Threads in which people go on writing.
const THREADS: usize = 9;
/// The agent has so long for its end.
const GRACE: Duration = Duration::from_secs(20);

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Where chance comes from.
    pub seed: u64,
    /// Workers; see [`Hold::WORKERS`].
    pub workers: u32,
}

impl Default for Hold {
    fn default() -> Self {
        Self {
            seed: 1,
            workers: 6,
        }
    }
}

/// A thread in which people write.
type Thread = (ChannelId, EventId);

/// The play under way.
struct Play {
    world: World,
    chance: Chance,
    threads: Vec<Thread>,
    written: u32,
    workers: u32,
}

impl Hold {
    /// Least and greatest number of workers. With one there is nobody to go to; with many, nobody is
    /// ever busy.
    pub const WORKERS: (u32, u32) = (2, 12);

    /// Plays it. `progress` is told how far it is, in a sentence for people.
    ///
    /// # Errors
    /// When a setting lies outside its bounds, or the agent does not get its subscriptions.
    pub fn play(&self, progress: impl FnMut(&str)) -> Result<Figures, ScenarioError> {
        let world = self.played(progress)?;
        let verdict = world.judge().unwrap_or_default();
        Ok(self.figures(&world, verdict))
    }

    /// The world after the play.
    ///
    /// # Errors
    /// As [`Hold::play`].
    pub fn played(&self, mut progress: impl FnMut(&str)) -> Result<World, ScenarioError> {
        let bounds = Self::WORKERS;
        if self.workers < bounds.0 || self.workers > bounds.1 {
            let name = "workers";
            return Err(ScenarioError::Setting { name, bounds });
        }
        let mut play = self.begin()?;
        for round in 0..ROUNDS {
            let is_large = round.is_multiple_of(2);
            play.burst(if is_large { LARGE } else { SMALL })?;
            play.special(round)?;
            play.pause();
            progress(&format!("{} of {ROUNDS} bursts", round.saturating_add(1)));
        }
        play.end()?;
        Ok(play.world)
    }

    fn begin(&self) -> Result<Play, ScenarioError> {
        let workers = u16::try_from(self.workers).unwrap_or(u16::MAX);
        let config = workers_config(workers);
        let mut world = World::new(config, Settings::default(), self.seed)?;
        world.listen();
        world.set_conduct(conduct());
        for number in 1..=ROOMS {
            world.open_channel(channel(number))?;
        }
        world.open_channel(LEFT)?;
        for number in 0..DIRECTS {
            world.open_direct(channel(DIRECT.saturating_add(number)))?;
        }
        let wanted = usize::from(ROOMS)
            .saturating_add(usize::from(DIRECTS))
            .saturating_add(2);
        if !world.run_until(START_MAX, |world| world.subscriptions() >= wanted) {
            let confirmed = world.subscriptions();
            return Err(ScenarioError::NotLive { confirmed, wanted });
        }
        world.run_for(CALM);
        Ok(Play {
            world,
            chance: Chance::new(Seed(self.seed).derive(29)),
            threads: Vec::new(),
            written: 0,
            workers: self.workers,
        })
    }

    fn figures(&self, world: &World, verdict: Verdict) -> Figures {
        let seconds = world.now().saturating_since(MonoTime::ZERO).as_secs();
        Figures {
            scenario: NAME,
            seed: self.seed,
            workers: u64::from(self.workers),
            owed: super::whole(world.owed().len()),
            virtual_seconds: seconds,
            digest: format!("{:016x}", world.digest()),
            ..Figures::from(verdict)
        }
    }
}

/// Turns of seconds and of minutes, and now and then something that goes wrong.
fn conduct() -> Conduct {
    let from_to = |low, high| (Duration::from_secs(low), Duration::from_secs(high));
    Conduct {
        stuck_starts: 30,
        turns: vec![
            (4, from_to(2, 8)),
            (3, from_to(8, 25)),
            (2, from_to(30, 120)),
            (1, from_to(180, 500)),
        ],
        faults: vec![
            (Deed::Crash, 15),
            (Deed::Fail, 25),
            (Deed::AnswerTwice, 20),
            (Deed::AnswerLate, 15),
            (Deed::SayNothing, 5),
            (Deed::Babble, 8),
            (Deed::Refuse, 10),
            (Deed::Forget, 20),
            (Deed::Lose, 10),
            (Deed::Ignore, 20),
        ],
        ..Conduct::default()
    }
}

impl Play {
    /// People write one message after the other, in threads old and new and to the agent itself.
    fn burst(&mut self, (least, most): (u64, u64)) -> Result<(), ScenarioError> {
        for _ in 0..self.below(least, most) {
            match self.below(0, 4) {
                0 => self.write_direct()?,
                1 => {
                    self.open_thread(None)?;
                }
                _ => self.write_in_thread()?,
            }
            let wait = self
                .chance
                .between(Duration::from_millis(20), Duration::from_secs(3));
            self.world.run_for(wait);
        }
        Ok(())
    }

    /// Nothing happens for a while, short or long.
    fn pause(&mut self) {
        let spans = [4, 11, 30, 90, 200];
        let span = spans.get(self.pick(spans.len())).copied();
        self.quietly(Duration::from_secs(span.unwrap_or_default()));
    }

    fn quietly(&mut self, span: Duration) {
        self.world.hush(true);
        self.world.run_for(span);
        self.world.hush(false);
    }

    /// What only some rounds have.
    fn special(&mut self, round: u32) -> Result<(), ScenarioError> {
        match round {
            2 | 17 => self.control("!cancel"),
            4 | 18 => self.control("!rotate"),
            6 | 13 => self.fill_up(),
            8 => self.leave(),
            10 => self.plan(Deed::Hang, Duration::ZERO),
            12 => self.plan(Deed::NeedHuman, Duration::from_secs(3)),
            14 => {
                let limit = Deed::Limit(Some(Duration::from_secs(90)));
                self.plan(limit, Duration::from_secs(2))
            }
            16 => {
                self.world.command(channel(1), None, "!cancel")?;
                Ok(())
            }
            19 => self.plan(Deed::Linger, Duration::ZERO),
            20 => {
                self.world.command(channel(DIRECT), None, "!rotate")?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The owner has second thoughts about a thread in the middle of its turn.
    fn control(&mut self, command: &str) -> Result<(), ScenarioError> {
        let minutes = Task {
            deed: Deed::Answer,
            takes: Duration::from_secs(300),
        };
        let (place, root) = self.open_thread(Some(minutes))?;
        self.world.run_for(Duration::from_secs(4));
        self.say_in((place, root))?;
        self.world.run_for(Duration::from_secs(40));
        self.world.command(place, Some(root), command)?;
        Ok(())
    }

    /// A thread has its session, and then everybody is busy for longer than it waits.
    fn fill_up(&mut self) -> Result<(), ScenarioError> {
        let takes = |seconds| Task {
            deed: Deed::Answer,
            takes: Duration::from_secs(seconds),
        };
        let thread = self.open_thread(Some(takes(2)))?;
        self.quietly(Duration::from_secs(30));
        for number in 0..self.workers {
            let seconds = 25_u64.saturating_add(u64::from(number).saturating_mul(9));
            self.open_thread(Some(takes(seconds)))?;
        }
        self.world.run_for(Duration::from_secs(2));
        self.say_in(thread)?;
        self.quietly(Duration::from_secs(70));
        Ok(())
    }

    /// The agent is sent out of a room in the middle of a turn, with more to do there.
    fn leave(&mut self) -> Result<(), ScenarioError> {
        let minutes = Task {
            deed: Deed::Answer,
            takes: Duration::from_secs(200),
        };
        let words = self.words();
        let root = self.world.publish(Person(1), LEFT, &words, None)?;
        self.world.assign(root, &[minutes]);
        self.world.run_for(Duration::from_secs(30));
        for _ in 0..2 {
            let words = self.words();
            self.world.reply(Person(2), (LEFT, root), &words)?;
        }
        self.world.run_for(Duration::from_secs(1));
        self.world.expel(LEFT)?;
        Ok(())
    }

    /// One turn goes like this.
    fn plan(&mut self, deed: Deed, takes: Duration) -> Result<(), ScenarioError> {
        self.open_thread(Some(Task { deed, takes }))?;
        Ok(())
    }

    /// Work is under way, more waits, and the agent is told to end.
    fn end(&mut self) -> Result<(), ScenarioError> {
        self.quietly(Duration::from_secs(1200));
        self.burst(LARGE)?;
        self.world.shut_down(GRACE);
        // What the relay stores of the last messages is known a moment later.
        self.world.run_for(CALM);
        Ok(())
    }

    fn write_direct(&mut self) -> Result<(), ScenarioError> {
        let number = self.pick(usize::from(DIRECTS));
        let number = u16::try_from(number).unwrap_or_default();
        let place = channel(DIRECT.saturating_add(number));
        let words = self.words();
        self.world.publish(OWNER, place, &words, None)?;
        Ok(())
    }

    fn open_thread(&mut self, task: Option<Task>) -> Result<Thread, ScenarioError> {
        let place = u16::try_from(self.pick(usize::from(ROOMS))).unwrap_or_default();
        let place = channel(place.saturating_add(1));
        let author = self.author();
        let words = self.words();
        let root = self.world.publish(author, place, &words, None)?;
        self.world.assign(root, task.as_slice());
        if self.threads.len() >= THREADS {
            self.threads.remove(0);
        }
        self.threads.push((place, root));
        Ok((place, root))
    }

    fn write_in_thread(&mut self) -> Result<(), ScenarioError> {
        let number = self.pick(self.threads.len());
        match self.threads.get(number).copied() {
            Some(thread) => self.say_in(thread),
            None => self.open_thread(None).map(|_| ()),
        }
    }

    fn say_in(&mut self, thread: Thread) -> Result<(), ScenarioError> {
        let author = self.author();
        let words = self.words();
        self.world.reply(author, thread, &words)?;
        Ok(())
    }

    fn author(&mut self) -> Person {
        Person(u32::try_from(self.below(1, 5)).unwrap_or(1))
    }

    fn words(&mut self) -> String {
        self.written = self.written.saturating_add(1);
        format!("question {}", self.written)
    }

    fn pick(&mut self, count: usize) -> usize {
        let sides = u64::try_from(count).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.below(0, sides.saturating_sub(1))).unwrap_or_default()
    }

    /// A number from `low` to `high`, both included.
    fn below(&mut self, low: u64, high: u64) -> u64 {
        let sides = high.saturating_sub(low).saturating_add(1);
        let rest = self.chance.number().checked_rem(sides).unwrap_or_default();
        low.saturating_add(rest)
    }
}
