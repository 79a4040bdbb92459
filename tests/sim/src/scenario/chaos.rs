//! Chaos: people write, and everything goes wrong that can, at moments and in an order that a seed
//! draws. Then all is well again, and everything owed has to arrive.
//!
//! Nothing is made worse than a real relay, network or process is: links break, the relay stalls
//! and drops frames, restarts, forgets the end of a history, fails; authors have wrong clocks; the
//! consumer is slow and hands events back; the agent is killed or ends in good order and begins
//! again with its records.

use std::collections::BTreeMap;
use std::time::Duration;

use buzz_dev_relay::faults::{CannedReply, Fault, Target};
use buzz_dev_relay::rules::Settings;
use buzz_proto::config::Config;
use buzz_proto::ids::ChannelId;
use buzz_proto::note::Note;
use buzz_proto::seed::Seed;
use serde::Serialize;

use super::ScenarioError;
use crate::world::{Pace, Person, World, channel, config};

/// Channels are there.
const CHANNELS: u16 = 4;
/// Subscriptions may take so long.
const START_MAX: Duration = Duration::from_secs(60);
/// Records are kept once a second.
const RECORDED: Duration = Duration::from_secs(3);
/// Between two troubles.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(4));
/// Now and then nothing happens for so long: a cursor looks back by 18 minutes, which must pass for
/// it to move.
const QUIET: (Duration, Duration) = (Duration::from_secs(120), Duration::from_secs(2400));
/// From a new dial until the stored events are there, more or less.
const RETURN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(1200));
/// A relay takes author dates up to fifteen minutes from its own clock.
const SKEW_MAX: Duration = Duration::from_secs(880);
/// After all troubles: for what is under way, before the last connection is cut.
const CALM: Duration = Duration::from_secs(90);
/// Waits grow up to five minutes, so what is owed may take a while.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Afterwards, so that what would come twice has time to.
const AFTERMATH: Duration = Duration::from_secs(900);
/// An agent that ends in good order is given so long.
const GRACE: Duration = Duration::from_secs(10);
/// Messages of one person; a relay lets each post 300 a minute.
const PER_PERSON: usize = 100;
/// A relay says so when frames were dropped.
const SIGNAL: &str = r#"["BUZZ_SYNC_REQUIRED","backpressure"]"#;

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chaos {
    /// Where chance comes from.
    pub seed: u64,
    /// How many troubles there are.
    pub troubles: u32,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// As set.
    pub seed: u64,
    /// Mentions that the relay stored.
    pub owed: usize,
    /// Those that the consumer neither holds nor has accepted.
    pub undelivered: usize,
    /// Deliveries beyond the first of an event in one life.
    pub duplicates: u64,
    /// Deliveries of what a record said to be done with.
    pub repeated: u64,
    /// Notes that events will not be delivered.
    pub gaps: usize,
    /// Requests for stored events of channels.
    pub requests: usize,
    /// Frames that the relay dropped.
    pub dropped: u64,
    /// Frames and calls of the agent that the relay refused because of a quota.
    pub over_quota: u64,
    /// Troubles of each kind.
    pub troubles: BTreeMap<&'static str, u32>,
    /// A hash of all facts and orders.
    pub digest: String,
}

impl Figures {
    /// Whether everything owed was delivered, once, without a gap.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.undelivered == 0 && self.duplicates == 0 && self.repeated == 0 && self.gaps == 0
    }
}

impl Chaos {
    /// Plays it in a world of its own.
    ///
    /// # Errors
    /// When the relay refuses what it should take, or the settings do not work.
    pub fn play(&self) -> Result<Figures, ScenarioError> {
        let world = self.world()?;
        self.play_in(world).map(|(figures, _)| figures)
    }

    /// A world for it before its first moment.
    ///
    /// # Errors
    /// When the settings do not work.
    pub fn world(&self) -> Result<World, ScenarioError> {
        let mut draws = Draws::new(Seed(self.seed).derive(1));
        let slots = draws.pick(&[1, 3, 8, 32, 256]);
        let mut config = config(slots);
        with_records(&mut config);
        let settings = Settings {
            queue_frames: draws.pick(&[150, 1000]),
            ..Settings::default()
        };
        let mut world = World::new(config, settings, self.seed)?;
        for number in 1..=CHANNELS {
            world.open_channel(channel(number))?;
        }
        Ok(world)
    }

