//! Steps that fail, and steps whose outcome nobody tells.

use std::time::Duration;

use buzz_proto::note::Shown;
use buzz_proto::publish::{Config, Input, Mark};

use super::{
    add, after_removal, doubtful, end_in_doubt, post_mark, react, removal, show_mark, showing,
    sign_of, signed,
};
use crate::support::{
    ACCEPTED, Script, accepted, answered, found, limited, look_up_of, not_shown, post, refused,
    sleep, stored, submit, without_wake,
};

#[test]
fn an_add_in_doubt_is_deleted_before_another_is_added() {
    let mut script = Script::new();
    let gate = doubtful(&mut script);
    assert_eq!(script.now(react(1, Some(Mark::Waiting))), []);
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [sign_of(2, removal(91))]
    );
}

#[test]
fn an_add_in_doubt_that_is_still_wanted_is_tried_again_under_the_same_id_and_given_up_after_three()
{
    let config = Config {
        latest_ttl: Duration::from_secs(3),
        ..Config::default()
    };
    let mut script = Script::with(config);
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    let mut actions = without_wake(script.at(0, signed(0, 91)));
    for ticket in 1..=3 {
        assert_eq!(actions, [post_mark(ticket, 1, 91)]);
        // The step's time runs out while the gate is shut.
        let said = script.now(answered(ticket, 500, "{}"));
        let gate = script.opening(&said[0]);
        let late = script.last.after(Duration::from_secs(3));
        let ended = without_wake(script.at_time(late, Input::Tick));
        let expected = if ticket < 3 {
            Vec::new()
        } else {
            vec![not_shown(Shown::Reaction)]
        };
        assert_eq!(ended, expected);
        actions = without_wake(script.at_time(gate, Input::Tick));
    }
    assert_eq!(actions, []);
    // The next wish begins with the removal of what may be there.
    assert_eq!(
        without_wake(script.now(react(1, Some(Mark::Waiting)))),
        [sign_of(4, removal(91))]
    );
}

#[test]
fn a_mark_that_the_relay_refuses_is_not_tried_again_until_the_wish_changes() {
    let mut script = Script::new();
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    let _ = script.at(0, signed(0, 91));
    let refused = r#"{"accepted":false,"message":"blocked: banned"}"#;
    assert_eq!(
        script.at(10, answered(1, 200, refused)),
        [not_shown(Shown::Reaction), sleep()]
    );
    assert_eq!(script.at(20, react(1, Some(Mark::Seen))), []);
    assert_eq!(
        without_wake(script.at(30, react(1, Some(Mark::Waiting)))),
        [sign_of(2, add(1, "⏳"))]
    );
    let _ = script.at(30, react(1, None));
    assert_eq!(script.publisher.view().marks, 0);
}

#[test]
fn a_mark_that_could_not_be_sent_in_its_time_is_not_tried_again() {
    let mut script = Script::new();
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    let _ = script.at(0, signed(0, 91));
    let limited = r#"{"error":"rate-limited: quota exceeded; retry in 90s"}"#;
    let said = script.at(10, answered(1, 429, limited));
    let gate = script.opening(&said[0]);
    assert_eq!(
        without_wake(script.at(60_000, Input::Tick)),
        [not_shown(Shown::Reaction)]
    );
    assert_eq!(script.at_time(gate, Input::Tick), []);
}

#[test]
fn a_mark_waits_for_a_shut_gate_without_losing_its_time() {
    let mut script = Script::new();
    let _ = script.at(0, submit(1));
    let limited = r#"{"error":"rate-limited: quota exceeded; retry in 90s"}"#;
    let said = script.at(0, answered(0, 429, limited));
    let gate = script.opening(&said[0]);
    assert_eq!(script.at(10, react(1, Some(Mark::Seen))), []);
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [post(1, 2, 1)]
    );
    assert_eq!(
        without_wake(script.at_time(gate, answered(1, 200, ACCEPTED))),
        [stored(1), sign_of(2, add(1, "👀"))]
    );
}

#[test]
fn a_removal_without_an_answer_is_tried_three_times_behind_the_others() {
    let config = Config {
        latest_ttl: Duration::from_secs(3),
        ..Config::default()
    };
    let mut script = Script::with(config);
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    let _ = script.now(signed(0, 91));
    let _ = script.now(answered(1, 200, ACCEPTED));
    let _ = script.now(react(1, None));
    assert_eq!(
        without_wake(script.now(signed(2, 51))),
        [post_mark(3, 1, 51)]
    );
    let _ = script.now(react(2, Some(Mark::Seen)));

    // It stays in doubt, and the other takes its turn.
    let gate = end_in_doubt(&mut script, 3, &[]);
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [sign_of(4, after_removal(add(2, "👀")))]
    );
    assert_eq!(
        without_wake(script.now(signed(4, 92))),
        [post_mark(5, 1, 92)]
    );
    // The same deletion, so that a relay that has it says so.
    assert_eq!(
        without_wake(script.now(answered(5, 200, ACCEPTED))),
        [post_mark(6, 1, 51)]
    );
    let gate = end_in_doubt(&mut script, 6, &[]);
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [post_mark(7, 1, 51)]
    );
    let gate = end_in_doubt(&mut script, 7, &[not_shown(Shown::Reaction)]);
    assert_eq!(script.at_time(gate, Input::Tick), []);
}

