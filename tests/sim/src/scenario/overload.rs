//! Overload: round after round more mentions than there is room for, in one channel, while the
//! consumer takes nothing; then it takes everything.
//!
//! The figures say whether what found no room was fetched again, for how many requests, and whether
//! channels that lost nothing were left alone. They are counted outside of the machine: what is
//! owed and asked for at the relay, what is delivered at the consumer. Only gaps are the machine's
//! own word, because a gap is a confession.

use std::collections::BTreeSet;
use std::time::Duration;

use buzz_dev_relay::rules::Settings;
use buzz_proto::ids::{ChannelId, EventId};
use buzz_proto::note::Note;
use buzz_proto::time::MonoTime;
use serde::Serialize;

use super::ScenarioError;
use crate::world::{Pace, Person, Request, World, channel, config};

/// What the scenario is called.
pub const NAME: &str = "overload";

/// Subscriptions may take so long.
const START_MAX: Duration = Duration::from_secs(300);
/// After the last subscription, before the first mention.
const CALM: Duration = Duration::from_secs(5);
/// Between two mentions of a burst.
const PACE: Duration = Duration::from_millis(5);
/// After a burst, until all that will be delivered is.
const AFTER_BURST: Duration = Duration::from_secs(5);
/// After the consumer has taken everything.
const RECOVERY: Duration = Duration::from_secs(60);
/// What is still missing then has so much longer for each hundred mentions.
const RECOVERY_PER_HUNDRED: Duration = Duration::from_secs(10);
/// How often it is looked whether something is still missing.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// For the live mentions at the end.
const LIVE: Duration = Duration::from_secs(10);
/// Mentions by one person in a round; a relay lets each post 300 a minute.
const PER_PERSON: u32 = 100;

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overload {
    /// Where chance comes from.
    pub seed: u64,
    /// Events that may be delivered and not taken; see [`Overload::SLOTS`].
    pub slots: u32,
    /// One for membership and one for each channel; see [`Overload::SUBSCRIPTIONS`].
    pub subscriptions: u32,
    /// How often it happens; see [`Overload::ROUNDS`].
    pub rounds: u32,
    /// Mentions in each round; see [`Overload::EVENTS`].
    pub events: u32,
}

impl Default for Overload {
    /// As in the report of users that made this scenario: 18 subscriptions, 256 slots, three times
    /// 320 mentions.
    fn default() -> Self {
        Self {
            seed: 1,
            slots: 256,
            subscriptions: 18,
            rounds: 3,
            events: 320,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// [`NAME`].
    pub scenario: &'static str,
    /// As set.
    pub seed: u64,
    /// Subscriptions that stand at the end, counted at the relay.
    pub subscriptions: usize,
    /// As set.
    pub slots: u32,
    /// As set.
    pub rounds: u32,
    /// Mentions that were not delivered when all slots were full, over all rounds.
    pub lost: usize,
    /// REQs and queries for stored events of channels since all subscriptions stood, counted at the
    /// relay, audits apart.
    pub history_requests: usize,
    /// Those of them for channels in which nothing was lost.
    pub requests_elsewhere: usize,
    /// Queries that compare what is stored with what came live.
    pub audits: usize,
    /// Mentions that the relay stored.
    pub owed: usize,
    /// Those of them that the consumer was given.
    pub delivered: usize,
    /// Deliveries beyond the first of an event.
    pub duplicates: u64,
    /// Notes that events will not be delivered.
    pub gaps: usize,
    /// How long it took in the world, whole seconds.
    pub virtual_seconds: u64,
    /// A hash of all facts and orders: equal if and only if two runs were.
    pub digest: String,
}

impl Figures {
    /// Whether everything owed was delivered, once, without a gap.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.delivered == self.owed && self.duplicates == 0 && self.gaps == 0
    }

    /// A table for people: name, figure and meaning.
    #[must_use]
    pub fn rows(&self) -> [(&'static str, u64, &'static str); 10] {
        let wide = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        [
            (
                "subscriptions",
                wide(self.subscriptions),
                "that stand at the end",
            ),
            ("lost", wide(self.lost), "mentions that found no room"),
            (
                "requests",
                wide(self.history_requests),
                "for stored events since all subscriptions stood",
            ),
            (
                "elsewhere",
                wide(self.requests_elsewhere),
                "of them for channels in which nothing was lost",
            ),
            (
                "audits",
                wide(self.audits),
                "reads that compare what is stored with what came",
            ),
            ("owed", wide(self.owed), "mentions that the relay stored"),
            (
                "delivered",
                wide(self.delivered),
                "of them given to the consumer",
            ),
            ("duplicates", self.duplicates, "deliveries beyond the first"),
            (
                "gaps",
                wide(self.gaps),
                "notes that events will not be delivered",
            ),
            ("seconds", self.virtual_seconds, "in virtual time"),
        ]
    }
}

impl Overload {
    /// Least and greatest number of slots.
    pub const SLOTS: (u32, u32) = (1, 65_536);
    /// Least and greatest number of subscriptions.
    pub const SUBSCRIPTIONS: (u32, u32) = (2, 200);
    /// Least and greatest number of rounds.
    pub const ROUNDS: (u32, u32) = (1, 100);
    /// Least and greatest number of mentions in a round.
    pub const EVENTS: (u32, u32) = (1, 5000);

