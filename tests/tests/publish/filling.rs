//! When durable jobs fill half of the outbox, and when they do no more.

use std::time::Duration;

use buzz_proto::publish::{Action, Body, Class, Command, Config, Input, LatestKey, Route, Verdict};
use buzz_proto::wire::Draft;

use crate::support::{
    Script, cancel, command, draft, half_full, latest, settle, signed, sleep, submit_event, typing,
    with, without_wake,
};

#[test]
fn half_of_the_jobs_is_said_once_when_reached_and_once_when_left() {
    let mut script = small();
    assert_eq!(step(&mut script, submit_event(1, 60)), []);
    assert_eq!(step(&mut script, submit_event(2, 60)), [half_full(true)]);
    assert_eq!(step(&mut script, submit_event(3, 60)), []);
    assert_eq!(step(&mut script, cancel(3)), settle(3, Verdict::Cancelled));
    let left = with(settle(2, Verdict::Cancelled), [half_full(false)]);
    assert_eq!(step(&mut script, cancel(2)), left);
    assert_eq!(step(&mut script, cancel(1)), settle(1, Verdict::Cancelled));
    assert_eq!(step(&mut script, submit_event(4, 60)), []);
    assert_eq!(step(&mut script, submit_event(5, 60)), [half_full(true)]);
}

#[test]
fn what_is_only_good_to_see_fills_nothing() {
    let mut script = small();
    for (job, key) in [(1, LatestKey::Presence), (2, typing(1)), (3, typing(2))] {
        assert_eq!(step(&mut script, latest(job, key)), []);
    }
    assert_eq!(step(&mut script, submit_event(4, 60)), []);
    assert!(step(&mut script, submit_event(5, 60)).contains(&half_full(true)));
}

#[test]
fn half_of_the_bytes_is_as_good_as_half_of_the_jobs() {
    let mut script = Script::with(Config {
        bytes_max: 4_000,
        ..Config::default()
    });
    assert_eq!(step(&mut script, wordy(1, 900)), []);
    assert_eq!(step(&mut script, wordy(2, 200)), [half_full(true)]);
    let left = with(settle(1, Verdict::Cancelled), [half_full(false)]);
    assert_eq!(step(&mut script, cancel(1)), left);
}

#[test]
fn a_signature_adds_to_what_a_draft_fills() {
    let mut script = Script::with(Config {
        bytes_max: 1_600,
        ..Config::default()
    });
    let mut actions = step(&mut script, Input::Link { live: true });
    actions.extend(step(&mut script, wordy(1, 100)));
    let [Action::Sign { ticket, .. }] = actions[..] else {
        panic!("{actions:?}");
    };
    let actions = step(&mut script, signed(ticket.0, 1));
    assert!(actions.contains(&half_full(true)), "{actions:?}");
}

#[test]
fn an_outbox_that_ends_is_half_full_no_more() {
    let mut script = small();
    let _ = script.at(0, submit_event(1, 60));
    let _ = script.at(0, submit_event(2, 60));
    let grace = Duration::ZERO;
    let mut expected = settle(1, Verdict::Cancelled);
    expected.extend(settle(2, Verdict::Cancelled));
    expected.extend([half_full(false), Action::Ended, sleep()]);
    let shutdown = Input::Command(Command::Shutdown { grace });
    assert_eq!(script.at(0, shutdown), expected);
}

fn small() -> Script {
    Script::with(Config {
        jobs_max: 4,
        ..Config::default()
    })
}

fn step(script: &mut Script, input: Input) -> Vec<Action> {
    without_wake(script.now(input))
}

/// A durable job that cannot go, and weighs 512 bytes more than its words.
fn wordy(job: u64, letters: usize) -> Input {
    let content = "x".repeat(letters);
    let body = Body::SignWhenSent(Draft {
        content,
        ..draft(0)
    });
    command(job, Class::Durable, Route::Socket, body, None)
}
