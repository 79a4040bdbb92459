//! Stored events: filters, limits, order, search, and what replaces what.

use buzz_dev_relay::client::{Frame, tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::Visibility;
use serde_json::json;

use crate::common::*;

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
