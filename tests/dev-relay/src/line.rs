//! A line to a relay that goes bad on order: a TCP proxy on loopback.
//!
//! Every dial of a client, be it for a WebSocket or for one HTTP call, is carried on to the relay.
//! TCP itself loses nothing, so loss shows as it does to a program: what was lost comes later, and
//! with it all that was sent after it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

mod lane;

use lane::carry;

/// What the system keeps unread for the proxy: small, so that a peer that is not read soon notices.
const UNREAD_BYTES_MAX: u32 = 64 << 10;
/// Dials that the system keeps until they are accepted.
const BACKLOG: u32 = 128;
/// A dial of which this many tries were lost in a row never comes about.
const TRIES_MAX: u32 = 4;

/// What becomes of a dial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dials {
    /// It is carried to the relay.
    #[default]
    Carried,
    /// It is accepted and closed at once.
    Closed,
    /// It is accepted, and nothing ever comes of it.
    Ignored,
}

/// One direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// How long everything takes.
    pub delay: Duration,
    /// Of a hundred pieces, how many are lost each time they are sent; below 100.
    pub loss: u32,
    /// How long a lost piece takes until it is sent again.
    pub resend: Duration,
    /// Nothing is read: what the peer writes stays with it.
    pub is_unread: bool,
    /// Everything is read, and nothing comes out.
    pub is_held: bool,
    /// The same, from the end of the HTTP header on: an upgrade passes, frames do not.
    pub is_held_after_head: bool,
}

/// How the line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// What becomes of dials from now on.
    pub dials: Dials,
    /// What the client writes.
    pub to_relay: Lane,
    /// What the relay writes.
    pub to_client: Lane,
}

impl State {
    /// Both directions alike.
    #[must_use]
    pub const fn both(lane: Lane) -> Self {
        Self {
            dials: Dials::Carried,
            to_relay: lane,
            to_client: lane,
        }
    }
}

/// A line to one relay. Dropping it ends it.
#[derive(Debug)]
pub struct Line {
    addr: SocketAddr,
    state: watch::Sender<State>,
    /// Its value counts the cuts.
    cuts: watch::Sender<u64>,
    dials: Arc<Mutex<Vec<Instant>>>,
    task: JoinHandle<()>,
}

impl Line {
    /// A good line to the relay at an address, in tasks of the current tokio runtime. What is drawn
    /// is drawn from the seed.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn open(relay: SocketAddr, seed: u64) -> io::Result<Self> {
        Self::open_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), relay, seed)
    }

    /// The same at an address of loopback, such as that of a line that was dropped.
    ///
    /// # Errors
    /// When it cannot be bound.
    pub fn open_at(addr: SocketAddr, relay: SocketAddr, seed: u64) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.set_recv_buffer_size(UNREAD_BYTES_MAX)?;
        socket.bind(addr)?;
        let listener = socket.listen(BACKLOG)?;
        let addr = listener.local_addr()?;
        let state = watch::Sender::new(State::default());
        let cuts = watch::Sender::new(0);
        let dials = Arc::default();
        let exchange = Exchange {
            relay,
            state: state.subscribe(),
            cuts: cuts.subscribe(),
            dials: Arc::clone(&dials),
        };
        Ok(Self {
            addr,
            state,
            cuts,
            dials,
            task: tokio::spawn(exchange.serve(listener, seed)),
        })
    }

    /// The address to dial.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The WebSocket URL, without a trailing slash.
    #[must_use]
    pub fn url(&self) -> String {
        format!("ws://{}", self.addr)
    }

    /// Changes how the line is, for connections that stand too.
    pub fn set(&self, state: State) {
        self.state.send_replace(state);
    }

    /// Ends every connection. What was under way is lost.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Cuts every connection; further dials are refused.
    pub async fn end(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    /// When dials came, of WebSockets and of HTTP calls.
    #[must_use]
    pub fn dials(&self) -> Vec<Instant> {
        let dials = self.dials.lock();
        dials.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Where dials arrive.
struct Exchange {
    relay: SocketAddr,
    state: watch::Receiver<State>,
    cuts: watch::Receiver<u64>,
    dials: Arc<Mutex<Vec<Instant>>>,
}

impl Exchange {
    async fn serve(self, listener: TcpListener, seed: u64) {
        let mut connections = JoinSet::new();
        let mut chance = Chance(seed);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            let Ok((client, _)) = accepted else { continue };
            let dials = self.dials.lock();
            dials
                .unwrap_or_else(PoisonError::into_inner)
                .push(Instant::now());
            let connection = Connection {
                relay: self.relay,
                state: self.state.clone(),
                chance: Chance(chance.draw()),
            };
            let mut cuts = self.cuts.clone();
            cuts.mark_unchanged();
            connections.spawn(async move {
                tokio::select! {
                    () = connection.serve(client) => {}
                    _ = cuts.changed() => {}
                }
            });
        }
    }
}

struct Connection {
    relay: SocketAddr,
    state: watch::Receiver<State>,
    chance: Chance,
}

impl Connection {
    /// An error of either socket ends both, as on a line without a proxy.
    async fn serve(mut self, client: TcpStream) {
        let state = *self.state.borrow();
        let Some(relay) = self.dial(state).await else {
            return;
        };
        let _ = (client.set_nodelay(true), relay.set_nodelay(true));
        let (from_client, to_client) = client.into_split();
        let (from_relay, to_relay) = relay.into_split();
        let (states, chance) = (self.state.clone(), Chance(self.chance.draw()));
        let there = carry(from_client, to_relay, states, |it| it.to_relay, chance);
        let back = carry(
            from_relay,
            to_client,
            self.state,
            |it| it.to_client,
            self.chance,
        );
        let _ = tokio::try_join!(there, back);
    }

    /// The first round trip of a connection carries nothing.
    async fn dial(&mut self, state: State) -> Option<TcpStream> {
        match state.dials {
            Dials::Carried => {}
            Dials::Closed => return None,
            Dials::Ignored => std::future::pending().await,
        }
        for lane in [state.to_relay, state.to_client] {
            let lost = self.chance.losses(lane.loss);
            if lost >= TRIES_MAX {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(lane.delay + lane.resend * lost).await;
        }
        TcpStream::connect(self.relay).await.ok()
    }
}

/// Numbers that follow from a seed (SplitMix64).
#[derive(Clone, Copy, Debug)]
struct Chance(u64);

impl Chance {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// How often in a row something is lost of which so many in a hundred are.
    fn losses(&mut self, loss: u32) -> u32 {
        let mut lost = 0;
        while lost < TRIES_MAX && self.draw() % 100 < u64::from(loss) {
            lost += 1;
        }
        lost
    }
}
