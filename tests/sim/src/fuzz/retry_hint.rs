//! Waits that a peer asks for.

use buzz_proto::retry_hint::{Hint, WAIT_MAX, from_header, from_text, parse_http_date};
use buzz_proto::time::UnixTime;
use std::time::Duration;

/// Two clocks, eight bytes each, and then what a peer wrote: as a header, as a text and as a date.
pub fn retry_hint(bytes: &[u8]) {
    let (date, rest) = clock(bytes);
    let (wall, rest) = clock(rest);
    let date = (date.0 % 3 != 0).then_some(date);

    let hint = from_header(rest, date, wall);
    is_in_bounds(hint);
    assert_eq!(hint, from_header(rest, date, wall), "read twice");
    // White space around a header says nothing (RFC 9110 section 5.5).
    let padded = [b" \t", rest, b" "].concat();
    assert_eq!(hint, from_header(&padded, date, wall), "padded");

    let text = String::from_utf8_lossy(rest);
    let said = from_text(&text);
    is_in_bounds(said);
    // What stands before the words says nothing.
    let later = from_text(&format!("rate-limited: {text}"));
    assert_eq!(said, later, "behind a prefix");

    let read = parse_http_date(rest, wall);
    assert_eq!(read, parse_http_date(rest, wall), "a date read twice");
}

fn is_in_bounds(hint: Option<Hint>) {
    if let Some(hint) = hint {
        assert!(hint.wait >= Duration::from_secs(1), "{hint:?}");
        assert!(hint.wait <= WAIT_MAX, "{hint:?}");
    }
}

fn clock(bytes: &[u8]) -> (UnixTime, &[u8]) {
    let Some((number, rest)) = bytes.split_first_chunk() else {
        return (UnixTime(0), bytes);
    };
    (UnixTime(u64::from_le_bytes(*number)), rest)
}
