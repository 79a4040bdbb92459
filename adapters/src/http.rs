//! HTTP/1.1 requests to one relay, over connections that are used again.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use buzz_proto::relay::{BrokeCause, HttpAnswer};
use buzz_proto::retry_hint::parse_http_date;
use buzz_proto::time::{MonoTime, UnixTime};
use bytes::{Bytes, BytesMut};
use futures_io::{AsyncRead, AsyncWrite};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::{Method, Request};

use crate::clock::Clock;
use crate::dial::{DialError, open};
use crate::runtime::{Runtime, within};
use crate::tls::Tls;
use crate::url::RelayUrl;

/// Connections kept open between requests. As many as there may be requests at once, so that a
/// steady load opens none.
const IDLE_MAX: usize = 4;

/// How long a connection is kept between requests, unless the relay keeps it for less. Front ends
/// give up idle ones after a minute or more, some without a word, and a request that meets such an
/// end fails.
const IDLE_TIME_MAX: Duration = Duration::from_secs(30);

/// So long before the relay gives up an idle connection, as it announced, a request may find it
/// closed on arrival.
const IDLE_MARGIN: Duration = Duration::from_secs(1);

/// How long a connection may need after its answer until it takes the next request. It is ready at
/// once, unless the relay answered without reading the whole body.
const READY_TIME_MAX: Duration = Duration::from_millis(100);

/// Limit of the head of an answer. Proxies add a few KiB.
const HEAD_BYTES_MAX: usize = 64 << 10;

const KEEP_ALIVE: &str = "keep-alive";

type Sender = SendRequest<Full<Bytes>>;

/// Sends requests to one relay. Nothing is tried twice: a request that may have reached the relay
/// is reported as failed, and repeating it is the caller's decision.
#[derive(Debug)]
pub struct HttpClient<R> {
    url: RelayUrl,
    tls: Tls,
    idle: Mutex<Vec<Idle>>,
    clock: Clock,
    runtime: std::marker::PhantomData<fn() -> R>,
}

/// A connection between requests.
#[derive(Debug)]
struct Idle {
    sender: Sender,
    until: MonoTime,
}

/// Limits of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the start of the call to the last byte of the answer.
    pub time_max: Duration,
    /// Size of the answer's body.
    pub body_bytes_max: usize,
}

impl<R: Runtime> HttpClient<R> {
    /// A client of the relay at `url`; opens no connection yet.
    #[must_use]
    pub fn new(url: RelayUrl, tls: Tls) -> Self {
        let idle = Mutex::new(Vec::new());
        Self {
            url,
            tls,
            idle,
            clock: Clock::start(),
            runtime: std::marker::PhantomData,
        }
    }

    /// Posts JSON to an endpoint (`/events`); see [`RelayUrl::http`] for its whole URL. `headers`
    /// are those beyond the usual; their values count as secret.
    ///
    /// # Errors
    /// See [`HttpError`].
    pub async fn post(
        &self,
        endpoint: &str,
        headers: &[(&str, &str)],
        body: Bytes,
        limits: Limits,
    ) -> Result<HttpAnswer, HttpError> {
        let mut request = self.request(Method::POST, endpoint, Full::new(body))?;
        let content_type = HeaderValue::from_static("application/json");
        request.headers_mut().insert("content-type", content_type);
        for (name, value) in headers {
            let name = HeaderName::try_from(*name).map_err(|_| HttpError::Request)?;
            let mut value = HeaderValue::try_from(*value).map_err(|_| HttpError::Request)?;
            value.set_sensitive(true);
            request.headers_mut().insert(name, value);
        }
        self.call(request, limits).await
    }

    /// Gets an endpoint in the form `accept` (`application/nostr+json`).
    ///
    /// # Errors
    /// See [`HttpError`].
    pub async fn get(
        &self,
        endpoint: &str,
        accept: &str,
        limits: Limits,
    ) -> Result<HttpAnswer, HttpError> {
        let mut request = self.request(Method::GET, endpoint, Full::default())?;
        let accept = HeaderValue::try_from(accept).map_err(|_| HttpError::Request)?;
        request.headers_mut().insert("accept", accept);
        self.call(request, limits).await
    }

    fn request(
        &self,
        method: Method,
        endpoint: &str,
        body: Full<Bytes>,
    ) -> Result<Request<Full<Bytes>>, HttpError> {
        Request::builder()
            .method(method)
            .uri(self.url.http_target(endpoint))
            .header("host", self.url.authority())
            // Without it a server may choose any coding, and none is decoded here.
            .header("accept-encoding", "identity")
            .body(body)
            .map_err(|_| HttpError::Request)
    }

    async fn call(
        &self,
        request: Request<Full<Bytes>>,
        limits: Limits,
    ) -> Result<HttpAnswer, HttpError> {
        within::<R, _>(limits.time_max, self.exchange(request, limits))
            .await
            .unwrap_or(Err(HttpError::TimedOut))
    }

