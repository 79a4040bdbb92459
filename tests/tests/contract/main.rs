//! The contract of the machine and of each part, for any facts in any order.

mod liveness;
mod support;

use std::time::Duration;

use buzz_proto::config::{Config, Consumer};
use buzz_proto::machine::Machine;
use buzz_proto::publish::{self, Publisher};
use buzz_proto::relay::{self, Relay};
use buzz_proto::schedule::{self, Scheduler};
use buzz_proto::time::MonoTime;
use buzz_proto::{action, input};
use buzz_sim::chaos::{Chaos, drive};
use buzz_sim::fuzz;
use buzz_sim::part::Part;

use self::support::{check, machine, publisher, relay_part, scheduler, workers};

/// Bytes of a run: some hundred facts.
const BYTES: usize = 2000;
/// How far jumps and steps are compared.
const HORIZON: Duration = Duration::from_secs(2);

// Whatever comes: no panic, a deadline ahead that was announced last and only when it changed,
// silence at an extra tick, and a bounded number of actions. The driver checks each call.

#[test]
fn the_relay_part_keeps_the_contract_whatever_comes() {
    keeps_the_contract(relay_part);
}

#[test]
fn the_publisher_keeps_the_contract_whatever_comes() {
    keeps_the_contract(publisher);
}

#[test]
fn the_scheduler_keeps_the_contract_whatever_comes() {
    keeps_the_contract(scheduler);
}

#[test]
fn a_machine_with_a_consumer_keeps_the_contract_whatever_comes() {
    keeps_the_contract(|| machine(Consumer::External { slots: 8 }));
}

#[test]
fn a_machine_with_workers_keeps_the_contract_whatever_comes() {
    keeps_the_contract(|| machine(workers()));
}

// Conservation, fences and one outcome of each kind, by books that the driver keeps

#[test]
fn the_books_of_a_machine_hold_whatever_comes() {
    check(200, BYTES, |bytes: Vec<u8>| {
        fuzz::machine(&bytes);
        true
    });
}

// Time

#[test]
fn the_relay_part_jumps_as_it_steps() {
    jumps_as_it_steps(relay_part);
}

#[test]
fn the_publisher_jumps_as_it_steps() {
    jumps_as_it_steps(publisher);
}

#[test]
fn the_scheduler_jumps_as_it_steps() {
    jumps_as_it_steps(scheduler);
}

#[test]
fn a_machine_jumps_as_it_steps() {
    jumps_as_it_steps(|| machine(workers()));
}

// Types

#[test]
fn facts_and_orders_grow_only_by_decision() {
    let sizes = [
        (size_of::<relay::Input>(), size_of::<relay::Action>()),
        (size_of::<publish::Input>(), size_of::<publish::Action>()),
        (size_of::<schedule::Input>(), size_of::<schedule::Action>()),
        (size_of::<input::Input>(), size_of::<action::Action>()),
    ];
    assert_eq!(sizes, SIZES);
}

#[test]
fn the_machine_its_facts_and_its_orders_move_between_threads() {
    fn is_shared<T: Send + Sync + 'static>() {}
    is_shared::<Machine>();
    is_shared::<Relay>();
    is_shared::<Publisher>();
    is_shared::<Scheduler>();
    is_shared::<input::Input>();
    is_shared::<action::Action>();
    is_shared::<Config>();
}

/// Bytes of input and action: relay, publisher, scheduler, machine.
const SIZES: [(usize, usize); 4] = [(104, 152), (208, 144), (152, 208), (208, 208)];

fn keeps_the_contract<P: Chaos + 'static>(part: fn() -> P) {
    check(60, BYTES, move |bytes: Vec<u8>| {
        let one = drive(part(), &bytes);
        let other = drive(part(), &bytes);
        one.transcript() == other.transcript()
    });
}

fn jumps_as_it_steps<P: Chaos + 'static>(part: fn() -> P) {
    check(30, BYTES / 8, move |bytes: Vec<u8>| {
        let driven = drive(part(), &bytes);
        let end = driven.now().after(HORIZON);
        let jumped = jump(driven.part().clone(), end);
        let stepped = step(driven.part().clone(), driven.now(), end);
        assert_eq!(jumped, stepped, "{}", driven.transcript());
        true
    });
}

/// Every order and note until `end`, from deadline to deadline.
fn jump<P: Part>(mut part: P, end: MonoTime) -> Vec<(MonoTime, P::Action)> {
    let mut found = Vec::new();
    while let Some((at, _)) = part.next_deadline().filter(|(at, _)| *at <= end) {
        collect(&mut part, at, &mut found);
    }
    found
}

/// The same, from millisecond to millisecond.
fn step<P: Part>(mut part: P, from: MonoTime, end: MonoTime) -> Vec<(MonoTime, P::Action)> {
    let mut found = Vec::new();
    let mut now = from.round_up();
    while now <= end {
        collect(&mut part, now, &mut found);
        now = now.after(Duration::from_millis(1));
    }
    found
}

fn collect<P: Part>(part: &mut P, now: MonoTime, found: &mut Vec<(MonoTime, P::Action)>) {
    for action in part.handle_input(P::tick(), now) {
        if P::wake(&action).is_none() {
            found.push((now, action));
        }
    }
}
