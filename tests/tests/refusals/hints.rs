//! How long a refusal asks to be left alone, in every form, seen from outside: the wait that is
//! told, and the time of the next call.

use std::time::Duration;

use buzz_proto::publish::Input;
use buzz_proto::relay::HttpAnswer;
use buzz_proto::retry_hint::HintSource;
use buzz_proto::time::UnixTime;

use crate::support::{Storm, at, dated, is_for, status, with_header};

/// 1994-11-06T08:49:37Z, the example of RFC 9110.
const EXAMPLE: UnixTime = UnixTime(784_111_777);
/// It, in the three forms of a date.
const FORMS: [&str; 3] = [
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "Sunday, 06-Nov-94 08:49:37 GMT",
    "Sun Nov  6 08:49:37 1994",
];
const LIMITED: &str = r#"{"error":"rate-limited: quota exceeded; retry in 9s"}"#;

#[test]
fn seconds_in_the_header_are_waited_at_least_one_and_at_most_three_hundred() {
    for (value, seconds, capped) in [
        ("7", 7, false),
        ("0", 1, false),
        ("1", 1, false),
        (" 12 ", 12, false),
        ("\t12", 12, false),
        ("007", 7, false),
        ("300", 300, false),
        ("301", 300, true),
        ("9223372036854775808", 300, true),
        ("18446744073709551616", 300, true),
        ("123456789012345678901234567890", 300, true),
    ] {
        let answer = with_header(status(429, ""), value);
        waits(&answer, None, seconds, Some(HintSource::Header), capped);
    }
}

#[test]
fn a_header_that_says_nothing_is_as_none() {
    for value in [
        "",
        " ",
        "-5",
        "+5",
        "1.5",
        "5s",
        "5 5",
        "5, 6",
        "soon",
        "5;6",
        "0x10",
        "1e3",
        "\u{665}",
        "Sun, 06 Nov 1994",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "NaN",
    ] {
        let answer = with_header(status(429, ""), value);
        waits(&answer, Some(EXAMPLE), 5, None, false);
    }
    waits(&status(429, ""), None, 5, None, false);
}

#[test]
fn words_in_the_body_count_wherever_they_stand_whoever_said_them() {
    for (body, seconds, capped) in [
        (LIMITED, 9, false),
        (r#"{"message":"rate-limited, retry in 0s"}"#, 1, false),
        (r#"{"error":"slow down; retry in 20s please"}"#, 20, false),
        (
            "<html><body>Too many; retry in 12s.</body></html>",
            12,
            false,
        ),
        ("retry in 9223372036854775808s", 300, true),
        ("retry in 123456789012345678901234567890s", 300, true),
        (r#"{"error":"retry in -1s, retry in 8s"}"#, 8, false),
    ] {
        waits(
            &status(429, body),
            None,
            seconds,
            Some(HintSource::Text),
            capped,
        );
    }
    for body in [
        "",
        "{}",
        "retry in 5",
        "retry in 1.5s",
        "retry in -5s",
        "retry in 500ms",
        r#"{"error":5}"#,
        "<html><h1>429 Too Many Requests</h1><center>nginx</center></html>",
    ] {
        waits(&status(429, body), None, 5, None, false);
    }
}

#[test]
fn of_header_and_body_the_longer_wins() {
    for (value, seconds, source) in [
        ("30", 30, HintSource::Header),
        ("2", 9, HintSource::Text),
        ("0", 9, HintSource::Text),
        ("-30", 9, HintSource::Text),
        ("rubbish", 9, HintSource::Text),
    ] {
        let answer = with_header(status(429, LIMITED), value);
        waits(&answer, None, seconds, Some(source), false);
    }
    let answer = with_header(status(429, LIMITED), "123456789012345678901234567890");
    waits(&answer, None, 300, Some(HintSource::Header), true);
}

#[test]
fn a_date_counts_from_the_answers_own_date_in_each_of_its_forms() {
    for form in FORMS {
        for (before, seconds, capped) in [(42, 42, false), (0, 1, false), (1_000, 300, true)] {
            let date = EXAMPLE.before(Duration::from_secs(before));
            let answer = dated(with_header(status(429, ""), form), date);
            // Our own clock does not matter then.
            for wall in [None, Some(UnixTime(900_000_000))] {
                waits(&answer, wall, seconds, Some(HintSource::Date), capped);
            }
        }
        let late = EXAMPLE.after(Duration::from_secs(100));
        let answer = dated(with_header(status(503, ""), form), late);
        waits(&answer, None, 1, Some(HintSource::Date), false);
    }
}

#[test]
fn a_date_without_the_answers_own_counts_by_our_clock_and_at_least_five_seconds() {
    for form in FORMS {
        for (before, seconds, capped) in [(42, 42, false), (2, 5, false), (1_000, 300, true)] {
            let wall = EXAMPLE.before(Duration::from_secs(before));
            let answer = with_header(status(429, ""), form);
            waits(&answer, Some(wall), seconds, Some(HintSource::Date), capped);
        }
        let late = EXAMPLE.after(Duration::from_secs(100));
        let answer = with_header(status(429, ""), form);
        waits(&answer, Some(late), 5, Some(HintSource::Date), false);
    }
}

#[test]
fn a_date_without_any_clock_is_no_hint() {
    for form in FORMS {
        waits(&with_header(status(429, ""), form), None, 5, None, false);
        let answer = with_header(status(429, LIMITED), form);
        waits(&answer, None, 9, Some(HintSource::Text), false);
    }
}

#[test]
fn every_failure_that_may_pass_can_carry_a_hint() {
    for code in [408, 425, 429, 500, 502, 503, 504] {
        let answer = with_header(status(code, "<html>"), "33");
        waits(&answer, None, 33, Some(HintSource::Header), false);
        waits(
            &status(code, "retry in 33s"),
            None,
            33,
            Some(HintSource::Text),
            false,
        );
    }
    let unavailable = r#"{"error":"rate-limited: shared admission unavailable"}"#;
    waits(&status(503, unavailable), None, 5, None, false);
    let unavailable = r#"{"error":"rate-limited: shared admission unavailable; retry in 1s"}"#;
    waits(
        &status(503, unavailable),
        None,
        1,
        Some(HintSource::Text),
        false,
    );
    let host = r#"{"error":"relay: no community is configured for this host"}"#;
    let answer = with_header(status(404, host), "21");
    waits(&answer, None, 21, Some(HintSource::Header), false);
}

/// One job is refused so, by our clock if we have one: that is what is told, and no call leaves
/// before.
fn waits(
    answer: &HttpAnswer,
    wall: Option<UnixTime>,
    seconds: u64,
    source: Option<HintSource>,
    capped: bool,
) {
    let mut storm = Storm::new();
    if let Some(wall) = wall {
        storm.feed(Input::WallClock(wall));
    }
    storm.submit(1, None);
    let call = storm.only();
    storm.answer(call, answer.clone());

    let told = storm.last_throttle();
    let wait = Duration::from_secs(seconds);
    assert!(
        is_for(told.wait, wait),
        "{seconds} s expected, {told:?}: {answer:?}"
    );
    assert_eq!((told.source, told.capped), (source, capped), "{answer:?}");
    let next = storm.wait_for_call();
    assert!(is_for(next.at.saturating_since(at(0)), wait), "{answer:?}");
}
