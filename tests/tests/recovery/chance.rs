//! Lives that end at any point.

use std::collections::BTreeSet;
use std::time::Duration;

use buzz_proto::config::Consumer;
use buzz_proto::ids::EventId;
use buzz_proto::relay::Disposal;
use buzz_sim::bench::Bench;

use crate::records::first_life;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn whenever_the_process_is_killed_nothing_is_skipped_and_what_is_recorded_comes_once() {
    for seed in 0..6 {
        Lives::new(seed).live();
    }
}

/// Lives that end at any point, under traffic of chance.
struct Lives {
    dice: u64,
    bench: Bench,
    owed: BTreeSet<EventId>,
    seen: BTreeSet<EventId>,
    next: u64,
}

impl Lives {
    fn new(seed: u64) -> Self {
        Self {
            dice: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            bench: first_life(&[1, 2], &Consumer::External { slots: 8 }),
            owed: BTreeSet::new(),
            seen: BTreeSet::new(),
            next: 1,
        }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice % sides
    }

    fn live(mut self) {
        // What is dated before the first start is not owed, so nothing here is.
        self.bench.run_for(1200 * SECOND);
        for _ in 0..100 {
            self.step();
        }
        for _ in 0..60 {
            self.bench.take_all();
            self.dispose_all();
            self.bench.run_for(10 * SECOND);
        }
        self.look();
        let missing: Vec<_> = self.owed.difference(&self.seen).collect();
        if !missing.is_empty() {
            self.bench.script.fail(&format!("missing {missing:?}"));
        }
    }

    fn step(&mut self) {
        match self.roll(12) {
            0..5 => self.publish(),
            5 => self.bench.take(3),
            6 => self.dispose_all(),
            7 => {
                let span = Duration::from_secs(self.roll(20));
                self.bench.run_for(span);
            }
            8 => self.bench.run_for(1200 * SECOND),
            9 => {
                self.bench.disconnect();
                for _ in 0..self.roll(40) {
                    self.publish();
                }
                self.bench.script.run_for(2 * SECOND);
                self.bench.reopen();
            }
            _ => self.kill(),
        }
    }

    fn publish(&mut self) {
        let n = self.next;
        self.next += 1;
        let place = 1 + u8::try_from(n % 2).expect("small");
        let late = Duration::from_secs(self.roll(800));
        let dated = self.bench.present().before(late);
        self.owed.insert(self.bench.publish(n, place, dated));
    }

    fn dispose_all(&mut self) {
        for event in self.bench.undisposed() {
            self.bench.dispose(event, Disposal::Accepted);
        }
    }

    fn kill(&mut self) {
        self.look();
        let slots = Consumer::External { slots: 8 };
        let bench = std::mem::replace(&mut self.bench, Bench::live(&[], 1));
        let recorded: BTreeSet<EventId> = bench
            .records
            .values()
            .flat_map(|record| record.done.iter().map(|done| done.event))
            .collect();
        self.bench = bench.restart(&[1, 2], &slots);
        self.bench.forbidden = recorded;
        self.bench.connect();
    }

    fn look(&mut self) {
        self.seen.extend(self.bench.delivered.iter().copied());
    }
}
