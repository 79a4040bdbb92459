//! Notes on the connection and on what is heard over it.

use core::fmt;

use super::Span;
use crate::ids::ChannelId;
use crate::note::{LinkNote, Note, Quota, SubPhase};
use crate::relay::{CloseCause, ConnectCause, Sub};

pub(super) fn write_link(link: &LinkNote, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match link {
        LinkNote::Dialing => f.write_str("connecting to the relay"),
        LinkNote::Live {
            authenticated: true,
        } => f.write_str("connected and logged in"),
        LinkNote::Live {
            authenticated: false,
        } => f.write_str("connected; not logged in"),
        LinkNote::Failed { cause } => {
            f.write_str("no connection: ")?;
            write_cause(cause, f)
        }
        LinkNote::AuthRefused { reason } => {
            write!(f, "the relay refuses the login: {}", reason.text)
        }
        LinkNote::Lost { code: Some(code) } => {
            write!(f, "the relay ended the connection with code {code}")
        }
        LinkNote::Lost { code: None } => f.write_str("the connection was lost"),
        LinkNote::Closed { cause } => write!(f, "connection closed: {}", close_words(*cause)),
        LinkNote::Waiting { wait } => write!(f, "connecting again in {}", Span(*wait)),
        LinkNote::Stopped => {
            f.write_str("this relay can never be reached; nothing is tried any more")
        }
    }
}

fn write_cause(cause: &ConnectCause, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match cause {
        ConnectCause::Url => f.write_str("the address cannot be used"),
        ConnectCause::Resolve => f.write_str("the host name has no address"),
        ConnectCause::Transport => f.write_str("the host does not answer, or the connection broke"),
        ConnectCause::Certificate => f.write_str("the relay's certificate is not trusted"),
        ConnectCause::Status { status, text } => write!(f, "HTTP status {status} {text}"),
        ConnectCause::Protocol => f.write_str("the host does not speak WebSocket"),
    }
}

pub(super) fn write_subscription(
    sub: Sub,
    phase: &SubPhase,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "{sub}: ")?;
    write_phase(phase, f)
}

fn write_phase(phase: &SubPhase, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match phase {
        SubPhase::Requested => f.write_str("subscribing"),
        SubPhase::Live => f.write_str("subscribed"),
        SubPhase::Unconfirmed => f.write_str("not confirmed in time, subscribing again"),
        SubPhase::Waiting { reason } => {
            write!(
                f,
                "refused for now, subscribing again later: {}",
                reason.text
            )
        }
        SubPhase::Refused { reason } => write!(f, "refused by the relay: {}", reason.text),
    }
}

pub(super) fn write_throttled(note: &Note, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Note::Throttled {
        quota,
        source,
        capped,
        wait,
        in_flight,
        waiting,
        attempt,
    } = note
    else {
        return f.write_str(note.kind());
    };
    let by = match (source, capped) {
        (None, _) => ", it named no time",
        (Some(_), false) => " as it asked",
        (Some(_), true) => ", it asked for longer",
    };
    write!(
        f,
        "the relay wants fewer {}: pausing for {}{by}, {in_flight} under way, {waiting} waiting, \
         refusal {attempt} in a row",
        quota_words(*quota),
        Span(*wait)
    )
}

pub(super) fn write_roster_failed(status: Option<u16>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("the channel list could not be read: ")?;
    match status {
        Some(status) => write!(f, "HTTP status {status}"),
        None => f.write_str("no answer"),
    }
}

pub(super) fn write_left(
    channel: ChannelId,
    dropped: u32,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(
        f,
        "left channel {channel}, {dropped} waiting events dropped"
    )
}

pub(super) fn write_clock_skew(seconds: i64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "the clock differs from the relay's by {seconds} s; beyond 60 s it refuses to log in"
    )
}

const fn quota_words(quota: Quota) -> &'static str {
    match quota {
        Quota::Operations => "requests on the socket",
        Quota::Messages => "messages on the socket",
        Quota::Http => "HTTP calls",
    }
}

const fn close_words(cause: CloseCause) -> &'static str {
    match cause {
        CloseCause::DialLimit => "connecting took too long",
        CloseCause::AuthLimit => "logging in took too long",
        CloseCause::AuthRefused => "the login was refused",
        CloseCause::Write => "a write took too long or broke",
        CloseCause::Silent => "the relay fell silent",
        CloseCause::Unconfirmed => "the relay confirms no subscription",
        CloseCause::Lossy => "the relay does not send what it stores",
        CloseCause::Requested => "as asked",
        CloseCause::Shutdown => "the agent ends",
    }
}
