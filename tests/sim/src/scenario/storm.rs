//! Storm: far more to publish than the relay takes at once, and at first it takes nothing.
//!
//! The application hands over all posts in one moment. For half a minute the relay's quota of HTTP
//! calls refuses every one and says truly how long it will; then it takes as many as an ordinary
//! relay does. The figures say how many calls that cost, whether any was made in spite of what the
//! relay had asked for, and how long it took beside the shortest time that the agent's own pace
//! allows. They are counted at the relay and at the application: what was called and answered, what
//! is stored, which verdicts came.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use buzz_dev_relay::rules::Settings;
use buzz_dev_relay::rules::filter::Filter;
use buzz_dev_relay::rules::quota::{Limit, Quotas};
use buzz_proto::ids::JobId;
use buzz_proto::input::Input;
use buzz_proto::publish::{self, Body, Class, Route, Verdict};
use buzz_proto::time::MonoTime;
use buzz_proto::wire::{Draft, MESSAGE};
use serde::Serialize;
use serde_json::json;

use super::{ScenarioError, judge, ratio, whole};
use crate::world::{HttpCall, World, channel, config};

/// What the scenario is called.
pub const NAME: &str = "storm";

/// Subscriptions may take so long.
const START_MAX: Duration = Duration::from_secs(60);
/// After the last subscription, before the posts.
const CALM: Duration = Duration::from_secs(5);
/// So long every call is refused.
const REFUSED_FOR: Duration = Duration::from_secs(30);
/// The agent's own pace, which keeps below the quota: so many calls at once, and so many a second.
const BURST: u32 = 20;
const PER_SECOND: u32 = 4;
/// So many times the shortest time may pass before it is given up.
const PATIENCE: u32 = 10;
/// How often it is looked whether something is still missing.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Afterwards, so that what would come twice has time to.
const AFTERMATH: Duration = Duration::from_secs(60);

/// The most calls under way.
const IN_FLIGHT_MAX: u64 = 4;
/// The most time beside the shortest.
const DRAIN_RATIO_MAX: f64 = 1.25;

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storm {
    /// Where chance comes from.
    pub seed: u64,
    /// Posts; see [`Storm::JOBS`].
    pub jobs: u32,
}

impl Default for Storm {
    fn default() -> Self {
        Self {
            seed: 1,
            jobs: 1000,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// [`NAME`].
    pub scenario: &'static str,
    /// As set.
    pub seed: u64,
    /// As set.
    pub jobs: u64,
    /// Jobs that have one verdict, and that it is stored.
    pub settled: u64,
    /// Jobs that the relay stores.
    pub stored: u64,
    /// Events beyond the first of a job at the relay, and verdicts beyond its first.
    pub duplicates: u64,
    /// Calls that reached the relay until a minute after the last verdict, refused ones and those
    /// that read included.
    pub requests: u64,
    /// Those of them that the quota refused.
    pub refused: u64,
    /// The most calls under way, from sending to answer.
    pub in_flight_max: u64,
    /// Calls that were sent after an answer had said how long to wait, and arrived before that time
    /// was over.
    pub sent_before_hint: u64,
    /// Seconds to the last verdict, over 30 and the time that the rest of the jobs takes at the
    /// agent's own pace: the first 20 at once, then four a second.
    pub drain_ratio: f64,
    /// Seconds from the first post to the last verdict, in the world.
    pub seconds: f64,
    /// A hash of all facts and orders: equal if and only if two runs were.
    pub digest: String,
}

impl Figures {
    /// Whether every job got one verdict, that it is stored, and the relay stores it once.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.settled == self.jobs && self.stored == self.jobs && self.duplicates == 0
    }

    /// What was promised and not kept, in sentences for people.
    #[must_use]
    pub fn misses(&self) -> Vec<String> {
        let mut misses = Vec::new();
        let held = self.settled.min(self.stored);
        judge(
            &mut misses,
            held >= self.jobs,
            format_args!("settled and stored are {held}, not {}", self.jobs),
        );
        for (name, value, most) in [
            ("duplicates", self.duplicates, 0),
            ("sent_before_hint", self.sent_before_hint, 0),
            ("in_flight_max", self.in_flight_max, IN_FLIGHT_MAX),
        ] {
            let words = format_args!("{name} is {value}, above {most}");
            judge(&mut misses, value <= most, words);
        }
        let drain = self.drain_ratio;
        let words = format_args!("drain_ratio is {drain}, above {DRAIN_RATIO_MAX}");
        judge(&mut misses, drain <= DRAIN_RATIO_MAX, words);
        misses
    }

    /// A table for people: name, figure and meaning.
    #[must_use]
    pub fn rows(&self) -> [(&'static str, String, &'static str); 9] {
        [
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
                "duplicates",
                self.duplicates.to_string(),
                "events and verdicts beyond the first",
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
                "before hint",
                self.sent_before_hint.to_string(),
                "of them sent although the relay had asked to wait",
            ),
            (
                "in flight",
                self.in_flight_max.to_string(),
                "calls under way at most",
            ),
            (
                "drain",
                format!("{:.3}", self.drain_ratio),
                "time to the last verdict over the shortest",
            ),
        ]
    }
}

