//! Events that may be stored, and the question whether they are.

use std::collections::VecDeque;
use std::time::Duration;

use buzz_proto::ids::Ticket;
use buzz_proto::note::StaleWhat;
use buzz_proto::publish::{Action, Body, Class, Config, Input, Route, Verdict};
use buzz_proto::relay::BrokeCause;
use buzz_proto::time::MonoTime;
use buzz_proto::wire::Draft;

use crate::support::{
    ACCEPTED, Script, abort, answered, cancel, command, draft, event, event_of, found, look_up,
    post, rejected, send, settle, signed, sleep, stale, stored, submit, submit_draft, submit_event,
    submit_for, typing, with, without_wake,
};

const TOO_FAR: &str = r#"{"error":"invalid: event timestamp too far from server time"}"#;
const TOO_FAR_TEXT: &str = "invalid: event timestamp too far from server time";

#[test]
fn an_old_event_that_is_found_is_stored() {
    let (mut script, gate) = in_doubt(submit(1));
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [look_up(1, 1)]
    );
    assert_eq!(script.at_time(gate, found(1, &[1])), [stored(1), sleep()]);
    assert_eq!(
        script.at_time(gate, found(1, &[1])),
        [stale(StaleWhat::Call)]
    );
}

#[test]
fn an_old_event_that_is_not_found_goes_as_it_is_if_the_caller_signed_it_and_a_draft_is_signed_anew()
{
    let (mut script, gate) = in_doubt(submit(1));
    let _ = script.at_time(gate, Input::Tick);
    // Others that the relay lists are not meant.
    assert_eq!(
        without_wake(script.at_time(gate, found(1, &[7]))),
        [post(2, 2, 1)]
    );
    assert_eq!(
        script.at_time(gate, answered(2, 200, ACCEPTED)),
        [stored(1), sleep()]
    );

    let mut script = Script::with(quickly_old());
    let _ = script.at(0, submit_draft(1));
    assert_eq!(without_wake(script.at(0, signed(0, 9))), [post(1, 1, 9)]);
    let said = script.at(0, answered(1, 504, "{}"));
    let gate = script.opening(&said[0]);
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [look_up(2, 9)]
    );
    assert_eq!(without_wake(script.at_time(gate, found(2, &[]))), [sign(3)]);
    assert_eq!(
        without_wake(script.at_time(gate, signed(3, 10))),
        [post(4, 2, 10)]
    );
}

#[test]
fn an_event_in_doubt_that_is_young_is_sent_again_without_a_question() {
    let mut script = Script::new();
    let _ = script.at(0, submit(1));
    let said = script.at(0, answered(0, 504, "{}"));
    let gate = script.opening(&said[0]);
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [post(1, 2, 1)]
    );
}

#[test]
fn an_event_in_doubt_that_is_refused_for_its_date_is_looked_up() {
    let cases = [
        (found(2, &[1]), vec![stored(1)]),
        (found(2, &[]), settle(1, rejected(TOO_FAR_TEXT))),
        (answered(2, 404, "not found"), settle(1, Verdict::Unknown)),
    ];
    for (answer, expected) in cases {
        let mut script = Script::new();
        let _ = script.at(0, submit(1));
        let said = script.at(0, answered(0, 504, "{}"));
        let gate = script.opening(&said[0]);
        let _ = script.at_time(gate, Input::Tick);
        assert_eq!(
            without_wake(script.at_time(gate, answered(1, 400, TOO_FAR))),
            [look_up(2, 1)]
        );
        assert_eq!(script.at_time(gate, answer), with(expected, [sleep()]));
    }
}

#[test]
fn a_draft_refused_for_its_date_is_signed_anew_once_after_it_was_not_found() {
    let mut script = Script::new();
    let _ = script.at(0, submit_draft(1));
    let _ = script.at(0, signed(0, 9));
    let said = script.at(0, answered(1, 504, "{}"));
    let gate = script.opening(&said[0]);
    let _ = script.at_time(gate, Input::Tick);
    let _ = script.at_time(gate, answered(2, 400, TOO_FAR));
    assert_eq!(without_wake(script.at_time(gate, found(3, &[]))), [sign(4)]);
    assert_eq!(
        without_wake(script.at_time(gate, signed(4, 10))),
        [post(5, 3, 10)]
    );
    let last = settle(1, rejected(TOO_FAR_TEXT));
    assert_eq!(
        without_wake(script.at_time(gate, answered(5, 400, TOO_FAR))),
        last
    );
}

