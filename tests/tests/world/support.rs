//! Worlds to begin with, and what is asked of all of them.

use std::time::Duration;

use buzz_dev_relay::rules::Settings;
use buzz_proto::config::Config;
use buzz_proto::ids::EventId;
use buzz_proto::note::Note;
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_sim::world::{Pace, Person, World, channel, config};

pub(crate) const SOON: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Two channels, before the first moment.
pub(crate) fn world(settings: Config, seed: u64) -> World {
    world_of(2, settings, Settings::default(), seed)
}

pub(crate) fn world_of(channels: u16, config: Config, relay: Settings, seed: u64) -> World {
    let mut world = World::new(config, relay, seed).expect("the settings work");
    for number in 1..=channels {
        world.open_channel(channel(number)).expect("it is new");
    }
    world
}

/// The same with an agent whose subscriptions stand: membership and two channels.
pub(crate) fn live(settings: Config, seed: u64) -> World {
    stand(world(settings, seed), 2)
}

/// Lets the agent of a world come to life: membership and these channels.
pub(crate) fn stand(mut world: World, channels: usize) -> World {
    assert!(world.run_until(MINUTE, |world| world.subscriptions() > channels));
    assert!(world.now() > MonoTime::ZERO);
    world.run_for(SOON);
    world
}

/// Two channels, and a consumer that takes each event as it comes.
pub(crate) fn eager(slots: u32, seed: u64) -> World {
    let mut world = live(config(slots), seed);
    world.set_pace(Pace::Eager);
    world
}

/// Settings of an agent that keeps records, and has none yet.
pub(crate) fn keeping(slots: u32) -> Config {
    let mut config = config(slots);
    config.relay.records = Some(Vec::new());
    config
}

/// People mention the agent in channel 1; then a moment passes.
pub(crate) fn publish(world: &mut World, count: u32) -> Vec<EventId> {
    let ids = publish_in(world, 1, count, ms(5));
    world.run_for(SOON);
    ids
}

/// People mention the agent, each at most a hundred times, with so much time after each mention.
pub(crate) fn publish_in(
    world: &mut World,
    number: u16,
    count: u32,
    each: Duration,
) -> Vec<EventId> {
    let publish = |_| {
        let id = mention(world, number, None);
        world.run_for(each);
        id
    };
    (0..count).map(publish).collect()
}

/// Somebody mentions the agent, dated now unless told otherwise.
pub(crate) fn mention(world: &mut World, number: u16, dated: Option<UnixTime>) -> EventId {
    let count = u32::try_from(world.owed().len()).expect("it is small");
    let words = format!("question {count}");
    let id = world.publish(Person(count / 100), channel(number), &words, dated);
    id.expect("the relay takes it")
}

pub(crate) fn delivered(world: &World) -> Vec<EventId> {
    let given = world.delivered().iter();
    given.map(|delivered| delivered.event.id()).collect()
}

/// Requests for stored events of channels since then.
pub(crate) fn histories(world: &World, since: MonoTime) -> usize {
    let late = world.requests().iter().filter(|it| it.at > since);
    late.filter(|it| it.is_history()).count()
}

/// All that is owed was delivered, once, and nobody had to confess a gap.
pub(crate) fn assert_whole(world: &World) {
    let missing: Vec<_> = world.undelivered().collect();
    assert!(missing.is_empty(), "{} missing: {missing:?}", missing.len());
    assert_eq!(world.duplicates(), 0);
    assert_eq!(world.repeated(), 0);
    let is_gap = |(_, note): &&_| matches!(note, Note::Gap { .. });
    assert_eq!(world.notes().iter().find(is_gap), None);
}

/// The relay refused nothing of what the agent asked.
pub(crate) fn assert_within_quotas(world: &World) {
    let stats = world.relay_stats();
    assert_eq!((stats.reqs_refused, stats.over_quota), (0, 0));
}
