//! HTTP: from hyper's requests to the rules and back.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, AUTHORIZATION, DATE, HOST, HeaderMap, HeaderName, HeaderValue, UPGRADE,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::{TcpListener, TcpStream};

use crate::faults::CannedReply;
use crate::io_wrapper::Io;
use crate::rules::http::{BODY_BYTES_MAX, HttpRequest};
use crate::serve::upgrade;
use crate::shared::Shared;

/// Pause after a failed accept, which usually means that file descriptors are used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Accepts connections until the task is aborted.
pub(crate) async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Frames are small and each is awaited by somebody.
                let _ = stream.set_nodelay(true);
                let server = Arc::clone(&shared);
                shared.spawn(serve(server, stream));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// An answer as hyper sends it. Headers that are no valid headers are left out.
pub(crate) fn plain_response(reply: &CannedReply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(reply.body.clone()));
    *response.status_mut() =
        StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in &reply.headers {
        if let (Ok(name), Ok(value)) = (
            HeaderName::try_from(name.as_str()),
            HeaderValue::try_from(value.as_str()),
        ) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    let service = service_fn(|request| respond(Arc::clone(&shared), request));
    // A peer that breaks off or talks nonsense is its own affair.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(Io(stream), service)
        .with_upgrades()
        .await;
}

async fn respond(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let host = header(request.headers(), &HOST).unwrap_or_default();
    let accept = header(request.headers(), &ACCEPT).unwrap_or_default();
    let wants_upgrade = request.method() == Method::GET
        && request.uri().path() == "/"
        && header(request.headers(), &UPGRADE)
            .is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket"))
        && !accept.contains("application/nostr+json");
    if wants_upgrade {
        return Ok(upgrade(&shared, request, host));
    }
    let _in_flight = InFlight::enter(&shared);
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes().to_vec(),
        Err(error) => return Ok(unread(&*error)),
    };
    let request = HttpRequest {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        host,
        accept,
        authorization: header(&head.headers, &AUTHORIZATION),
        attestation: header(&head.headers, &HeaderName::from_static("x-auth-tag")),
        body,
    };
    let reply = shared.with(|rules, now| rules.http(&request, now));
    while_stalled(&shared, request.claimed_key().as_deref()).await;
    let mut response = plain_response(&reply);
    let skew = shared.with(|rules, _| rules.clock_skew);
    if skew != 0
        && let Ok(date) = HeaderValue::try_from(skewed_date(skew))
    {
        response.headers_mut().insert(DATE, date);
    }
    Ok(response)
}

fn unread(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Response<Full<Bytes>> {
    let status = if error.is::<LengthLimitError>() {
        413
    } else {
        400
    };
    plain_response(&CannedReply {
        status,
        headers: vec![("content-type".to_owned(), "text/plain".to_owned())],
        body: error.to_string(),
    })
}

async fn while_stalled(shared: &Shared, key: Option<&str>) {
    let mut faults = shared.faults_changed();
    while shared.with(|rules, _| rules.faults.stalled.holds_for(key)) {
        if faults.changed().await.is_err() {
            return;
        }
    }
}

fn skewed_date(skew: i64) -> String {
    let away = Duration::from_secs(skew.unsigned_abs());
    let now = SystemTime::now();
    let shown = if skew < 0 {
        now.checked_sub(away)
    } else {
        now.checked_add(away)
    };
    httpdate::fmt_http_date(shown.unwrap_or(now))
}

fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned)
}

/// Counts a call as in flight for as long as it lives.
struct InFlight<'a>(&'a Shared);

impl<'a> InFlight<'a> {
    fn enter(shared: &'a Shared) -> Self {
        shared.with(|rules, _| {
            rules.ledger.note(None, |stats| {
                stats.http_in_flight += 1;
                stats.http_in_flight_max = stats.http_in_flight_max.max(stats.http_in_flight);
            });
        });
        Self(shared)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0
            .with(|rules, _| rules.ledger.note(None, |stats| stats.http_in_flight -= 1));
    }
}