#[test]
fn a_relay_that_answers_no_questions_is_not_asked_again_before_the_next_connection() {
    for status in [403, 404, 405, 426] {
        let (mut script, gate) = in_doubt(submit(1));
        let _ = script.at_time(gate, Input::Link { live: true });
        assert_eq!(
            without_wake(script.at_time(gate, answered(1, status, "no"))),
            [post(2, 2, 1)],
            "{status}"
        );
        // A failure that leaves it in doubt: again without a question.
        let said = script.at_time(gate, answered(2, 504, "{}"));
        let gate = script.opening(&said[0]);
        assert_eq!(
            without_wake(script.at_time(gate, Input::Tick)),
            [post(3, 3, 1)]
        );
        let said = script.at_time(gate, answered(3, 504, "{}"));
        let gate = script.opening(&said[0]);
        assert_eq!(script.now(Input::Link { live: false }), []);
        assert_eq!(script.now(Input::Link { live: true }), []);
        assert_eq!(
            without_wake(script.at_time(gate, Input::Tick)),
            [look_up(4, 1)]
        );
    }
}

#[test]
fn all_that_wait_for_a_question_go_on_when_there_is_none() {
    let (mut script, gate) = in_doubt(submit(1));
    let _ = script.now(submit(2));
    let _ = script.at_time(gate, Input::Tick);
    let said = script.at_time(gate, answered(1, 504, "{}"));
    let gate = script.opening(&said[0]);
    // Both may be stored, and only one is asked for.
    let old = gate.after(Duration::from_secs(2));
    let _ = script.at_time(old, Input::Tick);
    let _ = script.at_time(old, submit(3));
    let actions = script.now(answered(2, 404, "not found"));
    assert_eq!(without_wake(actions), [post(3, 2, 1), post(4, 2, 2)]);
}

#[test]
fn a_list_with_something_else_in_it_tells_nothing_of_what_is_missing() {
    let (mut script, gate) = in_doubt(submit(1));
    let _ = script.at_time(gate, Input::Tick);
    let actions = script.at_time(gate, answered(1, 200, "[7]"));
    let _ = script.gate(&actions[0], None, 0, 1, 2);
}

#[test]
fn a_question_that_fails_shuts_the_gate_and_after_three_the_event_goes_without_one() {
    let (mut script, mut gate) = in_doubt(submit(1));
    for ticket in 1..=3 {
        assert_eq!(
            without_wake(script.at_time(gate, Input::Tick)),
            [look_up(ticket, 1)]
        );
        let actions = match ticket {
            1 => script.at_time(gate, answered(ticket, 503, "{}")),
            2 => script.at_time(gate, answered(ticket, 200, "<html>")),
            _ => {
                let (ticket, cause) = (Ticket(ticket), BrokeCause::Connection);
                script.at_time(gate, Input::Broke { ticket, cause })
            }
        };
        let attempt = u32::try_from(ticket).expect("a small number") + 1;
        gate = script.gate(&actions[0], None, 0, 1, attempt);
    }
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [post(4, 2, 1)]
    );
    // Once it was sent, it may be asked for again.
    let said = script.at_time(gate, answered(4, 504, "{}"));
    let gate = script.opening(&said[0]);
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [look_up(5, 1)]
    );
}

#[test]
fn a_question_has_the_limit_of_a_post_and_its_late_answer_is_stale() {
    let (mut script, gate) = in_doubt(submit(1));
    let _ = script.at_time(gate, Input::Tick);
    let limit = gate.after(Duration::from_secs(15));
    let actions = script.at_time(limit, Input::Tick);
    assert_eq!(actions[0], abort(1));
    let _ = script.gate(&actions[1], None, 0, 1, 2);
    assert_eq!(
        script.at_time(limit, found(1, &[1])),
        [stale(StaleWhat::Call)]
    );
}

#[test]
fn an_unauthorized_question_is_asked_again_and_then_given_up() {
    let (mut script, gate) = in_doubt(submit(1));
    let _ = script.at_time(gate, Input::Tick);
    for ticket in 1..=2 {
        assert_eq!(
            without_wake(script.at_time(gate, answered(ticket, 401, "{}"))),
            [look_up(ticket + 1, 1)]
        );
    }
    assert_eq!(
        without_wake(script.at_time(gate, answered(3, 401, "{}"))),
        [post(4, 2, 1)]
    );
}

