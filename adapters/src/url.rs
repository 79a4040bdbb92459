//! The address of a relay, and what is derived from it: the WebSocket, the HTTP endpoints next to
//! it, and the texts that are signed.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

use crate::proxy::Proxy;

/// A relay: `ws://` or `wss://`, host, optional port, path and query.
///
/// Printed without path and query, because people put tokens there.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RelayUrl {
    secure: bool,
    /// Lower case, without brackets and without a dot at the end.
    host: String,
    port: u16,
    path: String,
    query: Option<String>,
    proxy: Option<Proxy>,
}

impl RelayUrl {
    /// Reads a URL; `http` and `https` stand for `ws` and `wss`. A fragment is ignored.
    ///
    /// # Errors
    /// See [`UrlError`].
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let (scheme, _) = text.trim().split_once("://").ok_or(UrlError::Scheme)?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "ws" | "http" => false,
            "wss" | "https" => true,
            _ => return Err(UrlError::Scheme),
        };
        let uri: Uri = text.trim().parse().map_err(|_| UrlError::Malformed)?;
        let authority = uri.authority().ok_or(UrlError::Host)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::Credentials);
        }
        let host = authority.host();
        let after_host = authority.as_str().strip_prefix(host);
        let port = match after_host {
            Some("") if secure => 443,
            Some("") => 80,
            _ => authority.port_u16().ok_or(UrlError::Port)?,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        if host.is_empty() {
            return Err(UrlError::Host);
        }
        if port == 0 {
            return Err(UrlError::Port);
        }
        let path = uri.path().to_owned();
        let query = uri.query().map(str::to_owned);
        Ok(Self {
            secure,
            host,
            port,
            path,
            query,
            proxy: None,
        })
    }

    /// The same relay, reached through a proxy or without one.
    #[must_use]
    pub fn through(self, proxy: Option<Proxy>) -> Self {
        Self { proxy, ..self }
    }

    /// The proxy on the way, if there is one.
    #[must_use]
    pub const fn proxy(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }

    /// Host and port, whatever the port is.
    pub(crate) fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Whether the connection uses TLS.
    #[must_use]
    pub const fn is_secure(&self) -> bool {
        self.secure
    }

    /// The host to resolve and to name in TLS, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port to connect to.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as the relay names its communities: ports 80 and 443 are left out. The value
    /// of the `Host` header.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        match self.port {
            80 | 443 => host,
            port => format!("{host}:{port}"),
        }
    }

    /// The URL of the WebSocket, as given.
    #[must_use]
    pub fn websocket(&self) -> String {
        format!("{}{}", self.relay_tag(), self.target(&self.path))
    }

    /// The path and query of an HTTP endpoint: `endpoint` (`/events`) after the path of the relay
    /// and before its query. The empty endpoint is the relay itself, its path as given.
    #[must_use]
    pub fn http_target(&self, endpoint: &str) -> String {
        if endpoint.is_empty() {
            return self.target(&self.path);
        }
        self.target(&format!("{}{endpoint}", self.path.trim_end_matches('/')))
    }

    /// The whole URL of an HTTP endpoint: what a NIP-98 event names as `u`.
    #[must_use]
    pub fn http(&self, endpoint: &str) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!(
            "{scheme}://{}{}",
            self.authority(),
            self.http_target(endpoint)
        )
    }

    /// What an AUTH event (NIP-42) names as `relay`: scheme and host alone, because Buzz relays
    /// refuse a path there.
    #[must_use]
    pub fn relay_tag(&self) -> String {
        let scheme = if self.secure { "wss" } else { "ws" };
        format!("{scheme}://{}", self.authority())
    }

    fn target(&self, path: &str) -> String {
        match &self.query {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        }
    }
}

impl FromStr for RelayUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

impl fmt::Display for RelayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.relay_tag())
    }
}

impl fmt::Debug for RelayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no relay's URL. The text itself is left out, since it may hold a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlError {
    /// Not `ws`, `wss`, `http` or `https`, or none.
    Scheme,
    /// No host.
    Host,
    /// Not a port from 1 to 65535.
    Port,
    /// A user name or password, which no relay asks for.
    Credentials,
    /// A character that no URL has; names with other letters are written in Punycode.
    Malformed,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme => "the relay URL must begin with ws:// or wss://",
            Self::Host => "the relay URL names no host",
            Self::Port => "the port of the relay URL must be a number from 1 to 65535",
            Self::Credentials => "the relay URL must not hold a user name or password",
            Self::Malformed => "the relay URL has a character or a form that no URL can have",
        })
    }
}

impl std::error::Error for UrlError {}