    /// Plays it. `progress` is told how far it is, in a sentence for people.
    ///
    /// # Errors
    /// When a setting lies outside its bounds, or the agent does not get its subscriptions.
    pub fn play(&self, mut progress: impl FnMut(&str)) -> Result<Figures, ScenarioError> {
        self.check()?;
        let channels = channels(self.subscriptions);
        let mut world = self.start(&channels)?;
        let mut tally = Tally::since(world.now());
        for round in 1..=self.rounds {
            progress(&format!("round {round} of {}", self.rounds));
            if let Some(busy) = channels.first() {
                self.burst(round, *busy, &mut world, &mut tally)?;
            }
        }
        for (channel, number) in channels.iter().zip(0..) {
            world.publish(Person(number), *channel, "is all well?", None)?;
        }
        world.run_for(LIVE);
        Ok(self.figures(&world, &tally))
    }

    fn check(&self) -> Result<(), ScenarioError> {
        for (name, value, bounds) in [
            ("slots", self.slots, Self::SLOTS),
            ("subscriptions", self.subscriptions, Self::SUBSCRIPTIONS),
            ("rounds", self.rounds, Self::ROUNDS),
            ("events", self.events, Self::EVENTS),
        ] {
            if value < bounds.0 || value > bounds.1 {
                return Err(ScenarioError::Setting { name, bounds });
            }
        }
        Ok(())
    }

    /// A world in which the relay has confirmed every subscription.
    fn start(&self, channels: &[ChannelId]) -> Result<World, ScenarioError> {
        let mut world = World::new(config(self.slots), Settings::default(), self.seed)?;
        for channel in channels {
            world.open_channel(*channel)?;
        }
        let wanted = usize::try_from(self.subscriptions).unwrap_or(usize::MAX);
        if !world.run_until(START_MAX, |world| world.subscriptions() >= wanted) {
            let confirmed = world.subscriptions();
            return Err(ScenarioError::NotLive { confirmed, wanted });
        }
        world.run_for(CALM);
        Ok(world)
    }

