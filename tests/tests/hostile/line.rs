//! The relay's end of one WebSocket, written by hand: it can send what no library would.

use buzz_dev_relay::rules::event::Event;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::liar::within;

pub(crate) const TEXT: u8 = 1;
pub(crate) const PING: u8 = 9;
const CLOSE: u8 = 8;
/// The first bit of a frame: no fragment follows.
pub(crate) const LAST: u8 = 0x80;

/// Nothing can be written any more: the agent has closed.
#[derive(Debug)]
pub(crate) struct Gone;

/// An upgraded socket.
pub(crate) struct Line {
    writer: OwnedWriteHalf,
    /// What the agent sends, decoded.
    heard: mpsc::UnboundedReceiver<Value>,
    listener: JoinHandle<()>,
}

impl Line {
    pub(crate) fn new(stream: TcpStream) -> Self {
        let (reader, writer) = stream.into_split();
        let (sender, heard) = mpsc::unbounded_channel();
        let listener = tokio::spawn(listen(reader, sender));
        Self {
            writer,
            heard,
            listener,
        }
    }

    /// Authenticates the agent, and ends the history of its subscription. Gives the name of that.
    pub(crate) async fn welcome(&mut self) -> String {
        let name = self.welcome_to_request().await;
        self.say(&json!(["EOSE", name])).await.expect("it is open");
        name
    }

    /// Authenticates the agent. Gives the name of its subscription, whose history has no end yet.
    pub(crate) async fn welcome_to_request(&mut self) -> String {
        self.say(&json!(["AUTH", "who are you"]))
            .await
            .expect("it is open");
        let auth = self.hear("AUTH").await;
        let answer = json!(["OK", auth[1]["id"], true, ""]);
        self.say(&answer).await.expect("it is open");
        self.request("ch-").await
    }

    /// The next request whose name begins so.
    pub(crate) async fn request(&mut self, begin: &str) -> String {
        loop {
            let request = self.hear("REQ").await;
            let name = request[1].as_str().unwrap_or_default();
            if name.starts_with(begin) {
                return name.to_owned();
            }
        }
    }

    /// The next frame with this verb; those before it are dropped.
    pub(crate) async fn hear(&mut self, verb: &str) -> Value {
        within(async {
            loop {
                let frame = self.heard.recv().await.expect("the agent is connected");
                if frame[0] == verb {
                    return frame;
                }
            }
        })
        .await
    }

    /// What came by now.
    pub(crate) fn heard(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.heard.try_recv().ok()).collect()
    }

    pub(crate) async fn say(&mut self, frame: &Value) -> Result<(), Gone> {
        self.raw(&text(&frame.to_string())).await
    }

    pub(crate) async fn bring(&mut self, name: &str, event: &Event) -> Result<(), Gone> {
        self.say(&json!(["EVENT", name, event])).await
    }

    pub(crate) async fn raw(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        within(self.writer.write_all(bytes)).await.map_err(|_| Gone)
    }

    /// From now on nothing is read.
    pub(crate) fn turns_deaf(&self) {
        self.listener.abort();
    }

    /// Ends without a word.
    pub(crate) async fn hang_up(mut self) {
        // The agent may have been first.
        drop(self.writer.shutdown().await);
        self.closes().await;
    }

    /// Waits until the agent has closed it.
    pub(crate) async fn closes(mut self) {
        within(async { while self.heard.recv().await.is_some() {} }).await;
    }
}

/// A whole text frame.
pub(crate) fn text(words: &str) -> Vec<u8> {
    frame(LAST | TEXT, words.as_bytes())
}

/// A frame with this first byte.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(first, payload.len() as u64);
    bytes.extend_from_slice(payload);
    bytes
}

/// The head of a frame that announces so many bytes.
pub(crate) fn head(first: u8, length: u64) -> Vec<u8> {
    let mut bytes = vec![first];
    if let Ok(short) = u8::try_from(length).map_err(|_| ()).and_then(at_most_125) {
        bytes.push(short);
    } else if let Ok(medium) = u16::try_from(length) {
        bytes.push(126);
        bytes.extend_from_slice(&medium.to_be_bytes());
    } else {
        bytes.push(127);
        bytes.extend_from_slice(&length.to_be_bytes());
    }
    bytes
}

const fn at_most_125(length: u8) -> Result<u8, ()> {
    if length <= 125 { Ok(length) } else { Err(()) }
}

/// Reads on, so that the agent can always write. Pongs are dropped.
async fn listen(mut reader: OwnedReadHalf, heard: mpsc::UnboundedSender<Value>) {
    while let Ok((kind, payload)) = read(&mut reader).await {
        match kind {
            TEXT => {
                let frame = serde_json::from_slice(&payload).expect("the agent sends JSON");
                // The test may have heard enough.
                let _gone = heard.send(frame);
            }
            CLOSE => break,
            _ => {}
        }
    }
}

/// One frame of the agent, which sends each message in one.
async fn read(reader: &mut OwnedReadHalf) -> std::io::Result<(u8, Vec<u8>)> {
    let mut start = [0; 2];
    reader.read_exact(&mut start).await?;
    let length = match start[1] & 0x7f {
        126 => u64::from(reader.read_u16().await?),
        127 => reader.read_u64().await?,
        short => u64::from(short),
    };
    let mut mask = [0; 4];
    reader.read_exact(&mut mask).await?;
    let mut payload = vec![0; usize::try_from(length).expect("a frame fits in memory")];
    reader.read_exact(&mut payload).await?;
    for (byte, key) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
    Ok((start[0] & 0x0f, payload))
}
