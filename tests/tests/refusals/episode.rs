//! One refusal with jobs waiting: who waits, who goes first, and what it costs.

use std::time::Duration;

use quickcheck::{Arbitrary, Gen, QuickCheck};

use buzz_proto::publish::Verdict;
use buzz_proto::time::MonoTime;

use crate::support::{Call, Reply, SECOND, Storm, at, extra_max, is_for, limited, ms, takes};

#[test]
fn after_a_refusal_nothing_leaves_before_the_hint_and_then_exactly_one_probe_goes() {
    let mut storm = Storm::with_jobs(10);
    let burst = storm.open();
    assert_eq!(burst.len(), 4);
    for call in burst {
        storm.answer(call, limited(7));
    }

    storm.wait_until(MonoTime::ZERO.after(ms(7_499)));
    storm.submit(11, None);
    assert_eq!(storm.calls.len(), 4);

    storm.wait_until(MonoTime::ZERO.after(ms(8_500)));
    assert_eq!(storm.calls.len(), 5);
    storm.wait_for(10 * SECOND);
    storm.submit(12, None);
    assert_eq!(storm.calls.len(), 5, "others went beside the probe");
}

#[test]
fn after_the_probe_each_success_lets_one_more_go_at_a_time_up_to_four() {
    let mut storm = Storm::with_jobs(20);
    for call in storm.open() {
        storm.answer(call, limited(2));
    }
    storm.wait_for_call();

    let mut windows = vec![storm.open().len()];
    for _ in 0..6 {
        let call = storm.open()[0];
        storm.answer(call, takes(&call));
        windows.push(storm.open().len());
    }

    assert_eq!(windows, [1, 2, 3, 4, 4, 4, 4]);
}

#[test]
fn a_refusal_of_the_second_call_after_an_opening_sends_the_next_one_alone_again() {
    let mut storm = Storm::with_jobs(20);
    for call in storm.open() {
        storm.answer(call, limited(2));
    }
    for _ in 0..3 {
        let probe = storm.wait_for_call();
        assert_eq!(storm.open(), [probe]);
        storm.answer(probe, takes(&probe));
        for call in storm.open() {
            storm.answer(call, limited(2));
        }
        assert_eq!(storm.open(), []);
    }
    assert_eq!(storm.verdicts.len(), 3);
}

#[test]
fn a_burst_that_is_refused_call_by_call_shuts_the_gate_until_the_latest_hint() {
    fn holds(Burst { seed, refusals }: Burst) {
        let mut storm = Storm::seeded(seed);
        for job in 1..=8 {
            storm.submit(job, None);
        }
        let (mut low, mut high) = (storm.now, storm.now);
        for (call, (gap, hint)) in storm.open().into_iter().zip(refusals) {
            // All come while the gate is still shut.
            storm.wait_for(gap.min(ms(400)));
            storm.answer(call, limited(hint));
            let wait = Duration::from_secs(hint);
            low = low.max(storm.now.after(wait + ms(500)));
            high = high.max(storm.now.after(wait + extra_max(wait)));
        }
        assert_eq!(storm.calls.len(), 4);
        let probe = storm.wait_for_call();
        assert!(low <= probe.at, "{} came before {low}", probe.at);
        assert!(
            probe.at <= high.round_up(),
            "{} came after {high}",
            probe.at
        );
        assert_eq!(storm.open(), [probe]);
    }
    QuickCheck::new().tests(300).quickcheck(holds as fn(Burst));
}

#[test]
fn a_refusal_whose_hint_is_true_costs_hardly_more_than_one_request_for_each_job() {
    fn holds(episode: Episode) {
        let storm = episode.play(|rest| rest.as_nanos().div_ceil(1_000_000_000));
        let extra = u64::from(episode.jobs.ilog2()) + 2;
        let cost = storm.calls.len() as u64;
        assert!(cost <= episode.jobs + extra, "{cost} requests: {episode:?}");
    }
    QuickCheck::new().tests(60).quickcheck(holds as fn(Episode));
}

