//! Turns: which scope is served, in which session, within which limits.

use buzz_proto::ids::TurnId;
use buzz_proto::note::{HoldEnd, Note, StaleWhat, TurnFailure};
use buzz_proto::publish::Verdict;
use buzz_proto::schedule::{Action, Config, Input, Limits, OpenCause, Session, TurnEnd};
use buzz_proto::wire::Excerpt;

use crate::seen::rest_of;
use crate::support::{
    ROOM, START, Said, Script, again, answered, cancel, config, left, limits, mention, message,
    millis, note, reply, secs, session, settled, stale, start, thread, two_workers, worker,
};

const fn opened(turn: u64) -> Input {
    Input::SessionOpened { turn: TurnId(turn) }
}

const fn progressed(turn: u64) -> Input {
    Input::Progressed { turn: TurnId(turn) }
}

const fn failed(turn: u64, cause: OpenCause) -> Input {
    Input::SessionFailed {
        turn: TurnId(turn),
        cause,
    }
}

#[test]
fn a_scope_with_a_turn_waits_and_goes_on_in_its_session() {
    let mut script = Script::working(two_workers());
    script.prompt(0, &mention(1));
    let next = reply(2, 1);
    assert_eq!(script.arrive(&next), []);
    let mut expected = start(1, thread(1), Session::Resume(session(0, 1)), &[next]);
    expected.push(message(0, 1, START, "hi"));
    assert_eq!(script.give(answered(0, "hi")), expected);
}

#[test]
fn a_batch_is_the_oldest_by_date_and_the_rest_waits() {
    let limits = Limits {
        batch_max: 2,
        ..limits()
    };
    let mut script = Script::new(Config { limits, ..config() });
    let dated = |id, before| {
        let created_at = START - before;
        Said {
            id,
            root: Some(9),
            created_at,
            ..Said::default()
        }
        .event()
    };
    let (newest, oldest, middle) = (dated(1, 1), dated(2, 3), dated(3, 2));
    for event in [&newest, &oldest, &middle] {
        assert_eq!(script.arrive(event), []);
    }
    let mut expected = vec![note(Note::WorkerUp { worker: worker(0) })];
    expected.extend(start(
        0,
        thread(9),
        Session::Fresh(session(0, 1)),
        &[oldest, middle],
    ));
    assert_eq!(script.give(Input::WorkerUp { worker: worker(0) }), expected);
    assert_eq!(script.scheduler.view().queued, 1);
}

#[test]
fn a_busy_scope_does_not_keep_others_out_with_its_backlog() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.arrive(&reply(2, 1));
    script.wait(secs(1));
    let other = mention(3);
    script.arrive(&other);
    script.wait(secs(1));
    let mut expected = start(1, thread(3), Session::Fresh(session(0, 2)), &[other]);
    expected.push(message(0, 1, START + 2, "hi"));
    let (scope, worker) = (thread(1), worker(0));
    expected.push(note(Note::Held { scope, worker }));
    assert_eq!(script.give(answered(0, "hi")), expected);
}

#[test]
fn a_thread_whose_worker_stays_busy_moves_and_its_old_session_is_let_go_once_the_new_one_is_open() {
    let mut script = Script::working(two_workers());
    script.prompt(0, &mention(1));
    script.give(answered(0, "hi"));
    // The other worker has no session, so it takes this one; the next goes to the first worker.
    script.prompt(1, &mention(2));
    script.prompt(2, &mention(3));
    script.give(answered(1, "hi"));
    let moved = reply(4, 1);
    let (scope, worker) = (thread(1), worker(0));
    assert_eq!(script.arrive(&moved), [note(Note::Held { scope, worker })]);
    assert_eq!(script.wait(secs(10) - millis(1)), []);
    let (wait, how) = (secs(10), HoldEnd::Forked);
    let over = Note::HoldEnded {
        scope,
        worker,
        wait,
        how,
    };
    let fresh = Session::Fresh(session(1, 4));
    let mut expected = vec![note(over)];
    expected.extend(start(3, thread(1), fresh, &[moved]));
    assert_eq!(script.wait(millis(1)), expected);
    assert_eq!(
        script.give(opened(3)),
        [Action::CloseSession {
            session: session(0, 1)
        }]
    );
}

#[test]
fn a_worker_with_all_its_sessions_lets_the_least_recently_used_one_go() {
    let limits = Limits {
        sessions_max: 2,
        ..limits()
    };
    let mut script = Script::working(Config { limits, ..config() });
    for turn in 0..2 {
        script.prompt(turn, &mention(u16::try_from(turn).unwrap() + 1));
        script.wait(secs(1));
        script.give(answered(turn, "hi"));
    }
    let third = mention(3);
    let mut expected = start(
        2,
        thread(3),
        Session::Fresh(session(0, 3)),
        std::slice::from_ref(&third),
    );
    expected.insert(
        0,
        Action::CloseSession {
            session: session(0, 1),
        },
    );
    assert_eq!(script.arrive(&third), expected);
}

#[test]
fn a_session_without_work_is_let_go_in_time() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.give(answered(0, "hi"));
    script.give(settled(0, Verdict::Stored));
    assert_eq!(script.wait(secs(45 * 60) - millis(1)), []);
    assert_eq!(
        script.wait(millis(1)),
        [Action::CloseSession {
            session: session(0, 1)
        }]
    );
    assert_eq!(script.scheduler.next_deadline(), None);
}

