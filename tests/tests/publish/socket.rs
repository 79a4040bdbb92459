//! EVENTs on the socket.

use std::time::Duration;

use buzz_proto::ids::Ticket;
use buzz_proto::note::StaleWhat;
use buzz_proto::publish::{Action, Body, Class, Command, Config, Input, Route, Verdict};
use buzz_proto::relay::Receipt;

use crate::support::{
    Script, abort, accepted, answered, command, draft, latest, post, refused, rejected, send,
    settle, show, sleep, stale, stored, submit, submit_event, typing, wake, wake_day, with,
    without_wake,
};

#[test]
fn without_the_route_all_jobs_go_by_the_socket_until_the_next_connection() {
    let mut script = Script::new();
    assert_eq!(script.at(0, submit(1)), [post(0, 1, 1), wake(15_000)]);
    assert_eq!(script.at(100, answered(0, 404, "not found")), [wake_day(0)]);
    assert_eq!(script.at(200, submit(2)), []);

    // The link may bring another relay.
    let up = script.at(300, Input::Link { live: true });
    assert_eq!(up, [post(1, 2, 1), post(2, 1, 2), wake(15_300)]);
    let sends = script.at(400, answered(1, 405, ""));
    assert_eq!(sends, [send(3, 1)]);
    assert_eq!(
        script.at(400, answered(2, 405, "")),
        [send(4, 2), wake(40_400)]
    );
    assert_eq!(script.at(500, accepted(3)), [stored(1)]);

    // What did not leave waits for the next connection.
    assert_eq!(script.at(600, Input::Link { live: false }), []);
    let not_sent = Input::Receipt {
        ticket: Ticket(4),
        receipt: Receipt::NotSent,
    };
    assert_eq!(script.at(600, not_sent), [wake(1_600)]);
    assert_eq!(script.at(1_600, Input::Tick), [wake_day(200)]);
    let up = script.at(2_000, Input::Link { live: true });
    assert_eq!(up, [post(5, 2, 2), wake(17_000)]);
}

#[test]
fn each_receipt_means_something_of_its_own() {
    let mut script = Script::new();
    let _ = script.at(0, Input::Link { live: true });
    assert_eq!(
        script.at(0, submit_event(1, 60)),
        [send(0, 1), wake(40_000)]
    );

    let limited = refused(0, "rate-limited: quota exceeded; retry in 5s");
    assert_eq!(script.at(100, limited), [wake(5_100)]);
    assert_eq!(script.at(5_100, Input::Tick), [send(1, 1), wake(45_100)]);
    assert_eq!(
        script.at(5_200, refused(1, "auth-required: first")),
        [wake(6_200)]
    );
    assert_eq!(script.at(6_200, Input::Tick), [send(2, 1), wake(46_200)]);
    let lost = Input::Receipt {
        ticket: Ticket(2),
        receipt: Receipt::Unanswered,
    };
    assert_eq!(script.at(6_300, lost), [wake(8_300)]);
    assert_eq!(script.at(8_300, Input::Tick), [send(3, 1), wake(48_300)]);

    // No receipt: the call is given up, and the job goes on with the same event, ever more slowly.
    assert_eq!(script.at(48_300, Input::Tick), [abort(3), wake(52_300)]);
    assert_eq!(script.at(48_400, accepted(3)), [stale(StaleWhat::Receipt)]);
    assert_eq!(script.at(52_300, Input::Tick), [send(4, 1), wake(60_000)]);
    let last = [abort(4), settle(1, Verdict::Unknown)[0].clone()];
    assert_eq!(script.at(60_000, Input::Tick)[..2], last);

    assert_eq!(
        script.at(70_000, submit_event(2, 60)),
        [send(5, 2), wake(110_000)]
    );
    let last = settle(2, rejected("invalid: bad tag"));
    assert_eq!(
        script.at(70_100, refused(5, "invalid: bad tag")),
        with(last, [sleep()])
    );
    assert_eq!(
        script.at(70_200, submit_event(3, 60)),
        [send(6, 3), wake(110_200)]
    );
    assert_eq!(
        script.at(70_300, refused(6, "duplicate: had it")),
        [stored(3), sleep()]
    );
}

