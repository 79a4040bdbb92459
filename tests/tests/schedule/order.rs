//! Who goes first, who waits, and what sets waiting work free.

use std::collections::BTreeMap;

use buzz_proto::ids::TurnId;
use buzz_proto::note::Note;
use buzz_proto::publish::{self, Body, Verdict};
use buzz_proto::schedule::{
    Action, Command, Config, FailureClass, Input, OpenCause, Scope, Session, Target, TurnEnd, Want,
};

use crate::seen::{rest_of, starts_of};
use crate::support::{
    Script, answered, command, config, exited, failed, id, life, mention, millis, reply, secs,
    session, settled, thread, two_workers, worker,
};

#[test]
fn two_hundred_scopes_on_four_workers_are_served_in_the_order_of_their_oldest_event() {
    let mut script = Script::working(Config {
        workers: 4,
        ..config()
    });
    let mut begun = Vec::new();
    for n in 1..=200 {
        begun.extend(starts_of(&script.arrive(&mention(n))));
        script.wait(millis(1));
    }
    let mut served: Vec<Scope> = Vec::new();
    while let Some((turn, scope, _)) = begun.first().copied() {
        begun.remove(0);
        served.push(scope);
        script.give(Input::SessionOpened { turn });
        begun.extend(starts_of(&script.give(answered(turn.0, "hi"))));
    }
    let expected: Vec<Scope> = (1..=200).map(thread).collect();
    assert_eq!(served, expected);
}

#[test]
fn a_scope_that_never_falls_silent_delays_another_by_one_turn_at_most() {
    let mut script = Script::working(config());
    let mut begun = starts_of(&script.arrive(&mention(1)));
    let mut turns: BTreeMap<Scope, u32> = BTreeMap::new();
    script.wait(millis(1));
    script.arrive(&mention(2));
    for n in 3..20 {
        script.arrive(&reply(n, 1));
        let (turn, scope, _) = begun.remove(0);
        *turns.entry(scope).or_default() += 1;
        script.give(Input::SessionOpened { turn });
        script.wait(millis(1));
        begun.extend(starts_of(&script.give(answered(turn.0, "hi"))));
        if turns.contains_key(&thread(2)) {
            break;
        }
    }
    assert_eq!(turns[&thread(1)], 1);
}

#[test]
fn no_turn_starts_while_the_outbox_is_half_full_and_the_next_verdict_sets_work_free() {
    let mut script = Script::working(config());
    script.give(Input::Outbox { is_half_full: true });
    assert_eq!(script.arrive(&mention(1)), []);
    let begun = script.give(Input::Outbox {
        is_half_full: false,
    });
    assert_eq!(starts_of(&begun).len(), 1);
}

#[test]
fn no_turn_starts_while_too_many_answers_wait_for_their_verdict() {
    let mut script = Script::working(config());
    for n in 0..256 {
        script.prompt(u64::from(n), &mention(n));
        script.give(answered(u64::from(n), "hi"));
    }

    assert_eq!(script.arrive(&mention(256)), []);
    let freed = script.give(settled(0, Verdict::Stored));

    assert_eq!(starts_of(&freed).len(), 1);
}

#[test]
fn a_hold_that_runs_out_behind_a_full_outbox_is_over_when_there_is_room() {
    let mut script = Script::working(two_workers());
    script.prompt(0, &mention(1));
    script.give(answered(0, "hi"));
    script.prompt(1, &mention(2));
    // The first worker is taken by another thread: which one has the session of the first?
    let home = session(0, 1).worker;
    let mut busy = home == worker(1);
    if !busy {
        script.prompt(2, &mention(3));
        busy = true;
    }
    assert!(busy);
    script.give(Input::Outbox { is_half_full: true });
    script.arrive(&reply(4, 1));
    script.wait(secs(3600));
    script.give(answered(1, "hi"));
    let begun = script.give(Input::Outbox {
        is_half_full: false,
    });
    assert_eq!(starts_of(&begun).len(), 1);
}

#[test]
fn a_batch_between_two_attempts_is_stopped_as_one_that_runs() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.give(failed(0, FailureClass::Transient));
    script.arrive(&reply(2, 1));

    let told = script.arrive(&command(3, Some(1), "!cancel"));

    let (scope, want, discarded) = (thread(1), Want::Stop, 1);
    assert!(told.contains(&Action::Note(Note::Controlled {
        scope,
        want,
        discarded
    })));
    // What came later is not part of that batch, and need not rest.
    assert_eq!(starts_of(&told).len(), 1);
    assert_eq!(script.scheduler.view().queued, 0);
}

#[test]
fn a_session_in_which_nothing_moved_before_the_failure_is_given_up_and_another_is_tried_twice() {
    for (has_sign, resumes) in [(false, 0), (true, 1)] {
        let mut script = Script::working(config());
        script.prompt(0, &mention(1));
        let mut turn = TurnId(0);
        let mut resumed = 0;
        for _ in 0..3 {
            if has_sign {
                script.give(Input::Progressed { turn });
            }
            script.give(failed(turn.0, FailureClass::Transient));
            let begun = loop {
                let begun = starts_of(&script.jump());
                if !begun.is_empty() {
                    break begun;
                }
            };
            turn = begun[0].0;
            match begun[0].2 {
                Session::Resume(_) => resumed += 1,
                Session::Fresh(_) => break,
            }
            script.give(Input::SessionOpened { turn });
        }
        assert_eq!(resumed, resumes);
    }
}

