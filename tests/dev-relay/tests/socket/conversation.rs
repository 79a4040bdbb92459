//! What is said in a channel: replies, reactions, deletions, and frames for an observer.

use buzz_dev_relay::client::{tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::Visibility;
use serde_json::json;

use crate::common::*;

#[tokio::test]
async fn a_reply_needs_its_parent_in_the_same_channel() {
    let relay = relay().await;
    let owner = Keys::generate();
    room(&relay, ROOM, Visibility::Open, &owner);
    room(&relay, OTHER_ROOM, Visibility::Open, &owner);
    let mut client = client(&relay, &owner).await;
    let parent = message(&owner, ROOM, "question");
    accept(&mut client, &parent).await;
    let reply = |room: &str, marks: &[(&str, &str)]| {
        let mut tags = vec![tag("h", room)];
        tags.extend(marks.iter().map(|(mark, id)| {
            ["e", *id, "", *mark]
                .iter()
                .map(|part| (*part).to_owned())
                .collect()
        }));
        owner.sign_event(9, tags, "answer", unix_now())
    };
    let unknown = "ab".repeat(32);

    let missing = "invalid: reply parent not found";
    for (room, parent) in [(OTHER_ROOM, &parent.id), (ROOM, &unknown)] {
        let event = reply(room, &[("reply", parent)]);
        assert_eq!(refusal(&mut client, &event).await, missing);
    }
    let direct = reply(ROOM, &[("reply", &parent.id)]);
    accept(&mut client, &direct).await;
    accept(
        &mut client,
        &reply(ROOM, &[("root", &parent.id), ("reply", &direct.id)]),
    )
    .await;
    let text = refusal(
        &mut client,
        &reply(ROOM, &[("root", &unknown), ("reply", &direct.id)]),
    )
    .await;
    assert_eq!(text, "invalid: root tag does not match thread ancestry");
    accept(&mut client, &reply(ROOM, &[("root", &unknown)])).await;
}

#[tokio::test]
async fn a_reaction_belongs_to_the_channel_of_its_target_and_counts_once() {
    let Party {
        owner,
        relay,
        member,
        mut admin,
        mut client,
        ..
    } = Party::meet().await;
    let target = message(&owner, ROOM, "question");
    accept(&mut admin, &target).await;
    listen(&mut admin, "room", json!({"kinds": [7], "#h": [ROOM]})).await;
    let react = |age| member.sign_event(7, vec![tag("e", &target.id)], "👀", unix_now() - age);

    let reaction = react(1);
    accept(&mut client, &reaction).await;

    assert_eq!(next(&mut admin).await, live("room", &reaction));
    let text = refusal(&mut client, &react(2)).await;
    assert_eq!(text, "duplicate: reaction already exists");
    let mut stranger = crate::common::client(&relay, &Keys::generate()).await;
    assert!(
        history(&mut stranger, json!({"kinds": [7]}))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn a_moderator_deletes_messages_of_others() {
    let Party {
        relay: _alive,
        owner,
        member,
        mut admin,
        mut client,
        ..
    } = Party::meet().await;
    let event = message(&member, ROOM, "rude");
    accept(&mut client, &event).await;
    let deletion = |keys: &Keys| {
        keys.sign_event(
            9005,
            vec![tag("h", ROOM), tag("e", &event.id)],
            "",
            unix_now(),
        )
    };

    refused(&mut client, &deletion(&member), "restricted:").await;
    accept(&mut admin, &deletion(&owner)).await;

    assert!(
        history(&mut client, json!({"kinds": [9], "#h": [ROOM]}))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn observer_frames_pass_between_an_agent_and_its_recorded_owner() {
    let relay = relay().await;
    let (owner, agent, stranger) = (Keys::generate(), Keys::generate(), Keys::generate());
    relay.set_owner(agent.public(), owner.public());
    let mut human = client(&relay, &owner).await;
    let mut program = client(&relay, &agent).await;
    let mut other = client(&relay, &stranger).await;
    let filter = json!({"kinds": [24_200], "#p": [agent.public()]});
    listen(&mut program, "control", filter).await;
    let frame = |from: &Keys, to: &Keys| {
        let tags = vec![
            tag("p", to.public()),
            tag("agent", agent.public()),
            tag("frame", "control"),
        ];
        from.sign_event(24_200, tags, &"A".repeat(132), unix_now())
    };

    let control = frame(&owner, &agent);
    accept(&mut human, &control).await;

    assert_eq!(next(&mut program).await, live("control", &control));
    let tags = vec![
        tag("p", agent.public()),
        tag("agent", agent.public()),
        tag("frame", "odd"),
    ];
    accept(
        &mut human,
        &owner.sign_event(24_200, tags, &"A".repeat(132), unix_now()),
    )
    .await;
    assert_silent(&mut program).await;
    let text = refusal(&mut other, &frame(&stranger, &agent)).await;
    assert_eq!(
        text,
        "restricted: observer frame is not authorized for this agent owner"
    );
}
