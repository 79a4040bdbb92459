//! The examples, run as a reader of them would.

#![expect(
    clippy::unwrap_used,
    reason = "a set-up that fails has failed the test"
)]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use buzz_dev_relay::client::{Client, Frame, tag, unix_now};
use buzz_dev_relay::faults::Target;
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::{ChannelKind, Role, Visibility};
use buzz_dev_relay::rules::queue::Closing;
use buzz_dev_relay::{DevRelay, Options};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

const CHANNEL: &str = "6f1d2c3b-4a59-4e68-8f70-8192a3b4c5d6";
/// Only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bot_of_the_readme_answers_a_mention() {
    let mut hall = Hall::open().await;
    let _bot = hall.start("echo_agent", &[]);

    hall.until_answered("are you there?").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bot_on_threads_answers_again_after_each_loss_and_keeps_nothing_of_it() {
    let mut hall = Hall::open().await;
    let bot = hall.start("threads", &[CHANNEL]);
    hall.until_answered("first").await;
    let held = bot.held();

    for (closing, words) in [(Closing::Abrupt, "second"), (Closing::Silent, "third")] {
        let target = Target::Key(hall.bot.public().to_owned());
        hall.relay.faults().disconnect(&target, &closing);
        hall.until_answered(words).await;
    }

    // What reads a former socket ends beside the one that answers.
    let settled = async {
        while bot.held() != held {
            sleep(LOOK_EVERY).await;
        }
    };
    let settled = timeout(PATIENCE, settled).await;
    assert!(settled.is_ok(), "{:?}, at first {held:?}", bot.held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bot_on_threads_gives_up_a_relay_that_accepts_and_says_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let _bot = start("threads", &[&url, CHANNEL], &Keys::generate());

    let dials = async { [listener.accept().await, listener.accept().await] };
    let dials = timeout(PATIENCE, dials).await.unwrap();

    assert!(dials.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_bot_on_threads_says_that_it_has_no_tls() {
    let key = Keys::generate();
    let mut command = command("threads", &["wss://127.0.0.1:9", CHANNEL], &key);
    let mut bot = Running(command.stderr(Stdio::piped()).spawn().unwrap());

    let ended = async {
        loop {
            if let Some(status) = bot.0.try_wait().unwrap() {
                return status;
            }
            sleep(LOOK_EVERY).await;
        }
    };
    let status = timeout(PATIENCE, ended).await.unwrap();

    let complaint = std::io::read_to_string(bot.0.stderr.take().unwrap()).unwrap();
    assert!(complaint.contains("begins with ws://"), "{complaint}");
    assert!(!status.success());
}

/// A relay with a person and a bot in one channel.
struct Hall {
    relay: DevRelay,
    person: Keys,
    bot: Keys,
    client: Client,
}

impl Hall {
    async fn open() -> Self {
        let relay = DevRelay::start(Options::default()).await.unwrap();
        let (person, bot) = (Keys::generate(), Keys::generate());
        let (open, stream) = (Visibility::Private, ChannelKind::Stream);
        let created = relay.create_channel(CHANNEL, "test", open, stream, person.public());
        created.unwrap();
        let joined = relay.add_member(CHANNEL, bot.public(), Role::Bot, person.public());
        joined.unwrap();
        let mut client = Client::connect(&relay.url(), &person).await.unwrap();
        let filter = json!({"kinds": [9], "#h": [CHANNEL], "authors": [bot.public()], "limit": 0});
        client.subscribe("answers", filter).await.unwrap();
        Self {
            relay,
            person,
            bot,
            client,
        }
    }

    fn start(&self, example: &str, more: &[&str]) -> Running {
        let url = self.relay.url();
        start(example, &[&[url.as_str()], more].concat(), &self.bot)
    }

    /// Mentions the bot, which answers with the same words. Until it is there its start owes
    /// nothing, so it is said again.
    async fn until_answered(&mut self, words: &str) {
        let answered = async {
            loop {
                let tags = vec![tag("h", CHANNEL), tag("p", self.bot.public())];
                let mention = self.person.sign_event(9, tags, words, unix_now());
                assert!(self.client.publish(&mention).await.unwrap().accepted);
                let answer = until_said(&mut self.client, words);
                if timeout(Duration::from_secs(2), answer).await.is_ok() {
                    return;
                }
            }
        };
        let answered = timeout(PATIENCE, answered).await;
        assert!(answered.is_ok(), "{words} has no answer");
    }
}

async fn until_said(client: &mut Client, words: &str) {
    loop {
        if let Frame::Event { event, .. } = client.next().await.unwrap()
            && event.content == words
        {
            return;
        }
    }
}

fn start(example: &str, args: &[&str], key: &Keys) -> Running {
    let mut command = command(example, args, key);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().unwrap())
}

fn command(example: &str, args: &[&str], key: &Keys) -> Command {
    let mut command = Command::new(built(example));
    command.args(args);
    command.env("BUZZ_PRIVATE_KEY", key.secret_hex());
    command
}

/// The program of an example. A whole `cargo test` builds those of its package before the tests
/// run; one that is told which test to build does not, and a former program would be tried.
fn built(example: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let target = this.parent().and_then(|folder| folder.parent()).unwrap();
    let program = target.join("examples").join(example);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let source = PathBuf::from(source).join(format!("{example}.rs"));
    let date = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    assert!(
        date(&program) >= date(&source),
        "{example} is not built: run `cargo build -p buzz-adapters --examples` before"
    );
    program
}

/// A process that ends with its test.
struct Running(Child);

impl Running {
    /// How many files and sockets it has open, and how many threads run.
    fn held(&self) -> [usize; 2] {
        let process = PathBuf::from("/proc").join(self.0.id().to_string());
        ["fd", "task"].map(|what| std::fs::read_dir(process.join(what)).map_or(0, Iterator::count))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