#[test]
fn renewed_workers_take_up_what_ran_and_no_attempt_was_spent() {
    let mut script = Script::working(two_workers());
    script.prompt(0, &mention(1));

    let told = script.give(Input::Command(Command::Renew));
    let idle = Action::Kill { worker: worker(1) };
    let busy = Action::CancelTurn { turn: TurnId(0) };
    assert!(told.contains(&idle) && told.contains(&busy), "{told:?}");
    let end = TurnEnd::Cancelled;
    let turn = TurnId(0);
    let told = script.give(Input::Finished { turn, end });
    assert_eq!(rest_of(&told), secs(0));
    assert!(told.contains(&Action::Kill { worker: worker(0) }));
    // Each is replaced at once, without a rest.
    for slot in 0..2 {
        let worker = worker(slot);
        let cause = exited();
        let told = script.give(Input::WorkerDown { worker, cause });
        assert!(told.contains(&Action::Spawn {
            worker: life(slot, 2)
        }));
    }
    let worker = life(0, 2);
    let begun = script.give(Input::WorkerUp { worker });
    assert_eq!(starts_of(&begun).len(), 1);
}

#[test]
fn the_one_event_at_which_workers_end_is_found_out_and_all_others_are_answered() {
    let poison = 4;
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    for n in 2..=6 {
        script.arrive(&reply(n, 1));
    }
    let mut incarnation = 1;
    let mut told = script.give(answered(0, "hi"));
    let mut poisoned = Vec::new();
    let mut batches = Vec::new();
    for _ in 0..40 {
        let mut at = 0;
        while let Some(action) = told.get(at).cloned() {
            at += 1;
            if let Action::Started { events, .. } = &action {
                batches.push(events.clone());
            }
            if let Action::Publish(publish::Command::Submit { job, .. }) = action {
                let verdict = Verdict::Stored;
                told.extend(script.give(Input::Settled { job, verdict }));
            }
        }
        poisoned.extend(
            told.iter()
                .filter(|action| is_poison_notice(action))
                .cloned(),
        );
        told = match starts_of(&told).first() {
            Some((turn, ..)) => {
                script.give(Input::SessionOpened { turn: *turn });
                let batch = batches.last().expect("a batch");
                if batch.contains(&id(poison)) {
                    let worker = life(0, incarnation);
                    let cause = exited();
                    incarnation += 1;
                    script.give(Input::WorkerDown { worker, cause })
                } else {
                    script.give(answered(turn.0, "hi"))
                }
            }
            None if script.scheduler.view().workers_up == 0 => {
                script.jump();
                let worker = life(0, incarnation);
                script.give(Input::WorkerUp { worker })
            }
            None if script.scheduler.view().queued == 0 => break,
            None => script.jump(),
        };
    }
    assert_eq!(script.scheduler.view().queued, 0);
    assert_eq!(poisoned.len(), 1);
    let with_it = batches.iter().filter(|batch| batch.contains(&id(poison)));
    assert_eq!(with_it.count(), 3);
    assert!(batches[1..].iter().all(|batch| batch.len() == 1));
}

#[test]
fn a_batch_that_goes_back_has_the_place_of_its_oldest_event() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.wait(secs(1));
    script.arrive(&mention(2));
    script.wait(secs(1));
    script.arrive(&reply(3, 1));

    script.give(failed(0, FailureClass::UsageLimit { until: None }));
    let begun = starts_of(&script.wait(secs(40 * 60)));

    assert_eq!(begun[0].1, thread(1));
}

#[test]
fn a_turn_that_tries_after_a_usage_limit_goes_on_trying_where_its_session_is_gone() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.give(answered(0, "hi"));
    script.prompt(1, &reply(2, 1));
    script.give(failed(1, FailureClass::UsageLimit { until: None }));
    let tries = starts_of(&script.wait(secs(40 * 60)));
    assert!(matches!(tries[..], [(TurnId(2), _, Session::Resume(_))]));

    let (turn, cause) = (TurnId(2), OpenCause::Unknown);
    let anew = starts_of(&script.give(Input::SessionFailed { turn, cause }));
    assert!(matches!(anew[..], [(TurnId(3), _, Session::Fresh(_))]));
    script.give(Input::SessionOpened { turn: TurnId(3) });
    let told = script.give(answered(3, "hi"));

    assert!(told.contains(&Action::Note(Note::UsageRestored)));
}

#[test]
fn a_rotation_gives_up_the_session_of_a_thread_that_is_about_to_leave_it() {
    let mut script = Script::working(two_workers());
    script.prompt(0, &mention(1));
    script.prompt(1, &mention(2));
    script.give(answered(0, "hi"));
    script.prompt(2, &mention(3));
    // The first thread has its session beside the third, and waits there in vain.
    script.arrive(&reply(4, 1));
    script.give(answered(1, "hi"));
    let moved = starts_of(&script.wait(secs(10)));
    let (turn, scope, fresh) = moved[0];
    assert_eq!((scope, fresh.reference().worker), (thread(1), worker(1)));

    let (target, want) = (Target::Scope(scope), Want::StopAndRotate);
    script.give(Input::Command(Command::Control { target, want }));
    let end = TurnEnd::Cancelled;
    let ended = script.give(Input::Finished { turn, end });

    let session = session(0, 1);
    assert!(ended.contains(&Action::CloseSession { session }));
    let next = starts_of(&script.arrive(&reply(5, 1)));
    assert!(matches!(next[..], [(_, _, Session::Fresh(_))]));
}

fn is_poison_notice(action: &Action) -> bool {
    let Action::Publish(publish::Command::Submit { body, .. }) = action else {
        return false;
    };
    matches!(body, Body::SignWhenSent(draft) if draft.content.contains("several workers ended"))
}
