//! The ladder: refusals in a row make the wait longer, and a success ends the row.

use std::time::Duration;

use buzz_proto::retry_hint::HintSource;

use crate::support::{
    Call, Reply, SECOND, Storm, is_for, limited, ms, status, takes, unhinted, with_header,
};

const RUNGS: [u64; 10] = [1, 2, 4, 8, 16, 32, 60, 60, 60, 60];

#[test]
fn refusals_without_a_hint_climb_once_for_each_opening_up_to_a_minute() {
    let mut storm = Storm::with_jobs(9);
    for (rung, attempt) in RUNGS.into_iter().zip(1..) {
        for call in storm.open() {
            storm.answer(call, unhinted());
        }
        let told = storm.last_throttle();
        let wait = Duration::from_secs(rung.max(5));
        assert!(is_for(told.wait, wait), "{attempt}: {told:?}");
        assert_eq!((told.attempt, told.source), (attempt, None));
        assert_eq!(storm.throttles.len() as u64, u64::from(attempt));
        let next = storm.wait_for_call();
        assert_eq!(next.at, told.at.after(told.wait).round_up());
    }
}

#[test]
fn every_kind_of_failure_climbs_the_same_ladder() {
    let mut storm = Storm::with_jobs(1);
    let failures = [429, 500, 502, 503, 504, 408, 425].map(|code| status(code, ""));
    for (answer, attempt) in failures.into_iter().zip(1..) {
        let call = storm.only();
        storm.answer(call, answer);
        assert_eq!(storm.last_throttle().attempt, attempt);
        storm.wait_for_call();
    }
    // A call without an answer is a failure too.
    let call = storm.only();
    storm.wait_for_call();
    assert_eq!(storm.last_throttle().attempt, 8);
    assert!(!storm.open().contains(&call));
}

#[test]
fn the_longer_of_hint_and_rung_is_waited() {
    let mut storm = Storm::with_jobs(1);
    for (rung, hint) in [
        (1, 41),
        (2, 1),
        (4, 3),
        (8, 9),
        (16, 1),
        (32, 300),
        (60, 2),
        (60, 61),
    ] {
        let call = storm.only();
        storm.answer(call, limited(hint));
        let told = storm.last_throttle();
        let wait = Duration::from_secs(hint.max(rung));
        assert!(is_for(told.wait, wait), "{rung}, {hint}: {told:?}");
        assert_eq!(told.source, Some(HintSource::Text));
        storm.wait_for_call();
    }
}

#[test]
fn a_success_after_the_opening_goes_back_to_the_first_rung() {
    for answer in [
        status(200, r#"{"accepted":true,"message":""}"#),
        status(400, r#"{"error":"invalid: no"}"#),
        status(403, r#"{"error":"restricted: no"}"#),
    ] {
        let mut storm = Storm::with_jobs(2);
        for call in storm.open() {
            storm.answer(call, unhinted());
        }
        for _ in 0..6 {
            let probe = storm.wait_for_call();
            storm.answer(probe, unhinted());
        }
        assert_eq!(storm.last_throttle().attempt, 7);

        let probe = storm.wait_for_call();
        storm.answer(probe, answer);

        let next = storm.open()[0];
        storm.answer(next, unhinted());
        let told = storm.last_throttle();
        assert!(
            told.attempt == 1 && is_for(told.wait, 5 * SECOND),
            "{told:?}"
        );
    }
}

#[test]
fn a_quiet_time_without_calls_is_no_success() {
    let mut storm = Storm::with_jobs(1);
    for _ in 0..6 {
        let call = storm.only();
        storm.answer(call, unhinted());
        storm.wait_for_call();
    }
    let call = storm.only();
    storm.answer(call, unhinted());
    storm.cancel(1);
    storm.wait_for(3_600 * SECOND);

    storm.submit(2, None);
    let call = storm.only();
    storm.answer(call, unhinted());

    assert_eq!(storm.last_throttle().attempt, 8);
}

#[test]
fn the_note_of_a_refusal_tells_of_fan_out_and_of_retries() {
    let mut storm = Storm::with_jobs(10);
    let burst = storm.open();
    storm.answer(burst[0], with_header(status(429, ""), "9"));

    let told = storm.last_throttle();
    assert_eq!((told.in_flight, told.waiting, told.attempt), (3, 7, 1));
    assert_eq!(
        (told.source, told.capped),
        (Some(HintSource::Header), false)
    );

    for call in &burst[1..] {
        storm.answer(*call, with_header(status(429, ""), "9"));
    }
    let probe = storm.wait_for_call();
    storm.answer(probe, unhinted());
    let told = storm.last_throttle();
    assert_eq!((told.in_flight, told.waiting, told.attempt), (0, 10, 2));
    assert_eq!(told.source, None);
}

#[test]
fn a_wait_of_five_minutes_is_the_longest_whatever_the_ladder() {
    let mut storm = Storm::with_jobs(1);
    let end = storm.now.after(24 * 3_600 * SECOND);
    storm.run_until(end, &mut |_: &Call| {
        let answer = with_header(status(429, ""), "99999");
        Some((ms(20), Reply::Answer(answer)))
    });
    for told in &storm.throttles {
        assert!(told.capped && is_for(told.wait, 300 * SECOND), "{told:?}");
    }
    assert!(storm.throttles.len() > 200);
}

#[test]
fn the_ladder_is_that_of_all_jobs_and_not_of_one() {
    let mut storm = Storm::with_jobs(3);
    for call in storm.open() {
        storm.answer(call, unhinted());
    }
    let mut jobs = Vec::new();
    for attempt in 2..8 {
        let probe = storm.wait_for_call();
        jobs.push(probe.job);
        storm.answer(probe, unhinted());
        assert_eq!(storm.last_throttle().attempt, attempt);
    }
    assert_eq!(jobs, [1, 2, 3, 1, 2, 3], "they take turns at testing");
    let probe = storm.wait_for_call();
    storm.answer(probe, takes(&probe));
}
