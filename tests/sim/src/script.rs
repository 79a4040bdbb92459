//! Scripts: facts fed by hand at times that are visible on the page, and the orders expected.
//!
//! ```
//! use buzz_sim::relay::{connect, given, script};
//! use buzz_sim::script::{ms, secs};
//!
//! let mut relay = script(given(&[]));
//! relay.at(ms(150)).tick().expect([connect(1)]);
//! relay.quiet_until(secs(30));
//! ```
//!
//! Every call is checked against the contract of the machine: the deadline is later than the
//! present and the one announced, it is announced last and only when it changed, and a tick that
//! nobody asked for changes nothing. A failure prints all that went in and came out, with times.

use std::fmt::{Debug, Write as _};
use std::time::Duration;

use buzz_proto::note::Note;
use buzz_proto::time::MonoTime;

use crate::part::Part;

/// Ticks of one run before the part counts as spinning.
const TICKS_MAX: u32 = 100_000;

/// A part under a script.
#[derive(Clone, Debug)]
pub struct Script<P: Part> {
    part: P,
    now: MonoTime,
    announced: Option<MonoTime>,
    history: Vec<Entry<P>>,
    /// Orders that the script has not looked at.
    orders: Vec<(MonoTime, P::Action)>,
    notes: Vec<Note>,
}

/// A line of the transcript.
#[derive(Clone, Debug)]
enum Entry<P: Part> {
    In(MonoTime, P::Input),
    Out(MonoTime, P::Action),
}

/// The instant `n` milliseconds after the start.
#[must_use]
pub const fn ms(n: u64) -> MonoTime {
    MonoTime::from_nanos(n * 1_000_000)
}

/// The instant `n` seconds after the start.
#[must_use]
pub const fn secs(n: u64) -> MonoTime {
    ms(n * 1000)
}

/// A script for `part`, at the start of time.
#[must_use]
pub const fn script<P: Part>(part: P) -> Script<P> {
    Script {
        part,
        now: MonoTime::ZERO,
        announced: None,
        history: Vec::new(),
        orders: Vec::new(),
        notes: Vec::new(),
    }
}

impl<P: Part> Script<P> {
    /// Moves the present to `at`. No deadline may be passed over on the way; see
    /// [`sleep_until`](Self::sleep_until).
    pub fn at(&mut self, at: MonoTime) -> &mut Self {
        if let Some((due, why)) = self.part.next_deadline()
            && due < at
        {
            self.fail(&format!("{at} passes over the deadline {due} ({why:?})"));
        }
        self.sleep_until(at)
    }

    /// Moves the present to `at` as a machine that slept does: deadlines pass without a tick.
    pub fn sleep_until(&mut self, at: MonoTime) -> &mut Self {
        if at < self.now {
            self.fail(&format!("{at} is over"));
        }
        self.now = at;
        self
    }

    /// Feeds one fact. What came before must have been looked at.
    pub fn input(&mut self, input: P::Input) -> &mut Self {
        if !self.orders.is_empty() {
            self.fail("orders that the script has not looked at");
        }
        self.feed(input);
        self
    }

    /// Feeds a tick.
    pub fn tick(&mut self) -> &mut Self {
        self.input(P::tick())
    }

    /// Demands exactly these orders since the last look, in this order. Notes and wakes stand
    /// apart.
    pub fn expect<const N: usize>(&mut self, orders: [P::Action; N]) -> &mut Self {
        let found = self.orders();
        if found != orders {
            self.fail(&format!(
                "expected {}\nfound {}",
                list(&orders),
                list(&found)
            ));
        }
        self
    }

    /// Demands exactly these notes since the last look.
    pub fn expect_notes<const N: usize>(&mut self, notes: [Note; N]) -> &mut Self {
        let found = self.notes();
        if found != notes {
            self.fail(&format!(
                "expected the notes {}\nfound {}",
                list(&notes),
                list(&found)
            ));
        }
        self
    }

    /// The orders since the last look.
    pub fn orders(&mut self) -> Vec<P::Action> {
        self.timed_orders()
            .into_iter()
            .map(|(_, action)| action)
            .collect()
    }

    /// The orders since the last look, each with its time.
    pub fn timed_orders(&mut self) -> Vec<(MonoTime, P::Action)> {
        std::mem::take(&mut self.orders)
    }

    /// The notes since the last look.
    pub fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Ticks at each deadline before `end` and demands that none gives an order. The present is
    /// `end` then; what is due at that very instant is not ticked yet.
    pub fn quiet_until(&mut self, end: MonoTime) -> &mut Self {
        self.expect([]);
        self.jump(end, false);
        let found = self.orders();
        if !found.is_empty() {
            self.fail(&format!("not quiet until {end}: {}", list(&found)));
        }
        self
    }

    /// As [`quiet_until`](Self::quiet_until), for a span rounded up as deadlines are.
    pub fn quiet_for(&mut self, span: Duration) -> &mut Self {
        let end = self.now.after(span).round_up();
        self.quiet_until(end)
    }

