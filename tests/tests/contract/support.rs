//! Parts with small limits, and facts drawn from a seed.

use buzz_proto::config::{Config, Consumer};
use buzz_proto::machine::Machine;
use buzz_proto::publish::{self, Publisher};
use buzz_proto::relay::{self, Relay};
use buzz_proto::schedule::{self, RespondTo, Scheduler};
use buzz_proto::seed::Seed;
use buzz_proto::time::MonoTime;
use buzz_sim::relay::{URL, given};
use buzz_sim::toy::ME;
use quickcheck::{Gen, QuickCheck, Testable};

const ZERO: MonoTime = MonoTime::ZERO;

pub(crate) fn relay_part() -> Relay {
    let consumer = Consumer::External { slots: 8 };
    let relay = Relay::new(relay_config(), ME, &consumer, Seed(7), ZERO);
    relay.expect("the settings work")
}

pub(crate) fn publisher() -> Publisher {
    let config = publish::Config::default();
    Publisher::new(config, Seed(7), ZERO).expect("the settings work")
}

pub(crate) fn scheduler() -> Scheduler {
    Scheduler::new(schedule_config(), ME, Seed(7), ZERO).expect("the settings work")
}

pub(crate) fn machine(consumer: Consumer) -> Machine {
    let config = Config {
        seed: 7,
        me: ME,
        relay: relay_config(),
        publish: publish::Config::default(),
        consumer,
    };
    Machine::new(config, ZERO).expect("the settings work")
}

/// Small limits, so that they are met.
fn relay_config() -> relay::Config {
    let mut config = relay::Config {
        channels: relay::Channels::Roster,
        url: URL.to_owned(),
        ..given(&[])
    };
    config.limits.verify_max = 6;
    config.limits.outbound_max = 4;
    config.limits.subscriptions_max = 5;
    config.limits.seen_max = 12;
    config.limits.live_page = 2;
    config.limits.page = 3;
    config.records = Some(Vec::new());
    config
}

fn schedule_config() -> schedule::Config {
    let mut config = schedule::Config::new(2);
    config.respond_to = RespondTo::Anyone;
    config.limits.channel_max = 6;
    config.limits.total_max = 9;
    config
}

pub(crate) fn workers() -> Consumer {
    Consumer::Workers(Box::new(schedule_config()))
}

pub(crate) fn check(tests: u64, size: usize, property: impl Fn(Vec<u8>) -> bool + 'static) {
    struct Property<F>(F);
    impl<F: Fn(Vec<u8>) -> bool + 'static> Testable for Property<F> {
        fn result(&self, generator: &mut Gen) -> quickcheck::TestResult {
            use quickcheck::Arbitrary;
            let bytes = Vec::<u8>::arbitrary(generator);
            quickcheck::TestResult::from_bool((self.0)(bytes))
        }
    }
    QuickCheck::new()
        .tests(tests)
        .rng(Gen::from_size_and_seed(size, 0x5eed))
        .quickcheck(Property(property));
}
