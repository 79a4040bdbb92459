//! An HTTP proxy on the way to the relay: which one, from the usual variables of the environment,
//! and the tunnel through it (CONNECT, RFC 9110 section 9.3.6).

use std::fmt;
use std::io;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::{AsyncReadExt as _, AsyncWriteExt as _};
use hyper::Uri;
use zeroize::Zeroize as _;

use crate::url::RelayUrl;

/// The head of a proxy's answer is a few hundred bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Headers of that answer.
const HEADERS_MAX: usize = 64;

/// A proxy. Printed without user name and password.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Proxy {
    host: String,
    port: u16,
    credentials: Option<Secret>,
}

/// User name and password as HTTP sends them, wiped when dropped.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Secret(String);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Proxy {
    /// Reads `http://[user:password@]host[:port]`; the port is 80 where none is named. Special
    /// characters of user name and password are written as `%` with two digits.
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub fn parse(text: &str) -> Result<Self, ProxyError> {
        let (scheme, rest) = text
            .trim()
            .split_once("://")
            .unwrap_or_else(|| ("http", text.trim()));
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(ProxyError::Scheme);
        }
        let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, address) = match rest.rsplit_once('@') {
            Some((user, address)) => (Some(user), address),
            None => (None, rest),
        };
        let uri: Uri = address.parse().map_err(|_| ProxyError::Malformed)?;
        let authority = uri.authority().ok_or(ProxyError::Malformed)?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(ProxyError::Malformed);
        }
        let credentials = user.map(|user| {
            let mut plain = decoded(user).ok_or(ProxyError::Malformed)?;
            let secret = Secret(STANDARD.encode(&plain));
            plain.zeroize();
            Ok(secret)
        });
        Ok(Self {
            host,
            port: authority.port_u16().unwrap_or(80),
            credentials: credentials.transpose()?,
        })
    }

    /// The proxy that the environment names for a relay, if it names one: `HTTPS_PROXY` for `wss`,
    /// `http_proxy` for `ws` (in lower case only, because the other one can be set by callers of a
    /// CGI program), and `ALL_PROXY` for both; not for hosts of `NO_PROXY`, nor for this machine.
    /// `variable` looks a name up; each is asked for in lower case, too.
    ///
    /// # Errors
    /// A variable names no usable proxy.
    pub fn for_relay(
        url: &RelayUrl,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, ProxyError> {
        let named = |names: &[&str]| {
            let mut values = names.iter().filter_map(|name| variable(name));
            values.find(|value| !value.trim().is_empty())
        };
        let excepted = named(&["no_proxy", "NO_PROXY"]).unwrap_or_default();
        if is_this_machine(url.host()) || is_excepted(url, &excepted) {
            return Ok(None);
        }
        let own: &[&str] = if url.is_secure() {
            &["https_proxy", "HTTPS_PROXY"]
        } else {
            &["http_proxy"]
        };
        let text = named(own).or_else(|| named(&["all_proxy", "ALL_PROXY"]));
        text.map(|text| Self::parse(&text)).transpose()
    }

    /// Its host, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Asks it to carry `stream` on to the relay.
    pub(crate) async fn tunnel<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        url: &RelayUrl,
    ) -> Result<(), TunnelError> {
        let address = url.address();
        let mut request = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n");
        if let Some(Secret(credentials)) = &self.credentials {
            request.push_str("Proxy-Authorization: Basic ");
            request.push_str(credentials);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        let written = stream.write_all(request.as_bytes()).await;
        request.zeroize();
        written.map_err(TunnelError::Io)?;
        stream.flush().await.map_err(TunnelError::Io)?;
        match status_of(stream).await? {
            200..300 => Ok(()),
            status => Err(TunnelError::Status(status)),
        }
    }
}

/// Reads the head of the answer. The relay speaks only when spoken to, so nothing follows it yet.
async fn status_of<S: AsyncRead + Unpin>(stream: &mut S) -> Result<u16, TunnelError> {
    let (mut head, mut chunk) = (Vec::new(), [0; 1024]);
    loop {
        let length = stream.read(&mut chunk).await.map_err(TunnelError::Io)?;
        if length == 0 || head.len() > HEAD_BYTES_MAX {
            return Err(TunnelError::Nonsense);
        }
        head.extend_from_slice(&chunk[..length]);
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut answer = httparse::Response::new(&mut headers);
        match answer.parse(&head) {
            Ok(httparse::Status::Complete(_)) => return answer.code.ok_or(TunnelError::Nonsense),
            Ok(httparse::Status::Partial) => {}
            Err(_) => return Err(TunnelError::Nonsense),
        }
    }
}

fn is_this_machine(host: &str) -> bool {
    let address = host
        .parse()
        .is_ok_and(|address: IpAddr| address.is_loopback());
    address || host == "localhost" || host.ends_with(".localhost")
}

/// Whether a list of names, each for itself and all below it, and addresses holds a relay.
fn is_excepted(url: &RelayUrl, list: &str) -> bool {
    list.split(',').map(str::trim).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        let (name, port) = match entry.rsplit_once(':') {
            Some((name, port)) if !name.contains(':') => (name, port.parse::<u16>().ok()),
            Some(_) | None => (entry.as_str(), None),
        };
        let name = name.trim_matches(['[', ']']).trim_start_matches('.');
        let is_below = || {
            let rest = url.host().strip_suffix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let is_port = port.is_none_or(|port| port == url.port());
        !name.is_empty() && is_port && (name == "*" || is_below())
    })
}

