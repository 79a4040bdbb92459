//! A relay and an agent of others, and nothing of ours but what joins them.

use buzz_dev_relay::keys::Keys;

use crate::agents::sdk_agent;
use crate::buzz_agent::Agent;
use crate::peer::{Part, Relay, are_there};
use crate::person::Person;

#[tokio::test]
async fn node_relay_and_the_example_agent_of_the_sdk_meet() {
    if !are_there(&[Part::NodeRelay, Part::Agents]) {
        return;
    }
    let (keys, owner) = (Keys::generate(), Keys::generate());
    let relay = Relay::start(Part::NodeRelay, "auth", &[]).await;
    let args = ["--owner", owner.public()];
    let agent = Agent::start_live(&relay.url(), &keys, &args, &sdk_agent()).await;
    let mut person = Person::log_in(&relay.url(), &owner, &keys).await;

    let reply = person.ask("please update the configuration").await;

    let text = &reply.content;
    assert!(text.contains("The changes have been applied"), "{text}");
    assert_eq!(person.stored_answers().await.len(), 1);
    agent.stop().await;
}
