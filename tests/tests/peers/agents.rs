//! Agents of others behind `buzz-agent`, on a relay that behaves like Buzz.

use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::{ChannelKind, Role, Visibility};
use buzz_dev_relay::{DevRelay, Options};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::CHANNEL;
use crate::buzz_agent::Agent;
use crate::peer::{Model, Part, are_there, script};
use crate::person::{Person, texts};
use crate::process::is_alive;

/// Said only when the change that the agent asks permission for was allowed.
const CHANGED: &str = "I've successfully updated the configuration";
/// Said in every turn.
const HELPFUL: &str = "I'll help you with that";

const AGES_MS: u32 = 3_600_000;

struct Room {
    relay: DevRelay,
    owner: Keys,
    agent: Keys,
}

impl Room {
    /// A relay with a channel, its owner and the agent.
    async fn open() -> Self {
        let relay = DevRelay::start(Options::default()).await.unwrap();
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

    async fn owned(&self, worker: &[String]) -> (Agent, Person) {
        self.run(&["--owner", self.owner.public()], worker).await
    }

    async fn run(&self, args: &[&str], worker: &[String]) -> (Agent, Person) {
        let url = self.relay.url();
        let agent = Agent::start_live(&url, &self.agent, args, worker).await;
        let person = Person::log_in(&url, &self.owner, &self.agent).await;
        (agent, person)
    }
}

#[tokio::test]
async fn the_example_agent_of_the_sdk_may_change_things_for_its_owner() {
    if !are_there(&[Part::Agents]) {
        return;
    }
    let room = Room::open().await;
    let (agent, mut owner) = room.owned(&sdk_agent()).await;

    let reply = owner.ask("please update the configuration").await;

    assert!(reply.content.starts_with(HELPFUL), "{reply:?}");
    assert!(reply.content.contains(CHANGED), "{reply:?}");
    assert_eq!(owner.stored_answers().await.len(), 1);
    agent.stop().await;
}

#[tokio::test]
async fn the_example_agent_of_the_sdk_may_change_nothing_for_just_anyone() {
    if !are_there(&[Part::Agents]) {
        return;
    }
    let room = Room::open().await;
    let (agent, mut person) = room.run(&["--respond-to", "anyone"], &sdk_agent()).await;

    let reply = person.ask("please update the configuration").await;

    assert!(reply.content.starts_with(HELPFUL), "{reply:?}");
    assert!(!reply.content.contains(CHANGED), "{reply:?}");
    assert_eq!(person.stored_answers().await.len(), 1);
    agent.stop().await;
}

#[tokio::test]
async fn codex_answers_what_it_was_asked_and_leaves_nothing_behind() {
    if !are_there(&[Part::Agents]) {
        return;
    }
    let (room, model) = (Room::open().await, Model::start().await);
    let (agent, mut owner) = room.owned(&codex_agent(&model)).await;

    let first = owner.ask("1 how are you?").await;
    let second = owner.ask("2 and now?").await;

    assert!(first.content.starts_with("mock: "), "{first:?}");
    assert!(first.content.contains("1 how are you?"), "{first:?}");
    assert!(second.content.contains("2 and now?"), "{second:?}");
    assert_eq!(owner.stored_answers().await.len(), 2);
    // It runs on when its input ends, and has to be told.
    agent.stop().await;
}

#[tokio::test]
async fn a_turn_of_codex_that_takes_for_ever_ends_when_its_owner_says_so() {
    if !are_there(&[Part::Agents]) {
        return;
    }
    let (room, mut model) = (Room::open().await, Model::start().await);
    let (mut agent, mut owner) = room.owned(&codex_agent(&model)).await;
    model.restart(AGES_MS).await;
    let question = owner.mention(CHANNEL, "think hard");
    owner.publish(&question).await;
    model.is_asked().await;

    let cancel = owner.reply(&question, "!cancel");
    owner.publish(&cancel).await;
    agent.wait_for("an ended turn", is_turn_over).await;
    model.restart(0).await;
    let reply = owner.ask("still there?").await;

    assert!(reply.content.contains("still there?"), "{reply:?}");
    assert_eq!(agent.workers().len(), 1);
    let stored = owner.stored_answers().await;
    assert!(
        !texts(&stored).iter().any(|text| text.contains("think")),
        "{stored:?}"
    );
    agent.stop().await;
}

#[tokio::test]
async fn an_agent_that_ignores_the_cancel_is_replaced() {
    if !are_there(&[Part::Agents]) {
        return;
    }
    let (room, mut model) = (Room::open().await, Model::start().await);
    let (mut agent, mut owner) = room.owned(&codex_agent(&model)).await;
    model.restart(AGES_MS).await;
    let question = owner.mention(CHANNEL, "think hard");
    owner.publish(&question).await;
    model.is_asked().await;
    let stuck = agent.workers()[0];
    kill(stuck, Signal::SIGSTOP).unwrap();

    let cancel = owner.reply(&question, "!cancel");
    owner.publish(&cancel).await;
    agent.wait_for("an ended turn", is_turn_over).await;
    model.restart(0).await;
    let reply = owner.ask("still there?").await;

    assert!(reply.content.contains("still there?"), "{reply:?}");
    assert_eq!(agent.workers().len(), 2);
    assert!(!is_alive(stuck));
    agent.stop().await;
}

fn is_turn_over(fact: &Value) -> bool {
    fact.get("TurnEnded").is_some()
}

/// The command of the example agent of the SDK.
pub(crate) fn sdk_agent() -> Vec<String> {
    vec![script("sdk-agent.sh").display().to_string()]
}

fn codex_agent(model: &Model) -> Vec<String> {
    let script = script("codex-agent.sh").display().to_string();
    [script].into_iter().chain(model.arguments()).collect()
}
