//! The examples, run as a reader of them would.

#![expect(
    clippy::unwrap_used,
    reason = "a set-up that fails has failed the test"
)]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use buzz_dev_relay::client::{Client, Frame, tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::{ChannelKind, Role, Visibility};
use buzz_dev_relay::{DevRelay, Options};
use serde_json::json;

const CHANNEL: &str = "6f1d2c3b-4a59-4e68-8f70-8192a3b4c5d6";
/// Only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bot_of_the_readme_answers_a_mention() {
    answers("echo_agent", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bot_on_threads_and_blocking_sockets_answers_too() {
    answers("threads", &[CHANNEL]).await;
}

async fn answers(example: &str, args: &[&str]) {
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
    let mut command = Command::new(built(example));
    command.arg(relay.url()).args(args);
    command.env("BUZZ_PRIVATE_KEY", bot.secret_hex());
    let _running = Running(command.stderr(Stdio::null()).spawn().unwrap());

    // Until the bot is there its start owes nothing, so the question is asked again.
    let asked = async {
        loop {
            let tags = vec![tag("h", CHANNEL), tag("p", bot.public())];
            let mention = person.sign_event(9, tags, "are you there?", unix_now());
            assert!(client.publish(&mention).await.unwrap().accepted);
            let answer = tokio::time::timeout(Duration::from_secs(2), next(&mut client)).await;
            if let Ok(answer) = answer {
                return answer;
            }
        }
    };
    let content = tokio::time::timeout(PATIENCE, asked).await.unwrap();

    assert_eq!(content, "are you there?");
}

/// What is said next.
async fn next(client: &mut Client) -> String {
    loop {
        if let Frame::Event { event, .. } = client.next().await.unwrap() {
            return event.content;
        }
    }
}

/// The program of an example; `cargo test` builds those of its package before the tests run.
fn built(example: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let target = this.parent().and_then(|folder| folder.parent()).unwrap();
    target.join("examples").join(example)
}

/// A process that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
