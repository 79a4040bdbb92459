//! One WebSocket, driven by one task.
//!
//! Frames to write wait in a queue here; [`Socket::next`] moves them on and reads at the same time,
//! so reading goes on while the peer takes nothing. Only one frame at a time is handed to the
//! library below. From then on it is *committed*: part of it may be on the wire, and it cannot be
//! taken back. Before, it is certain that the peer has seen nothing of it. That difference is what
//! [`SocketEvent::WriteFailed`] tells.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_tungstenite::WebSocketStream;
use async_tungstenite::tungstenite::protocol::CloseFrame;
use async_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use async_tungstenite::tungstenite::{Error as WsError, Message, Utf8Bytes};
use buzz_proto::ids::WriteId;
use buzz_proto::wire::{Excerpt, FRAME_BYTES_MAX};
use bytes::Bytes;
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::{Sink as _, Stream as _};

use crate::tls::Stream;

/// Frames up to this size are copied out of the read buffer, which they share with others: an
/// event that is kept must not keep a buffer alive that is many times its size.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// An open WebSocket. Dropping it closes the connection without a close frame.
#[derive(Debug)]
pub struct Socket<S> {
    stream: WebSocketStream<Stream<S>>,
    queue: VecDeque<(WriteId, Bytes)>,
    is_ping_wanted: bool,
    close: Close,
    /// Whether something handed over may not have reached the stream yet.
    is_flushing: bool,
    /// The data frame among it.
    committed: Option<WriteId>,
    /// Whether writing failed; what can still be read is read.
    is_write_broken: bool,
    outcomes: VecDeque<SocketEvent>,
    /// Outcomes and frames take turns, so that neither can hold up the other.
    is_turn_of_frames: bool,
    has_ended: bool,
}

/// What happened on a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketEvent {
    /// A text frame, or a binary frame that holds text.
    Text(Bytes),
    /// A binary frame that holds no text: a sign of life and no more.
    Ignored,
    /// The peer's ping; its answer is on the way.
    Pinged,
    /// The answer to a ping.
    Pong,
    /// The whole frame went to the operating system. That does not mean it arrived.
    Written(WriteId),
    /// The frame will not be written any more.
    WriteFailed {
        /// Which.
        write: WriteId,
        /// Whether part of it may have been sent.
        sent: bool,
    },
    /// The peer closed, or the connection broke. The frames that waited got their outcome
    /// before; one queued afterwards fails unsent.
    Closed {
        /// The code of the peer's close frame, if it sent one with a code.
        code: Option<u16>,
        /// The peer's reason or the error, for people.
        detail: Excerpt,
    },
}

