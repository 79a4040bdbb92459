//! A conversation with a relay over its socket, one question at a time.

use std::time::Duration;

use buzz_adapters::runtime::Runtime;
use buzz_adapters::tokio::Tokio;
use buzz_adapters::ws::{Socket, SocketEvent};
use buzz_proto::ids::{EventId, WriteId};
use buzz_proto::wire::{self, Event, FRAME_BYTES_MAX, Filter, Reason, RelayFrame, SubName};
use bytes::Bytes;
use tokio::time::timeout;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// It took longer than this.
    Silent(Duration),
    /// The connection ended.
    Closed(String),
}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Silent(limit) => write!(f, "no answer within {} s", limit.as_secs()),
            Self::Closed(detail) => write!(f, "the relay closed the connection{detail}"),
        }
    }
}

/// What a request for stored events brought.
pub(super) type Stored = Result<Vec<Event>, Reason>;

pub(super) struct Line {
    socket: Socket<<Tokio as Runtime>::Stream>,
    requests: u64,
    writes: WriteId,
}

impl Line {
    pub(super) fn new(socket: Socket<<Tokio as Runtime>::Stream>) -> Self {
        Self {
            socket,
            requests: 0,
            writes: WriteId(1),
        }
    }

    pub(super) fn send(&mut self, frame: Bytes) {
        self.socket.queue(self.writes, frame);
        self.writes = WriteId(self.writes.0.saturating_add(1));
    }

    /// The first frame that is wanted; others are passed over.
    async fn wait<T>(
        &mut self,
        limit: Duration,
        mut wanted: impl FnMut(RelayFrame) -> Option<T>,
    ) -> Result<T, NoAnswer> {
        let heard = async {
            loop {
                match self.socket.next().await {
                    Some(SocketEvent::Text(text)) => {
                        if let Ok(frame) = wire::decode(&text, FRAME_BYTES_MAX)
                            && let Some(found) = wanted(frame)
                        {
                            return Ok(found);
                        }
                    }
                    Some(SocketEvent::Closed { code, detail }) => {
                        let code = code
                            .map(|code| format!(" (code {code})"))
                            .unwrap_or_default();
                        let detail = Some(detail).filter(|detail| !detail.is_empty());
                        let detail = detail
                            .map(|detail| format!(": {detail}"))
                            .unwrap_or_default();
                        return Err(NoAnswer::Closed(format!("{code}{detail}")));
                    }
                    Some(
                        SocketEvent::Ignored
                        | SocketEvent::Pinged
                        | SocketEvent::Pong
                        | SocketEvent::Written(_)
                        | SocketEvent::WriteFailed { .. },
                    ) => {}
                    None => return Err(NoAnswer::Closed(String::new())),
                }
            }
        };
        timeout(limit, heard)
            .await
            .unwrap_or(Err(NoAnswer::Silent(limit)))
    }

    /// The challenge to log in, if one comes.
    pub(super) async fn challenge(&mut self, limit: Duration) -> Result<String, NoAnswer> {
        self.wait(limit, |frame| {
            let RelayFrame::Auth { challenge } = frame else {
                return None;
            };
            Some(challenge.to_string())
        })
        .await
    }

    /// Whether the relay takes an event, and its words.
    pub(super) async fn receipt(
        &mut self,
        of: EventId,
        limit: Duration,
    ) -> Result<(bool, Reason), NoAnswer> {
        self.wait(limit, |frame| {
            let RelayFrame::Ok {
                event,
                accepted,
                reason,
            } = frame
            else {
                return None;
            };
            (event == Some(of)).then_some((accepted, reason))
        })
        .await
    }

    /// What the relay stores, up to the end that it tells, or its refusal.
    pub(super) async fn stored(
        &mut self,
        filter: &Filter,
        limit: Duration,
    ) -> Result<Stored, NoAnswer> {
        self.requests = self.requests.saturating_add(1);
        let name = SubName::Page { n: self.requests };
        self.send(wire::req(&name, filter));
        let mut events = Vec::new();
        let answer = self.wait(limit, |frame| match frame {
            RelayFrame::Event { sub, event } => {
                if sub == name && filter.matches(&event) {
                    events.push(event);
                }
                None
            }
            RelayFrame::Eose { sub } => (sub == name).then(|| Ok(std::mem::take(&mut events))),
            RelayFrame::Closed { sub, reason } => (sub == name).then_some(Err(reason)),
            RelayFrame::Ok { .. }
            | RelayFrame::Notice { .. }
            | RelayFrame::Auth { .. }
            | RelayFrame::Count { .. }
            | RelayFrame::SyncRequired { .. }
            | RelayFrame::Unknown { .. } => None,
        });
        let answer = answer.await?;
        self.send(wire::close(&name));
        Ok(answer)
    }
}
