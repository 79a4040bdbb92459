//! HTTP requests with NIP-98 proofs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap};
use hyper::{Method, Request};
use serde_json::Value;
use tokio::net::TcpStream;

use super::{ClientError, authority, tag, unix_now};
use crate::io_wrapper::Io;
use crate::keys::{Keys, hex, random_bytes, sha256};
use crate::rules::event::Event;

/// An HTTP answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// All headers.
    pub headers: HeaderMap,
    /// The body as text.
    pub body: String,
}

impl Reply {
    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// Publishes by `POST /events`. `base` is the relay's HTTP URL without a trailing slash.
///
/// # Errors
/// When the exchange fails; an error status is a [`Reply`].
pub async fn publish(base: &str, keys: &Keys, event: &Event) -> Result<Reply, ClientError> {
    post(base, "/events", Some(keys), event.to_json()).await
}

/// Reads by `POST /query`. `filters` is a JSON list.
///
/// # Errors
/// When the exchange fails; an error status is a [`Reply`].
pub async fn query(base: &str, keys: &Keys, filters: &Value) -> Result<Reply, ClientError> {
    post(base, "/query", Some(keys), filters.to_string()).await
}

/// Posts a body, with a fresh NIP-98 proof when there are keys.
///
/// # Errors
/// When the exchange fails; an error status is a [`Reply`].
pub async fn post(
    base: &str,
    path: &str,
    keys: Option<&Keys>,
    body: String,
) -> Result<Reply, ClientError> {
    let proof = keys.map(|keys| authorization(keys, "POST", &format!("{base}{path}"), &body));
    let headers: Vec<_> = proof
        .iter()
        .map(|proof| (AUTHORIZATION.as_str(), proof.as_str()))
        .collect();
    request(Method::POST, base, path, &headers, body).await
}

/// Sends one request on a connection of its own.
///
/// # Errors
/// When the exchange fails; an error status is a [`Reply`].
pub async fn request(
    method: Method,
    base: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: String,
) -> Result<Reply, ClientError> {
    let authority = authority(base)?;
    let stream = TcpStream::connect(authority)
        .await
        .map_err(ClientError::Io)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(Io(stream))
        .await
        .map_err(ClientError::Http)?;
    let mut request = Request::new(Full::new(Bytes::from(body)));
    *request.method_mut() = method;
    *request.uri_mut() = path
        .parse()
        .map_err(|_| ClientError::Url(path.to_owned()))?;
    let header_map = request.headers_mut();
    let fixed = [
        (HOST.as_str(), authority),
        (CONTENT_TYPE.as_str(), "application/json"),
    ];
    for (name, value) in fixed.iter().chain(headers) {
        let name = hyper::header::HeaderName::try_from(*name);
        let value = hyper::header::HeaderValue::try_from(*value);
        if let (Ok(name), Ok(value)) = (name, value) {
            header_map.insert(name, value);
        }
    }
    let exchange = async {
        let response = sender.send_request(request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Reply {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    };
    // The connection is driven only as long as the exchange needs it.
    tokio::pin!(exchange, connection);
    tokio::select! {
        reply = &mut exchange => reply.map_err(ClientError::Http),
        ended = &mut connection => {
            ended.map_err(ClientError::Http)?;
            exchange.await.map_err(ClientError::Http)
        }
    }
}

/// The value of the `Authorization` header (NIP-98), with a random nonce.
#[must_use]
pub fn authorization(keys: &Keys, method: &str, url: &str, body: &str) -> String {
    let tags = vec![
        tag("u", url),
        tag("method", method),
        tag("payload", &hex(&sha256(body.as_bytes()))),
        tag("nonce", &hex(&random_bytes::<16>())),
    ];
    let event = keys.sign_event(27_235, tags, "", unix_now());
    format!("Nostr {}", STANDARD.encode(event.to_json()))
}