#[test]
fn a_hint_that_was_rounded_down_costs_one_request_more_at_most() {
    fn holds(episode: Episode) {
        let storm = episode.play(|rest| u128::from(rest.as_secs()));
        let extra = u64::from(episode.jobs.ilog2()) + 3;
        let cost = storm.calls.len() as u64;
        assert!(cost <= episode.jobs + extra, "{cost} requests: {episode:?}");
    }
    QuickCheck::new().tests(60).quickcheck(holds as fn(Episode));
}

#[test]
fn all_jobs_wait_at_the_same_gate_whenever_they_came() {
    let mut storm = Storm::with_jobs(1);
    let first = storm.only();
    storm.answer(first, limited(60));
    for job in 2..=100 {
        storm.wait_for(ms(500));
        storm.submit(job, None);
    }
    assert_eq!(storm.calls.len(), 1);

    let probe = storm.wait_for_call();

    assert!(is_for(probe.at.saturating_since(at(0)), 60 * SECOND));
    assert_eq!(storm.open(), [probe]);
}

/// Refusals of a burst: how long each comes after the one before, and its hint in seconds.
#[derive(Clone, Debug)]
struct Burst {
    seed: u64,
    refusals: [(Duration, u64); 4],
}

impl Arbitrary for Burst {
    fn arbitrary(g: &mut Gen) -> Self {
        let refusal = |_| {
            let gap = ms(u64::from(u16::arbitrary(g)) % 400);
            (
                gap,
                u64::arbitrary(g) % [5, 60, 300][usize::arbitrary(g) % 3] + 1,
            )
        };
        let refusals = [(); 4].map(refusal);
        let seed = u64::arbitrary(g);
        Self { seed, refusals }
    }
}

/// A relay that refuses everything for a time and then takes everything.
#[derive(Clone, Debug)]
struct Episode {
    seed: u64,
    jobs: u64,
    /// How long it refuses, from the first call on.
    refuses: Duration,
    /// Between a call and its answer, at most.
    latency: Duration,
    /// Between two jobs; nothing makes them one burst.
    gap: Duration,
}

impl Arbitrary for Episode {
    fn arbitrary(g: &mut Gen) -> Self {
        let jobs_max = [4, 40, 2000][usize::arbitrary(g) % 3];
        Self {
            seed: u64::arbitrary(g),
            jobs: u64::arbitrary(g) % jobs_max + 1,
            refuses: ms(u64::arbitrary(g) % 300_000),
            latency: ms(u64::arbitrary(g) % [50, 500, 8_000][usize::arbitrary(g) % 3] + 1),
            gap: ms([0, 0, 20, 300][usize::arbitrary(g) % 4]),
        }
    }
}

impl Episode {
    /// Plays it until all is stored. `seconds` says the rest of the refusal in whole seconds.
    fn play(&self, seconds: fn(Duration) -> u128) -> Storm {
        let mut storm = Storm::seeded(self.seed);
        let until = storm.now.after(self.refuses);
        let mut relay = |call: &Call| {
            let whole = self.latency_of(call);
            let judged = call.at.after(whole / 2);
            let rest = until.saturating_since(judged);
            if rest.is_zero() {
                return Some((whole, Reply::Answer(takes(call))));
            }
            let hint = u64::try_from(seconds(rest)).expect("a small number");
            Some((whole, Reply::Answer(limited(hint))))
        };
        for job in 1..=self.jobs {
            storm.submit(job, None);
            if !self.gap.is_zero() {
                let next = storm.now.after(self.gap);
                storm.run_until(next, &mut relay);
            }
        }
        let end = storm.now.after(24 * 3600 * SECOND);
        storm.run_until(end, &mut relay);
        let is_stored = |job| storm.verdict(job) == Some(&Verdict::Stored);
        assert!((1..=self.jobs).all(is_stored), "{self:?}");
        storm
    }

    fn latency_of(&self, call: &Call) -> Duration {
        let mixed = (self.seed ^ call.ticket.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(23);
        let nanos = u64::try_from(self.latency.as_nanos()).expect("a small number");
        Duration::from_nanos(mixed.wrapping_mul(0xd134_2543_de82_ef95) % nanos)
    }
}
