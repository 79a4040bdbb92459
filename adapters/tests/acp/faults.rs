//! Workers at fault: each turn has one end, the worker beside is not disturbed, and nothing is left.

use std::time::Duration;

use buzz_adapters::acp::AcpSettings;
use buzz_proto::ids::TurnId;
use buzz_proto::schedule::{
    Action, DownCause, Input, OpenCause, Session, SessionRef, TurnEnd, WorkerId,
};
use buzz_proto::wire::Excerpt;

use super::bench::{SESSION, WORKER, answered, deaf_to_sigterm, fake, opened};
use super::pair::{FIRST, Pair, failed};
use super::turns::exited;

#[test]
fn a_worker_that_dies_in_a_turn_ends_it() {
    let mut pair = Pair::up(fake("crash"));
    pair.start(1, FIRST, "hello");

    pair.await_fact(|fact| *fact == opened(1));
    assert_eq!(pair.down(), exited(3, "loading / out of memory"));
    pair.close();
}

#[test]
fn half_a_line_is_no_answer() {
    let mut pair = Pair::up(fake("half"));
    pair.start(1, FIRST, "hello");

    assert_eq!(pair.down(), exited(4, ""));
    pair.close();
}

#[test]
fn agentclientprotocol_rust_sdk_340_a_line_of_fifty_megabytes_is_not_kept() {
    let mut pair = Pair::up(fake("huge:50000000"));
    pair.start(1, FIRST, "hello");

    let text = Excerpt::new("a line is longer than 10000000 bytes");
    assert_eq!(pair.down(), DownCause::Protocol { text });
    pair.close();
}

#[test]
fn bytes_that_are_no_text_cost_no_more_than_themselves() {
    let mut pair = Pair::up(fake("torn"));
    pair.start(1, FIRST, "hello");

    let end = answered("a\u{fffd}b\u{fffd}");
    assert_eq!(pair.end(1), finished(1, end));
    pair.close();
}

