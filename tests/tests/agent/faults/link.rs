//! A bad link to a relay: an in-process proxy that delays, holds up and cuts what passes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use buzz_proto::seed::Seed;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream, tcp};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// One read. Small, so that a receiver that stops soon stops its sender.
const CHUNK: usize = 4 << 10;
/// What a sender may have under way before the link reads.
const WINDOW: u32 = 4 << 10;
/// Chunks under way in one direction.
const UNDER_WAY: usize = 4096;

/// What the link does with connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They are carried.
    Open,
    /// They stay open, and nothing passes any more.
    Frozen,
    /// What the agent writes is not read; what the relay writes passes.
    Deaf,
    /// They are accepted and closed at once.
    Dropped,
}

/// How long what passes is under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delay {
    /// Each way.
    pub(crate) way: Duration,
    /// Of a hundred packets so many are lost. TCP sends them again, so loss shows as delay.
    pub(crate) loss: u64,
    /// Until a lost packet is sent again; doubled when it is lost again.
    pub(crate) again: Duration,
}

/// A running proxy. Its connections end with it.
pub(crate) struct Link {
    addr: SocketAddr,
    mode: watch::Sender<Mode>,
    dials: Arc<AtomicU64>,
    tasks: JoinSet<()>,
}

impl Link {
    /// To the relay at this URL.
    pub(crate) fn to(url: &str, delay: Delay) -> Self {
        let relay: SocketAddr = url.trim_start_matches("ws://").parse().expect("an address");
        let socket = TcpSocket::new_v4().expect("a socket");
        // Inherited by what it accepts.
        socket.set_recv_buffer_size(WINDOW).expect("a buffer");
        socket
            .bind(([127, 0, 0, 1], 0).into())
            .expect("a free port");
        let listener = socket.listen(64).expect("it listens");
        let addr = listener.local_addr().expect("it has an address");
        let (mode, seen) = watch::channel(Mode::Open);
        let dials = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, relay, seen, Arc::clone(&dials), delay));
        Self {
            addr,
            mode,
            dials,
            tasks,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.addr)
    }

    /// From now on, for the connections that stand and those to come.
    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Connections so far.
    pub(crate) fn dials(&self) -> u64 {
        self.dials.load(Ordering::Relaxed)
    }

    /// Nobody listens any more.
    pub(crate) async fn end(mut self) {
        self.tasks.shutdown().await;
    }
}

async fn accept(
    listener: TcpListener,
    relay: SocketAddr,
    mode: watch::Receiver<Mode>,
    dials: Arc<AtomicU64>,
    delay: Delay,
) {
    let mut carried = JoinSet::new();
    loop {
        let (near, _) = listener.accept().await.expect("it listens");
        let number = dials.fetch_add(1, Ordering::Relaxed);
        let now = *mode.borrow();
        match now {
            Mode::Dropped => drop(near),
            Mode::Open | Mode::Frozen | Mode::Deaf => {
                carried.spawn(carry(near, relay, mode.clone(), Weather { delay, number }));
            }
        }
    }
}

/// The delays of one connection.
#[derive(Clone, Copy)]
struct Weather {
    delay: Delay,
    number: u64,
}

impl Weather {
    /// How long a packet is under way.
    fn of(&self, packet: u64) -> Duration {
        let (mut wait, mut again) = (self.delay.way, self.delay.again);
        for attempt in 0..4 {
            let drawn = Seed(self.number).draw(packet, attempt) % 100;
            if drawn >= self.delay.loss {
                break;
            }
            wait += again;
            again *= 2;
        }
        wait
    }
}

async fn carry(near: TcpStream, relay: SocketAddr, mode: watch::Receiver<Mode>, weather: Weather) {
    let mut awake = mode.clone();
    let until_open = awake.wait_for(|mode| *mode != Mode::Frozen);
    if until_open.await.is_err() {
        return;
    }
    let Ok(far) = TcpStream::connect(relay).await else {
        return;
    };
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let out = Way {
        mode: mode.clone(),
        is_held: |mode| matches!(mode, Mode::Frozen | Mode::Deaf),
        weather,
    };
    let back = Way {
        mode,
        is_held: |mode| mode == Mode::Frozen,
        weather,
    };
    tokio::join!(
        out.carry(near_read, far_write),
        back.carry(far_read, near_write)
    );
}

/// One direction of a connection.
struct Way {
    mode: watch::Receiver<Mode>,
    is_held: fn(Mode) -> bool,
    weather: Weather,
}

impl Way {
    /// Until the sender ends; then the receiver is told so.
    async fn carry(mut self, mut from: tcp::OwnedReadHalf, mut to: tcp::OwnedWriteHalf) {
        let (sender, mut under_way) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
        let read = async {
            let mut packet = 0;
            let mut chunk = vec![0; CHUNK];
            loop {
                self.until_free().await;
                let Ok(length @ 1..) = from.read(&mut chunk).await else {
                    break;
                };
                // What came while the link froze is held as well.
                self.until_free().await;
                packet += 1;
                let due = Instant::now() + self.weather.of(packet);
                if sender.send((due, chunk[..length].to_vec())).await.is_err() {
                    break;
                }
            }
            drop(sender);
        };
        let write = async {
            while let Some((due, bytes)) = under_way.recv().await {
                sleep_until(due).await;
                if to.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            let _gone = to.shutdown().await;
        };
        tokio::join!(read, write);
    }

    async fn until_free(&mut self) {
        let is_held = self.is_held;
        if self.mode.wait_for(|mode| !is_held(*mode)).await.is_err() {
            // The link has ended, and this task with it.
            std::future::pending().await
        }
    }
}
