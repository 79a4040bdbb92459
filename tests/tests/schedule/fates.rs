//! What is told of an event from its start on, so that it can be kept: that work on it begins, and
//! the one way in which it ends.

use buzz_proto::ids::TurnId;
use buzz_proto::note::{Note, RefusedWhy, TurnFailure, TurnOutcome};
use buzz_proto::publish::Verdict;
use buzz_proto::relay::{ChannelState, Disposal};
use buzz_proto::schedule::{
    Action, Command, Config, Input, Limits, OpenCause, Scheduler, Session, TurnEnd,
};
use buzz_proto::seed::Seed;
use buzz_proto::time::MonoTime;

use crate::support::{
    ME, ROOM, START, Said, Script, answered, begun, command, config, dispose, ended, id, left,
    limits, mention, message, note, posted, reply, secs, session, settled, start, started, thread,
    worker,
};

const GIVEN_UP: &str = "I could not answer this message: I was ended several times while at it. \
                        You can send it again.";

const fn interrupted() -> TurnOutcome {
    let why = TurnFailure::Interrupted;
    TurnOutcome::Reported { why }
}

fn begins(actions: &[Action]) -> Vec<&Action> {
    let is_begun = |action: &&Action| matches!(action, Action::Started { .. });
    actions.iter().filter(is_begun).collect()
}

#[test]
fn work_on_a_batch_is_told_once_with_the_event_that_the_answer_names() {
    let mut script = Script::new(config());
    let dated = |id, before| {
        Said {
            id,
            root: Some(9),
            created_at: START - before,
            ..Said::default()
        }
        .event()
    };
    let (newest, oldest, middle) = (dated(1, 1), dated(2, 3), dated(3, 2));
    for event in [&newest, &oldest, &middle] {
        assert_eq!(script.arrive(event), []);
    }
    let actions = script.give(Input::WorkerUp { worker: worker(0) });
    let expected = Action::Started {
        events: vec![id(2), id(3), id(1)],
        target: id(1),
    };
    assert_eq!(begins(&actions), [&expected]);
    script.give(Input::SessionOpened { turn: TurnId(0) });
    let tags: [&[&str]; 2] = [
        &["e", &id(9).to_string(), "", "root"],
        &["e", &id(1).to_string(), "", "reply"],
    ];
    assert_eq!(
        script.give(answered(0, "hi")),
        [posted(0, START, "hi", &tags)]
    );
}

#[test]
fn work_that_begins_anew_because_its_session_is_gone_is_not_told_again() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.give(answered(0, "hi"));
    let next = reply(2, 1);
    let actions = script.arrive(&next);
    assert_eq!(begins(&actions), [&started(&[next])]);
    let actions = script.give(Input::SessionFailed {
        turn: TurnId(1),
        cause: OpenCause::Unknown,
    });
    assert!(
        matches!(&actions[..], [Action::Start { .. }]),
        "{actions:?}"
    );
}

#[test]
fn an_event_begun_in_three_lives_is_reported_without_a_worker() {
    let mut script = Script::new(config());
    let notice = message(0, 1, START, GIVEN_UP);
    assert_eq!(script.give(begun(&mention(1), 3)), [left(ROOM, 1), notice]);
    let expected = [
        ended(0, thread(1), interrupted()),
        dispose(1, Disposal::Accepted),
    ];
    assert_eq!(script.give(settled(0, Verdict::Stored)), expected);
}

#[test]
fn an_event_begun_in_fewer_lives_is_begun_again() {
    let mut script = Script::working(config());
    let event = mention(1);
    let fresh = Session::Fresh(session(0, 1));
    assert_eq!(
        script.give(begun(&event, 2)),
        start(0, thread(1), fresh, &[event])
    );
}

#[test]
fn in_how_many_lives_work_is_begun_is_a_setting_of_at_least_one() {
    let limited = |lives_max| Config {
        limits: Limits {
            lives_max,
            ..limits()
        },
        ..config()
    };
    let mut script = Script::working(limited(1));
    let notice = message(0, 1, START, GIVEN_UP);
    assert_eq!(script.give(begun(&mention(1), 1)), [left(ROOM, 1), notice]);
    assert!(Scheduler::new(limited(0), ME, Seed(7), MonoTime::ZERO).is_err());
}

