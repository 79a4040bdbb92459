//! The end: what runs may finish, what waits is handed back, and it comes in time.

use buzz_proto::note::{Note, TurnFailure, TurnOutcome};
use buzz_proto::publish::Verdict;
use buzz_proto::relay::Disposal;
use buzz_proto::schedule::{Action, Command, Config, DownCause, Input, Limits, Want};

use crate::support::{
    ROOM, START, Script, answered, cancel, command, config, dispose, ended, left, limits, mention,
    message, note, reply, secs, settled, thread, two_workers, worker,
};

fn shutdown(grace: u64) -> Input {
    Input::Command(Command::Shutdown { grace: secs(grace) })
}

fn killed(slot: u16) -> Input {
    Input::WorkerDown {
        worker: worker(slot),
        cause: DownCause::Killed,
    }
}

/// One event of a thread is handed back.
fn back(root: u16) -> Action {
    note(Note::HandedBack {
        scope: thread(root),
        count: 1,
    })
}

fn is_down(action: &Action) -> bool {
    matches!(action, Action::Note(Note::WorkerDown { .. }))
}

#[test]
fn a_running_turn_may_finish_and_what_waits_is_handed_back() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.arrive(&mention(2));
    let expected = [back(2), left(ROOM, 1)];
    assert_eq!(script.give(shutdown(30)), expected);
    let kill = Action::Kill { worker: worker(0) };
    assert_eq!(
        script.give(answered(0, "hi")),
        [kill, message(0, 1, START, "hi")]
    );
    let actions = script.give(killed(0));
    assert!(
        matches!(&actions[..], [down] if is_down(down)),
        "{actions:?}"
    );
    let expected = [
        ended(0, thread(1), TurnOutcome::Answered),
        dispose(1, Disposal::Accepted),
        Action::Ended,
    ];
    assert_eq!(script.give(settled(0, Verdict::Stored)), expected);
    assert_eq!(script.scheduler.next_deadline(), None);
}

#[test]
fn what_arrives_during_the_end_is_handed_back() {
    let mut script = Script::working(config());
    script.give(shutdown(30));
    let expected = [back(1), left(ROOM, 1)];
    assert_eq!(script.arrive(&mention(1)), expected);
    script.give(killed(0));
    assert!(script.scheduler.view().is_ended);
    assert_eq!(script.arrive(&mention(1)), expected);
}

#[test]
fn a_turn_that_does_not_finish_in_time_is_cut_and_handed_back() {
    let mut script = Script::working(two_workers());
    script.prompt(0, &mention(1));
    script.prompt(1, &mention(2));
    script.give(answered(1, "hi"));
    script.give(shutdown(30));
    script.give(killed(1));
    // Said at once, for the worker may take longer to go than there is time.
    let expected = [back(1), cancel(0), Action::Kill { worker: worker(0) }];
    assert_eq!(script.wait(secs(30)), expected);
    let actions = script.wait(secs(5));
    assert!(is_down(&actions[0]), "{actions:?}");
    assert_eq!(actions[1..], [Action::Ended]);
    assert_eq!(script.give(settled(0, Verdict::Cancelled)), [back(2)]);
}

/// A scheduler that has ended while the first message of its answer was under way.
fn ended_while_answering(config: Config, reply: &str) -> Script {
    let mut script = Script::working(config);
    script.prompt(0, &mention(1));
    script.give(answered(0, reply));
    script.give(shutdown(30));
    script.give(killed(0));
    assert_eq!(script.wait(secs(30)), [Action::Ended]);
    assert_eq!(script.scheduler.next_deadline(), None);
    script
}

