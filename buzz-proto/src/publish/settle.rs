//! What an answer means for the job that was sent: pure readings of facts.

use core::time::Duration;

use super::job::Sort;
use crate::ids::EventId;
use crate::relay::{BrokeCause, HttpAnswer, Receipt};
use crate::retry_hint::{self, Hint, HintSource};
use crate::time::UnixTime;
use crate::wire::{
    FRAME_BYTES_MAX, InvalidReason, Reason, ReasonClass, body_reason, decode_events, event_answer,
};

/// What an answer means. What a job makes of it depends on its past too, see
/// [`History`](super::retry::History).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The relay has the event.
    Stored,
    /// The relay will not have it.
    Refused(Reason),
    /// Not now.
    Failed(Failure),
    /// The authentication of the request was refused.
    Unauthorized {
        /// Whether it was taken for a repeated one.
        is_replay: bool,
        /// In the relay's words.
        reason: Reason,
    },
    /// The key may not, or may not yet: a membership can land a second later.
    Forbidden(Reason),
    /// The date of the event is too far from the relay's clock.
    Misdated(Reason),
    /// The relay has no such route.
    NoRoute,
    /// It did not leave.
    NotSent,
    /// No answer came, and none is worth waiting for.
    Lost,
}

/// A failure that may pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// How long the relay asks to be left alone.
    pub(super) hint: Option<Hint>,
    /// Whether the event may be stored all the same.
    pub(super) is_doubtful: bool,
    /// What it counts as.
    pub(super) blame: Blame,
    /// In the relay's words.
    pub(super) reason: Reason,
}

/// What a failure is taken to be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blame {
    /// A quota, or the way there: it would have hit any job.
    Circumstance,
    /// Perhaps this job, if others are stored meanwhile.
    Job,
}

/// What came of asking for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The relay has it.
    Stored,
    /// The relay does not have it.
    Missing,
    /// Not now.
    Failed(Failure),
    /// The authentication of the request was refused.
    Unauthorized,
    /// The relay answers no such question.
    NoRoute,
}

/// Reads the answer to a post of the event `id`. `wall` is our own clock, if it is known.
pub(super) fn read_answer(answer: &HttpAnswer, id: EventId, wall: Option<UnixTime>) -> Reading {
    if (200..300).contains(&answer.status) {
        return read_success(answer, id);
    }
    if let Some(failure) = read_failure(answer, wall) {
        return Reading::Failed(failure);
    }
    let reason = body_reason(&answer.body);
    match answer.status {
        401 => Reading::Unauthorized {
            is_replay: reason.is_replay(),
            reason,
        },
        403 => Reading::Forbidden(reason),
        404 | 405 | 426 => Reading::NoRoute,
        _ if is_misdated(&reason) => Reading::Misdated(reason),
        _ => Reading::Refused(reason),
    }
}

/// Reads the answer to the question for the event `id`.
pub(super) fn read_found(answer: &HttpAnswer, id: EventId, wall: Option<UnixTime>) -> Found {
    if (200..300).contains(&answer.status) {
        return read_rows(answer, id);
    }
    if let Some(failure) = read_failure(answer, wall) {
        return Found::Failed(failure);
    }
    match answer.status {
        401 => Found::Unauthorized,
        _ => Found::NoRoute,
    }
}

/// Reads an answer as a failure that may pass, if it is one.
fn read_failure(answer: &HttpAnswer, wall: Option<UnixTime>) -> Option<Failure> {
    let reason = body_reason(&answer.body);
    if !is_relay_failure(answer.status, &reason) {
        return None;
    }
    let (is_doubtful, blame) = match answer.status {
        425 | 429 => (false, Blame::Circumstance),
        503 if reason.is_rate_limit() => (false, Blame::Circumstance),
        401 | 404 => (false, Blame::Job),
        _ => (true, Blame::Job),
    };
    Some(Failure {
        hint: hint(answer, &reason, wall),
        is_doubtful,
        blame,
        reason,
    })
}

/// Only a whole answer tells what the relay does not have.
fn read_rows(answer: &HttpAnswer, id: EventId) -> Found {
    match decode_events(&answer.body, FRAME_BYTES_MAX) {
        Ok(rows) if rows.events.iter().any(|event| event.id() == id) => Found::Stored,
        Ok(rows) if rows.malformed == 0 => Found::Missing,
        Ok(_) | Err(_) => Found::Failed(Failure {
            hint: None,
            is_doubtful: true,
            blame: Blame::Job,
            reason: body_reason(&answer.body),
        }),
    }
}

/// Whether an answer asks for less traffic, or tells of a relay in trouble: what was asked may
/// succeed later, and the gate of HTTP calls shuts.
pub(crate) fn is_relay_failure(status: u16, reason: &Reason) -> bool {
    match status {
        408 | 425 | 429 | 500 | 502..=504 => true,
        404 => reason.is_about_the_relay(),
        401 => reason.is_replay_check_unavailable(),
        _ => false,
    }
}

/// How long an answer asks to be left alone, in its header or in its words.
pub(crate) fn hint(answer: &HttpAnswer, reason: &Reason, wall: Option<UnixTime>) -> Option<Hint> {
    longest(header_hint(answer, wall), reason.hint)
}

