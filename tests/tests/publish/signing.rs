//! Drafts and their signatures.

use std::time::Duration;

use buzz_proto::ids::Ticket;
use buzz_proto::publish::{Action, Body, Class, Config, Input, Route};
use buzz_proto::time::UnixTime;

use crate::support::{
    ACCEPTED, Script, answered, command, draft, look_up, ms, post, rejected, settle, signed, sleep,
    stored, submit, submit_draft, wake, with, without_wake,
};

#[test]
fn a_draft_is_dated_when_its_turn_comes() {
    let mut script = Script::new();
    let wall = UnixTime(1_700_000_000);

    assert_eq!(script.at(0, Input::WallClock(wall)), []);
    let sign = Action::Sign {
        ticket: Ticket(0),
        draft: draft(wall.0 + 2),
    };
    assert_eq!(script.at(2_000, submit_draft(1)), [sign, wake(22_000)]);
    assert_eq!(
        script.at(2_500, signed(0, 9)),
        [post(1, 1, 9), wake(17_500)]
    );
    assert_eq!(
        script.at(2_600, answered(1, 200, ACCEPTED)),
        [stored(1), sleep()]
    );
}

#[test]
fn a_draft_that_is_to_come_after_another_keeps_its_date_up_to_five_minutes_ahead() {
    let wall = 1_700_000_000;
    for (ahead, kept) in [(300, 300), (301, 0)] {
        let mut script = Script::new();
        let _ = script.at(0, Input::WallClock(UnixTime(wall)));
        let body = Body::SignWhenSent(draft(wall + ahead));
        let actions = script.at(0, command(1, Class::Durable, Route::Post, body, None));
        let sign = Action::Sign {
            ticket: Ticket(0),
            draft: draft(wall + kept),
        };
        assert_eq!(without_wake(actions), [sign], "{ahead}");
    }
}

#[test]
fn a_signer_that_fails_rests_and_lets_signed_events_pass() {
    let mut script = Script::new();

    let sign = Action::Sign {
        ticket: Ticket(0),
        draft: draft(0),
    };
    assert_eq!(script.at(0, submit_draft(1)), [sign, wake(20_000)]);
    let actions = script.at(0, Input::SignFailed { ticket: Ticket(0) });
    let [Action::WakeAt(Some(rest))] = actions[..] else {
        panic!("{actions:?}")
    };
    assert!(ms(500) <= rest && rest <= ms(1_000));
    assert_eq!(script.at(100, submit(2)), [post(1, 1, 2)]);
    assert_eq!(script.at(100, answered(1, 200, ACCEPTED)), [stored(2)]);
    let again = Action::Sign {
        ticket: Ticket(2),
        draft: draft(0),
    };
    assert_eq!(script.at_time(rest, Input::Tick)[0], again);
    let given_up = script.at_time(rest.after(Duration::from_secs(20)), Input::Tick);
    assert_eq!(given_up[0], Action::Abort { ticket: Ticket(2) });
}

#[test]
fn an_old_event_is_signed_again_when_it_is_not_stored_and_looked_up_when_it_may_be() {
    for (status, is_signed_again) in [(429, true), (504, false)] {
        let config = Config {
            signature_age: Duration::from_secs(2),
            ..Config::default()
        };
        let mut script = Script::with(config);
        let _ = script.at(0, submit_draft(1));
        assert_eq!(without_wake(script.at(0, signed(0, 9))), [post(1, 1, 9)]);

        let said = script.at(0, answered(1, status, "{}"));
        let gate = script.gate(&said[0], None, 0, 1, 1);
        let actions = without_wake(script.at_time(gate, Input::Tick));

        let sign = Action::Sign {
            ticket: Ticket(2),
            draft: draft(0),
        };
        let expected = if is_signed_again { sign } else { look_up(2, 9) };
        assert_eq!(actions, [expected], "{status}");
    }
}

#[test]
fn an_event_dated_too_far_away_is_signed_again_once() {
    let mut script = Script::new();
    let too_far = r#"{"error":"invalid: event timestamp too far from server time"}"#;
    let _ = script.at(0, submit_draft(1));
    let _ = script.at(0, signed(0, 9));

    let sign = Action::Sign {
        ticket: Ticket(2),
        draft: draft(0),
    };
    assert_eq!(
        without_wake(script.at(10, answered(1, 400, too_far))),
        [sign]
    );
    assert_eq!(without_wake(script.at(20, signed(2, 10))), [post(3, 2, 10)]);
    let reason = "invalid: event timestamp too far from server time";
    let last = script.at(30, answered(3, 400, too_far));
    assert_eq!(last, with(settle(1, rejected(reason)), [sleep()]));
}

#[test]
fn no_more_drafts_are_signed_than_can_be_posted() {
    let mut script = Script::new();
    for job in 1..=6 {
        let _ = script.at(0, submit_draft(job));
    }

    let sign = Action::Sign {
        ticket: Ticket(5),
        draft: draft(0),
    };
    assert_eq!(without_wake(script.at(10, signed(3, 9))), [post(4, 1, 9)]);
    assert_eq!(
        without_wake(script.at(20, answered(4, 200, ACCEPTED))),
        [stored(4), sign]
    );
}
