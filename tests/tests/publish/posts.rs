//! Posts over HTTP: answers, refusals, the gate.

use std::collections::VecDeque;
use std::time::Duration;

use buzz_proto::ids::Ticket;
use buzz_proto::note::{Note, StaleWhat};
use buzz_proto::publish::{Action, Config, Input, Verdict};
use buzz_proto::relay::BrokeCause;
use buzz_proto::retry_hint::HintSource;

use crate::support::{
    ACCEPTED, Script, abort, answered, cancel, limited, ms, post, posted, refused_with_header,
    rejected, settle, sleep, stale, stored, submit, submit_for, wake, wake_at, with, without_wake,
};

#[test]
fn a_job_is_posted_and_has_its_verdict_once() {
    let mut script = Script::new();

    assert_eq!(script.at(0, submit(1)), [post(0, 1, 1), wake(15_000)]);
    assert_eq!(
        script.at(200, answered(0, 200, ACCEPTED)),
        [stored(1), sleep()]
    );

    assert_eq!(
        script.at(300, answered(0, 200, ACCEPTED)),
        [stale(StaleWhat::Call)]
    );
    assert_eq!(script.at(400, cancel(1)), [stale(StaleWhat::Job)]);
}

#[test]
fn a_duplicate_is_stored_and_a_refusal_in_a_success_is_not() {
    let mut script = Script::new();
    let duplicate = r#"{"accepted":false,"message":"duplicate: already processed"}"#;
    let refused = r#"{"accepted":false,"message":"blocked: banned"}"#;

    assert_eq!(script.at(0, submit(1)), [post(0, 1, 1), wake(15_000)]);
    assert_eq!(script.at(0, submit(2)), [post(1, 1, 2)]);
    assert_eq!(script.at(100, answered(0, 200, duplicate)), [stored(1)]);
    let rejected = settle(2, rejected("blocked: banned"));
    assert_eq!(
        script.at(100, answered(1, 200, refused)),
        with(rejected, [sleep()])
    );
}

#[test]
fn an_unauthorized_post_goes_again_at_once_and_a_forbidden_one_after_a_second() {
    let mut script = Script::new();
    let replay = r#"{"error":"NIP-98: replay detected"}"#;
    let member = r#"{"error":"relay_membership_required"}"#;

    assert_eq!(script.at(0, submit(1)), [post(0, 1, 1), wake(15_000)]);
    assert_eq!(
        script.at(100, answered(0, 401, "{}")),
        [post(1, 2, 1), wake(15_100)]
    );
    assert_eq!(
        script.at(200, answered(1, 401, replay)),
        [post(2, 3, 1), wake(15_200)]
    );
    assert_eq!(script.at(300, answered(2, 403, member)), [wake(1_300)]);
    assert_eq!(script.at(1_300, Input::Tick), [post(3, 4, 1), wake(16_300)]);
    let last = settle(1, rejected("relay_membership_required"));
    assert_eq!(
        script.at(1_400, answered(3, 403, member)),
        with(last, [sleep()])
    );
}

#[test]
fn one_refusal_makes_all_jobs_wait_at_one_gate_and_one_probe_opens_it() {
    let mut script = Script::new();
    for job in 1..=5 {
        let expected = if job <= 4 {
            vec![post(job - 1, 1, job)]
        } else {
            vec![]
        };
        assert_eq!(without_wake(script.at(0, submit(job))), expected);
    }

    // The body's hint shuts the gate for all of them.
    let actions = script.at(0, answered(0, 429, limited(4).as_str()));
    let gate = script.gate(&actions[0], Some(HintSource::Text), 3, 2, 1);
    assert!(ms(4_500) <= gate && gate <= ms(5_500));
    assert_eq!(actions.len(), 2);
    assert_eq!(script.at(1_000, submit(6)), []);

    // A late answer of the same burst lengthens the wait, a shorter one changes nothing.
    let actions = script.at(1_000, refused_with_header(1, "30"));
    let gate = script.gate(&actions[0], Some(HintSource::Header), 2, 4, 1);
    assert!(ms(31_500) <= gate && gate <= ms(37_000));
    assert_eq!(without_wake(actions).len(), 1);
    assert_eq!(script.at(1_500, refused_with_header(2, "5")), []);
    assert_eq!(
        script.at(2_000, answered(3, 200, ACCEPTED)),
        [stored(4), wake_at(gate)]
    );

    // It opens for one, whose success lets two more go.
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [post(4, 2, 1)]
    );
    assert_eq!(without_wake(script.at_time(gate, submit(7))), []);
    let next = script.at_time(gate, answered(4, 200, ACCEPTED));
    assert_eq!(
        without_wake(next),
        [stored(1), post(5, 2, 2), post(6, 2, 3)]
    );
}

