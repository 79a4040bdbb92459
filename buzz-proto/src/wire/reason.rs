//! What a relay says about a refusal, classified once. The only place that reads texts of the peer.
//!
//! NIP-01: a reason begins with a word and a colon that a machine can read. The class comes from
//! that word; within a class whole texts, or how they begin, tell more. A substring decides nothing,
//! because relays quote what others wrote.

use alloc::borrow::Cow;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Excerpt;
use super::decode::Text;
use crate::ids::EventId;
use crate::retry_hint::{self, Hint};

/// How much of an answer is read to find its reason: relays need less than 1 KiB, and the error
/// pages of what stands before them say nothing we understand.
const BODY_BYTES_READ: usize = 64 * 1024;

/// Why a relay refused, closed or noticed something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// What it means.
    pub class: ReasonClass,
    /// What it says.
    pub text: Excerpt,
    /// The wait it asks for: in a `rate-limited` text, or in any answer over HTTP.
    pub hint: Option<Hint>,
}

/// What a reason means, by its prefix up to the first colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ReasonClass {
    /// No text: an acknowledgement.
    Empty,
    /// `duplicate:` the relay has it.
    Duplicate,
    /// `rate-limited`, with a colon or without.
    RateLimited,
    /// `auth-required:` (NIP-42).
    AuthRequired(AuthReason),
    /// `restricted:` (NIP-42).
    Restricted(RestrictedReason),
    /// `blocked:` the key is banned.
    Blocked,
    /// `invalid:` the request is wrong.
    Invalid(InvalidReason),
    /// `error:` the relay failed.
    Error(ErrorReason),
    /// `pow:` the event lacks proof of work (NIP-13).
    Pow,
    /// `unsupported:` the relay lacks this.
    Unsupported,
    /// `relay:` the host is known, but nothing is served under its name (yet).
    Relay,
    /// `NIP-98:` the authentication of a request over HTTP.
    HttpAuth(HttpAuthReason),
    /// Anything else.
    Unknown,
}

/// Detail of `auth-required:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AuthReason {
    /// The connection has not authenticated.
    NotAuthenticated,
    /// The AUTH was refused: signature, challenge, relay URL and clock look the same.
    VerificationFailed,
    /// The connection has authenticated before.
    AlreadyAuthenticated,
    /// An AUTH failed before; this connection is spent.
    AlreadyFailed,
    /// Another text.
    Other,
}

/// Detail of `restricted:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RestrictedReason {
    /// The key is not in this channel.
    NotAChannelMember,
    /// The key was in this channel.
    AccessRevoked,
    /// The key may not use this relay.
    NotARelayMember,
    /// The session may not read.
    InsufficientScope,
    /// A filter names more channels than allowed.
    TooManyChannels,
    /// The key may not write for some time.
    TimedOut,
    /// Another text.
    Other,
}

/// Detail of `invalid:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum InvalidReason {
    /// `created_at` is too far from the relay's clock.
    TimestampTooFar,
    /// Another text.
    Other,
}

/// Detail of `error:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ErrorReason {
    /// The connection has as many subscriptions as allowed.
    TooManySubscriptions,
    /// The relay's database failed.
    Database,
    /// The relay failed.
    Internal,
    /// Another text.
    Other,
}

/// Detail of `NIP-98:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HttpAuthReason {
    /// The same authentication came before: sign again.
    ReplayDetected,
    /// The relay could not tell whether it came before: try again.
    ReplayCheckUnavailable,
    /// Another text.
    Other,
}

impl Reason {
    /// Classifies the text of an OK, CLOSED or NOTICE.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let class = ReasonClass::of(text);
        let hint = match class {
            ReasonClass::RateLimited => retry_hint::from_text(text),
            ReasonClass::Empty
            | ReasonClass::Duplicate
            | ReasonClass::AuthRequired(_)
            | ReasonClass::Restricted(_)
            | ReasonClass::Blocked
            | ReasonClass::Invalid(_)
            | ReasonClass::Error(_)
            | ReasonClass::Pow
            | ReasonClass::Unsupported
            | ReasonClass::Relay
            | ReasonClass::HttpAuth(_)
            | ReasonClass::Unknown => None,
        };
        let text = Excerpt::new(text);
        Self { class, text, hint }
    }

    /// The wait it asks for.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.hint.map(|hint| hint.wait)
    }

    /// Whether a refused event is stored all the same.
    #[must_use]
    pub fn is_duplicate(&self) -> bool {
        self.class == ReasonClass::Duplicate
    }

    /// Whether the relay asks to be left alone for some time.
    #[must_use]
    pub fn is_rate_limit(&self) -> bool {
        self.class == ReasonClass::RateLimited
    }

    /// Whether the text begins with `relay:`, which makes a 404 passing: the relay looked for its
    /// tenant and did not find it, as it also does while its database is away.
    #[must_use]
    pub fn is_about_the_relay(&self) -> bool {
        self.class == ReasonClass::Relay
    }

    /// Whether an authentication over HTTP was taken for a repeated one.
    #[must_use]
    pub fn is_replay(&self) -> bool {
        self.class == ReasonClass::HttpAuth(HttpAuthReason::ReplayDetected)
    }

    /// Whether the relay could not check an authentication over HTTP for repetition.
    #[must_use]
    pub fn is_replay_check_unavailable(&self) -> bool {
        self.class == ReasonClass::HttpAuth(HttpAuthReason::ReplayCheckUnavailable)
    }
}

