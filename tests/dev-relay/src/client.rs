//! A small client, for test suites and for the crowd of a demonstration.
//!
//! It connects by NIP-42, publishes, subscribes and hands out frames one by one. It neither
//! reconnects nor retries, and it answers pings only while it is being read.

use core::fmt;
use std::collections::VecDeque;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use async_tungstenite::WebSocketStream;
use async_tungstenite::tungstenite::{self, Message};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::net::TcpStream;

pub mod http;

use crate::io_wrapper::Io;
use crate::keys::Keys;
use crate::rules::event::Event;

/// A connection to a relay, `ws://` only.
#[derive(Debug)]
pub struct Client {
    socket: WebSocketStream<Io<Io<TcpStream>>>,
    waiting: VecDeque<Frame>,
}

impl Client {
    /// Connects and authenticates.
    ///
    /// # Errors
    /// When the connection fails, or when the relay refuses the key.
    pub async fn connect(url: &str, keys: &Keys) -> Result<Self, ClientError> {
        Self::connect_attested(url, keys, None).await
    }

    /// Connects and authenticates with an owner attestation (NIP-OA, see [`Keys::attest`]).
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn connect_attested(
        url: &str,
        keys: &Keys,
        attestation: Option<Vec<String>>,
    ) -> Result<Self, ClientError> {
        let mut client = Self::open(url).await?;
        let receipt = client.authenticate(url, keys, attestation).await?;
        if receipt.accepted {
            return Ok(client);
        }
        Err(ClientError::Refused(receipt.message))
    }

    /// Connects without waiting for a challenge.
    ///
    /// # Errors
    /// When the connection fails or the upgrade is refused.
    pub async fn open(url: &str) -> Result<Self, ClientError> {
        let stream = TcpStream::connect(authority(url)?)
            .await
            .map_err(ClientError::Io)?;
        stream.set_nodelay(true).map_err(ClientError::Io)?;
        let (socket, _) = async_tungstenite::client_async(url, Io(Io(stream))).await?;
        Ok(Self {
            socket,
            waiting: VecDeque::new(),
        })
    }

    /// Waits for the challenge and answers it. The receipt may be a refusal.
    ///
    /// # Errors
    /// When the connection ends.
    pub async fn authenticate(
        &mut self,
        url: &str,
        keys: &Keys,
        attestation: Option<Vec<String>>,
    ) -> Result<Receipt, ClientError> {
        let challenge = loop {
            if let Frame::Auth(challenge) = self.read().await? {
                break challenge;
            }
        };
        let mut tags = vec![tag("relay", url), tag("challenge", &challenge)];
        tags.extend(attestation);
        let event = keys.sign_event(22_242, tags, "", unix_now());
        self.send_json(&json!(["AUTH", event])).await?;
        self.receipt(&event.id).await
    }

    /// Publishes and waits for the OK. Other frames are kept for [`Client::next`].
    ///
    /// # Errors
    /// When the connection ends.
    pub async fn publish(&mut self, event: &Event) -> Result<Receipt, ClientError> {
        self.send_json(&json!(["EVENT", event])).await?;
        self.receipt(&event.id).await
    }

    /// Sends a REQ with one filter, or with several when `filter` is a list.
    ///
    /// # Errors
    /// When the connection ends.
    pub async fn subscribe(&mut self, id: &str, filter: Value) -> Result<(), ClientError> {
        let mut frame = vec![json!("REQ"), json!(id)];
        if let Value::Array(filters) = filter {
            frame.extend(filters);
        } else {
            frame.push(filter);
        }
        self.send_json(&Value::Array(frame)).await
    }

    /// Sends a CLOSE.
    ///
    /// # Errors
    /// When the connection ends.
    pub async fn unsubscribe(&mut self, id: &str) -> Result<(), ClientError> {
        self.send_json(&json!(["CLOSE", id])).await
    }

    /// Subscribes and collects the stored events up to EOSE, ids in the order of delivery.
    ///
    /// # Errors
    /// When the connection ends or the subscription is refused.
    pub async fn history(&mut self, id: &str, filter: Value) -> Result<Vec<Event>, ClientError> {
        self.subscribe(id, filter).await?;
        let mut events = Vec::new();
        loop {
            let frame = self.read().await?;
            if frame.answers_to() != Some(id) {
                self.waiting.push_back(frame);
            } else if let Frame::Event { event, .. } = frame {
                events.push(*event);
            } else if let Frame::Closed { reason, .. } = frame {
                return Err(ClientError::Refused(reason));
            } else {
                return Ok(events);
            }
        }
    }

    /// The next frame.
    ///
    /// # Errors
    /// When the connection ends.
    pub async fn next(&mut self) -> Result<Frame, ClientError> {
        match self.waiting.pop_front() {
            Some(frame) => Ok(frame),
            None => self.read().await,
        }
    }

    /// Sends a text frame as it is.
    ///
    /// # Errors
    /// When the connection ends.
    pub async fn send_text(&mut self, text: &str) -> Result<(), ClientError> {
        Ok(self.socket.send(Message::text(text)).await?)
    }

    /// Sends a JSON value as a text frame.
    ///
    /// # Errors
    /// When the connection ends.
    pub async fn send_json(&mut self, frame: &Value) -> Result<(), ClientError> {
        self.send_text(&frame.to_string()).await
    }

    /// Closes with a close frame and waits for the end.
    pub async fn close(mut self) {
        if self.socket.close(None).await.is_ok() {
            while self.read().await.is_ok() {}
        }
    }

