//! The agent was away while people wrote, or its connection does not last.

use std::time::Duration;

use buzz_proto::time::MonoTime;
use buzz_sim::world::{Pace, World, config};

use crate::support::*;

#[test]
fn of_an_outage_everything_is_read_for_a_bounded_number_of_requests() {
    let mut world = eager(256, 7);
    world.set_online(false);
    publish_in(&mut world, 1, 1000, ms(50));
    publish_in(&mut world, 1, 500, Duration::ZERO);
    publish_in(&mut world, 1, 1000, ms(50));
    let back = comes_back(&mut world);
    world.run_for(3 * MINUTE);

    assert_whole(&world);
    assert_within_quotas(&world);
    // One request each to go live; pages of 200, and calls that page within one second.
    let requests = histories(&world, back);
    assert!((13..=25).contains(&requests), "{requests} requests");
}

#[test]
fn sixty_channels_with_a_hundred_missed_mentions_each_are_all_read() {
    let world = world_of(
        60,
        config(256),
        buzz_dev_relay::rules::Settings::default(),
        7,
    );
    let mut world = stand(world, 60);
    world.set_pace(Pace::Eager);
    world.set_online(false);
    for number in 1..=60 {
        publish_in(&mut world, number, 100, ms(2));
    }
    let back = comes_back(&mut world);
    world.run_for(3 * MINUTE);

    assert_whole(&world);
    assert_within_quotas(&world);
    let requests = histories(&world, back);
    assert!((120..=180).contains(&requests), "{requests} requests");
}

#[test]
fn a_connection_that_breaks_every_seven_seconds_loses_nothing() {
    let mut world = eager(32, 7);
    for _ in 0..17 {
        for _ in 0..7 {
            mention(&mut world, 1, None);
            world.run_for(ms(500));
            mention(&mut world, 2, None);
            world.run_for(ms(500));
        }
        world.cut_connection();
    }
    world.run_for(2 * MINUTE);

    assert_whole(&world);
    assert_within_quotas(&world);
}

#[test]
fn what_authors_with_wrong_clocks_write_around_an_outage_comes_once() {
    let mut world = eager(32, 7);
    let skewed = |world: &mut World| {
        let (wall, skew) = (world.wall(), Duration::from_secs(890));
        for dated in [wall.before(skew), wall, wall.after(skew)] {
            mention(world, 1, Some(dated));
            world.run_for(SOON);
        }
    };
    for pause in [1, 5, 20, 90] {
        skewed(&mut world);
        world.set_online(false);
        skewed(&mut world);
        comes_back(&mut world);
        skewed(&mut world);
        world.run_for(pause * MINUTE);
    }

    assert_whole(&world);
}

#[test]
fn restarts_of_the_relay_lose_nothing() {
    let mut world = eager(32, 7);
    for _ in 0..5 {
        publish_in(&mut world, 1, 60, ms(100));
        world.restart_relay();
        publish_in(&mut world, 2, 60, ms(200));
    }
    world.run_for(2 * MINUTE);

    assert_whole(&world);
    assert_within_quotas(&world);
}

/// The network is there again, and so is the agent, at the latest after a minute.
fn comes_back(world: &mut World) -> MonoTime {
    let back = world.now();
    let connections = world.relay_stats().connections;
    world.set_online(true);
    assert!(
        world.run_until(MINUTE, |world| world.relay_stats().connections
            > connections)
    );
    back
}
