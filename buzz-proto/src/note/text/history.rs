//! Notes on what was lost, read again and kept.

use core::fmt;
use core::time::Duration;

use super::Span;
use crate::ids::EventId;
use crate::note::{GapWhy, Note, ReadFailure};
use crate::relay::Sub;
use crate::time::UnixTime;
use crate::utc::Utc;

pub(super) const NOT_PERSISTED: &str =
    "the state could not be written; a restart would read further back";
pub(super) const ANSWERS_UNREAD: &str =
    "what this agent said before its start could not be read; an event may be answered twice";

pub(super) fn write_gap(note: &Note, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Note::Gap {
        sub,
        count,
        from,
        to,
        why,
    } = note
    else {
        return f.write_str(note.kind());
    };
    match count {
        Some(count) => write!(f, "{sub}: {count} events are lost")?,
        None => write!(f, "{sub}: events may be lost")?,
    }
    write!(
        f,
        ", dated {} to {}: {}",
        Utc(*from),
        Utc(*to),
        gap_words(*why)
    )
}

pub(super) fn write_behind(sub: Sub, dated: UnixTime, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "{sub}: an event dated {} found no room; what finds none is read again when there is some",
        Utc(dated)
    )
}

pub(super) fn write_lagging(
    sub: Sub,
    count: u64,
    wait: Duration,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(
        f,
        "{sub}: {count} events have waited for {} to be read again; any room will do now",
        Span(wait)
    )
}

pub(super) fn write_caught_up(sub: Sub, count: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{sub}: caught up, {count} events were delivered late")
}

pub(super) fn write_read_failed(
    sub: Sub,
    why: &ReadFailure,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "{sub}: stored events could not be read: ")?;
    write_read_failure(why, f)
}

pub(super) fn write_missed(sub: Sub, event: EventId, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "{sub}: the relay stores event {event}, but did not send it; subscribing again"
    )
}

pub(super) fn write_unaudited(
    sub: Sub,
    before: UnixTime,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(
        f,
        "{sub}: what is older than {} was not compared with what the relay stores",
        Utc(before)
    )
}

pub(super) fn write_dedup_short(dated: UnixTime, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "too many events to remember: one dated {} is forgotten and may come again",
        Utc(dated)
    )
}

pub(super) fn write_record_ahead(
    sub: Sub,
    seconds: u64,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(
        f,
        "{sub}: its record is {seconds} s ahead of the relay's time and is not trusted"
    )
}

fn write_read_failure(why: &ReadFailure, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match why {
        ReadFailure::Refused { reason } => write!(f, "the relay refuses: {}", reason.text),
        ReadFailure::Silent => f.write_str("the relay fell silent"),
        ReadFailure::TooLarge => f.write_str("it brought too much"),
        ReadFailure::NotSent => f.write_str("the request could not be sent"),
        ReadFailure::Disconnected => f.write_str("the connection ended"),
        ReadFailure::Http {
            status: Some(status),
        } => write!(f, "HTTP status {status}"),
        ReadFailure::Http { status: None } => f.write_str("no answer"),
        ReadFailure::Empty => f.write_str("it brought nothing, and there is something"),
    }
}

const fn gap_words(why: GapWhy) -> &'static str {
    match why {
        GapWhy::NoRoom => "there was no room for them",
        GapWhy::NotStored => "the relay does not have them any more",
        GapWhy::HistoryLimit => "one second of history holds more than one request brings",
        GapWhy::Ended => "the agent ended before they were read again",
        GapWhy::Left => "their channel was left before they were read again",
        GapWhy::ConsumerGone => "nobody takes them any more",
    }
}
