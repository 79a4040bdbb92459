//! Fleet: many agents behind one quota, all of them with much to publish at the same moment.
//!
//! It is played twice, each time with agents that have published nothing yet. In the first run the
//! quota holds 30 posts of each agent in a window; in the second it is tight, and most agents are
//! refused in every window. Nobody tells the agents of each other: what spreads them is the hint of
//! the relay and what each puts on top of it. Refusals are counted at the relay, verdicts at the
//! applications.

use std::time::Duration;

use serde::Serialize;

use super::{ScenarioError, judge, ratio, whole};
use crate::fleet::{Account, Fleet as Agents, Settings};
use crate::world::WorldError;

/// What the scenario is called.
pub const NAME: &str = "fleet";

/// The length of a window of the quota.
const WINDOW: Duration = Duration::from_secs(60);
/// Posts of each agent.
const JOBS_EACH: u32 = 100;
/// Posts of each agent that a window holds.
const ROOM_EACH: u32 = 30;
/// Posts of each agent in the tight run.
const TIGHT_JOBS_EACH: u32 = 5;
/// Of so many agents the window of the tight run holds three posts.
const TIGHT_AGENTS: u32 = 10;
const TIGHT_POSTS: u32 = 3;
/// Until every agent is live; its first subscription waits for a challenge that does not come.
const START: Duration = Duration::from_secs(10);
/// So many times the shortest time, and a few windows, may pass before it is given up.
const PATIENCE: u32 = 5;
/// How often it is looked whether something is still missing.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The most refusals of one agent in one window.
const REFUSED_MAX: u64 = 5;
/// The most refusals of an agent and window, on average.
const REFUSED_PER_AGENT_WINDOW_MAX: f64 = 1.5;
/// The most time beside the shortest.
const DRAIN_RATIO_MAX: f64 = 1.25;
/// Where a window has room for that many posts of each agent, fewer calls than this are refused.
const REFUSED_SHARE_BELOW: f64 = 0.05;

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// Where chance comes from.
    pub seed: u64,
    /// How many agents there are; see [`Fleet::AGENTS`].
    pub agents: u32,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            seed: 1,
            agents: 1000,
        }
    }
}

/// What came of both runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// [`NAME`].
    pub scenario: &'static str,
    /// As set.
    pub seed: u64,
    /// The first run: 100 posts of each agent, 30 of them in a window.
    #[serde(flatten)]
    pub wide: Run,
    /// The second: 5 posts of each agent, and a quota of three tenths of a post.
    pub tight: Run,
}

/// What came of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Run {
    /// Calls of all agents together that the relay takes in one window.
    pub quota: u64,
    /// The length of a window, in seconds.
    pub window_s: u64,
    /// As set.
    pub agents: u64,
    /// Posts of all agents together.
    pub jobs: u64,
    /// Jobs whose one verdict is that they are stored.
    pub settled: u64,
    /// Jobs that the relay stores.
    pub stored: u64,
    /// Events beyond the first of a job at the relay, and verdicts beyond its first or of another
    /// content.
    pub duplicates: u64,
    /// Calls that reached the relay, refused ones and those that read included.
    pub requests: u64,
    /// Those of them that the quota refused.
    pub refused: u64,
    /// Refused calls over all calls.
    pub refused_share: f64,
    /// Refused calls over pairs of an agent and a window. A window is one of the relay's own: it
    /// begins with the first call after the end of the one before. An agent is counted in it while
    /// the relay lacks some of its posts at that beginning. Refusals of agents that are not counted
    /// are counted all the same.
    pub refused_per_agent_window: f64,
    /// The most refusals of one agent in one of those windows.
    pub refused_max: u64,
    /// The most calls of one agent under way, from sending to answer.
    pub in_flight_max: u64,
    /// Seconds to the last verdict, over those in which the quota takes so many jobs.
    pub drain_ratio: f64,
    /// The time to the last verdict of the slowest agent over that of the median one.
    pub fairness: f64,
    /// Seconds from the first post to the last verdict, in the world.
    pub seconds: f64,
    /// A hash of all calls: equal if and only if two runs were.
    pub digest: String,
}

impl Figures {
    /// Whether every job got one verdict, that it is stored, and the relay stores it once.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.wide.is_whole() && self.tight.is_whole()
    }

    /// What was promised and not kept, in sentences for people.
    #[must_use]
    pub fn misses(&self) -> Vec<String> {
        let mut misses = self.wide.misses();
        let tight = self.tight.misses().into_iter();
        misses.extend(tight.map(|miss| format!("tight: {miss}")));
        misses
    }
}

impl Run {
    const fn is_whole(&self) -> bool {
        self.settled == self.jobs && self.stored == self.jobs && self.duplicates == 0
    }

