//! A front before the relay: HTTP calls are answered by a script or handed on, the socket passes
//! through. It writes down what came and what left, in this order.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use buzz_dev_relay::rules::http::HttpRequest;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, watch};
use tokio::task::AbortHandle;

/// What is done about a call.
pub(crate) enum Plan {
    /// It is handed on to the relay.
    Pass,
    /// It is answered like this, and never reaches the relay.
    Say(String),
    /// It is handed on, and the connection ends without the answer.
    Lose,
    /// The connection ends, and the call never reaches the relay.
    Cut,
    /// First something happens.
    After(Pause, Box<Self>),
}

impl Plan {
    pub(crate) fn after(self, pause: Pause) -> Self {
        Self::After(pause, Box::new(self))
    }
}

/// What is waited for before a call is dealt with.
pub(crate) enum Pause {
    /// So long.
    Span(Duration),
    /// Until so many calls are here.
    All(Arc<Barrier>),
    /// Until this is so.
    Until(watch::Receiver<bool>),
}

/// A call that came.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) number: usize,
    pub(crate) path: String,
    /// Who claims to have sent it.
    pub(crate) key: String,
    /// The proof of that.
    pub(crate) proof: String,
    pub(crate) body: Value,
    /// The whole of it, as it came.
    raw: Vec<u8>,
    pub(crate) came: Instant,
    /// When its answer was about to be written.
    pub(crate) left: Option<Instant>,
}

impl Call {
    pub(crate) fn is_post(&self) -> bool {
        self.path == "/events"
    }

    /// Whether it asks for one event, as nothing else here does.
    pub(crate) fn is_look_up(&self) -> bool {
        self.body[0]["ids"]
            .as_array()
            .is_some_and(|ids| ids.len() == 1)
    }

    /// What the posted event says.
    pub(crate) fn content(&self) -> &str {
        self.body["content"].as_str().unwrap_or_default()
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, times) = (&self.body["id"], (self.came, self.left));
        write!(f, "{} {} {id} {times:?}", self.number, self.path)
    }
}

type Script = Box<dyn FnMut(&Call) -> Plan + Send>;

/// Ends when it is dropped.
pub(crate) struct Front {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: AbortHandle,
}

struct Shared {
    relay: SocketAddr,
    script: Mutex<Script>,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    calls: Vec<Call>,
    in_flight: usize,
    in_flight_max: usize,
}

impl Front {
    /// One that hands everything on.
    pub(crate) async fn start(relay: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("its number");
        let shared = Arc::new(Shared {
            relay,
            script: Mutex::new(Box::new(|_| Plan::Pass)),
            log: Mutex::default(),
        });
        let server = Arc::clone(&shared);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = Arc::clone(&server);
                // A peer that goes away is no fault of the front's.
                tokio::spawn(async move { drop(serve(&server, stream).await) });
            }
        });
        Self {
            address,
            shared,
            serving: serving.abort_handle(),
        }
    }

    /// Where it is, for a scheme.
    pub(crate) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.address)
    }

    /// From now on calls are dealt with like this.
    pub(crate) fn follow(&self, script: impl FnMut(&Call) -> Plan + Send + 'static) {
        *self.shared.script.lock().expect("no script panics") = Box::new(script);
    }

    /// All calls, in the order in which they came.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.shared.log().calls.clone()
    }

    /// All posts of events, in the order in which they came.
    pub(crate) fn posts(&self) -> Vec<Call> {
        let mut calls = self.calls();
        calls.retain(Call::is_post);
        calls
    }

    /// The most calls at once so far.
    pub(crate) fn in_flight_max(&self) -> usize {
        self.shared.log().in_flight_max
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("nothing panics with it")
    }

    fn come(&self, head: &str, body: &[u8], raw: Vec<u8>) -> (usize, Plan) {
        let authorization = header(head, "authorization").map(str::to_owned);
        let request = HttpRequest {
            authorization: authorization.clone(),
            ..HttpRequest::default()
        };
        let mut script = self.script.lock().expect("no script panics");
        let mut log = self.log();
        let call = Call {
            number: log.calls.len(),
            path: head.split(' ').nth(1).unwrap_or_default().to_owned(),
            key: request.claimed_key().unwrap_or_default(),
            proof: authorization.unwrap_or_default(),
            body: serde_json::from_slice(body).unwrap_or_default(),
            raw,
            came: Instant::now(),
            left: None,
        };
        log.calls.push(call.clone());
        log.in_flight += 1;
        log.in_flight_max = log.in_flight_max.max(log.in_flight);
        drop(log);
        (call.number, script(&call))
    }

    /// An answer is about to leave: nobody can know of it before.
    fn leave(&self, number: usize) {
        let mut log = self.log();
        log.in_flight -= 1;
        log.calls[number].left = Some(Instant::now());
    }
}

