//! How long a peer asks to be left alone: `Retry-After` (RFC 9110 section 10.2.3) and the words
//! `retry in {N}s` that a Buzz relay puts into its texts.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::UnixTime;

/// The longest wait a peer can ask for. Every known quota window is at most a minute, so more is a
/// mistake or malice, and a client that obeyed it would be silenced by one answer.
pub const WAIT_MAX: Duration = Duration::from_secs(300);

/// What zero reads as: relays cut the rest of a window to whole seconds.
const WAIT_MIN: Duration = Duration::from_secs(1);

/// The least wait until a date when only our own clock can say how far away it is: clocks differ
/// by seconds.
const WAIT_MIN_BY_OWN_CLOCK: Duration = Duration::from_secs(5);

/// A wait a peer asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hint {
    /// From 1 s to [`WAIT_MAX`].
    #[serde(with = "crate::json::nanos")]
    pub wait: Duration,
    /// Where it stood.
    pub source: HintSource,
    /// Whether the peer asked for more than [`WAIT_MAX`].
    pub capped: bool,
}

/// Where a hint stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HintSource {
    /// `Retry-After` in seconds.
    Header,
    /// `Retry-After` as a date.
    Date,
    /// `retry in {N}s` within a text.
    Text,
}

impl Hint {
    fn new(wait: Duration, source: HintSource) -> Self {
        Self {
            wait: wait.clamp(WAIT_MIN, WAIT_MAX),
            source,
            capped: wait > WAIT_MAX,
        }
    }
}

/// Reads the value of a `Retry-After` header: seconds, or a date in any form of RFC 9110
/// section 5.6.7. A date counts from `date`, the answer's own `Date`; without one from `wall`, our
/// clock, and then the wait is at least 5 s. Nothing when the value is malformed.
#[must_use]
pub fn from_header(value: &[u8], date: Option<UnixTime>, wall: UnixTime) -> Option<Hint> {
    let text = core::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
    if let (Some(seconds), "") = leading_number(text) {
        return Some(Hint::new(Duration::from_secs(seconds), HintSource::Header));
    }
    let until = parse_http_date(text.as_bytes(), date.unwrap_or(wall))?;
    let wait = match date {
        Some(date) => until.saturating_since(date),
        None => until.saturating_since(wall).max(WAIT_MIN_BY_OWN_CLOCK),
    };
    Some(Hint::new(wait, HintSource::Date))
}

/// Finds the first `retry in {N}s` in a text.
#[must_use]
pub fn from_text(text: &str) -> Option<Hint> {
    const WORDS: &str = "retry in ";
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(WORDS) {
        let (number, unit) = leading_number(after);
        if let Some(seconds) = number
            && unit.starts_with('s')
        {
            return Some(Hint::new(Duration::from_secs(seconds), HintSource::Text));
        }
        rest = after;
    }
    None
}