#[test]
fn a_message_under_way_at_the_end_has_the_outcome_that_its_verdict_tells() {
    let why = |verdict| TurnFailure::NotStored { verdict };
    let unreported = |verdict| TurnOutcome::Unreported { why: why(verdict) };
    let cases = [
        (Verdict::Stored, TurnOutcome::Answered),
        (Verdict::Evicted, unreported(Verdict::Evicted)),
        (Verdict::Expired, unreported(Verdict::Expired)),
    ];
    for (verdict, outcome) in cases {
        let mut script = ended_while_answering(config(), "hi");
        let expected = [ended(0, thread(1), outcome), dispose(1, Disposal::Accepted)];
        assert_eq!(script.give(settled(0, verdict)), expected);
        assert_eq!(script.scheduler.view().answering, 0);
    }
}

#[test]
fn an_answer_that_waits_behind_a_message_under_way_at_the_end_is_handed_back() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.give(answered(0, "hi"));
    script.prompt(1, &reply(2, 1));
    script.give(answered(1, "more"));
    script.give(shutdown(30));
    script.give(killed(0));
    assert_eq!(script.wait(secs(30)), [back(1), Action::Ended]);
    let expected = [
        ended(0, thread(1), TurnOutcome::Answered),
        dispose(1, Disposal::Accepted),
    ];
    assert_eq!(script.give(settled(0, Verdict::Stored)), expected);
}

#[test]
fn an_answer_whose_other_parts_the_end_cuts_off_is_handed_back_once() {
    let limits = Limits {
        message_bytes_max: 256,
        ..limits()
    };
    let parts = format!("{}\n{}", "a".repeat(200), "b".repeat(200));
    let mut script = ended_while_answering(Config { limits, ..config() }, &parts);
    assert_eq!(script.give(settled(0, Verdict::Stored)), [back(1)]);
    assert_eq!(script.scheduler.view().answering, 0);
}

#[test]
fn an_answer_that_the_end_of_the_publisher_cuts_short_is_handed_back() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.give(answered(0, "hi"));
    script.give(shutdown(30));
    script.give(killed(0));
    let expected = [back(1), Action::Ended];
    assert_eq!(script.give(settled(0, Verdict::Cancelled)), expected);
}

#[test]
fn a_message_whose_answer_the_end_did_not_wait_for_is_handed_back() {
    for verdict in [Verdict::Unknown, Verdict::Cancelled] {
        let mut script = ended_while_answering(config(), "hi");
        assert_eq!(script.give(settled(0, verdict)), [back(1)]);
        assert_eq!(script.scheduler.view().answering, 0);
    }
}

#[test]
fn what_its_owner_stopped_is_discarded_and_not_handed_back_even_where_the_end_cuts_it() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.arrive(&command(2, Some(1), "!cancel"));
    let expected = [
        ended(0, thread(1), TurnOutcome::Discarded),
        dispose(1, Disposal::Discarded),
        Action::Kill { worker: worker(0) },
    ];
    script.give(shutdown(1));
    assert_eq!(script.wait(secs(1)), expected);
    let actions = script.give(killed(0));
    assert!(
        matches!(&actions[..], [down, Action::Ended] if is_down(down)),
        "{actions:?}"
    );
}

#[test]
fn a_turn_that_was_cut_finds_no_other_end() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.give(shutdown(1));
    script.wait(secs(1));
    let want = Want::StopAndRotate;
    let expected = [
        left(ROOM, 1),
        dispose(2, Disposal::Accepted),
        note(Note::NothingToControl { want }),
    ];
    assert_eq!(script.arrive(&command(2, Some(1), "!rotate")), expected);
    assert_eq!(script.give(answered(0, "late")), []);
}

#[test]
fn the_shorter_of_two_graces_holds() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.give(shutdown(30));
    script.give(shutdown(10));
    script.give(shutdown(60));
    assert_eq!(
        script.wait(secs(10)),
        [back(1), cancel(0), Action::Kill { worker: worker(0) }]
    );
    assert_eq!(script.give(shutdown(1)), []);
    script.give(killed(0));
    assert!(script.scheduler.view().is_ended);
    assert_eq!(script.give(shutdown(1)), []);
}
