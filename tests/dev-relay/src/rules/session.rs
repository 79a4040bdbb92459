//! One connection: who it is, what it subscribes to, when it is due.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::Generation;
use super::event::{Event, Filed};
use super::filter::{Filter, is_uuid};
use super::queue::SendQueue;
use crate::keys::{attestation_digest, signature_is_valid};

/// State of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) host: String,
    pub(crate) challenge: String,
    pub(crate) standing: Standing,
    pub(crate) auth_deadline: Option<Duration>,
    pub(crate) is_agent: bool,
    pub(crate) subscriptions: BTreeMap<String, Subscription>,
    pub(crate) queue: SendQueue,
    pub(crate) history: VecDeque<History>,
    pub(crate) heartbeat: Heartbeat,
}

impl Session {
    /// The proven key.
    pub(crate) fn key(&self) -> Option<&str> {
        match &self.standing {
            Standing::Proven(key) => Some(key),
            Standing::Unknown | Standing::Failed | Standing::Anonymous => None,
        }
    }

    /// Whether EVENT, REQ and COUNT are served.
    pub(crate) const fn is_admitted(&self) -> bool {
        match self.standing {
            Standing::Proven(_) | Standing::Anonymous => true,
            Standing::Unknown | Standing::Failed => false,
        }
    }

    pub(crate) fn next_deadline(&self) -> Duration {
        self.auth_deadline
            .map_or(self.heartbeat.next, |auth| auth.min(self.heartbeat.next))
    }
}

/// What the relay knows of the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Challenged.
    Unknown,
    /// One failed attempt is final for the connection.
    Failed,
    /// Authenticated with this key.
    Proven(String),
    /// The relay asks for no authentication.
    Anonymous,
}

/// A live subscription.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) filters: Vec<Filter>,
    pub(crate) scope: Scope,
}

impl Subscription {
    /// Whether a live event goes to this subscription, access aside.
    pub(crate) fn takes(&self, filed: &Filed) -> bool {
        let in_scope = match (&self.scope, &filed.channel) {
            (Scope::Everything, _) | (Scope::Global, None) => true,
            (Scope::Channels(wanted), Some(channel)) => wanted.contains(channel),
            (Scope::Global, Some(_)) | (Scope::Channels(_), None) | (Scope::Deaf, _) => false,
        };
        in_scope && self.filters.iter().any(|filter| filter.matches(filed))
    }
}

/// Which live events a subscription can receive at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A relay without channels.
    Everything,
    /// Events outside any channel.
    Global,
    /// Events of these channels.
    Channels(BTreeSet<String>),
    /// None: older relays cannot serve several channels at once.
    Deaf,
}

impl Scope {
    pub(crate) fn of(filters: &[Filter], generation: Generation) -> Self {
        let channels = named_channels(filters);
        let mixed = filters.iter().any(|filter| filter.channels().is_empty());
        match channels.len() {
            0 => Self::Global,
            _ if mixed => Self::Global,
            1 => Self::Channels(channels),
            _ if generation == Generation::Old => Self::Deaf,
            _ => Self::Channels(channels),
        }
    }
}

/// The channels that filters name by `#h`.
pub(crate) fn named_channels(filters: &[Filter]) -> BTreeSet<String> {
    filters
        .iter()
        .flat_map(Filter::channels)
        .filter(|id| is_uuid(id))
        .cloned()
        .collect()
}

/// Stored events on their way to a subscription.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) subscription: String,
    pub(crate) events: VecDeque<Arc<Filed>>,
    /// Events after which the answer breaks off without EOSE.
    pub(crate) cut_after: Option<usize>,
}

/// Pings and their answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heartbeat {
    pub(crate) next: Duration,
    pub(crate) unanswered: u32,
}

/// Why an AUTH event does not prove its key; all reasons look alike on the wire.
pub(crate) fn proof_fails(event: &Event, session: &Session, scheme: &str, now: u64) -> bool {
    event.kind != 22_242
        || event.tag("challenge") != Some(session.challenge.as_str())
        || !event
            .tag("relay")
            .is_some_and(|relay| is_this_relay(relay, scheme, &session.host))
        || event.created_at.abs_diff(now) > 60
}

/// Host names are compared trimmed, in lower case, without a trailing dot or a default port.
pub(crate) fn normalised_host(host: &str) -> String {
    let host = host.trim().to_ascii_lowercase();
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (name, Some(port)),
        Some(_) | None => (host.as_str(), None),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    match port {
        None | Some("80" | "443") => name.to_owned(),
        Some(port) => format!("{name}:{port}"),
    }
}

/// The owner that an attestation among the tags proves (NIP-OA). Two attestations count as none.
pub(crate) fn attested_owner(tags: &[Vec<String>], agent: &str) -> Option<String> {
    let mut found = tags
        .iter()
        .filter(|tag| tag.first().is_some_and(|name| name == "auth"));
    let (Some(tag), None) = (found.next(), found.next()) else {
        return None;
    };
    let [_, owner, conditions, signature] = tag.as_slice() else {
        return None;
    };
    let digest = attestation_digest(agent, conditions);
    let is_valid = owner != agent
        && conditions_are_well_formed(conditions)
        && signature_is_valid(owner, &digest, signature);
    is_valid.then(|| owner.clone())
}

fn conditions_are_well_formed(conditions: &str) -> bool {
    conditions.is_empty()
        || conditions.split('&').all(|condition| {
            ["kind=", "created_at<", "created_at>"]
                .iter()
                .find_map(|head| condition.strip_prefix(head))
                .is_some_and(is_canonical_decimal)
        })
}

fn is_canonical_decimal(text: &str) -> bool {
    text.parse::<u64>()
        .is_ok_and(|number| number.to_string() == text)
}

fn is_this_relay(url: &str, scheme: &str, host: &str) -> bool {
    let url = url.strip_suffix('/').unwrap_or(url);
    let Some(authority) = url
        .strip_prefix(scheme)
        .and_then(|rest| rest.strip_prefix("://"))
    else {
        return false;
    };
    !authority.contains(['/', '?', '#'])
        && loopback_alias(&normalised_host(authority)) == loopback_alias(host)
}

fn loopback_alias(host: &str) -> String {
    host.strip_prefix("localhost")
        .map_or_else(|| host.to_owned(), |rest| format!("127.0.0.1{rest}"))
}