#[test]
fn typing_that_waits_on_the_socket_leaves_a_place_for_a_reply() {
    let mut script = Script::new();
    let _ = script.at(0, Input::Link { live: true });
    for job in 1..=5 {
        let channel = u8::try_from(job).expect("a small number");
        let expected = if job <= 3 {
            vec![show(job - 1, job)]
        } else {
            vec![]
        };
        let actions = script.at(0, latest(job, typing(channel)));
        assert_eq!(without_wake(actions), expected);
    }
    assert_eq!(
        without_wake(script.at(10, submit_event(9, 60))),
        [send(3, 9)]
    );
    assert_eq!(without_wake(script.at(20, submit_event(10, 60))), []);
    // A place that falls free is for the reply, whoever held it.
    assert_eq!(
        without_wake(script.at(30, accepted(0))),
        [stored(1), send(4, 10)]
    );
    assert_eq!(
        without_wake(script.at(40, accepted(3))),
        [stored(9), show(5, 4)]
    );
}

#[test]
fn drafts_of_typing_at_the_signer_leave_a_place_too() {
    let mut script = Script::new();
    let _ = script.at(0, Input::Link { live: true });
    for job in 1..=4 {
        let channel = u8::try_from(job).expect("a small number");
        let class = Class::Latest(typing(channel));
        let body = Body::SignWhenSent(draft(0));
        let _ = script.at(0, command(job, class, Route::Socket, body, None));
    }
    assert_eq!(
        without_wake(script.at(0, submit_event(9, 60))),
        [send(3, 9)]
    );
    assert_eq!(
        without_wake(script.at(0, submit(10))),
        [post(4, 1, 10)],
        "nor do they hold places of posts"
    );
}

#[test]
fn with_one_place_a_reply_waits_for_the_one_that_holds_it() {
    let mut script = Script::with(Config {
        in_flight_max: 1,
        ..Config::default()
    });
    let _ = script.at(0, Input::Link { live: true });
    let _ = script.at(0, latest(1, typing(1)));
    let _ = script.at(0, latest(2, typing(2)));
    assert_eq!(without_wake(script.at(0, submit_event(9, 60))), []);
    assert_eq!(
        without_wake(script.at(10, accepted(0))),
        [stored(1), send(1, 9)]
    );
}

#[test]
fn a_job_that_was_refused_for_now_and_not_tried_again_in_its_time_has_that_reason() {
    let mut script = Script::new();
    let _ = script.at(0, Input::Link { live: true });
    for reason in [
        "auth-required: not authenticated",
        "error: internal server error",
    ] {
        let start = script.last;
        let ticket = script
            .now(submit_event(1, 10))
            .iter()
            .find_map(sent)
            .expect("an EVENT");
        assert_eq!(without_wake(script.now(refused(ticket, reason))), []);
        let _ = script.now(Input::Link { live: false });
        let late = start.after(Duration::from_secs(10));
        assert_eq!(
            without_wake(script.at_time(late, Input::Tick)),
            settle(1, rejected(reason))
        );
        let _ = script.now(Input::Link { live: true });
    }
}

#[test]
fn the_reason_of_a_try_is_forgotten_with_the_next_one_and_at_a_shutdown() {
    // Limited for now: that is not about this job.
    let mut script = Script::new();
    let _ = script.at(0, Input::Link { live: true });
    let _ = script.at(0, submit_event(1, 10));
    let _ = script.at(0, refused(0, "error: internal server error"));
    assert_eq!(without_wake(script.at(1_000, Input::Tick)), [send(1, 1)]);
    let _ = script.at(
        1_000,
        refused(1, "rate-limited: quota exceeded; retry in 60s"),
    );
    assert_eq!(
        script.at(10_000, Input::Tick)[..2],
        settle(1, Verdict::Expired)
    );

    // The next life can try it again.
    let _ = script.at(20_000, submit_event(2, 60));
    let _ = script.at(20_000, refused(2, "error: internal server error"));
    let grace = Duration::from_millis(500);
    let _ = script.at(20_000, Input::Command(Command::Shutdown { grace }));
    assert_eq!(
        script.at(20_500, Input::Tick)[..2],
        settle(2, Verdict::Cancelled)
    );
}

fn sent(action: &Action) -> Option<u64> {
    match action {
        Action::Send { ticket, .. } => Some(ticket.0),
        Action::Sign { .. }
        | Action::Post { .. }
        | Action::Query { .. }
        | Action::Abort { .. }
        | Action::Settle { .. }
        | Action::Outbox { .. }
        | Action::Ended
        | Action::Note(_)
        | Action::WakeAt(_) => None,
    }
}
