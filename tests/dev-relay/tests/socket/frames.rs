//! NIP-01 over a socket: publishing, subscribing and what is refused.

use buzz_dev_relay::client::{Frame, tag, unix_now};
use buzz_dev_relay::keys::Keys;
use serde_json::json;

use crate::common::*;

#[tokio::test]
async fn a_published_event_is_acknowledged_then_stored() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    let event = note(&keys, "hello");

    let receipt = publish(&mut client, &event).await;

    assert_eq!((receipt.accepted, receipt.message.as_str()), (true, ""));
    let stored = history(&mut client, json!({"ids": [event.id]})).await;
    assert_eq!(stored, [event]);
}

#[tokio::test]
async fn the_same_event_again_is_a_duplicate_and_true() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    let event = note(&keys, "hello");
    accept(&mut client, &event).await;

    let receipt = publish(&mut client, &event).await;

    assert_eq!(
        (receipt.accepted, receipt.message.as_str()),
        (true, "duplicate:")
    );
    assert_eq!(relay.stats().duplicates, 1);
}

#[tokio::test]
async fn an_ok_comes_before_the_live_event_it_caused() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    listen(&mut client, "live", json!({"kinds": [1]})).await;
    let event = note(&keys, "hello");

    client
        .send_json(&json!(["EVENT", event]))
        .await
        .expect("the connection holds");

    assert!(matches!(next(&mut client).await, Frame::Ok(_)));
    assert_eq!(next(&mut client).await, live("live", &event));
}

#[tokio::test]
async fn close_is_answered_even_for_an_unknown_id_and_ends_delivery() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    listen(&mut client, "live", json!({"kinds": [1]})).await;

    for id in ["live", "never-opened"] {
        client.unsubscribe(id).await.expect("the connection holds");
        assert_eq!(next(&mut client).await, closed(id, ""));
    }
    accept(&mut client, &note(&keys, "unheard")).await;

    assert_silent(&mut client).await;
}

#[tokio::test]
async fn a_subscription_id_used_again_replaces_the_subscription() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    listen(&mut client, "live", json!({"kinds": [1]})).await;
    listen(&mut client, "live", json!({"kinds": [0]})).await;

    accept(&mut client, &note(&keys, "unheard")).await;

    assert_silent(&mut client).await;
}

