//! Facts drawn from bytes: plausible, stale, out of order and plain nonsense.
//!
//! A run ends with its bytes, so a fuzzer can shorten it. Answers name what was ordered most of
//! the time, because a machine that is only ever told of strangers stays in its first phase.

mod publish;
mod relay;
mod schedule;

use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::input::{Command, Input};
use buzz_proto::machine::Machine;
use buzz_proto::schedule::WorkerId;
use buzz_proto::time::UnixTime;

use crate::part::Part;
use crate::script::{Script, script};
use crate::toy::START;

/// Actions of one call; a part that gives more has no bound worth the name.
pub const ACTIONS_MAX: usize = 4096;

/// A part that can be fed from bytes.
pub trait Chaos: Part {
    /// Remembers what an order names.
    fn learn(action: &Self::Action, known: &mut Known);
    /// A fact.
    fn draw(dice: &mut Dice<'_>, known: &Known) -> Self::Input;
}

/// Bytes that decide. Past their end every decision is zero.
#[derive(Debug)]
pub struct Dice<'a> {
    bytes: std::slice::Iter<'a, u8>,
}

impl<'a> Dice<'a> {
    /// Dice that fall as these bytes say.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let bytes = bytes.iter();
        Self { bytes }
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: u8) -> u8 {
        self.bytes.next().map_or(0, |byte| byte % sides.max(1))
    }

    /// Once in `sides`.
    pub fn rarely(&mut self, sides: u8) -> bool {
        self.roll(sides) == 1
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        let sides = u8::try_from(items.len()).unwrap_or(u8::MAX);
        items.get(usize::from(self.roll(sides))).cloned()
    }

    /// One of the last three.
    pub fn pick_recent<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        let recent = items.len().saturating_sub(3);
        self.pick(items.get(recent..)?)
    }

    /// A wall clock near the start.
    pub fn wall(&mut self) -> UnixTime {
        START.after(Duration::from_secs(u64::from(self.roll(255)) * 20))
    }

    /// Mostly one of the last ids that were ordered, else a stranger's.
    fn id(&mut self, known: &[u64]) -> u64 {
        if known.is_empty() || self.rarely(8) {
            return u64::from(self.roll(12));
        }
        let back = usize::from(self.roll(3)).min(known.len() - 1);
        known[known.len() - 1 - back]
    }
}

/// What was ordered so far.
#[derive(Clone, Debug, Default)]
pub struct Known {
    conns: Vec<u64>,
    writes: Vec<u64>,
    tickets: Vec<u64>,
    calls: Vec<u64>,
    questions: Vec<u64>,
    turns: Vec<u64>,
    jobs: Vec<u64>,
    subs: Vec<String>,
    workers: Vec<WorkerId>,
}

/// Feeds `part` from `bytes` until they end. The script checks the contract of every call.
pub fn drive<P: Chaos>(part: P, bytes: &[u8]) -> Script<P> {
    let mut script = script(part);
    drive_on(&mut script, bytes);
    script
}

/// As [`drive`], from where a script stands. Orders not looked at are forgotten.
pub fn drive_on<P: Chaos>(script: &mut Script<P>, bytes: &[u8]) {
    let mut known = Known::default();
    script.orders();
    for order in script.history() {
        P::learn(order, &mut known);
    }
    let mut dice = Dice::new(bytes);
    while dice.bytes.len() > 0 {
        pass_time(script, &mut dice, &mut known);
        script.input(P::draw(&mut dice, &known));
        learn(script, &mut known);
    }
}

fn learn<P: Chaos>(script: &mut Script<P>, known: &mut Known) {
    let orders = script.orders();
    if orders.len() + script.notes().len() > ACTIONS_MAX {
        script.fail("too many actions in one call");
    }
    for order in &orders {
        P::learn(order, known);
    }
}

/// Lets time pass: none, a little, up to the next deadlines, or as a machine that slept.
fn pass_time<P: Chaos>(script: &mut Script<P>, dice: &mut Dice<'_>, known: &mut Known) {
    let span = match dice.roll(20) {
        0..13 => return,
        13 => Duration::from_nanos(1),
        14 => Duration::from_millis(17),
        15 => Duration::from_secs(1),
        16 => Duration::from_secs(4),
        17 => Duration::from_secs(11),
        18 => {
            let due = script.part().next_deadline().map(|(at, _)| at);
            script.run_until(due.unwrap_or_default().max(script.now()));
            learn(script, known);
            return;
        }
        _ => {
            let asleep = Duration::from_secs(u64::from(dice.roll(60)).pow(2));
            script.sleep_until(script.now().after(asleep));
            return;
        }
    };
    script.run_for(span);
    learn(script, known);
}

impl Chaos for Machine {
    fn learn(action: &Action, known: &mut Known) {
        match action {
            Action::Relay(action) => buzz_proto::relay::Relay::learn(action, known),
            Action::Publish(action) => buzz_proto::publish::Publisher::learn(action, known),
            Action::Schedule(action) => buzz_proto::schedule::Scheduler::learn(action, known),
            Action::Note(_) | Action::Ended | Action::WakeAt(_) => {}
        }
    }

    fn draw(dice: &mut Dice<'_>, known: &Known) -> Input {
        match dice.roll(24) {
            0 => Input::Tick,
            1 => Input::WallClock(dice.wall()),
            2 if dice.rarely(32) => Input::Command(Command::Shutdown {
                grace: Duration::from_secs(u64::from(dice.roll(60))),
            }),
            2..5 => Input::Publish(buzz_proto::publish::Publisher::draw(dice, known)),
            5..9 => Input::Schedule(buzz_proto::schedule::Scheduler::draw(dice, known)),
            _ => Input::Relay(buzz_proto::relay::Relay::draw(dice, known)),
        }
    }
}