#[test]
fn a_session_that_is_gone_is_opened_anew_on_the_same_worker_once() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.give(answered(0, "hi"));
    let next = reply(2, 1);
    script.arrive(&next);
    let expected = start(
        2,
        thread(1),
        Session::Fresh(session(0, 2)),
        std::slice::from_ref(&next),
    );
    // The worker gets the same batch again; that it is worked on was told when it first began.
    assert_eq!(script.give(failed(1, OpenCause::Unknown)), expected[3..]);
    script.give(settled(0, Verdict::Stored));
    // The notes tell one story, under the name with which it began.
    let said = script.give(failed(2, OpenCause::Unknown));
    let is_rest = matches!(
        said[..],
        [Action::Note(Note::TurnRetried {
            turn: TurnId(1),
            attempts: 1,
            ..
        })]
    );
    assert!(is_rest, "{said:?}");
    let fresh = Session::Fresh(session(0, 3));
    assert_eq!(script.jump(), again(3, thread(1), fresh, &[next]));
}

#[test]
fn a_session_that_is_refused_frees_the_worker_and_the_events_are_tried_again_after_a_rest() {
    let mut script = Script::working(config());
    let first = mention(1);
    script.arrive(&first);
    let waiting = mention(2);
    script.arrive(&waiting);
    let text = Excerpt::new("log in first");
    let cause = OpenCause::Refused { text: text.clone() };
    let actions = script.give(failed(0, cause));
    let wait = rest_of(&actions);
    assert!(secs(4) <= wait && wait <= secs(6), "{wait:?}");
    let rests = Note::TurnRetried {
        turn: TurnId(0),
        scope: thread(1),
        why: TurnFailure::NoSession { text },
        attempts: 1,
        wait,
    };
    let mut expected = vec![note(rests)];
    expected.extend(start(
        1,
        thread(2),
        Session::Fresh(session(0, 2)),
        &[waiting],
    ));
    assert_eq!(actions, expected);
    script.give(opened(1));
    script.give(answered(1, "hi"));
    let fresh = Session::Fresh(session(0, 3));
    assert_eq!(script.jump(), again(2, thread(1), fresh, &[first]));
}

#[test]
fn a_silent_turn_is_cancelled_and_a_worker_that_does_not_heed_is_ended() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    assert_eq!(script.wait(secs(899)), []);
    assert_eq!(script.give(progressed(0)), []);
    assert_eq!(script.wait(secs(899)), []);
    assert_eq!(script.wait(secs(1)), [cancel(0)]);
    assert_eq!(script.wait(secs(5)), [Action::Kill { worker: worker(0) }]);
    let actions = script.wait(secs(5));
    assert!(
        matches!(actions[0], Action::Note(Note::WorkerDown { .. })),
        "{actions:?}"
    );
    let rests = Note::TurnRetried {
        turn: TurnId(0),
        scope: thread(1),
        why: TurnFailure::Idle,
        attempts: 1,
        wait: rest_of(&actions),
    };
    assert_eq!(actions[1..], [note(rests)]);
}

#[test]
fn a_turn_that_never_ends_is_cancelled_whatever_signs_it_gives() {
    let limits = Limits {
        turn_hard: secs(10),
        turn_idle: secs(8),
        ..limits()
    };
    let mut script = Script::working(Config { limits, ..config() });
    script.prompt(0, &mention(1));
    script.wait(secs(5));
    script.give(progressed(0));
    assert_eq!(script.wait(secs(5)), [cancel(0)]);
    let why = "I could not answer this message: it took too long. You can send it again.";
    let end = TurnEnd::Cancelled;
    let actions = script.give(Input::Finished {
        turn: TurnId(0),
        end,
    });
    assert_eq!(actions, [message(0, 1, START + 10, why)]);
}

#[test]
fn a_session_that_does_not_open_in_time_ends_its_turn() {
    let mut script = Script::working(config());
    script.arrive(&mention(1));
    assert_eq!(script.wait(secs(60)), [cancel(0)]);
    assert_eq!(script.give(opened(0)), [stale(StaleWhat::Turn)]);
    assert_eq!(script.wait(secs(5)), [Action::Kill { worker: worker(0) }]);
}

#[test]
fn the_grace_of_a_turn_cancelled_before_its_prompt_runs_from_its_opening() {
    let mut script = Script::working(config());
    script.arrive(&mention(1));
    script.arrive(&crate::support::command(2, Some(1), "!cancel"));
    assert_eq!(script.wait(secs(50)), []);
    assert_eq!(script.give(opened(0)), []);
    assert_eq!(script.wait(secs(5)), [Action::Kill { worker: worker(0) }]);
}

#[test]
fn what_names_an_ended_turn_changes_nothing() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.give(answered(0, "hi"));
    let before = script.scheduler.view();
    for input in [
        opened(0),
        progressed(0),
        answered(0, "again"),
        failed(0, OpenCause::Unknown),
    ] {
        assert_eq!(script.give(input), [stale(StaleWhat::Turn)]);
    }
    assert_eq!(
        script.give(settled(7, Verdict::Stored)),
        [stale(StaleWhat::Job)]
    );
    assert_eq!(script.scheduler.view(), before);
}

#[test]
fn a_channel_that_is_left_takes_its_events_turns_and_sessions_with_it() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.arrive(&mention(2));
    let state = buzz_proto::relay::ChannelState::Left;
    let want = buzz_proto::schedule::Want::StopAndRotate;
    let expected = [
        note(Note::Controlled {
            scope: thread(1),
            want,
            discarded: 1,
        }),
        note(Note::Left {
            channel: ROOM,
            dropped: 1,
        }),
        left(ROOM, 1),
        crate::support::dispose(2, buzz_proto::relay::Disposal::Discarded),
        cancel(0),
    ];
    assert_eq!(
        script.give(Input::Channel {
            channel: ROOM,
            state
        }),
        expected
    );
    script.give(Input::Finished {
        turn: TurnId(0),
        end: TurnEnd::Cancelled,
    });
    assert_eq!(script.scheduler.view().sessions, 0);
}
