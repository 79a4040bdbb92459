//! The one call that goes first after an opening: whatever becomes of it, the rest goes.

use std::time::Duration;

use buzz_proto::publish::Verdict;
use buzz_proto::relay::BrokeCause;
use buzz_proto::time::MonoTime;

use crate::support::{ANSWER, Call, Reply, SECOND, Storm, extra_max, limited, status, takes};

/// The longest gate that a call without an answer can shut here: five seconds, and what is put on
/// top.
const ONE_GATE: Duration = Duration::from_millis(6_500);

#[test]
fn a_probe_that_its_caller_takes_back_lets_the_rest_go_when_it_is_answered() {
    for answer in [
        status(200, r#"{"accepted":true,"message":""}"#),
        status(400, r#"{"error":"invalid: no"}"#),
    ] {
        let (mut storm, probe) = probing(5);
        storm.cancel(probe.job);
        assert_eq!(storm.open(), [probe], "the call goes on without its job");

        storm.wait_for(3 * SECOND);
        storm.answer(probe, answer);

        assert_eq!(storm.verdict(probe.job), Some(&Verdict::Cancelled));
        assert_eq!(storm.open().len(), 2);
    }
}

#[test]
fn a_probe_that_is_taken_back_or_runs_out_of_time_and_is_never_answered_does_not_stop_the_rest() {
    let is_taken_back: fn(&mut Storm, Call) = |storm, probe| storm.cancel(probe.job);
    let is_awaited: fn(&mut Storm, Call) = |_, _| {};
    for then in [is_taken_back, is_awaited] {
        let (mut storm, probe) = probing(5);
        then(&mut storm, probe);

        rest_goes(&mut storm, probe);
    }
}

#[test]
fn a_probe_whose_job_runs_out_of_time_does_not_stop_the_rest() {
    let mut storm = Storm::new();
    storm.submit(1, Some(5 * SECOND));
    for job in 2..=5 {
        storm.submit(job, None);
    }
    for call in storm.open() {
        storm.answer(call, limited(2));
    }
    let probe = storm.wait_for_call();
    assert_eq!(probe.job, 1);

    rest_goes(&mut storm, probe);

    assert_eq!(
        storm.verdicts[&1],
        (MonoTime::ZERO.after(5 * SECOND), Verdict::Unknown)
    );
}

#[test]
fn a_job_that_is_taken_back_before_the_opening_is_not_the_probe() {
    let mut storm = Storm::with_jobs(2);
    for call in storm.open() {
        storm.answer(call, limited(2));
    }
    storm.cancel(1);
    assert_eq!(storm.verdict(1), Some(&Verdict::Cancelled));

    let probe = storm.wait_for_call();

    assert_eq!((probe.job, storm.open().len()), (2, 1));
}

#[test]
fn a_probe_that_fails_goes_behind_the_others_and_one_that_ends_otherwise_hands_over() {
    let (mut storm, first) = probing(5);
    storm.answer(first, status(503, ""));
    let second = storm.wait_for_call();
    assert_ne!(second.job, first.job);

    // An end that is no failure makes the next job the probe only if there was no success.
    storm.end(second.ticket, Reply::Broke(BrokeCause::Connect));
    let third = storm.wait_for_call();
    assert!(third.job != first.job && third.job != second.job);
    assert_eq!(storm.open(), [third]);
}

#[test]
fn a_whole_outage_of_silence_ends_with_every_job_stored() {
    let mut storm = Storm::with_jobs(30);
    let silent_until = storm.now.after(600 * SECOND);
    storm.run_until(silent_until, &mut |_| None);
    // Each opening costs one call, and the first burst four.
    assert!(storm.calls.len() <= 4 + 600 / 15, "{}", storm.calls.len());

    let end = silent_until.after(300 * SECOND);
    storm.run_until(end, &mut |call| Some((SECOND, Reply::Answer(takes(call)))));

    assert_eq!(storm.verdicts.len(), 30);
    assert!(
        storm
            .verdicts
            .values()
            .all(|(_, verdict)| *verdict == Verdict::Stored)
    );
}

/// A burst of these jobs was refused, the gate has opened and its probe is under way.
fn probing(jobs: u64) -> (Storm, Call) {
    let mut storm = Storm::with_jobs(jobs);
    for call in storm.open() {
        storm.answer(call, limited(2));
    }
    let probe = storm.wait_for_call();
    (storm, probe)
}

/// The probe is never answered, and the others are.
fn rest_goes(storm: &mut Storm, probe: Call) {
    let next = storm.wait_for_call();
    assert_ne!(next.job, probe.job);
    let limit = probe.at.after(ANSWER + ONE_GATE).round_up();
    assert!(next.at <= limit, "{} is later than {limit}", next.at);
    assert!(ONE_GATE >= 5 * SECOND + extra_max(5 * SECOND));

    storm.answer(next, takes(&next));
    let end = storm.now.after(60 * SECOND);
    storm.run_until(end, &mut |call| Some((SECOND, Reply::Answer(takes(call)))));
    let others = (1..=5).filter(|job| *job != probe.job);
    for job in others {
        assert_eq!(storm.verdict(job), Some(&Verdict::Stored), "{job}");
    }
}
