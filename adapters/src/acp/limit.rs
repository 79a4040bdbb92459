//! Used-up allowances: how agents and providers name them, and when they end.
//!
//! Only typed fields are looked at, names and values. Free text may quote the conversation; the one
//! exception is a form that a program writes for programs.

use std::time::Duration;

use buzz_proto::retry_hint::parse_http_date;
use buzz_proto::time::UnixTime;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::failure::{is_quote, status};

/// Parts of codes that name a used-up allowance.
const CODES: [&str; 9] = [
    "usage_limit",
    "usagelimit",
    "rate_limit",
    "ratelimit",
    "quota_exceeded",
    "quotaexceeded",
    "insufficient_quota",
    "too_many_requests",
    "resource_exhausted",
];

/// A code is short; what is longer is a text.
const CODE_BYTES_MAX: usize = 64;

/// Names of fields that hold the end as a moment, without `_` and case.
const MOMENTS: [&str; 12] = [
    "resetsat",
    "resetat",
    "resetson",
    "reset",
    "resets",
    "resettime",
    "resetstime",
    "resetdate",
    "nextreset",
    "retryat",
    "availableat",
    "limiteduntil",
];

/// Names of fields that hold the time until the end.
const SPANS: [&str; 9] = [
    "retryafter",
    "retryin",
    "retrydelay",
    "resetin",
    "resetsin",
    "resetafter",
    "resetsafter",
    "timeuntilreset",
    "reset",
];

/// What a name may end with, and how many of it make a second. The longest come first.
const UNITS: [(&str, u64); 8] = [
    ("milliseconds", 1000),
    ("timestamp", 1),
    ("seconds", 1),
    ("millis", 1000),
    ("epoch", 1),
    ("secs", 1),
    ("sec", 1),
    ("ms", 1000),
];

/// The least wait: who writes zero, or half a second, is not helped by being asked at once.
const WAIT_MIN: Duration = Duration::from_secs(5);

/// No allowance ends later. A moment beyond is a mistake, as is one in the past: neither says when.
const WAIT_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// As numbers, moments before 2001 are spans.
const MOMENT_MIN: u64 = 1_000_000_000;

/// Whether typed fields of an error name a limit.
pub(super) fn is_named(data: &Value) -> bool {
    match data {
        Value::String(text) => is_code(text),
        Value::Array(values) => values.iter().any(is_named),
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            is_code(name) && says_so(name, value)
                || is_status(name, value)
                || !is_quote(name) && is_named(value)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// When the limit ends, if typed fields say so. Of several ends on one level the first counts, and
/// outer levels count before inner ones: to ask too early costs one question, too late hours.
pub(super) fn end(data: &Value, wall: UnixTime) -> Option<UnixTime> {
    let mut level = vec![data];
    while !level.is_empty() {
        let ends = level.iter().filter_map(|value| earliest(value, wall));
        if let Some(end) = ends.min() {
            return Some(end);
        }
        level = level.into_iter().flat_map(children).collect();
    }
    None
}

/// The end in `Claude AI usage limit reached|1767323045`, a text of Claude Code.
pub(super) fn end_in_text(text: &str, wall: UnixTime) -> Option<Option<UnixTime>> {
    const SAID: &str = "usage limit reached";
    let (said, moment) = text.trim().rsplit_once('|')?;
    let said = said.trim().to_ascii_lowercase();
    let is_said = said.len() <= CODE_BYTES_MAX && said.ends_with(SAID);
    let is_moment = !moment.is_empty() && moment.bytes().all(|byte| byte.is_ascii_digit());
    (is_said && is_moment).then(|| number(moment, &Name::of("resets_at"), wall))
}

/// The snapshot of a limit that holds is named after it as well.
fn says_so(name: &str, value: &Value) -> bool {
    let name = name.to_ascii_lowercase();
    let is_verdict = [
        "exceed",
        "reach",
        "exhaust",
        "error",
        "insufficient",
        "too_many",
    ]
    .iter()
    .any(|word| name.contains(word));
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) => true,
        Value::Object(fields) => is_verdict || is_rejected(fields),
        Value::Number(_) | Value::String(_) | Value::Array(_) => is_verdict,
    }
}

