//! Fixed-window quotas per key.
//!
//! A window opens with the first hit and closes after its length, however many hits it refuses.

use std::collections::HashMap;
use std::time::Duration;

/// How many hits fit into one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Hits admitted in a window.
    pub hits: u32,
    /// Length of a window, counted from its first hit.
    pub window: Duration,
}

impl Limit {
    /// A limit of `hits` in `window`.
    #[must_use]
    pub const fn new(hits: u32, window: Duration) -> Self {
        Self { hits, window }
    }
}

/// The limits of all buckets. The default is that of a stock relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Without it, everything is admitted and nothing is counted.
    pub enabled: bool,
    /// EVENT, REQ and COUNT frames of a key: 50 in 5 s.
    pub socket: Limit,
    /// EVENT frames of a person's key: 60 in 60 s.
    pub human_messages: Limit,
    /// EVENT frames of an attested agent's key: 120 in 60 s.
    pub agent_messages: Limit,
    /// HTTP calls of a key: 300 in 60 s.
    pub api: Limit,
}

impl Default for Quotas {
    fn default() -> Self {
        const MINUTE: Duration = Duration::from_secs(60);
        Self {
            enabled: true,
            socket: Limit::new(50, Duration::from_secs(5)),
            human_messages: Limit::new(60, MINUTE),
            agent_messages: Limit::new(120, MINUTE),
            api: Limit::new(300, MINUTE),
        }
    }
}

impl Quotas {
    /// No quota at all.
    #[must_use]
    pub fn off() -> Self {
        Self {
            enabled: false,
            ..Self::default()
        }
    }
}

/// What a hit is charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bucket {
    /// Frames on sockets.
    Socket,
    /// EVENT frames.
    Messages,
    /// HTTP calls.
    Api,
}

/// The open windows of all keys.
#[derive(Debug, Default)]
pub struct Counters {
    windows: HashMap<(String, Bucket), Window>,
}

impl Counters {
    /// Charges one hit at `now`, time since the Unix epoch. A refused hit counts too.
    ///
    /// # Errors
    /// When the window is full: the whole seconds until it closes, possibly 0.
    pub fn charge(
        &mut self,
        key: &str,
        bucket: Bucket,
        limit: Limit,
        now: Duration,
    ) -> Result<(), u64> {
        let window = self
            .windows
            .entry((key.to_owned(), bucket))
            .or_insert(Window {
                closes: now + limit.window,
                hits: 0,
            });
        if now >= window.closes {
            *window = Window {
                closes: now + limit.window,
                hits: 0,
            };
        }
        window.hits = window.hits.saturating_add(1);
        if window.hits <= limit.hits {
            return Ok(());
        }
        Err(window.closes.saturating_sub(now).as_secs())
    }

    /// Opens fresh windows for everybody.
    pub fn reset(&mut self) {
        self.windows.clear();
    }
}

#[derive(Debug, Clone, Copy)]
struct Window {
    closes: Duration,
    hits: u32,
}
