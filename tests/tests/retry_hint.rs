//! Waits a peer asks for, in every form it may choose.

use std::time::Duration;

use buzz_proto::retry_hint::{self, Hint, HintSource, WAIT_MAX};
use buzz_proto::time::UnixTime;
use quickcheck::{QuickCheck, quickcheck};

/// 2026-11-30T12:00:00Z
const WALL: UnixTime = UnixTime(1_796_040_000);

/// 1994-11-06T08:49:37Z, the example of RFC 9110.
const EXAMPLE: UnixTime = UnixTime(784_111_777);

#[test]
fn seconds_are_clamped_and_a_cut_is_marked() {
    for (value, seconds, capped) in [
        ("0", 1, false),
        ("1", 1, false),
        (" 41 ", 41, false),
        ("0041", 41, false),
        ("300", 300, false),
        ("301", 300, true),
        ("\t41\t", 41, false),
        ("9223372036854775808", 300, true),
        ("18446744073709551616", 300, true),
        ("123456789012345678901234567890", 300, true),
    ] {
        let expected = hint(seconds, HintSource::Header, capped);
        assert_eq!(header(value, None), Some(expected), "{value}");
    }
}

#[test]
fn malformed_headers_give_no_hint() {
    for value in [
        "",
        " ",
        "-1",
        "+1",
        "1.5",
        "1s",
        "1, 2",
        "1 2",
        "0x10",
        "1e3",
        "\u{665}",
        "soon",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT GMT",
        "Sun 06 Nov 1994 08:49:37 GMT",
        "Xxx, 06 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 29 Feb 2100 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:00 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun Nov 006 08:49:37 1994",
        "ünday, 06-Nov-94 08:49:37 GMT",
    ] {
        assert_eq!(header(value, Some(EXAMPLE)), None, "{value}");
    }
    assert_eq!(retry_hint::from_header(b"\xff", None, WALL), None);
}

#[test]
fn a_date_counts_from_the_answers_own_date() {
    let until = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (seconds_before, seconds, capped) in [(7, 7, false), (0, 1, false), (1000, 300, true)] {
        let date = EXAMPLE.before(Duration::from_secs(seconds_before));
        let expected = hint(seconds, HintSource::Date, capped);
        assert_eq!(header(until, Some(date)), Some(expected));
    }
    let late = EXAMPLE.after(Duration::from_secs(100));
    assert_eq!(
        header(until, Some(late)),
        Some(hint(1, HintSource::Date, false))
    );
}

#[test]
fn a_date_by_our_own_clock_is_at_least_five_seconds_away() {
    for (value, seconds) in [
        ("Mon, 30 Nov 2026 11:59:00 GMT", 5),
        ("Mon, 30 Nov 2026 12:00:02 GMT", 5),
        ("Mon, 30 Nov 2026 12:00:42 GMT", 42),
        ("Monday, 30-Nov-26 12:00:42 GMT", 42),
        ("Mon Nov 30 12:00:42 2026", 42),
    ] {
        let expected = hint(seconds, HintSource::Date, false);
        assert_eq!(header(value, None), Some(expected), "{value}");
    }
}

