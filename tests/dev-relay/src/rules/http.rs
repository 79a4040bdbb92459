//! The HTTP side: relay information, health, and the bridge with its NIP-98 proof.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::event::Event;
use super::filter::Filter;
use super::frame::{Submission, parse_event};
use super::ingest::{KEY_MISMATCH, Verdict, Way};
use super::quota::Bucket;
use super::session::{attested_owner, normalised_host};
use super::{Auth, Generation, Rules};
use crate::faults::{CannedReply, Fault};
use crate::keys::{hex, is_hex64, sha256};

const PROOF_TOLERANCE: u64 = 60;
const PROOF_MEMORY: Duration = Duration::from_secs(120);
const UNKNOWN_HOST: &str = "relay: no community is configured for this host";
/// The largest request body in bytes.
pub const BODY_BYTES_MAX: usize = 1_048_576;

/// A request, read completely.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpRequest {
    /// Upper case.
    pub method: String,
    /// Without the query part.
    pub path: String,
    /// The `Host` header.
    pub host: String,
    /// The `Accept` header, or empty.
    pub accept: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// The `x-auth-tag` header: an owner attestation (NIP-OA) as JSON.
    pub attestation: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// The key a request claims, without any check of the claim.
    #[must_use]
    pub fn claimed_key(&self) -> Option<String> {
        proof_event(self.authorization.as_deref())
            .ok()
            .map(|event| event.pubkey)
    }
}

/// An answer, apart from the headers the transport adds.
pub type HttpReply = CannedReply;

/// Whether a 429 carries a `Retry-After` header. Buzz relays send none, front ends do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryAfter {
    /// No header.
    #[default]
    Absent,
    /// Whole seconds.
    Seconds,
    /// An HTTP date (RFC 9110 section 5.6.7).
    Date,
}

impl Rules {
    /// Answers a request that is no upgrade.
    pub fn http(&mut self, request: &HttpRequest, now: Duration) -> HttpReply {
        let key = request.claimed_key();
        let canned = self.faults.take(key.as_deref(), |fault| {
            let Fault::FailHttp(reply) = fault else {
                return None;
            };
            Some(reply.clone())
        });
        let reply = canned.unwrap_or_else(|| self.route(request, key.as_deref(), now));
        if reply.status >= 400 {
            self.ledger
                .note(key.as_deref(), |stats| stats.http_errors += 1);
        }
        reply
    }

    /// Whether an upgrade may go ahead, or the answer that refuses it.
    ///
    /// # Errors
    /// The answer to send.
    pub fn admit_upgrade(&mut self, host: &str) -> Result<(), HttpReply> {
        let canned = self.faults.take(None, |fault| {
            let Fault::RefuseUpgrade(reply) = fault else {
                return None;
            };
            Some(reply.clone())
        });
        if let Some(reply) = canned {
            return Err(reply);
        }
        if !self.serves(host) {
            return Err(text(404, UNKNOWN_HOST));
        }
        if self.draining {
            return Err(text(503, "relay restarting"));
        }
        Ok(())
    }