async fn serve(shared: &Shared, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    while let Some((head, whole)) = read_message(&mut stream).await? {
        if header(&head, "upgrade").is_some() {
            let mut relay = TcpStream::connect(shared.relay).await?;
            relay.set_nodelay(true)?;
            relay.write_all(&whole).await?;
            copy_bidirectional(&mut stream, &mut relay).await?;
            return Ok(());
        }
        let body = whole[head.len()..].to_vec();
        let (number, plan) = shared.come(&head, &body, whole);
        let answer = carry_out(shared, number, plan).await;
        shared.leave(number);
        let Some(answer) = answer? else {
            return Ok(());
        };
        stream.write_all(&answer).await?;
    }
    Ok(())
}

/// The answer to a call, or nothing when its connection is to end.
async fn carry_out(shared: &Shared, number: usize, mut plan: Plan) -> io::Result<Option<Vec<u8>>> {
    loop {
        match plan {
            Plan::Pass => return Ok(Some(hand_on(shared, number).await?)),
            Plan::Say(text) => return Ok(Some(text.into_bytes())),
            Plan::Lose => {
                hand_on(shared, number).await?;
                return Ok(None);
            }
            Plan::Cut => return Ok(None),
            Plan::After(pause, then) => {
                match pause {
                    Pause::Span(span) => tokio::time::sleep(span).await,
                    Pause::All(calls) => {
                        let _which = calls.wait().await;
                    }
                    Pause::Until(mut is_so) => {
                        // The test has ended when nobody can say so.
                        let _gone = is_so.wait_for(|is_so| *is_so).await;
                    }
                }
                plan = *then;
            }
        }
    }
}

async fn hand_on(shared: &Shared, number: usize) -> io::Result<Vec<u8>> {
    let raw = shared.log().calls[number].raw.clone();
    let mut relay = TcpStream::connect(shared.relay).await?;
    relay.write_all(&raw).await?;
    let answer = read_message(&mut relay).await?;
    Ok(answer.ok_or(io::ErrorKind::UnexpectedEof)?.1)
}

/// Head, and the whole message; nothing when the stream ends before it.
async fn read_message(stream: &mut TcpStream) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut whole = Vec::new();
    while !whole.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => whole.push(byte),
            Err(_) if whole.is_empty() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    let head = String::from_utf8_lossy(&whole).into_owned();
    let length = header(&head, "content-length").and_then(|it| it.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    whole.extend(body);
    Ok(Some((head, whole)))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim())
}

/// An answer of these headers, each with its line end, and this body.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> Plan {
    let length = body.len();
    Plan::Say(format!(
        "HTTP/1.1 {status} Status\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    ))
}

/// An answer as the relay words it.
pub(crate) fn error(status: u16, text: &str) -> Plan {
    let body = serde_json::json!({ "error": text }).to_string();
    answer(status, "Content-Type: application/json\r\n", &body)
}

/// A page as a front words it.
pub(crate) fn page(status: u16) -> Plan {
    let page = format!("<html><head><title>{status}</title></head><body>{status}</body></html>");
    answer(status, "Content-Type: text/html\r\n", &page)
}

/// The first post is dealt with like this; everything after it goes through.
pub(crate) fn first_post(front: &Front, plan: impl Fn() -> Plan + Send + 'static) {
    let mut is_first = true;
    front.follow(move |call| {
        if call.is_post() && std::mem::replace(&mut is_first, false) {
            return plan();
        }
        Plan::Pass
    });
}

/// No two calls carry the same proof.
#[track_caller]
pub(crate) fn assert_fresh(calls: &[Call]) {
    let proofs = calls.iter().filter(|call| !call.key.is_empty());
    let mut proofs: Vec<_> = proofs.map(|call| &call.proof).collect();
    let count = proofs.len();
    proofs.sort_unstable();
    proofs.dedup();
    assert_eq!(proofs.len(), count);
}