#[test]
fn a_probe_that_fails_goes_behind_the_others() {
    let mut script = Script::new();
    assert_eq!(without_wake(script.at(0, submit(1))), [post(0, 1, 1)]);
    let said = script.at(0, answered(0, 429, "{}"));
    let gate = script.gate(&said[0], None, 0, 1, 1);
    assert_eq!(without_wake(script.at(1, submit(2))), []);

    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [post(1, 2, 1)]
    );
    let said = script.at_time(gate, answered(1, 503, "{}"));
    let next = script.gate(&said[0], None, 0, 2, 2);
    assert_eq!(
        without_wake(script.at_time(next, Input::Tick)),
        [post(2, 1, 2)]
    );
}

#[test]
fn a_post_without_an_answer_is_given_up_and_shuts_the_gate() {
    let mut script = Script::new();
    let _ = script.at(0, submit(1));

    let actions = script.at(15_000, Input::Tick);
    assert_eq!(actions[0], abort(0));
    let gate = script.gate(&actions[1], None, 0, 1, 1);
    assert_eq!(
        script.at(16_000, answered(0, 200, ACCEPTED)),
        [stale(StaleWhat::Call)]
    );
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [post(1, 2, 1)]
    );
    let broke = Input::Broke {
        ticket: Ticket(1),
        cause: BrokeCause::Connect,
    };
    let said = script.at_time(gate, broke);
    let next = script.gate(&said[0], None, 0, 1, 2);
    assert!(next > gate);
}

#[test]
fn failures_count_against_a_job_only_while_others_are_stored() {
    let config = Config {
        attempts_max: 3,
        signature_age: Duration::from_secs(86_400),
        ..Config::default()
    };
    let mut script = Script::with(config);
    let _ = script.at(0, submit(1));

    // The relay fails for all: that costs only time.
    for ticket in 0..20 {
        let actions = script.now(answered(ticket, 500, "{}"));
        let gate = script.opening(&actions[0]);
        let tries = u16::try_from(ticket + 2).expect("a small number");
        assert_eq!(
            without_wake(script.at_time(gate, Input::Tick)),
            [post(ticket + 1, tries, 1)]
        );
    }
    let actions = script.now(answered(20, 500, "{}"));
    assert_eq!(without_wake(actions).len(), 1);

    // It fails for this one alone: the third time after another was stored is final.
    let (mut others, mut stored_others) = (2, 0);
    let mut actions = script.now(submit(others));
    let mut pending = VecDeque::new();
    let last = &settle(1, Verdict::Unknown)[0];
    while !actions.contains(last) {
        assert!(others < 20, "it is tried for ever");
        pending.extend(actions.iter().filter_map(posted));
        actions = match pending.pop_front() {
            Some((ticket, 1)) => script.now(answered(ticket, 500, "{}")),
            Some((ticket, _)) => {
                stored_others += 1;
                others += 1;
                let mut actions = script.now(answered(ticket, 200, ACCEPTED));
                actions.extend(script.now(submit(others)));
                actions
            }
            None => {
                let (at, _) = script.publisher.next_deadline().expect("a gate is shut");
                script.at_time(at, Input::Tick)
            }
        };
    }
    assert_eq!(stored_others, 3);
}

#[test]
fn a_wait_that_is_shorter_than_the_relay_asked_for_is_said_to_be() {
    let mut script = Script::new();
    let _ = script.at(0, submit(1));
    let actions = script.at(0, answered(0, 429, &limited(3_600)));
    let Action::Note(Note::Throttled { capped, wait, .. }) = &actions[0] else {
        panic!("{actions:?}")
    };
    assert!(*capped && *wait >= Duration::from_secs(300));
}

#[test]
fn a_forbidden_post_whose_second_try_comes_too_late_has_the_relays_reason() {
    let mut script = Script::new();
    let _ = script.at(0, submit_for(1, 1));
    let member = r#"{"error":"relay_membership_required"}"#;
    let _ = script.at(500, answered(0, 403, member));
    assert_eq!(
        script.at(1_000, Input::Tick),
        with(settle(1, rejected("relay_membership_required")), [sleep()])
    );
}