    /// Plays it in a world that [`Chaos::world`] made, and gives the world back.
    ///
    /// # Errors
    /// When the relay refuses what it should take, or records cannot be used.
    pub fn play_in(&self, world: World) -> Result<(Figures, World), ScenarioError> {
        let mut play = Play {
            world,
            draws: Draws::new(Seed(self.seed).derive(2)),
            troubles: BTreeMap::new(),
        };
        // What is dated before an agent's first start is owed only once it has read and recorded
        // what was there.
        let wanted = usize::from(CHANNELS);
        play.world
            .run_until(START_MAX, |world| world.subscriptions() > wanted);
        play.world.run_for(RECORDED);
        for _ in 0..self.troubles {
            play.trouble()?;
            let pause = play.draws.span(PAUSE);
            play.world.run_for(pause);
        }
        play.heal();
        Ok((play.figures(self.seed), play.world))
    }
}

fn with_records(config: &mut Config) {
    config.relay.records = Some(Vec::new());
}

struct Play {
    world: World,
    draws: Draws,
    troubles: BTreeMap<&'static str, u32>,
}

type Trouble = fn(&mut Play) -> Result<(), ScenarioError>;

/// How often each is drawn, of all weights together.
const TROUBLES: [(u64, &str, Trouble); 16] = [
    (30, "mention", Play::mention),
    (9, "burst", Play::burst),
    (9, "pace", Play::pace),
    (3, "hand back", Play::hand_back),
    (4, "stall", Play::stall),
    (6, "flow", Play::flow),
    (5, "cut", Play::cut),
    (3, "offline", Play::offline),
    (5, "online", Play::online),
    (2, "relay restart", Play::restart_relay),
    (2, "kill", Play::kill),
    (2, "end", Play::end),
    (3, "return and kill", Play::return_and_kill),
    (5, "quiet", Play::quiet),
    (2, "signal", Play::signal),
    (7, "fault", Play::fault),
];

#[expect(
    clippy::unnecessary_wraps,
    reason = "the troubles of one table have one type, and some can fail"
)]
impl Play {
    fn trouble(&mut self) -> Result<(), ScenarioError> {
        let all = TROUBLES.iter().map(|(weight, _, _)| weight).sum();
        let mut drawn = self.draws.below(all);
        for (weight, name, trouble) in TROUBLES {
            if drawn < weight {
                let count = self.troubles.entry(name).or_default();
                *count = count.saturating_add(1);
                return trouble(self);
            }
            drawn = drawn.saturating_sub(weight);
        }
        Ok(())
    }

    fn mention(&mut self) -> Result<(), ScenarioError> {
        let channel = self.channel();
        self.publish(channel)
    }

    fn burst(&mut self) -> Result<(), ScenarioError> {
        let channel = self.channel();
        for _ in 0..self.draws.pick(&[5, 20, 60]) {
            self.publish(channel)?;
            let pause = self.draws.pick(&[0, 1, 5, 50]);
            self.world.run_for(Duration::from_millis(pause));
        }
        Ok(())
    }

    fn channel(&mut self) -> ChannelId {
        let number = self.draws.below(u64::from(CHANNELS)).saturating_add(1);
        channel(u16::try_from(number).unwrap_or(1))
    }

    fn publish(&mut self, channel: ChannelId) -> Result<(), ScenarioError> {
        let posts = self.world.owed().len();
        let author = posts.checked_div(PER_PERSON).unwrap_or_default();
        let author = Person(u32::try_from(author).unwrap_or_default());
        let skew = self.draws.span((Duration::ZERO, SKEW_MAX));
        let wall = self.world.wall();
        let dated = match self.draws.below(8) {
            0 => Some(wall.before(skew)),
            1 => Some(wall.after(skew)),
            _ => None,
        };
        let words = format!("mention {posts}");
        self.world.publish(author, channel, &words, dated)?;
        Ok(())
    }

    fn pace(&mut self) -> Result<(), ScenarioError> {
        let each = |millis| Pace::OneEach(Duration::from_millis(millis));
        let paces = [Pace::Stalled, each(20), each(500), each(3000), Pace::Eager];
        let pace = self.draws.pick(&paces);
        self.world.set_pace(pace);
        Ok(())
    }

    fn hand_back(&mut self) -> Result<(), ScenarioError> {
        let one_in = self.draws.pick(&[0, 2, 6]);
        self.world.consumer_hands_back(one_in);
        Ok(())
    }

    fn stall(&mut self) -> Result<(), ScenarioError> {
        self.world.stall_relay(true);
        Ok(())
    }

    fn flow(&mut self) -> Result<(), ScenarioError> {
        self.world.stall_relay(false);
        Ok(())
    }