    /// The next message as tungstenite sees it, for tests that look at pings and close codes.
    ///
    /// # Errors
    /// When the connection ends.
    pub async fn next_message(&mut self) -> Result<Message, ClientError> {
        match self.socket.next().await {
            Some(message) => Ok(message?),
            None => Err(ClientError::Ended {
                code: None,
                reason: String::new(),
            }),
        }
    }

    async fn receipt(&mut self, id: &str) -> Result<Receipt, ClientError> {
        loop {
            let frame = self.read().await?;
            if let Frame::Ok(receipt) = &frame
                && receipt.id == id
            {
                return Ok(receipt.clone());
            }
            self.waiting.push_back(frame);
        }
    }

    async fn read(&mut self) -> Result<Frame, ClientError> {
        loop {
            match self.next_message().await? {
                Message::Text(text) => return Ok(Frame::parse(text.as_str())),
                Message::Close(Some(frame)) => {
                    return Err(ClientError::Ended {
                        code: Some(frame.code.into()),
                        reason: frame.reason.to_string(),
                    });
                }
                Message::Close(None) => {
                    return Err(ClientError::Ended {
                        code: Some(1005),
                        reason: String::new(),
                    });
                }
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }
}

/// A frame from a relay.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// A challenge.
    Auth(String),
    /// An event, stored or live.
    Event {
        /// Subscription id.
        subscription: String,
        /// The event.
        event: Box<Event>,
    },
    /// The answer to an EVENT or AUTH.
    Ok(Receipt),
    /// The end of the stored events of a subscription.
    Eose(String),
    /// The end of a subscription, or the refusal of one.
    Closed {
        /// Subscription id.
        subscription: String,
        /// Empty for the answer to a CLOSE.
        reason: String,
    },
    /// A text for people.
    Notice(String),
    /// The answer to a COUNT.
    Count {
        /// Query id.
        query: String,
        /// Matches.
        count: u64,
    },
    /// Anything else, valid JSON or not.
    Other(String),
}

impl Frame {
    /// Reads a frame; what cannot be understood is [`Frame::Other`].
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self::parse_known(text).unwrap_or_else(|| Self::Other(text.to_owned()))
    }

    /// The subscription a frame belongs to.
    #[must_use]
    pub fn answers_to(&self) -> Option<&str> {
        match self {
            Self::Event { subscription, .. }
            | Self::Eose(subscription)
            | Self::Closed { subscription, .. } => Some(subscription),
            Self::Auth(_) | Self::Ok(_) | Self::Notice(_) | Self::Count { .. } | Self::Other(_) => {
                None
            }
        }
    }

    fn parse_known(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let string = |at: usize| value[at].as_str().map(str::to_owned);
        Some(match value[0].as_str()? {
            "AUTH" => Self::Auth(string(1)?),
            "EVENT" => Self::Event {
                subscription: string(1)?,
                event: serde_json::from_value(value[2].clone()).ok()?,
            },
            "OK" => Self::Ok(Receipt {
                id: string(1)?,
                accepted: value[2].as_bool()?,
                message: string(3)?,
            }),
            "EOSE" => Self::Eose(string(1)?),
            "CLOSED" => Self::Closed {
                subscription: string(1)?,
                reason: string(2)?,
            },
            "NOTICE" => Self::Notice(string(1)?),
            "COUNT" => Self::Count {
                query: string(1)?,
                count: value[2]["count"].as_u64()?,
            },
            _ => return None,
        })
    }
}

/// An OK frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Event id.
    pub id: String,
    /// Whether the relay took it, or had it already.
    pub accepted: bool,
    /// Empty, or a prefix and a text (NIP-01).
    pub message: String,
}

/// Why a call did not succeed.
#[derive(Debug)]
pub enum ClientError {
    /// The URL is not `ws://` or `http://` with a host and a port.
    Url(String),
    /// The connection could not be made.
    Io(io::Error),
    /// The WebSocket broke, or the upgrade was refused.
    Socket(Box<tungstenite::Error>),
    /// The HTTP exchange broke.
    Http(hyper::Error),
    /// The connection was closed by the relay.
    Ended {
        /// Close code; 1005 when the close frame had none, `None` without a close frame.
        code: Option<u16>,
        /// Close reason.
        reason: String,
    },
    /// The relay said no, in these words.
    Refused(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => write!(f, "{url} is no ws:// or http:// URL with host and port"),
            Self::Io(error) => write!(f, "cannot connect: {error}"),
            Self::Socket(error) => write!(f, "the WebSocket failed: {error}"),
            Self::Http(error) => write!(f, "the HTTP exchange failed: {error}"),
            Self::Ended { code, reason } => {
                write!(
                    f,
                    "the relay closed the connection: code {code:?}, reason {reason:?}"
                )
            }
            Self::Refused(text) => write!(f, "the relay refused: {text}"),
        }
    }
}

impl core::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Socket(error) => Some(error),
            Self::Http(error) => Some(error),
            Self::Url(_) | Self::Ended { .. } | Self::Refused(_) => None,
        }
    }
}

impl From<tungstenite::Error> for ClientError {
    fn from(error: tungstenite::Error) -> Self {
        Self::Socket(Box::new(error))
    }
}

/// A tag with one value.
#[must_use]
pub fn tag(name: &str, value: &str) -> Vec<String> {
    vec![name.to_owned(), value.to_owned()]
}

/// The wall clock, Unix time in seconds.
#[must_use]
pub fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Host and port of a URL.
fn authority(url: &str) -> Result<&str, ClientError> {
    let rest = url
        .strip_prefix("ws://")
        .or_else(|| url.strip_prefix("http://"));
    rest.and_then(|rest| rest.split('/').next())
        .filter(|authority| authority.contains(':'))
        .ok_or_else(|| ClientError::Url(url.to_owned()))
}
