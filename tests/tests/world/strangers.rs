//! Messages by strangers, each by another one, beside those of the owner.

use std::time::Duration;

use buzz_dev_relay::client::tag;
use buzz_dev_relay::rules::Settings;
use buzz_proto::config::Consumer;
use buzz_proto::schedule::RespondTo;
use buzz_sim::world::{OWNER, Person, World, channel, workers_config};

use crate::support::{MINUTE, SOON};

const SECOND: Duration = Duration::from_secs(1);
const STRANGERS: u32 = 1200;

/// An agent that answers its owner alone.
fn of_owner(seed: u64) -> World {
    let mut config = workers_config(1);
    if let Consumer::Workers(schedule) = &mut config.consumer {
        schedule.respond_to = RespondTo::OwnerOnly;
    }
    let mut world = World::new(config, Settings::default(), seed).expect("the settings work");
    world.listen();
    world.open_channel(channel(1)).expect("it is new");
    assert!(world.run_until(MINUTE, |world| world.subscriptions() > 1));
    world.run_for(10 * SOON);
    world
}

fn stranger_says(world: &mut World, number: u32) {
    let tags = vec![
        tag("h", &channel(1).to_string()),
        tag("p", world.agent_key()),
    ];
    let words = format!("I am number {number}");
    let said = world.post(Person(number), 9, tags, &words, None);
    said.expect("the relay takes it");
}

#[test]
fn the_owner_is_answered_in_the_middle_of_a_crowd_of_strangers() {
    let mut world = of_owner(11);
    for number in 0..STRANGERS {
        stranger_says(&mut world, 100 + number);
        if number % 10 == 0 {
            world.run_for(SECOND / 2);
        }
    }
    let asked = world.publish(OWNER, channel(1), "and me?", None);
    let asked = asked.expect("the relay takes it");
    let is_answered = |world: &World| world.said().iter().any(|said| said.to == Some(asked));
    assert!(world.run_until(MINUTE, is_answered));
    let calls = world.calls().len();
    assert!(calls < STRANGERS as usize, "{calls} calls");
}