/// `%41` is `A`.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, more)) = rest.split_first() {
        rest = more;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, more) = rest.split_at_checked(2)?;
        let digits = str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = more;
    }
    Some(bytes)
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that names no proxy. The text itself is left out, since it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyError {
    /// A proxy that is not spoken to in plain HTTP.
    Scheme,
    /// No host, or a form that no address has.
    Malformed,
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme => {
                "only HTTP proxies can be used: write http://host:port, or except the relay's \
                 host in NO_PROXY"
            }
            Self::Malformed => "a proxy is written as http://user:password@host:port",
        })
    }
}

impl std::error::Error for ProxyError {}

/// Why there is no tunnel through the proxy.
#[derive(Debug)]
#[non_exhaustive]
pub enum TunnelError {
    /// The proxy cannot be reached.
    Unreachable(io::Error),
    /// The connection to it broke.
    Io(io::Error),
    /// It does not carry on to the relay.
    Status(u16),
    /// What answered is no HTTP proxy.
    Nonsense,
}

impl fmt::Display for TunnelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => write!(f, "the proxy cannot be reached: {error}"),
            Self::Io(error) => write!(f, "the connection to the proxy broke: {error}"),
            Self::Status(407) => f.write_str(
                "the proxy wants a user name and password (407): write \
                 http://user:password@host:port",
            ),
            Self::Status(status) => write!(
                f,
                "the proxy does not carry on to the relay: HTTP status {status}"
            ),
            Self::Nonsense => f.write_str("what answers at the proxy's address is no HTTP proxy"),
        }
    }
}

impl std::error::Error for TunnelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable(error) | Self::Io(error) => Some(error),
            Self::Status(_) | Self::Nonsense => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A relay, the variables that are set, and the proxy that is named by them.
    type Row = (
        &'static str,
        &'static [(&'static str, &'static str)],
        Option<&'static str>,
    );

    fn chosen(relay: &str, variables: &[(&str, &str)]) -> Result<Option<String>, ProxyError> {
        let url = RelayUrl::parse(relay).map_err(|_| ProxyError::Malformed)?;
        let variable = |wanted: &str| {
            let mut all = variables.iter();
            let found = all.find(|(name, _)| *name == wanted);
            found.map(|(_, value)| (*value).to_owned())
        };
        let proxy = Proxy::for_relay(&url, variable)?;
        Ok(proxy.map(|proxy| proxy.to_string()))
    }

    #[test]
    fn the_environment_names_the_proxy_and_the_relays_without_one() {
        const OWN: (&str, &str) = ("HTTPS_PROXY", "http://own:3128");
        const ALL: (&str, &str) = ("ALL_PROXY", "all:8080");
        let table: [Row; 15] = [
            ("wss://relay.example", &[OWN, ALL], Some("own:3128")),
            ("wss://relay.example", &[ALL], Some("all:8080")),
            (
                "wss://relay.example",
                &[("https_proxy", "low"), OWN],
                Some("low:80"),
            ),
            (
                "wss://relay.example",
                &[("HTTPS_PROXY", " "), ALL],
                Some("all:8080"),
            ),
            ("wss://relay.example", &[], None),
            (
                "ws://relay.example",
                &[("http_proxy", "plain:1")],
                Some("plain:1"),
            ),
            ("ws://relay.example", &[("HTTP_PROXY", "plain:1")], None),
            ("ws://relay.example", &[OWN], None),
            ("wss://localhost", &[OWN], None),
            ("ws://127.0.0.7:3000", &[ALL], None),
            ("ws://[::1]:3000", &[ALL], None),
            (
                "wss://a.relay.example",
                &[OWN, ("NO_PROXY", "x, .relay.example")],
                None,
            ),
            (
                "wss://relay.example",
                &[OWN, ("no_proxy", "relay.example:444")],
                Some("own:3128"),
            ),
            (
                "wss://norelay.example",
                &[OWN, ("NO_PROXY", "relay.example")],
                Some("own:3128"),
            ),
            ("wss://relay.example", &[OWN, ("NO_PROXY", "*")], None),
        ];
        for (relay, variables, expected) in table {
            let expected = Ok(expected.map(str::to_owned));
            assert_eq!(chosen(relay, variables), expected, "{relay} {variables:?}");
        }
    }

    #[test]
    fn what_names_no_usable_proxy_is_an_error_without_its_text() {
        let named = |text| chosen("wss://relay.example", &[("HTTPS_PROXY", text)]);
        assert_eq!(named("socks5://user:hush@host:1"), Err(ProxyError::Scheme));
        assert_eq!(named("http://user:hush@"), Err(ProxyError::Malformed));
        assert_eq!(named("http://user:%zz@host"), Err(ProxyError::Malformed));
    }

    #[test]
    fn a_password_is_decoded_and_never_printed() {
        let proxy = Proxy::parse("http://me:a%40b%3a@[fd00::1]:3128/").expect("a proxy");
        let Some(Secret(secret)) = &proxy.credentials else {
            panic!("no credentials");
        };
        assert_eq!(STANDARD.decode(secret).as_deref(), Ok(&b"me:a@b:"[..]));
        assert_eq!(format!("{proxy:?}"), "fd00::1:3128");
    }
}
