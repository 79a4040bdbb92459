//! The library's surface: what an agent needs, how it is started, and what it tells.

use std::fs::File;
use std::io;
use std::sync::Arc;

use buzz_proto::config::{Config, ConfigError, Consumer};
use buzz_proto::ids::ChannelId;
use buzz_proto::machine::Machine;
use buzz_proto::note::Note;
use buzz_proto::publish;
use buzz_proto::relay::{self, ChannelState, Sub, SubState};
use buzz_proto::schedule;
use buzz_proto::trace::Privacy;
use buzz_proto::wire::Event;
use futures_channel::oneshot;
use futures_util::future::abortable;

use crate::acp::{Facts, Workers};
use crate::delivery::deliveries;
use crate::dial::DialError;
use crate::driver::Driver;
pub use crate::events::{Disposer, Events};
pub use crate::handle::{Ended, Handle};
use crate::keep::Keeper;
use crate::runtime::Runtime;
use crate::sign::{Attestation, Signer};
use crate::tls::{Roots, Tls};
use crate::url::RelayUrl;
use crate::verify::{LocalVerifier, Verifier};

/// Starts the workers of an agent; what they report goes to the function given.
pub type StartWorkers = Box<dyn FnOnce(Facts) -> Box<dyn Workers> + Send>;

/// All that an agent needs.
pub struct Setup {
    /// The machine's settings. `config.me` is the signer's key, `config.relay.url` the URL's text.
    pub config: Config,
    /// The relay.
    pub url: RelayUrl,
    /// How TLS trusts.
    pub tls: Tls,
    /// Signs for the agent.
    pub signer: Arc<dyn Signer>,
    /// Says whether events are genuine.
    pub verifier: Arc<dyn Verifier>,
    /// The owner's statement that the agent is theirs (NIP-OA).
    pub attestation: Option<Attestation>,
    /// Workers, where the settings name workers as consumer, and nowhere else.
    pub workers: Option<StartWorkers>,
    /// Keeps records for the next life, where `config.relay.records` says what the one before left,
    /// and nowhere else. See [`Events`] for what that promises.
    pub keeper: Option<Box<dyn Keeper>>,
    /// Where a trace goes.
    pub record: Option<RecordTo>,
    /// Takes what is worth telling; must not block.
    pub report: Box<dyn FnMut(Report) + Send>,
}

impl Setup {
    /// An agent at a relay that hands out events itself, 256 at a time, in the channels that the
    /// relay says it is in; with all else as it usually is. What is different is set afterwards.
    ///
    /// # Errors
    /// The system has no random numbers, or TLS cannot be used.
    pub fn new(url: RelayUrl, signer: Arc<dyn Signer>) -> io::Result<Self> {
        Ok(Self {
            config: Config {
                seed: getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?,
                me: signer.public_key(),
                relay: relay::Config::new(&url.relay_tag()),
                publish: publish::Config::default(),
                consumer: Consumer::External { slots: 256 },
            },
            url,
            tls: Tls::new(Roots::Bundled, None).map_err(io::Error::other)?,
            signer,
            verifier: Arc::new(LocalVerifier),
            attestation: None,
            workers: None,
            keeper: None,
            record: None,
            report: Box::new(|_| {}),
        })
    }
}

/// Where a trace goes, and what it keeps.
#[derive(Debug)]
pub struct RecordTo {
    /// The file.
    pub file: File,
    /// What it keeps.
    pub privacy: Privacy,
}

/// What is worth telling.
#[derive(Debug)]
#[non_exhaustive]
pub enum Report {
    /// A fact of the machine.
    Note(Note),
    /// A dial failed, with more than the machine needs to know.
    DialFailed(DialError),
    /// The trace could not be written and is given up.
    RecordFailed(io::Error),
    /// Records could not be kept for the next life; it is tried again. Of failures in a row the
    /// first, second, fourth, eighth … are told.
    KeepFailed(io::Error),
    /// The agent has ended, and its last records are not kept: the next life reads further back,
    /// and what was done since the last records that are kept may come again.
    NotKept(io::Error),
}

