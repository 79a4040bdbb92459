//! Many agents that are refused in the same instant: they do not come back in the same instant.

use std::time::Duration;

use buzz_proto::time::MonoTime;

use crate::support::{Call, Reply, Storm, limited, ms, takes, unhinted};

const AGENTS: u64 = 1_000;
const SLOT: Duration = Duration::from_millis(100);

#[test]
fn of_a_thousand_agents_no_tenth_of_a_second_holds_more_than_three_times_the_mean() {
    let hints = [
        None,
        Some(1),
        Some(2),
        Some(5),
        Some(7),
        Some(13),
        Some(30),
        Some(60),
    ];
    for hint in hints {
        let retries: Vec<_> = seeds().map(|seed| first_retry(seed, hint)).collect();
        assert_spread(retries, &format!("hint {hint:?}"));
    }
}

#[test]
fn the_backlogs_of_a_thousand_agents_do_not_come_together_either() {
    for hint in [None, Some(1), Some(10), Some(60)] {
        let retries: Vec<_> = seeds().flat_map(|seed| backlog(seed, hint)).collect();
        assert_eq!(retries.len() as u64, AGENTS * 8);
        assert_spread(retries, &format!("hint {hint:?}"));
    }
}

#[test]
fn a_thousand_agents_that_are_refused_again_and_again_drift_apart() {
    let retries: Vec<_> = seeds()
        .map(|seed| {
            let mut storm = refused(seed, 1, None);
            for _ in 0..3 {
                let probe = storm.wait_for_call();
                storm.answer(probe, unhinted());
            }
            storm.wait_for_call().at
        })
        .collect();
    assert_spread(retries, "the fourth retry");
}

/// Seeds as people give them, and seeds as a system draws them.
fn seeds() -> impl Iterator<Item = u64> {
    (0..AGENTS).map(|n| match n % 2 {
        0 => n,
        _ => n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31),
    })
}

/// An agent with so many jobs whose first burst was refused at the start.
fn refused(seed: u64, jobs: u64, hint: Option<u64>) -> Storm {
    let mut storm = Storm::seeded(seed);
    for job in 1..=jobs {
        storm.submit(job, None);
    }
    for call in storm.open() {
        storm.answer(call, hint.map_or_else(unhinted, limited));
    }
    storm
}

fn first_retry(seed: u64, hint: Option<u64>) -> MonoTime {
    refused(seed, 1, hint).wait_for_call().at
}

/// When the eight jobs of an agent go again, at a relay that takes a moment for each.
fn backlog(seed: u64, hint: Option<u64>) -> Vec<MonoTime> {
    let mut storm = refused(seed, 8, hint);
    let before = storm.calls.len();
    let mut relay = |call: &Call| Some((ms(80), Reply::Answer(takes(call))));
    storm.run_until(MonoTime::ZERO.after(ms(120_000)), &mut relay);
    storm
        .calls
        .split_off(before)
        .iter()
        .map(|call| call.at)
        .collect()
}

/// The mean is over the span from the first retry to the last; the slots lie at every place.
fn assert_spread(mut retries: Vec<MonoTime>, what: &str) {
    retries.sort_unstable();
    let (first, last) = (retries[0], retries[retries.len() - 1]);
    let span = last.saturating_since(first);
    assert!(span >= ms(500), "{what}: all within {span:?}");
    let count = u128::try_from(retries.len()).expect("a number");
    let most = (0..retries.len())
        .map(|from| {
            let end = retries[from].after(SLOT);
            retries[from..].partition_point(|at| *at < end)
        })
        .max()
        .map_or(0, |most| u128::try_from(most).expect("a number"));
    // most / SLOT <= 3 * count / span, without fractions.
    assert!(
        most * span.as_nanos() <= 3 * count * SLOT.as_nanos(),
        "{what}: {most} of {count} in one slot, over {span:?}"
    );
}