    fn route(&mut self, request: &HttpRequest, key: Option<&str>, now: Duration) -> HttpReply {
        let wants_information = request.accept.contains("application/nostr+json");
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/") if wants_information => self.information(),
            ("GET", "/info") => self.information(),
            ("GET", "/health" | "/_liveness") => text(200, "ok"),
            ("GET", "/_readiness") if self.draining => {
                json_reply(503, &json!({ "status": "shutting_down" }))
            }
            ("GET", "/_readiness") => json_reply(200, &json!({ "status": "ready" })),
            ("POST", "/events" | "/query" | "/count") => match self.bridge_absent {
                Some(status) => text(status, ""),
                None => self.bridge(request, key, now),
            },
            (_, "/events" | "/query" | "/count") => text(405, ""),
            _ => text(404, ""),
        }
    }

    fn bridge(&mut self, request: &HttpRequest, key: Option<&str>, now: Duration) -> HttpReply {
        let is_publish = request.path == "/events";
        self.ledger.note(key, |stats| {
            stats.event_posts += u64::from(is_publish);
            stats.query_posts += u64::from(!is_publish);
        });
        let canned = self.faults.take(key, |fault| {
            let (Fault::FailEvents(reply) | Fault::FailQuery(reply)) = fault else {
                return None;
            };
            let is_for_events = matches!(fault, Fault::FailEvents(_));
            (is_for_events == is_publish && request.path != "/count").then(|| reply.clone())
        });
        if let Some(reply) = canned {
            if is_publish {
                self.ledger.note(key, |stats| stats.refused += 1);
            }
            return reply;
        }
        let caller = match self.admit_call(request, now) {
            Ok(caller) => caller,
            Err(reply) => return reply,
        };
        let reply = match request.path.as_str() {
            "/events" => self.post_event(request, &caller, now),
            "/query" => self.post_query(request, &caller),
            _ => self.post_count(request, &caller),
        };
        let lost = self.faults.take(key, |fault| {
            let Fault::LoseEventsReply(reply) = fault else {
                return None;
            };
            is_publish.then(|| reply.clone())
        });
        lost.unwrap_or(reply)
    }

    fn serves(&self, host: &str) -> bool {
        let host = normalised_host(host);
        self.settings.hosts.is_empty()
            || self
                .settings
                .hosts
                .iter()
                .any(|known| normalised_host(known) == host)
    }

    /// Host, proof, quota and replay, in this order.
    fn admit_call(&mut self, request: &HttpRequest, now: Duration) -> Result<Caller, HttpReply> {
        if !self.serves(&request.host) {
            return Err(CannedReply::error(404, UNKNOWN_HOST));
        }
        if self.settings.auth == Auth::None && request.authorization.is_none() {
            return Ok(Caller {
                key: None,
                owner: None,
            });
        }
        let proof = self
            .proof(request, now)
            .map_err(|detail| CannedReply::error(401, &detail))?;
        let key = proof.pubkey;
        if !self.admission_available {
            let reply = CannedReply::error(503, "rate-limited: shared admission unavailable");
            return Err(reply);
        }
        let quotas = self.settings.quotas;
        if quotas.enabled
            && let Err(seconds) = self.counters.charge(&key, Bucket::Api, quotas.api, now)
        {
            self.ledger.note(Some(&key), |stats| stats.over_quota += 1);
            return Err(self.over_quota(seconds, now));
        }
        self.seen_proofs.retain(|_, expiry| *expiry > now);
        if self
            .seen_proofs
            .insert(proof.id, now + PROOF_MEMORY)
            .is_some()
        {
            return Err(CannedReply::error(401, "NIP-98: replay detected"));
        }
        let owner = request
            .attestation
            .as_deref()
            .and_then(|header| serde_json::from_str::<Vec<String>>(header).ok())
            .and_then(|tag| attested_owner(&[tag], &key))
            .filter(|owner| self.learn_owner(&key, owner));
        Ok(Caller {
            key: Some(key),
            owner,
        })
    }

    fn proof(&self, request: &HttpRequest, now: Duration) -> Result<Event, String> {
        let event = proof_event(request.authorization.as_deref())?;
        let scheme = if self.settings.tls_in_front {
            "https"
        } else {
            "http"
        };
        let host = normalised_host(&request.host);
        let url = event.tag("u").unwrap_or_default();
        let url = url.strip_suffix('/').unwrap_or(url);
        let method = event.tag("method").unwrap_or_default();
        let payload = event.tag("payload");
        let fault = if event.kind != 27_235 {
            Some("wrong kind")
        } else if event.forgery().is_some() {
            Some("invalid event")
        } else if event.created_at.abs_diff(self.unix_seconds(now)) > PROOF_TOLERANCE {
            Some("timestamp out of range")
        } else if url != format!("{scheme}://{host}{}", request.path) {
            Some("url mismatch")
        } else if !method.eq_ignore_ascii_case(&request.method) {
            Some("method mismatch")
        } else if payload.is_some_and(|payload| payload != hex(&sha256(&request.body))) {
            Some("payload mismatch")
        } else {
            None
        };
        match fault {
            None => Ok(event),
            Some(detail) => Err(format!(
                "NIP-98: NIP-98 HTTP Auth verification failed: {detail}"
            )),
        }
    }

    fn over_quota(&self, seconds: u64, now: Duration) -> HttpReply {
        let reply = CannedReply::error(429, &super::connection::quota_text(seconds));
        match self.retry_after {
            RetryAfter::Absent => reply,
            RetryAfter::Seconds => reply.with_header("retry-after", &seconds.to_string()),
            RetryAfter::Date => {
                let at = Duration::from_secs(self.unix_seconds(now).saturating_add(seconds));
                let date = httpdate::fmt_http_date(std::time::UNIX_EPOCH + at);
                reply.with_header("retry-after", &date)
            }
        }
    }

    fn post_event(&mut self, request: &HttpRequest, caller: &Caller, now: Duration) -> HttpReply {
        let event = match serde_json::from_slice::<Value>(&request.body) {
            Ok(value) => parse_event(value),
            Err(error) => Err(error.to_string()),
        };
        let submission = match event {
            Ok(event) => Submission::check(event),
            Err(detail) => {
                return CannedReply::error(400, &format!("invalid event JSON: {detail}"));
            }
        };
        if let Some(refusal) = self.refuse_outsider(caller) {
            return refusal;
        }
        let (verdict, effects) = self.ingest(caller.key.as_deref(), &submission, Way::Http, now);
        self.deliver(effects);
        let id = &submission.event.id;
        match verdict {
            Verdict::Accepted(text) => json_reply(
                200,
                &json!({ "event_id": id, "accepted": true, "message": text }),
            ),
            Verdict::Refused(text) if text.starts_with("duplicate:") => json_reply(
                200,
                &json!({ "event_id": id, "accepted": false, "message": text }),
            ),
            Verdict::Refused(text) => {
                let is_forbidden = text == KEY_MISMATCH
                    || text.starts_with("blocked:")
                    || text.starts_with("restricted: you are timed out");
                let status = match text.split(':').next() {
                    Some("error") => 500,
                    Some(_) | None if is_forbidden => 403,
                    Some(_) | None => 400,
                };
                CannedReply::error(status, &text)
            }
        }
    }

    fn post_query(&self, request: &HttpRequest, caller: &Caller) -> HttpReply {
        let filters = match self.filters(request, caller) {
            Ok(filters) => filters,
            Err(reply) => return reply,
        };
        let key = caller.key.as_deref();
        if let Err(text) = self.gate(key, &filters) {
            return CannedReply::error(403, &text);
        }
        let events = self.stored(key, &filters);
        let items: Vec<&str> = events.iter().map(|filed| filed.json.as_str()).collect();
        let mut reply = json_reply(200, &Value::Null);
        reply.body = format!("[{}]", items.join(","));
        reply
    }

    fn post_count(&self, request: &HttpRequest, caller: &Caller) -> HttpReply {
        let filters = match self.filters(request, caller) {
            Ok(filters) => filters,
            Err(reply) => return reply,
        };
        match self.count(caller.key.as_deref(), &filters) {
            Ok(count) => json_reply(200, &json!({ "count": count })),
            Err(text) if text.starts_with("p-gated") => {
                CannedReply::error(403, &format!("restricted: {text}"))
            }
            Err(text) => CannedReply::error(400, &text),
        }
    }

    fn filters(&self, request: &HttpRequest, caller: &Caller) -> Result<Vec<Filter>, HttpReply> {
        if let Some(refusal) = self.refuse_outsider(caller) {
            return Err(refusal);
        }
        let bad = |text: &str| CannedReply::error(400, text);
        let values: Vec<Value> = serde_json::from_slice(&request.body)
            .map_err(|error| bad(&format!("invalid filters: {error}")))?;
        let mut filters = Vec::new();
        for value in &values {
            let mut filter = Filter::parse(value)
                .map_err(|detail| bad(&format!("invalid filters: {detail}")))?;
            if filter.before_id.is_some() && filter.until.is_none() {
                return Err(bad("before_id requires until to be set"));
            }
            if filter.before_id.as_ref().is_some_and(|id| !is_hex64(id)) {
                return Err(bad("before_id must be a 64-char hex event id"));
            }
            if let (Generation::Old, Some(channels)) =
                (self.settings.generation, filter.tags.get_mut(&'h'))
            {
                // Older relays look at one channel, the first in the order of text.
                channels.sort();
                channels.truncate(1);
            }
            if filter.channels().len() > 128 {
                return Err(bad("too many explicit channels"));
            }
            filters.push(filter);
        }
        Ok(filters)
    }

    fn refuse_outsider(&self, caller: &Caller) -> Option<HttpReply> {
        let key = caller.key.as_deref()?;
        if self.is_relay_member(key, caller.owner.as_deref()) {
            return None;
        }
        Some(json_reply(
            403,
            &json!({
                "error": "relay_membership_required",
                "message": "You must be a relay member to access this relay",
            }),
        ))
    }
}

#[derive(Debug)]
struct Caller {
    key: Option<String>,
    owner: Option<String>,
}

fn proof_event(header: Option<&str>) -> Result<Event, String> {
    let Some(encoded) = header.and_then(|header| header.strip_prefix("Nostr ")) else {
        return Err("missing Nostr auth".to_owned());
    };
    let bytes = STANDARD
        .decode(encoded.trim())
        .map_err(|_| "invalid base64 in Nostr auth".to_owned())?;
    let text = String::from_utf8(bytes).map_err(|_| "invalid UTF-8 in Nostr auth".to_owned())?;
    serde_json::from_str::<Value>(&text)
        .ok()
        .and_then(|value| parse_event(value).ok())
        .ok_or_else(|| "invalid NIP-98 event JSON".to_owned())
}

pub(super) fn json_reply(status: u16, body: &Value) -> HttpReply {
    CannedReply {
        status,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: body.to_string(),
    }
}

fn text(status: u16, body: &str) -> HttpReply {
    CannedReply {
        status,
        headers: vec![(
            "content-type".to_owned(),
            "text/plain; charset=utf-8".to_owned(),
        )],
        body: body.to_owned(),
    }
}