#[test]
fn a_stop_reason_that_nobody_knows_ends_the_turn_alone() {
    let mut pair = Pair::up(fake(r#"answer:"result":{"stopReason":"bored"}"#));
    pair.start(1, FIRST, "hello");
    let end = pair.end(1);
    assert_eq!(failed(&end).as_str(), "unknown stop reason \"bored\"");

    pair.start(2, Session::Resume(SESSION), "again");
    let end = pair.end(2);
    assert_eq!(failed(&end).as_str(), "unknown stop reason \"bored\"");
    pair.close();
}

#[test]
fn an_answer_to_a_request_that_was_given_up_is_not_one_to_the_next() {
    let mut settings = fake("late");
    settings.limits.session_open = Duration::from_millis(50);
    let mut pair = Pair::up(settings);
    pair.start(1, FIRST, "hello");
    let text = Excerpt::new("no answer to session/new within 50ms");
    let cause = OpenCause::Refused { text };
    let turn = TurnId(1);
    assert_eq!(pair.end(1), Input::SessionFailed { turn, cause });

    // The limit may pass before this one is answered, too; what counts is which answer it gets.
    pair.start(2, Session::Fresh(session(2)), "again");

    let end = pair.end(2);
    let is_answered = matches!(
        &end,
        Input::Finished { end: TurnEnd::Answered { reply, .. }, .. } if reply.contains("again")
    );
    assert!(
        is_answered || matches!(end, Input::SessionFailed { .. }),
        "{end:?}"
    );
    pair.close();
}

#[test]
fn an_answer_that_comes_twice_counts_once() {
    let mut pair = Pair::up(fake("twice"));
    pair.start(1, FIRST, "hello");
    assert_eq!(pair.end(1), finished(1, answered("done")));

    pair.start(2, Session::Resume(SESSION), "again");
    assert_eq!(pair.end(2), finished(2, answered("again done")));
    pair.close();
}

#[test]
fn a_worker_that_hangs_is_ended_in_the_middle_of_its_turn() {
    let mut pair = Pair::up(fake("hangs"));
    pair.start(1, FIRST, "hello");
    pair.await_fact(|fact| *fact == opened(1));

    pair.bench.order(Action::CancelTurn { turn: TurnId(1) });
    pair.neighbour_answers();
    pair.bench.order(Action::Kill { worker: WORKER });

    assert_eq!(pair.down(), DownCause::Killed);
    pair.close();
}

#[test]
fn a_family_that_hears_no_signal_is_ended_as_a_whole() {
    let mut settings = deaf_to_sigterm(fake("family"));
    settings.limits.exit_step = Duration::from_millis(50);
    let mut pair = Pair::up(settings);
    pair.start(1, FIRST, "hello");
    pair.await_fact(|fact| *fact == opened(1));
    pair.await_family(3..=9);

    pair.bench.order(Action::CancelTurn { turn: TurnId(1) });
    pair.bench.order(Action::Kill { worker: WORKER });

    assert_eq!(pair.down(), DownCause::Killed);
    pair.leaves_nothing();
    pair.close();
}

#[test]
fn children_that_hold_the_output_open_do_not_hold_up_the_end_of_their_parent() {
    let mut pair = Pair::up(fake("abandons"));
    pair.start(1, FIRST, "hello");

    assert_eq!(pair.down(), exited(5, ""));
    pair.leaves_nothing();
    pair.close();
}

#[test]
fn a_session_that_is_forgotten_can_be_replaced_on_the_same_worker() {
    let mut settings = fake("forgets");
    settings.limits.resume_settle = Duration::from_secs(600);
    let mut pair = Pair::up(settings);
    pair.start(1, FIRST, "hello");
    pair.end(1);

    pair.start(2, Session::Resume(SESSION), "again");
    let (turn, cause) = (TurnId(2), OpenCause::Unknown);
    assert_eq!(pair.end(2), Input::SessionFailed { turn, cause });

    pair.start(3, Session::Fresh(session(2)), "again");
    assert!(matches!(pair.end(3), Input::Finished { .. }));
    pair.close();
}

#[test]
fn a_worker_that_dies_at_once_is_down_at_once() {
    let mut settings = AcpSettings::new("sh");
    settings.args = vec!["-c".into(), "echo no home >&2; exit 9".into()];
    settings.limits.start = Duration::from_secs(3600);
    let mut pair = Pair::new(settings);

    assert_eq!(pair.down(), exited(9, "no home"));
    pair.close();
}

#[test]
fn a_worker_that_does_not_read_its_prompt_can_be_cancelled_and_ended() {
    let mut settings = fake("deaf");
    settings.limits.write = Duration::from_secs(3600);
    settings.limits.exit_step = Duration::from_millis(50);
    let mut pair = Pair::up(settings);
    // Each takes six bytes in JSON: more than a pipe holds.
    pair.start(1, FIRST, &"\u{1}".repeat(60_000));
    // It is refused: at once, or with all else where the prompt waits to be written already.
    pair.start(2, Session::Fresh(session(2)), "me too");

    pair.bench.order(Action::CancelTurn { turn: TurnId(1) });
    pair.neighbour_answers();
    pair.bench.order(Action::Kill { worker: WORKER });

    assert_eq!(pair.end(1), down(DownCause::Killed));
    pair.close();
}

#[test]
fn the_end_of_an_earlier_life_is_not_that_of_the_next() {
    let mut settings = deaf_to_sigterm(fake("family"));
    settings.limits.exit_step = Duration::from_millis(200);
    let mut pair = Pair::up(settings);
    pair.start(1, FIRST, "hello");
    pair.await_fact(|fact| *fact == opened(1));
    let next = WorkerId {
        incarnation: 2,
        ..WORKER
    };
    let its_session = SessionRef {
        worker: next,
        epoch: 2,
    };

    pair.bench.order(Action::Kill { worker: WORKER });
    pair.bench.order(Action::Spawn { worker: next });
    pair.await_fact(|fact| *fact == Input::WorkerUp { worker: next });
    pair.start(2, Session::Fresh(its_session), "two");
    pair.await_fact(|fact| *fact == finished(2, answered("two")));
    assert_eq!(pair.down(), DownCause::Killed);
    pair.bench.order(Action::CancelTurn { turn: TurnId(1) });
    pair.bench.order(Action::Kill { worker: WORKER });

    pair.start(3, Session::Resume(its_session), "three");
    pair.await_fact(|fact| *fact == finished(3, answered("three")));
    pair.close();
}

fn session(epoch: u64) -> SessionRef {
    SessionRef { epoch, ..SESSION }
}

const fn down(cause: DownCause) -> Input {
    let worker = WORKER;
    Input::WorkerDown { worker, cause }
}

fn finished(turn: u64, end: TurnEnd) -> Input {
    Input::Finished {
        turn: TurnId(turn),
        end,
    }
}
