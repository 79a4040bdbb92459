//! Plays a sequence of facts as it was reported, and in other orders.

use std::time::Duration;

use buzz_proto::config::Consumer;
use buzz_proto::relay::Config;
use buzz_proto::time::UnixTime;
use buzz_sim::bench::{Bench, Dial};
use buzz_sim::relay::given;
use buzz_sim::toy::{self, START};

use crate::transcript;

/// A channel of which no case speaks.
pub(crate) const ELSEWHERE: u8 = 250;
/// How often a sequence is played in other orders.
const ORDERS: u64 = 6;
/// Events of no case are numbered from this on.
const TRAFFIC: u64 = 500_000;
/// What the channels were subscribed for before a case that begins on a live connection.
const BEFORE: Duration = Duration::from_secs(100);

type Fact = Box<dyn Fn(&mut Bench)>;
type Check = Box<dyn Fn(&Bench)>;

/// A sequence, and what is demanded of it. Times are milliseconds from its beginning.
pub(crate) struct Case {
    begin: Box<dyn Fn() -> Bench>,
    facts: Vec<(u64, Fact)>,
    musts: Vec<(u64, Check)>,
    nevers: Vec<Check>,
    endings: Vec<Check>,
}

impl Case {
    pub(crate) fn new(begin: impl Fn() -> Bench + 'static) -> Self {
        Self {
            begin: Box::new(begin),
            facts: Vec::new(),
            musts: Vec::new(),
            nevers: Vec::new(),
            endings: Vec::new(),
        }
    }

    /// A fact.
    pub(crate) fn at(mut self, ms: u64, fact: impl Fn(&mut Bench) + 'static) -> Self {
        self.facts.push((ms, Box::new(fact)));
        self
    }

    /// Events with these numbers are published at once, dated 100 s after the start.
    pub(crate) fn feed(
        mut self,
        ms: u64,
        place: u8,
        numbers: std::ops::RangeInclusive<u64>,
    ) -> Self {
        for n in numbers {
            self = self.at(ms, move |bench| {
                bench.publish(n, place, dated(100));
            });
        }
        self
    }

    /// What holds after the facts of an instant, when the sequence is played as reported.
    pub(crate) fn must(mut self, ms: u64, check: impl Fn(&Bench) + 'static) -> Self {
        self.musts.push((ms, Box::new(check)));
        self
    }

    /// What holds of every transcript.
    pub(crate) fn never(mut self, check: impl Fn(&Bench) + 'static) -> Self {
        self.nevers.push(Box::new(check));
        self
    }

    /// What holds in every order two minutes after the last fact, with a consumer that takes all.
    pub(crate) fn finally(mut self, check: impl Fn(&Bench) + 'static) -> Self {
        self.endings.push(Box::new(check));
        self
    }

    pub(crate) fn play(self) {
        self.play_one(None);
        for seed in 0..ORDERS {
            self.play_one(Some(Dice::new(seed)));
        }
    }

    fn play_one(&self, mut dice: Option<Dice>) {
        let mut bench = (self.begin)();
        let zero = bench.script.now();
        let instants = self.instants();
        let outage = dice.as_mut().map(|dice| dice.roll(instants.len()));
        for (number, ms) in instants.iter().enumerate() {
            let at = zero.after(Duration::from_millis(*ms));
            let span = at.saturating_since(bench.script.now());
            run_to(&mut bench, span);
            if outage == Some(number) {
                bench.disconnect();
            }
            let mut facts = of_instant(&self.facts, *ms);
            if let Some(dice) = &mut dice {
                dice.shuffle(&mut facts);
                traffic(&mut bench, number as u64);
            }
            for fact in facts {
                fact(&mut bench);
            }
            wants_a_wake(&bench);
            if dice.is_none() {
                for check in of_instant(&self.musts, *ms) {
                    check(&bench);
                }
            }
        }
        for _ in 0..120 {
            bench.take_all();
            run_to(&mut bench, Duration::from_secs(1));
        }
        transcript::check(&bench);
        for check in self.nevers.iter().chain(&self.endings) {
            check(&bench);
        }
    }

    fn instants(&self) -> Vec<u64> {
        let mut instants: Vec<u64> = self.facts.iter().map(|(ms, _)| *ms).collect();
        instants.extend(self.musts.iter().map(|(ms, _)| *ms));
        instants.sort_unstable();
        instants.dedup();
        instants
    }
}

fn of_instant<T>(steps: &[(u64, T)], ms: u64) -> Vec<&T> {
    let those = steps.iter().filter(|(at, _)| *at == ms);
    those.map(|(_, step)| step).collect()
}

fn run_to(bench: &mut Bench, span: Duration) {
    bench.run_for(span);
    wants_a_wake(bench);
}

/// Whoever wants something wants to be woken.
fn wants_a_wake(bench: &Bench) {
    if bench.script.part().next_deadline().is_none() {
        bench.script.fail("something is wanted and nothing is due");
    }
}

/// What concerns no case: an event of another channel, which the consumer takes at once, and words
/// of a relay that mean nothing.
fn traffic(bench: &mut Bench, number: u64) {
    let before = bench.delivered.len();
    let present = bench.present();
    bench.publish(TRAFFIC + number, ELSEWHERE, present);
    bench.take((bench.delivered.len() - before) as u64);
    bench.say(toy::notice("maintenance tonight"));
    bench.say(r#"["HELLO","there"]"#);
    bench.say(toy::eose("nobody-asked-for-this"));
}

/// Numbers of chance that are the same each time.
struct Dice(u64);

impl Dice {
    const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).expect("less than the sides")
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.roll(last + 1);
            items.swap(last, other);
        }
    }
}

/// So many seconds after the start, by the relay's clock.
pub(crate) const fn dated(seconds: u64) -> UnixTime {
    START.after(Duration::from_secs(seconds))
}

/// The settings of a case with these channels.
pub(crate) fn settings(channels: &[u8]) -> Config {
    let mut channels = channels.to_vec();
    channels.push(ELSEWHERE);
    given(&channels)
}

/// A part that has not dialed.
pub(crate) fn new(channels: &[u8], slots: u32) -> Bench {
    Bench::new(settings(channels), &Consumer::External { slots })
}

/// A connection that has been live for a hundred seconds.
pub(crate) fn live(channels: &[u8], slots: u32) -> Bench {
    live_with(settings(channels), slots)
}

/// As [`live`], with these settings.
pub(crate) fn live_with(config: Config, slots: u32) -> Bench {
    let mut bench = Bench::new(config, &Consumer::External { slots });
    bench.attend(Dial::Succeeds);
    bench.run_for(BEFORE);
    bench
}
