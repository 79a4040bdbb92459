//! What people see on their messages while they wait.

use buzz_proto::ids::TurnId;
use buzz_proto::note::Note;
use buzz_proto::publish::{Mark, Verdict};
use buzz_proto::relay::Disposal;
use buzz_proto::schedule::{
    Action, Command, Config, DownCause, FailureClass, Input, Limits, Target, Want,
};

use crate::seen::{marks_of, starts_of};
use crate::support::{
    ROOM, Said, Script, answered, command, config, dispose, failed, id, life, limits, mention,
    millis, reply, secs, settled, thread, worker,
};

fn marked() -> Config {
    Config {
        marks: true,
        ..config()
    }
}

#[test]
fn a_message_bears_the_mark_of_being_seen_from_its_admission_to_its_outcome() {
    let mut script = Script::working(marked());

    let seen = script.arrive(&mention(1));
    script.give(Input::SessionOpened { turn: TurnId(0) });
    let said = script.give(answered(0, "hi"));
    let over = script.give(settled(0, Verdict::Stored));

    assert_eq!(marks_of(&seen), [(id(1), Some(Mark::Seen))]);
    assert_eq!(marks_of(&said), []);
    assert_eq!(marks_of(&over), [(id(1), None)]);
}

#[test]
fn what_is_refused_or_obeyed_bears_no_mark() {
    let mut script = Script::working(marked());
    let aside = Said {
        mentions: false,
        ..Said::default()
    };
    assert_eq!(marks_of(&script.arrive(&aside.event())), []);
    assert_eq!(marks_of(&script.arrive(&command(2, None, "!cancel"))), []);
}

#[test]
fn a_message_that_waits_for_a_minute_shows_it_one_in_each_conversation() {
    let mut script = Script::working(marked());
    script.arrive(&mention(1));
    script.give(Input::SessionOpened { turn: TurnId(0) });
    for n in [2, 3] {
        script.arrive(&reply(n, 1));
    }
    script.arrive(&mention(4));

    assert_eq!(marks_of(&script.wait(secs(60) - millis(1))), []);
    let shown = script.wait(millis(1));
    assert_eq!(marks_of(&script.wait(secs(300))), []);

    let waiting = Some(Mark::Waiting);
    assert_eq!(marks_of(&shown), [(id(2), waiting), (id(4), waiting)]);
}

#[test]
fn a_message_that_rests_between_two_attempts_waits_too() {
    let mut script = Script::working(marked());
    script.arrive(&mention(1));
    script.give(Input::SessionOpened { turn: TurnId(0) });
    let until = None;
    script.give(failed(0, FailureClass::UsageLimit { until }));
    let shown = script.wait(secs(60));
    assert_eq!(marks_of(&shown), [(id(1), Some(Mark::Waiting))]);
}

#[test]
fn what_is_discarded_or_handed_back_does_not_go_on_bearing_a_mark() {
    let mut script = Script::working(marked());
    script.arrive(&mention(1));
    script.arrive(&reply(2, 1));
    let state = buzz_proto::relay::ChannelState::Left;
    let channel = ROOM;
    let left = script.give(Input::Channel { channel, state });
    assert_eq!(marks_of(&left), [(id(2), None)]);

    let mut script = Script::new(marked());
    script.arrive(&mention(1));
    let grace = secs(1);
    let mut told = script.give(Input::Command(Command::Shutdown { grace }));
    while !script.scheduler.view().is_ended {
        told.extend(script.jump());
    }
    assert_eq!(marks_of(&told), [(id(1), None)]);
    assert!(told.contains(&Action::Ended));
}

#[test]
fn a_usage_limit_is_told_once_in_each_conversation_that_met_it() {
    let mut script = Script::working(Config {
        workers: 2,
        ..config()
    });
    for (turn, n) in [(0, 1), (1, 2)] {
        script.prompt(turn, &mention(n));
    }
    let usage = FailureClass::UsageLimit { until: None };
    let said = |actions: &[Action]| {
        let is_said = |action: &&Action| {
            matches!(
                action,
                Action::Publish(buzz_proto::publish::Command::Submit { .. })
            )
        };
        actions.iter().filter(is_said).count()
    };

    assert_eq!(said(&script.give(failed(0, usage))), 1);
    assert_eq!(said(&script.give(failed(1, usage))), 1);
    script.give(settled(0, Verdict::Stored));
    script.give(settled(1, Verdict::Stored));
    assert_eq!(script.arrive(&mention(3)), []);
    // After the wait one turn tries; it meets the limit again, and nobody is told twice.
    let tried = script.wait(secs(30 * 60 + 60));
    let starts = starts_of(&tried);
    assert_eq!(starts.len(), 1);
    script.give(Input::SessionOpened { turn: starts[0].0 });
    assert_eq!(said(&script.give(failed(starts[0].0.0, usage))), 0);
}

