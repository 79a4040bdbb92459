//! What a subscription can hear: the scope of `#h`, and read gates.

use buzz_dev_relay::client::{tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::Visibility;
use buzz_dev_relay::rules::{Generation, Settings};
use serde_json::json;

use crate::common::*;

#[tokio::test]
async fn a_subscription_without_h_is_deaf_for_channels_but_sees_their_history() {
    let relay = relay().await;
    let owner = Keys::generate();
    room(&relay, ROOM, Visibility::Open, &owner);
    let mut client = client(&relay, &owner).await;
    listen(&mut client, "global", json!({"kinds": [1, 9]})).await;

    let (in_room, global) = (
        message(&owner, ROOM, "in the room"),
        note(&owner, "outside"),
    );
    accept(&mut client, &in_room).await;
    accept(&mut client, &global).await;

    assert_eq!(next(&mut client).await, live("global", &global));
    assert_silent(&mut client).await;
    assert_eq!(history(&mut client, json!({"kinds": [9]})).await, [in_room]);
}

#[tokio::test]
async fn a_channel_subscription_is_deaf_for_global_events() {
    let relay = relay().await;
    let owner = Keys::generate();
    room(&relay, ROOM, Visibility::Open, &owner);
    let mut client = client(&relay, &owner).await;
    listen(&mut client, "room", json!({"#h": [ROOM]})).await;

    accept(&mut client, &note(&owner, "outside")).await;
    let event = message(&owner, ROOM, "inside");
    accept(&mut client, &event).await;

    assert_eq!(next(&mut client).await, live("room", &event));
    assert_silent(&mut client).await;
}

#[tokio::test]
async fn several_channels_in_one_subscription_are_deaf_on_older_relays_only() {
    for (generation, hears) in [(Generation::Old, false), (Generation::New1, true)] {
        let relay = relay_with(Settings {
            generation,
            ..settings()
        })
        .await;
        let owner = Keys::generate();
        room(&relay, ROOM, Visibility::Open, &owner);
        room(&relay, OTHER_ROOM, Visibility::Open, &owner);
        let mut client = client(&relay, &owner).await;
        listen(
            &mut client,
            "both",
            json!({"kinds": [9], "#h": [ROOM, OTHER_ROOM]}),
        )
        .await;

        let event = message(&owner, ROOM, "hello");
        accept(&mut client, &event).await;

        if hears {
            assert_eq!(next(&mut client).await, live("both", &event));
        }
        assert_silent(&mut client).await;
    }
}

#[tokio::test]
async fn several_channels_are_narrowed_or_refused_on_newer_relays() {
    let relay = relay_with(Settings {
        generation: Generation::New1,
        ..settings()
    })
    .await;
    let (owner, stranger) = (Keys::generate(), Keys::generate());
    room(&relay, ROOM, Visibility::Open, &owner);
    room(&relay, OTHER_ROOM, Visibility::Private, &owner);
    let mut admin = client(&relay, &owner).await;
    let mut client = client(&relay, &stranger).await;

    listen(
        &mut client,
        "both",
        json!({"kinds": [9], "#h": [ROOM, OTHER_ROOM]}),
    )
    .await;
    accept(&mut admin, &message(&owner, OTHER_ROOM, "secret")).await;
    assert_silent(&mut client).await;
    let unknown = "11111111-1111-4111-8111-111111111111";
    subscribe(&mut client, "none", json!({"#h": [OTHER_ROOM, unknown]})).await;
    assert_eq!(next(&mut client).await, closed("none", NOT_A_MEMBER));
    let many: Vec<String> = (0..129)
        .map(|index| format!("11111111-1111-4111-8111-{index:012}"))
        .collect();
    subscribe(&mut client, "many", json!({"#h": many})).await;
    assert_eq!(
        next(&mut client).await,
        closed("many", "restricted: too many explicit channels")
    );
}

#[tokio::test]
async fn gated_kinds_need_the_readers_own_key() {
    let relay = relay().await;
    let (keys, other) = (Keys::generate(), Keys::generate());
    let mut client = client(&relay, &keys).await;
    let p = "restricted: p-gated events require #p matching your pubkey";
    let author = "restricted: author-only kinds require authors=[self]";
    let engram = "restricted: agent-engram reads require authors=[self] or #p=[self]";
    let cases = [
        (json!({"kinds": [44_100]}), p),
        (json!({"kinds": [44_100], "#p": [other.public()]}), p),
        (
            json!({"kinds": [24_200], "#p": [keys.public(), other.public()]}),
            p,
        ),
        (json!({}), p),
        (json!({"kinds": [30_300]}), author),
        (json!({"kinds": [30_174]}), engram),
    ];

    for (filter, text) in cases {
        subscribe(&mut client, "s", filter.clone()).await;
        assert_eq!(next(&mut client).await, closed("s", text), "{filter}");
        let reply = query(&relay, &keys, json!([filter])).await;
        assert_eq!((reply.status, reply.json()), (403, json!({"error": text})));
    }
    listen(&mut client, "mine", notices(&keys)).await;
    client
        .send_json(&json!(["COUNT", "c", {"kinds": [1059]}]))
        .await
        .expect("it holds");
    let text = "restricted: p-gated kinds require #p tag matching your pubkey";
    assert_eq!(next(&mut client).await, closed("c", text));
}

#[tokio::test]
async fn personas_and_turn_metrics_are_seen_only_by_whom_they_are_for() {
    let relay = relay().await;
    let (keys, owner, stranger) = (Keys::generate(), Keys::generate(), Keys::generate());
    let mut author = client(&relay, &keys).await;
    let mut other = client(&relay, &stranger).await;
    let mut human = client(&relay, &owner).await;
    listen(&mut other, "personas", json!({"kinds": [30_175]})).await;
    let metrics = json!({"kinds": [44_200], "#p": [owner.public()]});
    listen(&mut human, "metrics", metrics).await;
    let persona = |d: &str, shared| {
        let mut tags = vec![tag("d", d)];
        tags.extend(shared);
        keys.sign_event(30_175, tags, "", unix_now())
    };

    let hidden = persona("hidden", None);
    let shared = persona("shared", Some(tag("shared", "true")));
    let tags = vec![tag("p", owner.public()), tag("agent", keys.public())];
    let metric = keys.sign_event(44_200, tags, "", unix_now());
    for event in [&hidden, &shared, &metric] {
        accept(&mut author, event).await;
    }

    assert_eq!(next(&mut other).await, live("personas", &shared));
    assert_silent(&mut other).await;
    assert_eq!(
        history(&mut other, json!({"kinds": [30_175]})).await,
        [shared]
    );
    assert_eq!(
        history(&mut author, json!({"kinds": [30_175]})).await.len(),
        2
    );
    assert_eq!(next(&mut human).await, live("metrics", &metric));
}
