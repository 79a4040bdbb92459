//! The bounded queue of frames towards one connection.

use std::collections::VecDeque;

/// Frames waiting for the socket. A full queue drops silently; after some consecutive drops the
/// connection ends.
#[derive(Debug)]
pub struct SendQueue {
    frames: VecDeque<Outgoing>,
    control: VecDeque<Outgoing>,
    capacity: usize,
    grace: u32,
    drops: u32,
    closing: Option<Closing>,
}

/// Frames written between two flushes.
pub const BATCH_MAX: usize = 64;
const CONTROL_MAX: usize = 8;

impl SendQueue {
    /// A queue of `capacity` frames that gives up at `grace` consecutive drops.
    #[must_use]
    pub fn new(capacity: usize, grace: u32) -> Self {
        Self {
            frames: VecDeque::new(),
            control: VecDeque::new(),
            capacity,
            grace,
            drops: 0,
            closing: None,
        }
    }

    /// Adds a frame.
    pub fn push(&mut self, text: String) -> Pushed {
        if self.closing.is_some() {
            return Pushed::Dropped;
        }
        if self.frames.len() < self.capacity {
            self.drops = 0;
            self.frames.push_back(Outgoing::Text(text));
            return Pushed::Queued;
        }
        self.drops += 1;
        if self.drops < self.grace {
            return Pushed::Dropped;
        }
        self.close(Closing::Silent);
        Pushed::Fatal
    }

    /// Adds a ping or an urgent frame. A full control queue ends the connection.
    pub fn push_control(&mut self, frame: Outgoing) {
        if self.closing.is_some() {
            return;
        }
        if self.control.len() >= CONTROL_MAX {
            self.close(Closing::Silent);
            return;
        }
        self.control.push_back(frame);
    }

    /// Ends the connection. Frames in the data queue survive only a close with a status.
    pub fn close(&mut self, closing: Closing) {
        if self.closing.is_some() {
            return;
        }
        match closing {
            Closing::Status { .. } => {}
            Closing::Silent => self.frames.clear(),
            Closing::Abrupt => {
                self.frames.clear();
                self.control.clear();
            }
        }
        self.closing = Some(closing);
    }

    /// Whether the connection is to end.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Frames in the data queue.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether the data queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The next frames to write, and how to end once they are written.
    pub fn take(&mut self) -> Batch {
        let mut frames: Vec<_> = self.control.drain(..).collect();
        let room = BATCH_MAX
            .saturating_sub(frames.len())
            .min(self.frames.len());
        frames.extend(self.frames.drain(..room));
        let closing = if self.frames.is_empty() {
            self.closing.clone()
        } else {
            None
        };
        Batch { frames, closing }
    }
}

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// It waits to be written.
    Queued,
    /// It is lost.
    Dropped,
    /// It is lost, and with it the connection.
    Fatal,
}

/// A frame towards the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// A text frame.
    Text(String),
    /// A WebSocket ping.
    Ping,
}

/// Frames to write, then perhaps the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// In this order.
    pub frames: Vec<Outgoing>,
    /// How the connection ends after them.
    pub closing: Option<Closing>,
}

/// How a connection ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closing {
    /// A close frame with a status code, after all queued frames.
    Status {
        /// RFC 6455 section 7.4.
        code: u16,
        /// At most 123 bytes.
        reason: String,
    },
    /// A close frame without a status, queued data thrown away.
    Silent,
    /// No close frame.
    Abrupt,
}

impl Closing {
    /// The close of a graceful shutdown.
    #[must_use]
    pub fn restarting() -> Self {
        Self::Status {
            code: 1012,
            reason: "relay restarting".to_owned(),
        }
    }
}
