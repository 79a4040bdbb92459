//! Who goes before marks, and how they end.

use std::time::Duration;

use buzz_proto::note::{Shown, StaleWhat};
use buzz_proto::publish::{Action, Command, Config, Input, LatestKey, Mark, Verdict};

use super::{add, post_mark, react, removal, show_mark, showing, sign_of, signed};
use crate::support::{
    ACCEPTED, Script, abort, accepted, answered, cancel, evicted, half_full, latest, not_shown,
    post, send, settle, sleep, stale, stored, submit, submit_event, without_wake,
};

#[test]
fn with_a_thousand_marks_waiting_a_reply_submitted_last_is_posted_next() {
    let mut script = Script::new();
    for message in 1..=1_000 {
        let _ = script.at(0, react(message, Some(Mark::Seen)));
    }
    let _ = script.at(0, signed(0, 91));
    assert_eq!(
        without_wake(script.at(10, submit(1))),
        [post(2, 1, 1)],
        "beside the mark that is out"
    );

    // After a refusal one call goes alone, and it is the reply.
    let said = script.at(20, answered(1, 429, "{}"));
    let gate = script.opening(&said[0]);
    let _ = script.at(30, answered(2, 429, "{}"));
    let _ = script.at(40, submit(2));
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [post(3, 2, 1)]
    );
    assert_eq!(
        without_wake(script.at_time(gate, answered(3, 200, ACCEPTED))),
        [stored(1), post(4, 1, 2), post_mark(5, 2, 91)]
    );
}

#[test]
fn a_mark_at_the_signer_holds_no_place_against_a_reply() {
    let mut script = Script::with(Config {
        in_flight_max: 1,
        ..Config::default()
    });
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    assert_eq!(without_wake(script.at(10, submit(1))), [post(1, 1, 1)]);
    assert_eq!(without_wake(script.at(20, signed(0, 91))), []);
    assert_eq!(
        without_wake(script.at(30, answered(1, 200, ACCEPTED))),
        [stored(1), post_mark(2, 1, 91)]
    );
}

#[test]
fn one_mark_is_under_way_at_a_time_the_oldest_wish_first() {
    let mut script = Script::new();
    for message in [3, 1, 2] {
        let _ = script.at(0, react(message, Some(Mark::Seen)));
    }
    // Whoever changes a wish goes to the end.
    let _ = script.at(0, react(1, Some(Mark::Waiting)));
    let mut order = Vec::new();
    let mut ticket = 0;
    for id in 91..=93 {
        let actions = script.now(signed(ticket, id));
        assert_eq!(without_wake(actions), [post_mark(ticket + 1, 1, id)]);
        assert_eq!(script.publisher.view().in_flight, 1);
        order.extend(without_wake(script.now(answered(
            ticket + 1,
            200,
            ACCEPTED,
        ))));
        ticket += 2;
    }
    assert_eq!(order, [sign_of(2, add(2, "👀")), sign_of(4, add(1, "⏳"))]);
}

#[test]
fn a_call_that_outlives_its_step_keeps_the_next_one_waiting() {
    let config = Config {
        latest_ttl: Duration::from_secs(3),
        ..Config::default()
    };
    let mut script = Script::with(config);
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    let _ = script.at(0, react(2, Some(Mark::Seen)));
    let _ = script.at(0, signed(0, 91));
    assert_eq!(without_wake(script.at(3_000, Input::Tick)), []);
    assert_eq!(
        without_wake(script.at(4_000, answered(1, 200, ACCEPTED))),
        [sign_of(2, add(2, "👀"))]
    );
}

#[test]
fn marks_and_presence_take_turns_where_all_goes_by_the_socket() {
    let mut script = Script::with(Config {
        in_flight_max: 2,
        ..Config::default()
    });
    let _ = script.at(0, Input::Link { live: true });
    let _ = script.at(0, submit(1));
    let _ = script.at(0, answered(0, 404, "not found"));
    let _ = script.at(0, accepted(1));
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    let _ = script.at(0, react(2, Some(Mark::Seen)));
    let _ = script.at(0, latest(7, LatestKey::Presence));
    assert_eq!(
        without_wake(script.at(10, signed(2, 91))),
        [show_mark(3, 91)]
    );
    // One place is for replies.
    assert_eq!(
        without_wake(script.at(20, accepted(3))),
        [crate::support::show(4, 7)]
    );
    assert_eq!(
        without_wake(script.at(30, accepted(4))),
        [stored(7), sign_of(5, add(2, "👀"))]
    );
    assert_eq!(
        without_wake(script.at(40, submit_event(8, 60))),
        [send(6, 8)]
    );
}