/// How far our own closing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Close {
    Unwanted,
    Wanted(u16),
    Sent,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    pub(crate) const fn new(stream: WebSocketStream<Stream<S>>) -> Self {
        Self {
            stream,
            queue: VecDeque::new(),
            is_ping_wanted: false,
            close: Close::Unwanted,
            is_flushing: false,
            committed: None,
            is_write_broken: false,
            outcomes: VecDeque::new(),
            is_turn_of_frames: false,
            has_ended: false,
        }
    }

    /// Adds a text frame behind those that wait. Its outcome is [`SocketEvent::Written`] or
    /// [`SocketEvent::WriteFailed`], exactly one of them. The queue has no bound of its own.
    pub fn queue(&mut self, write: WriteId, text: Bytes) {
        if self.has_ended || self.is_write_broken || self.close != Close::Unwanted {
            self.outcomes.push_back(unsent(write));
            return;
        }
        self.queue.push_back((write, text));
    }

    /// Sends a ping before the frames that wait. Several before it could go are one.
    pub const fn ping(&mut self) {
        self.is_ping_wanted = true;
    }

    /// Sends a close frame with `code` after the frame that is under way; those that wait fail
    /// unsent. The end is [`SocketEvent::Closed`], when the peer answers and closes: a limit for
    /// that is the caller's, who can drop the socket at any time.
    pub fn close(&mut self, code: u16) {
        if self.close == Close::Unwanted {
            self.close = Close::Wanted(code);
            self.fail_queue();
        }
    }

    /// Moves writes on, reads, and returns what happened next; `None` after the end. Nothing is
    /// lost when the future is dropped, but writes and pongs move only while it is polled.
    pub async fn next(&mut self) -> Option<SocketEvent> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// [`Socket::next`] for a caller that polls.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<SocketEvent>> {
        if !self.has_ended && !self.is_write_broken {
            self.write(cx);
        }
        if !self.is_turn_of_frames
            && let Some(outcome) = self.outcomes.pop_front()
        {
            self.is_turn_of_frames = true;
            return Poll::Ready(Some(outcome));
        }
        self.is_turn_of_frames = false;
        if !self.has_ended
            && let Poll::Ready(event) = self.read(cx)
        {
            return Poll::Ready(Some(event));
        }
        match self.outcomes.pop_front() {
            Some(outcome) => Poll::Ready(Some(outcome)),
            None if self.has_ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Hands over and flushes one frame after the other until the stream takes no more.
    fn write(&mut self, cx: &mut Context<'_>) {
        loop {
            if self.is_flushing {
                match Pin::new(&mut self.stream).poll_flush(cx) {
                    Poll::Pending => return,
                    Poll::Ready(Err(_)) => return self.break_writes(),
                    Poll::Ready(Ok(())) => self.is_flushing = false,
                }
                let written = self.committed.take().map(SocketEvent::Written);
                self.outcomes.extend(written);
            }
            let Some((write, message)) = self.take_message() else {
                return;
            };
            // The flush above left the library's buffer empty, so it has room for any one frame.
            match Pin::new(&mut self.stream).start_send(message) {
                Ok(()) => {
                    self.is_flushing = true;
                    self.committed = write;
                }
                Err(WsError::WriteBufferFull(_)) => self.outcomes.extend(write.map(unsent)),
                Err(_) => {
                    self.committed = write;
                    return self.break_writes();
                }
            }
        }
    }

    /// The next frame to hand over: close, ping, then the queue in its order.
    fn take_message(&mut self) -> Option<(Option<WriteId>, Message)> {
        match self.close {
            Close::Sent => return None,
            Close::Wanted(code) => {
                self.close = Close::Sent;
                let code = CloseCode::from(code);
                let reason = Utf8Bytes::from_static("");
                return Some((None, Message::Close(Some(CloseFrame { code, reason }))));
            }
            Close::Unwanted => {}
        }
        if std::mem::take(&mut self.is_ping_wanted) {
            return Some((None, Message::Ping(Bytes::new())));
        }
        while let Some((write, text)) = self.queue.pop_front() {
            if text.len() <= FRAME_BYTES_MAX
                && let Ok(text) = Utf8Bytes::try_from(text)
            {
                return Some((Some(write), Message::Text(text)));
            }
            self.outcomes.push_back(unsent(write));
        }
        None
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Poll<SocketEvent> {
        let message = match Pin::new(&mut self.stream).poll_next(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Ok(message))) => message,
            Poll::Ready(Some(Err(error))) => return self.end(None, Excerpt::of(&error)),
            Poll::Ready(None) => return self.end(None, Excerpt::new("the connection ended")),
        };
        Poll::Ready(match message {
            Message::Text(text) => SocketEvent::Text(copied(text.into())),
            Message::Binary(bytes) if std::str::from_utf8(&bytes).is_ok() => {
                SocketEvent::Text(copied(bytes))
            }
            Message::Binary(_) | Message::Frame(_) => SocketEvent::Ignored,
            Message::Pong(_) => SocketEvent::Pong,
            Message::Ping(_) => {
                // The library has the pong ready but sends it with the next read or write; it
                // must go even when neither comes.
                self.is_flushing = true;
                if !self.is_write_broken {
                    self.write(cx);
                }
                SocketEvent::Pinged
            }
            Message::Close(frame) => {
                // The answer to the close frame, if the stream takes it at once. Nobody waits.
                let _answered = Pin::new(&mut self.stream).poll_flush(cx);
                let code = frame.as_ref().map(|frame| u16::from(frame.code));
                let reason = frame.map(|frame| Excerpt::new(&frame.reason));
                return self.end(code, reason.unwrap_or_default());
            }
        })
    }

    /// Every write gets its outcome before the last event.
    fn end(&mut self, code: Option<u16>, detail: Excerpt) -> Poll<SocketEvent> {
        self.break_writes();
        self.has_ended = true;
        let closed = SocketEvent::Closed { code, detail };
        match self.outcomes.pop_front() {
            None => Poll::Ready(closed),
            Some(first) => {
                self.outcomes.push_back(closed);
                Poll::Ready(first)
            }
        }
    }

    fn break_writes(&mut self) {
        self.is_write_broken = true;
        self.is_flushing = false;
        let failed = self.committed.take();
        let failed = failed.map(|write| SocketEvent::WriteFailed { write, sent: true });
        self.outcomes.extend(failed);
        self.fail_queue();
    }

    fn fail_queue(&mut self) {
        let failed = self.queue.drain(..).map(|(write, _)| unsent(write));
        self.outcomes.extend(failed);
    }
}

const fn unsent(write: WriteId) -> SocketEvent {
    SocketEvent::WriteFailed { write, sent: false }
}

fn copied(text: Bytes) -> Bytes {
    if text.len() > COPIED_BYTES_MAX {
        return text;
    }
    Bytes::copy_from_slice(&text)
}
