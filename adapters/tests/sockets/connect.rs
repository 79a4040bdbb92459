//! How an agent starts and ends, against relays that only listen.

use std::io;
use std::sync::Arc;

use buzz_adapters::acp::{AcpPool, AcpSettings, Facts, Workers};
use buzz_adapters::connect::{ConnectError, Setup, StartWorkers, connect};
use buzz_adapters::keep::Keeper;
use buzz_adapters::keys::SecretKey;
use buzz_adapters::sign::{LocalSigner, Signer as _};
use buzz_adapters::url::RelayUrl;
use buzz_adapters::verify::LocalVerifier;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::relay::{Record, Sub};
use buzz_proto::{publish, relay, schedule};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::Rt;
use crate::support::{guard, listen, tls};

#[tokio::test]
async fn a_dropped_handle_ends_the_agent_and_its_dial() {
    let (listener, url) = listen("ws");
    let (handle, mut events) = connect::<Rt>(external(url)).unwrap();
    let mut dialed = accept(&listener).await;

    drop(handle);

    guard(async {
        // The upgrade is never answered: only giving it up can end the stream.
        while let Ok(1..) = dialed.read(&mut [0; 1024]).await {}
        while events.next().await.is_some() {}
    })
    .await;
}

#[tokio::test]
async fn a_detached_agent_goes_on() {
    let (listener, url) = listen("ws");
    let (handle, _events) = connect::<Rt>(external(url)).unwrap();

    handle.detach();

    // Its dial is refused, so it dials again.
    drop(accept(&listener).await);
    drop(accept(&listener).await);
}

#[tokio::test]
async fn workers_and_consumer_have_to_fit() {
    let (_listener, url) = listen("ws");
    let mut missing = external(url.clone());
    missing.config.consumer = Consumer::Workers(Box::new(schedule::Config::new(1)));
    let mut unused = external(url);
    unused.workers = Some(workers());

    for (setup, error) in [
        (missing, ConnectError::WorkersMissing),
        (unused, ConnectError::WorkersUnused),
    ] {
        assert_eq!(connect::<Rt>(setup).err(), Some(error));
    }
}

#[tokio::test]
async fn records_and_what_keeps_them_have_to_fit() {
    let (_listener, url) = listen("ws");
    let mut missing = external(url.clone());
    missing.config.relay.records = Some(Vec::new());
    let mut unused = external(url.clone());
    unused.keeper = Some(Box::new(Forgetful));
    let mut both = external(url);
    both.config.relay.records = Some(Vec::new());
    both.keeper = Some(Box::new(Forgetful));

    for (setup, error) in [
        (missing, Some(ConnectError::KeeperMissing)),
        (unused, Some(ConnectError::KeeperUnused)),
        (both, None),
    ] {
        assert_eq!(connect::<Rt>(setup).err(), error);
    }
}

/// Keeps nothing.
struct Forgetful;

impl Keeper for Forgetful {
    fn keep(&mut self, _records: Vec<Record>, _forgotten: Vec<Sub>) -> io::Result<()> {
        Ok(())
    }
}

fn external(url: RelayUrl) -> Setup {
    let signer = LocalSigner::new(SecretKey::generate().unwrap());
    Setup {
        config: Config {
            seed: 1,
            me: signer.public_key(),
            relay: relay::Config::new(&url.websocket()),
            publish: publish::Config::default(),
            consumer: Consumer::External { slots: 1 },
        },
        url,
        tls: tls(),
        signer: Arc::new(signer),
        verifier: Arc::new(LocalVerifier),
        attestation: None,
        workers: None,
        keeper: None,
        record: None,
        report: Box::new(|_| {}),
    }
}

fn workers() -> StartWorkers {
    Box::new(|facts: Facts| -> Box<dyn Workers> {
        let settings = AcpSettings::new("true");
        Box::new(AcpPool::<Rt>::new(settings, move |fact| facts(fact)))
    })
}

async fn accept(listener: &TcpListener) -> TcpStream {
    guard(listener.accept()).await.unwrap().0
}
