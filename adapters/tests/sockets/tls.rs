//! WebSockets over TLS on loopback.

use std::sync::Arc;

use async_tungstenite::accept_async;
use async_tungstenite::tungstenite::Message;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use buzz_adapters::dial::{DialError, connect};
use buzz_adapters::tls::{Roots, Tls};
use buzz_adapters::tokio::Stream;
use buzz_adapters::ws::SocketEvent;
use buzz_proto::ids::WriteId;
use bytes::Bytes;
use futures_rustls::TlsAcceptor;
use futures_util::StreamExt as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::AsyncWriteExt as _;

use crate::Rt;
use crate::narrow::{Narrow, large, next};
use crate::support::{guard, listen, tls};

#[tokio::test]
async fn a_certificate_of_an_authority_that_is_given_is_trusted() {
    let authority = Authority::new();
    let (listener, url) = listen("wss");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("roots.pem");
    std::fs::write(&path, &authority.pem).unwrap();
    let tls = Tls::new(Roots::Bundled, Some(&path)).unwrap();
    let server = async {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = authority.acceptor.accept(Stream(stream)).await.unwrap();
        let mut peer = accept_async(stream).await.unwrap();
        peer.send(Message::Ping(Bytes::new())).await.unwrap();
        assert!(matches!(peer.next().await, Some(Ok(Message::Pong(_)))));
        let large = peer.next().await.unwrap().unwrap();
        peer.send(large).await.unwrap();
        peer
    };
    let client = async {
        let (mut socket, _) = connect::<Narrow>(&url, &tls).await.unwrap();
        assert_eq!(socket.next().await, Some(SocketEvent::Pinged));
        socket.queue(WriteId(1), large());
        let events = next(&mut socket, 2).await;
        assert_eq!(
            events,
            [SocketEvent::Written(WriteId(1)), SocketEvent::Text(large())]
        );
    };
    guard(async { tokio::join!(server, client) }).await;
}

#[tokio::test]
async fn an_unknown_certificate_is_refused_as_such() {
    let authority = Authority::new();
    let (listener, url) = listen("wss");
    let server = async {
        let (stream, _) = listener.accept().await.unwrap();
        drop(authority.acceptor.accept(Stream(stream)).await);
    };
    let client = async { connect::<Rt>(&url, &tls()).await.unwrap_err() };
    let ((), error) = guard(async { tokio::join!(server, client) }).await;
    assert!(matches!(error, DialError::Certificate(_)), "{error:?}");
}

#[tokio::test]
async fn a_peer_without_tls_is_not_taken_for_a_bad_certificate() {
    let (listener, url) = listen("wss");
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        stream
    };
    let client = async { connect::<Rt>(&url, &tls()).await.unwrap_err() };
    let (_stream, error) = guard(async { tokio::join!(server, client) }).await;
    assert!(matches!(error, DialError::Tls(_)), "{error:?}");
}

#[test]
fn a_file_without_certificates_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.pem");
    assert!(Tls::new(Roots::Bundled, Some(&path)).is_err());
    std::fs::write(&path, "nothing").unwrap();
    assert!(Tls::new(Roots::Bundled, Some(&path)).is_err());
}

/// An authority of its own, and a server with a certificate by it for 127.0.0.1.
struct Authority {
    pem: String,
    acceptor: TlsAcceptor,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &authority).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![leaf.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        Self {
            pem: pem(authority.der()),
            acceptor: TlsAcceptor::from(Arc::new(config)),
        }
    }
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}
