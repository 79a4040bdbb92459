//! Properties of the core's small tools: queue, ladder, bucket and limiter.

use std::collections::BTreeMap;
use std::time::Duration;

use buzz_proto::backoff::Ladder;
use buzz_proto::bounded::Queue;
use buzz_proto::bucket::Bucket;
use buzz_proto::limiter::Limiter;
use buzz_proto::seed::Seed;
use buzz_proto::time::{MonoTime, Now, Why};
use buzz_sim::script::ms;
use buzz_tests::check;

// Queue

#[test]
fn a_queue_behaves_like_a_list_with_a_limit_and_loses_nothing() {
    fn property(capacity: u8, operations: Vec<(u8, u16)>) -> bool {
        let capacity = usize::from(capacity % 12);
        let mut queue = Queue::new(capacity);
        let mut model: Vec<u16> = Vec::new();
        operations.into_iter().all(|(operation, item)| {
            let full = model.len() == capacity;
            let same = match operation % 5 {
                0 if full => queue.push(item) == Some(item),
                0 => {
                    model.push(item);
                    queue.push(item).is_none()
                }
                1 => {
                    model.push(item);
                    let oldest = full.then(|| model.remove(0));
                    queue.push_evicting(item) == oldest
                }
                2 if full => queue.push_front(item) == Some(item),
                2 => {
                    model.insert(0, item);
                    queue.push_front(item).is_none()
                }
                3 => queue.pop() == (!model.is_empty()).then(|| model.remove(0)),
                _ => {
                    let (kept, removed) = model.iter().partition(|held| **held < item);
                    model = kept;
                    queue.retain(|held| *held < item) == removed
                }
            };
            same && queue.len() <= capacity
                && queue.iter().eq(model.iter())
                && queue.is_full() == (model.len() == capacity)
                && queue.is_empty() == model.is_empty()
        })
    }
    check(1, property as fn(u8, Vec<(u8, u16)>) -> bool);
}

// Ladder

