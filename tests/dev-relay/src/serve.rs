//! Sockets: the upgrade and the life of one WebSocket connection.

use std::sync::Arc;
use std::time::Duration;

use async_tungstenite::tungstenite::handshake::derive_accept_key;
use async_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use async_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use async_tungstenite::tungstenite::{Error, Message};
use async_tungstenite::{WebSocketReceiver, WebSocketSender, WebSocketStream};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use tokio::sync::{Notify, watch};

use crate::bridge::plain_response;
use crate::faults::Fault;
use crate::io_wrapper::Io;
use crate::rules::queue::{Batch, Closing, Outgoing};
use crate::rules::read::HISTORY_CHUNK;
use crate::rules::{ConnectionId, frame};
use crate::shared::{Link, Shared};

/// Answers an upgrade request and, when it is granted, serves the connection in a task.
pub(crate) fn upgrade(
    shared: &Arc<Shared>,
    mut request: Request<Incoming>,
    host: String,
) -> Response<Full<Bytes>> {
    if let Err(reply) = shared.with(|rules, _| rules.admit_upgrade(&host)) {
        return plain_response(&reply);
    }
    let Some(key) = request.headers().get(SEC_WEBSOCKET_KEY) else {
        return status_response(StatusCode::BAD_REQUEST);
    };
    let accept = derive_accept_key(key.as_bytes());
    let Ok(accept) = HeaderValue::from_str(&accept) else {
        return status_response(StatusCode::BAD_REQUEST);
    };
    let is_dropped = shared.with_faults(|rules| rules.faults.strikes(None, &Fault::DropConnection));
    let upgraded = hyper::upgrade::on(&mut request);
    let server = Arc::clone(shared);
    shared.spawn(async move {
        let Ok(upgraded) = upgraded.await else {
            return;
        };
        if !is_dropped {
            converse(&server, upgraded, &host).await;
        }
    });
    let mut response = status_response(StatusCode::SWITCHING_PROTOCOLS);
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    response
}

type Socket = Io<Upgraded>;

/// One connection with what its parts need.
struct Connection<'a> {
    shared: &'a Shared,
    id: ConnectionId,
    link: &'a Link,
    /// Turns true once nothing more will be read, or need be.
    over: watch::Sender<bool>,
    /// The close frame is out, or never will be.
    close_sent: Notify,
}

async fn converse(shared: &Shared, upgraded: Upgraded, host: &str) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(shared.frame_bytes_max))
        .max_frame_size(Some(shared.frame_bytes_max));
    let socket = WebSocketStream::from_raw_socket(Io(upgraded), Role::Server, Some(config)).await;
    let (sender, receiver) = socket.split();
    let (id, link) = shared.open(host);
    let guard = Gone { shared, id };
    let connection = Connection {
        shared,
        id,
        link: &link,
        over: watch::Sender::new(false),
        close_sent: Notify::new(),
    };
    tokio::join!(
        connection.write(sender),
        connection.read(receiver),
        connection.keep_time(),
        connection.feed_history(),
    );
    drop(guard);
}

/// Tells the rules that a connection is gone, also when its task is aborted.
struct Gone<'a> {
    shared: &'a Shared,
    id: ConnectionId,
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.shared.gone(self.id);
    }
}

