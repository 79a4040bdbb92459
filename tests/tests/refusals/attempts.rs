//! How often a job may fail, and how long it may take: what counts against it, and what does not.

use std::time::Duration;

use buzz_proto::publish::Verdict;
use buzz_proto::relay::HttpAnswer;
use buzz_proto::wire::Reason;
use quickcheck::QuickCheck;

use crate::support::{
    Call, Reply, SECOND, Storm, at, limited, ms, status, takes, unhinted, with_header,
};

const DAY: Duration = Duration::from_secs(24 * 3_600);
const NO_COMMUNITY: &str = r#"{"error":"relay: no community is configured for this host"}"#;

#[test]
fn a_job_that_fails_alone_while_others_are_stored_is_rejected_at_its_eighth_failure() {
    let (storm, counted) = fails_alone(&status(404, NO_COMMUNITY));
    let reason = Reason::new("relay: no community is configured for this host");
    assert_eq!(storm.verdict(1), Some(&Verdict::Rejected { reason }));
    assert_eq!(counted, 8);
}

#[test]
fn a_job_that_may_be_stored_all_the_same_ends_at_its_eighth_failure_too() {
    for answer in [status(500, "{}"), status(502, ""), status(200, "<html>")] {
        let (storm, counted) = fails_alone(&answer);
        let verdict = storm.verdict(1);
        let is_over = matches!(verdict, Some(Verdict::Unknown | Verdict::Rejected { .. }));
        assert!(
            is_over && counted == 8,
            "{answer:?}: {verdict:?}, {counted}"
        );
    }
}

#[test]
fn refusals_of_the_quota_never_count_against_a_job() {
    for answer in [unhinted(), limited(1), status(425, "")] {
        let mut storm = Storm::new();
        storm.submit(1, None);
        let mut others = 1;
        for _ in 0..30 {
            let end = storm.now.after(100 * SECOND);
            others += 1;
            storm.submit(others, None);
            storm.run_until(end, &mut |call: &Call| Some(reply(call, &answer)));
        }
        assert_eq!(storm.verdict(1), None, "{answer:?}");
        assert!(storm.posts_of(1) > 20 && storm.verdicts.len() > 20);
    }
}

#[test]
fn while_nothing_else_is_stored_failures_cost_only_time() {
    for answer in [status(500, "{}"), status(404, NO_COMMUNITY)] {
        let mut storm = Storm::with_jobs(3);
        let long = storm.now.after(6 * 3_600 * SECOND);
        storm.run_until(long, &mut |_| Some((ms(50), Reply::Answer(answer.clone()))));
        assert_eq!(storm.verdicts.len(), 0);
        let calls = storm.calls.iter().filter(|call| call.job == 1).count();
        assert!(calls > 80, "{calls}");

        let soon = storm.now.after(300 * SECOND);
        storm.run_until(soon, &mut |call: &Call| {
            Some((ms(50), Reply::Answer(takes(call))))
        });
        assert!(
            storm
                .verdicts
                .values()
                .all(|(_, verdict)| *verdict == Verdict::Stored)
        );
        assert_eq!(storm.verdicts.len(), 3);
    }
}

#[test]
fn a_job_under_refusal_has_its_verdict_at_its_own_deadline() {
    fn holds(seed: u64, seconds: u16, hint: u16) -> bool {
        let ttl = Duration::from_secs(u64::from(seconds) % 4_000 + 1);
        let hint = u64::from(hint) % 400;
        let mut storm = Storm::seeded(seed);
        storm.submit(1, Some(ttl));
        let end = storm.now.after(ttl + 60 * SECOND);
        storm.run_until(end, &mut |_| Some((ms(50), Reply::Answer(limited(hint)))));
        storm.verdicts.get(&1).is_some_and(|(when, verdict)| {
            // A call that is under way leaves open what the relay does with it.
            let under_way = storm.calls.iter().any(|call| call.at.after(ms(50)) > *when);
            let expected = if under_way {
                Verdict::Unknown
            } else {
                Verdict::Expired
            };
            *when == at(0).after(ttl) && *verdict == expected
        })
    }
    QuickCheck::new()
        .tests(100)
        .quickcheck(holds as fn(u64, u16, u16) -> bool);
}

