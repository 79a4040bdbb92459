//! TLS over the stream of any runtime.

use std::fmt;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};
use futures_rustls::TlsConnector;
use futures_rustls::client::TlsStream;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

/// Whom to trust for the certificates of relays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Roots {
    /// The authorities of the Mozilla root program, as they were when the program was built.
    #[default]
    Bundled,
    /// The authorities that the system trusts.
    System,
}

/// Settings of TLS, cheap to clone.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
}

impl Tls {
    /// Trusts `roots`, and the certificates of the PEM file `extra` besides.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(roots: Roots, extra: Option<&Path>) -> Result<Self, TlsError> {
        let mut store = match roots {
            Roots::Bundled => RootCertStore {
                roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
            },
            Roots::System => system_roots()?,
        };
        if let Some(path) = extra {
            add_file(&mut store, path)?;
        }
        // The provider is named, since without one rustls asks the process for a default and
        // panics when nobody set it.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| TlsError::Versions)?
            .with_root_certificates(store)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
        })
    }

    /// Does the handshake as a client of `host`, a name or an address without brackets.
    pub(crate) async fn connect<S>(&self, host: &str, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        self.connector.connect(name, stream).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// Why TLS cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsError {
    /// The system trusts nobody, or its certificates cannot be read.
    NoSystemRoots,
    /// The file of certificates cannot be read, or holds none.
    File(String),
    /// The cryptography has no protocol version in common with us.
    Versions,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSystemRoots => f.write_str("the system has no readable root certificates"),
            Self::File(path) => write!(f, "{path} holds no readable PEM certificates"),
            Self::Versions => f.write_str("no version of TLS is available"),
        }
    }
}

impl std::error::Error for TlsError {}

/// Whether `error`, of a handshake, means that the peer's certificate is not trusted: waiting
/// does not help, somebody has to act.
pub(crate) fn is_certificate_refusal(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    matches!(
        cause,
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented)
    )
}

/// A stream with TLS or without.
#[derive(Debug)]
pub enum Stream<S> {
    /// Without.
    Plain(S),
    /// With.
    Tls(Box<TlsStream<S>>),
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        space: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, space),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, space),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_close(cx),
            Self::Tls(stream) => Pin::new(stream).poll_close(cx),
        }
    }
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if store.is_empty() {
        return Err(TlsError::NoSystemRoots);
    }
    Ok(store)
}

fn add_file(store: &mut RootCertStore, path: &Path) -> Result<(), TlsError> {
    let unreadable = || TlsError::File(path.display().to_string());
    let before = store.len();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|_| unreadable())? {
        let certificate = certificate.map_err(|_| unreadable())?;
        store.add(certificate).map_err(|_| unreadable())?;
    }
    if store.len() == before {
        return Err(unreadable());
    }
    Ok(())
}
