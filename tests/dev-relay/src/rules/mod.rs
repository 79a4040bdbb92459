//! The relay without sockets and without a clock.
//!
//! Frames and HTTP requests go in together with the time (since the Unix epoch); each connection
//! has a queue of frames to take out. Everything that happens inside is a function of that input
//! and of the key the relay signs with, so the same code serves real sockets and virtual time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

mod auth;
pub mod channels;
mod commands;
mod connection;
pub mod event;
pub mod filter;
pub mod frame;
pub mod http;
mod information;
mod ingest;
mod kinds;
pub mod queue;
pub mod quota;
pub(crate) mod read;
mod session;
pub mod stats;
pub mod store;

use crate::faults::Faults;
use crate::keys::Keys;
use channels::Channel;
use event::Filed;
use quota::{Counters, Quotas};
use session::Session;
use stats::Ledger;
use store::{Change, Store};

/// Which relay is played; the differences are what a client can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Generation {
    /// Refused EVENT and COUNT end in a NOTICE; several `#h` values make a subscription deaf.
    Old,
    /// As `Old`, but several `#h` values work.
    New1,
    /// As `New1`; refused EVENT gets OK false, refused COUNT gets CLOSED, and ephemeral kinds are
    /// free of the message quota.
    #[default]
    New2,
}

/// Whether a client must prove its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Auth {
    /// NIP-42 on sockets, NIP-98 on HTTP.
    #[default]
    Required,
    /// No challenge, no access rules, no list of known kinds: a plain NIP-01 relay.
    None,
}

/// What can be set about the rules. The default is a stock, open relay.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which relay is played.
    pub generation: Generation,
    /// Limits per key.
    pub quotas: Quotas,
    /// Whether clients prove their key.
    pub auth: Auth,
    /// Time from the upgrade to a successful AUTH.
    pub auth_deadline: Duration,
    /// Time between pings; a connection ends when two are unanswered at the next one.
    pub ping_every: Duration,
    /// Frames in the queue of one connection.
    pub queue_frames: usize,
    /// Consecutive drops after which a connection ends.
    pub slow_consumer_grace: u32,
    /// Open subscriptions of one connection.
    pub subscriptions_max: usize,
    /// Clients reach the relay through TLS: `wss` and `https` are expected in signed URLs.
    pub tls_in_front: bool,
    /// Host names served; empty serves every name.
    pub hosts: Vec<String>,
    /// Only relay members may enter.
    pub membership_required: bool,
    /// An attested agent enters by the membership of its owner.
    pub attested_agents_admitted: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            generation: Generation::default(),
            quotas: Quotas::default(),
            auth: Auth::default(),
            auth_deadline: Duration::from_secs(5),
            ping_every: Duration::from_secs(30),
            queue_frames: 1000,
            slow_consumer_grace: 15,
            subscriptions_max: 1024,
            tls_in_front: false,
            hosts: Vec::new(),
            membership_required: false,
            attested_agents_admitted: false,
        }
    }
}

/// Names one connection for the life of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// The whole relay.
#[derive(Debug)]
pub struct Rules {
    pub(crate) settings: Settings,
    pub(crate) keys: Keys,
    pub(crate) store: Store,
    pub(crate) channels: BTreeMap<String, Channel>,
    pub(crate) faults: Faults,
    pub(crate) ledger: Ledger,
    pub(crate) relay_members: BTreeSet<String>,
    pub(crate) banned: BTreeSet<String>,
    pub(crate) timed_out: BTreeMap<String, u64>,
    pub(crate) owners: BTreeMap<String, String>,
    /// Added to the wall clock, in seconds.
    pub(crate) clock_skew: i64,
    pub(crate) admission_available: bool,
    pub(crate) retry_after: http::RetryAfter,
    pub(crate) bridge_absent: Option<u16>,
    pub(crate) draining: bool,
    counters: Counters,
    sessions: BTreeMap<ConnectionId, Session>,
    connections_opened: u64,
    touched: BTreeSet<ConnectionId>,
    seen_proofs: HashMap<String, Duration>,
    changed_channels: BTreeSet<String>,
}

impl Rules {
    /// An empty relay that signs with `keys`.
    #[must_use]
    pub fn new(settings: Settings, keys: Keys) -> Self {
        Self::with_store(settings, keys, Store::default())
    }