impl Storm {
    /// Least and greatest number of posts; an outbox holds a few more.
    pub const JOBS: (u32, u32) = (1, 2000);

    /// Plays it. `progress` is told how far it is, in a sentence for people.
    ///
    /// # Errors
    /// When a setting lies outside its bounds, or the agent does not get its subscriptions.
    pub fn play(&self, mut progress: impl FnMut(&str)) -> Result<Figures, ScenarioError> {
        let bounds = Self::JOBS;
        if self.jobs < bounds.0 || self.jobs > bounds.1 {
            let name = "jobs";
            return Err(ScenarioError::Setting { name, bounds });
        }
        let mut world = self.start()?;
        let since = world.now();
        world.set_quotas(nothing());
        for number in 0..self.jobs {
            world.feed(post(number));
        }
        progress("everything is refused");
        world.run_for(REFUSED_FOR);
        world.set_quotas(Quotas::default());
        let until = world.now().after(self.shortest().saturating_mul(PATIENCE));
        let settled = |world: &World| whole(world.verdicts().len());
        while settled(&world) < u64::from(self.jobs) && world.now() < until {
            world.run_for(LOOK_EVERY);
            progress(&format!(
                "{} of {} posts have a verdict",
                settled(&world),
                self.jobs
            ));
        }
        world.run_for(AFTERMATH);
        Ok(self.figures(&world, since))
    }

    fn start(&self) -> Result<World, ScenarioError> {
        let mut world = World::new(config(256), Settings::default(), self.seed)?;
        world.open_channel(channel(1))?;
        let wanted = 2;
        if !world.run_until(START_MAX, |world| world.subscriptions() >= wanted) {
            let confirmed = world.subscriptions();
            return Err(ScenarioError::NotLive { confirmed, wanted });
        }
        world.run_for(CALM);
        Ok(world)
    }

    /// What the agent's own pace allows once the relay takes anything.
    fn shortest(&self) -> Duration {
        let rest = self.jobs.saturating_sub(BURST);
        let pace = Duration::from_secs(1)
            .saturating_mul(rest)
            .checked_div(PER_SECOND);
        REFUSED_FOR.saturating_add(pace.unwrap_or_default())
    }

    fn figures(&self, world: &World, since: MonoTime) -> Figures {
        let late = world.calls().iter().filter(|call| call.sent >= since);
        let calls: Vec<_> = late.cloned().collect();
        let stored = stored(world);
        let verdicts = world.verdicts();
        let end = verdicts.iter().map(|(at, ..)| *at).max().unwrap_or(since);
        let took = end.saturating_since(since);
        let settled = settled(verdicts);
        let beyond = |all: usize, jobs: usize| whole(all.saturating_sub(jobs));
        let verdict_jobs: BTreeSet<_> = verdicts.iter().map(|(_, job, _)| *job).collect();
        let stored_jobs: BTreeSet<_> = stored.iter().collect();
        Figures {
            scenario: NAME,
            seed: self.seed,
            jobs: u64::from(self.jobs),
            settled: whole(settled),
            stored: whole(stored_jobs.len()),
            duplicates: beyond(stored.len(), stored_jobs.len())
                .saturating_add(beyond(verdicts.len(), verdict_jobs.len())),
            requests: whole(calls.len()),
            refused: whole(calls.iter().filter(|call| call.is_over_quota()).count()),
            in_flight_max: in_flight_max(&calls),
            sent_before_hint: sent_before_hint(&calls),
            drain_ratio: ratio(took.as_secs_f64(), self.shortest().as_secs_f64()),
            seconds: ratio(took.as_secs_f64(), 1.0),
            digest: format!("{:016x}", world.digest()),
        }
    }
}

/// Quotas with which every HTTP call is refused, for the rest of a window that the first one opens.
fn nothing() -> Quotas {
    Quotas {
        api: Limit::new(0, REFUSED_FOR),
        ..Quotas::default()
    }
}

fn post(number: u32) -> Input {
    let draft = Draft {
        kind: MESSAGE,
        created_at: crate::world::START,
        tags: vec![vec!["h".to_owned(), channel(1).to_string()]],
        content: number.to_string(),
    };
    Input::Publish(publish::Input::Command(publish::Command::Submit {
        job: JobId(u64::from(number)),
        class: Class::Durable,
        route: Route::Post,
        body: Body::SignWhenSent(draft),
        ttl: None,
    }))
}

