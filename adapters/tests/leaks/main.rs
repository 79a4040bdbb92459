//! An agent that is dropped, wherever it stands, leaves nothing running: tasks, streams, child
//! processes, files and threads are counted, on both runtimes.

#![expect(
    clippy::unwrap_used,
    reason = "a set-up that fails has failed the test"
)]

mod counting;
#[path = "../acp/fake.rs"]
mod fake;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_tungstenite::accept_async;
use async_tungstenite::tungstenite::Message;
use buzz_adapters::acp::{AcpPool, AcpSettings, Workers};
use buzz_adapters::async_std::AsyncStd;
use buzz_adapters::connect::{Events, Handle, Report, Setup, connect};
use buzz_adapters::keys::SecretKey;
use buzz_adapters::runtime::Processes;
use buzz_adapters::sign::LocalSigner;
use buzz_adapters::tokio::{Stream, Tokio};
use buzz_adapters::url::RelayUrl;
use buzz_dev_relay::client::{Client, tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::{ChannelKind, Role, Visibility};
use buzz_dev_relay::{DevRelay, Options};
use buzz_proto::config::Consumer;
use buzz_proto::note::{LinkNote, Note};
use buzz_proto::schedule;
use counting::{Counting, Held, files, hold_at, is_held, let_go, tasks, threads};
use futures_util::StreamExt as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

const IDLE_MAX: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Only turns a leak into a failure: an agent with a worker may take its time to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// An agent that is live has asked for more than this.
const STEPS_MIN: usize = 6;

/// What ends an agent; the other half is kept until it has ended.
#[derive(Clone, Copy, Debug)]
enum Way {
    DropHandle,
    DropEvents,
    Abort,
}

const WAYS: [Way; 3] = [Way::DropHandle, Way::DropEvents, Way::Abort];

/// How far a relay goes with whoever dials it.
#[derive(Clone, Copy, Debug)]
enum Goes {
    /// It accepts, and takes what is said.
    Accepts,
    /// It answers the upgrade.
    Upgrades,
    /// It sends a challenge, and says nothing to the answer.
    Challenges,
}

/// Not a test: the body of the workers.
#[test]
fn fake_agent() {
    if let Ok(mode) = std::env::var("FAKE_AGENT") {
        fake::run(&mode);
        std::process::exit(0);
    }
}

// One test, because the counts are those of the whole process.
#[test]
fn an_agent_that_is_dropped_leaves_nothing_running() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    // Threads of its pool end before they are taken for left ones.
    builder.thread_keep_alive(IDLE_MAX);
    let tokio = builder.worker_threads(2).enable_all().build().unwrap();
    tokio.block_on(async {
        leaves_nothing::<Tokio>().await;
        leaves_nothing::<AsyncStd>().await;
    });
}

async fn leaves_nothing<R: Processes>() {
    // What a runtime makes once and keeps is there after the first lives.
    dropped_with_workers::<R>(&[Way::Abort]).await;
    dropped_at_a_relay_that_is_no_good::<R>().await;
    tokio::time::sleep(5 * IDLE_MAX).await;
    let (files_before, threads_before) = (files(), threads());

    dropped_at_a_relay_that_is_no_good::<R>().await;
    dropped_at_every_step::<R>().await;
    // Nobody takes events from an agent with workers, and their stream ends nothing.
    dropped_with_workers::<R>(&[Way::DropHandle, Way::Abort]).await;

    until("files are closed", async || files() <= files_before).await;
    until("threads have ended", async || threads() <= threads_before).await;
}

async fn dropped_at_a_relay_that_is_no_good<R: Processes>() {
    for way in WAYS {
        let (listener, url) = listen().await;
        drop(listener);
        let agent = Agent::<R>::start(setup(url), |report| matches!(report, Report::DialFailed(_)));
        agent.until_reached().await;
        agent.leaves_nothing(way, "nobody listens").await;
        for goes in [Goes::Accepts, Goes::Upgrades, Goes::Challenges] {
            let (listener, url) = listen().await;
            let agent = Agent::<R>::start(setup(url), |_| false);
            let relay = tokio::spawn(go(listener, goes, Arc::clone(&agent.reached)));
            agent.until_reached().await;
            agent.leaves_nothing(way, &format!("{goes:?}")).await;
            relay.abort();
        }
    }
}