fn is_rejected(fields: &Map<String, Value>) -> bool {
    let status = fields.get("status").and_then(Value::as_str);
    status.is_some_and(|status| {
        ["rejected", "exceeded", "exhausted", "blocked"]
            .iter()
            .any(|word| status.eq_ignore_ascii_case(word))
    })
}

fn is_code(text: &str) -> bool {
    let is_short = text.len() <= CODE_BYTES_MAX && !text.contains(char::is_whitespace);
    let text = text.to_ascii_lowercase().replace('-', "_");
    is_short && CODES.iter().any(|code| text.contains(code))
}

fn is_status(name: &str, value: &Value) -> bool {
    status(name, value) == Some(429)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(values) => values.iter().collect(),
        Value::Object(fields) => fields
            .iter()
            .filter_map(|(name, value)| (!is_quote(name)).then_some(value))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn earliest(value: &Value, wall: UnixTime) -> Option<UnixTime> {
    let fields = value.as_object()?.iter();
    fields
        .filter_map(|(name, value)| moment(&Name::of(name), value, wall))
        .min()
}

fn moment(name: &Name, value: &Value, wall: UnixTime) -> Option<UnixTime> {
    if !name.is_moment && !name.is_span {
        return None;
    }
    match value {
        Value::Number(value) => number(&value.to_string(), name, wall),
        Value::String(text) => number(text.trim(), name, wall)
            .or_else(|| ahead(rfc3339(text)?, wall))
            .or_else(|| ahead(parse_http_date(text.as_bytes(), wall)?, wall))
            .or_else(|| {
                let wait = name.is_span.then(|| span(text.trim())).flatten()?;
                after(wait, wall)
            }),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// What a field of this name holds.
struct Name {
    is_moment: bool,
    is_span: bool,
    /// How many of its unit make a second.
    per_second: u64,
}

impl Name {
    fn of(name: &str) -> Self {
        let name: String = name
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|char| char.to_ascii_lowercase())
            .collect();
        let unit = UNITS
            .iter()
            .find_map(|(unit, per_second)| Some((name.strip_suffix(unit)?, *per_second)));
        let (bare, per_second) = unit.unwrap_or((&name, 1));
        Self {
            is_moment: MOMENTS.contains(&bare),
            is_span: SPANS.contains(&bare),
            per_second,
        }
    }
}

/// A number is a moment if it is as large as one, and a span in its unit otherwise.
fn number(text: &str, name: &Name, wall: UnixTime) -> Option<UnixTime> {
    let (whole, part) = decimal(text)?;
    if whole >= MOMENT_MIN && (name.is_moment || name.per_second == 1) {
        let rounded = whole.saturating_add(u64::from(part > 0));
        return ahead(UnixTime(seconds(rounded)), wall);
    }
    let wait = if name.per_second == 1 {
        Duration::from_secs(whole).checked_add(Duration::from_millis(part))?
    } else {
        Duration::from_millis(whole)
    };
    name.is_span.then(|| after(wait, wall)).flatten()
}

/// A moment in seconds, whether it was written in seconds or in thousandths, millionths, billionths.
const fn seconds(mut moment: u64) -> u64 {
    const YEAR_5000: u64 = 100_000_000_000;
    while moment >= YEAR_5000 {
        moment = moment.div_ceil(1_000);
    }
    moment
}

/// What a decimal number says, in whole ones and thousandths.
fn decimal(text: &str) -> Option<(u64, u64)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_decimal =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_decimal(whole) || !is_decimal(part) {
        return None;
    }
    let part = format!("{part:0<3}").get(..3)?.parse().ok()?;
    Some((whole.parse().ok()?, part))
}

/// `34.5s`, `6m0s`, `20ms`.
fn span(text: &str) -> Option<Duration> {
    let mut wait = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|char: char| char.is_ascii_digit() || char == '.');
        let (whole, part) = decimal(rest.strip_suffix(unit)?)?;
        let number = Duration::from_secs(whole).checked_add(Duration::from_millis(part))?;
        let tail = unit.trim_start_matches(|char: char| char.is_ascii_alphabetic());
        let part = match unit.strip_suffix(tail)? {
            "ms" => number.checked_div(1000)?,
            "s" => number,
            "m" => number.checked_mul(60)?,
            "h" => number.checked_mul(3600)?,
            "d" => number.checked_mul(24 * 3600)?,
            _ => return None,
        };
        wait = wait.checked_add(part)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(wait)
}