#[test]
fn a_mark_never_keeps_a_durable_job_out() {
    let mut script = Script::with(Config {
        jobs_max: 1,
        ..Config::default()
    });
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    assert_eq!(
        without_wake(script.at(0, submit(1))),
        [abort(0), half_full(true), post(1, 1, 1)]
    );
    // It comes back when there is room.
    assert_eq!(
        without_wake(script.at(0, answered(1, 200, ACCEPTED))),
        [stored(1), half_full(false), sign_of(2, add(1, "👀"))]
    );
    let _ = script.at(0, signed(2, 91));
    assert_eq!(
        without_wake(script.at(0, submit(2))),
        settle(2, Verdict::Evicted)
    );
    assert_eq!(
        without_wake(script.at(0, latest(3, LatestKey::Presence))),
        [evicted(3), not_shown(Shown::Presence)]
    );
}

#[test]
fn a_wish_that_finds_no_room_is_said() {
    let mut script = Script::with(Config {
        marks_max: 2,
        ..Config::default()
    });
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    let _ = script.at(0, react(2, Some(Mark::Seen)));
    assert_eq!(
        script.at(0, react(3, Some(Mark::Seen))),
        [not_shown(Shown::Reaction)]
    );
    assert_eq!(script.at(0, react(3, None)), []);
    // What there is can change.
    assert_eq!(script.at(0, react(2, Some(Mark::Waiting))), []);
    assert_eq!(script.publisher.view().marks, 2);
}

#[test]
fn a_shutdown_drops_what_is_to_be_added_and_removes_what_is_to_go() {
    let shutdown = Input::Command(Command::Shutdown {
        grace: Duration::from_secs(10),
    });
    let mut script = showing(1, Mark::Seen, 91);
    let _ = script.now(react(2, Some(Mark::Seen)));
    let _ = script.now(react(3, Some(Mark::Seen)));
    let _ = script.now(react(1, None));
    let _ = script.now(submit(5));

    let actions = script.now(shutdown.clone());
    assert_eq!(without_wake(actions), [abort(2), sign_of(4, removal(91))]);
    assert_eq!(script.now(react(4, Some(Mark::Seen))), []);
    assert_eq!(
        without_wake(script.now(answered(3, 200, ACCEPTED))),
        [stored(5)]
    );
    assert_eq!(
        without_wake(script.now(signed(4, 51))),
        [post_mark(5, 1, 51)]
    );
    assert_eq!(
        script.now(answered(5, 200, ACCEPTED)),
        [Action::Ended, sleep()]
    );

    // What is shown as it is wanted stays.
    let mut script = showing(1, Mark::Seen, 91);
    assert_eq!(script.now(shutdown), [Action::Ended]);
}

#[test]
fn the_end_waits_for_removals_no_longer_than_its_grace() {
    let mut script = showing(1, Mark::Seen, 91);
    let _ = script.at(0, react(1, None));
    let _ = script.at(0, signed(2, 51));
    let grace = Duration::from_secs(5);
    let _ = script.at(0, Input::Command(Command::Shutdown { grace }));
    assert_eq!(
        script.at(5_000, Input::Tick),
        [abort(3), Action::Ended, sleep()]
    );
    assert_eq!(script.at(5_000, react(1, Some(Mark::Seen))), []);
}

#[test]
fn the_numbers_of_marks_are_not_for_callers() {
    let own = 0xFF << 56;
    let mut script = Script::new();
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    assert_eq!(script.at(0, cancel(own)), [stale(StaleWhat::Job)]);
    let mut unused = submit(1);
    if let Input::Command(Command::Submit { job, .. }) = &mut unused {
        job.0 = own + 1;
    }
    assert_eq!(script.at(0, unused), settle(own + 1, Verdict::Cancelled));
}
