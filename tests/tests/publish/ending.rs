//! Limits of jobs, and the end.

use std::time::Duration;

use buzz_proto::ids::JobId;
use buzz_proto::note::StaleWhat;
use buzz_proto::publish::{Action, Command, Input, LatestKey, Verdict};

use crate::support::{
    ACCEPTED, Script, abort, answered, latest, post, settle, sleep, stale, stored, submit,
    submit_event, submit_for, wake, without_wake,
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
