//! A world that obliges: whatever is ordered is done at once and well. What a machine does not
//! settle in it, it settles nowhere.

mod publish;
mod relay;
mod schedule;

use std::collections::VecDeque;
use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::input::Input;
use buzz_proto::machine::Machine;
use buzz_proto::publish::Publisher;
use buzz_proto::relay::Relay;
use buzz_proto::schedule::Scheduler;
use buzz_proto::time::{MonoTime, UnixTime};

use crate::part::Part;
use crate::script::Script;
use crate::toy::START;

/// What a world keeps silent about for good, though it does all the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    /// No `/query` is answered.
    pub queries: bool,
    /// The relay's information document never comes.
    pub documents: bool,
    /// No record is ever stored.
    pub records: bool,
}

/// What the world knows of what it did.
#[derive(Clone, Copy, Debug, Default)]
pub struct World {
    /// What it keeps silent about.
    pub silence: Silence,
    /// Events that a consumer took.
    taken: u64,
}

/// A part that can live in such a world.
pub trait Oblige: Part {
    /// What such a world begins with: the time, and a connection for a part that has none itself.
    fn greet(wall: UnixTime) -> Vec<Self::Input>;
    /// Whether what follows from an order cannot be lost, because nobody else takes part in it.
    fn is_sure(order: &Self::Action) -> bool;
    /// The facts that follow from an order.
    fn oblige(order: Self::Action, world: &mut World) -> Vec<Self::Input>;
    /// What is still to be settled, if anything is.
    fn unsettled(&self) -> Option<String>;
    /// Whether nothing is wanted of it any more.
    fn is_over(&self) -> bool;
    /// Whether a fact leaves what is owed without anybody to take it.
    fn is_desertion(fact: &Self::Input) -> bool;
}

/// Lets `span` pass in a world that obliges from now on. What was ordered before stays undone, but
/// for what cannot be lost.
pub fn oblige<P: Oblige>(script: &mut Script<P>, silence: Silence, span: Duration) {
    let end = script.now().after(span);
    let taken = 0;
    let mut world = World { silence, taken };
    script.orders();
    let sure: Vec<_> = script
        .history()
        .filter(|order| P::is_sure(order))
        .cloned()
        .collect();
    let mut orders: VecDeque<_> = sure.into();
    let wall = START.after(script.now().saturating_since(MonoTime::ZERO));
    for fact in P::greet(wall) {
        script.input(fact);
        orders.extend(script.orders());
    }
    loop {
        while let Some(order) = orders.pop_front() {
            for fact in P::oblige(order, &mut world) {
                script.input(fact);
                orders.extend(script.orders());
            }
        }
        let due = script.part().next_deadline();
        let Some((at, _)) = due.filter(|(at, _)| *at <= end) else {
            script.sleep_until(end);
            return;
        };
        script.run_until(at);
        orders.extend(script.orders());
    }
}

impl Oblige for Machine {
    fn greet(wall: UnixTime) -> Vec<Input> {
        vec![Input::WallClock(wall)]
    }

    fn is_sure(order: &Action) -> bool {
        match order {
            Action::Relay(order) => Relay::is_sure(order),
            Action::Publish(order) => Publisher::is_sure(order),
            Action::Schedule(order) => Scheduler::is_sure(order),
            Action::Note(_) | Action::Ended | Action::WakeAt(_) => false,
        }
    }

    fn oblige(order: Action, world: &mut World) -> Vec<Input> {
        match order {
            Action::Relay(order) => wrap(Relay::oblige(order, world), Input::Relay),
            Action::Publish(order) => wrap(Publisher::oblige(order, world), Input::Publish),
            Action::Schedule(order) => wrap(Scheduler::oblige(order, world), Input::Schedule),
            Action::Note(_) | Action::Ended | Action::WakeAt(_) => Vec::new(),
        }
    }

    fn unsettled(&self) -> Option<String> {
        let (relay, publisher) = (self.relay(), self.publisher());
        let scheduler = self.scheduler();
        relay::unsettled(&relay)
            .or_else(|| publish::unsettled(&publisher))
            .or_else(|| scheduler.and_then(|view| schedule::unsettled(&view)))
    }

    fn is_over(&self) -> bool {
        self.is_ended() || relay::is_over(&self.relay())
    }

    /// A machine ends when its consumer goes.
    fn is_desertion(_fact: &Input) -> bool {
        false
    }
}

fn wrap<A, B>(facts: Vec<A>, into: fn(A) -> B) -> Vec<B> {
    facts.into_iter().map(into).collect()
}