#[test]
fn a_job_that_was_sent_and_never_answered_is_unknown_at_its_deadline() {
    let mut storm = Storm::new();
    storm.submit(1, Some(10 * SECOND));
    storm.submit(2, Some(40 * SECOND));
    storm.wait_for(120 * SECOND);
    assert_eq!(storm.verdicts[&1], (at(10), Verdict::Unknown));
    assert_eq!(storm.verdicts[&2], (at(40), Verdict::Unknown));
}

#[test]
fn a_refusal_that_never_ends_costs_a_request_a_minute_and_ends_in_a_day() {
    for (answer, verdict) in [
        (unhinted(), Verdict::Expired),
        (limited(1), Verdict::Expired),
        (with_header(status(429, ""), "0"), Verdict::Expired),
        (status(500, "{}"), Verdict::Unknown),
        (status(503, ""), Verdict::Unknown),
    ] {
        let mut storm = Storm::with_jobs(3);
        let end = at(0).after(DAY + SECOND);
        storm.run_until(end, &mut |_| Some((ms(50), Reply::Answer(answer.clone()))));
        for job in 1..=3 {
            assert_eq!(storm.verdicts[&job], (at(0).after(DAY), verdict.clone()));
        }
        // The burst, the lower rungs, and then one a minute for all of them.
        let most = 3 + 6 + 24 * 60;
        assert!(storm.calls.len() <= most, "{}", storm.calls.len());
        assert!(storm.calls.len() >= most / 2, "{}", storm.calls.len());
    }
}

#[test]
fn a_relay_that_asks_for_five_minutes_each_time_is_asked_as_seldom() {
    let mut storm = Storm::with_jobs(3);
    let end = at(0).after(DAY + SECOND);
    storm.run_until(end, &mut |_| Some((ms(50), Reply::Answer(limited(86_400)))));
    assert!(storm.calls.len() <= 3 + 24 * 12, "{}", storm.calls.len());
    assert_eq!(storm.verdicts[&1], (at(0).after(DAY), Verdict::Expired));
}

/// Job 1 is answered so, all others are stored at once.
fn reply(call: &Call, answer: &HttpAnswer) -> (Duration, Reply) {
    let answer = match call.job {
        1 if !call.is_query => answer.clone(),
        _ => takes(call),
    };
    (ms(50), Reply::Answer(answer))
}

/// Plays that with a new job now and then, until job 1 has its verdict. Counts its failures before
/// each of which another job was stored.
fn fails_alone(answer: &HttpAnswer) -> (Storm, usize) {
    let mut storm = Storm::new();
    storm.submit(1, None);
    let mut others = 1;
    let mut counted = 0;
    let mut stored = 0;
    let mut failures = 0;
    while storm.verdict(1).is_none() {
        assert!(failures < 100, "it is tried for ever");
        // Two failures without a success between them are one.
        if failures % 2 == 0 {
            others += 1;
            storm.submit(others, None);
        }
        let posts = storm.posts_of(1);
        while storm.posts_of(1) == posts || storm.open().iter().any(|call| call.job == 1) {
            step(&mut storm, answer, &mut counted, &mut stored, &mut failures);
        }
    }
    (storm, counted)
}

/// One call is answered, or time passes.
fn step(
    storm: &mut Storm,
    answer: &HttpAnswer,
    counted: &mut usize,
    stored: &mut usize,
    failures: &mut usize,
) {
    let Some(call) = storm.open().first().copied() else {
        storm.wait_for_call();
        return;
    };
    let is_failure = call.job == 1 && !call.is_query;
    let so_far = storm.verdicts.len();
    if is_failure {
        *failures += 1;
        *counted += usize::from(so_far > *stored);
        *stored = so_far;
        storm.answer(call, answer.clone());
    } else {
        storm.answer(call, takes(&call));
    }
}
