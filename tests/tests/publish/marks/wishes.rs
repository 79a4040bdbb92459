//! What is wanted, and the steps that lead there.

use buzz_proto::note::StaleWhat;
use buzz_proto::publish::{Config, Input, Mark};
use buzz_proto::time::{MonoTime, UnixTime};

use super::{add, after_removal, post_mark, react, removal, showing, sign_of, signed};
use crate::support::{ACCEPTED, Script, abort, answered, sleep, stale, wake, without_wake};

#[test]
fn a_mark_is_added_with_the_reaction_that_says_it() {
    for (mark, content) in [(Mark::Seen, "👀"), (Mark::Waiting, "⏳")] {
        let mut script = Script::new();
        assert_eq!(
            script.at(0, react(1, Some(mark))),
            [sign_of(0, add(1, content)), wake(20_000)]
        );
        assert_eq!(
            script.at(10, signed(0, 91)),
            [post_mark(1, 1, 91), wake(15_010)]
        );
        assert_eq!(script.at(20, answered(1, 200, ACCEPTED)), [sleep()]);
        assert_eq!(script.publisher.view().marks, 1);
        // Wished for again, it is there.
        assert_eq!(script.at(30, react(1, Some(mark))), []);
    }
}

#[test]
fn the_reactions_are_settings_of_at_most_64_characters() {
    let with = |seen: &str, waiting: &str| Config {
        seen: seen.to_owned(),
        waiting: waiting.to_owned(),
        ..Config::default()
    };
    let mut script = Script::with(with("+", &"⏳".repeat(64)));
    assert_eq!(
        without_wake(script.at(0, react(1, Some(Mark::Seen)))),
        [sign_of(0, add(1, "+"))]
    );

    let nothing = Config {
        marks_max: 0,
        ..Config::default()
    };
    let refused = [
        (with("+", &"⏳".repeat(65)), "publish.waiting"),
        (with("", "+"), "publish.seen"),
        (nothing, "publish.marks_max"),
    ];
    for (config, setting) in refused {
        let refused =
            buzz_proto::publish::Publisher::new(config, buzz_proto::seed::Seed(7), MonoTime::ZERO);
        let said = refused.expect_err("it cannot work").to_string();
        assert!(said.starts_with(setting), "{said}");
    }
}

#[test]
fn a_mark_that_comes_back_within_the_second_is_another_event() {
    let mut script = showing(1, Mark::Seen, 91);
    let shown = script.publisher.view().marks;
    let _ = script.now(Input::WallClock(UnixTime(0)));
    let _ = script.now(react(1, None));
    let _ = script.now(signed(2, 51));
    let _ = script.now(answered(3, 200, ACCEPTED));
    assert_eq!((shown, script.publisher.view().marks), (1, 0));

    let again = without_wake(script.now(react(1, Some(Mark::Seen))));
    assert_eq!(again, [sign_of(4, after_removal(add(1, "👀")))]);
}

#[test]
fn a_change_deletes_what_is_stored_and_then_adds() {
    let mut script = showing(1, Mark::Seen, 91);
    assert_eq!(
        without_wake(script.now(react(1, Some(Mark::Waiting)))),
        [sign_of(2, removal(91))]
    );
    assert_eq!(
        without_wake(script.now(signed(2, 51))),
        [post_mark(3, 1, 51)]
    );
    assert_eq!(
        without_wake(script.now(answered(3, 200, ACCEPTED))),
        [sign_of(4, after_removal(add(1, "⏳")))]
    );
    assert_eq!(
        without_wake(script.now(signed(4, 92))),
        [post_mark(5, 1, 92)]
    );
    assert_eq!(script.now(answered(5, 200, ACCEPTED)), [sleep()]);
    assert_eq!(script.publisher.view().marks, 1);
}

#[test]
fn a_mark_that_is_taken_away_leaves_nothing_behind() {
    let mut script = showing(1, Mark::Seen, 91);
    let _ = script.now(react(1, None));
    let _ = script.now(signed(2, 51));
    assert_eq!(script.now(answered(3, 200, ACCEPTED)), [sleep()]);
    assert_eq!(script.publisher.view().marks, 0);
    assert_eq!(script.now(react(1, None)), []);
}

#[test]
fn an_add_and_its_removal_that_were_not_begun_cancel_out() {
    let mut script = Script::new();
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    assert_eq!(script.at(0, react(2, Some(Mark::Seen))), []);
    assert_eq!(script.at(0, react(2, None)), []);
    assert_eq!(script.publisher.view().marks, 1);

    // The other is at the signer: nothing is out yet.
    assert_eq!(script.at(10, react(1, None)), [abort(0), sleep()]);
    assert_eq!(script.publisher.view().marks, 0);
    assert_eq!(script.at(20, signed(0, 91)), [stale(StaleWhat::Signature)]);
}

#[test]
fn a_removal_and_its_add_that_were_not_begun_cancel_out() {
    let mut script = showing(1, Mark::Seen, 91);
    let _ = script.now(react(1, None));
    assert_eq!(script.now(react(1, Some(Mark::Seen))), [abort(2), sleep()]);
    assert_eq!(script.publisher.view().marks, 1);
}

#[test]
fn a_wish_that_changes_while_the_add_is_out_waits_for_its_answer() {
    let mut script = Script::new();
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    let _ = script.at(0, signed(0, 91));
    assert_eq!(script.at(10, react(1, None)), []);
    assert_eq!(
        without_wake(script.at(20, answered(1, 200, ACCEPTED))),
        [sign_of(2, removal(91))]
    );

    // What is known not to be stored needs no removal.
    let mut script = Script::new();
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    let _ = script.at(0, signed(0, 91));
    let _ = script.at(10, react(1, None));
    let said = script.at(20, answered(1, 429, "{}"));
    let gate = script.gate(&said[0], None, 0, 0, 1);
    assert_eq!(script.publisher.view().marks, 0);
    assert_eq!(without_wake(script.at_time(gate, Input::Tick)), []);
}

#[test]
fn a_reaction_that_the_relay_has_already_is_shown() {
    let mut script = Script::new();
    let _ = script.at(0, react(1, Some(Mark::Seen)));
    let _ = script.at(0, signed(0, 91));
    let had = r#"{"accepted":false,"message":"duplicate: reaction already exists"}"#;
    assert_eq!(script.at(10, answered(1, 200, had)), [sleep()]);
}
