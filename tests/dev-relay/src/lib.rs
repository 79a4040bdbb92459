//! An embedded development relay on loopback.
//!
//! It behaves like a Buzz relay wherever an agent can tell: NIP-01, NIP-11, NIP-42 and NIP-98,
//! channels with relay-signed state, quotas, slow-consumer rules and close codes. It shares no
//! code with the product it serves as a counterpart for. [`rules`] is the relay without sockets
//! and clock, [`DevRelay`] puts it on a port, [`client`] is a small client for tests.
//!
//! ```
//! use buzz_dev_relay::{DevRelay, Options, client::Client, keys::Keys};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let relay = DevRelay::start(Options::default()).await?;
//! let client = Client::connect(&relay.url(), &Keys::generate()).await?;
//! assert_eq!(relay.stats().auths, 1);
//! # drop(client);
//! relay.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

use core::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

mod bridge;
pub mod client;
pub mod control;
pub mod faults;
mod io_wrapper;
pub mod keys;
pub mod line;
mod persist;
pub mod rules;
mod serve;
mod shared;

use control::FaultControl;
use keys::Keys;
use persist::Disk;
use rules::channels::{Channel, ChannelKind, NewChannel, Role, Visibility};
use rules::event::Event;
use rules::filter::Filter;
use rules::stats::Stats;
use rules::{Rules, Settings};
use shared::{Patience, Shared};

/// Where events and channels are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Storage {
    /// As long as the relay runs.
    #[default]
    Memory,
    /// In an SQLite file, created when missing.
    Sqlite(PathBuf),
}

/// How to start a relay.
#[derive(Debug, Clone)]
pub struct Options {
    /// Loopback address; port 0 takes a free one.
    pub addr: SocketAddr,
    /// What is played, with which limits.
    pub settings: Settings,
    /// Where events are kept.
    pub storage: Storage,
    /// The key the relay signs with. Without one it takes the key of the file, or a fresh one.
    pub keys: Option<Keys>,
    /// How long a closing connection may take, and a shutdown.
    pub linger: Duration,
    /// How long a long history waits for a slow reader before it overruns the queue.
    pub history_patience: Duration,
    /// The largest message from a client in bytes.
    pub frame_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            addr: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            settings: Settings::default(),
            storage: Storage::default(),
            keys: None,
            linger: Duration::from_secs(5),
            history_patience: Duration::from_secs(2),
            frame_bytes_max: rules::frame::FRAME_BYTES_MAX,
        }
    }
}

/// A running relay. Dropping it ends it abruptly.
#[derive(Debug)]
pub struct DevRelay {
    shared: Arc<Shared>,
    addr: SocketAddr,
    public: String,
}

