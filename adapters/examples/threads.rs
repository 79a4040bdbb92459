//! A third runtime in one file: one plain thread and a blocking socket drive the machine, to show
//! how little an adapter is. It is a bot in one channel of a relay without TLS. It does without
//! HTTP: the machine is told that none of that is there, and uses the socket for everything.
//!
//! `BUZZ_PRIVATE_KEY=nsec1... cargo run -p buzz-adapters --example threads -- ws://127.0.0.1:3000 CHANNEL`
#![expect(clippy::print_stderr, reason = "a bot tells people what it does")]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "it never gets the orders that are left out"
)]

use std::collections::VecDeque;
use std::error::Error;
use std::io::ErrorKind::WouldBlock;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use async_tungstenite::tungstenite::protocol::{Message, WebSocket};
use async_tungstenite::tungstenite::{self, client};
use buzz_adapters::clock::Clock;
use buzz_adapters::keys::SecretKey;
use buzz_adapters::sign::{LocalSigner, Signer as _, auth_draft};
use buzz_adapters::url::RelayUrl;
use buzz_adapters::verify::is_genuine;
use buzz_proto::action::Action;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::{ConnId, JobId};
use buzz_proto::input::Input;
use buzz_proto::machine::Machine;
use buzz_proto::publish::{self, Body, Class, Route};
use buzz_proto::relay::{self, Channels, ConnectCause, Disposal, HttpAnswer};
use buzz_proto::wire::{Draft, Event};

/// The machine extrapolates the wall clock between reports this far apart.
const WALL_CLOCK_PERIOD: Duration = Duration::from_secs(10);
/// The longest that one read blocks.
const READ_MAX: Duration = Duration::from_millis(20);
/// How long an upgrade may be silent, and a write taken by nobody. Meanwhile all else waits, so it
/// is less than the machine's own limits.
const SILENCE_MAX: Duration = Duration::from_secs(9);

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = RelayUrl::parse(&args.next().ok_or("give the relay's URL")?)?;
    if url.is_secure() {
        return Err("there is no TLS here: give a URL that begins with ws://".into());
    }
    let room = args.next().ok_or("give a channel")?.parse()?;
    let key = SecretKey::from_env("BUZZ_PRIVATE_KEY").ok_or("set BUZZ_PRIVATE_KEY")??;
    let signer = LocalSigner::new(key);
    let mut config = Config {
        seed: u64::from(std::process::id()),
        me: signer.public_key(),
        relay: relay::Config::new(&url.relay_tag()),
        publish: publish::Config::default(),
        consumer: Consumer::External { slots: 16 },
    };
    config.relay.channels = Channels::Given(vec![room]);
    let (clock, mut wake) = (Clock::start(), None);
    let mut machine = Machine::new(config, clock.now())?;
    let (facts, socket, taken) = (VecDeque::new(), None, 0);
    let mut bot = Bot {
        url,
        signer,
        facts,
        socket,
        taken,
    };
    let mut told: Option<Instant> = None;
    loop {
        if told.is_none_or(|told| told.elapsed() >= WALL_CLOCK_PERIOD) {
            bot.facts.push_back(Input::WallClock(Clock::wall()));
            told = Some(Instant::now());
        }
        // What is readable goes before a tick, and blocking in a read is the only wait.
        bot.read();
        let is_due = wake.is_some_and(|at| clock.now() >= at);
        bot.facts.extend(is_due.then_some(Input::Tick));
        while let Some(fact) = bot.facts.pop_front() {
            for action in machine.handle_input(fact, clock.now()) {
                match action {
                    Action::WakeAt(at) => wake = at,
                    Action::Ended => return Ok(()),
                    Action::Relay(order) => bot.relay(order),
                    Action::Publish(order) => bot.publish(order),
                    Action::Note(note) => eprintln!("{note}"),
                    Action::Schedule(_) => {}
                }
            }
        }
    }
}

struct Bot {
    url: RelayUrl,
    signer: LocalSigner,
    facts: VecDeque<Input>,
    socket: Option<(ConnId, WebSocket<TcpStream>)>,
    taken: u64,
}

