//! What each answer means for its job, and for the jobs that wait behind it.

use std::time::Duration;

use buzz_proto::publish::Verdict;
use buzz_proto::relay::{BrokeCause, HttpAnswer};
use buzz_proto::wire::Reason;

use crate::support::{ANSWER, Call, Reply, SECOND, Storm, ms, status, takes};

const NO_COMMUNITY: &str = r#"{"error":"relay: no community is configured for this host"}"#;
const REPLAY: &str = r#"{"error":"NIP-98: replay detected"}"#;
const NO_REPLAY_CHECK: &str = r#"{"error":"NIP-98: replay check unavailable"}"#;
const NOT_A_MEMBER: &str = r#"{"error":"relay_membership_required"}"#;

#[test]
fn a_failure_that_may_pass_shuts_the_gate_for_all_and_the_job_is_stored_in_the_end() {
    let statuses = [408, 425, 429, 500, 502, 503, 504].map(|code| status(code, "<html>"));
    let others = [
        status(404, NO_COMMUNITY),
        status(401, NO_REPLAY_CHECK),
        status(
            503,
            r#"{"error":"rate-limited: shared admission unavailable"}"#,
        ),
    ];
    let answers = statuses.into_iter().chain(others).map(Reply::Answer);
    let breaks = [
        BrokeCause::Connect,
        BrokeCause::Connection,
        BrokeCause::TooLarge,
        BrokeCause::TimedOut,
    ];
    for reply in answers.chain(breaks.map(Reply::Broke)) {
        let mut storm = Storm::with_jobs(1);
        let call = storm.only();
        storm.end(call.ticket, reply.clone());
        storm.submit(2, None);
        storm.wait_for(5 * SECOND);
        assert_eq!(
            (storm.calls.len(), storm.verdicts.len()),
            (1, 0),
            "{reply:?}"
        );

        both_are_stored(&mut storm);
    }
}