/// What the posts that the relay stores say: the number of their job.
fn stored(world: &World) -> Vec<String> {
    let filter = json!({"kinds": [MESSAGE], "authors": [world.agent_key()]});
    let filter = Filter::parse(&filter).unwrap_or_default();
    let events = world.store().matching(&filter);
    events.map(|filed| filed.event.content.clone()).collect()
}

/// Jobs with one verdict, and that it is stored.
fn settled(verdicts: &[(MonoTime, JobId, Verdict)]) -> usize {
    let mut of_job: BTreeMap<JobId, Vec<&Verdict>> = BTreeMap::new();
    for (_, job, verdict) in verdicts {
        of_job.entry(*job).or_default().push(verdict);
    }
    let stored = of_job.values().filter(|it| **it == [&Verdict::Stored]);
    stored.count()
}

/// The most calls under way at once. One that is sent in the moment in which another is answered
/// follows it.
fn in_flight_max(calls: &[HttpCall]) -> u64 {
    let sent = calls.iter().map(|call| (call.sent, true));
    let answered = calls.iter().map(|call| (call.answered, false));
    let mut turns: Vec<_> = sent.chain(answered).collect();
    turns.sort_unstable();
    let (mut under_way, mut most) = (0_u64, 0);
    for (_, is_sent) in turns {
        under_way = if is_sent {
            under_way.saturating_add(1)
        } else {
            under_way.saturating_sub(1)
        };
        most = under_way.max(most);
    }
    most
}

/// Calls that were sent after an answer had asked to wait, and arrived too early for it.
fn sent_before_hint(calls: &[HttpCall]) -> u64 {
    let refusals: Vec<_> = calls
        .iter()
        .filter_map(|call| Some((call.answered, call.hint?)))
        .map(|(at, hint)| (at, at.after(Duration::from_secs(hint))))
        .collect();
    let is_early = |call: &&HttpCall| {
        let mut refusals = refusals.iter();
        refusals.any(|(told, until)| call.sent >= *told && call.arrived < *until)
    };
    whole(calls.iter().filter(is_early).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> MonoTime {
        MonoTime::from_nanos(n * 1_000_000)
    }

    fn call(sent: u64, hint: Option<u64>) -> HttpCall {
        HttpCall {
            sent: ms(sent),
            arrived: ms(sent + 10),
            answered: ms(sent + 20),
            path: "/events".to_owned(),
            status: if hint.is_some() { 429 } else { 200 },
            hint,
        }
    }

    #[test]
    fn calls_are_under_way_from_sending_to_answer() {
        let calls = [0, 5, 19, 20, 25, 100].map(|sent| call(sent, None));

        assert_eq!(in_flight_max(&calls), 3);
        assert_eq!(in_flight_max(&calls[..1]), 1);
        assert_eq!(in_flight_max(&[]), 0);
    }

    #[test]
    fn what_was_on_its_way_when_the_hint_came_was_not_sent_in_spite_of_it() {
        let refused = call(0, Some(2));
        let early = |sent| sent_before_hint(&[refused.clone(), call(sent, None)]);

        assert_eq!(early(19), 0);
        assert_eq!(early(20), 1);
        assert_eq!(early(2009), 1);
        assert_eq!(early(2010), 0);
    }

    #[test]
    fn only_one_verdict_that_says_stored_settles_a_job() {
        let verdicts = |of: &[(u64, Verdict)]| -> Vec<_> {
            let of = of.iter().cloned();
            of.map(|(job, how)| (MonoTime::ZERO, JobId(job), how))
                .collect()
        };
        let (stored, unknown) = (Verdict::Stored, Verdict::Unknown);

        assert_eq!(settled(&verdicts(&[(1, stored.clone()), (2, unknown)])), 1);
        assert_eq!(settled(&verdicts(&[(1, stored.clone()), (1, stored)])), 0);
    }

    #[test]
    fn each_bound_that_is_missed_is_named() {
        let good = Figures {
            jobs: 10,
            settled: 10,
            stored: 10,
            in_flight_max: 4,
            drain_ratio: 1.25,
            ..Figures::default()
        };
        let named = |change: fn(&mut Figures)| {
            let mut figures = good.clone();
            change(&mut figures);
            figures.misses()
        };

        assert_eq!((good.misses(), good.is_whole()), (Vec::new(), true));
        for (change, miss) in [
            (
                (|it| it.settled = 9) as fn(&mut Figures),
                "settled and stored are 9, not 10",
            ),
            (|it| it.stored = 9, "settled and stored are 9, not 10"),
            (|it| it.duplicates = 1, "duplicates is 1, above 0"),
            (
                |it| it.sent_before_hint = 1,
                "sent_before_hint is 1, above 0",
            ),
            (|it| it.in_flight_max = 5, "in_flight_max is 5, above 4"),
            (
                |it| it.drain_ratio = 1.26,
                "drain_ratio is 1.26, above 1.25",
            ),
        ] {
            assert_eq!(named(change), [miss]);
        }
    }
}