impl DevRelay {
    /// Binds the port and starts serving in tasks of the current tokio runtime.
    ///
    /// # Errors
    /// When the address is not a loopback address or cannot be bound, or when the SQLite file
    /// cannot be opened.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        if !options.addr.ip().is_loopback() {
            return Err(StartError::NotLoopback(options.addr));
        }
        let (rules, disk) = build_rules(&options)?;
        let listener = tokio::net::TcpListener::bind(options.addr)
            .await
            .map_err(|error| StartError::Bind(options.addr, error))?;
        let addr = listener
            .local_addr()
            .map_err(|error| StartError::Bind(options.addr, error))?;
        let public = rules.keys.public().to_owned();
        let patience = Patience {
            linger: options.linger,
            history: options.history_patience,
            frame_bytes_max: options.frame_bytes_max,
        };
        let shared = Arc::new(Shared::new(rules, disk, patience));
        shared.spawn(bridge::accept(Arc::clone(&shared), listener));
        Ok(Self {
            shared,
            addr,
            public,
        })
    }

    /// The address served.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The WebSocket URL, without a trailing slash.
    #[must_use]
    pub fn url(&self) -> String {
        format!("ws://{}", self.addr)
    }

    /// The HTTP URL, without a trailing slash.
    #[must_use]
    pub fn http_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The public key the relay signs with.
    #[must_use]
    pub fn public_key(&self) -> &str {
        &self.public
    }

    /// Faults to arm and to lift.
    #[must_use]
    pub fn faults(&self) -> FaultControl<'_> {
        FaultControl::new(&self.shared)
    }

    /// Creates a channel with one member, its owner.
    ///
    /// # Errors
    /// When the id is taken.
    pub fn create_channel(
        &self,
        id: &str,
        name: &str,
        visibility: Visibility,
        kind: ChannelKind,
        owner: &str,
    ) -> Result<(), String> {
        let channel = NewChannel {
            id,
            name,
            about: "",
            visibility,
            kind,
            owner,
        };
        self.shared
            .with(|rules, now| rules.create_channel(channel, now))
    }

    /// Adds a member, in the name of `actor`; changes the role of one who is a member already.
    ///
    /// # Errors
    /// When there is no such channel.
    pub fn add_member(
        &self,
        channel: &str,
        member: &str,
        role: Role,
        actor: &str,
    ) -> Result<(), String> {
        self.shared
            .with(|rules, now| rules.add_member(channel, member, role, actor, now))
    }

    /// Removes a member, in the name of `actor`.
    ///
    /// # Errors
    /// When there is no such channel.
    pub fn remove_member(&self, channel: &str, member: &str, actor: &str) -> Result<(), String> {
        self.shared
            .with(|rules, now| rules.remove_member(channel, member, actor, now))
    }

    /// A channel as it stands.
    #[must_use]
    pub fn channel(&self, id: &str) -> Option<Channel> {
        self.shared.with(|rules, _| rules.channels.get(id).cloned())
    }

    /// Makes a key a relay member, for a relay that admits members only.
    pub fn add_relay_member(&self, key: &str) {
        self.shared.with(|rules, _| rules.add_relay_member(key));
    }

    /// Bans a key from entering and writing, or lifts the ban.
    pub fn set_banned(&self, key: &str, is_banned: bool) {
        self.shared
            .with(|rules, _| rules.set_banned(key, is_banned));
    }

    /// Refuses the writes of a key until a Unix time in seconds.
    pub fn time_out(&self, key: &str, until: u64) {
        self.shared.with(|rules, _| rules.time_out(key, until));
    }

    /// Records the owner of an agent, as an attestation would.
    pub fn set_owner(&self, agent: &str, owner: &str) {
        self.shared.with(|rules, _| rules.set_owner(agent, owner));
    }

    /// Stored events that match, whoever may read them: newest first, without the limit of a page.
    #[must_use]
    pub fn events(&self, filter: &Filter) -> Vec<Event> {
        self.shared.with(|rules, _| {
            rules
                .store
                .matching(filter)
                .map(|filed| filed.event.clone())
                .collect()
        })
    }

    /// Counters of everybody.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.with(|rules, _| rules.ledger.total.clone())
    }

    /// Counters of one key. Connections and HTTP calls in flight are counted for everybody only.
    #[must_use]
    pub fn stats_of(&self, key: &str) -> Stats {
        self.shared.with(|rules, _| rules.ledger.of(key))
    }

    /// Why the file could last not be written, if that ever happened.
    #[must_use]
    pub fn storage_error(&self) -> Option<String> {
        self.shared.disk_error()
    }

    /// Stops gracefully: upgrades are refused with 503, connections are closed with 1012
    /// `relay restarting`; after at most [`Options::linger`] everything ends.
    pub async fn shutdown(self) {
        self.shared.with(|rules, _| {
            rules.draining = true;
            rules.disconnect(&rules::queue::Closing::restarting(), &|_| true);
        });
        let _ = tokio::time::timeout(self.shared.linger, self.shared.all_gone()).await;
        self.shared.finish().await;
    }

    /// Stops abruptly: connections end without a close frame.
    pub async fn kill(self) {
        self.shared.finish().await;
    }
}

impl Drop for DevRelay {
    fn drop(&mut self) {
        self.shared.abort_tasks();
    }
}

/// Why a relay did not start.
#[derive(Debug)]
pub enum StartError {
    /// The address is reachable from outside this machine.
    NotLoopback(SocketAddr),
    /// The address cannot be bound.
    Bind(SocketAddr, io::Error),
    /// The SQLite file cannot be used.
    Storage(PathBuf, rusqlite::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoopback(addr) => write!(
                f,
                "{addr} is not a loopback address; a development relay serves this machine only, \
                 use 127.0.0.1"
            ),
            Self::Bind(addr, error) => write!(f, "cannot listen on {addr}: {error}"),
            Self::Storage(path, error) => {
                write!(
                    f,
                    "cannot use {} as an SQLite file: {error}",
                    path.display()
                )
            }
        }
    }
}

impl core::error::Error for StartError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::NotLoopback(_) => None,
            Self::Bind(_, error) => Some(error),
            Self::Storage(_, error) => Some(error),
        }
    }
}

fn build_rules(options: &Options) -> Result<(Rules, Option<Disk>), StartError> {
    let settings = options.settings.clone();
    let path = match &options.storage {
        Storage::Memory => {
            let keys = options.keys.clone().unwrap_or_else(Keys::generate);
            return Ok((Rules::new(settings, keys), None));
        }
        Storage::Sqlite(path) => path,
    };
    let failed = |error| StartError::Storage(path.clone(), error);
    let (disk, loaded) = Disk::open(path).map_err(failed)?;
    let keys = options
        .keys
        .clone()
        .or(loaded.keys)
        .unwrap_or_else(Keys::generate);
    disk.keep_keys(&keys).map_err(failed)?;
    let mut rules = Rules::with_store(settings, keys, loaded.store);
    rules.channels = loaded
        .channels
        .into_iter()
        .map(|it| (it.id.clone(), it))
        .collect();
    Ok((rules, Some(disk)))
}
