//! From an address to an open stream or WebSocket, and why that can fail.

use std::fmt;
use std::io;

use async_tungstenite::client_async_with_config;
use async_tungstenite::tungstenite::Error as WsError;
use async_tungstenite::tungstenite::handshake::client::{Request, generate_key};
use async_tungstenite::tungstenite::protocol::WebSocketConfig;
use buzz_proto::relay::ConnectCause;
use buzz_proto::time::UnixTime;
use buzz_proto::wire::{Excerpt, FRAME_BYTES_MAX};

use crate::http::date_of;
use crate::proxy::{Proxy, TunnelError};
use crate::runtime::{ReachError, Runtime, reach};
use crate::tls::{Stream, Tls, is_certificate_refusal};
use crate::url::RelayUrl;
use crate::ws::Socket;

/// Opens a WebSocket. The date is that of the relay's answer to the upgrade. There is no limit of
/// time here: dropping the future ends the attempt.
///
/// # Errors
/// See [`DialError`].
pub async fn connect<R: Runtime>(
    url: &RelayUrl,
    tls: &Tls,
) -> Result<(Socket<R::Stream>, Option<UnixTime>), DialError> {
    let stream = open::<R>(url, tls).await?;
    let request = upgrade_request(url)?;
    let (socket, response) = client_async_with_config(request, stream, Some(limits()))
        .await
        .map_err(DialError::of_upgrade)?;
    Ok((Socket::new(socket), date_of(response.headers())))
}

/// Opens a stream to the relay's port, with TLS if its address says so.
pub(crate) async fn open<R: Runtime>(
    url: &RelayUrl,
    tls: &Tls,
) -> Result<Stream<R::Stream>, DialError> {
    let stream = match url.proxy() {
        None => reach::<R>(url.host(), url.port())
            .await
            .map_err(|error| match error {
                ReachError::Resolve(error) => DialError::Resolve(error),
                ReachError::Connect(error) => DialError::Io(error),
            })?,
        Some(proxy) => tunnel::<R>(proxy, url).await.map_err(DialError::Proxy)?,
    };
    if !url.is_secure() {
        return Ok(Stream::Plain(stream));
    }
    match tls.connect(url.host(), stream).await {
        Ok(stream) => Ok(Stream::Tls(Box::new(stream))),
        Err(error) if is_certificate_refusal(&error) => Err(DialError::Certificate(error)),
        // The host is no name that a certificate could hold.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(DialError::Url),
        Err(error) => Err(DialError::Tls(error)),
    }
}

async fn tunnel<R: Runtime>(proxy: &Proxy, url: &RelayUrl) -> Result<R::Stream, TunnelError> {
    let reached = reach::<R>(proxy.host(), proxy.port()).await;
    let mut stream = reached.map_err(|error| match error {
        ReachError::Resolve(error) | ReachError::Connect(error) => TunnelError::Unreachable(error),
    })?;
    proxy.tunnel(&mut stream, url).await?;
    Ok(stream)
}

/// Why there is no connection. Printed as one sentence, without path and query of the address.
#[derive(Debug)]
#[non_exhaustive]
pub enum DialError {
    /// The address cannot be used in a request.
    Url,
    /// The host's name cannot be resolved.
    Resolve(io::Error),
    /// No connection, or it broke before the answer.
    Io(io::Error),
    /// The proxy on the way does not lead to the relay.
    Proxy(TunnelError),
    /// The relay's certificate is not trusted.
    Certificate(io::Error),
    /// TLS failed for another reason.
    Tls(io::Error),
    /// The relay answered the upgrade with a status of its own.
    Status {
        /// The status code of HTTP.
        status: u16,
        /// The beginning of the body, or nothing.
        body: Excerpt,
    },
    /// What answered does not speak WebSocket.
    NotWebSocket(Excerpt),
}

impl DialError {
    /// What the machine is told.
    #[must_use]
    pub fn cause(&self) -> ConnectCause {
        match self {
            Self::Url => ConnectCause::Url,
            Self::Resolve(_) => ConnectCause::Resolve,
            Self::Io(_) | Self::Tls(_) | Self::Proxy(_) => ConnectCause::Transport,
            Self::Certificate(_) => ConnectCause::Certificate,
            Self::Status { status, body } => ConnectCause::Status {
                status: *status,
                text: body.clone(),
            },
            Self::NotWebSocket(_) => ConnectCause::Protocol,
        }
    }

    fn of_upgrade(error: WsError) -> Self {
        match error {
            WsError::Io(error) => Self::Io(error),
            WsError::Http(response) => Self::Status {
                status: response.status().as_u16(),
                body: Excerpt::from_bytes(response.body().as_deref().unwrap_or_default()),
            },
            WsError::Url(_) => Self::Url,
            WsError::ConnectionClosed
            | WsError::AlreadyClosed
            | WsError::Tls(_)
            | WsError::Capacity(_)
            | WsError::Protocol(_)
            | WsError::WriteBufferFull(_)
            | WsError::Utf8(_)
            | WsError::AttackAttempt
            | WsError::HttpFormat(_) => Self::NotWebSocket(Excerpt::of(&error)),
        }
    }
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url => f.write_str("the relay URL cannot be used in a request"),
            Self::Resolve(error) => write!(f, "the relay's name cannot be resolved: {error}"),
            Self::Io(error) => write!(f, "no connection to the relay: {error}"),
            Self::Proxy(error) => error.fmt(f),
            Self::Certificate(error) => {
                write!(f, "the relay's certificate is not trusted: {error}")
            }
            Self::Tls(error) => write!(f, "TLS with the relay failed: {error}"),
            Self::Status { status, body } if body.is_empty() => {
                write!(f, "the relay answered with HTTP status {status}")
            }
            Self::Status { status, body } => {
                write!(f, "the relay answered with HTTP status {status}: {body}")
            }
            Self::NotWebSocket(detail) => write!(f, "this is no WebSocket relay: {detail}"),
        }
    }
}

impl std::error::Error for DialError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Resolve(error)
            | Self::Io(error)
            | Self::Certificate(error)
            | Self::Tls(error) => Some(error),
            Self::Proxy(error) => Some(error),
            Self::Url | Self::Status { .. } | Self::NotWebSocket(_) => None,
        }
    }
}

fn upgrade_request(url: &RelayUrl) -> Result<Request, DialError> {
    Request::builder()
        .uri(url.websocket())
        .header("Host", url.authority())
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", generate_key())
        .body(())
        .map_err(|_| DialError::Url)
}

fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(FRAME_BYTES_MAX))
        .max_frame_size(Some(FRAME_BYTES_MAX))
        // Allocated for each connection at once; a frame that does not fit gets its own space.
        .read_buffer_size(16 << 10)
        // Frames go to the stream as soon as they are handed over.
        .write_buffer_size(0)
        // The largest frame, and what pongs gather meanwhile.
        .max_write_buffer_size((1 << 20) + FRAME_BYTES_MAX)
}
