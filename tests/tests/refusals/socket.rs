//! EVENTs on the socket that are refused, lost or cut off: sent again as they were, in their time.

use std::time::Duration;

use buzz_proto::publish::{LatestKey, Verdict};
use buzz_proto::schedule::Scope;
use buzz_sim::toy;
use bytes::Bytes;

use crate::desk::{Desk, ok};
use crate::support::{SECOND, is_for, ms};

const MINUTES: Duration = Duration::from_secs(600);

/// What a relay says to the EVENT with a number.
type Refusal = fn(u64) -> Option<Bytes>;

/// How relays refuse an EVENT, with the wait that follows: one that names no event, one with a hint
/// and two without.
const REFUSALS: [(Refusal, u64); 4] = [
    (
        |_| Some(toy::notice("rate-limited: quota exceeded; retry in 9s")),
        9,
    ),
    (
        |number| {
            Some(ok(
                number,
                false,
                "rate-limited: quota exceeded; retry in 9s",
            ))
        },
        9,
    ),
    (
        |number| {
            Some(ok(
                number,
                false,
                "rate-limited: shared admission unavailable",
            ))
        },
        5,
    ),
    (|number| Some(ok(number, false, "rate-limited")), 5),
];

#[test]
fn a_refused_event_goes_again_after_the_gate_with_the_same_id() {
    for (refusal, seconds) in REFUSALS {
        let mut desk = Desk::live();
        let start = desk.now();
        desk.on_event = refusal;
        desk.submit(1, MINUTES);
        desk.on_event = |number| Some(ok(number, true, ""));
        desk.submit(2, MINUTES);
        desk.run_for(20 * SECOND);

        let after: Vec<_> = desk
            .events
            .iter()
            .map(|(at, number)| (*number, at.saturating_since(start)))
            .collect();
        let wait = Duration::from_secs(seconds);
        assert_eq!(after[0], (1, Duration::ZERO));
        assert!(
            after[1..].iter().all(|(_, at)| *at >= wait + ms(500)),
            "{after:?}"
        );
        assert!(is_for(after[1].1, wait), "{after:?}");
        assert_eq!(desk.events.len(), 3, "each once more at most: {after:?}");
        for job in [1, 2] {
            assert_eq!(desk.verdict(job), Some(&Verdict::Stored), "{after:?}");
        }
    }
}

#[test]
fn refusals_never_renew_the_deadline_of_an_event() {
    for (refusal, _) in REFUSALS {
        let mut desk = Desk::live();
        let start = desk.now();
        desk.on_event = refusal;
        desk.submit(1, 150 * SECOND);
        desk.run_for(200 * SECOND);

        let (at, verdict) = &desk.verdicts[&1];
        assert_eq!(*at, start.after(150 * SECOND));
        let is_fitting = matches!(verdict, Verdict::Expired | Verdict::Unknown);
        assert!(is_fitting, "{verdict:?}");
        assert!(desk.numbers().iter().all(|number| *number == 1));
        // 5 or 9, 9, 9, 9, 16, 32, 60 s: with the ladder it is hardly ever asked.
        assert!((3..=8).contains(&desk.events.len()), "{:?}", desk.events);
    }
}

#[test]
fn an_event_that_was_refused_by_its_id_and_runs_out_of_time_is_known_not_to_be_stored() {
    let mut desk = Desk::live();
    desk.on_event = |number| {
        let reason = "rate-limited: quota exceeded; retry in 9s";
        Some(ok(number, false, reason))
    };
    desk.submit(1, 100 * SECOND);
    desk.run_for(120 * SECOND);
    assert_eq!(desk.verdict(1), Some(&Verdict::Expired));
}

#[test]
fn a_refusal_that_names_no_event_takes_back_all_that_have_no_answer() {
    let mut desk = Desk::live();
    for job in 1..=3 {
        desk.submit(job, MINUTES);
    }
    desk.frame(ok(2, true, ""));
    desk.on_event = |number| Some(ok(number, true, "duplicate: had it"));
    desk.frame(toy::notice("rate-limited: quota exceeded; retry in 3s"));
    desk.run_for(10 * SECOND);

    let mut numbers = desk.numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 1, 2, 3, 3]);
    for job in 1..=3 {
        assert_eq!(desk.verdict(job), Some(&Verdict::Stored));
    }
}

#[test]
fn a_notice_that_speaks_of_no_rate_changes_nothing() {
    for text in [
        "error: internal server error",
        "hello",
        "",
        "invalid: you are rate-limited; retry in 60s",
        "unrate-limited: retry in 60s",
        "rate-limitedness: retry in 60s",
    ] {
        let mut desk = Desk::live();
        desk.submit(1, MINUTES);
        desk.frame(toy::notice(text));
        desk.on_event = |number| Some(ok(number, true, ""));
        desk.submit(2, MINUTES);
        desk.subscribe(1);
        desk.run_for(SECOND);
        assert_eq!(desk.numbers(), [1, 2], "{text}");
        assert_eq!((desk.requests.len(), desk.throttles().len()), (1, 0));
        desk.frame(ok(1, true, ""));
        assert_eq!(desk.verdict(1), Some(&Verdict::Stored), "{text}");
    }
}

