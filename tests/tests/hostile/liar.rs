//! A relay that does as the test says, on a port of loopback.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::line::Line;

/// A guard against a test that hangs; no verdict depends on it.
const GUARD: Duration = Duration::from_secs(20);
const HEAD_BYTES_MAX: usize = 64 << 10;
/// What is sent at once of an answer without an end.
const PIECE: usize = 64 << 10;

/// What is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Route {
    Upgrade,
    Document,
    Query,
    Events,
}

/// How it answers.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// As it should: an upgrade to a WebSocket.
    Upgrade,
    /// With this status and text.
    Text(u16, String),
    /// With a head that has no end.
    EndlessHead,
    /// With one header that has no end.
    EndlessHeader,
    /// With interim answers that have no end.
    EndlessInterim,
    /// With a body that has no end, in chunks or until the connection ends.
    EndlessBody { chunked: bool },
    /// With a body of so many bytes, which is announced.
    Large(usize),
    /// With a body that is announced with so many bytes and does not come.
    Announced(u64),
    /// Never.
    Silence,
}

pub(crate) struct Liar {
    url: String,
    shared: Arc<Shared>,
    lines: mpsc::UnboundedReceiver<Line>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    answers: Mutex<BTreeMap<Route, Answer>>,
    asked: Mutex<BTreeMap<Route, u32>>,
    /// Answers that the agent has read to their end or let go.
    over: Mutex<BTreeMap<Route, u32>>,
}

impl Liar {
    /// Has no route but the WebSocket and a silent `/events`.
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared::default());
        let (sender, lines) = mpsc::unbounded_channel();
        let server = tokio::spawn(serve(listener, Arc::clone(&shared), sender));
        Self {
            url: format!("ws://{address}"),
            shared,
            lines,
            server,
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// How it answers from now on.
    pub(crate) fn answers(&self, route: Route, answer: Answer) {
        let mut answers = self
            .shared
            .answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        answers.insert(route, answer);
    }

    /// How often it was asked so far.
    pub(crate) fn asked(&self, route: Route) -> u32 {
        let asked = self
            .shared
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        asked.get(&route).copied().unwrap_or_default()
    }

    /// Waits until it was asked so often.
    pub(crate) async fn until_asked(&self, route: Route, times: u32) {
        within(async {
            while self.asked(route) < times {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    /// Waits until the agent has read so many answers to their ends, or let them go.
    pub(crate) async fn until_over(&self, route: Route, times: u32) {
        let is_over = || {
            let over = self
                .shared
                .over
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            over.get(&route).is_some_and(|over| *over >= times)
        };
        within(async {
            while !is_over() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    /// The next WebSocket.
    pub(crate) async fn line(&mut self) -> Line {
        within(self.lines.recv()).await.expect("it serves")
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.server.abort();
    }
}

pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(GUARD, work).await.expect("it happens")
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, lines: mpsc::UnboundedSender<Line>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (shared, lines) = (Arc::clone(&shared), lines.clone());
        tokio::spawn(async move {
            // However a connection ends, the agent tells what it makes of it.
            drop(converse(stream, &shared, &lines).await);
        });
    }
}

/// One connection: answers, and perhaps an upgrade.
async fn converse(
    mut stream: TcpStream,
    shared: &Shared,
    lines: &mpsc::UnboundedSender<Line>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let head = read_head(&mut stream).await?;
        let route = route_of(&head);
        {
            let mut asked = shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
            *asked.entry(route).or_default() += 1;
        }
        let answer = {
            let answers = shared
                .answers
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            answers.get(&route).cloned()
        };
        let answer = answer.unwrap_or_else(|| match route {
            Route::Upgrade => Answer::Upgrade,
            Route::Events => Answer::Silence,
            Route::Document | Route::Query => Answer::Text(404, String::new()),
        });
        if matches!(answer, Answer::Upgrade) {
            let key = header(&head, "sec-websocket-key").unwrap_or_default();
            let accept = derive_accept_key(key.as_bytes());
            let text = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                 Connection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
            );
            stream.write_all(text.as_bytes()).await?;
            let _gone = lines.send(Line::new(stream));
            return Ok(());
        }
        let given = give(&mut stream, answer).await;
        {
            let mut over = shared.over.lock().unwrap_or_else(PoisonError::into_inner);
            *over.entry(route).or_default() += 1;
        }
        given?;
    }
}

/// A head, with what follows it read as well.
async fn read_head(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = header(&head, "content-length").and_then(|text| text.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    Ok(head)
}

fn header(head: &str, wanted: &str) -> Option<String> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(wanted)
            .then(|| value.trim().to_owned())
    })
}

fn route_of(head: &str) -> Route {
    if header(head, "upgrade").is_some() {
        return Route::Upgrade;
    }
    let path = head.split(' ').nth(1).unwrap_or_default();
    match path {
        "/query" => Route::Query,
        "/events" => Route::Events,
        _ => Route::Document,
    }
}

async fn give(stream: &mut TcpStream, answer: Answer) -> std::io::Result<()> {
    const OK: &str = "HTTP/1.1 200 OK\r\n";
    let spaces = vec![b' '; PIECE];
    let (head, piece): (String, Vec<u8>) = match answer {
        Answer::Text(status, text) => {
            let length = text.len();
            let head = format!("HTTP/1.1 {status} Word\r\nContent-Length: {length}\r\n\r\n{text}");
            return stream.write_all(head.as_bytes()).await;
        }
        Answer::Announced(length) => {
            let head = format!("{OK}Content-Length: {length}\r\n\r\n[");
            stream.write_all(head.as_bytes()).await?;
            return end_of(stream).await;
        }
        Answer::Large(length) => {
            let head = format!("{OK}Content-Length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            for _ in 0..length / PIECE {
                stream.write_all(&spaces).await?;
            }
            return Ok(());
        }
        Answer::Upgrade | Answer::Silence => return end_of(stream).await,
        Answer::EndlessHead => (OK.to_owned(), b"X-More: and more\r\n".repeat(1000)),
        Answer::EndlessHeader => (format!("{OK}X-More: "), vec![b'x'; PIECE]),
        Answer::EndlessInterim => {
            let interim = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n".repeat(1000);
            (String::new(), interim)
        }
        Answer::EndlessBody { chunked: false } => (format!("{OK}\r\n["), spaces),
        Answer::EndlessBody { chunked: true } => {
            let mut piece = format!("{PIECE:x}\r\n").into_bytes();
            piece.extend_from_slice(&spaces);
            piece.extend_from_slice(b"\r\n");
            (format!("{OK}Transfer-Encoding: chunked\r\n\r\n"), piece)
        }
    };
    stream.write_all(head.as_bytes()).await?;
    loop {
        stream.write_all(&piece).await?;
    }
}

/// Waits until the agent has hung up.
async fn end_of(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.read_u8().await.map(drop)
}