    /// Uses an idle connection if one takes the request, else a fresh one. An idle connection may
    /// turn out to be closed: the request moves on only when it comes back untouched, that is
    /// before its first byte was written. Lost later, it may have been carried out.
    async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
        limits: Limits,
    ) -> Result<HttpAnswer, HttpError> {
        while let Some(mut sender) = self.take_idle() {
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return self.receive(sender, response, limits).await,
                Err(mut error) => match error.take_message() {
                    Some(untouched) => request = untouched,
                    None => return Err(HttpError::Broke(error.into_error().to_string())),
                },
            }
        }
        let mut sender = self.open().await?;
        let response = sender.send_request(request).await.map_err(broke)?;
        self.receive(sender, response, limits).await
    }

    async fn open(&self) -> Result<Sender, HttpError> {
        let stream = open::<R>(&self.url, &self.tls)
            .await
            .map_err(HttpError::Connect)?;
        let (sender, connection) = Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(HyperStream(stream))
            .await
            .map_err(broke)?;
        R::spawn(async move {
            // Its error is also that of the request, and nobody misses an idle connection.
            drop(connection.await);
        });
        Ok(sender)
    }

    /// Reads the body, and keeps the connection if the answer was read to its end.
    async fn receive(
        &self,
        mut sender: Sender,
        response: hyper::Response<Incoming>,
        limits: Limits,
    ) -> Result<HttpAnswer, HttpError> {
        let (head, body) = response.into_parts();
        let body = read_body(body, limits.body_bytes_max).await?;
        if let Some(Ok(())) = within::<R, _>(READY_TIME_MAX, sender.ready()).await {
            self.keep_idle(sender, idle_time(&head.headers));
        }
        let retry_after = head.headers.get(RETRY_AFTER);
        Ok(HttpAnswer {
            status: head.status.as_u16(),
            retry_after: retry_after.map(|value| Bytes::copy_from_slice(value.as_bytes())),
            date: date_of(&head.headers),
            body,
        })
    }

    /// The connection used last: it is the least likely to have been closed meanwhile.
    fn take_idle(&self) -> Option<Sender> {
        let now = self.clock.now();
        let mut idle = self.idle.lock().ok()?;
        idle.retain(|it| !it.sender.is_closed() && now < it.until);
        idle.pop().map(|it| it.sender)
    }

    fn keep_idle(&self, sender: Sender, span: Duration) {
        let until = self.clock.now().after(span);
        let Ok(mut idle) = self.idle.lock() else {
            return;
        };
        if idle.len() < IDLE_MAX {
            idle.push(Idle { sender, until });
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum HttpError {
    /// Endpoint or headers cannot be sent; nothing was.
    Request,
    /// No connection; nothing was sent.
    Connect(DialError),
    /// The limit of time passed. The request may have been carried out.
    TimedOut,
    /// The body is larger than the limit, in bytes. The request was carried out.
    TooLarge(usize),
    /// The connection broke. The request may have been carried out.
    Broke(String),
}

impl HttpError {
    /// What the machine is told.
    #[must_use]
    pub const fn cause(&self) -> BrokeCause {
        match self {
            Self::Request | Self::Connect(_) => BrokeCause::Connect,
            Self::TimedOut => BrokeCause::TimedOut,
            Self::TooLarge(_) => BrokeCause::TooLarge,
            Self::Broke(_) => BrokeCause::Connection,
        }
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request => f.write_str("the endpoint or a header cannot be sent"),
            Self::Connect(error) => error.fmt(f),
            Self::TimedOut => f.write_str("the relay did not answer in time"),
            Self::TooLarge(limit) => write!(f, "the relay's answer is larger than {limit} bytes"),
            Self::Broke(detail) => write!(f, "the connection broke during a request: {detail}"),
        }
    }
}

impl std::error::Error for HttpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect(error) => Some(error),
            Self::Request | Self::TimedOut | Self::TooLarge(_) | Self::Broke(_) => None,
        }
    }
}

/// The header `Date`, if it can be read.
pub(crate) fn date_of(headers: &HeaderMap) -> Option<UnixTime> {
    parse_http_date(headers.get(DATE)?.as_bytes(), Clock::wall())
}

/// How long a connection may be idle after an answer with these headers. `Keep-Alive: timeout=5`
/// is what a server says that gives it up after so many seconds (RFC 2068 section 19.7.1.1).
fn idle_time(headers: &HeaderMap) -> Duration {
    let announced = headers.get(KEEP_ALIVE).and_then(|value| {
        let mut parameters = value.to_str().ok()?.split(',');
        parameters.find_map(|it| it.trim().strip_prefix("timeout=")?.parse().ok())
    });
    announced.map_or(IDLE_TIME_MAX, |seconds| {
        let span = Duration::from_secs(seconds);
        span.saturating_sub(IDLE_MARGIN).min(IDLE_TIME_MAX)
    })
}

async fn read_body(mut body: Incoming, bytes_max: usize) -> Result<Bytes, HttpError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > bytes_max {
        return Err(HttpError::TooLarge(bytes_max));
    }
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // Trailers say nothing to us.
        let Ok(part) = frame.map_err(broke)?.into_data() else {
            continue;
        };
        if part.len() > bytes_max - bytes.len() {
            return Err(HttpError::TooLarge(bytes_max));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes.freeze())
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn broke(error: hyper::Error) -> HttpError {
    HttpError::Broke(error.to_string())
}

/// A stream of futures-io behind the traits of hyper.
struct HyperStream<S>(S);

impl<S: AsyncRead + Unpin> Read for HyperStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut space: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut part = [0; 8 << 10];
        let length = part.len().min(space.remaining());
        let part = &mut part[..length];
        let read = ready!(Pin::new(&mut self.0).poll_read(cx, part))?;
        space.put_slice(&part[..read]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Write for HyperStream<S> {
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

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}
