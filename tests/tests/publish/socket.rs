//! EVENTs on the socket.

use buzz_proto::ids::Ticket;
use buzz_proto::note::StaleWhat;
use buzz_proto::publish::{Input, Verdict};
use buzz_proto::relay::Receipt;

use crate::support::{
    Script, abort, accepted, answered, post, refused, rejected, send, settle, sleep, stale, stored,
    submit, submit_event, wake, wake_day, with,
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
    assert_eq!(script.at(6_300, lost), [wake(7_300)]);
    assert_eq!(script.at(7_300, Input::Tick), [send(3, 1), wake(47_300)]);

    // No receipt: the call is given up, and the job goes on with the same event.
    assert_eq!(script.at(47_300, Input::Tick), [abort(3), wake(48_300)]);
    assert_eq!(script.at(47_400, accepted(3)), [stale(StaleWhat::Receipt)]);
    assert_eq!(script.at(48_300, Input::Tick), [send(4, 1), wake(60_000)]);
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
