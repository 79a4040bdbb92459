//! Calendar dates in the proleptic Gregorian calendar, and the Unix time of each.
//!
//! Years are counted from March, so that a leap day is the last of its year; an era is 400 years.

use buzz_proto::time::UnixTime;

const DAY: u64 = 86_400;
const ERA: u64 = 146_097;

/// Days from the first of March of the year 0 to the Unix epoch.
const EPOCH: u64 = 719_468;

/// `2026-01-02 03:04:05 UTC`.
pub(super) fn utc(time: UnixTime) -> String {
    let days = time.0 / DAY + EPOCH;
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + carry;
    let second = time.0 % DAY;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Reads `2026-01-02T03:04:05.678+01:00` and its kin (RFC 3339), a part of a second rounded up.
/// Nothing when it is malformed or before 1970.
pub(super) fn rfc3339(text: &str) -> Option<UnixTime> {
    let mut rest = text.trim();
    let year = number(&mut rest, 4)?;
    let month = after(&mut rest, &['-']).and_then(|()| number(&mut rest, 2))?;
    let day = after(&mut rest, &['-']).and_then(|()| number(&mut rest, 2))?;
    let hour = after(&mut rest, &['T', 't', ' ']).and_then(|()| number(&mut rest, 2))?;
    let minute = after(&mut rest, &[':']).and_then(|()| number(&mut rest, 2))?;
    let second = after(&mut rest, &[':']).and_then(|()| number(&mut rest, 2))?;
    let part = fraction(&mut rest)?;
    let (ahead, behind) = offset(rest)?;
    let is_date = (1970..=9999).contains(&year) && (1..=12).contains(&month);
    // A leap second is the one before it, once more.
    if !is_date || day < 1 || day > days_in(year, month) || hour > 23 || minute > 59 || second > 60
    {
        return None;
    }
    let clock = hour * 3600 + minute * 60 + second.min(59) + part;
    let local = days_since_epoch(year, month, day) * DAY + clock;
    Some(UnixTime((local + behind).saturating_sub(ahead)))
}

/// Of a date from 1970 to 9999.
fn days_since_epoch(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400;
    days + (153 * month + 2) / 5 + day - 1 - EPOCH
}

const fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 if year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// So many digits, and no other.
fn number(rest: &mut &str, digits: usize) -> Option<u64> {
    let (head, tail) = rest.split_at_checked(digits)?;
    if !head.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    *rest = tail;
    head.parse().ok()
}

/// One of these.
fn after(rest: &mut &str, one_of: &[char]) -> Option<()> {
    *rest = rest.strip_prefix(one_of)?;
    Some(())
}

/// One if there is a part of a second, however small.
fn fraction(rest: &mut &str) -> Option<u64> {
    let Some(digits) = rest.strip_prefix('.') else {
        return Some(0);
    };
    let tail = digits.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let digits = digits
        .strip_suffix(tail)
        .filter(|digits| !digits.is_empty())?;
    *rest = tail;
    Some(u64::from(digits.bytes().any(|digit| digit != b'0')))
}

/// How many seconds a local time is ahead of UTC, or behind it.
fn offset(text: &str) -> Option<(u64, u64)> {
    if text.eq_ignore_ascii_case("z") {
        return Some((0, 0));
    }
    let mut rest = text.get(1..)?;
    let hours = number(&mut rest, 2)?;
    let minutes = after(&mut rest, &[':']).and_then(|()| number(&mut rest, 2))?;
    let span = hours * 3600 + minutes * 60;
    match text.chars().next() {
        _ if !rest.is_empty() || hours > 23 || minutes > 59 => None,
        Some('+') => Some((span, 0)),
        Some('-') => Some((0, span)),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATES: [(u64, &str); 5] = [
        (0, "1970-01-01 00:00:00 UTC"),
        (951_827_696, "2000-02-29 12:34:56 UTC"),
        (1_767_323_045, "2026-01-02 03:04:05 UTC"),
        (4_107_542_399, "2100-02-28 23:59:59 UTC"),
        (4_107_542_400, "2100-03-01 00:00:00 UTC"),
    ];

    #[test]
    fn times_are_shown_in_the_gregorian_calendar() {
        for (seconds, text) in DATES {
            assert_eq!(utc(UnixTime(seconds)), text);
        }
    }

    #[test]
    fn any_time_can_be_shown() {
        assert!(utc(UnixTime(u64::MAX)).ends_with(" UTC"));
    }

    #[test]
    fn a_date_that_is_shown_can_be_read() {
        let days = (0..5_000).map(|day| UnixTime(day * 5_003 * 3_607));
        for time in days.chain(DATES.map(|(seconds, _)| UnixTime(seconds))) {
            let text = utc(time).replace(" UTC", "Z");
            assert_eq!(rfc3339(&text), Some(time), "{text}");
        }
    }

    #[test]
    fn offsets_and_parts_of_seconds_are_reckoned() {
        for (text, seconds) in [
            ("2026-01-02T04:04:05+01:00", 1_767_323_045),
            ("2026-01-01t22:34:05-04:30", 1_767_323_045),
            (" 2026-01-02T03:04:05.000z ", 1_767_323_045),
            ("2026-01-02T03:04:04.0001Z", 1_767_323_045),
            ("2026-01-02T03:03:60Z", 1_767_323_039),
            ("1970-01-01T00:00:00+23:59", 0),
        ] {
            assert_eq!(rfc3339(text), Some(UnixTime(seconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_nothing() {
        for text in [
            "",
            "2026",
            "2026-01-02",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:05+0100",
            "2026-01-02T03:04:05+01:00:00",
            "2026-01-02T03:04:05*01:00",
            "2026-01-02T03:04:05.Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:00ä1:00",
            "1969-12-31T23:59:59Z",
            "+026-01-02T03:04:05Z",
            "ää26-01-02T03:04:05Z",
        ] {
            assert_eq!(rfc3339(text), None, "{text}");
        }
    }
}