#[test]
fn without_notices_an_event_begun_too_often_is_noted_at_once() {
    let mut script = Script::new(Config {
        notices: false,
        ..config()
    });
    let why = TurnFailure::Interrupted;
    let expected = [
        left(ROOM, 1),
        ended(0, thread(1), TurnOutcome::Unreported { why }),
        dispose(1, Disposal::Accepted),
    ];
    assert_eq!(script.give(begun(&mention(1), 3)), expected);
}

#[test]
fn an_event_begun_too_often_is_still_judged_like_any_other() {
    let mut script = Script::new(config());
    let said = Said {
        mentions: false,
        ..Said::default()
    };
    let refused = Note::Refused {
        event: id(1),
        why: RefusedWhy::NoMention,
    };
    let expected = [
        note(refused),
        left(ROOM, 1),
        dispose(1, Disposal::Discarded),
    ];
    assert_eq!(script.give(begun(&said.event(), 3)), expected);
}

#[test]
fn an_event_begun_too_often_that_comes_during_the_end_is_handed_back() {
    let mut script = Script::working(config());
    script.give(Input::Command(Command::Shutdown { grace: secs(30) }));
    let back = Note::HandedBack {
        scope: thread(1),
        count: 1,
    };
    assert_eq!(
        script.give(begun(&mention(1), 3)),
        [note(back), left(ROOM, 1)]
    );
}

#[test]
fn a_report_that_the_end_cuts_short_is_handed_back() {
    let mut script = Script::working(config());
    script.give(begun(&mention(1), 3));
    script.give(Input::Command(Command::Shutdown { grace: secs(30) }));
    let back = Note::HandedBack {
        scope: thread(1),
        count: 1,
    };
    assert_eq!(script.give(settled(0, Verdict::Cancelled)), [note(back)]);
}

#[test]
fn a_report_that_finds_no_room_is_refused_for_now() {
    let mut script = Script::new(config());
    for n in 0..256 {
        let [_, Action::Publish(_)] = &script.give(begun(&mention(n), 3))[..] else {
            panic!("no notice for event {n}");
        };
    }
    let expected = [left(ROOM, 1), dispose(256, Disposal::RefusedForNow)];
    assert_eq!(script.give(begun(&mention(256), 3)), expected);
    script.give(settled(0, Verdict::Stored));
    let [_, Action::Publish(_)] = &script.give(begun(&mention(256), 3))[..] else {
        panic!("no notice, though there is room");
    };
}

#[test]
fn each_event_of_a_batch_ends_with_the_one_verdict_on_the_answer() {
    let mut script = Script::new(config());
    let batch = [reply(2, 1), reply(3, 1)];
    for event in &batch {
        script.arrive(event);
    }
    script.give(Input::WorkerUp { worker: worker(0) });
    script.give(answered(0, "hi"));
    let expected = [
        ended(0, thread(1), TurnOutcome::Answered),
        dispose(2, Disposal::Accepted),
        dispose(3, Disposal::Accepted),
    ];
    assert_eq!(script.give(settled(0, Verdict::Stored)), expected);
}

#[test]
fn what_is_at_work_when_its_channel_is_left_is_discarded_with_the_end_of_its_turn() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.give(Input::Channel {
        channel: ROOM,
        state: ChannelState::Left,
    });
    let actions = script.give(Input::Finished {
        turn: TurnId(0),
        end: TurnEnd::Cancelled,
    });
    let expected = [
        ended(0, thread(1), TurnOutcome::Discarded),
        dispose(1, Disposal::Discarded),
    ];
    assert_eq!(actions[1..], expected);
}

#[test]
fn a_stop_discards_what_is_at_work_and_leaves_what_waits() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    let waiting = reply(2, 1);
    script.arrive(&waiting);
    script.arrive(&command(3, Some(1), "!cancel"));
    let mut expected = vec![
        ended(0, thread(1), TurnOutcome::Discarded),
        dispose(1, Disposal::Discarded),
    ];
    let resumed = Session::Resume(session(0, 1));
    expected.extend(start(1, thread(1), resumed, &[waiting]));
    assert_eq!(script.give(answered(0, "too late")), expected);
}
