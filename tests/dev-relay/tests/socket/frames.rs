//! NIP-01 over a socket: publishing, subscribing, history and its order.

use crate::common::*;
use buzz_dev_relay::client::{Frame, tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::Visibility;
use serde_json::json;

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
async fn history_is_newest_first_and_then_by_id() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    let now = unix_now();
    let mut events = Vec::new();
    for (text, age) in [("a", 5), ("b", 0), ("c", 0), ("d", 9), ("e", 0)] {
        let event = keys.sign_event(1, vec![], text, now - age);
        accept(&mut client, &event).await;
        events.push(event);
    }
    events.sort_by(|a, b| (b.created_at, &a.id).cmp(&(a.created_at, &b.id)));

    let all = history(&mut client, json!({"kinds": [1]})).await;
    let newest = history(&mut client, json!({"kinds": [1], "limit": 2})).await;

    assert_eq!(all, events);
    assert_eq!(newest, events[..2]);
}

#[tokio::test]
async fn each_filter_is_a_query_of_its_own_and_an_event_comes_once() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    let now = unix_now();
    let old = keys.sign_event(1, vec![tag("t", "x")], "old", now - 10);
    let new = keys.sign_event(1, vec![], "new", now);
    accept(&mut client, &old).await;
    accept(&mut client, &new).await;

    let events = history(
        &mut client,
        json!([{"kinds": [1], "#t": ["x"]}, {"kinds": [1]}]),
    )
    .await;

    assert_eq!(events, [old, new]);
}

#[tokio::test]
async fn filters_select_by_ids_authors_kinds_tags_and_inclusive_times() {
    let relay = relay().await;
    let (keys, other) = (Keys::generate(), Keys::generate());
    let mut client = client(&relay, &keys).await;
    let now = unix_now();
    let parent = "ab".repeat(32);
    let event = keys.sign_event(
        1,
        vec![
            tag("e", &parent),
            tag("p", other.public()),
            tag("t", "rust"),
            tag("d", "x"),
        ],
        "",
        now,
    );
    accept(&mut client, &event).await;
    let matching = [
        json!({"ids": [event.id]}),
        json!({"kinds": [1, 2], "authors": [keys.public()]}),
        json!({"kinds": [1], "since": now, "until": now}),
        json!({"kinds": [1], "#e": [parent]}),
        json!({"kinds": [1], "#p": [keys.public(), other.public()]}),
        json!({"kinds": [1], "#t": ["go", "rust"], "#d": ["x"]}),
    ];
    let failing = [
        json!({"ids": ["00".repeat(32)]}),
        json!({"kinds": []}),
        json!({"kinds": [1], "authors": [other.public()]}),
        json!({"kinds": [1], "since": now + 1}),
        json!({"kinds": [1], "until": now - 1}),
        json!({"kinds": [1], "since": now + 1, "until": now - 1}),
        json!({"kinds": [1], "#t": ["go"]}),
        json!({"kinds": [1], "#x": []}),
    ];

    for filter in matching {
        let found = history(&mut client, filter.clone()).await;
        assert_eq!(ids(&found), [event.id.as_str()], "{filter}");
    }
    for filter in failing {
        let found = history(&mut client, filter.clone()).await;
        assert!(found.is_empty(), "{filter}");
    }
}

#[tokio::test]
async fn a_limit_applied_before_the_last_conditions_makes_a_short_page() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    let now = unix_now();
    let wanted = keys.sign_event(1, vec![tag("t", "x")], "", now - 1);
    accept(&mut client, &wanted).await;
    accept(&mut client, &keys.sign_event(1, vec![], "", now)).await;

    let short = history(&mut client, json!({"kinds": [1], "#t": ["x"], "limit": 1})).await;
    let whole = history(&mut client, json!({"kinds": [1], "#t": ["x"], "limit": 2})).await;

    assert!(short.is_empty());
    assert_eq!(whole, [wanted]);
}

#[tokio::test]
async fn limit_zero_gives_no_history_but_live_events() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    accept(&mut client, &note(&keys, "before")).await;

    listen(&mut client, "live", json!({"kinds": [1]})).await;
    let event = note(&keys, "after");
    accept(&mut client, &event).await;

    assert_eq!(next(&mut client).await, live("live", &event));
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
async fn since_and_until_hold_for_live_events_too() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    let now = unix_now();
    listen(&mut client, "late", json!({"kinds": [1], "since": now})).await;
    listen(
        &mut client,
        "early",
        json!({"kinds": [1], "until": now - 100}),
    )
    .await;

    accept(
        &mut client,
        &keys.sign_event(1, vec![], "slow clock", now - 10),
    )
    .await;
    let event = keys.sign_event(1, vec![], "right clock", now);
    accept(&mut client, &event).await;

    assert_eq!(next(&mut client).await, live("late", &event));
    assert_silent(&mut client).await;
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
async fn replaceable_and_addressable_events_give_way_to_newer_ones() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    let now = unix_now();
    for (kind, tags) in [(0, vec![]), (30_078, vec![tag("d", "x")])] {
        let old = keys.sign_event(kind, tags.clone(), "old", now - 5);
        let new = keys.sign_event(kind, tags.clone(), "new", now);
        let stale = keys.sign_event(kind, tags, "stale", now - 1);
        accept(&mut client, &old).await;
        accept(&mut client, &new).await;

        let receipt = publish(&mut client, &stale).await;

        assert_eq!(
            (receipt.accepted, receipt.message.as_str()),
            (true, "duplicate:")
        );
        assert_eq!(history(&mut client, json!({"kinds": [kind]})).await, [new]);
    }
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
    assert!(
        refusal(&mut stranger, &foreign)
            .await
            .starts_with("restricted:")
    );
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
async fn count_counts_and_search_answers_once() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    room(&relay, ROOM, Visibility::Open, &keys);
    let found = message(&keys, ROOM, "the Fixture clock");
    accept(&mut client, &found).await;
    accept(&mut client, &message(&keys, ROOM, "something else")).await;

    client
        .send_json(&json!(["COUNT", "n", {"kinds": [9]}]))
        .await
        .expect("the connection holds");
    assert_eq!(
        next(&mut client).await,
        Frame::Count {
            query: "n".to_owned(),
            count: 2
        }
    );
    subscribe(&mut client, "s", json!({"kinds": [9], "search": "fixture"})).await;
    assert_eq!(next(&mut client).await, live("s", &found));
    assert_eq!(next(&mut client).await, Frame::Eose("s".to_owned()));
    accept(&mut client, &message(&keys, ROOM, "fixture again")).await;
    assert_silent(&mut client).await;
    subscribe(
        &mut client,
        "m",
        json!([{"kinds": [9]}, {"kinds": [9], "search": "x"}]),
    )
    .await;
    let text = "error: mixed search and non-search filters not supported";
    assert_eq!(next(&mut client).await, closed("m", text));
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

#[tokio::test]
async fn a_long_history_arrives_whole_at_a_reader_that_reads() {
    let mut settings = settings();
    settings.queue_frames = 150;
    let relay = relay_with(settings).await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    let now = unix_now();
    for index in 0..420 {
        accept(
            &mut client,
            &keys.sign_event(1, vec![], &index.to_string(), now),
        )
        .await;
    }

    let events = history(&mut client, json!({"kinds": [1]})).await;

    assert_eq!(events.len(), 420);
    assert_eq!(relay.stats().frames_dropped, 0);
}