/// From the first thing that an agent asks of its runtime to the last one before it is live.
async fn dropped_at_every_step<R: Processes>() {
    let relay = DevRelay::start(Options::default()).await.unwrap();
    for way in WAYS {
        for number in 0.. {
            hold_at(number);
            let agent = Agent::<R>::start(setup(url(&relay)), is_live);
            // Whoever is held may be the one that would wake this thread.
            let since = Instant::now();
            while !is_held() && !agent.has_reached() && since.elapsed() < PATIENCE {
                std::thread::sleep(LOOK_EVERY / 10);
            }
            let was_live = agent.has_reached();
            let ended = agent.end(way);
            let_go();
            ended.leaves_nothing(&format!("step {number}")).await;
            if was_live {
                assert!(number > STEPS_MIN, "live after {number} steps");
                break;
            }
        }
    }
    relay.kill().await;
}

async fn dropped_with_workers<R: Processes>(ways: &[Way]) {
    let relay = DevRelay::start(Options::default()).await.unwrap();
    for way in ways.iter().copied() {
        let mut setup = setup(url(&relay));
        give_worker::<R>(&mut setup, "mute", &Keys::generate());
        let agent = Agent::<R>::start(setup, |_| false);
        until("its worker starts", async || Held::now().children > 0).await;
        agent.leaves_nothing(way, "a worker that starts").await;

        let agent = at_work::<R>(&relay).await;
        assert!(Held::now().children > 0);
        agent.leaves_nothing(way, "a worker in a turn").await;
    }
    relay.kill().await;
}

/// An agent whose worker is in a turn without an end.
async fn at_work<R: Processes>(relay: &DevRelay) -> Agent<R> {
    let person = Keys::generate();
    let mut setup = setup(url(relay));
    give_worker::<R>(&mut setup, "endless", &person);
    let bot = setup.config.me.to_string();
    let channel = format!("6f1d2c3b-4a59-4e68-8f70-{}", &bot[..12]);
    let (open, stream) = (Visibility::Private, ChannelKind::Stream);
    let created = relay.create_channel(&channel, "test", open, stream, person.public());
    created.unwrap();
    let joined = relay.add_member(&channel, &bot, Role::Bot, person.public());
    joined.unwrap();
    let agent = Agent::<R>::start(setup, |report| {
        matches!(report, Report::Note(Note::TurnStarted { .. }))
    });
    let listens = async || {
        agent
            .handle
            .status()
            .await
            .unwrap()
            .relay
            .subscriptions_live
            >= 2
    };
    until("it listens", listens).await;
    let mut client = Client::connect(&relay.url(), &person).await.unwrap();
    let tags = vec![tag("h", &channel), tag("p", &bot)];
    let mention = person.sign_event(9, tags, "go on and on", unix_now());
    assert!(client.publish(&mention).await.unwrap().accepted);
    agent.until_reached().await;
    agent
}

struct Agent<R: Processes> {
    handle: Handle<Counting<R>>,
    events: Events<Counting<R>>,
    /// Whether it has come to where the test wants it.
    reached: Arc<AtomicBool>,
}