#[test]
fn every_other_refusal_is_final_at_once_and_holds_up_nobody() {
    let passing = [401, 403, 404, 405, 408, 425, 426, 429, 500, 502, 503, 504];
    let codes = (300..600).filter(|code| !passing.contains(code));
    for code in codes.chain([0, 100, 101, 199, 600, 999, u16::MAX]) {
        let mut storm = Storm::with_jobs(2);
        let [first, second] = storm.open()[..] else {
            panic!("two go at once");
        };
        storm.answer(first, status(code, r#"{"error":"restricted: no"}"#));
        let reason = Reason::new("restricted: no");
        assert_eq!(
            storm.verdict(1),
            Some(&Verdict::Rejected { reason }),
            "{code}"
        );
        storm.answer(second, takes(&second));
        storm.submit(3, None);
        assert_eq!(
            (storm.open().len(), storm.throttles.len()),
            (1, 0),
            "{code}"
        );
        assert_eq!(storm.posts_of(1), 1, "{code}");
    }
}

#[test]
fn an_unauthorized_post_goes_again_once_and_once_more_when_it_was_taken_for_a_repetition() {
    for (bodies, posts) in [
        (&["{}", "{}"][..], 2),
        (&["{}", REPLAY, "{}"], 3),
        (&[REPLAY, "{}", REPLAY], 3),
    ] {
        let mut storm = Storm::with_jobs(1);
        for body in bodies {
            assert_eq!(storm.verdict(1), None, "{bodies:?}");
            let call = storm.only();
            assert_eq!(call.at, storm.now, "it goes at once");
            storm.answer(call, status(401, body));
        }
        let is_rejected = matches!(storm.verdict(1), Some(Verdict::Rejected { .. }));
        assert!(is_rejected && storm.posts_of(1) == posts, "{bodies:?}");
        assert_eq!(storm.throttles, []);
    }
    let mut storm = Storm::with_jobs(1);
    for body in ["{}", REPLAY] {
        let call = storm.only();
        storm.answer(call, status(401, body));
    }
    let call = storm.only();
    storm.answer(call, takes(&call));
    assert_eq!(storm.verdict(1), Some(&Verdict::Stored));
}

#[test]
fn a_replay_check_that_is_away_is_a_failure_of_the_relay_and_spends_no_repetition() {
    let mut storm = Storm::with_jobs(1);
    for _ in 0..12 {
        let call = storm.only();
        storm.answer(call, status(401, NO_REPLAY_CHECK));
        storm.wait_for_call();
    }
    let call = storm.only();
    storm.answer(call, status(401, "{}"));
    let call = storm.only();
    storm.answer(call, takes(&call));
    assert_eq!(storm.verdict(1), Some(&Verdict::Stored));
}

#[test]
fn a_forbidden_post_between_successes_goes_once_more_after_a_second() {
    for takes_it_then in [true, false] {
        let mut storm = Storm::with_jobs(3);
        let [first, second, third] = storm.open()[..] else {
            panic!("three go at once");
        };
        storm.answer(second, takes(&second));
        storm.answer(first, status(403, NOT_A_MEMBER));
        storm.answer(third, takes(&third));
        storm.submit(4, None);
        let fourth = storm.only();
        assert_eq!(fourth.job, 4, "it holds up nobody");
        storm.answer(fourth, takes(&fourth));

        let again = storm.wait_for_call();
        assert_eq!((again.job, again.at), (1, first.at.after(SECOND)));
        if takes_it_then {
            storm.answer(again, takes(&again));
            assert_eq!(storm.verdict(1), Some(&Verdict::Stored));
        } else {
            storm.answer(again, status(403, NOT_A_MEMBER));
            let reason = Reason::new("relay_membership_required");
            assert_eq!(storm.verdict(1), Some(&Verdict::Rejected { reason }));
        }
        assert_eq!((storm.posts_of(1), storm.throttles.len()), (2, 0));
    }
}

#[test]
fn a_success_whose_answer_was_lost_is_stored_once() {
    let duplicates = [
        r#"{"accepted":true,"message":"duplicate: already processed"}"#,
        r#"{"accepted":false,"message":"duplicate: already processed"}"#,
        r#"{"accepted":false,"message":"duplicate:"}"#,
    ];
    for body in duplicates {
        let mut storm = Storm::with_jobs(1);
        let lost = storm.only();
        storm.wait_for(ANSWER);
        assert_eq!(storm.verdict(1), None);
        let again = storm.wait_for_call();
        assert_eq!(again.job, 1, "with the same event");
        storm.answer(again, status(200, body));
        assert_eq!(storm.verdict(1), Some(&Verdict::Stored), "{body}");

        // The answer that was lost is found.
        storm.answer(lost, takes(&lost));
        storm.wait_for(3_600 * SECOND);
        assert_eq!((storm.calls.len(), storm.verdicts.len()), (2, 1));
    }
}

#[test]
fn a_success_that_does_not_speak_of_the_event_is_none() {
    let other = format!(
        r#"{{"event_id":"{:064x}","accepted":true,"message":""}}"#,
        77
    );
    for (code, body) in [
        (200, ""),
        (200, "ok"),
        (200, "{}"),
        (200, "[]"),
        (200, "null"),
        (200, r#"{"accepted":"true"}"#),
        (200, r#"{"accepted":1}"#),
        (200, r#"{"accepted":true"#),
        (200, "<html>Please log in</html>"),
        (200, "\u{fffd}\u{0}"),
        (204, ""),
        (202, "queued"),
        (200, other.as_str()),
    ] {
        let mut storm = Storm::with_jobs(1);
        let call = storm.only();
        storm.answer(call, status(code, body));
        assert_eq!(storm.verdict(1), None, "{code} {body}");
        assert_eq!(storm.throttles.len(), 1, "{code} {body}");
        storm.submit(2, None);
        both_are_stored(&mut storm);
    }
}

#[test]
fn a_page_of_a_proxy_is_no_reason_of_the_relay() {
    let page = "<html><head><title>429 Too Many Requests</title></head></html>";
    let quote = format!("<html>relay: rate-limited {}</html>", "x".repeat(200_000));
    for body in [page, quote.as_str()] {
        let mut storm = Storm::with_jobs(1);
        let call = storm.only();
        storm.answer(call, status(429, body));
        let told = storm.last_throttle();
        assert!(told.source.is_none() && told.wait >= ms(5_500));
        storm.submit(2, None);
        both_are_stored(&mut storm);
    }
}

/// The relay works from now on.
fn both_are_stored(storm: &mut Storm) {
    let end = storm.now.after(Duration::from_secs(60));
    storm.run_until(end, &mut |call: &Call| {
        let answer: HttpAnswer = takes(call);
        Some((ms(50), Reply::Answer(answer)))
    });
    for job in [1, 2] {
        assert_eq!(storm.verdict(job), Some(&Verdict::Stored), "{job}");
    }
    assert_eq!(storm.posts_of(2), 1);
}
