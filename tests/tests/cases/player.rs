//! Plays a sequence of facts as it was reported, and in other orders.

use std::collections::BTreeSet;
use std::time::Duration;

use buzz_proto::config::Consumer;
use buzz_proto::relay::Config;
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_sim::bench::{Bench, Dial};
use buzz_sim::relay::given;
use buzz_sim::toy::{self, START};

use crate::transcript;

/// A channel of which no case speaks.
pub(crate) const ELSEWHERE: u8 = 250;
/// How often a sequence is played in other orders.
const ORDERS: u64 = 6;
/// Events and jobs of no case are numbered from this on.
pub(crate) const TRAFFIC: u64 = 500_000;
/// What the channels were subscribed for before a case that begins on a live connection.
const BEFORE: Duration = Duration::from_secs(100);

type Fact<S> = Box<dyn Fn(&mut S)>;
type Check<S> = Box<dyn Fn(&S)>;

/// What a sequence is played on: the machine or a part of it, and those around it.
pub(crate) trait Stage: Sized {
    /// The present.
    fn instant(&self) -> MonoTime;
    /// Time passes, in which those around do what they do.
    fn pass(&mut self, span: Duration);
    /// The socket ends.
    fn lose_connection(&mut self);
    /// Something happens that concerns no case.
    fn bring_traffic(&mut self, number: u64);
    /// After the last fact: time passes until nothing is left to do.
    fn come_to_rest(&mut self);
    /// What holds at any time.
    fn check_present(&self);
    /// What holds of every transcript.
    fn check_transcript(&self);
}

/// A sequence, and what is demanded of it. Times are milliseconds from its beginning.
pub(crate) struct Case<S: Stage> {
    begin: Box<dyn Fn() -> S>,
    facts: Vec<(u64, Fact<S>)>,
    musts: Vec<(u64, Check<S>)>,
    nevers: Vec<Check<S>>,
    endings: Vec<Check<S>>,
}

impl<S: Stage> Case<S> {
    pub(crate) fn new(begin: impl Fn() -> S + 'static) -> Self {
        Self {
            begin: Box::new(begin),
            facts: Vec::new(),
            musts: Vec::new(),
            nevers: Vec::new(),
            endings: Vec::new(),
        }
    }

    /// A fact.
    pub(crate) fn at(mut self, ms: u64, fact: impl Fn(&mut S) + 'static) -> Self {
        self.facts.push((ms, Box::new(fact)));
        self
    }

    /// What holds after the facts of an instant, when the sequence is played as reported.
    pub(crate) fn must(mut self, ms: u64, check: impl Fn(&S) + 'static) -> Self {
        self.musts.push((ms, Box::new(check)));
        self
    }

    /// What holds of every transcript.
    pub(crate) fn never(mut self, check: impl Fn(&S) + 'static) -> Self {
        self.nevers.push(Box::new(check));
        self
    }

    /// What holds in every order when nothing is left to do.
    pub(crate) fn finally(mut self, check: impl Fn(&S) + 'static) -> Self {
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
        let mut stage = (self.begin)();
        let zero = stage.instant();
        let instants = self.instants();
        let outage = dice.as_mut().map(|dice| dice.roll(instants.len()));
        for (number, ms) in instants.iter().enumerate() {
            let at = zero.after(Duration::from_millis(*ms));
            let span = at.saturating_since(stage.instant());
            stage.pass(span);
            stage.check_present();
            if outage == Some(number) {
                stage.lose_connection();
            }
            let mut facts = of_instant(&self.facts, *ms);
            if let Some(dice) = &mut dice {
                dice.shuffle(&mut facts);
                stage.bring_traffic(number as u64);
            }
            for fact in facts {
                fact(&mut stage);
            }
            stage.check_present();
            if dice.is_none() {
                for check in of_instant(&self.musts, *ms) {
                    check(&stage);
                }
            }
        }
        stage.come_to_rest();
        stage.check_transcript();
        for check in self.nevers.iter().chain(&self.endings) {
            check(&stage);
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

impl Case<Bench> {
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
}

fn of_instant<T>(steps: &[(u64, T)], ms: u64) -> Vec<&T> {
    let those = steps.iter().filter(|(at, _)| *at == ms);
    those.map(|(_, step)| step).collect()
}

impl Stage for Bench {
    fn instant(&self) -> MonoTime {
        self.script.now()
    }

    fn pass(&mut self, span: Duration) {
        self.run_for(span);
    }

    fn lose_connection(&mut self) {
        self.disconnect();
    }

    /// An event of another channel, which the consumer takes at once, and words of a relay that
    /// mean nothing.
    fn bring_traffic(&mut self, number: u64) {
        let before = self.delivered.len();
        let present = self.present();
        self.publish(TRAFFIC + number, ELSEWHERE, present);
        self.take((self.delivered.len() - before) as u64);
        self.say(toy::notice("maintenance tonight"));
        self.say(r#"["HELLO","there"]"#);
        self.say(toy::eose("nobody-asked-for-this"));
    }

    /// Two minutes, with a consumer that takes all.
    fn come_to_rest(&mut self) {
        for _ in 0..120 {
            self.take_all();
            self.pass(Duration::from_secs(1));
            self.check_present();
        }
    }

    /// Whoever wants something wants to be woken.
    fn check_present(&self) {
        if self.script.part().next_deadline().is_none() {
            self.script.fail("something is wanted and nothing is due");
        }
    }

    fn check_transcript(&self) {
        transcript::check(self);
        let unique: BTreeSet<_> = self.delivered.iter().collect();
        if unique.len() != self.delivered.len() {
            self.script.fail("an event was delivered twice");
        }
    }
}

/// Numbers of chance that are the same each time.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn roll(&mut self, sides: usize) -> usize {
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
