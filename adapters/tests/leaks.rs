//! An agent that is dropped, at whatever point of its life, leaves nothing running: tasks, streams,
//! child processes and threads are counted, on both runtimes.

#![expect(
    clippy::unwrap_used,
    reason = "a set-up that fails has failed the test"
)]

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_tungstenite::accept_async;
use async_tungstenite::tungstenite::Message;
use buzz_adapters::acp::{AcpPool, AcpSettings, Workers};
use buzz_adapters::async_std::AsyncStd;
use buzz_adapters::connect::{Events, Handle, Setup, connect};
use buzz_adapters::keys::SecretKey;
use buzz_adapters::runtime::{Processes, Runtime};
use buzz_adapters::sign::LocalSigner;
use buzz_adapters::tokio::{Stream, Tokio};
use buzz_adapters::url::RelayUrl;
use buzz_dev_relay::{DevRelay, Options};
use buzz_proto::config::Consumer;
use buzz_proto::schedule;
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::StreamExt as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

static TASKS: AtomicUsize = AtomicUsize::new(0);
static STREAMS: AtomicUsize = AtomicUsize::new(0);
/// From a point of its life to the drop: what was begun is under way then.
const A_MOMENT: Duration = Duration::from_millis(30);
/// Only turns a leak into a failure: an agent with a worker may take its time to end.
const PATIENCE: Duration = Duration::from_secs(30);
const ROUNDS: usize = 12;

/// Something that is counted for as long as it is there.
struct Counted(&'static AtomicUsize);

impl Counted {
    fn new(of: &'static AtomicUsize) -> Self {
        of.fetch_add(1, Ordering::SeqCst);
        Self(of)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A runtime whose tasks and streams are counted.
struct Counting<R>(PhantomData<fn() -> R>);

struct CountedStream<S>(S, #[expect(dead_code, reason = "it counts")] Counted);

impl<R: Runtime> Runtime for Counting<R> {
    type Stream = CountedStream<R::Stream>;

    fn resolve(
        host: &str,
        port: u16,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send + '_ {
        R::resolve(host, port)
    }

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        let stream = R::connect(address).await?;
        Ok(CountedStream(stream, Counted::new(&STREAMS)))
    }

    fn sleep(span: Duration) -> impl Future<Output = ()> + Send + 'static {
        R::sleep(span)
    }

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        let counted = Counted::new(&TASKS);
        R::spawn(async move {
            let _counted = counted;
            task.await;
        });
    }

    async fn spawn_blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let counted = Counted::new(&TASKS);
        R::spawn_blocking(move || {
            let _counted = counted;
            work()
        })
        .await
    }
}

impl<R: Processes> Processes for Counting<R> {
    type Child = R::Child;

    fn start(command: Command) -> io::Result<R::Child> {
        R::start(command)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        space: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, space)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}

/// How an agent is dropped.
#[derive(Clone, Copy, Debug)]
enum Way {
    HandleFirst,
    EventsFirst,
    Abort,
}

const WAYS: [Way; 3] = [Way::HandleFirst, Way::EventsFirst, Way::Abort];

impl Way {
    fn take<R: Runtime>(self, handle: Handle<R>, events: Events<R>) {
        match self {
            Self::HandleFirst => {
                drop(handle);
                drop(events);
            }
            Self::EventsFirst => {
                drop(events);
                drop(handle);
            }
            Self::Abort => handle.abort(),
        }
    }
}

/// How far a relay goes with whoever dials it.
#[derive(Clone, Copy, Debug)]
enum Goes {
    /// It accepts.
    Accepts,
    /// It answers the upgrade.
    Upgrades,
    /// It sends a challenge, and says nothing to the answer.
    Challenges,
}

// One test, because the counts are those of the whole process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_dropped_leaves_nothing_running() {
    leaves_nothing::<Tokio>().await;
    leaves_nothing::<AsyncStd>().await;
}

async fn leaves_nothing<R: Processes>() {
    for way in WAYS {
        let (listener, url) = listen().await;
        drop(listener);
        drop_agent::<R>(url, false, way, "nobody listens").await;
        for goes in [Goes::Accepts, Goes::Upgrades, Goes::Challenges] {
            let (listener, url) = listen().await;
            let relay = go(listener, goes);
            drop_agent::<R>(url, false, way, &format!("{goes:?}")).await;
            relay.abort();
        }
        let relay = DevRelay::start(Options::default()).await.unwrap();
        let url = RelayUrl::parse(&relay.url()).unwrap();
        drop_agent::<R>(url.clone(), false, way, "live").await;
        drop_agent::<R>(url.clone(), true, way, "a worker starts").await;
        let threads = threads();
        for _ in 0..ROUNDS {
            drop_agent::<R>(url.clone(), false, way, "live").await;
        }
        let more = self::threads().saturating_sub(threads);
        assert!(more < ROUNDS, "{more} threads more in {ROUNDS} lives");
    }
}

async fn drop_agent<R: Processes>(url: RelayUrl, has_worker: bool, way: Way, when: &str) {
    let signer = LocalSigner::new(SecretKey::generate().unwrap());
    let mut setup = Setup::new(url, Arc::new(signer)).unwrap();
    if has_worker {
        setup.config.consumer = Consumer::Workers(Box::new(schedule::Config::new(1)));
        setup.workers = Some(Box::new(|facts| -> Box<dyn Workers> {
            // It never says a word, so it is waited for.
            let mut settings = AcpSettings::new("sleep");
            settings.args = vec!["3600".to_owned()];
            Box::new(AcpPool::<Counting<R>>::new(settings, move |fact| {
                facts(fact)
            }))
        }));
    }
    let (handle, events) = connect::<Counting<R>>(setup).unwrap();
    tokio::time::sleep(A_MOMENT).await;
    assert!(TASKS.load(Ordering::SeqCst) > 0, "{when}: it runs");
    assert!(!has_worker || children() > 0, "{when}: its worker runs");

    way.take(handle, events);

    let counts = || {
        let of = [&TASKS, &STREAMS].map(|count| count.load(Ordering::SeqCst));
        (of, children())
    };
    let is_gone = async {
        while counts() != ([0, 0], 0) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, is_gone).await;
    assert!(in_time.is_ok(), "{when}, {way:?}: {:?} are left", counts());
}

async fn listen() -> (TcpListener, RelayUrl) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    (listener, RelayUrl::parse(&url).unwrap())
}

/// A relay that goes so far with one caller after the other, and holds them all.
fn go(listener: TcpListener, goes: Goes) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(tokio::spawn(async move {
                if matches!(goes, Goes::Accepts) {
                    return std::future::pending().await;
                }
                let Ok(mut peer) = accept_async(Stream(stream)).await else {
                    return;
                };
                if matches!(goes, Goes::Challenges) {
                    let _gone = peer.send(Message::text(r#"["AUTH","who"]"#)).await;
                }
                while let Some(Ok(_)) = peer.next().await {}
            }));
        }
    })
}

/// Child processes of this one that were not collected.
fn children() -> usize {
    let this = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_child = |process: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // The name before it may hold spaces and brackets.
        let rest = stat.rsplit(')').next().unwrap_or_default();
        rest.split_whitespace().nth(1) == Some(&this)
    };
    processes.filter(is_child).count()
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