/// A success whose body does not speak of this event is no answer of a relay to this post.
fn read_success(answer: &HttpAnswer, id: EventId) -> Reading {
    match event_answer(&answer.body) {
        Some(said) if said.event.is_none_or(|named| named == id) => {
            if said.accepted || said.reason.is_duplicate() {
                Reading::Stored
            } else if is_misdated(&said.reason) {
                Reading::Misdated(said.reason)
            } else {
                Reading::Refused(said.reason)
            }
        }
        Some(_) | None => Reading::Failed(Failure {
            hint: None,
            is_doubtful: true,
            blame: Blame::Job,
            reason: body_reason(&answer.body),
        }),
    }
}

/// Reads why a call has no answer.
pub(super) fn read_break(cause: BrokeCause) -> Failure {
    let (is_doubtful, blame, text) = match cause {
        BrokeCause::Connect => (false, Blame::Circumstance, "no connection"),
        BrokeCause::Connection => (true, Blame::Job, "the connection broke before the answer"),
        BrokeCause::TooLarge => (true, Blame::Job, "the answer was too large"),
        BrokeCause::TimedOut => (true, Blame::Job, "no answer in time"),
    };
    Failure {
        hint: None,
        is_doubtful,
        blame,
        reason: Reason::new(text),
    }
}

/// Reads the outcome of an EVENT on the socket.
pub(super) fn read_receipt(receipt: Receipt, sort: Sort) -> Reading {
    match receipt {
        Receipt::Answered { accepted: true, .. } => Reading::Stored,
        Receipt::Answered {
            accepted: false,
            reason,
        } => read_refusal(reason),
        Receipt::Unanswered => match sort {
            Sort::Durable | Sort::Mark => Reading::Failed(Failure {
                hint: None,
                is_doubtful: true,
                blame: Blame::Circumstance,
                reason: Reason::new("no answer on the socket"),
            }),
            Sort::Latest(_) => Reading::Lost,
        },
        Receipt::NotSent => Reading::NotSent,
    }
}

fn read_refusal(reason: Reason) -> Reading {
    let failed = |blame, reason: Reason| {
        Reading::Failed(Failure {
            hint: reason.hint,
            is_doubtful: false,
            blame,
            reason,
        })
    };
    match reason.class {
        ReasonClass::Duplicate => Reading::Stored,
        ReasonClass::RateLimited => failed(Blame::Circumstance, reason),
        ReasonClass::AuthRequired(_) | ReasonClass::Error(_) => failed(Blame::Job, reason),
        ReasonClass::Invalid(InvalidReason::TimestampTooFar) => Reading::Misdated(reason),
        ReasonClass::Empty
        | ReasonClass::Restricted(_)
        | ReasonClass::Blocked
        | ReasonClass::Invalid(InvalidReason::Other)
        | ReasonClass::Pow
        | ReasonClass::Unsupported
        | ReasonClass::Relay
        | ReasonClass::HttpAuth(_)
        | ReasonClass::Unknown => Reading::Refused(reason),
    }
}

fn is_misdated(reason: &Reason) -> bool {
    reason.class == ReasonClass::Invalid(InvalidReason::TimestampTooFar)
}

/// A date says how long to wait only beside a clock.
fn header_hint(answer: &HttpAnswer, wall: Option<UnixTime>) -> Option<Hint> {
    let value = answer.retry_after.as_ref()?;
    let clock = answer.date.or(wall);
    let hint = retry_hint::from_header(value, answer.date, clock.unwrap_or_default())?;
    (hint.source != HintSource::Date || clock.is_some()).then_some(hint)
}

fn longest(one: Option<Hint>, other: Option<Hint>) -> Option<Hint> {
    let wait = |hint: &Hint| -> Duration { hint.wait };
    one.into_iter().chain(other).max_by_key(wait)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn reading(status: u16, body: &'static str) -> Reading {
        let body = Bytes::from_static(body.as_bytes());
        let answer = HttpAnswer {
            status,
            retry_after: None,
            date: None,
            body,
        };
        read_answer(&answer, EventId([7; 32]), None)
    }

    fn passes(status: u16, body: &'static str) -> bool {
        matches!(reading(status, body), Reading::Failed(_))
    }

    #[test]
    fn only_these_failures_pass() {
        for status in 100..600 {
            let expected = matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504)
                || (200..300).contains(&status);
            assert_eq!(passes(status, "{}"), expected, "{status}");
        }
        assert!(passes(
            404,
            r#"{"error":"relay: no community is configured for this host"}"#
        ));
        assert!(passes(
            401,
            r#"{"error":"NIP-98: replay check unavailable"}"#
        ));
    }

    #[test]
    fn a_success_stores_only_what_it_accepts_or_had() {
        assert_eq!(
            reading(200, r#"{"accepted":true,"message":""}"#),
            Reading::Stored
        );
        assert_eq!(
            reading(200, r#"{"accepted":false,"message":"duplicate: "}"#),
            Reading::Stored
        );
        let refused = reading(200, r#"{"accepted":false,"message":"blocked: no"}"#);
        assert_eq!(refused, Reading::Refused(Reason::new("blocked: no")));
    }

    #[test]
    fn the_longer_hint_of_header_and_body_wins() {
        for (header, expected) in [("30", 30), ("2", 9), ("rubbish", 9)] {
            let answer = HttpAnswer {
                status: 429,
                retry_after: Some(Bytes::from_static(header.as_bytes())),
                date: None,
                body: Bytes::from_static(
                    b"{\"error\":\"rate-limited: quota exceeded; retry in 9s\"}",
                ),
            };
            let Reading::Failed(failure) = read_answer(&answer, EventId([7; 32]), None) else {
                panic!("a 429 is not final");
            };
            assert_eq!(failure.hint.map(|hint| hint.wait.as_secs()), Some(expected));
        }
    }
}