/// What an agent without workers receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// An event, once in this life; see [`Events`].
    Event {
        /// The subscription that brought it.
        sub: Sub,
        /// The event.
        event: Event,
        /// In how many earlier lives work on it was begun and had no outcome. More than none: it may
        /// have been handled, so look for the effect before it is done again.
        lives: u32,
    },
    /// A subscription changed its standing.
    Subscription {
        /// The subscription.
        sub: Sub,
        /// Its standing.
        state: SubState,
    },
    /// A channel was joined or left.
    Channel {
        /// The channel.
        channel: ChannelId,
        /// Its standing.
        state: ChannelState,
    },
    /// The connection is live, or not.
    Link {
        /// Whether it is.
        live: bool,
    },
}

/// How things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Connection and subscriptions.
    pub relay: relay::View,
    /// Outbox.
    pub publish: publish::View,
    /// Workers, if there are any.
    pub schedule: Option<schedule::View>,
}

impl Status {
    pub(crate) fn of(machine: &Machine) -> Self {
        Self {
            relay: machine.relay(),
            publish: machine.publisher(),
            schedule: machine.scheduler(),
        }
    }
}

/// What [`connect`] cannot start with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// A setting cannot work.
    Config(ConfigError),
    /// The settings name workers as consumer, and nothing starts them.
    WorkersMissing,
    /// There are workers, and the settings name another consumer.
    WorkersUnused,
    /// The settings want records to be kept, and nothing keeps them.
    KeeperMissing,
    /// There is a keeper, and the settings want no records to be kept.
    KeeperUnused,
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::WorkersMissing => f.write_str(
                "consumer names workers, but the set-up starts none; give it `workers`, or name an external consumer",
            ),
            Self::WorkersUnused => f.write_str(
                "the set-up starts workers, but consumer is external; name workers as consumer, or start none",
            ),
            Self::KeeperMissing => f.write_str(
                "relay.records says that records are kept, but the set-up keeps none; give it \
                 `keeper`, or set no records",
            ),
            Self::KeeperUnused => f.write_str(
                "the set-up keeps records, but relay.records is not set; set it to what was \
                 kept, at first to an empty list, or give no `keeper`",
            ),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::WorkersMissing
            | Self::WorkersUnused
            | Self::KeeperMissing
            | Self::KeeperUnused => None,
        }
    }
}

impl From<ConfigError> for ConnectError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

/// Starts an agent.
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use buzz_adapters::connect::{Delivery, Setup, connect};
/// use buzz_adapters::keys::SecretKey;
/// use buzz_adapters::sign::LocalSigner;
/// use buzz_adapters::url::RelayUrl;
///
/// let url = RelayUrl::parse("wss://relay.example")?;
/// let signer = LocalSigner::new(SecretKey::generate()?);
/// let setup = Setup::new(url, Arc::new(signer))?;
/// # #[cfg(feature = "tokio")]
/// let (agent, mut events) = connect::<buzz_adapters::tokio::Tokio>(setup)?;
/// # #[cfg(feature = "tokio")]
/// while let Some(Delivery::Event { event, .. }) = events.next().await {
///     println!("{} says {}", event.author(), event.content());
/// }
/// # Ok(()) }
/// ```
///
/// It dials at once and goes on until [`Handle::shutdown`], or until its handle
/// or, without workers, its event stream is dropped; every failure on the way is reported and
/// mended.
///
/// # Errors
/// When a setting cannot work, or settings do not fit the workers or the keeper.
pub fn connect<R: Runtime>(setup: Setup) -> Result<(Handle<R>, Events<R>), ConnectError> {
    let has_workers = setup.workers.is_some();
    match (&setup.config.consumer, has_workers) {
        (Consumer::Workers(_), true) | (Consumer::External { .. }, false) => {}
        (Consumer::Workers(_), false) => return Err(ConnectError::WorkersMissing),
        (Consumer::External { .. }, true) => return Err(ConnectError::WorkersUnused),
    }
    match (&setup.config.relay.records, &setup.keeper) {
        (Some(_), Some(_)) | (None, None) => {}
        (Some(_), None) => return Err(ConnectError::KeeperMissing),
        (None, Some(_)) => return Err(ConnectError::KeeperUnused),
    }
    let (deliver, deliveries) = deliveries();
    let (done, ended) = oneshot::channel();
    let (driver, inbox) = Driver::<R>::new(setup, deliver)?;
    let (run, task) = abortable(driver.run());
    R::spawn(async move {
        let _aborted = run.await;
        // Nobody may be waiting for the end.
        let _gone = done.send(());
    });
    let handle = Handle::new(inbox.clone(), task, ended);
    Ok((handle, Events::new(inbox, deliveries, has_workers)))
}
