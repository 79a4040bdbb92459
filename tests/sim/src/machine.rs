//! Whole machines with ordinary settings.

use buzz_proto::config::{Config, Consumer};
use buzz_proto::machine::Machine;
use buzz_proto::schedule::RespondTo;
use buzz_proto::time::MonoTime;
use buzz_proto::{publish, relay, schedule};

use crate::relay::{URL, given};
use crate::toy::ME;

/// A machine at the start of time.
///
/// # Panics
/// When a setting cannot work.
#[must_use]
pub fn machine(config: Config) -> Machine {
    Machine::new(config, MonoTime::ZERO).expect("the settings work")
}

/// Settings of one given channel for a consumer, of a roster for workers.
#[must_use]
pub fn config(consumer: Consumer) -> Config {
    let relay = match consumer {
        Consumer::External { .. } => given(&[1]),
        Consumer::Workers(_) => relay::Config::new(URL),
    };
    Config {
        seed: 7,
        me: ME,
        relay,
        publish: publish::Config::default(),
        consumer,
    }
}

/// A consumer with 8 slots.
#[must_use]
pub const fn external() -> Consumer {
    Consumer::External { slots: 8 }
}

/// Two workers that answer to anyone.
#[must_use]
pub fn workers() -> Consumer {
    let mut config = schedule::Config::new(2);
    config.respond_to = RespondTo::Anyone;
    Consumer::Workers(Box::new(config))
}