impl Bot {
    fn relay(&mut self, order: relay::Action) {
        use relay::{Action as A, Input as F};
        let fact = match order {
            A::Connect { conn, .. } => match dial(&self.url) {
                Ok(socket) => {
                    self.socket = Some((conn, socket));
                    F::Connected { conn, date: None }
                }
                Err(error) => {
                    eprintln!("no connection: {error}");
                    let cause = ConnectCause::Transport;
                    F::ConnectFailed { conn, cause }
                }
            },
            A::Close { .. } => return drop(self.socket.take()),
            A::Send { write, text, .. } => {
                let text = String::from_utf8_lossy(&text).into_owned();
                match self.write(Message::text(text)) {
                    true => F::Written { write },
                    false => F::WriteFailed { write, sent: true },
                }
            }
            A::Ping { .. } if self.write(Message::Ping("".into())) => return,
            A::SignAuth {
                ticket,
                challenge,
                created_at,
            } => {
                let draft = auth_draft(&self.url.relay_tag(), &challenge, None, created_at);
                let signed = self.signer.sign_now(&draft);
                signed.map_or(F::SignFailed { ticket }, |event| F::Signed {
                    ticket,
                    event,
                })
            }
            A::Verify { ticket, event } => {
                let genuine = is_genuine(event.raw());
                F::Verified { ticket, genuine }
            }
            A::Query { ticket, .. } | A::Inform { ticket } => {
                let answer = not_found();
                F::Answered { ticket, answer }
            }
            A::Deliver { event, .. } => return self.answer(&event),
            _ => return,
        };
        self.facts.push_back(Input::Relay(fact));
    }

    fn publish(&mut self, order: publish::Action) {
        use publish::{Action as A, Input as F};
        let fact = match order {
            A::Sign { ticket, draft } => {
                let signed = self.signer.sign_now(&draft);
                signed.map_or(F::SignFailed { ticket }, |event| F::Signed {
                    ticket,
                    event,
                })
            }
            A::Post { ticket, .. } | A::Query { ticket, .. } => {
                let answer = not_found();
                F::Answered { ticket, answer }
            }
            A::Settle { verdict, .. } => return eprintln!("an answer: {verdict:?}"),
            _ => return,
        };
        self.facts.push_back(Input::Publish(fact));
    }

    /// Takes an event, and answers it with its own words.
    fn answer(&mut self, event: &Event) {
        eprintln!("{} says {:?}", event.author(), event.content());
        self.taken += 1;
        let submit = publish::Command::Submit {
            job: JobId(self.taken),
            class: Class::Durable,
            route: Route::Post,
            body: Body::SignWhenSent(Draft::answer(event, event.content(), Clock::wall())),
            ttl: None,
        };
        let (event, how, taken) = (event.id(), Disposal::Accepted, self.taken);
        self.facts.extend([
            Input::Publish(publish::Input::Command(submit)),
            Input::Relay(relay::Input::Disposed { event, how }),
            Input::Relay(relay::Input::Capacity { taken }),
        ]);
    }

    fn write(&mut self, message: Message) -> bool {
        let socket = self.socket.as_mut();
        socket.is_some_and(|(_, socket)| socket.send(message).is_ok())
    }

    /// Takes what comes within a moment.
    fn read(&mut self) {
        use relay::Input as F;
        let Some((conn, socket)) = &mut self.socket else {
            return thread::sleep(READ_MAX);
        };
        let conn = *conn;
        let fact = match socket.read() {
            Ok(Message::Text(text)) => F::Frame {
                conn,
                text: text.into(),
            },
            Ok(Message::Pong(_)) => F::Pong { conn },
            Ok(Message::Close(frame)) => {
                let _farewell = socket.flush();
                self.socket = None;
                let code = frame.map(|frame| frame.code.into());
                F::Closed { conn, code }
            }
            Ok(_) => F::Pinged { conn },
            Err(tungstenite::Error::Io(error)) if error.kind() == WouldBlock => return,
            Err(_) => {
                self.socket = None;
                F::Closed { conn, code: None }
            }
        };
        self.facts.push_back(Input::Relay(fact));
    }
}

fn dial(url: &RelayUrl) -> Result<WebSocket<TcpStream>, Box<dyn Error>> {
    let stream = TcpStream::connect((url.host(), url.port()))?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let (socket, _) = client(url.websocket(), stream).map_err(|error| error.to_string())?;
    socket.get_ref().set_read_timeout(Some(READ_MAX))?;
    Ok(socket)
}

/// What is not there over HTTP is done over the socket.
fn not_found() -> HttpAnswer {
    let (status, retry_after, date) = (404, None, None);
    let body = Default::default();
    HttpAnswer {
        status,
        retry_after,
        date,
        body,
    }
}