#[tokio::test]
async fn ephemeral_events_are_passed_on_and_not_kept() {
    let relay = relay().await;
    let (keys, other) = (Keys::generate(), Keys::generate());
    let mut listener = client(&relay, &other).await;
    let mut client = client(&relay, &keys).await;
    listen(&mut listener, "presence", json!({"kinds": [20001]})).await;
    let event = keys.sign_event(20_001, vec![], "online", unix_now());

    accept(&mut client, &event).await;

    assert_eq!(next(&mut listener).await, live("presence", &event));
    assert!(
        history(&mut client, json!({"kinds": [20001]}))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn an_author_deletes_its_own_events_and_no_others() {
    let relay = relay().await;
    let (keys, other) = (Keys::generate(), Keys::generate());
    let mut client = client(&relay, &keys).await;
    let mut stranger = crate::common::client(&relay, &other).await;
    let event = note(&keys, "regretted");
    accept(&mut client, &event).await;

    let foreign = other.sign_event(5, vec![tag("e", &event.id)], "", unix_now());
    refused(&mut stranger, &foreign, "restricted:").await;
    let own = keys.sign_event(5, vec![tag("e", &event.id)], "", unix_now());
    accept(&mut client, &own).await;

    assert!(history(&mut client, json!({"kinds": [1]})).await.is_empty());
    let receipt = publish(&mut client, &event).await;
    assert_eq!(receipt.message, "duplicate:");
}

#[tokio::test]
async fn forged_stale_and_foreign_events_are_refused_in_the_relays_words() {
    let relay = relay().await;
    let (keys, other) = (Keys::generate(), Keys::generate());
    let mut client = client(&relay, &keys).await;
    let mut wrong_id = note(&keys, "a");
    wrong_id.content = "b".to_owned();
    let mut wrong_signature = note(&keys, "c");
    wrong_signature.sig = note(&keys, "d").sig;
    let too_old = keys.sign_event(1, vec![], "", unix_now() - 910);
    let cases = [
        (wrong_id, "invalid: invalid event id: computed "),
        (wrong_signature, "invalid: invalid schnorr signature"),
        (too_old, "invalid: event timestamp too far from server time"),
        (
            note(&other, "e"),
            "invalid: event pubkey does not match authenticated identity",
        ),
        (
            keys.sign_event(22_242, vec![], "", unix_now()),
            "invalid: AUTH events cannot be submitted via EVENT",
        ),
        (
            keys.sign_event(44_100, vec![], "", unix_now()),
            "invalid: membership notifications are relay-signed only",
        ),
        (
            keys.sign_event(39_000, vec![], "", unix_now()),
            "restricted: relay-only kind",
        ),
        (
            keys.sign_event(46_010, vec![], "", unix_now()),
            "restricted: unknown event kind",
        ),
        (
            keys.sign_event(9, vec![], "", unix_now()),
            "invalid: channel-scoped events must include an h tag",
        ),
    ];

    for (event, text) in cases {
        let refused = refusal(&mut client, &event).await;
        assert!(refused.starts_with(text), "{refused}");
    }
    assert_eq!(relay.stats_of(keys.public()).refused, 9);
}

#[tokio::test]
async fn unreadable_frames_get_a_notice_without_correlation() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    let eleven = std::iter::repeat_n(json!({}), 11);
    let many: Vec<_> = [json!("REQ"), json!("x")]
        .into_iter()
        .chain(eleven)
        .collect();
    let cases = [
        (json!(["NONSENSE"]), "unknown message type: NONSENSE"),
        (json!(many), "REQ contains 11 filters, maximum is 10"),
        (
            json!(["REQ", "x".repeat(257), {}]),
            "REQ sub_id exceeds maximum length of 256 bytes",
        ),
    ];
    for (frame, detail) in cases {
        client
            .send_json(&frame)
            .await
            .expect("the connection holds");
        let text = format!("invalid message: Invalid message format: {detail}");
        assert_eq!(next(&mut client).await, notice(&text));
    }
    for (text, detail) in [
        ("{", ""),
        (r#"["EVENT",{"id":1}]"#, "invalid event: "),
        (r#"["REQ","x",{"ids":["abc"]}]"#, "invalid filter: "),
    ] {
        client.send_text(text).await.expect("the connection holds");
        let Frame::Notice(notice) = next(&mut client).await else {
            panic!("no notice")
        };
        let head = format!("invalid message: Invalid message format: {detail}");
        assert!(notice.starts_with(&head), "{notice}");
    }
}

#[tokio::test]
async fn a_live_frame_repeats_the_subscription_id_unescaped() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    listen(&mut client, "a\"b", json!({"kinds": [1]})).await;
    let event = note(&keys, "hello");

    accept(&mut client, &event).await;

    let Frame::Other(text) = next(&mut client).await else {
        panic!("valid JSON")
    };
    assert!(text.starts_with("[\"EVENT\",\"a\"b\",{"), "{text}");
}

#[tokio::test]
async fn a_subscription_too_many_is_closed() {
    let mut settings = settings();
    settings.subscriptions_max = 1;
    let relay = relay_with(settings).await;
    let mut client = client(&relay, &Keys::generate()).await;
    listen(&mut client, "one", json!({"kinds": [1]})).await;

    subscribe(&mut client, "two", json!({"kinds": [1]})).await;
    assert_eq!(
        next(&mut client).await,
        closed("two", "error: too many subscriptions")
    );
    listen(&mut client, "one", json!({"kinds": [0]})).await;
}
