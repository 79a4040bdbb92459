//! Who comes in, who goes first, who has to go.

use std::collections::VecDeque;

use buzz_proto::note::Shown;
use buzz_proto::publish::{Action, Body, Class, Config, Input, LatestKey, Route, Verdict};
use buzz_proto::wire::Draft;

use crate::support::{
    ACCEPTED, Script, answered, command, draft, evicted, half_full, latest, not_shown, posted,
    refused, send, settle, show, stored_job, submit, submit_event, typing, wake, without_wake,
};

#[test]
fn only_the_newest_of_a_key_waits_and_durable_jobs_go_first() {
    let mut script = Script::new();
    assert_eq!(script.at(0, latest(1, LatestKey::Presence)), [wake(60_000)]);
    assert_eq!(
        script.at(10, latest(2, LatestKey::Presence)),
        [evicted(1), wake(60_010)]
    );
    assert_eq!(script.at(20, latest(3, typing(7))), []);
    assert_eq!(script.at(30, submit_event(4, 86_400)), []);

    let actions = script.at(40, Input::Link { live: true });
    let expected = [send(0, 4), show(1, 2), show(2, 3), wake(40_040)];
    assert_eq!(actions, expected);

    // A newer one waits beside the one that is out, which is not tried again.
    assert_eq!(script.at(50, latest(5, typing(7))), [show(3, 5)]);
    assert_eq!(script.at(60, refused(2, "rate-limited: no")), [evicted(3)]);
}

#[test]
fn a_full_outbox_says_so_at_once_and_latest_jobs_make_room_for_durable_ones() {
    let config = Config {
        jobs_max: 3,
        latest_max: 2,
        ..Config::default()
    };
    let mut script = Script::with(config);
    let _ = script.at(0, latest(1, typing(1)));
    let _ = script.at(0, latest(2, typing(2)));
    assert_eq!(
        without_wake(script.at(0, latest(3, typing(3)))),
        [evicted(1), not_shown(Shown::Typing)]
    );

    assert_eq!(without_wake(script.at(0, submit_event(4, 60))), []);
    assert_eq!(
        without_wake(script.at(0, submit_event(5, 60))),
        [evicted(2), not_shown(Shown::Typing), half_full(true)]
    );
    assert_eq!(
        without_wake(script.at(0, submit_event(6, 60))),
        [evicted(3), not_shown(Shown::Typing)]
    );
    assert_eq!(
        without_wake(script.at(0, submit_event(7, 60))),
        settle(7, Verdict::Evicted)
    );
    assert_eq!(
        without_wake(script.at(0, latest(8, LatestKey::Presence))),
        [evicted(8), not_shown(Shown::Presence)]
    );
    assert_eq!(script.publisher.view().waiting, 3);
}

#[test]
fn an_event_larger_than_the_outbox_sends_nobody_away() {
    let mut script = Script::with(Config {
        bytes_max: 1_200,
        ..Config::default()
    });
    let _ = script.at(0, latest(1, typing(1)));

    let content = "x".repeat(2_000);
    let body = Body::SignWhenSent(Draft {
        content,
        ..draft(0)
    });
    let large = command(2, Class::Durable, Route::Post, body, None);
    assert_eq!(script.at(0, large), settle(2, Verdict::Evicted));
}

#[test]
fn a_full_outbox_drains_in_the_order_of_submission() {
    let mut script = Script::new();
    for job in 1..=2_048 {
        let _ = script.at(0, submit(job));
    }
    assert_eq!(
        without_wake(script.at(0, submit(3_000))),
        settle(3_000, Verdict::Evicted)
    );

    let mut order = Vec::new();
    let mut tickets: VecDeque<u64> = (0..4).collect();
    while let Some(ticket) = tickets.pop_front() {
        let mut actions = script.now(answered(ticket, 200, ACCEPTED));
        if tickets.is_empty() {
            while let Some((at, _)) = script.publisher.next_deadline() {
                actions.extend(script.at_time(at, Input::Tick));
                if actions
                    .iter()
                    .any(|action| matches!(action, Action::Post { .. }))
                {
                    break;
                }
            }
        }
        tickets.extend(actions.iter().filter_map(posted).map(|(ticket, _)| ticket));
        order.extend(actions.iter().filter_map(stored_job));
    }
    assert_eq!(order, (1..=2_048).collect::<Vec<_>>());
}