#[test]
fn a_removal_that_is_refused_for_now_comes_again_however_often() {
    let gone = r#"{"error":"relay: no community is configured for this host"}"#;
    for (status, text) in [(429, limited(90)), (404, gone.to_owned())] {
        let mut script = Script::with(Config {
            latest_ttl: Duration::from_secs(3),
            ..Config::default()
        });
        let _ = script.at(0, react(1, Some(Mark::Seen)));
        let _ = script.now(signed(0, 91));
        let _ = script.now(answered(1, 200, ACCEPTED));
        let mut actions = without_wake(script.now(react(1, None)));
        for ticket in [2, 4, 6, 8, 10] {
            assert_eq!(actions, [sign_of(ticket, removal(91))], "{status}");
            let _ = script.now(signed(ticket, 50 + ticket));
            let said = script.now(answered(ticket + 1, status, &text));
            let gate = script.opening(&said[0]);
            let late = script.last.after(Duration::from_secs(3));
            assert_eq!(without_wake(script.at_time(late, Input::Tick)), []);
            actions = without_wake(script.at_time(gate, Input::Tick));
        }
        let _ = script.now(signed(12, 70));
        let _ = script.now(answered(13, 200, ACCEPTED));
        assert_eq!(script.publisher.view().marks, 0);
    }
}

#[test]
fn what_could_not_be_removed_makes_room_for_a_wish() {
    let mut script = Script::with(Config {
        latest_ttl: Duration::from_secs(3),
        marks_max: 1,
        ..Config::default()
    });
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    let _ = script.now(signed(0, 91));
    let _ = script.now(answered(1, 200, ACCEPTED));
    let _ = script.now(react(1, None));
    let _ = script.now(signed(2, 51));
    for ticket in 3..=4 {
        let gate = end_in_doubt(&mut script, ticket, &[]);
        let _ = script.at_time(gate, Input::Tick);
    }
    let gate = end_in_doubt(&mut script, 5, &[not_shown(Shown::Reaction)]);
    assert_eq!(script.publisher.view().marks, 1);
    assert_eq!(without_wake(script.now(react(2, Some(Mark::Seen)))), []);
    assert_eq!(script.publisher.view().marks, 1);
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [sign_of(6, after_removal(add(2, "👀")))]
    );
}

#[test]
fn a_removal_that_is_refused_is_given_up() {
    let refused = r#"{"accepted":false,"message":"invalid: unknown target"}"#;
    for (wish, rows) in [(None, 0), (Some(Mark::Waiting), 1)] {
        let mut script = showing(1, Mark::Seen, 91);
        let _ = script.now(react(1, wish));
        let _ = script.now(signed(2, 51));
        assert_eq!(
            script.now(answered(3, 200, refused)),
            [not_shown(Shown::Reaction), sleep()]
        );
        assert_eq!(script.publisher.view().marks, rows);
    }
}

#[test]
fn a_removal_in_doubt_is_finished_before_the_mark_is_shown_again() {
    let mut script = showing(1, Mark::Seen, 91);
    let _ = script.now(react(1, None));
    let _ = script.now(signed(2, 51));
    let said = script.now(answered(3, 500, "{}"));
    let gate = script.opening(&said[0]);
    assert_eq!(script.now(react(1, Some(Mark::Seen))), []);
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [post_mark(4, 2, 51)]
    );
    assert_eq!(
        without_wake(script.now(answered(4, 200, ACCEPTED))),
        [sign_of(5, after_removal(add(1, "👀")))]
    );
}

#[test]
fn an_old_mark_in_doubt_is_looked_up() {
    let mut script = Script::with(Config {
        signature_age: Duration::from_secs(2),
        ..Config::default()
    });
    let gate = doubtful(&mut script);
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [look_up_of(2, 91, 7)]
    );
    assert_eq!(
        without_wake(script.at_time(gate, found(2, &[]))),
        [sign_of(3, add(1, "👀"))]
    );
}

#[test]
fn a_mark_on_the_socket_that_has_no_answer_is_sent_again() {
    let mut script = Script::new();
    let _ = script.at(0, Input::Link { live: true });
    let _ = script.at(0, submit(1));
    let _ = script.at(0, answered(0, 404, "not found"));
    let _ = script.at(0, accepted(1));
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    assert_eq!(
        without_wake(script.at(0, signed(2, 91))),
        [show_mark(3, 91)]
    );
    let _ = script.at(40_000, Input::Tick);
    assert_eq!(
        without_wake(script.at(41_000, Input::Tick)),
        [show_mark(4, 91)]
    );
    assert_eq!(
        script.at(41_100, refused(4, "duplicate: had it")),
        [sleep()]
    );
}