/// Reads a date of HTTP in its three forms, IMF-fixdate, RFC 850 and asctime (RFC 9110 section
/// 5.6.7). A year of two digits is the one at most 50 years after `wall`. Dates before 1970 read
/// as 1970. Nothing when the value is malformed.
#[must_use]
pub fn parse_http_date(value: &[u8], wall: UnixTime) -> Option<UnixTime> {
    let text = core::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
    let date = imf_fixdate(text)
        .or_else(|| rfc850_date(text, wall))
        .or_else(|| asctime_date(text))?;
    date.unix_time()
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const DAYS_BEFORE_MONTH: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
const DAYS_IN_MONTH: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const LONG_WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
const SECONDS_PER_DAY: u64 = 86_400;
const SECONDS_PER_YEAR: u64 = 31_556_952;

struct CivilDate {
    year: u64,
    /// From 0.
    month: usize,
    /// From 1.
    day: u64,
    second_of_day: u64,
}

impl CivilDate {
    fn unix_time(&self) -> Option<UnixTime> {
        let leap_day = u64::from(self.month == 1 && is_leap(self.year));
        let days_in_month = DAYS_IN_MONTH.get(self.month)?.saturating_add(leap_day);
        if self.day < 1 || self.day > days_in_month {
            return None;
        }
        if self.year < 1970 {
            return Some(UnixTime(0));
        }
        let leap_day_passed = u64::from(self.month > 1 && is_leap(self.year));
        let days = self
            .year
            .saturating_sub(1970)
            .saturating_mul(365)
            .saturating_add(leap_years_before(self.year))
            .saturating_sub(leap_years_before(1970))
            .saturating_add(*DAYS_BEFORE_MONTH.get(self.month)?)
            .saturating_add(leap_day_passed)
            .saturating_add(self.day)
            .saturating_sub(1);
        let seconds = days.saturating_mul(SECONDS_PER_DAY);
        Some(UnixTime(seconds.saturating_add(self.second_of_day)))
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(text: &str) -> Option<CivilDate> {
    let [weekday, day, month, year, clock, "GMT"] = fields(text.split(' '))? else {
        return None;
    };
    let weekday = weekday.strip_suffix(',')?;
    WEEKDAYS.contains(&weekday).then_some(())?;
    Some(CivilDate {
        year: number(year, 4)?,
        month: month_of(month)?,
        day: number(day, 2)?,
        second_of_day: second_of_day(clock)?,
    })
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850_date(text: &str, wall: UnixTime) -> Option<CivilDate> {
    let [weekday, date, clock, "GMT"] = fields(text.split(' '))? else {
        return None;
    };
    let weekday = weekday.strip_suffix(',')?;
    LONG_WEEKDAYS.contains(&weekday).then_some(())?;
    let [day, month, year] = fields(date.split('-'))?;
    Some(CivilDate {
        year: full_year(number(year, 2)?, wall),
        month: month_of(month)?,
        day: number(day, 2)?,
        second_of_day: second_of_day(clock)?,
    })
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime_date(text: &str) -> Option<CivilDate> {
    let [weekday, month, day, clock, year] = fields(text.split_ascii_whitespace())?;
    WEEKDAYS.contains(&weekday).then_some(())?;
    Some(CivilDate {
        year: number(year, 4)?,
        month: month_of(month)?,
        day: number(day, day.len().min(2))?,
        second_of_day: second_of_day(clock)?,
    })
}

/// The latest year with these last two digits that is at most 50 years ahead.
fn full_year(two_digits: u64, wall: UnixTime) -> u64 {
    let present = wall.0 / SECONDS_PER_YEAR;
    let latest = present.saturating_add(1970).saturating_add(50);
    let excess = latest.saturating_add(100).saturating_sub(two_digits) % 100;
    latest.saturating_sub(excess)
}

fn second_of_day(clock: &str) -> Option<u64> {
    let [hour, minute, second] = fields(clock.split(':'))?;
    let (hour, minute, second) = (number(hour, 2)?, number(minute, 2)?, number(second, 2)?);
    // 60 is a leap second.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let minutes = hour.saturating_mul(60).saturating_add(minute);
    Some(minutes.saturating_mul(60).saturating_add(second))
}

fn month_of(name: &str) -> Option<usize> {
    MONTHS.iter().position(|month| *month == name)
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn leap_years_before(year: u64) -> u64 {
    let last = year.saturating_sub(1);
    (last / 4)
        .saturating_sub(last / 100)
        .saturating_add(last / 400)
}

/// Exactly `N` parts.
fn fields<'a, const N: usize>(mut parts: impl Iterator<Item = &'a str>) -> Option<[&'a str; N]> {
    let mut found = [""; N];
    for field in &mut found {
        *field = parts.next()?;
    }
    parts.next().is_none().then_some(found)
}

/// A number of exactly so many digits.
fn number(text: &str, digits: usize) -> Option<u64> {
    match leading_number(text) {
        (Some(number), "") if text.len() == digits => Some(number),
        _ => None,
    }
}

/// The number a text begins with, at most `u64::MAX`, and what follows it.
fn leading_number(text: &str) -> (Option<u64>, &str) {
    let rest = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let digits = text.strip_suffix(rest).unwrap_or_default();
    let number = digits.bytes().fold(0_u64, |number, digit| {
        let digit = u64::from(digit.wrapping_sub(b'0'));
        number.saturating_mul(10).saturating_add(digit)
    });
    ((!digits.is_empty()).then_some(number), rest)
}
