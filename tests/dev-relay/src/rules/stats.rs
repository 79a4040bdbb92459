//! Counters, for tests and for the closing account of a demonstration.

use std::collections::HashMap;

/// What happened since the start. All numbers only grow, except where said otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Connections that were upgraded.
    pub connections: u64,
    /// Connections open now; goes down again.
    pub connections_open: u64,
    /// Successful AUTH frames.
    pub auths: u64,
    /// Refused AUTH frames.
    pub auths_refused: u64,
    /// REQ frames.
    pub reqs: u64,
    /// REQ frames answered by CLOSED.
    pub reqs_refused: u64,
    /// COUNT frames.
    pub counts: u64,
    /// CLOSE frames.
    pub closes: u64,
    /// EVENT frames.
    pub events: u64,
    /// `POST /events` calls.
    pub event_posts: u64,
    /// `POST /query` and `/count` calls.
    pub query_posts: u64,
    /// Events accepted for the first time, over either way.
    pub accepted: u64,
    /// Events answered by `duplicate:`.
    pub duplicates: u64,
    /// Events refused, over either way, quota included.
    pub refused: u64,
    /// EVENT, REQ, COUNT and HTTP calls refused by a quota.
    pub over_quota: u64,
    /// HTTP calls answered by an error status.
    pub http_errors: u64,
    /// Frames handed to sockets.
    pub frames_sent: u64,
    /// Frames lost to full queues.
    pub frames_dropped: u64,
    /// Live events withheld by a fault.
    pub live_withheld: u64,
    /// Histories that broke off without EOSE.
    pub histories_cut: u64,
    /// Connections ended because their queue stayed full.
    pub slow_consumers: u64,
    /// Text frames that could not be read.
    pub unreadable: u64,
    /// Pongs.
    pub pongs: u64,
    /// HTTP calls being served now; goes down again.
    pub http_in_flight: u64,
    /// The most HTTP calls served at once.
    pub http_in_flight_max: u64,
}

/// Counters of all, and of each key.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) total: Stats,
    by_key: HashMap<String, Stats>,
}

impl Ledger {
    pub(crate) fn note(&mut self, key: Option<&str>, change: impl Fn(&mut Stats)) {
        change(&mut self.total);
        if let Some(key) = key {
            change(self.by_key.entry(key.to_owned()).or_default());
        }
    }

    pub(crate) fn of(&self, key: &str) -> Stats {
        self.by_key.get(key).cloned().unwrap_or_default()
    }
}