#[test]
fn a_job_that_ends_while_it_is_looked_up_ends_as_usual() {
    let (mut script, gate) = in_doubt(submit(1));
    let _ = script.at_time(gate, Input::Tick);
    assert_eq!(
        without_wake(script.at_time(gate, cancel(1))),
        settle(1, Verdict::Cancelled)
    );
    // The answer still tells how the relay fares.
    let actions = script.at_time(gate, answered(1, 429, "{}"));
    let _ = script.gate(&actions[0], None, 0, 0, 2);

    let (mut script, gate) = in_doubt(submit_for(1, 20));
    let _ = script.at_time(gate, Input::Tick);
    assert_eq!(
        script.at(20_000, Input::Tick)[..2],
        settle(1, Verdict::Unknown)
    );
}

#[test]
fn questions_go_behind_replies_and_take_a_place_among_the_calls() {
    let (mut script, gate) = in_doubt(submit(1));
    let _ = script.now(submit(2));
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [post(1, 1, 2)],
        "one probe"
    );
    assert_eq!(
        without_wake(script.at_time(gate, answered(1, 200, ACCEPTED))),
        [stored(2), look_up(2, 1)]
    );
    let _ = script.at_time(gate, submit(3));
    assert_eq!(script.publisher.view().in_flight, 2);
    assert_eq!(without_wake(script.at_time(gate, submit(4))), []);
}

#[test]
fn a_stream_of_replies_does_not_keep_a_question_out() {
    for submit_reply in [submit, submit_draft] {
        let (mut script, gate) = in_doubt(submit(1));
        for job in 2..=60 {
            let _ = script.now(submit_reply(job));
        }
        let mut actions = VecDeque::from(script.at_time(gate, Input::Tick));
        let mut replies = 0;
        loop {
            let more = match actions.pop_front() {
                Some(Action::Query { .. }) => break,
                Some(Action::Post { ticket, .. }) => {
                    replies += 1;
                    script.now(answered(ticket.0, 200, ACCEPTED))
                }
                Some(Action::Sign { ticket, .. }) => script.now(signed(ticket.0, 100 + ticket.0)),
                Some(_) => continue,
                None => {
                    let next = script.publisher.next_deadline().expect("more to come");
                    script.at_time(next.0, Input::Tick)
                }
            };
            actions.extend(more);
        }
        assert!(replies <= 4, "{replies} replies went first");
    }
}

#[test]
fn what_no_relay_keeps_and_what_is_only_good_to_see_is_not_asked_for() {
    let kept_by_nobody = Draft {
        kind: 20_001,
        ..draft(0)
    };
    let ephemeral = event_of(1, &kept_by_nobody);
    let cases = [
        (Class::Durable, ephemeral),
        (Class::Latest(typing(1)), event(1)),
    ];
    for (class, event) in cases {
        let body = Body::Signed(event.clone());
        let submit = command(1, class, Route::Post, body, Some(600));
        let (mut script, gate) = in_doubt(submit);
        let again = Action::Post {
            ticket: Ticket(1),
            attempt: 2,
            event,
        };
        assert_eq!(without_wake(script.at_time(gate, Input::Tick)), [again]);
    }
}

#[test]
fn an_event_of_the_socket_is_looked_up_over_http() {
    let mut script = Script::with(quickly_old());
    let _ = script.at(0, Input::Link { live: true });
    assert_eq!(
        without_wake(script.at(0, submit_event(1, 600))),
        [send(0, 1)]
    );
    let _ = script.at(40_000, Input::Tick);
    assert_eq!(
        without_wake(script.at(41_000, Input::Tick)),
        [look_up(1, 1)]
    );
    assert_eq!(without_wake(script.at(41_100, found(1, &[]))), [send(2, 1)]);
}

/// A job of an event that may be stored and is old when the gate opens.
fn in_doubt(submit: Input) -> (Script, MonoTime) {
    let mut script = Script::with(quickly_old());
    let _ = script.at(0, submit);
    let said = script.at(0, answered(0, 504, "{}"));
    let gate = script.opening(&said[0]);
    (script, gate)
}

fn quickly_old() -> Config {
    Config {
        signature_age: Duration::from_secs(2),
        ..Config::default()
    }
}

fn sign(ticket: u64) -> Action {
    Action::Sign {
        ticket: Ticket(ticket),
        draft: draft(0),
    }
}