#[test]
fn a_ladder_doubles_to_its_top_and_falls_only_when_reset() {
    let mut ladder = Ladder::new(Duration::from_secs(1), Duration::from_secs(60));
    let spans: Vec<u64> = (0..8).map(|_| ladder.climb().as_secs()).collect();
    assert_eq!(spans, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(ladder.attempt(), 8);
    ladder.reset();
    assert_eq!(
        (ladder.peek(), ladder.attempt()),
        (Duration::from_secs(1), 0)
    );
}

#[test]
fn a_drawn_wait_lies_between_half_and_the_whole_rung() {
    fn property(seed: u64, key: u64, climbs: u16) -> bool {
        let mut ladder = Ladder::new(Duration::from_secs(1), Duration::from_secs(60));
        (0..climbs % 200).all(|_| {
            let rung = ladder.peek();
            let wait = ladder.climb_drawn(Seed(seed), key);
            rung / 2 <= wait && wait <= rung
        })
    }
    check(2, property as fn(u64, u64, u16) -> bool);
}

#[test]
fn waits_on_the_top_rung_are_drawn_apart() {
    let mut ladder = Ladder::new(Duration::from_secs(60), Duration::from_secs(60));
    let first = ladder.climb_drawn(Seed(1), 0);
    ladder.reset();
    assert_ne!(first, ladder.climb_drawn(Seed(1), 0));
}

// Bucket

#[test]
fn a_bucket_never_gives_more_than_burst_and_rate_in_any_window() {
    fn property(rate: u8, burst: u8, gaps: Vec<(u8, u32)>) -> bool {
        let (rate, burst) = (u32::from(rate % 50) + 1, u32::from(burst % 30) + 1);
        let mut bucket = Bucket::per_second(rate, burst);
        let mut time = MonoTime::ZERO;
        let mut given = Vec::new();
        for (repeat, gap) in gaps {
            time = time.after(Duration::from_nanos(u64::from(gap) % 500_000_000));
            for _ in 0..repeat % 40 {
                if bucket.take(&mut Now::new(time), Why::Bucket) {
                    given.push(time);
                }
            }
        }
        given.iter().enumerate().all(|(first, from)| {
            given
                .get(first..)
                .unwrap()
                .iter()
                .zip(1..)
                .all(|(to, count)| {
                    let nanos = to.as_nanos() - from.as_nanos();
                    count <= u64::from(burst) + nanos * u64::from(rate) / 1_000_000_000
                })
        })
    }
    check(5, property as fn(u8, u8, Vec<(u8, u32)>) -> bool);
}

#[test]
fn a_bucket_under_full_demand_keeps_its_rate_with_one_wake_per_token() {
    for (mut bucket, seconds, most) in [
        (Bucket::per_second(8, 8), 5, 48),
        (Bucket::per_second(4, 20), 60, 260),
        (Bucket::new(45, Duration::from_secs(60), 10), 60, 55),
    ] {
        let end = MonoTime::ZERO.after(Duration::from_secs(seconds));
        let (mut given, mut wakes, mut time) = (0, 0, MonoTime::ZERO);
        while time < end {
            let mut now = Now::new(time);
            if bucket.take(&mut now, Why::Bucket) {
                given += 1;
                assert!(given <= most);
                continue;
            }
            wakes += 1;
            let (wake, why) = now.wake().unwrap();
            assert_eq!(why, Why::Bucket);
            time = wake;
        }
        assert!(given == most || given == most - 1, "{given} of {most}");
        assert!(wakes <= given);
    }
}

#[test]
fn asking_a_bucket_takes_nothing_and_zero_reads_as_one() {
    let mut bucket = Bucket::per_second(0, 0);
    for _ in 0..3 {
        assert!(bucket.is_ready(&mut Now::new(ms(0)), Why::Bucket));
    }
    assert!(bucket.take(&mut Now::new(ms(0)), Why::Bucket));
    assert!(!bucket.take(&mut Now::new(ms(999)), Why::Bucket));
    assert!(bucket.take(&mut Now::new(ms(1000)), Why::Bucket));
}

// Limiter

#[test]
fn every_occurrence_is_passed_or_in_exactly_one_summary() {
    fn property(script: Vec<(u16, u8, u8)>) -> bool {
        let mut limiter = Limiter::new();
        let (mut time, mut admitted, mut passed, mut summed) = (MonoTime::ZERO, 0, 0, 0);
        for (gap, key, repeat) in script {
            time = time.after(Duration::from_millis(u64::from(gap)));
            for offset in 0..repeat % 40 {
                admitted += 1;
                let key = key.wrapping_add(offset);
                passed += u64::from(limiter.admit(key, &Now::new(time)));
            }
            summed += drain(&mut limiter, time)
                .iter()
                .map(|(_, n)| n)
                .sum::<u64>();
        }
        let mut wakes = 0;
        while let Some((wake, _)) = wake_of(&mut limiter, time) {
            wakes += 1;
            assert!(wakes < 1000, "the limiter never comes to rest");
            time = wake;
            summed += drain(&mut limiter, time)
                .iter()
                .map(|(_, n)| n)
                .sum::<u64>();
        }
        admitted == passed + summed
    }
    check(6, property as fn(Vec<(u16, u8, u8)>) -> bool);
}

#[test]
fn two_lines_of_one_kind_lie_a_period_apart() {
    fn property(script: Vec<(u16, u8)>) -> bool {
        let mut limiter = Limiter::new();
        let mut time = MonoTime::ZERO;
        let mut last: BTreeMap<u8, MonoTime> = BTreeMap::new();
        script.into_iter().all(|(gap, key)| {
            time = time.after(Duration::from_millis(u64::from(gap)));
            let key = key % 4;
            let mut lines: Vec<u8> = drain(&mut limiter, time)
                .into_iter()
                .map(|(kind, _)| kind)
                .collect();
            if limiter.admit(key, &Now::new(time)) {
                lines.push(key);
            }
            lines.into_iter().all(|kind| {
                last.insert(kind, time)
                    .is_none_or(|before| time.saturating_since(before) >= Duration::from_secs(30))
            })
        })
    }
    check(7, property as fn(Vec<(u16, u8)>) -> bool);
}

#[test]
fn ten_minutes_of_one_refusal_are_a_few_lines_at_known_times() {
    let mut limiter = Limiter::new();
    let mut lines = Vec::new();
    for tick in 0..6000 {
        let time = ms(tick * 100);
        if limiter.admit("throttled", &Now::new(time)) {
            lines.push((time.to_string(), 1));
        }
        let due = drain(&mut limiter, time);
        lines.extend(due.into_iter().map(|(_, count)| (time.to_string(), count)));
    }
    let expected = [
        ("0.000s", 1),
        ("30.000s", 300),
        ("90.000s", 600),
        ("210.000s", 1200),
        ("450.000s", 2400),
    ];
    assert_eq!(lines, expected.map(|(time, n)| (time.to_owned(), n)));
}

#[test]
fn what_recurs_a_little_further_apart_than_a_period_is_a_few_lines_too() {
    let mut limiter = Limiter::new();
    let mut lines = Vec::new();
    for second in 0..=1200 {
        let time = ms(second * 1000);
        let occurs = second % 66 == 0;
        if occurs && limiter.admit("throttled", &Now::new(time)) {
            lines.push((time.to_string(), 1));
        }
        let due = drain(&mut limiter, time);
        lines.extend(due.into_iter().map(|(_, count)| (time.to_string(), count)));
    }
    let expected = [
        ("0.000s", 1),
        ("126.000s", 1),
        ("246.000s", 2),
        ("486.000s", 4),
        ("786.000s", 4),
        ("1086.000s", 5),
    ];
    assert_eq!(lines, expected.map(|(time, n)| (time.to_owned(), n)));
}

#[test]
fn a_quiet_kind_is_forgotten_without_a_wake() {
    let mut limiter = Limiter::new();
    assert!(limiter.admit('a', &Now::new(ms(0))));
    assert_eq!(wake_of(&mut limiter, ms(0)), None);
    assert!(limiter.admit('a', &Now::new(ms(300_000))));
    assert!(!limiter.admit('a', &Now::new(ms(300_001))));
    assert_eq!(
        wake_of(&mut limiter, ms(300_001)),
        Some((ms(330_000), Why::Summary))
    );
}

#[test]
fn kinds_past_the_limit_share_one_line() {
    let mut limiter = Limiter::new();
    let passed = (0..1000).filter(|key| limiter.admit(*key, &Now::new(ms(0))));
    assert_eq!(passed.count(), 65);
    assert_eq!(drain(&mut limiter, ms(30_000)), [(64, 935)]);
    assert!(limiter.admit(2000, &Now::new(ms(330_000))));
}

// Support

fn drain<K: Ord + Clone>(limiter: &mut Limiter<K>, time: MonoTime) -> Vec<(K, u64)> {
    let mut now = Now::new(time);
    std::iter::from_fn(|| limiter.due(&mut now)).collect()
}

/// The wake of a limiter from which nothing is due.
fn wake_of<K: Ord + Clone>(limiter: &mut Limiter<K>, time: MonoTime) -> Option<(MonoTime, Why)> {
    let mut now = Now::new(time);
    assert!(limiter.due(&mut now).is_none());
    now.wake()
}