    fn misses(&self) -> Vec<String> {
        let mut misses = Vec::new();
        let held = self.settled.min(self.stored);
        judge(
            &mut misses,
            held >= self.jobs,
            format_args!("settled and stored are {held}, not {}", self.jobs),
        );
        for (name, value, most) in [
            ("duplicates", self.duplicates, 0),
            ("refused_max", self.refused_max, REFUSED_MAX),
        ] {
            let words = format_args!("{name} is {value}, above {most}");
            judge(&mut misses, value <= most, words);
        }
        for (name, value, most) in [
            (
                "refused_per_agent_window",
                self.refused_per_agent_window,
                REFUSED_PER_AGENT_WINDOW_MAX,
            ),
            ("drain_ratio", self.drain_ratio, DRAIN_RATIO_MAX),
        ] {
            let words = format_args!("{name} is {value}, above {most}");
            judge(&mut misses, value <= most, words);
        }
        let has_room = self.quota >= self.agents.saturating_mul(u64::from(ROOM_EACH));
        let share = self.refused_share;
        let words = format_args!("refused_share is {share}, not below {REFUSED_SHARE_BELOW}");
        judge(&mut misses, !has_room || share < REFUSED_SHARE_BELOW, words);
        misses
    }

    /// A table for people: name, figure and meaning.
    #[must_use]
    pub fn rows(&self) -> [(&'static str, String, &'static str); 12] {
        [
            (
                "quota",
                self.quota.to_string(),
                "calls of all agents in a minute",
            ),
            ("agents", self.agents.to_string(), "behind that quota"),
            (
                "jobs",
                self.jobs.to_string(),
                "posts, handed over in one moment",
            ),
            (
                "settled",
                self.settled.to_string(),
                "of them with one verdict, that it is stored",
            ),
            (
                "stored",
                self.stored.to_string(),
                "of them that the relay has",
            ),
            (
                "requests",
                self.requests.to_string(),
                "calls that reached the relay",
            ),
            (
                "refused",
                self.refused.to_string(),
                "of them refused by the quota",
            ),
            (
                "share",
                format!("{:.2} %", self.refused_share * 100.0),
                "of the calls were refused",
            ),
            (
                "average",
                format!("{:.3}", self.refused_per_agent_window),
                "refusals of an agent in a minute of the quota",
            ),
            (
                "at most",
                self.refused_max.to_string(),
                "refusals of one agent in one such minute",
            ),
            (
                "drain",
                format!("{:.3}", self.drain_ratio),
                "time to the last verdict over the shortest",
            ),
            (
                "fairness",
                format!("{:.3}", self.fairness),
                "time of the slowest agent over that of the median",
            ),
        ]
    }
}

impl Fleet {
    /// Least and greatest number of agents.
    pub const AGENTS: (u32, u32) = (1, 20_000);

    /// Plays it. `progress` is told how far it is, in a sentence for people.
    ///
    /// # Errors
    /// When a setting lies outside its bounds, or an agent does not get its subscriptions.
    pub fn play(&self, mut progress: impl FnMut(&str)) -> Result<Figures, ScenarioError> {
        let bounds = Self::AGENTS;
        if self.agents < bounds.0 || self.agents > bounds.1 {
            let name = "agents";
            return Err(ScenarioError::Setting { name, bounds });
        }
        let [wide, tight] = self.runs();
        Ok(Figures {
            scenario: NAME,
            seed: self.seed,
            wide: play(&wide, |line| progress(&format!("wide: {line}")))?,
            tight: play(&tight, |line| progress(&format!("tight: {line}")))?,
        })
    }

    fn runs(&self) -> [Settings; 2] {
        let wide = Settings {
            seed: self.seed,
            agents: self.agents,
            jobs_each: JOBS_EACH,
            quota: self.agents.saturating_mul(ROOM_EACH),
            window: WINDOW,
        };
        let posts = self.agents.saturating_mul(TIGHT_POSTS);
        let tight = Settings {
            jobs_each: TIGHT_JOBS_EACH,
            quota: posts.div_ceil(TIGHT_AGENTS),
            ..wide
        };
        [wide, tight]
    }
}

