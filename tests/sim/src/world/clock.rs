//! Virtual time: what will happen, in the order in which it will.

use std::collections::BTreeMap;
use std::time::Duration;

use buzz_proto::seed::Seed;
use buzz_proto::time::{MonoTime, UnixTime};

/// The wall clock at the start of a world, Unix seconds.
pub const START: UnixTime = UnixTime(1_800_000_000);

/// The present, and what lies ahead of it. Of two things at the same instant, the one that was
/// planned first happens first.
#[derive(Debug)]
pub(crate) struct Clock<T> {
    now: MonoTime,
    planned: u64,
    ahead: BTreeMap<(MonoTime, u64), T>,
}

impl<T> Clock<T> {
    pub(crate) const fn new() -> Self {
        Self {
            now: MonoTime::ZERO,
            planned: 0,
            ahead: BTreeMap::new(),
        }
    }

    pub(crate) const fn now(&self) -> MonoTime {
        self.now
    }

    /// The true Unix time to the nanosecond, as the relay keeps it.
    pub(crate) const fn unix(&self) -> Duration {
        Duration::from_secs(START.0).saturating_add(Duration::from_nanos(self.now.as_nanos()))
    }

    /// The true Unix time in whole seconds, as everybody's wall clock shows it.
    pub(crate) const fn wall(&self) -> UnixTime {
        UnixTime(self.unix().as_secs())
    }

    /// Plans something for an instant; what lies in the past happens at once.
    pub(crate) fn plan(&mut self, at: MonoTime, what: T) {
        self.ahead.insert((at.max(self.now), self.planned), what);
        self.planned = self.planned.saturating_add(1);
    }

    /// Plans something for the end of a span.
    pub(crate) fn plan_in(&mut self, span: Duration, what: T) {
        self.plan(self.now.after(span), what);
    }

    /// When the next thing happens.
    pub(crate) fn next(&self) -> Option<MonoTime> {
        self.ahead.first_key_value().map(|((at, _), _)| *at)
    }

    /// Goes to the next thing.
    pub(crate) fn take(&mut self) -> Option<T> {
        let ((at, _), what) = self.ahead.pop_first()?;
        self.pass_to(at);
        Some(what)
    }

    /// Lets time pass in which nothing is planned. It never goes back.
    pub(crate) fn pass_to(&mut self, at: MonoTime) {
        self.now = self.now.max(at);
    }
}

/// Draws of one duty, one after the other: those of another duty do not shift them.
#[derive(Debug)]
pub(crate) struct Chance {
    seed: Seed,
    drawn: u64,
}

impl Chance {
    pub(crate) const fn new(seed: Seed) -> Self {
        Self { seed, drawn: 0 }
    }

    pub(crate) const fn number(&mut self) -> u64 {
        self.drawn = self.drawn.saturating_add(1);
        self.seed.draw(0, self.drawn)
    }

    pub(crate) fn between(&mut self, low: Duration, high: Duration) -> Duration {
        self.drawn = self.drawn.saturating_add(1);
        self.seed.between(0, self.drawn, low, high)
    }
}

/// One direction of a connection: what is sent arrives later, and in the order of sending.
#[derive(Debug)]
pub(crate) struct Lane {
    latency: Duration,
    chance: Chance,
    last: MonoTime,
}

impl Lane {
    /// The latency is drawn once, from 2 to 8 ms; each frame takes up to 1 ms more.
    pub(crate) fn new(seed: Seed) -> Self {
        let mut chance = Chance::new(seed);
        let latency = chance.between(Duration::from_millis(2), Duration::from_millis(8));
        Self {
            latency,
            chance,
            last: MonoTime::ZERO,
        }
    }

    /// When something that is sent at `now` arrives.
    pub(crate) fn arrival(&mut self, now: MonoTime) -> MonoTime {
        let jitter = self
            .chance
            .between(Duration::ZERO, Duration::from_millis(1));
        let at = now.after(self.latency).after(jitter);
        self.last = self.last.max(at);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> MonoTime {
        MonoTime::from_nanos(n * 1_000_000)
    }

    #[test]
    fn things_happen_in_the_order_of_time_and_then_of_planning() {
        let mut clock = Clock::new();
        clock.plan(ms(20), 'c');
        clock.plan(ms(10), 'a');
        clock.plan(ms(10), 'b');
        clock.pass_to(ms(5));
        clock.plan(ms(1), 'x');

        let mut happened = Vec::new();
        while let Some(what) = clock.take() {
            happened.push((clock.now(), what));
        }

        assert_eq!(
            happened,
            [(ms(5), 'x'), (ms(10), 'a'), (ms(10), 'b'), (ms(20), 'c')]
        );
    }

    #[test]
    fn what_is_sent_first_arrives_first() {
        let mut lane = Lane::new(Seed(7));
        let mut last = MonoTime::ZERO;
        for millis in 0..1000 {
            let arrival = lane.arrival(ms(millis));
            assert!(last <= arrival && ms(millis + 2) <= arrival && arrival <= ms(millis + 9));
            last = arrival;
        }
    }
}
