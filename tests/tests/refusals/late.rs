//! Answers that come late: to calls of an earlier burst, when the gate has moved on.

use buzz_proto::publish::Verdict;

use crate::support::{
    Call, SECOND, Storm, at, is_for, limited, ms, status, takes, unhinted, with_header,
};

#[test]
fn a_late_refusal_with_a_shorter_hint_never_shortens_the_gate() {
    let mut storm = Storm::with_jobs(6);
    let burst = storm.open();
    storm.answer(burst[0], limited(40));
    let gate = storm.last_throttle().wait;
    for (call, late) in
        burst[1..]
            .iter()
            .zip([limited(1), with_header(status(429, ""), "0"), unhinted()])
    {
        storm.wait_for(SECOND);
        storm.answer(*call, late);
    }

    let probe = storm.wait_for_call();

    assert_eq!(storm.throttles.len(), 1, "nothing new was to be said");
    assert_eq!(probe.at, at(0).after(gate).round_up());
}

#[test]
fn a_late_refusal_with_a_longer_hint_lengthens_the_gate_and_says_so() {
    let mut storm = Storm::with_jobs(6);
    let burst = storm.open();
    storm.answer(burst[0], limited(2));
    storm.wait_for(SECOND);
    storm.answer(burst[1], limited(30));

    let probe = storm.wait_for_call();

    assert!(is_for(probe.at.saturating_since(at(1)), 30 * SECOND));
    let told = storm.last_throttle();
    assert_eq!((storm.throttles.len(), told.attempt), (2, 1));
    assert_eq!(told.at.after(told.wait).round_up(), probe.at);
}

#[test]
fn late_successes_of_an_old_burst_let_nothing_go_beside_the_probe() {
    let (mut storm, old, probe) = reopened();
    for call in &old {
        storm.answer(*call, takes(call));
        let mut open = storm.open();
        open.retain(|call| !old.contains(call));
        assert_eq!(open, [probe]);
    }
    storm.answer(probe, takes(&probe));
    assert_eq!(storm.open().len(), 2, "the window is that of one success");
}

#[test]
fn late_successes_while_the_gate_is_shut_do_not_move_window_or_ladder() {
    let mut storm = Storm::with_jobs(12);
    let burst = storm.open();
    storm.answer(burst[0], unhinted());
    for call in &burst[1..] {
        storm.answer(*call, takes(call));
    }
    let probe = storm.wait_for_call();
    assert_eq!(storm.open(), [probe]);
    storm.answer(probe, unhinted());
    assert_eq!(storm.last_throttle().attempt, 2);
}

#[test]
fn late_failures_of_an_old_burst_neither_shut_the_gate_nor_climb() {
    let (mut storm, old, probe) = reopened();
    for call in &old {
        storm.answer(*call, unhinted());
    }
    assert_eq!(storm.throttles.len(), 1);
    storm.answer(probe, takes(&probe));
    assert_eq!(
        storm.open().len(),
        2,
        "the gate is open and the window is two"
    );

    // The ladder stands where the probe's success left it.
    let next = storm.open()[0];
    storm.answer(next, unhinted());
    assert_eq!(storm.last_throttle().attempt, 1);
}

#[test]
fn late_failures_before_the_probe_fails_climb_once_with_it() {
    let (mut storm, old, probe) = reopened();
    for call in &old {
        storm.answer(*call, unhinted());
    }
    storm.answer(probe, unhinted());
    assert_eq!(storm.last_throttle().attempt, 2);
}

#[test]
fn a_late_hint_shuts_the_gate_that_has_opened_meanwhile() {
    let (mut storm, old, probe) = reopened();
    storm.wait_for(SECOND);
    let told = storm.now;
    storm.answer(old[0], limited(20));
    storm.answer(probe, takes(&probe));
    assert_eq!(storm.verdict(probe.job), Some(&Verdict::Stored));

    let next = storm.wait_for_call();

    assert!(is_for(next.at.saturating_since(told), 20 * SECOND));
    let mut open = storm.open();
    open.retain(|call| !old.contains(call));
    assert_eq!(open, [next], "one goes alone to test it");
    assert_eq!(storm.last_throttle().attempt, 1, "that is no climb");
}

#[test]
fn an_answer_after_its_limit_changes_nothing() {
    let mut storm = Storm::with_jobs(1);
    let call = storm.only();
    storm.wait_for(16 * SECOND);
    let (throttles, due) = (storm.throttles.len(), storm.publisher.next_deadline());
    for late in [limited(200), takes(&call), status(400, "")] {
        storm.answer(call, late);
    }
    assert_eq!(storm.throttles.len(), throttles);
    assert_eq!(storm.publisher.next_deadline(), due);
    assert_eq!(storm.verdict(1), None);
}

/// One of a burst of four was refused, the gate has opened and its probe is under way beside the
/// other three.
fn reopened() -> (Storm, Vec<Call>, Call) {
    let mut storm = Storm::with_jobs(12);
    let mut old = storm.open();
    let refused = old.remove(0);
    // The places of the burst are taken until it is answered.
    storm.answer(refused, limited(1));
    let probe = storm.wait_for_call();
    assert!(probe.at <= at(0).after(ms(2_500)));
    (storm, old, probe)
}
