//! Seconds of the Unix epoch as people read them.

use core::fmt;

use crate::time::UnixTime;

/// Shows a time as `2026-01-02 03:04:05 UTC`, in the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Utc(pub UnixTime);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.0;
        let (year, month, day) = date(seconds / 86_400);
        let second = seconds % 86_400;
        let (hour, minute) = (second / 3600, second / 60 % 60);
        let second = second % 60;
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC"
        )
    }
}

/// Year, month and day of a day since the Unix epoch. Years are counted from March, so that a leap
/// day is the last of its year; an era is 400 years.
const fn date(days: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097;
    // Days from the first of March of the year 0 to the Unix epoch.
    let days = days.saturating_add(719_468);
    let (era, day) = (days / ERA, days % ERA);
    let leaps = (day / 1_460)
        .saturating_add(day / 146_096)
        .saturating_sub(day / 36_524);
    let year = day.saturating_sub(leaps) / 365;
    let before = year
        .saturating_mul(365)
        .saturating_add(year / 4)
        .saturating_sub(year / 100);
    let day = day.saturating_sub(before);
    let month = day.saturating_mul(5).saturating_add(2) / 153;
    let first = month.saturating_mul(153).saturating_add(2) / 5;
    let day = day.saturating_sub(first).saturating_add(1);
    let year = year.saturating_add(era.saturating_mul(400));
    if month < 10 {
        (year, month.saturating_add(3), day)
    } else {
        (year.saturating_add(1), month.saturating_sub(9), day)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn times_are_shown_in_the_gregorian_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_827_696, "2000-02-29 12:34:56 UTC"),
            (1_767_323_045, "2026-01-02 03:04:05 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(Utc(UnixTime(seconds)).to_string(), text);
        }
    }

    #[test]
    fn any_time_can_be_shown() {
        assert!(Utc(UnixTime(u64::MAX)).to_string().ends_with(" UTC"));
    }
}
