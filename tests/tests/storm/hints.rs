//! Answers that say how long to leave the relay alone, in all the ways there are.

use std::sync::Arc;
use std::time::Duration;

use buzz_proto::publish::Verdict;
use buzz_proto::retry_hint::HintSource;
use tokio::sync::Barrier;

use crate::front::{Call, Pause, Plan, answer, error};
use crate::scene::{Scene, assert_all_stored, verdicts, within};

/// As many as are sent at once.
const BURST: usize = 4;
const JOBS: usize = 10;
/// How long the answer to a probe is held, for others to show themselves.
const HOLD: Duration = Duration::from_millis(300);
/// A `Date` that is decades off; dates to wait for count from it.
const DATE: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

/// A refusal and the wait that it asks for.
struct Hint {
    refusal: fn() -> Plan,
    wait: Duration,
    source: Option<HintSource>,
}

const fn hint(refusal: fn() -> Plan, seconds: u64, source: Option<HintSource>) -> Hint {
    Hint {
        refusal,
        wait: Duration::from_secs(seconds),
        source,
    }
}

fn after(headers: &str) -> Plan {
    answer(429, headers, "")
}

fn at(date: &str) -> Plan {
    after(&format!("{DATE}Retry-After: {date}\r\n"))
}

const HINTS: [Hint; 10] = [
    hint(
        || error(429, "rate-limited: quota exceeded; retry in 2s"),
        2,
        Some(HintSource::Text),
    ),
    hint(
        || error(429, "rate-limited: quota exceeded; retry in 0s"),
        1,
        Some(HintSource::Text),
    ),
    hint(|| after("Retry-After: 2\r\n"), 2, Some(HintSource::Header)),
    hint(|| after("Retry-After: 0\r\n"), 1, Some(HintSource::Header)),
    hint(
        || at("Sun, 06 Nov 1994 08:49:39 GMT"),
        2,
        Some(HintSource::Date),
    ),
    hint(
        || at("Sunday, 06-Nov-94 08:49:40 GMT"),
        3,
        Some(HintSource::Date),
    ),
    hint(|| at("Sun Nov  6 08:49:38 1994"), 1, Some(HintSource::Date)),
    hint(
        || at("Sun, 06 Nov 1994 08:49:12 GMT"),
        1,
        Some(HintSource::Date),
    ),
    hint(|| after("Retry-After: soon\r\n"), 5, None),
    hint(|| after(""), 5, None),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_asked_before_a_hint_has_passed_then_one_probe_goes_and_then_the_rest() {
    let storms: Vec<_> = HINTS.iter().map(|hint| tokio::spawn(storm(hint))).collect();
    for storm in storms {
        storm.await.expect("it keeps to its hint");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hint_of_centuries_is_capped_and_the_end_is_not_held_up_by_it() {
    for refusal in [
        after("Retry-After: 9223372036854775808\r\n"),
        after("Retry-After: 99999999999999999999999999\r\n"),
        error(
            429,
            "rate-limited: quota exceeded; retry in 9223372036854775808s",
        ),
    ] {
        let scene = Scene::open().await;
        let Plan::Say(text) = refusal else { return };
        scene.front.follow(move |_| Plan::Say(text.clone()));
        let jobs = scene.publish_many(JOBS);
        scene.until(|scene| scene.throttled().is_some()).await;

        let (_, capped, wait) = scene.throttled().expect("it was just there");
        assert!(capped);
        let cap = Duration::from_secs(300);
        assert!((cap..cap + cap / 4).contains(&wait), "{wait:?}");
        scene.handle.shutdown(Duration::ZERO);
        let verdicts = verdicts(jobs).await;
        // What was in flight when the first refusal came may be cut off before its own.
        let told = |it: &Verdict| matches!(it, Verdict::Cancelled | Verdict::Unknown);
        assert!(verdicts.iter().all(told), "{verdicts:?}");
        assert!(scene.front.posts().len() <= BURST);
        assert!(scene.stored().is_empty());
    }
}

/// The first posts are refused together with a hint, and everything after them goes through.
async fn storm(hint: &'static Hint) {
    let scene = Scene::open().await;
    let before = scene.front.calls().len();
    let (together, mut posts) = (Arc::new(Barrier::new(BURST)), 0);
    scene.front.follow(move |call| {
        posts += usize::from(call.is_post());
        match posts {
            0 => Plan::Pass,
            1..=BURST => (hint.refusal)().after(Pause::All(Arc::clone(&together))),
            _ if posts == BURST + 1 => Plan::Pass.after(Pause::Span(HOLD)),
            _ => Plan::Pass,
        }
    });

    assert_all_stored(scene.publish_many(JOBS)).await;

    scene.assert_stored_once(JOBS);
    let calls = scene.front.calls().split_off(before);
    let (burst, rest) = calls.split_at(BURST);
    assert!(burst.iter().all(Call::is_post), "{burst:?}");
    let left = |call: &Call| call.left.expect("all are answered");
    let refused = burst.iter().map(left).min().expect("there are four");
    let (probe, others) = rest.split_first().expect("all were stored");
    assert!(probe.is_post(), "{probe:?}");
    assert!(
        probe.came >= refused + hint.wait,
        "too early by {:?}",
        refused + hint.wait - probe.came
    );
    assert_eq!(others.len(), JOBS - 1, "nothing is asked but what waits");
    assert!(
        others.iter().all(|call| call.came >= left(probe)),
        "it was not alone"
    );
    let (source, capped, wait) = scene.throttled().expect("a refusal is noted");
    assert_eq!((source, capped), (hint.source, false));
    let extra = wait.checked_sub(hint.wait).expect("it is no shorter");
    assert!(extra <= Duration::from_millis(1500), "{wait:?}");
    end(scene).await;
}

async fn end(scene: Scene) {
    scene.handle.shutdown(Duration::from_secs(5));
    let handle = Arc::into_inner(scene.handle);
    within(handle.expect("no job is left").ended()).await;
}