fn play(settings: &Settings, mut progress: impl FnMut(&str)) -> Result<Run, ScenarioError> {
    let mut agents = Agents::new(settings).map_err(WorldError::Config)?;
    agents.run_for(START);
    let wanted = usize::try_from(settings.agents).unwrap_or(usize::MAX);
    let confirmed = agents.live();
    if confirmed < wanted {
        return Err(ScenarioError::NotLive { confirmed, wanted });
    }
    let since = agents.now();
    agents.submit();
    let jobs = u64::from(settings.agents).saturating_mul(u64::from(settings.jobs_each));
    let shortest = shortest(jobs, settings);
    let until = shortest.saturating_add(settings.window);
    let until = since.after(until.saturating_mul(PATIENCE));
    while verdicts(&agents) < jobs && agents.now() < until {
        agents.run_for(LOOK_EVERY);
        progress(&format!(
            "{} of {jobs} posts have a verdict",
            verdicts(&agents)
        ));
    }
    let accounts: Vec<_> = agents.accounts().collect();
    let mut ends: Vec<_> = accounts
        .iter()
        .map(|account| account.last.saturating_since(since))
        .collect();
    ends.sort_unstable();
    let slowest = ends.last().copied().unwrap_or_default();
    let median = ends.get(ends.len() / 2).copied().unwrap_or_default();
    let sum = |of: fn(&Account) -> u32| accounts.iter().map(|it| u64::from(of(it))).sum();
    let wrong: u64 = sum(|account| account.wrong);
    let in_flight = accounts.iter().map(|account| account.in_flight_max);
    let tally = agents.tally();
    Ok(Run {
        quota: u64::from(settings.quota),
        window_s: settings.window.as_secs(),
        agents: whole(accounts.len()),
        jobs,
        settled: sum(|account| account.stored),
        stored: tally.stored,
        duplicates: tally.duplicates.saturating_add(wrong),
        requests: tally.requests,
        refused: tally.refused,
        refused_share: share(tally.refused, tally.requests),
        refused_per_agent_window: share(tally.refused, tally.agent_windows),
        refused_max: tally.refused_max,
        in_flight_max: u64::from(in_flight.max().unwrap_or_default()),
        drain_ratio: ratio(slowest.as_secs_f64(), shortest.as_secs_f64()),
        fairness: ratio(slowest.as_secs_f64(), median.as_secs_f64()),
        seconds: ratio(slowest.as_secs_f64(), 1.0),
        digest: format!("{:016x}", agents.digest()),
    })
}

fn verdicts(agents: &Agents) -> u64 {
    let accounts = agents.accounts();
    let count = |it: Account| u64::from(it.stored).saturating_add(u64::from(it.wrong));
    accounts.map(count).sum()
}

/// In which time the quota takes so many jobs.
fn shortest(jobs: u64, settings: &Settings) -> Duration {
    let nanos = settings.window.as_nanos().saturating_mul(u128::from(jobs));
    let nanos = nanos.checked_div(u128::from(settings.quota));
    let nanos = nanos.and_then(|nanos| u64::try_from(nanos).ok());
    nanos.map_or(Duration::MAX, Duration::from_nanos)
}

/// Counts far below 2^53 are exact as floats.
fn share(part: u64, of: u64) -> f64 {
    if of == 0 {
        return 0.0;
    }
    ratio(part as f64, of as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Run {
        Run {
            quota: 300,
            agents: 10,
            jobs: 50,
            settled: 50,
            stored: 50,
            refused_share: 0.0499,
            refused_per_agent_window: 1.5,
            refused_max: 5,
            drain_ratio: 1.25,
            ..Run::default()
        }
    }

    #[test]
    fn each_bound_that_is_missed_is_named() {
        let named = |change: fn(&mut Run)| {
            let mut run = good();
            change(&mut run);
            run.misses()
        };

        assert_eq!(named(|_| {}), Vec::<String>::new());
        for (change, miss) in [
            (
                (|it| it.settled = 49) as fn(&mut Run),
                "settled and stored are 49, not 50",
            ),
            (|it| it.stored = 49, "settled and stored are 49, not 50"),
            (|it| it.duplicates = 1, "duplicates is 1, above 0"),
            (|it| it.refused_max = 6, "refused_max is 6, above 5"),
            (
                |it| it.refused_per_agent_window = 1.51,
                "refused_per_agent_window is 1.51, above 1.5",
            ),
            (
                |it| it.drain_ratio = 1.26,
                "drain_ratio is 1.26, above 1.25",
            ),
            (
                |it| it.refused_share = 0.05,
                "refused_share is 0.05, not below 0.05",
            ),
        ] {
            assert_eq!(named(change), [miss]);
        }
    }

    #[test]
    fn the_share_of_refusals_is_bounded_only_where_there_is_room_for_thirty_posts_each() {
        let refused = Run {
            refused_share: 0.9,
            ..good()
        };
        let tight = Run {
            quota: 299,
            ..refused.clone()
        };

        assert_eq!((refused.misses().len(), tight.misses().len()), (1, 0));
        let figures = Figures {
            wide: good(),
            tight: Run {
                stored: 49,
                ..tight
            },
            ..Figures::default()
        };
        assert!(!figures.is_whole());
        assert_eq!(
            figures.misses(),
            ["tight: settled and stored are 49, not 50"]
        );
    }

    #[test]
    fn the_quota_follows_the_number_of_agents() {
        let runs = |agents| Fleet { seed: 1, agents }.runs().map(|it| it.quota);

        assert_eq!(runs(1000), [30_000, 300]);
        assert_eq!(runs(10_000), [300_000, 3000]);
        assert_eq!(runs(1), [30, 1]);
        let [wide, tight] = Fleet::default().runs();
        assert_eq!(shortest(100_000, &wide), Duration::from_secs(200));
        assert_eq!(shortest(5000, &tight), Duration::from_secs(1000));
    }
}