    fn burst(
        &self,
        round: u32,
        busy: ChannelId,
        world: &mut World,
        tally: &mut Tally,
    ) -> Result<(), ScenarioError> {
        let mut published = BTreeSet::new();
        world.set_pace(Pace::Stalled);
        for number in 0..self.events {
            let person = Person(number.checked_div(PER_PERSON).unwrap_or_default());
            let words = format!("round {round}, question {number}");
            published.insert(world.publish(person, busy, &words, None)?);
            world.run_for(PACE);
        }
        world.run_for(AFTER_BURST);
        let lost = missing(world, &published);
        tally.lost = tally.lost.saturating_add(lost);
        if lost > 0 {
            tally.lossy.insert(busy);
        }
        world.set_pace(Pace::Eager);
        world.run_for(RECOVERY);
        let more = RECOVERY_PER_HUNDRED.saturating_mul(self.events.div_ceil(100));
        let until = world.now().after(more);
        while missing(world, &published) > 0 && world.now() < until {
            world.run_for(LOOK_EVERY);
        }
        Ok(())
    }

    fn figures(&self, world: &World, tally: &Tally) -> Figures {
        let late = world.requests().iter().filter(|it| it.at > tally.since);
        let (audits, requests): (Vec<_>, Vec<_>) = late
            .filter(|request| request.is_history())
            .partition(|request| request.is_audit());
        let is_elsewhere = |request: &&&Request| tally.lossy.is_disjoint(&request.channels());
        let owed = world.owed().len();
        let gaps = world.notes().iter();
        Figures {
            scenario: NAME,
            seed: self.seed,
            subscriptions: world.subscriptions(),
            slots: self.slots,
            rounds: self.rounds,
            lost: tally.lost,
            history_requests: requests.len(),
            requests_elsewhere: requests.iter().filter(is_elsewhere).count(),
            audits: audits.len(),
            owed,
            delivered: owed.saturating_sub(world.undelivered().count()),
            duplicates: world.duplicates(),
            gaps: gaps
                .filter(|(_, note)| matches!(note, Note::Gap { .. }))
                .count(),
            virtual_seconds: world.now().saturating_since(MonoTime::ZERO).as_secs(),
            digest: format!("{:016x}", world.digest()),
        }
    }
}

/// What is counted on the way.
struct Tally {
    since: MonoTime,
    lost: usize,
    /// Channels in which something was lost.
    lossy: BTreeSet<ChannelId>,
}

impl Tally {
    const fn since(since: MonoTime) -> Self {
        Self {
            since,
            lost: 0,
            lossy: BTreeSet::new(),
        }
    }
}

/// One subscription is that of membership.
fn channels(subscriptions: u32) -> Vec<ChannelId> {
    let numbers = (1..subscriptions).filter_map(|number| u16::try_from(number).ok());
    numbers.map(channel).collect()
}

fn missing(world: &World, published: &BTreeSet<EventId>) -> usize {
    let undelivered = world.undelivered();
    undelivered.filter(|(id, _)| published.contains(id)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_figure_is_enough_to_be_unclean() {
        let clean = Figures {
            owed: 977,
            delivered: 977,
            ..Figures::default()
        };
        let with = |change: fn(&mut Figures)| {
            let mut figures = clean.clone();
            change(&mut figures);
            figures.is_clean()
        };

        assert!(clean.is_clean());
        assert!(!with(|figures| figures.delivered -= 1));
        assert!(!with(|figures| figures.owed -= 1));
        assert!(!with(|figures| figures.duplicates += 1));
        assert!(!with(|figures| figures.gaps += 1));
    }

    #[test]
    fn requests_are_counted_since_all_stood_and_those_for_other_channels_apart() {
        let small = Overload {
            subscriptions: 4,
            ..Overload::default()
        };
        let mut world = small.start(&channels(4)).expect("the settings work");
        let mut tally = Tally::since(world.now());
        tally.lossy.insert(channel(2));
        let before = small.figures(&world, &tally);
        world.cut_connection();
        world.run_for(RECOVERY);

        let after = small.figures(&world, &tally);

        assert_eq!((before.history_requests, before.requests_elsewhere), (0, 0));
        assert_eq!((after.history_requests, after.requests_elsewhere), (3, 2));
    }
}
