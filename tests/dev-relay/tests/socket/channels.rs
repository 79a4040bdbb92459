//! Channels: creation, membership, relay-signed state, the scope of `#h`, and read gates.

use buzz_dev_relay::DevRelay;
use buzz_dev_relay::client::{Client, Frame, tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::{ChannelKind, Role, Visibility};
use buzz_dev_relay::rules::event::Event;
use serde_json::{Value, json};

use crate::common::*;

const NOT_A_MEMBER: &str = "restricted: not a channel member";
const REVOKED: &str = "restricted: channel access revoked";

#[tokio::test]
async fn creating_a_channel_over_the_wire_yields_its_signed_state() {
    let relay = relay().await;
    let owner = Keys::generate();
    let creation = creation(&owner, ROOM, "private", "stream");

    let reply = post_event(&relay, &owner, &creation).await;

    assert_eq!(
        reply.json(),
        json!({"event_id": creation.id, "accepted": true, "message": ""})
    );
    let mut client = client(&relay, &owner).await;
    let metadata = only(&mut client, json!({"kinds": [39_000], "#d": [ROOM]})).await;
    assert_eq!(metadata.pubkey, relay.public_key());
    assert_eq!(metadata.forgery(), None);
    let tags = json!([
        ["d", ROOM],
        ["name", "build-room"],
        ["private"],
        ["closed"],
        ["t", "stream"]
    ]);
    assert_eq!(json!(metadata.tags), tags);
    let members = only(&mut client, json!({"kinds": [39_002], "#d": [ROOM]})).await;
    assert_eq!(
        json!(members.tags),
        json!([["d", ROOM], ["p", owner.public(), "", "owner"]])
    );
    let admins = only(&mut client, json!({"kinds": [39_001], "#d": [ROOM]})).await;
    assert_eq!(
        json!(admins.tags),
        json!([["d", ROOM], ["p", owner.public(), "owner"]])
    );
    let system = only(&mut client, json!({"kinds": [40_099], "#h": [ROOM]})).await;
    let content: Value = serde_json::from_str(&system.content).expect("JSON");
    assert_eq!(
        content,
        json!({"type": "channel_created", "actor": owner.public()})
    );
}

#[tokio::test]
async fn a_channel_id_is_taken_once_and_odd_values_are_refused() {
    let relay = relay().await;
    let owner = Keys::generate();
    let mut client = client(&relay, &owner).await;
    let first = creation(&owner, ROOM, "open", "stream");
    accept(&mut client, &first).await;

    let again = owner.sign_event(9007, vec![tag("h", ROOM)], "again", unix_now());
    assert_eq!(
        refusal(&mut client, &again).await,
        "duplicate: channel already exists"
    );
    let odd = creation(&owner, OTHER_ROOM, "secret", "stream");
    assert_eq!(
        refusal(&mut client, &odd).await,
        "invalid visibility: secret"
    );

    let reply = post_event(&relay, &owner, &again).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json()["accepted"], false);
}

#[tokio::test]
async fn a_direct_conversation_is_marked_hidden() {
    let relay = relay().await;
    let (owner, peer) = (Keys::generate(), Keys::generate());
    relay
        .create_channel(
            ROOM,
            "",
            Visibility::Private,
            ChannelKind::Dm,
            owner.public(),
        )
        .expect("the room is new");
    join(&relay, ROOM, &peer, &owner);
    let mut client = client(&relay, &peer).await;

    let metadata = only(&mut client, json!({"kinds": [39_000], "#d": [ROOM]})).await;

    assert!(metadata.tags.contains(&vec!["hidden".to_owned()]));
    assert_eq!(metadata.tag("t"), Some("dm"));
    assert_eq!(metadata.tag_values("p").count(), 2);
    let mut stranger = crate::common::client(&relay, &Keys::generate()).await;
    subscribe(&mut stranger, "s", json!({"kinds": [9], "#h": [ROOM]})).await;
    assert_eq!(next(&mut stranger).await, closed("s", NOT_A_MEMBER));
}

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
    let relay = relay().await;
    let (owner, agent) = (Keys::generate(), Keys::generate());
    room(&relay, ROOM, Visibility::Private, &owner);
    join(&relay, ROOM, &agent, &owner);
    let mut admin = client(&relay, &owner).await;
    let mut member = client(&relay, &agent).await;
    listen(&mut member, "me", notices(&agent)).await;
    listen(&mut member, "room", json!({"kinds": [9], "#h": [ROOM]})).await;

    let tags = vec![tag("h", ROOM), tag("p", agent.public())];
    accept(&mut admin, &owner.sign_event(9001, tags, "", unix_now())).await;

    let removed = live_event(&mut member).await;
    assert_eq!(removed.kind, 44_101);
    assert!(removed.content.contains("member_removed"));
    assert_eq!(next(&mut member).await, closed("room", REVOKED));
    accept(&mut admin, &message(&owner, ROOM, "unheard")).await;
    assert_silent(&mut member).await;
    subscribe(&mut member, "room", json!({"kinds": [9], "#h": [ROOM]})).await;
    assert_eq!(next(&mut member).await, closed("room", NOT_A_MEMBER));
    assert_eq!(
        refusal(&mut member, &message(&agent, ROOM, "no")).await,
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

    assert!(
        refusal(&mut client, &own(9021, OTHER_ROOM))
            .await
            .starts_with("restricted:")
    );
}