/// What a relay says about an event posted over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventAnswer {
    /// The event; nothing when the answer names none.
    pub event: Option<EventId>,
    /// Whether the relay took it. A refused duplicate is stored all the same.
    pub accepted: bool,
    /// Why.
    pub reason: Reason,
}

/// Reads the body of a 200 from `/events`. Nothing when it is not an object with a boolean
/// `accepted`: then something else than a relay answered.
#[must_use]
pub fn event_answer(body: &[u8]) -> Option<EventAnswer> {
    let body = Body::read(head(body))?;
    let accepted = match body.accepted?.get() {
        "true" => true,
        "false" => false,
        _ => return None,
    };
    let event = body.event_id.and_then(string);
    Some(EventAnswer {
        event: event.and_then(|id| id.parse().ok()),
        accepted,
        reason: of_answer(&body.text().unwrap_or_default()),
    })
}

/// Classifies the body of an answer over HTTP: `{"error":"…"}`, `{"message":"…"}`, or anything
/// else as text. Only the first 64 KiB are read.
#[must_use]
pub fn body_reason(body: &[u8]) -> Reason {
    let body = head(body);
    match Body::read(body).and_then(|body| body.text()) {
        Some(text) => of_answer(&text),
        None => of_answer(alloc::string::String::from_utf8_lossy(body).trim()),
    }
}

impl ReasonClass {
    fn of(text: &str) -> Self {
        let text = text.trim();
        if is_rate_limited(text) {
            return Self::RateLimited;
        }
        let Some((prefix, detail)) = text.split_once(':') else {
            return Self::without_prefix(text);
        };
        let detail = detail.trim_start();
        match prefix {
            "duplicate" => Self::Duplicate,
            "auth-required" => Self::AuthRequired(AuthReason::of(detail)),
            "restricted" => Self::Restricted(RestrictedReason::of(detail)),
            "blocked" => Self::Blocked,
            "invalid" => Self::Invalid(InvalidReason::of(detail)),
            "error" => Self::Error(ErrorReason::of(detail)),
            "pow" => Self::Pow,
            "unsupported" => Self::Unsupported,
            "relay" => Self::Relay,
            "NIP-98" => Self::HttpAuth(HttpAuthReason::of(detail)),
            _ => Self::Unknown,
        }
    }

    fn without_prefix(text: &str) -> Self {
        match text {
            "" => Self::Empty,
            "relay_membership_required" => Self::Restricted(RestrictedReason::NotARelayMember),
            _ => Self::Unknown,
        }
    }
}

impl AuthReason {
    fn of(detail: &str) -> Self {
        match detail {
            "not authenticated" => Self::NotAuthenticated,
            "verification failed" => Self::VerificationFailed,
            "already authenticated" => Self::AlreadyAuthenticated,
            "authentication already failed" => Self::AlreadyFailed,
            _ => Self::Other,
        }
    }
}

impl RestrictedReason {
    fn of(detail: &str) -> Self {
        match detail {
            "not a channel member" => Self::NotAChannelMember,
            "channel access revoked" => Self::AccessRevoked,
            "not a relay member" => Self::NotARelayMember,
            "insufficient scope" => Self::InsufficientScope,
            "too many explicit channels" => Self::TooManyChannels,
            _ if detail.starts_with("you are timed out") => Self::TimedOut,
            _ => Self::Other,
        }
    }
}

impl InvalidReason {
    fn of(detail: &str) -> Self {
        // The second is the example of NIP-01.
        const BEGINNINGS: [&str; 2] = [
            "event timestamp too far",
            "event creation date is too far off",
        ];
        if BEGINNINGS.iter().any(|words| detail.starts_with(words)) {
            return Self::TimestampTooFar;
        }
        Self::Other
    }
}

impl ErrorReason {
    fn of(detail: &str) -> Self {
        match detail {
            "too many subscriptions" => Self::TooManySubscriptions,
            "database error" => Self::Database,
            _ if detail.starts_with("internal") => Self::Internal,
            _ => Self::Other,
        }
    }
}

impl HttpAuthReason {
    fn of(detail: &str) -> Self {
        match detail {
            "replay detected" => Self::ReplayDetected,
            "replay check unavailable" => Self::ReplayCheckUnavailable,
            _ => Self::Other,
        }
    }
}

/// Relays have sent the word without its colon.
fn is_rate_limited(text: &str) -> bool {
    text.strip_prefix("rate-limited")
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '-'))
}

/// Over HTTP a wait counts whatever the class: what stands before a relay has its own words.
fn of_answer(text: &str) -> Reason {
    Reason {
        hint: retry_hint::from_text(text),
        ..Reason::new(text)
    }
}

fn head(body: &[u8]) -> &[u8] {
    body.get(..BODY_BYTES_READ).unwrap_or(body)
}

/// The fields of an answer, each of any type: a front end may use the same names otherwise.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    event_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    accepted: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
}

impl<'a> Body<'a> {
    fn read(body: &'a [u8]) -> Option<Self> {
        let text = core::str::from_utf8(body).ok()?;
        // A derived struct would also be read from an array.
        text.trim_start().starts_with('{').then_some(())?;
        serde_json::from_str(text).ok()
    }

    fn text(&self) -> Option<Cow<'a, str>> {
        self.error
            .and_then(string)
            .or_else(|| self.message.and_then(string))
    }
}

fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(raw.get())
        .ok()
        .map(|text| text.0)
}
