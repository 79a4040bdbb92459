//! Workers: started, replaced, waited for.

use buzz_proto::note::{Note, StaleWhat};
use buzz_proto::schedule::{Action, DownCause, Input, Session};
use buzz_proto::wire::Excerpt;

use crate::support::{
    START, Script, answered, config, crashed, exited, life, mention, message, millis, note, reply,
    secs, session, stale, start, thread, worker,
};

/// The wait that a note of a worker's end announces.
fn wait_of(actions: &[Action]) -> std::time::Duration {
    let waits = actions.iter().find_map(|action| {
        let Action::Note(Note::WorkerDown { wait, .. }) = action else {
            return None;
        };
        *wait
    });
    waits.expect("a note of a worker's end")
}

#[test]
fn every_slot_gets_a_worker_at_the_first_input() {
    let config = buzz_proto::schedule::Config {
        workers: 2,
        ..config()
    };
    let seed = buzz_proto::seed::Seed(7);
    let now = buzz_proto::time::MonoTime::ZERO;
    let scheduler = buzz_proto::schedule::Scheduler::new(config, crate::support::ME, seed, now);
    let actions = scheduler
        .expect("the settings work")
        .handle_input(Input::Tick, now);
    let expected = [
        Action::Spawn { worker: worker(0) },
        Action::Spawn { worker: worker(1) },
        Action::WakeAt(Some(now.after(secs(60)))),
    ];
    assert_eq!(actions, expected);
}

#[test]
fn work_waits_for_a_worker_that_cannot_start_and_each_wait_is_longer() {
    let mut script = Script::new(config());
    let event = mention(1);
    assert_eq!(script.arrive(&event), []);
    let cause = DownCause::CannotStart {
        text: Excerpt::new("no such file"),
    };
    for (incarnation, rung) in (1..=8).zip([1, 2, 4, 8, 16, 32, 60, 60]) {
        let worker = life(0, incarnation);
        let actions = script.give(Input::WorkerDown {
            worker,
            cause: cause.clone(),
        });
        let wait = wait_of(&actions);
        assert_eq!(
            actions,
            [note(Note::WorkerDown {
                worker,
                cause: cause.clone(),
                wait: Some(wait),
            })]
        );
        assert!(secs(rung) / 2 <= wait && wait <= secs(rung), "{wait:?}");
        let next = life(0, incarnation + 1);
        assert_eq!(script.jump(), [Action::Spawn { worker: next }]);
    }
    let worker = life(0, 9);
    let mut expected = vec![note(Note::WorkerUp { worker })];
    let fresh = buzz_proto::schedule::SessionRef { worker, epoch: 1 };
    expected.extend(start(0, thread(1), Session::Fresh(fresh), &[event]));
    assert_eq!(script.give(Input::WorkerUp { worker }), expected);
}

#[test]
fn a_finished_turn_brings_the_waits_back_to_the_first() {
    let mut script = Script::new(config());
    for incarnation in 1..5 {
        let worker = life(0, incarnation);
        script.give(Input::WorkerDown {
            worker,
            cause: exited(),
        });
        script.jump();
    }
    let worker = life(0, 5);
    script.give(Input::WorkerUp { worker });
    script.prompt(0, &mention(1));
    script.give(answered(0, "hi"));
    let actions = script.give(Input::WorkerDown {
        worker,
        cause: exited(),
    });
    assert!(wait_of(&actions) <= secs(1));
}

#[test]
fn a_start_that_takes_too_long_is_ended_and_one_that_does_not_even_end_counts_as_gone() {
    let mut script = Script::new(config());
    assert_eq!(script.wait(secs(60) - millis(1)), []);
    assert_eq!(script.wait(millis(1)), [Action::Kill { worker: worker(0) }]);
    assert_eq!(
        script.give(Input::WorkerUp { worker: worker(0) }),
        [stale(StaleWhat::Worker)]
    );
    let actions = script.wait(secs(5));
    let wait = wait_of(&actions);
    let down = Note::WorkerDown {
        worker: worker(0),
        cause: DownCause::Killed,
        wait: Some(wait),
    };
    assert_eq!(actions, [note(down)]);
    assert_eq!(script.give(crashed(0)), [stale(StaleWhat::Worker)]);
    assert_eq!(script.jump(), [Action::Spawn { worker: life(0, 2) }]);
}

#[test]
fn a_worker_that_ends_in_a_turn_takes_its_sessions_along_and_the_turn_is_reported() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    let actions = script.give(crashed(0));
    let wait = wait_of(&actions);
    let why =
        "I could not answer this message: the worker ended while at it. You can send it again.";
    let expected = [
        note(Note::WorkerDown {
            worker: worker(0),
            cause: exited(),
            wait: Some(wait),
        }),
        message(0, 1, START, why),
    ];
    assert_eq!(actions, expected);
    let next = reply(2, 1);
    script.arrive(&next);
    script.jump();
    let worker = life(0, 2);
    let mut expected = vec![note(Note::WorkerUp { worker })];
    let fresh = buzz_proto::schedule::SessionRef { worker, epoch: 2 };
    expected.extend(start(1, thread(1), Session::Fresh(fresh), &[next]));
    assert_eq!(script.give(Input::WorkerUp { worker }), expected);
    assert_eq!(script.give(answered(0, "late")), [stale(StaleWhat::Turn)]);
    assert_ne!(session(0, 1), fresh);
}
