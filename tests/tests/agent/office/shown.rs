//! What people see while an agent works.

use buzz_dev_relay::client::{Client, Frame};
use buzz_dev_relay::rules::event::Event;
use buzz_proto::publish;
use serde_json::json;

use super::{MS, Office};
use crate::support::{CHANNEL, within};

const REACTION: u32 = 7;
const PRESENCE: u32 = 20_001;
const TYPING: u32 = 20_002;

/// Another member's eyes on what is shown and not stored.
async fn watch(office: &Office) -> Client {
    let watcher = office.scene.invite();
    let mut client = Client::connect(&office.scene.url(), &watcher)
        .await
        .unwrap();
    let agent = office.scene.agent_key();
    let presence = json!({"kinds": [PRESENCE], "authors": [agent]});
    client.subscribe("presence", presence).await.unwrap();
    let typing = json!({"kinds": [TYPING], "#h": [CHANNEL]});
    client.subscribe("typing", typing).await.unwrap();
    client
}

async fn sees(client: &mut Client, is_it: impl Fn(&Event) -> bool) -> Event {
    within(async {
        loop {
            if let Frame::Event { event, .. } = client.next().await.unwrap()
                && is_it(&event)
            {
                return *event;
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_bears_a_mark_until_its_outcome_and_another_one_while_it_waits_long() {
    let mut office = Office::open(1, |limits| limits.waiting = 300 * MS).await;
    let words = publish::Config::default();
    let running = office.begin("wait file").await;
    let waiting = office.begin("and me?").await;
    let marks_on = |said: &[Event], message: &Event, word: &str| {
        let names = |event: &&Event| {
            event
                .tags
                .iter()
                .any(|tag| tag[1..] == [message.id.clone()])
        };
        said.iter().filter(names).any(|event| event.content == word)
    };

    let is_seen = |said: &[Event]| marks_on(said, &running, &words.seen);
    office.scene.until_said(REACTION, is_seen).await;
    let is_late = |said: &[Event]| {
        marks_on(said, &waiting, &words.waiting) && !marks_on(said, &waiting, &words.seen)
    };
    office.scene.until_said(REACTION, is_late).await;
    office.let_go("file");

    office.answer_to(&waiting).await;
    office.scene.until_said(REACTION, <[Event]>::is_empty).await;
    office.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_shows_that_it_types_and_at_its_end_that_it_is_gone() {
    let mut office = Office::open(1, |limits| limits.presence = 200 * MS).await;
    let mut watcher = watch(&office).await;
    let message = office.begin("wait file").await;

    let online = |event: &Event| event.kind == PRESENCE && event.content == "online";
    sees(&mut watcher, online).await;
    sees(&mut watcher, |event| event.kind == TYPING).await;
    office.let_go("file");
    office.answer_to(&message).await;
    office.agent.end().await;

    sees(&mut watcher, |event| {
        event.kind == PRESENCE && event.content == "offline"
    })
    .await;
    office.close().await;
}