    fn cut(&mut self) -> Result<(), ScenarioError> {
        self.world.cut_connection();
        Ok(())
    }

    fn offline(&mut self) -> Result<(), ScenarioError> {
        self.world.set_online(false);
        Ok(())
    }

    fn online(&mut self) -> Result<(), ScenarioError> {
        self.world.set_online(true);
        Ok(())
    }

    fn restart_relay(&mut self) -> Result<(), ScenarioError> {
        self.world.restart_relay();
        Ok(())
    }

    fn kill(&mut self) -> Result<(), ScenarioError> {
        Ok(self.world.restart()?)
    }

    fn end(&mut self) -> Result<(), ScenarioError> {
        Ok(self.world.restart_cleanly(GRACE)?)
    }

    /// The agent is killed while it reads what it missed.
    fn return_and_kill(&mut self) -> Result<(), ScenarioError> {
        self.world.set_online(true);
        self.world.cut_connection();
        self.burst()?;
        let pause = self.draws.span(RETURN);
        self.world.run_for(pause);
        self.kill()
    }

    fn quiet(&mut self) -> Result<(), ScenarioError> {
        let pause = self.draws.span(QUIET);
        self.world.run_for(pause);
        Ok(())
    }

    fn signal(&mut self) -> Result<(), ScenarioError> {
        self.world.inject(SIGNAL);
        Ok(())
    }

    fn fault(&mut self) -> Result<(), ScenarioError> {
        let agent = Target::Key(self.world.agent_key().to_owned());
        let busy = || CannedReply::error(503, "relay: database unavailable");
        let (fault, target) = match self.draws.below(9) {
            0 => (Fault::CutHistory(0), agent),
            1 => (Fault::CutHistory(7), agent),
            2 => (Fault::SwallowEose, agent),
            3 => (Fault::EmptyHistory, agent),
            4 => (Fault::FailQuery(busy()), agent),
            5 => (Fault::RefuseReq("error: database error".into()), agent),
            6 => {
                let text = "rate-limited: quota exceeded; retry in 3s";
                (Fault::RefuseReq(text.into()), agent)
            }
            7 => (Fault::RefuseUpgrade(busy()), Target::Everyone),
            _ => (Fault::DropConnection, Target::Everyone),
        };
        let times = self.draws.pick(&[1, 1, 2, 5]);
        self.world.faults_mut().arm(fault, target, times);
        Ok(())
    }

    /// All is well from now on.
    fn heal(&mut self) {
        let world = &mut self.world;
        world.faults_mut().clear();
        world.stall_relay(false);
        world.set_online(true);
        world.consumer_hands_back(0);
        world.set_pace(Pace::Eager);
        world.run_for(CALM);
        // What the relay dropped without a word is found by the next connection.
        world.cut_connection();
        world.run_until(PATIENCE, |world| world.undelivered().next().is_none());
        world.run_for(AFTERMATH);
    }

    fn figures(&mut self, seed: u64) -> Figures {
        let world = &self.world;
        let gaps = world.notes().iter();
        Figures {
            seed,
            owed: world.owed().len(),
            undelivered: world.undelivered().count(),
            duplicates: world.duplicates(),
            repeated: world.repeated(),
            gaps: gaps
                .filter(|(_, note)| matches!(note, Note::Gap { .. }))
                .count(),
            requests: world.requests().iter().filter(|it| it.is_history()).count(),
            dropped: world.relay_stats().frames_dropped,
            over_quota: world.relay_stats().over_quota,
            troubles: core::mem::take(&mut self.troubles),
            digest: format!("{:016x}", world.digest()),
        }
    }
}

/// One draw after the other.
struct Draws {
    seed: Seed,
    drawn: u64,
}

impl Draws {
    const fn new(seed: Seed) -> Self {
        Self { seed, drawn: 0 }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.drawn = self.drawn.saturating_add(1);
        let drawn = self.seed.draw(0, self.drawn);
        drawn.checked_rem(end).unwrap_or_default()
    }

    fn span(&mut self, (low, high): (Duration, Duration)) -> Duration {
        self.drawn = self.drawn.saturating_add(1);
        self.seed.between(0, self.drawn, low, high)
    }

    fn pick<T: Copy + Default>(&mut self, from: &[T]) -> T {
        let end = u64::try_from(from.len()).unwrap_or(1);
        let at = usize::try_from(self.below(end)).unwrap_or_default();
        from.get(at).copied().unwrap_or_default()
    }
}