#[test]
fn the_three_forms_of_a_date_agree() {
    for (value, time) in [
        ("Sun, 06 Nov 1994 08:49:37 GMT", EXAMPLE.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", EXAMPLE.0),
        ("Sun Nov  6 08:49:37 1994", EXAMPLE.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Tue, 30 Jun 1953 00:00:00 GMT", 0),
        ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
        // 50 years ahead of the clock is the future, 51 the past.
        ("Monday, 30-Nov-76 12:00:00 GMT", 3_373_963_200),
        ("Wednesday, 30-Nov-77 12:00:00 GMT", 249_739_200),
    ] {
        let parsed = retry_hint::parse_http_date(value.as_bytes(), WALL);
        assert_eq!(parsed, Some(UnixTime(time)), "{value}");
    }
}

#[test]
fn the_words_are_found_anywhere_in_a_text() {
    for (text, seconds, capped) in [
        ("rate-limited: quota exceeded; retry in 17s", 17, false),
        ("rate-limited quota exceeded, retry in 0s", 1, false),
        ("retry in a moment, retry in 5s", 5, false),
        ("retry in 10m or retry in 5s.", 5, false),
        ("retry in retry in 3s", 3, false),
        ("é retry in 400s é", 300, true),
        ("retry in 9223372036854775808s", 300, true),
        ("retry in 123456789012345678901234567890s", 300, true),
    ] {
        let expected = hint(seconds, HintSource::Text, capped);
        assert_eq!(retry_hint::from_text(text), Some(expected), "{text}");
    }
    for text in [
        "",
        "retry in s",
        "retry in 5",
        "retry in -5s",
        "retry in 500ms",
        "retry in 1.5s",
        "retry in  5s",
        "in 5s",
    ] {
        assert_eq!(retry_hint::from_text(text), None, "{text}");
    }
}

#[test]
fn every_day_until_2110_is_read_in_every_form() {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let mut midnight = 0;
    for year in 1970..2110 {
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        for (month, name) in MONTHS.iter().enumerate() {
            let days = match month {
                1 => 28 + i32::from(is_leap),
                3 | 5 | 8 | 10 => 30,
                _ => 31,
            };
            for day in 1..=days {
                for value in [
                    format!("Mon, {day:02} {name} {year} 01:02:03 GMT"),
                    format!("Monday, {day:02}-{name}-{:02} 01:02:03 GMT", year % 100),
                    format!("Mon {name} {day:2} 01:02:03 {year}"),
                ] {
                    let time = UnixTime(midnight + 3723);
                    let parsed = retry_hint::parse_http_date(value.as_bytes(), time);
                    assert_eq!(parsed, Some(time), "{value}");
                }
                midnight += 86_400;
            }
        }
    }
}

#[test]
fn no_bytes_panic_and_no_hint_leaves_its_bounds() {
    fn property(bytes: Vec<u8>, date: Option<u64>, wall: u64) -> bool {
        let header = retry_hint::from_header(&bytes, date.map(UnixTime), UnixTime(wall));
        let text = retry_hint::from_text(&String::from_utf8_lossy(&bytes));
        [header, text].into_iter().flatten().all(is_bounded)
    }
    QuickCheck::new()
        .tests(2000)
        .quickcheck(property as fn(Vec<u8>, Option<u64>, u64) -> bool);
}

quickcheck! {
    fn a_number_in_a_text_and_in_a_header_mean_the_same(seconds: u64, before: String, after: String) -> bool {
        let text = format!("{}retry in {seconds}s{after}", before.replace("retry in", ""));
        let text = retry_hint::from_text(&text).unwrap();
        let header = header(&seconds.to_string(), None).unwrap();
        text.wait == Duration::from_secs(seconds.clamp(1, 300))
            && text.capped == (seconds > 300)
            && (text.wait, text.capped) == (header.wait, header.capped)
    }

    fn a_mutated_date_never_panics(place: usize, byte: u8, wall: u64) -> bool {
        [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ]
        .into_iter()
        .all(|value| {
            let mut bytes = value.as_bytes().to_vec();
            let place = place % bytes.len();
            bytes[place] = byte;
            retry_hint::from_header(&bytes, None, UnixTime(wall)).is_none_or(is_bounded)
        })
    }
}

fn header(value: &str, date: Option<UnixTime>) -> Option<Hint> {
    retry_hint::from_header(value.as_bytes(), date, WALL)
}

fn hint(seconds: u64, source: HintSource, capped: bool) -> Hint {
    let wait = Duration::from_secs(seconds);
    Hint {
        wait,
        source,
        capped,
    }
}

fn is_bounded(hint: Hint) -> bool {
    Duration::from_secs(1) <= hint.wait && hint.wait <= WAIT_MAX
}
