//! Relays of others, and the worker that repeats what it was asked.

use buzz_dev_relay::keys::Keys;
use serde_json::Value;

use crate::buzz_agent::{Agent, echo_worker};
use crate::peer::{Part, Relay, are_there};
use crate::person::{Person, texts};
use crate::{CHANNEL, OTHER_CHANNEL};

const ANYONE: [&str; 2] = ["--respond-to", "anyone"];

#[tokio::test]
async fn nostr_relay_carries_mentions_and_replies() {
    mentions_are_answered_once(Part::NostrRelay).await;
}

#[tokio::test]
async fn node_relay_carries_mentions_and_replies_and_its_stray_events_are_not_answered() {
    mentions_are_answered_once(Part::NodeRelay).await;
}

/// Neither relay has an HTTP side, so replies go over the socket. One of them delivers live events
/// of every channel; a message elsewhere must stay unanswered on both.
async fn mentions_are_answered_once(part: Part) {
    if !are_there(&[part]) {
        return;
    }
    let (keys, ann) = (Keys::generate(), Keys::generate());
    let relay = Relay::start(part, "open", &[]).await;
    let agent = Agent::start_live(&relay.url(), &keys, &ANYONE, &echo_worker()).await;
    let mut person = Person::join(&relay.url(), &ann, &keys).await;

    let first = person.mention(CHANNEL, "1 first");
    person.publish(&first).await;
    let elsewhere = person.mention(OTHER_CHANNEL, "elsewhere");
    person.publish(&elsewhere).await;
    let reply = person.answer_to(&first).await;
    assert_eq!(reply.content, "1 first");
    person.publish_again(&first).await;
    let second = person.ask("2 second").await;
    assert_eq!(second.content, "2 second");

    // One worker takes them in turn: had it been asked anything else, that came before the third.
    person.ask("3 third").await;
    let stored = person.stored_answers().await;
    assert_eq!(texts(&stored), ["1 first", "2 second", "3 third"]);
    agent.stop().await;
}

#[tokio::test]
async fn a_killed_nostr_relay_is_found_again() {
    the_agent_comes_back(Part::NostrRelay).await;
}

#[tokio::test]
async fn a_killed_node_relay_is_found_again() {
    the_agent_comes_back(Part::NodeRelay).await;
}

async fn the_agent_comes_back(part: Part) {
    if !are_there(&[part]) {
        return;
    }
    let (keys, ann) = (Keys::generate(), Keys::generate());
    let mut relay = Relay::start(part, "open", &[]).await;
    let mut agent = Agent::start_live(&relay.url(), &keys, &ANYONE, &echo_worker()).await;
    let mut person = Person::join(&relay.url(), &ann, &keys).await;
    person.ask("1 before").await;

    relay.kill().await;
    let is_away = |fact: &Value| fact["Link"].get("Waiting").is_some();
    agent.wait_for("a wait", is_away).await;
    relay.start_again().await;
    let mut person = Person::join(&relay.url(), &ann, &keys).await;
    person.ask("2 meanwhile").await;
    person.ask("3 after").await;

    let stored = person.stored_answers().await;
    assert_eq!(texts(&stored), ["1 before", "2 meanwhile", "3 after"]);
    agent.stop().await;
}

#[tokio::test]
async fn node_relay_serves_the_agent_that_logs_in() {
    if !are_there(&[Part::NodeRelay]) {
        return;
    }
    let (keys, ann) = (Keys::generate(), Keys::generate());
    let relay = Relay::start(Part::NodeRelay, "auth", &[]).await;
    let agent = Agent::start_live(&relay.url(), &keys, &ANYONE, &echo_worker()).await;
    let mut person = Person::log_in(&relay.url(), &ann, &keys).await;

    let reply = person.ask("who is there?").await;

    assert_eq!(reply.content, "who is there?");
    assert_eq!(person.stored_answers().await.len(), 1);
    agent.stop().await;
}

/// It never says OK to a login that it accepts.
#[tokio::test]
async fn nostr_relay_serves_the_agent_though_it_confirms_no_login() {
    if !are_there(&[Part::NostrRelay]) {
        return;
    }
    let (keys, ann) = (Keys::generate(), Keys::generate());
    let served = [keys.public(), ann.public()];
    let relay = Relay::start(Part::NostrRelay, "auth", &served).await;
    let agent = Agent::start_live(&relay.url(), &keys, &ANYONE, &echo_worker()).await;
    let mut person = Person::log_in_unconfirmed(&relay.url(), &ann, &keys).await;

    let reply = person.ask("who is there?").await;

    assert_eq!(reply.content, "who is there?");
    assert_eq!(person.stored_answers().await.len(), 1);
    agent.stop().await;
}

/// It answers requests of those who are not on its list with a NOTICE and nothing else.
#[tokio::test]
async fn an_agent_that_nostr_relay_does_not_serve_tells_its_user_why() {
    if !are_there(&[Part::NostrRelay]) {
        return;
    }
    let keys = Keys::generate();
    let relay = Relay::start(Part::NostrRelay, "auth", &[]).await;
    let mut agent = Agent::start(&relay.url(), &keys, &ANYONE, &echo_worker());

    let is_told =
        |fact: &Value| fact["Notice"]["reason"]["text"] == "restricted: permission denied";
    agent.wait_for("the relay's words", is_told).await;

    agent.stop().await;
}
