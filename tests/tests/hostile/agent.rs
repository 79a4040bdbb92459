//! An agent under attack, and what it may not lose: its life, its deadlines, its memory, its tongue.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use buzz_adapters::connect::{Delivery, Events, Handle, Report, Setup, connect};
use buzz_adapters::keys::SecretKey;
use buzz_adapters::sign::{LocalSigner, Signer as _};
use buzz_adapters::tls::{Roots, Tls};
use buzz_adapters::tokio::Tokio;
use buzz_adapters::url::RelayUrl;
use buzz_adapters::verify::LocalVerifier;
use buzz_dev_relay::client::{tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::event::Event;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::publish::{self, Class, Verdict};
use buzz_proto::relay::{self, Channels};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Draft;
use tokio::sync::MutexGuard;

use crate::liar::{Liar, within};
use crate::line::{Gone, Line};

pub(crate) const CHANNEL: &str = "6f1d2c3b-4a59-4e68-8f70-8192a3b4c5d6";
const SLOTS: u32 = 64;
/// The most that a process with one agent and one relay may ever hold. The settings allow the
/// agent 64 MiB of events and 16 MiB of verdicts, and a frame of 16 MiB that has come in part, is
/// whole, and is decoded.
const MEMORY_MAX_MIB: u64 = 256;
/// What an agent says of one attack, each kind of note a few times.
const REPORTS_MAX: usize = 40;
/// How long a message of the agent may take that can never be sent.
const TTL: Duration = Duration::from_millis(300);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// One attack at a time: the others would count as memory of this one.
static STAGE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A relay and an agent of its.
pub(crate) struct Scene {
    pub(crate) liar: Liar,
    pub(crate) person: Keys,
    pub(crate) agent: String,
    /// Events that showed that it delivers: each is another one.
    marks: u32,
    handle: Handle<Tokio>,
    events: Events<Tokio>,
    reports: Arc<Mutex<Vec<Report>>>,
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    pub(crate) async fn open() -> Self {
        Self::open_with(|_| {}, |_| {}).await
    }

    /// Prepares the relay, and changes the settings of the agent.
    pub(crate) async fn open_with(
        prepare: impl FnOnce(&Liar),
        change: impl FnOnce(&mut Setup),
    ) -> Self {
        let alone = STAGE.lock().await;
        begin_measuring();
        let liar = Liar::open().await;
        prepare(&liar);
        let signer = LocalSigner::new(SecretKey::generate().expect("there is randomness"));
        let agent = signer.public_key().to_string();
        let reports = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&reports);
        let mut setup = Setup {
            config: Config {
                seed: 1,
                me: signer.public_key(),
                relay: settings(liar.url()),
                publish: publish::Config::default(),
                consumer: Consumer::External { slots: SLOTS },
            },
            url: RelayUrl::parse(liar.url()).expect("the relay's own URL"),
            tls: Tls::new(Roots::Bundled, None).expect("the bundled roots"),
            signer: Arc::new(signer),
            verifier: Arc::new(LocalVerifier),
            attestation: None,
            workers: None,
            keeper: None,
            record: None,
            report: Box::new(move |report| {
                let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                told.push(report);
            }),
        };
        change(&mut setup);
        let (handle, events) = connect::<Tokio>(setup).expect("the settings work");
        Self {
            liar,
            person: Keys::generate(),
            agent,
            marks: 0,
            handle,
            events,
            reports,
            _alone: alone,
        }
    }

    /// The first WebSocket, with a live subscription: its name.
    pub(crate) async fn live(&mut self) -> (Line, String) {
        let mut line = self.liar.line().await;
        let name = line.welcome().await;
        (line, name)
    }

    /// A mention of the agent by a person.
    pub(crate) fn mention(&self, words: &str) -> Event {
        self.mention_dated(words, unix_now())
    }

    pub(crate) fn mention_dated(&self, words: &str, dated: u64) -> Event {
        let tags = vec![tag("h", CHANNEL), tag("p", &self.agent)];
        self.person.sign_event(9, tags, words, dated)
    }

    /// The next event that is delivered, as it was sent.
    pub(crate) async fn next_event(&mut self) -> Event {
        within(async {
            loop {
                match self.events.next().await.expect("the agent runs") {
                    Delivery::Event { event, .. } => {
                        return serde_json::from_slice(event.raw()).expect("it is JSON");
                    }
                    Delivery::Subscription { .. }
                    | Delivery::Channel { .. }
                    | Delivery::Link { .. } => {}
                }
            }
        })
        .await
    }

    pub(crate) async fn status(&self) -> relay::View {
        within(self.handle.status()).await.expect("it runs").relay
    }

    pub(crate) async fn until(&self, stands: impl Fn(&relay::View) -> bool) {
        within(async {
            while !stands(&self.status().await) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await;
    }

    /// A message of the agent that cannot be sent gets its verdict, and the agent answers
    /// meanwhile.
    pub(crate) async fn keeps_its_deadlines(&self) {
        let draft = Draft {
            kind: 9,
            created_at: UnixTime(unix_now()),
            tags: vec![tag("h", CHANNEL)],
            content: "hello".to_owned(),
        };
        let publish = self.handle.publish(draft, Class::Durable, Some(TTL));
        let mut publish = std::pin::pin!(publish);
        loop {
            tokio::select! {
                verdict = &mut publish => {
                    let verdict = verdict.expect("it runs");
                    assert!(matches!(verdict, Verdict::Expired | Verdict::Unknown), "{verdict:?}");
                    return;
                }
                () = tokio::time::sleep(LOOK_EVERY) => {
                    self.status().await;
                }
            }
        }
    }

    /// Sends pieces, in groups of so many, until at least so many were sent and the agent has kept
    /// its deadlines meanwhile, or it has closed the socket.
    pub(crate) async fn flood(
        &self,
        line: &mut Line,
        least: u32,
        group: u32,
        mut piece: impl FnMut(u32) -> Vec<u8>,
    ) -> Result<(), Gone> {
        let is_over = std::cell::Cell::new(false);
        let flooding = async {
            for n in 0.. {
                if n >= least && n % group == 0 && is_over.get() {
                    break;
                }
                line.raw(&piece(n)).await?;
            }
            Ok(())
        };
        let keeping = async {
            self.keeps_its_deadlines().await;
            is_over.set(true);
        };
        let (flooded, ()) = tokio::join!(within(flooding), within(keeping));
        flooded
    }

    /// The agent delivers what comes next, on this socket.
    pub(crate) async fn delivers(&mut self, line: &mut Line, name: &str) {
        self.marks += 1;
        let event = self.mention(&format!("after all of it, {}", self.marks));
        line.bring(name, &event).await.expect("it is open");
        assert_eq!(self.next_event().await, event);
    }

    /// The agent comes back on a new socket, and delivers there.
    pub(crate) async fn comes_back(&mut self) {
        let (mut line, name) = self.live().await;
        self.delivers(&mut line, &name).await;
    }

    /// It is over: what was said and kept meanwhile is within its bounds.
    pub(crate) async fn end(mut self) {
        self.handle.shutdown(Duration::ZERO);
        within(self.handle.ended()).await;
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let count = reports.len();
        assert!(count <= REPORTS_MAX, "{count} reports: {reports:#?}");
        let peak = peak_mib();
        assert!(peak <= MEMORY_MAX_MIB, "{peak} MiB of memory");
    }
}

/// Waits are short, so that a test can see what comes after them.
fn settings(url: &str) -> relay::Config {
    let channel = CHANNEL.parse().expect("a channel");
    let mut config = relay::Config {
        channels: Channels::Given(vec![channel]),
        ..relay::Config::new(url)
    };
    config.limits.reconnect_first = Duration::from_millis(100);
    config.limits.reconnect_top = Duration::from_millis(200);
    config
}

/// Peaks before this are forgotten, where the system can do that.
fn begin_measuring() {
    // Elsewhere the peak of the whole process counts, which is no less.
    drop(std::fs::write("/proc/self/clear_refs", "5"));
}

/// The most memory that this process had at once; nothing where the system does not tell.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}