fn after(wait: Duration, wall: UnixTime) -> Option<UnixTime> {
    let rounded = wait.checked_add(Duration::from_millis(999))?;
    ahead(wall.after(rounded.max(WAIT_MIN)), wall)
}

/// A date of RFC 3339, a part of a second rounded up. Nothing when it has no offset from UTC, or lies
/// before 1970.
fn rfc3339(text: &str) -> Option<UnixTime> {
    let moment: Timestamp = text.trim().parse().ok()?;
    let seconds = u64::try_from(moment.as_second()).ok()?;
    let part = u64::from(moment.subsec_nanosecond() > 0);
    Some(UnixTime(seconds.saturating_add(part)))
}

/// A moment that can be waited for.
fn ahead(moment: UnixTime, wall: UnixTime) -> Option<UnixTime> {
    let is_ahead = moment > wall && moment <= wall.after(WAIT_MAX);
    is_ahead.then(|| moment.max(wall.after(WAIT_MIN)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WALL: UnixTime = UnixTime(1_767_323_045);

    #[test]
    fn the_end_of_a_limit_is_found_in_many_shapes() {
        let hour = Some(WALL.after(Duration::from_secs(3600)));
        for data in [
            json!({"resetsAt": 1_767_326_645_u64}),
            json!({"resets_at": "1767326645"}),
            json!({"reset_at": 1_767_326_644_200_u64}),
            json!({"resetAtMs": 1_767_326_645_000_u64}),
            json!({"reset_time": 1_767_326_645_000_000_u64}),
            json!({"resetTimestamp": 1_767_326_645_000_000_000_u64}),
            json!({"resetsAt": 1_767_326_644.5}),
            json!({"resetsAt": "2026-01-02T05:04:05+01:00"}),
            json!({"retry_at": "Fri, 02 Jan 2026 04:04:05 GMT"}),
            json!({"retry_after": 3600}),
            json!({"retryAfter": "3600"}),
            json!({"retry-after": 3599.2}),
            json!({"retryAfterSeconds": 3600}),
            json!({"retry_after_ms": 3_600_000}),
            json!({"resets_in_seconds": 3600}),
            json!({"retryDelay": "3600s"}),
            json!({"x": {"reset": "59m59.5s"}}),
            json!({"Retry-After": "Fri, 02 Jan 2026 04:04:05 GMT"}),
            json!([{"a": [{"retry_after": "1h"}]}]),
            json!({"x": {"retry_after": 9}, "retry_after": 3600}),
            json!({"primary": {"resets_at": 1_767_326_645}, "weekly": {"resets_at": 1_767_926_645}}),
        ] {
            assert_eq!(end(&data, WALL), hour, "{data}");
        }
    }

    #[test]
    fn dates_are_read_with_their_offsets_and_parts_of_seconds() {
        for (text, seconds) in [
            ("2026-01-02T03:04:05Z", Some(1_767_323_045)),
            ("2026-01-02T04:04:05+01:00", Some(1_767_323_045)),
            ("2026-01-01t22:34:05-04:30", Some(1_767_323_045)),
            (" 2026-01-02 03:04:05.000z ", Some(1_767_323_045)),
            ("2026-01-02T03:04:04.0001Z", Some(1_767_323_045)),
            ("2000-02-29T12:34:56Z", Some(951_827_696)),
            ("1969-12-31T23:59:59Z", None),
            ("2026-01-02T03:04:05", None),
            ("2026-01-02", None),
            ("2026-02-29T00:00:00Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-01-01T24:00:00Z", None),
            ("ää26-01-02T03:04:05Z", None),
            ("", None),
        ] {
            assert_eq!(rfc3339(text), seconds.map(UnixTime), "{text}");
        }
    }

    #[test]
    fn a_span_as_large_as_a_moment_is_one() {
        let data = json!({"retry_after": 1_767_326_645});
        assert_eq!(end(&data, WALL), Some(UnixTime(1_767_326_645)));
    }

    #[test]
    fn an_end_that_is_now_is_some_seconds_away() {
        let soon = Some(WALL.after(WAIT_MIN));
        for data in [
            json!({"retry_after": 0}),
            json!({"retry_after": 0.3}),
            json!({"retryDelay": "20ms"}),
            json!({"resetsAt": WALL.0 + 1}),
        ] {
            assert_eq!(end(&data, WALL), soon, "{data}");
        }
    }

    #[test]
    fn what_cannot_be_a_time_says_nothing() {
        for value in [
            json!(-1),
            json!(-1e300),
            json!(1e300),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(f64::MIN_POSITIVE),
            json!("99999999999999999999999999"),
            json!("9999999999999999999.9999999999999999999"),
            json!("9223372036854775807h"),
            json!("1.2.3"),
            json!("."),
            json!(""),
            json!("s"),
            json!("1x"),
            json!("soon"),
            json!("2026-01-01T00:00:00Z"),
            json!("9999-12-31T23:59:59-23:59"),
            json!("Thu, 01 Jan 2026 04:04:05 GMT"),
            json!(null),
            json!(true),
            json!([3600]),
            json!({}),
        ] {
            for name in ["resetsAt", "retry_after", "retryAfterMs", "reset"] {
                let data = json!({name: value});
                let end = end(&data, WALL);
                assert!(end.is_none_or(|end| end == WALL.after(WAIT_MIN)), "{data}");
            }
            let data = json!({"resetsAt": value});
            assert_eq!(end(&data, WALL), None, "{data}");
        }
        for data in [
            json!({"resetsAt": 300}),
            json!({"resetsAt": 1_767_323_045}),
            json!({"retry_after": 1_767_323_045}),
            json!({"used": 3600}),
            json!({"request": {"retry_after": 3600}}),
            json!("1h"),
            json!(7),
        ] {
            assert_eq!(end(&data, WALL), None, "{data}");
        }
        for wall in [UnixTime(0), UnixTime(u64::MAX)] {
            let _no_panic = end(&json!({"retry_after": u64::MAX / 1000}), wall);
        }
    }

    #[test]
    fn a_limit_is_named_in_typed_fields() {
        for data in [
            json!("rate_limit_exceeded"),
            json!({"codex_error_info": "usage_limit_exceeded"}),
            json!({"codexErrorInfo": "usageLimitExceeded"}),
            json!({"error": {"type": "rate_limit_error"}}),
            json!({"type": "usage_limit_reached", "resets_at": 1}),
            json!({"error": {"status": "RESOURCE_EXHAUSTED"}}),
            json!({"usage_limit_exceeded": {}}),
            json!({"rateLimitInfo": {"status": "rejected"}}),
            json!({"rate_limited": true}),
            json!([{"reason": "Rate-Limit"}]),
            json!({"a": {"http_status_code": 429}}),
            json!({"status": "429"}),
        ] {
            assert!(is_named(&data), "{data}");
        }
        for data in [
            json!(null),
            json!("the rate_limit is what you asked about"),
            json!({"rate_limits": {"primary": {"used_percent": 3}}}),
            json!({"rateLimitInfo": {"status": "allowed"}}),
            json!({"rate_limited": false, "usage_limit_exceeded": null}),
            json!({"count": 429}),
            json!({"prompt": "usage_limit_exceeded"}),
            json!({"messages": [{"status": 429}]}),
        ] {
            assert!(!is_named(&data), "{data}");
        }
    }

    #[test]
    fn the_text_that_a_program_writes_for_programs_is_read() {
        let end = |text| end_in_text(text, WALL);
        let moment = Some(Some(UnixTime(1_767_326_645)));
        assert_eq!(end("Claude AI usage limit reached|1767326645"), moment);
        assert_eq!(end("Claude AI usage limit reached|1"), Some(None));
        assert_eq!(end("Claude AI usage limit reached"), None);
        assert_eq!(end("Claude AI usage limit reached|"), None);
        assert_eq!(end("Claude AI usage limit reached|soon"), None);
        assert_eq!(end("the page says|1767326645"), None);
    }
}