#[tokio::test]
async fn an_open_channel_is_for_everybody_and_a_private_one_for_members() {
    let relay = relay().await;
    let (owner, stranger) = (Keys::generate(), Keys::generate());
    room(&relay, ROOM, Visibility::Open, &owner);
    room(&relay, OTHER_ROOM, Visibility::Private, &owner);
    let mut admin = client(&relay, &owner).await;
    let mut client = client(&relay, &stranger).await;
    let secret = message(&owner, OTHER_ROOM, "secret");
    accept(&mut admin, &secret).await;

    let open = message(&stranger, ROOM, "hello");
    accept(&mut client, &open).await;

    let in_room = history(&mut client, json!({"kinds": [9], "#h": [ROOM]})).await;
    assert_eq!(ids(&in_room), [open.id.as_str()]);
    assert_eq!(history(&mut client, json!({"kinds": [9]})).await, [open]);
    subscribe(&mut client, "s", json!({"kinds": [9], "#h": [OTHER_ROOM]})).await;
    assert_eq!(next(&mut client).await, closed("s", NOT_A_MEMBER));
    let reply = query(
        &relay,
        &stranger,
        json!([{"kinds": [9], "#h": [OTHER_ROOM]}]),
    )
    .await;
    assert_eq!((reply.status, reply.body.as_str()), (200, "[]"));
    let reply = post_event(&relay, &stranger, &message(&stranger, OTHER_ROOM, "no")).await;
    assert_eq!(
        (reply.status, reply.json()),
        (400, json!({"error": NOT_A_MEMBER}))
    );
}

#[tokio::test]
async fn an_open_channel_turned_private_evicts_strangers_only() {
    let relay = relay().await;
    let (owner, stranger) = (Keys::generate(), Keys::generate());
    room(&relay, ROOM, Visibility::Open, &owner);
    let mut admin = client(&relay, &owner).await;
    let mut client = client(&relay, &stranger).await;
    for client in [&mut admin, &mut client] {
        listen(client, "room", json!({"kinds": [9], "#h": [ROOM]})).await;
    }

    let tags = vec![tag("h", ROOM), tag("visibility", "private")];
    accept(&mut admin, &owner.sign_event(9002, tags, "", unix_now())).await;

    assert_eq!(next(&mut client).await, closed("room", REVOKED));
    assert_silent(&mut admin).await;
}

#[tokio::test]
async fn an_archived_channel_refuses_writes_and_unarchiving_repeats_the_notice() {
    let relay = relay().await;
    let owner = Keys::generate();
    room(&relay, ROOM, Visibility::Private, &owner);
    let mut client = client(&relay, &owner).await;
    listen(&mut client, "room", json!({"kinds": [9], "#h": [ROOM]})).await;
    let archive = |value| {
        let tags = vec![tag("h", ROOM), tag("archived", value)];
        owner.sign_event(9002, tags, value, unix_now())
    };

    accept(&mut client, &archive("true")).await;
    let refused = refusal(&mut client, &message(&owner, ROOM, "no")).await;
    let metadata = only(&mut client, json!({"kinds": [39_000], "#d": [ROOM]})).await;
    listen(&mut client, "me", notices(&owner)).await;
    accept(&mut client, &archive("false")).await;

    assert_eq!(refused, "invalid: channel is archived");
    assert_eq!(metadata.tag("archived"), Some("true"));
    assert_eq!(live_event(&mut client).await.kind, 44_100);
    accept(&mut client, &message(&owner, ROOM, "yes")).await;
}

