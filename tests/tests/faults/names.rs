//! A relay whose name has no address for a while.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use buzz_adapters::runtime::Runtime;
use buzz_proto::relay::ConnectCause;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::SndBuf;

use crate::Rt;
use crate::agent::Call;
use crate::scene::Scene;

/// No name of the world: nobody but this test resolves it.
const NAME: &str = "relay.invalid";
/// Less than one message of a test that fills it.
const UNSENT_BYTES_MAX: usize = 32 << 10;
/// What is known of names.
static ADDRESSES: Mutex<BTreeMap<String, SocketAddr>> = Mutex::new(BTreeMap::new());

/// The runtime, but for names, which are those of [`ADDRESSES`], and for what the system takes of a
/// program before the peer does.
pub(crate) struct Narrow;

impl Runtime for Narrow {
    type Stream = <Rt as Runtime>::Stream;

    async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = host.parse() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let known = ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner);
        let address = known.get(host).copied();
        address
            .map(|address| vec![address])
            .ok_or_else(|| io::Error::other("no such name"))
    }

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        let dial = move || {
            let stream = TcpStream::connect(address)?;
            setsockopt(&stream, SndBuf, &UNSENT_BYTES_MAX)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        let stream: io::Result<TcpStream> = Rt::spawn_blocking(dial).await.expect("it runs");
        crate::adopt(stream?)
    }

    fn sleep(span: Duration) -> impl Future<Output = ()> + Send + 'static {
        Rt::sleep(span)
    }

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        Rt::spawn(task);
    }

    async fn spawn_blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        Rt::spawn_blocking(work).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_does_not_resolve_is_asked_for_by_the_ladder_until_it_does() {
    let mut scene = Scene::open().await;
    let addr = scene.line.addr();
    let url = format!("ws://{NAME}:{}", addr.port());
    let mut agent = scene.agent_at::<Narrow>(&url, |_| {});
    agent.fails(4).await;
    assert!(scene.line.dials().is_empty());
    name(Some(addr));
    agent.is_live().await;
    scene.is_heard_by(&mut agent).await;

    name(None);
    let before = agent.failed();
    scene.line.cut();
    let said = scene.mentions(5).await;
    agent.fails(before + 4).await;
    name(Some(addr));

    assert_eq!(agent.take(5).await, said);
    scene.is_heard_by(&mut agent).await;
    agent.end().await;
    assert!(agent.count(is_without_address) >= 8);
}

fn name(address: Option<SocketAddr>) {
    let mut known = ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner);
    match address {
        Some(address) => known.insert(NAME.to_owned(), address),
        None => known.remove(NAME),
    };
}

fn is_without_address(call: &Call) -> bool {
    call.hears_of(&ConnectCause::Resolve)
}
