//! Who belongs to a channel: adding, removing, joining, leaving, and what a member may not do.

use buzz_dev_relay::DevRelay;
use buzz_dev_relay::client::{tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::{Role, Visibility};
use buzz_dev_relay::rules::event::Event;
use serde_json::{Value, json};

use crate::common::*;

#[tokio::test]
async fn adding_a_member_announces_it_in_the_channel_and_to_the_member() {
    let relay = relay().await;
    let (owner, agent) = (Keys::generate(), Keys::generate());
    room(&relay, ROOM, Visibility::Private, &owner);
    let mut admin = client(&relay, &owner).await;
    let mut newcomer = client(&relay, &agent).await;
    listen(
        &mut admin,
        "room",
        json!({"kinds": [40_099, 39_002], "#h": [ROOM]}),
    )
    .await;
    listen(&mut newcomer, "me", notices(&agent)).await;

    accept(&mut admin, &addition(&owner, ROOM, &agent, "bot")).await;

    let system = live_event(&mut admin).await;
    let content: Value = serde_json::from_str(&system.content).expect("JSON");
    let expected =
        json!({"type": "member_joined", "actor": owner.public(), "target": agent.public()});
    assert_eq!((system.kind, content), (40_099, expected));
    let members = live_event(&mut admin).await;
    assert!(json!(members.tags).to_string().contains("\"bot\""));
    let added = live_event(&mut newcomer).await;
    let content: Value = serde_json::from_str(&added.content).expect("JSON");
    let expected = json!({"type": "member_added", "actor": owner.public(), "channel_id": ROOM});
    assert_eq!((added.kind, content), (44_100, expected));
    assert_eq!(
        json!(added.tags),
        json!([["p", agent.public()], ["h", ROOM]])
    );
    assert_eq!(added.pubkey, relay.public_key());
    let found = query(
        &relay,
        &agent,
        json!([{"kinds": [39_002], "#p": [agent.public()]}]),
    )
    .await;
    assert_eq!(found.json()[0]["tags"][0], json!(["d", ROOM]));
}

#[tokio::test]
async fn removal_revokes_the_subscription_and_tells_the_member() {
    let Party {
        relay: _alive,
        owner,
        member,
        mut admin,
        mut client,
        ..
    } = Party::meet().await;
    listen(&mut client, "me", notices(&member)).await;
    listen(&mut client, "room", json!({"kinds": [9], "#h": [ROOM]})).await;

    let tags = vec![tag("h", ROOM), tag("p", member.public())];
    accept(&mut admin, &owner.sign_event(9001, tags, "", unix_now())).await;

    let removed = live_event(&mut client).await;
    assert_eq!(removed.kind, 44_101);
    assert!(removed.content.contains("member_removed"));
    assert_eq!(next(&mut client).await, closed("room", REVOKED));
    accept(&mut admin, &message(&owner, ROOM, "unheard")).await;
    assert_silent(&mut client).await;
    subscribe(&mut client, "room", json!({"kinds": [9], "#h": [ROOM]})).await;
    assert_eq!(next(&mut client).await, closed("room", NOT_A_MEMBER));
    assert_eq!(
        refusal(&mut client, &message(&member, ROOM, "no")).await,
        NOT_A_MEMBER
    );
}

#[tokio::test]
async fn leaving_and_joining_work_by_the_members_own_hand() {
    let relay = relay().await;
    let (owner, agent) = (Keys::generate(), Keys::generate());
    room(&relay, ROOM, Visibility::Open, &owner);
    room(&relay, OTHER_ROOM, Visibility::Private, &owner);
    let mut client = client(&relay, &agent).await;
    let own = |kind, room| agent.sign_event(kind, vec![tag("h", room)], "", unix_now());

    accept(&mut client, &own(9021, ROOM)).await;
    assert!(is_member(&relay, ROOM, &agent));
    accept(&mut client, &own(9022, ROOM)).await;
    assert!(!is_member(&relay, ROOM, &agent));

    refused(&mut client, &own(9021, OTHER_ROOM), "restricted:").await;
}

#[tokio::test]
async fn the_policy_of_an_agent_decides_who_adds_it() {
    let relay = relay().await;
    let (owner, agent) = (Keys::generate(), Keys::generate());
    room(&relay, ROOM, Visibility::Private, &owner);
    let mut admin = client(&relay, &owner).await;
    let mut program = client(&relay, &agent).await;
    let policy = json!({"channel_add_policy": "owner_only"}).to_string();
    accept(
        &mut program,
        &agent.sign_event(10_100, vec![], &policy, unix_now()),
    )
    .await;

    let adding = addition(&owner, ROOM, &agent, "bot");
    refused(&mut admin, &adding, "restricted:").await;
    relay.set_owner(agent.public(), owner.public());
    accept(&mut admin, &adding).await;

    assert!(is_member(&relay, ROOM, &agent));
}

#[tokio::test]
async fn a_timeout_stops_writing_and_not_reading() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    let until = unix_now() + 600;
    relay.time_out(keys.public(), until);

    let text = refusal(&mut client, &note(&keys, "no")).await;

    assert_eq!(text, format!("restricted: you are timed out until {until}"));
    listen(&mut client, "s", json!({"kinds": [1]})).await;
}

fn addition(actor: &Keys, id: &str, member: &Keys, role: &str) -> Event {
    let tags = vec![tag("h", id), tag("p", member.public()), tag("role", role)];
    actor.sign_event(9000, tags, "", unix_now())
}

fn is_member(relay: &DevRelay, id: &str, keys: &Keys) -> bool {
    let channel = relay.channel(id).expect("the room exists");
    let role = channel.role_of(keys.public());
    assert_ne!(role, Some(Role::Guest));
    role.is_some()
}