impl<R: Processes> Agent<R> {
    fn start(mut setup: Setup, tells: fn(&Report) -> bool) -> Self {
        let reached = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&reached);
        setup.report = Box::new(move |report| {
            told.fetch_or(tells(&report), Ordering::SeqCst);
        });
        let (handle, events) = connect::<Counting<R>>(setup).unwrap();
        Self {
            handle,
            events,
            reached,
        }
    }

    fn has_reached(&self) -> bool {
        self.reached.load(Ordering::SeqCst)
    }

    async fn until_reached(&self) {
        until("it comes to where it is wanted", async || {
            self.has_reached()
        })
        .await;
    }

    async fn leaves_nothing(self, way: Way, when: &str) {
        assert!(tasks() > 0, "{when}: it runs, and that is counted");
        self.end(way).leaves_nothing(when).await;
    }

    fn end(self, way: Way) -> Ending<R> {
        let Self { handle, events, .. } = self;
        let (handle, events) = match way {
            Way::DropHandle => {
                drop(handle);
                (None, Some(events))
            }
            Way::DropEvents => {
                drop(events);
                (Some(handle), None)
            }
            Way::Abort => {
                handle.abort();
                (Some(handle), Some(events))
            }
        };
        Ending {
            way,
            _handle: handle,
            _events: events,
        }
    }
}

/// An agent that was told to end, and what is left of its two halves.
struct Ending<R: Processes> {
    way: Way,
    _handle: Option<Handle<Counting<R>>>,
    _events: Option<Events<Counting<R>>>,
}

impl<R: Processes> Ending<R> {
    async fn leaves_nothing(self, when: &str) {
        let is_gone = async {
            while Held::now() != Held::NOTHING {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, is_gone).await;
        assert!(in_time.is_ok(), "{when}, {:?}: {:?}", self.way, Held::now());
    }
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let waits = async {
        while !is_so().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, waits).await;
    assert!(
        in_time.is_ok(),
        "{what}: not so, with {:?}, {} files and {} threads",
        Held::now(),
        files(),
        threads()
    );
}

fn is_live(report: &Report) -> bool {
    matches!(report, Report::Note(Note::Link(LinkNote::Live { .. })))
}

fn url(relay: &DevRelay) -> RelayUrl {
    RelayUrl::parse(&relay.url()).unwrap()
}

fn setup(url: RelayUrl) -> Setup {
    let signer = LocalSigner::new(SecretKey::generate().unwrap());
    Setup::new(url, Arc::new(signer)).unwrap()
}

/// One worker, which answers the owner. It ends neither with its input nor when it is asked to.
fn give_worker<R: Processes>(setup: &mut Setup, mode: &'static str, owner: &Keys) {
    let mut config = schedule::Config::new(1);
    config.owner = Some(owner.public().parse().unwrap());
    setup.config.consumer = Consumer::Workers(Box::new(config));
    setup.workers = Some(Box::new(move |facts| -> Box<dyn Workers> {
        let this = std::env::current_exe().unwrap();
        let stays = r#"trap "" TERM; "$0" --exact fake_agent --nocapture; sleep 600"#;
        let mut settings = AcpSettings::new("sh");
        settings.args = ["-c", stays, this.to_str().unwrap()]
            .map(str::to_owned)
            .into();
        settings.env = vec![("FAKE_AGENT".into(), mode.into())];
        Box::new(AcpPool::<Counting<R>>::new(settings, move |fact| {
            facts(fact)
        }))
    }));
}

async fn listen() -> (TcpListener, RelayUrl) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    (listener, RelayUrl::parse(&url).unwrap())
}

/// A relay that goes so far with one caller after the other.
async fn go(listener: TcpListener, goes: Goes, reached: Arc<AtomicBool>) {
    while let Ok((stream, _)) = listener.accept().await {
        go_with(stream, goes, &reached).await;
    }
}

/// Until the caller is gone.
async fn go_with(mut stream: TcpStream, goes: Goes, reached: &AtomicBool) {
    if matches!(goes, Goes::Accepts) {
        while let Ok(1..) = stream.read(&mut [0; 1024]).await {
            reached.store(true, Ordering::SeqCst);
        }
        return;
    }
    let Ok(mut peer) = accept_async(Stream(stream)).await else {
        return;
    };
    if matches!(goes, Goes::Upgrades) {
        reached.store(true, Ordering::SeqCst);
    } else {
        let _gone = peer.send(Message::text(r#"["AUTH","who"]"#)).await;
    }
    while let Some(Ok(_)) = peer.next().await {
        reached.store(true, Ordering::SeqCst);
    }
}
