//! Limits of jobs, and the end.

use std::time::Duration;

use buzz_proto::ids::JobId;
use buzz_proto::note::StaleWhat;
use buzz_proto::publish::{Action, Body, Class, Command, Input, LatestKey, Route, Verdict};

use crate::support::{
    ACCEPTED, Script, abort, accepted, answered, command, draft, latest, post, settle, show,
    signed, sleep, stale, stored, submit, submit_event, submit_for, typing, wake, without_wake,
};

#[test]
fn a_job_expires_when_it_was_never_sent_and_is_unknown_when_it_was() {
    let mut script = Script::new();
    assert_eq!(script.at(0, submit_for(1, 5)), [post(0, 1, 1), wake(5_000)]);
    assert_eq!(script.at(0, submit_event(2, 5)), []);

    let mut expected = settle(1, Verdict::Unknown);
    expected.extend(settle(2, Verdict::Expired));
    expected.push(wake(15_000));
    assert_eq!(script.at(5_000, Input::Tick), expected);

    // The call outlives its job, and its answer still opens or shuts the gate.
    let said = script.at(6_000, answered(0, 429, "{}"));
    let gate = script.gate(&said[0], None, 0, 0, 1);
    assert_eq!(without_wake(script.at(6_100, submit_for(3, 60))), []);
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [post(1, 1, 3)]
    );
}

#[test]
fn a_refused_job_that_expires_is_known_not_to_be_stored() {
    let mut script = Script::new();
    let _ = script.at(0, submit_for(1, 2));
    let _ = script.at(0, submit_for(2, 2));
    let _ = script.at(0, answered(0, 429, "{}"));
    let _ = script.at(0, answered(1, 500, "{}"));

    let mut expected = settle(1, Verdict::Expired);
    expected.extend(settle(2, Verdict::Unknown));
    expected.push(sleep());
    assert_eq!(script.at(2_000, Input::Tick), expected);
}

#[test]
fn a_shutdown_cancels_latest_jobs_and_gives_durable_ones_their_grace() {
    let mut script = Script::new();
    let _ = script.at(0, submit(1));
    let _ = script.at(0, submit_event(2, 86_400));
    let _ = script.at(0, latest(3, LatestKey::Presence));

    let shutdown = Input::Command(Command::Shutdown {
        grace: Duration::from_secs(10),
    });
    let cancelled = Action::Settle {
        job: JobId(3),
        verdict: Verdict::Cancelled,
    };
    assert_eq!(script.at(1_000, shutdown), [cancelled, wake(11_000)]);
    assert_eq!(script.at(1_100, submit(4)), settle(4, Verdict::Cancelled));

    let mut expected = settle(1, Verdict::Unknown);
    expected.extend(settle(2, Verdict::Cancelled));
    expected.extend([abort(0), Action::Ended, sleep()]);
    assert_eq!(script.at(11_000, Input::Tick), expected);
    assert_eq!(script.at(12_000, submit(5)), settle(5, Verdict::Cancelled));
    assert_eq!(
        script.at(12_000, answered(0, 200, ACCEPTED)),
        [stale(StaleWhat::Call)]
    );
    assert!(script.publisher.view().is_ended);
}

#[test]
fn the_shorter_of_two_graces_holds_and_after_the_end_none_matters() {
    let shutdown = |grace| {
        let grace = Duration::from_secs(grace);
        Input::Command(Command::Shutdown { grace })
    };
    let mut script = Script::new();
    let _ = script.at(0, submit(1));
    assert_eq!(script.at(0, shutdown(14)), [wake(14_000)]);
    assert_eq!(script.at(0, shutdown(5)), [wake(5_000)]);
    assert_eq!(script.at(1_000, shutdown(60)), []);

    let mut expected = settle(1, Verdict::Unknown);
    expected.extend([abort(0), Action::Ended, sleep()]);
    assert_eq!(script.at(5_000, Input::Tick), expected);
    assert_eq!(script.at(6_000, shutdown(1)), []);
    assert!(script.publisher.view().is_ended);
}

