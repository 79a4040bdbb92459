//! Workers: started, replaced, waited for.

use buzz_proto::ids::TurnId;
use buzz_proto::note::{Note, StaleWhat, TurnFailure, TurnOutcome};
use buzz_proto::publish::Verdict;
use buzz_proto::schedule::{Action, Config, DownCause, Input, Limits, Session};
use buzz_proto::wire::Excerpt;

use crate::seen::rest_of;
use crate::support::{
    Script, again, answered, config, crashed, ended, exited, life, limits, mention, millis, note,
    reply, secs, settled, stale, start, thread, worker,
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
    let config = Config {
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
    // The third end within a minute opens the breaker, and so does each end of a worker that tests
    // it.
    let waits = [
        (1, false),
        (2, false),
        (60, true),
        (120, true),
        (240, true),
        (300, true),
    ];
    for (incarnation, (rung, is_open)) in (1..).zip(waits) {
        let worker = life(0, incarnation);
        let actions = script.give(Input::WorkerDown {
            worker,
            cause: cause.clone(),
        });
        let wait = wait_of(&actions);
        let mut expected = vec![note(Note::WorkerDown {
            worker,
            cause: cause.clone(),
            wait: Some(wait),
        })];
        if is_open {
            expected.push(note(Note::BreakerOpened { worker, wait }));
        }
        assert_eq!(actions, expected);
        let least = if is_open { secs(rung) } else { secs(rung) / 2 };
        assert!(least <= wait && wait <= secs(rung), "{wait:?}");
        let next = life(0, incarnation + 1);
        assert_eq!(script.jump(), [Action::Spawn { worker: next }]);
    }
    let worker = life(0, 7);
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
fn a_worker_that_ends_in_a_turn_takes_its_sessions_along_and_the_turn_is_tried_again() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    let actions = script.give(crashed(0));
    let wait = wait_of(&actions);
    let rests = Note::TurnRetried {
        turn: TurnId(0),
        scope: thread(1),
        why: TurnFailure::WorkerGone,
        attempts: 1,
        wait: rest_of(&actions),
    };
    let expected = [
        note(Note::WorkerDown {
            worker: worker(0),
            cause: exited(),
            wait: Some(wait),
        }),
        note(rests),
    ];
    assert_eq!(actions, expected);
    script.arrive(&reply(2, 1));
    script.jump();
    let worker = life(0, 2);
    let up = [note(Note::WorkerUp { worker })];
    assert_eq!(script.give(Input::WorkerUp { worker }), up);
    // The worker may have ended at either event: one is tried at a time.
    let fresh = buzz_proto::schedule::SessionRef { worker, epoch: 2 };
    let fresh = Session::Fresh(fresh);
    assert_eq!(script.jump(), again(1, thread(1), fresh, &[mention(1)]));
    assert_eq!(script.give(answered(0, "late")), [stale(StaleWhat::Turn)]);
}

#[test]
fn a_worker_that_ends_before_it_was_told_of_a_turn_spends_no_attempt() {
    let limits = Limits::default();
    let mut script = Script::working(Config { limits, ..config() });
    // What was said before is still being read.
    script.arrive(&reply(2, 1));

    let actions = script.give(crashed(0));

    let again = Note::TurnRetried {
        turn: TurnId(0),
        scope: thread(1),
        why: TurnFailure::WorkerGone,
        attempts: 0,
        wait: secs(0),
    };
    assert!(actions.contains(&note(again)), "{actions:?}");
}

#[test]
fn workers_that_end_before_they_have_a_prompt_do_not_make_it_poison() {
    let limits = Limits {
        crashes_max: 2,
        ..limits()
    };
    let mut script = Script::working(Config { limits, ..config() });
    script.arrive(&mention(1));
    for incarnation in 1..=3 {
        let (worker, cause) = (life(0, incarnation), exited());
        let ended = script.give(Input::WorkerDown { worker, cause });
        let is_retried = |action: &Action| matches!(action, Action::Note(Note::TurnRetried { .. }));
        assert!(ended.iter().any(is_retried), "{ended:?}");
        let worker = life(0, incarnation + 1);
        while script.scheduler.view().workers_up == 0 {
            script.jump();
            script.give(Input::WorkerUp { worker });
        }
        while script.scheduler.view().running == 0 {
            script.jump();
        }
    }
}

#[test]
fn a_worker_that_ends_in_silence_at_a_resumed_session_may_have_ended_at_the_event() {
    let limits = Limits {
        crashes_max: 1,
        ..limits()
    };
    let mut script = Script::working(Config { limits, ..config() });
    script.prompt(0, &mention(1));
    script.give(answered(0, "hi"));
    script.give(settled(0, Verdict::Stored));
    script.arrive(&reply(2, 1));

    script.give(crashed(0));
    let told = script.give(settled(1, Verdict::Stored));

    let why = TurnFailure::Poisonous;
    let outcome = TurnOutcome::Reported { why };
    assert!(told.contains(&ended(1, thread(1), outcome)), "{told:?}");
}
