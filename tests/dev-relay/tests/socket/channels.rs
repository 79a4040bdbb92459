//! Channels: creation, relay-signed state, visibility, archiving and deletion.

use buzz_dev_relay::client::{Client, tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::{ChannelKind, Visibility};
use buzz_dev_relay::rules::event::Event;
use serde_json::{Value, json};

use crate::common::*;

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
    let Party {
        relay: _alive,
        owner,
        member,
        mut admin,
        mut client,
        ..
    } = Party::meet().await;
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

fn creation(owner: &Keys, id: &str, visibility: &str, kind: &str) -> Event {
    let tags = vec![
        tag("h", id),
        tag("name", "build-room"),
        tag("visibility", visibility),
        tag("channel_type", kind),
    ];
    owner.sign_event(9007, tags, "", unix_now())
}

async fn only(client: &mut Client, filter: Value) -> Event {
    let mut events = history(client, filter).await;
    assert_eq!(events.len(), 1, "{events:?}");
    events.remove(0)
}