#[test]
fn a_shutdown_ends_as_soon_as_nothing_is_owed() {
    let mut script = Script::new();
    let _ = script.at(0, submit(1));
    let _ = script.at(
        0,
        Input::Command(Command::Shutdown {
            grace: Duration::from_secs(10),
        }),
    );

    let last = script.at(100, answered(0, 200, ACCEPTED));
    assert_eq!(last, [stored(1), Action::Ended, sleep()]);
}

#[test]
fn the_last_presence_goes_before_the_end_if_the_socket_is_live() {
    let mut script = live();
    let signs = script.at(0, presence_draft(1));
    assert!(matches!(signs[..], [Action::Sign { .. }, ..]), "{signs:?}");

    assert_eq!(script.at(1_000, shutdown(30)), [wake(3_000)]);
    let sends = without_wake(script.at(1_200, signed(0, 1)));
    assert_eq!(sends, [show(1, 1)]);
    let last = script.at(1_300, accepted(1));
    assert_eq!(last, [stored(1), Action::Ended, sleep()]);
}

#[test]
fn the_end_waits_no_longer_than_two_seconds_for_the_last_presence() {
    let mut script = live();
    let sends = without_wake(script.at(0, latest(1, LatestKey::Presence)));
    assert_eq!(sends, [show(0, 1)]);

    assert_eq!(script.at(1_000, shutdown(30)), [wake(3_000)]);
    let unknown = unseen(1, Verdict::Unknown);
    let last = [abort(0), unknown, Action::Ended, sleep()];
    assert_eq!(script.at(3_000, Input::Tick), last);
}

#[test]
fn a_grace_shorter_than_that_holds() {
    let mut script = live();
    let _ = script.at(0, latest(1, LatestKey::Presence));
    assert_eq!(script.at(1_000, shutdown(1)), [wake(2_000)]);
    let unknown = unseen(1, Verdict::Unknown);
    let last = [abort(0), unknown, Action::Ended, sleep()];
    assert_eq!(script.at(2_000, Input::Tick), last);
}

#[test]
fn typing_and_older_presence_are_cancelled_at_the_end() {
    let mut script = live();
    let _ = script.at(0, latest(1, LatestKey::Presence));
    let _ = script.at(0, latest(2, typing(1)));
    let newest = without_wake(script.at(0, latest(3, LatestKey::Presence)));
    assert_eq!(newest, [show(2, 3)]);

    let mut cancelled = vec![abort(0), unseen(1, Verdict::Cancelled)];
    cancelled.extend([abort(1), unseen(2, Verdict::Cancelled)]);
    assert_eq!(without_wake(script.at(0, shutdown(30))), cancelled);
    let last = script.at(10, accepted(2));
    assert_eq!(last, [stored(3), Action::Ended, sleep()]);
}

#[test]
fn a_presence_that_cannot_go_is_not_waited_for() {
    // No socket.
    let mut script = Script::new();
    let _ = script.at(0, latest(1, LatestKey::Presence));
    assert_eq!(script.at(0, shutdown(30)), last_of(1));

    // The socket goes while it is signed.
    let mut script = live();
    let _ = script.at(0, presence_draft(1));
    let _ = script.at(0, shutdown(30));
    let mut last = vec![abort(0)];
    last.extend(last_of(1));
    assert_eq!(script.at(500, Input::Link { live: false }), last);

    // The socket goes while it is out.
    let mut script = live();
    let _ = script.at(0, latest(1, LatestKey::Presence));
    let _ = script.at(0, shutdown(30));
    let mut last = vec![abort(0)];
    last.extend(last_of(1));
    assert_eq!(script.at(500, Input::Link { live: false }), last);
}

fn live() -> Script {
    let mut script = Script::new();
    let _ = script.at(0, Input::Link { live: true });
    script
}

fn presence_draft(job: u64) -> Input {
    let body = Body::SignWhenSent(draft(0));
    let class = Class::Latest(LatestKey::Presence);
    command(job, class, Route::Socket, body, None)
}

fn shutdown(grace: u64) -> Input {
    let grace = Duration::from_secs(grace);
    Input::Command(Command::Shutdown { grace })
}

/// The verdict on what was only good to see.
const fn unseen(job: u64, verdict: Verdict) -> Action {
    let job = JobId(job);
    Action::Settle { job, verdict }
}

fn last_of(job: u64) -> [Action; 3] {
    [unseen(job, Verdict::Cancelled), Action::Ended, sleep()]
}