#[tokio::test]
async fn a_deleted_channel_goes_silently() {
    let relay = relay().await;
    let (owner, member) = (Keys::generate(), Keys::generate());
    room(&relay, ROOM, Visibility::Private, &owner);
    join(&relay, ROOM, &member, &owner);
    let mut admin = client(&relay, &owner).await;
    let mut client = client(&relay, &member).await;
    listen(
        &mut client,
        "room",
        json!({"kinds": [9, 40_099], "#h": [ROOM]}),
    )
    .await;

    accept(
        &mut admin,
        &owner.sign_event(9008, vec![tag("h", ROOM)], "", unix_now()),
    )
    .await;

    assert_silent(&mut client).await;
    assert_eq!(
        refusal(&mut client, &message(&member, ROOM, "no")).await,
        NOT_A_MEMBER
    );
}

#[tokio::test]
async fn metadata_of_a_burst_of_changes_runs_ahead_of_the_clock() {
    let relay = relay().await;
    let owner = Keys::generate();
    let before = unix_now();
    room(&relay, ROOM, Visibility::Open, &owner);
    for _ in 0..5 {
        join(&relay, ROOM, &Keys::generate(), &owner);
    }
    let mut client = client(&relay, &owner).await;

    let members = only(&mut client, json!({"kinds": [39_002], "#d": [ROOM]})).await;

    assert!(members.created_at >= before + 5);
    assert_eq!(members.tag_values("p").count(), 6);
}

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
    let relay = relay().await;
    let (owner, agent) = (Keys::generate(), Keys::generate());
    room(&relay, ROOM, Visibility::Private, &owner);
    join(&relay, ROOM, &agent, &owner);
    let target = message(&owner, ROOM, "question");
    let mut admin = client(&relay, &owner).await;
    let mut member = client(&relay, &agent).await;
    accept(&mut admin, &target).await;
    listen(&mut admin, "room", json!({"kinds": [7], "#h": [ROOM]})).await;
    let react = |age| agent.sign_event(7, vec![tag("e", &target.id)], "👀", unix_now() - age);

    let reaction = react(1);
    accept(&mut member, &reaction).await;

    assert_eq!(next(&mut admin).await, live("room", &reaction));
    let text = refusal(&mut member, &react(2)).await;
    assert_eq!(text, "duplicate: reaction already exists");
    let mut stranger = client(&relay, &Keys::generate()).await;
    assert!(
        history(&mut stranger, json!({"kinds": [7]}))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn a_moderator_deletes_messages_of_others() {
    let relay = relay().await;
    let (owner, member) = (Keys::generate(), Keys::generate());
    room(&relay, ROOM, Visibility::Private, &owner);
    join(&relay, ROOM, &member, &owner);
    let mut admin = client(&relay, &owner).await;
    let mut client = client(&relay, &member).await;
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

    assert!(
        refusal(&mut client, &deletion(&member))
            .await
            .starts_with("restricted:")
    );
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
    assert!(
        refusal(&mut admin, &adding)
            .await
            .starts_with("restricted:")
    );
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

fn creation(owner: &Keys, id: &str, visibility: &str, kind: &str) -> Event {
    let tags = vec![
        tag("h", id),
        tag("name", "build-room"),
        tag("visibility", visibility),
        tag("channel_type", kind),
    ];
    owner.sign_event(9007, tags, "", unix_now())
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

async fn only(client: &mut Client, filter: Value) -> Event {
    let mut events = history(client, filter).await;
    assert_eq!(events.len(), 1, "{events:?}");
    events.remove(0)
}

async fn live_event(client: &mut Client) -> Event {
    let frame = next(client).await;
    let Frame::Event { event, .. } = frame else {
        panic!("no event: {frame:?}")
    };
    *event
}
