//! An agent that keeps records, and is killed or ends in good order.

use std::time::Duration;

use buzz_proto::seed::Seed;
use buzz_sim::world::{Pace, World, channel};

use crate::support::*;

const GRACE: Duration = Duration::from_secs(10);

#[test]
fn after_an_end_in_good_order_what_had_its_outcome_does_not_come_again() {
    let mut world = live(keeping(64), 7);
    world.set_pace(Pace::Eager);
    for _ in 0..4 {
        publish_in(&mut world, 1, 40, ms(100));
        world.restart_cleanly(GRACE).expect("the records work");
        publish_in(&mut world, 2, 40, ms(100));
    }
    world.run_for(MINUTE);

    assert_whole(&world);
    assert_eq!(world.delivered().len(), world.owed().len());
}

#[test]
fn a_kill_skips_nothing_and_repeats_at_most_the_last_moment() {
    let mut world = live(keeping(64), 7);
    world.set_pace(Pace::Eager);
    for _ in 0..6 {
        publish_in(&mut world, 1, 37, ms(130));
        world.restart().expect("the records work");
        world.run_for(5 * SOON);
    }
    world.run_for(MINUTE);

    assert_whole(&world);
    // Records are kept once a second, in which people write eight mentions.
    let again = world.delivered().len() - world.owed().len();
    assert!((1..=6 * 8).contains(&again), "{again} events came again");
}

#[test]
fn wherever_a_life_ends_nothing_is_skipped_and_nothing_recorded_comes_again() {
    for seed in 1..=6 {
        let mut world = stand(world(keeping(16), seed), 2);
        let draw = |key, number, end| Seed(seed).draw(key, number) % end;
        for round in 0..8 {
            let paces = [Pace::Stalled, Pace::OneEach(ms(150)), Pace::Eager];
            world.set_pace(paces[usize::try_from(draw(1, round, 3)).expect("a small number")]);
            publish_in(&mut world, 1, 30, ms(draw(2, round, 200)));
            publish_in(&mut world, 2, 5, ms(draw(3, round, 200)));
            if draw(4, round, 2) == 0 {
                world.restart().expect("the records work");
            } else {
                world.restart_cleanly(GRACE).expect("the records work");
            }
            world.run_for(ms(draw(5, round, 3000)));
        }
        heal(&mut world);

        assert_whole(&world);
        assert_within_quotas(&world);
    }
}

#[test]
fn what_was_written_between_two_lives_is_delivered_to_the_next() {
    let mut world = live(keeping(16), 7);
    world.set_pace(Pace::Eager);
    publish(&mut world, 10);
    world.set_online(false);
    world.run_for(30 * MINUTE);
    publish(&mut world, 300);
    world.restart().expect("the records work");
    world.run_for(30 * MINUTE);
    world.restart().expect("the records work");
    world.set_online(true);
    heal(&mut world);

    assert_whole(&world);
}

#[test]
fn what_is_said_in_a_channel_that_was_opened_while_the_agent_was_away_is_owed_to_the_next_life() {
    let mut world = live(keeping(16), 7);
    world.set_pace(Pace::Eager);
    world.run_for(MINUTE);
    world.set_online(false);
    world.open_channel(channel(7)).expect("it is new");
    mention(&mut world, 7, None);
    world.run_for(MINUTE);
    world.restart().expect("the records work");
    world.set_online(true);
    heal(&mut world);

    assert_whole(&world);
}

fn heal(world: &mut World) {
    world.set_pace(Pace::Eager);
    world.run_for(10 * MINUTE);
}
