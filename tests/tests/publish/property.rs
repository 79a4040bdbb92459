//! The publisher under random facts: what holds whatever the relay, the signer and the caller do.

use std::time::Duration;

use buzz_proto::publish::{Command, Input, Verdict};
use quickcheck::{Arbitrary, Gen, QuickCheck};

use crate::world::World;

#[test]
fn each_job_has_one_verdict_though_nobody_answers() {
    fn holds(steps: Vec<Step>) {
        let mut world = World::with_latest_ttl(60);
        for step in steps {
            world.take(step);
        }
        world.run_dry();
        assert_eq!(world.submitted, world.verdicts.keys().copied().collect());
    }
    QuickCheck::new()
        .tests(300)
        .quickcheck(holds as fn(Vec<Step>));
}

#[test]
fn each_job_has_one_verdict_and_the_end_comes_within_the_grace() {
    fn holds(steps: Vec<Step>, grace: u8) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
        }
        let grace = Duration::from_secs(u64::from(grace));
        world.feed(Input::Command(Command::Shutdown { grace }));
        let until = world.now.after(grace).after(Duration::from_millis(1));
        while !world.publisher.view().is_ended {
            let (at, _) = world
                .publisher
                .next_deadline()
                .expect("the end has a deadline");
            assert!(at <= until, "the end is late");
            world.now = at;
            world.feed(Input::Tick);
        }
        assert_eq!(world.publisher.next_deadline(), None);
        assert_eq!(world.submitted, world.verdicts.keys().copied().collect());
        assert_eq!(world.ends, 1);
    }
    QuickCheck::new()
        .tests(300)
        .quickcheck(holds as fn(Vec<Step>, u8));
}

#[test]
fn all_jobs_are_stored_and_all_marks_as_wished_once_the_relay_takes_them() {
    fn holds(steps: Vec<Step>) {
        let mut world = World::new();
        world.is_harmless = true;
        for step in steps.into_iter().filter(Step::is_harmless) {
            world.take(step);
        }
        world.heal();
        assert_eq!(world.submitted, world.verdicts.keys().copied().collect());
        let lost = world
            .verdicts
            .iter()
            .find(|(job, verdict)| world.durable.contains(*job) && **verdict != Verdict::Stored);
        assert_eq!(lost, None);
        for (message, wanted) in &world.wanted {
            let expected: Vec<_> = wanted.iter().copied().collect();
            assert_eq!(world.held.marks_of(*message), expected, "{message}");
        }
    }
    QuickCheck::new()
        .tests(300)
        .quickcheck(holds as fn(Vec<Step>));
}

#[test]
fn no_message_ever_bears_two_marks_though_steps_end_in_doubt() {
    fn holds(steps: Vec<Step>) {
        let mut world = World::with_latest_ttl(3);
        world.is_harmless = true;
        for step in steps.into_iter().filter(Step::is_harmless) {
            world.take(step);
        }
        world.heal();
    }
    QuickCheck::new()
        .tests(300)
        .quickcheck(holds as fn(Vec<Step>));
}

#[test]
fn a_jump_from_deadline_to_deadline_acts_like_milliseconds() {
    fn holds(steps: Vec<Step>) {
        let (mut jumping, mut stepping) = (World::new(), World::new());
        stepping.is_stepping = true;
        for step in steps.into_iter().take(40) {
            jumping.take(step);
            stepping.take(step);
        }
        assert_eq!(jumping.told, stepping.told);
    }
    QuickCheck::new()
        .tests(40)
        .quickcheck(holds as fn(Vec<Step>));
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Pass { millis: u16 },
    Submit { kind: u8, ttl: u8 },
    React { message: u8, mark: u8 },
    Answer { which: u8, how: u8 },
    Break { which: u8, how: u8 },
    Sign { which: u8, works: bool },
    Receive { which: u8, how: u8 },
    Link { live: bool },
    Cancel { which: u8 },
    Stale { ticket: u8 },
}

impl Step {
    /// Whether it neither takes a job back nor lets the relay refuse it for good.
    fn is_harmless(&self) -> bool {
        match self {
            Self::Pass { .. } | Self::Sign { .. } | Self::Link { .. } | Self::Stale { .. } => true,
            Self::Break { .. } | Self::React { .. } => true,
            Self::Submit { ttl, .. } => *ttl >= 128,
            Self::Answer { how, .. } => [0, 1, 3, 8, 9, 10, 11].contains(&(how % 12)),
            Self::Receive { how, .. } => [0, 1, 2, 3, 4, 6].contains(&(how % 10)),
            Self::Cancel { .. } => false,
        }
    }
}

impl Arbitrary for Step {
    fn arbitrary(g: &mut Gen) -> Self {
        let (which, how) = (u8::arbitrary(g), u8::arbitrary(g));
        match u8::arbitrary(g) % 20 {
            0..3 => Self::Pass {
                millis: u16::arbitrary(g) % 2_000,
            },
            3..7 => Self::Submit {
                kind: which,
                ttl: how,
            },
            7..10 => Self::Answer { which, how },
            10 => Self::Break { which, how },
            11 => Self::Sign {
                which,
                works: how % 4 > 0,
            },
            12 => Self::Receive { which, how },
            13 => Self::Link { live: how % 4 > 0 },
            14..17 => Self::React {
                message: which,
                mark: how,
            },
            17 => Self::Sign { which, works: true },
            18 => Self::Cancel { which },
            _ => Self::Stale { ticket: which },
        }
    }
}
