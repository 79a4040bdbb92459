//! No reachable state waits for ever: whatever came before, something observable happens within a
//! bound as long as anything is wanted, and all of it is settled once the world obliges.

use std::time::Duration;

use buzz_proto::config::Consumer;
use buzz_proto::time::MonoTime;
use buzz_sim::chaos::{Chaos, drive_on};
use buzz_sim::obliging::{Oblige, Silence, oblige};
use buzz_sim::part::Part;
use buzz_sim::script::{Script, script};

use crate::support::{check, machine, publisher, relay_part, scheduler, workers};

/// Bytes of a run: some hundred facts.
const BYTES: usize = 2000;
/// Runs of a property.
const RUNS: u64 = 200;
/// Bytes of one spell of trouble.
const SPELL: usize = 250;
/// From one spell to the next.
const PEACE: Duration = Duration::from_secs(20);
/// The longest wait there is: the slow rung of five minutes, drawn and with the dial's own limit.
const SILENCE_MAX: Duration = Duration::from_secs(400);
/// How long silence is watched.
const WATCHED: Duration = Duration::from_secs(3600);
/// By then a world that obliges has nothing left to do.
const HEALED: Duration = Duration::from_secs(2 * 3600);

// Nobody answers any more

#[test]
fn the_relay_part_is_never_still_though_nobody_answers() {
    is_never_still(relay_part);
}

#[test]
fn a_machine_with_a_consumer_is_never_still_though_nobody_answers() {
    is_never_still(|| machine(Consumer::External { slots: 8 }));
}

#[test]
fn a_machine_with_workers_is_never_still_though_nobody_answers() {
    is_never_still(|| machine(workers()));
}

// The world obliges

#[test]
fn the_relay_part_settles_all_once_the_world_obliges() {
    settles(relay_part);
}

#[test]
fn the_publisher_settles_all_once_the_world_obliges() {
    settles(publisher);
}

#[test]
fn the_scheduler_settles_all_once_the_world_obliges() {
    settles(scheduler);
}

#[test]
fn a_machine_with_a_consumer_settles_all_once_the_world_obliges() {
    settles(|| machine(Consumer::External { slots: 8 }));
}

#[test]
fn a_machine_with_workers_settles_all_once_the_world_obliges() {
    settles(|| machine(workers()));
}

fn is_never_still<P: Chaos + Oblige + 'static>(part: fn() -> P) {
    check(RUNS, BYTES, move |bytes: Vec<u8>| {
        let driven = troubled(part(), &bytes);
        let mut part = driven.part().clone();
        let mut last = driven.now();
        let _: Vec<_> = part.handle_input(P::tick(), last);
        let end = last.after(WATCHED);
        while !part.is_over() && last < end {
            let Some(at) = next_sign(&mut part) else {
                driven.fail("nothing will happen");
            };
            if at > last.after(SILENCE_MAX) {
                driven.fail(&format!("nothing happens from {last} to {at}"));
            }
            last = at;
        }
        true
    });
}

/// A part in a world that obliges, but for spells in which anything comes.
fn troubled<P: Chaos + Oblige>(part: P, bytes: &[u8]) -> Script<P> {
    let mut script = script(part);
    for spell in bytes.chunks(SPELL) {
        oblige(&mut script, Silence::default(), PEACE);
        drive_on(&mut script, spell);
    }
    script
}

/// When the next order or note comes by itself.
fn next_sign<P: Part>(part: &mut P) -> Option<MonoTime> {
    loop {
        let (at, _) = part.next_deadline()?;
        let actions = part.handle_input(P::tick(), at);
        if actions.iter().any(|action| P::wake(action).is_none()) {
            return Some(at);
        }
    }
}

fn settles<P: Chaos + Oblige + 'static>(part: fn() -> P) {
    check(RUNS, BYTES, move |mut bytes: Vec<u8>| {
        let silence = silence(bytes.pop().unwrap_or_default());
        let mut script = troubled(part(), &bytes);
        oblige(&mut script, silence, HEALED);
        let is_wanted = !script.part().is_over() && !script.facts().any(P::is_desertion);
        if is_wanted && let Some(what) = script.part().unsettled() {
            script.fail(&what);
        }
        true
    });
}

/// Half of the worlds oblige in all, the others keep silent about one thing.
const fn silence(how: u8) -> Silence {
    Silence {
        queries: how % 8 == 1,
        documents: how % 8 == 2,
        records: how % 8 == 3,
    }
}