#[test]
fn a_disconnect_sends_again_what_had_no_answer_and_nothing_else() {
    for has_auth in [false, true] {
        let mut desk = if has_auth {
            Desk::live_with_auth()
        } else {
            Desk::live()
        };
        for job in 1..=3 {
            desk.submit(job, MINUTES);
        }
        desk.frame(ok(2, true, ""));
        desk.frame(ok(3, false, "invalid: bad tag"));
        desk.on_event = |number| Some(ok(number, true, "duplicate: had it"));
        desk.disconnect();
        desk.run_for(30 * SECOND);

        assert_eq!(desk.numbers(), [1, 2, 3, 1]);
        assert_eq!(desk.verdict(1), Some(&Verdict::Stored));
        assert_eq!(desk.verdict(2), Some(&Verdict::Stored));
        assert!(matches!(desk.verdict(3), Some(Verdict::Rejected { .. })));
    }
}

#[test]
fn an_event_without_an_answer_goes_again_after_fifteen_seconds_if_people_wait_for_it() {
    let mut desk = Desk::live();
    let start = desk.now();
    desk.submit(1, MINUTES);
    desk.show(2, LatestKey::Presence);
    desk.on_event = |number| Some(ok(number, true, ""));
    desk.run_for(30 * SECOND);

    let again = desk.events[2];
    assert_eq!((desk.numbers(), again.1), (vec![1, 2, 1], 1));
    let after = again.0.saturating_since(start);
    assert!((15 * SECOND..=17 * SECOND).contains(&after), "{after:?}");
    assert_eq!(desk.verdict(1), Some(&Verdict::Stored));
    assert_eq!(
        desk.verdict(2),
        Some(&Verdict::Unknown),
        "it is not sent again"
    );
}

#[test]
fn latest_values_are_replaced_by_newer_ones_and_not_sent_again() {
    let typing = LatestKey::Typing(Scope::Conversation(toy::channel(1)));
    let cut_off: fn(&mut Desk) = Desk::disconnect;
    let take_back: fn(&mut Desk) =
        |desk| desk.frame(toy::notice("rate-limited: quota exceeded; retry in 3s"));
    for end in [cut_off, take_back] {
        let mut desk = Desk::live();
        desk.show(1, typing);
        assert_eq!(desk.numbers(), [1]);
        end(&mut desk);
        desk.show(2, typing);
        desk.show(3, typing);
        desk.on_event = |number| Some(ok(number, true, ""));
        desk.run_for(20 * SECOND);

        assert_eq!(desk.numbers(), [1, 3]);
        assert_eq!(desk.verdict(1), Some(&Verdict::Unknown));
        assert_eq!(desk.verdict(2), Some(&Verdict::Evicted));
        assert_eq!(desk.verdict(3), Some(&Verdict::Stored));
    }
}

#[test]
fn an_event_that_needs_a_name_waits_for_the_name_and_goes_once_after_it() {
    let mut desk = Desk::live();
    desk.on_event = |number| Some(ok(number, false, "auth-required: not authenticated"));
    desk.submit(1, MINUTES);
    desk.on_event = |number| Some(ok(number, true, ""));
    assert_eq!(desk.numbers(), [1]);

    // The relay asks after a moment, and takes the name after another.
    desk.run_for(3 * SECOND);
    assert_eq!((desk.numbers(), desk.auths.len()), (vec![1], 0));
    desk.frame(toy::challenge("who are you?"));
    assert_eq!(desk.auths.len(), 1);
    desk.run_for(3 * SECOND);
    assert_eq!(desk.numbers(), [1], "it went before the name was taken");
    let name = desk.auths[0];
    desk.frame(ok(name, true, ""));
    desk.run_for(5 * SECOND);

    assert_eq!(desk.numbers(), [1, 1]);
    assert_eq!(desk.verdict(1), Some(&Verdict::Stored));
}

#[test]
fn an_event_that_needs_a_name_goes_once_on_a_new_socket_when_the_relay_never_asks() {
    let mut desk = Desk::live_with_auth();
    let auths = desk.auths.len();
    desk.on_event = |number| Some(ok(number, false, "auth-required: not authenticated"));
    desk.submit(1, MINUTES);
    desk.on_event = |number| Some(ok(number, true, ""));
    desk.run_for(30 * SECOND);

    assert_eq!(
        desk.auths.len(),
        auths + 1,
        "it dials and says its name anew"
    );
    assert_eq!(desk.numbers(), [1, 1]);
    assert_eq!(desk.verdict(1), Some(&Verdict::Stored));
}
