//! A third runtime in one file: a thread that waits, and one that reads, drive the machine over
//! blocking sockets, to show how little an adapter is. It is a bot in one channel of a relay
//! without TLS. It does without HTTP: the machine is told that none of that is there, and uses the
//! socket for everything.
//!
//! `BUZZ_PRIVATE_KEY=nsec1... cargo run -p buzz-adapters --example threads -- ws://127.0.0.1:3000 CHANNEL`
#![expect(clippy::print_stderr, reason = "a bot tells people what it does")]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "orders that it never gets are left out"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use async_tungstenite::tungstenite::client;
use async_tungstenite::tungstenite::protocol::{Message, Role, WebSocket};
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

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = RelayUrl::parse(&args.next().ok_or("give the relay's URL")?)?;
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
    let (clock, mut wake) = (Clock::start(), None::<buzz_proto::time::MonoTime>);
    let mut machine = Machine::new(config, clock.now())?;
    let (facts, inbox) = channel();
    let ticker = facts.clone();
    thread::spawn(move || {
        while ticker.send(Input::WallClock(Clock::wall())).is_ok() {
            thread::sleep(WALL_CLOCK_PERIOD);
        }
    });
    let (sockets, taken) = (BTreeMap::new(), 0);
    #[rustfmt::skip]
    let mut bot = Bot { url, signer, facts, sockets, taken };
    loop {
        // One timer is enough, and waiting for facts is that timer.
        let span = wake.map_or(WALL_CLOCK_PERIOD, |at| at.saturating_since(clock.now()));
        let input = match inbox.recv_timeout(span) {
            Ok(fact) => fact,
            Err(RecvTimeoutError::Timeout) => Input::Tick,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        for action in machine.handle_input(input, clock.now()) {
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

struct Bot {
    url: RelayUrl,
    signer: LocalSigner,
    facts: Sender<Input>,
    /// The writing ends.
    sockets: BTreeMap<ConnId, WebSocket<End>>,
    taken: u64,
}

impl Bot {
    fn relay(&mut self, order: relay::Action) {
        use relay::{Action as A, Input as F};
        let fact = match order {
            A::Connect { conn, .. } => match dial(&self.url) {
                Ok((reader, writer)) => {
                    let (facts, date) = (self.facts.clone(), None);
                    self.sockets.insert(conn, writer);
                    tell(&self.facts, F::Connected { conn, date });
                    return drop(thread::spawn(move || read(conn, reader, &facts)));
                }
                Err(error) => {
                    eprintln!("no connection: {error}");
                    let cause = ConnectCause::Transport;
                    F::ConnectFailed { conn, cause }
                }
            },
            // The reading end hears of it.
            A::Close { conn, .. } => {
                return drop(self.sockets.remove(&conn).map(|mut it| it.close(None)));
            }
            A::Send { conn, write, text } => {
                let text = String::from_utf8_lossy(&text).into_owned();
                match self.write(conn, Message::text(text)) {
                    true => F::Written { write },
                    false => F::WriteFailed { write, sent: true },
                }
            }
            A::Ping { conn } if self.write(conn, Message::Ping("".into())) => return,
            #[rustfmt::skip]
            A::SignAuth { ticket, challenge, created_at } => {
                let draft = auth_draft(&self.url.relay_tag(), &challenge, None, created_at);
                let signed = self.signer.sign_now(&draft);
                signed.map_or(F::SignFailed { ticket }, |event| F::Signed { ticket, event })
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
        tell(&self.facts, fact);
    }

    fn publish(&self, order: publish::Action) {
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
        drop(self.facts.send(Input::Publish(fact)));
    }

    /// Takes an event, and answers it with its own words.
    fn answer(&mut self, event: &Event) {
        self.taken += 1;
        let draft = Draft::answer(event, event.content(), Clock::wall());
        let submit = publish::Command::Submit {
            job: JobId(self.taken),
            class: Class::Durable,
            route: Route::Post,
            body: Body::SignWhenSent(draft),
            ttl: None,
        };
        drop(
            self.facts
                .send(Input::Publish(publish::Input::Command(submit))),
        );
        let (event, how, taken) = (event.id(), Disposal::Accepted, self.taken);
        tell(&self.facts, relay::Input::Disposed { event, how });
        tell(&self.facts, relay::Input::Capacity { taken });
    }

    fn write(&mut self, conn: ConnId, message: Message) -> bool {
        let writer = self.sockets.get_mut(&conn);
        writer.is_some_and(|writer| writer.send(message).is_ok())
    }
}

/// The machine may have ended; nobody needs the fact then.
fn tell(facts: &Sender<Input>, fact: relay::Input) {
    drop(facts.send(Input::Relay(fact)));
}

/// Reads a socket to its end.
fn read(conn: ConnId, mut reader: WebSocket<End>, facts: &Sender<Input>) {
    use relay::Input as F;
    while let Ok(message) = reader.read() {
        tell(
            facts,
            match message {
                Message::Text(text) => F::Frame {
                    conn,
                    text: text.into(),
                },
                Message::Pong(_) => F::Pong { conn },
                _ => F::Pinged { conn },
            },
        );
    }
    tell(facts, F::Closed { conn, code: None });
}

fn dial(url: &RelayUrl) -> Result<(WebSocket<End>, WebSocket<End>), Box<dyn Error>> {
    let stream = TcpStream::connect((url.host(), url.port()))?;
    stream.set_nodelay(true)?;
    let pen = Arc::new(Mutex::new(stream.try_clone()?));
    let far = End(stream.try_clone()?, Arc::clone(&pen));
    let writer = WebSocket::from_raw_socket(End(stream, pen), Role::Client, None);
    let (reader, _) = client(url.websocket(), far).map_err(|error| error.to_string())?;
    Ok((reader, writer))
}

/// One of two ends of a stream, and the pen that they share: frames are written whole.
struct End(TcpStream, Arc<Mutex<TcpStream>>);

impl Read for End {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.0.read(space)
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut pen = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        pen.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is not there over HTTP is done over the socket.
fn not_found() -> HttpAnswer {
    HttpAnswer {
        status: 404,
        retry_after: None,
        date: None,
        body: Default::default(),
    }
}