    /// Ticks at each deadline up to `end` and keeps the orders.
    pub fn run_until(&mut self, end: MonoTime) -> &mut Self {
        self.jump(end, true);
        self
    }

    /// As [`run_until`](Self::run_until), for a span.
    pub fn run_for(&mut self, span: Duration) -> &mut Self {
        let end = self.now.after(span);
        self.run_until(end)
    }

    /// The present.
    #[must_use]
    pub const fn now(&self) -> MonoTime {
        self.now
    }

    /// The part itself.
    #[must_use]
    pub const fn part(&self) -> &P {
        &self.part
    }

    /// All orders, notes and wakes so far.
    pub fn history(&self) -> impl DoubleEndedIterator<Item = &P::Action> {
        self.history.iter().filter_map(|entry| match entry {
            Entry::In(..) => None,
            Entry::Out(_, action) => Some(action),
        })
    }

    /// All facts so far.
    pub fn facts(&self) -> impl DoubleEndedIterator<Item = &P::Input> {
        self.history.iter().filter_map(|entry| match entry {
            Entry::In(_, input) => Some(input),
            Entry::Out(..) => None,
        })
    }

    /// Every call so far: its time, what went in, and what came out.
    #[must_use]
    pub fn calls(&self) -> Vec<(MonoTime, P::Input, Vec<P::Action>)> {
        let mut calls: Vec<(_, _, Vec<_>)> = Vec::new();
        for entry in &self.history {
            match entry {
                Entry::In(at, input) => calls.push((*at, input.clone(), Vec::new())),
                Entry::Out(_, action) => {
                    if let Some((_, _, actions)) = calls.last_mut() {
                        actions.push(action.clone());
                    }
                }
            }
        }
        calls
    }

    /// Puts orders back in front of those not looked at.
    pub fn put_back(&mut self, orders: Vec<(MonoTime, P::Action)>) {
        self.orders.splice(0..0, orders);
    }

    /// Ends the test with `what`, and prints the transcript.
    ///
    /// # Panics
    /// Always.
    #[expect(clippy::panic, reason = "a script fails as a test does")]
    pub fn fail(&self, what: &str) -> ! {
        panic!("{what}\n{}present {}", self.transcript(), self.now)
    }

    /// What went in and came out, a line each.
    #[must_use]
    pub fn transcript(&self) -> String {
        let mut text = String::new();
        for entry in &self.history {
            let written = match entry {
                Entry::In(at, input) => writeln!(text, "{at:>10} in  {input:?}"),
                Entry::Out(at, action) => writeln!(text, "{at:>10} out {action:?}"),
            };
            if written.is_err() {
                break;
            }
        }
        text
    }

    fn jump(&mut self, end: MonoTime, inclusive: bool) {
        for _ in 0..TICKS_MAX {
            let due = self.part.next_deadline().map(|(at, _)| at);
            let Some(at) = due.filter(|at| *at < end || (inclusive && *at == end)) else {
                self.sleep_until(end);
                return;
            };
            self.now = self.now.max(at);
            self.feed(P::tick());
        }
        self.fail("the part spins");
    }

    fn feed(&mut self, input: P::Input) {
        self.history.push(Entry::In(self.now, input.clone()));
        let actions = self.part.handle_input(input, self.now);
        self.history.extend(
            actions
                .iter()
                .map(|action| Entry::Out(self.now, action.clone())),
        );
        if let Some(fault) = self.fault(&actions) {
            self.fail(&fault);
        }
        for action in actions {
            if let Some(note) = P::note(&action) {
                self.notes.push(note.clone());
            } else if P::wake(&action).is_none() {
                self.orders.push((self.now, action));
            }
        }
    }

    /// What a call did against the contract, if anything. Feeds one tick that nobody asked for.
    fn fault(&mut self, actions: &[P::Action]) -> Option<String> {
        let wakes: Vec<_> = actions.iter().filter_map(P::wake).collect();
        match wakes[..] {
            [] => {}
            [wake] if wake == self.announced => {
                return Some("the wake is announced again".to_owned());
            }
            [wake] => {
                let last = actions.last().and_then(P::wake);
                if last.is_none() {
                    return Some("the wake is not the last action".to_owned());
                }
                self.announced = wake;
            }
            [_, _, ..] => return Some("two wakes in one call".to_owned()),
        }
        let due = self.part.next_deadline();
        if due.map(|(at, _)| at) != self.announced {
            return Some(format!(
                "the deadline is {due:?}, announced is {:?}",
                self.announced
            ));
        }
        if let Some((at, why)) = due
            && at <= self.now
        {
            return Some(format!("the deadline {at} ({why:?}) is not ahead"));
        }
        let extra = self.part.handle_input(P::tick(), self.now);
        if !extra.is_empty() || self.part.next_deadline() != due {
            return Some(format!("an extra tick is not silent: {}", list(&extra)));
        }
        None
    }
}

fn list<T: Debug>(items: &[T]) -> String {
    let mut text = format!("{} of them", items.len());
    for item in items {
        text.push_str("\n    ");
        let _: std::fmt::Result = write!(text, "{item:?}");
    }
    text
}