#[test]
fn after_a_usage_limit_one_turn_tries_and_its_answer_lets_the_others_start() {
    let mut script = Script::working(Config {
        workers: 2,
        ..config()
    });
    script.prompt(0, &mention(1));
    let until = Some(buzz_proto::time::UnixTime(crate::support::START + 7200));
    let told = script.give(failed(0, FailureClass::UsageLimit { until }));
    let is_limit = |action: &Action| {
        matches!(action, Action::Note(Note::UsageLimited { until: named, wait })
            if *named == until && *wait >= secs(7200) && *wait <= secs(7260))
    };
    assert!(told.iter().any(is_limit), "{told:?}");
    for n in [2, 3] {
        assert_eq!(script.arrive(&mention(n)), []);
    }

    assert_eq!(starts_of(&script.wait(secs(7200))), []);
    let tried = starts_of(&script.wait(secs(60)));
    assert_eq!(tried.len(), 1);
    script.give(Input::SessionOpened { turn: tried[0].0 });
    let restored = script.give(answered(tried[0].0.0, "hi"));

    assert!(restored.contains(&Action::Note(Note::UsageRestored)));
    assert_eq!(starts_of(&restored).len(), 2);
}

#[test]
fn a_usage_limit_is_not_told_where_answers_have_no_room_left() {
    let limits = Limits {
        total_max: 2000,
        channel_max: 2000,
        ..limits()
    };
    let mut script = Script::working(Config { limits, ..config() });
    script.prompt(0, &mention(1));
    script.give(failed(0, FailureClass::UsageLimit { until: None }));
    for n in 2..1000 {
        script.arrive(&mention(n));
    }

    script.wait(secs(60));

    assert_eq!(script.scheduler.view().answering, 256);
}

#[test]
fn a_limit_that_a_stopped_turn_meets_is_one_for_all() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.arrive(&mention(2));
    let (target, want) = (Target::Scope(thread(1)), Want::Stop);
    script.give(Input::Command(Command::Control { target, want }));

    let ended = script.give(failed(0, FailureClass::UsageLimit { until: None }));

    assert!(ended.contains(&dispose(1, Disposal::Discarded)));
    assert_eq!(starts_of(&ended), []);
    assert!(script.scheduler.view().is_usage_limited);
}

#[test]
fn another_kind_of_worker_need_not_wait_for_the_end_of_a_usage_limit() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.give(failed(0, FailureClass::UsageLimit { until: None }));

    script.give(Input::Command(Command::Renew));
    script.give(Input::WorkerDown {
        worker: worker(0),
        cause: DownCause::Killed,
    });
    let ready = script.give(Input::WorkerUp { worker: life(0, 2) });

    assert_eq!(starts_of(&ready).len(), 1);
}

#[test]
fn who_waits_since_before_a_usage_limit_is_told_of_it_too() {
    let mut script = Script::working(marked());
    script.prompt(0, &mention(1));
    script.arrive(&mention(2));
    script.wait(secs(60));

    script.give(failed(0, FailureClass::UsageLimit { until: None }));

    assert_eq!(script.scheduler.view().answering, 2);
}

#[test]
fn what_waits_behind_a_marked_message_that_is_stopped_is_marked_in_its_turn() {
    let mut script = Script::working(marked());
    script.prompt(0, &mention(1));
    script.give(failed(0, FailureClass::Transient));
    script.prompt(1, &mention(2));
    let waiting = Some(Mark::Waiting);
    assert_eq!(marks_of(&script.wait(secs(60))), [(id(1), waiting)]);
    script.arrive(&reply(3, 1));
    let (target, want) = (Target::Scope(thread(1)), Want::Stop);
    let stopped = script.give(Input::Command(Command::Control { target, want }));
    assert_eq!(marks_of(&stopped), [(id(1), None)]);

    assert_eq!(marks_of(&script.wait(secs(60))), [(id(3), waiting)]);
}

#[test]
fn a_usage_limit_after_another_one_is_told_again() {
    let mut script = Script::working(config());
    let usage = FailureClass::UsageLimit { until: None };
    script.prompt(0, &mention(1));
    script.give(failed(0, usage));
    script.give(settled(0, Verdict::Stored));
    let tried = starts_of(&script.wait(secs(40 * 60)));
    script.give(Input::SessionOpened { turn: tried[0].0 });
    script.give(answered(tried[0].0.0, "hi"));
    script.give(settled(1, Verdict::Stored));
    assert_eq!(script.scheduler.view().answering, 0);

    script.prompt(2, &reply(2, 1));
    script.give(failed(2, usage));

    assert_eq!(script.scheduler.view().answering, 1);
}
