//! Somebody who writes to the agent and reads what it answers.

use buzz_dev_relay::client::{Client, Frame, tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::event::Event;
use serde_json::json;

use crate::{CHANNEL, within};

/// A connection of a person, who follows the answers of one agent in the channel.
pub(crate) struct Person {
    keys: Keys,
    agent: String,
    client: Client,
}

impl Person {
    /// On a relay that asks nobody who they are.
    pub(crate) async fn join(url: &str, keys: &Keys, agent: &Keys) -> Self {
        let client = within("a connection", Client::open(url)).await.unwrap();
        Self::follow(client, keys, agent).await
    }

    /// On a relay that wants NIP-42.
    pub(crate) async fn log_in(url: &str, keys: &Keys, agent: &Keys) -> Self {
        let client = within("a login", Client::connect(url, keys)).await;
        Self::follow(client.unwrap(), keys, agent).await
    }

    /// On a relay that wants NIP-42 and says nothing when it is content.
    pub(crate) async fn log_in_unconfirmed(url: &str, keys: &Keys, agent: &Keys) -> Self {
        let client = within("a connection", Client::open(url)).await;
        let mut client = client.unwrap();
        let frame = within("a challenge", client.next()).await.unwrap();
        let Frame::Auth(challenge) = frame else {
            panic!("a challenge comes first, not {frame:?}");
        };
        let tags = vec![tag("relay", url), tag("challenge", &challenge)];
        let login = keys.sign_event(22_242, tags, "", unix_now());
        client.send_json(&json!(["AUTH", login])).await.unwrap();
        // It takes frames one after the other.
        Self::follow(client, keys, agent).await
    }

    async fn follow(mut client: Client, keys: &Keys, agent: &Keys) -> Self {
        let agent = agent.public().to_owned();
        let filter = json!({"kinds": [9], "authors": [&agent], "#h": [CHANNEL]});
        client.subscribe("answers", filter).await.unwrap();
        Self {
            keys: keys.clone(),
            agent,
            client,
        }
    }

    /// A message that mentions the agent.
    pub(crate) fn mention(&self, channel: &str, text: &str) -> Event {
        let tags = vec![tag("h", channel), tag("p", &self.agent)];
        self.keys.sign_event(9, tags, text, unix_now())
    }

    /// A message that mentions the agent and replies to `event`.
    pub(crate) fn reply(&self, event: &Event, text: &str) -> Event {
        let marked = ["e", &event.id, "", "reply"].map(str::to_owned).to_vec();
        let tags = vec![tag("h", CHANNEL), tag("p", &self.agent), marked];
        self.keys.sign_event(9, tags, text, unix_now())
    }

    pub(crate) async fn publish(&mut self, event: &Event) {
        let receipt = within("a receipt", self.client.publish(event)).await;
        let receipt = receipt.unwrap();
        assert!(receipt.accepted, "{receipt:?}");
    }

    /// Publishes what the relay has already, whatever it says to that.
    pub(crate) async fn publish_again(&mut self, event: &Event) {
        within("a receipt", self.client.publish(event))
            .await
            .unwrap();
    }

    /// Mentions the agent and waits for its answer, which has to be one.
    pub(crate) async fn ask(&mut self, text: &str) -> Event {
        let mention = self.mention(CHANNEL, text);
        self.publish(&mention).await;
        self.answer_to(&mention).await
    }

    /// Waits for the agent's answer to `mention`, which has to be well-formed.
    pub(crate) async fn answer_to(&mut self, mention: &Event) -> Event {
        let answer = within("an answer", self.next_answer_to(mention)).await;
        let has = |tag: &[&str]| answer.tags.iter().any(|held| held == tag);
        assert!(has(&["h", CHANNEL]), "{answer:?}");
        assert!(has(&["p", self.keys.public()]), "{answer:?}");
        assert_eq!(answer.computed_id().as_slice(), unhex(&answer.id));
        assert_eq!(answer.forgery(), None);
        answer
    }

    /// What the relay holds of the agent's answers in the channel, in the order of their texts.
    pub(crate) async fn stored_answers(&mut self) -> Vec<Event> {
        let filter = json!({"kinds": [9], "authors": [self.agent], "#h": [CHANNEL]});
        let events = within("stored answers", self.client.history("stored", filter)).await;
        let mut events = events.unwrap();
        self.client.unsubscribe("stored").await.unwrap();
        events.sort_by(|a, b| a.content.cmp(&b.content));
        events
    }

    async fn next_answer_to(&mut self, mention: &Event) -> Event {
        loop {
            let frame = self.client.next().await.unwrap();
            // One of the relays delivers live events of other authors and channels, too.
            if let Frame::Event { event, .. } = frame
                && event.pubkey == self.agent
                && event.marked("reply") == Some(&mention.id)
            {
                return *event;
            }
        }
    }
}

/// The texts of events.
pub(crate) fn texts(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.content.as_str()).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks_exact(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}
