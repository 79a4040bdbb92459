//! A relay with a channel, its owner and an agent.

use std::process::Command;

use buzz_dev_relay::client::{Client, Frame};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::Settings;
use buzz_dev_relay::rules::channels::{ChannelKind, Role, Visibility};
use buzz_dev_relay::rules::event::Event;
use buzz_dev_relay::{DevRelay, Options};
use serde_json::Value;

use crate::support::agent;

pub(crate) const CHANNEL: &str = "0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501";

pub(crate) struct Room {
    pub(crate) relay: DevRelay,
    pub(crate) owner: Keys,
    pub(crate) agent: Keys,
}

impl Room {
    /// A relay with a channel, its owner and the agent.
    pub(crate) async fn open(settings: Settings) -> Self {
        let options = Options {
            settings,
            ..Options::default()
        };
        let relay = DevRelay::start(options).await.unwrap();
        let (owner, agent) = (Keys::generate(), Keys::generate());
        let kind = ChannelKind::Stream;
        relay
            .create_channel(CHANNEL, "room", Visibility::Private, kind, owner.public())
            .unwrap();
        relay
            .add_member(CHANNEL, agent.public(), Role::Bot, owner.public())
            .unwrap();
        Self {
            relay,
            owner,
            agent,
        }
    }

    pub(crate) fn run(&self, args: &[&str], worker: &[&str]) -> Command {
        run(
            &self.relay.url(),
            &self.agent,
            self.owner.public(),
            args,
            worker,
        )
    }
}

pub(crate) fn run(url: &str, keys: &Keys, owner: &str, args: &[&str], worker: &[&str]) -> Command {
    let base = [
        "run",
        "--json",
        "--no-state",
        "--relay",
        url,
        "--owner",
        owner,
    ];
    let args = base.iter().chain(args).copied();
    let args: Vec<_> = args.chain(["--"]).chain(worker.iter().copied()).collect();
    let mut command = agent(&args);
    command.env("BUZZ_PRIVATE_KEY", keys.secret_hex());
    command
}

/// From here on what is said in the channel is owed an answer.
pub(crate) fn is_joined(fact: &Value) -> bool {
    fact["Joined"]["channel"] == CHANNEL
}

pub(crate) fn is_live(fact: &Value) -> bool {
    fact["Link"].get("Live").is_some()
}

/// Runs in a thread, since it waits for a process while the relay must go on.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

pub(crate) async fn next_event(client: &mut Client) -> Event {
    loop {
        if let Frame::Event { event, .. } = client.next().await.unwrap() {
            return *event;
        }
    }
}