impl Connection<'_> {
    async fn read(&self, mut receiver: WebSocketReceiver<Socket>) {
        let mut over = self.over.subscribe();
        let mut faults = self.shared.faults_changed();
        loop {
            let is_unread = self.shared.with(|rules, _| rules.is_held(self.id)).unread;
            let intake = tokio::select! {
                message = receiver.next(), if !is_unread => self.take_in(message),
                _ = over.wait_for(|is_over| *is_over) => Intake::End,
                _ = faults.changed() => Intake::More,
            };
            match intake {
                Intake::More => {}
                Intake::End => break,
                Intake::Oversize => {
                    self.close_sent.notified().await;
                    break;
                }
            }
        }
        self.over.send_replace(true);
        self.shared.gone(self.id);
    }

    fn take_in(&self, message: Option<Result<Message, Error>>) -> Intake {
        let parsed = match message {
            Some(Ok(Message::Text(text))) => frame::parse(text.as_str()),
            Some(Ok(Message::Binary(bytes))) => match std::str::from_utf8(&bytes) {
                Ok(text) => frame::parse(text),
                Err(error) => Err(format!("invalid message: {error}")),
            },
            Some(Ok(Message::Pong(_))) => {
                self.shared.with(|rules, _| rules.pong(self.id));
                return Intake::More;
            }
            Some(Ok(Message::Ping(_) | Message::Frame(_))) => return Intake::More,
            Some(Err(Error::Capacity(_))) => {
                self.shared
                    .with(|rules, _| rules.end(self.id, Closing::Silent));
                return Intake::Oversize;
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Intake::End,
        };
        self.shared
            .with(|rules, now| rules.receive(self.id, parsed, now));
        Intake::More
    }

    async fn write(&self, mut sender: WebSocketSender<Socket>) {
        let mut faults = self.shared.faults_changed();
        let mut over = self.over.subscribe();
        loop {
            let (held, is_closing) = self
                .shared
                .with(|rules, _| (rules.is_held(self.id), rules.is_closing(self.id)));
            let batch = if held.stalled && !is_closing {
                Batch::default()
            } else {
                self.shared.with(|rules, _| rules.take(self.id))
            };
            if batch.frames.is_empty() && batch.closing.is_none() {
                tokio::select! {
                    () = self.link.outgoing.notified() => {}
                    _ = faults.changed() => {}
                    _ = over.wait_for(|is_over| *is_over) => break,
                }
                continue;
            }
            self.link.room.notify_one();
            let is_written = tokio::select! {
                result = write_frames(&mut sender, batch.frames) => result.is_ok(),
                () = self.overdue() => false,
                _ = over.wait_for(|is_over| *is_over) => false,
            };
            if !is_written {
                break;
            }
            if let Some(closing) = batch.closing {
                self.close(&mut sender, closing).await;
                break;
            }
        }
        self.close_sent.notify_one();
        self.over.send_replace(true);
    }

    async fn close(&self, sender: &mut WebSocketSender<Socket>, closing: Closing) {
        let frame = match closing {
            Closing::Abrupt => return,
            Closing::Silent => None,
            Closing::Status { code, reason } => Some(CloseFrame {
                code: CloseCode::from(code),
                reason: reason.into(),
            }),
        };
        let mut over = self.over.subscribe();
        // The peer's reply ends the reading; a peer that does not reply is left behind.
        let handshake = async {
            let sent = sender.close(frame).await;
            self.close_sent.notify_one();
            if sent.is_ok() {
                let _ = over.wait_for(|is_over| *is_over).await;
            }
        };
        let _ = tokio::time::timeout(self.shared.linger, handshake).await;
    }

    /// A connection that is to end may be stuck in a write to a peer that does not read.
    async fn overdue(&self) {
        let mut closing = self.link.closing.subscribe();
        let _ = closing.wait_for(|is_closing| *is_closing).await;
        tokio::time::sleep(self.shared.linger).await;
    }

    async fn keep_time(&self) {
        let mut over = self.over.subscribe();
        loop {
            let due = self
                .shared
                .with(|rules, now| rules.deadline(self.id).map(|due| due.saturating_sub(now)));
            let Some(wait) = due else {
                return;
            };
            tokio::select! {
                () = tokio::time::sleep(wait.max(Duration::from_millis(1))) => {}
                _ = over.wait_for(|is_over| *is_over) => return,
            }
            self.shared.with(|rules, now| rules.tick(self.id, now));
        }
    }

    /// Queues long histories piece by piece. A queue that does not drain within the patience is
    /// filled all the same: that is how a slow reader loses the rest.
    async fn feed_history(&self) {
        let mut over = self.over.subscribe();
        loop {
            tokio::select! {
                () = self.link.history.notified() => {}
                _ = over.wait_for(|is_over| *is_over) => return,
            }
            while self.shared.with(|rules, _| rules.has_history(self.id)) {
                let has_room = || {
                    self.shared.with(|rules, _| {
                        let wanted = HISTORY_CHUNK.min(rules.settings.queue_frames);
                        rules.queue_room(self.id) >= wanted
                    })
                };
                let drained = async {
                    while !has_room() {
                        self.link.room.notified().await;
                    }
                };
                let _ = tokio::time::timeout(self.shared.history_patience, drained).await;
                self.shared.with(|rules, _| rules.pump_history(self.id));
                tokio::task::yield_now().await;
            }
        }
    }
}

/// What reading the next message led to.
enum Intake {
    More,
    End,
    /// The message broke the stream; a close frame is all that can still go out.
    Oversize,
}

async fn write_frames(
    sender: &mut WebSocketSender<Socket>,
    frames: Vec<Outgoing>,
) -> Result<(), Error> {
    for frame in frames {
        let message = match frame {
            Outgoing::Text(text) => Message::text(text),
            Outgoing::Ping => Message::Ping(Bytes::new()),
        };
        sender.feed(message).await?;
    }
    sender.flush().await
}

fn status_response(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