    pub(crate) fn with_store(settings: Settings, keys: Keys, store: Store) -> Self {
        Self {
            settings,
            keys,
            store,
            channels: BTreeMap::new(),
            faults: Faults::default(),
            ledger: Ledger::default(),
            relay_members: BTreeSet::new(),
            banned: BTreeSet::new(),
            timed_out: BTreeMap::new(),
            owners: BTreeMap::new(),
            clock_skew: 0,
            admission_available: true,
            retry_after: http::RetryAfter::Absent,
            bridge_absent: None,
            draining: false,
            counters: Counters::default(),
            sessions: BTreeMap::new(),
            connections_opened: 0,
            touched: BTreeSet::new(),
            seen_proofs: HashMap::new(),
            changed_channels: BTreeSet::new(),
        }
    }

    /// The armed faults.
    pub fn faults_mut(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// The stored events.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Makes a key a relay member, for a relay that admits members only.
    pub fn add_relay_member(&mut self, key: &str) {
        self.relay_members.insert(key.to_owned());
    }

    /// Bans a key from entering and writing, or lifts the ban.
    pub fn set_banned(&mut self, key: &str, is_banned: bool) {
        if is_banned {
            self.banned.insert(key.to_owned());
        } else {
            self.banned.remove(key);
        }
    }

    /// Refuses the writes of a key until a Unix time in seconds.
    pub fn time_out(&mut self, key: &str, until: u64) {
        self.timed_out.insert(key.to_owned(), until);
    }

    /// Records the owner of an agent, as an attestation would.
    pub fn set_owner(&mut self, agent: &str, owner: &str) {
        self.owners.insert(agent.to_owned(), owner.to_owned());
    }

    /// The recorded owner of an agent.
    #[must_use]
    pub fn owner_of(&self, agent: &str) -> Option<&str> {
        self.owners.get(agent).map(String::as_str)
    }

    /// Counters of everybody.
    #[must_use]
    pub const fn stats(&self) -> &stats::Stats {
        &self.ledger.total
    }

    /// Replaces the quotas; open windows are forgotten.
    pub fn set_quotas(&mut self, quotas: Quotas) {
        self.settings.quotas = quotas;
        self.counters.reset();
    }

    /// Connections with something to write since the last call.
    pub fn take_touched(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.touched).into_iter().collect()
    }

    pub(crate) fn take_changes(&mut self) -> (Vec<Change>, Vec<Channel>) {
        let channels = std::mem::take(&mut self.changed_channels)
            .into_iter()
            .filter_map(|id| self.channels.get(&id).cloned())
            .collect();
        (self.store.take_changes(), channels)
    }

    fn is_plain(&self) -> bool {
        self.settings.auth == Auth::None
    }

    fn unix_seconds(&self, now: Duration) -> u64 {
        now.as_secs().saturating_add_signed(self.clock_skew)
    }

    /// Signs, files and keeps an event of the relay's own.
    fn issue(&mut self, draft: Draft<'_>, now: Duration, effects: &mut Effects) {
        let Draft {
            kind,
            tags,
            content,
            channel,
        } = draft;
        let mut created_at = self.unix_seconds(now);
        if (39_000..=39_002).contains(&kind) {
            // A burst of changes within a second must stay in order, so it runs ahead of the clock.
            let d = channel.unwrap_or_default();
            if let Some(previous) = self.store.current(kind, self.keys.public(), d) {
                created_at = created_at.max(previous.event.created_at + 1);
            }
        }
        let event = self.keys.sign_event(kind, tags, content, created_at);
        let filed = Arc::new(Filed::new(event, channel.map(str::to_owned)));
        if self.store.insert(Arc::clone(&filed)) == store::Inserted::Stored {
            effects.published.push(filed);
        }
    }
}

/// An event of the relay's own before it is dated and signed.
struct Draft<'a> {
    kind: u32,
    tags: Vec<Vec<String>>,
    content: &'a str,
    channel: Option<&'a str>,
}

/// What follows once an answer is on its way.
#[derive(Debug, Default)]
struct Effects {
    published: Vec<Arc<Filed>>,
    revoked: Vec<Revocation>,
}

/// Access lost: by one key, or by all who are no members.
#[derive(Debug)]
struct Revocation {
    channel: String,
    key: Option<String>,
}
