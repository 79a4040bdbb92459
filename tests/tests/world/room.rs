//! A consumer that takes nothing, little, or not everything.

use std::time::Duration;

use buzz_proto::time::MonoTime;
use buzz_sim::world::{Pace, World, config};

use crate::support::*;

#[test]
fn while_the_consumer_stands_still_nothing_is_asked_for_and_then_everything_comes() {
    let mut world = live(config(16), 7);
    let begun = world.now();
    publish_in(&mut world, 1, 720, 10 * SOON);

    let requests = histories(&world, begun) - audits(&world, begun);
    assert_eq!((requests, world.delivered().len()), (0, 16));
    let woken = world.now();
    world.set_pace(Pace::Eager);
    world.run_for(5 * MINUTE);

    assert_whole(&world);
    assert_within_quotas(&world);
    // Pages are as large as the room for them: from half of it to all.
    let requests = histories(&world, woken) - audits(&world, woken);
    assert!(
        (704 / 16..=704 / 8).contains(&requests),
        "{requests} requests"
    );
}

#[test]
fn a_consumer_slower_than_people_costs_no_more_requests_than_it_takes_events() {
    let mut world = live(config(16), 7);
    let begun = world.now();
    world.set_pace(Pace::OneEach(15 * SOON));
    publish_in(&mut world, 1, 360, 10 * SOON);

    let requests = histories(&world, begun) - audits(&world, begun);
    let given = world.delivered().len();
    assert!(requests * 2 <= given, "{requests} requests, {given} events");
    world.run_for(60 * MINUTE);

    assert_whole(&world);
    assert_within_quotas(&world);
}

#[test]
fn what_is_handed_back_comes_again_until_it_is_accepted() {
    let mut world = live(config(16), 7);
    world.consumer_hands_back(3);
    world.set_pace(Pace::OneEach(ms(100)));
    publish_in(&mut world, 1, 60, ms(150));
    world.run_for(2 * MINUTE);

    assert_whole(&world);
    assert_within_quotas(&world);
    assert_eq!(world.delivered().len(), 60 + 60 / 3);
}

#[test]
fn a_busy_channel_does_not_keep_a_quiet_one_waiting() {
    let mut world = live(config(8), 7);
    publish_in(&mut world, 1, 300, ms(10));
    let quiet = mention(&mut world, 2, None);
    world.run_for(SOON);
    world.set_pace(Pace::OneEach(ms(200)));
    let came = |world: &World| delivered(world).contains(&quiet);

    assert!(world.run_until(Duration::from_secs(20), came));
    world.run_for(3 * MINUTE);
    assert_whole(&world);
}

fn audits(world: &World, since: MonoTime) -> usize {
    let late = world.requests().iter().filter(|it| it.at > since);
    late.filter(|it| it.is_audit()).count()
}
