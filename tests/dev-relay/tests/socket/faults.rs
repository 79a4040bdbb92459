//! Misbehaviour on order.

use buzz_dev_relay::client::http::request;
use buzz_dev_relay::client::{Frame, unix_now};
use buzz_dev_relay::faults::{CannedReply, Fault, Target};
use buzz_dev_relay::keys::Keys;
use hyper::Method;
use serde_json::json;

use crate::common::*;

#[tokio::test]
async fn events_can_be_refused_a_number_of_times() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    let event = note(&keys, "hello");
    relay
        .faults()
        .refuse_events(2, "error: internal server error");

    for _ in 0..2 {
        assert_eq!(
            refusal(&mut client, &event).await,
            "error: internal server error"
        );
    }
    accept(&mut client, &event).await;
}

#[tokio::test]
async fn a_refusal_by_notice_gives_no_ok() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    let text = "rate-limited: quota exceeded; retry in 17s";
    relay
        .faults()
        .arm(Fault::RefuseEventByNotice(text.to_owned()), 1);

    client
        .send_json(&json!(["EVENT", note(&keys, "x")]))
        .await
        .expect("the connection holds");

    assert_eq!(next(&mut client).await, notice(text));
    assert_silent(&mut client).await;
}

#[tokio::test]
async fn a_swallowed_ok_hides_an_event_that_was_stored() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    let event = note(&keys, "hello");
    relay.faults().swallow_oks(1);

    client
        .send_json(&json!(["EVENT", event]))
        .await
        .expect("the connection holds");
    assert_silent(&mut client).await;

    assert_eq!(publish(&mut client, &event).await.message, "duplicate:");
}

#[tokio::test]
async fn reqs_can_be_refused_and_their_eose_lost() {
    let relay = relay().await;
    let mut client = client(&relay, &Keys::generate()).await;
    relay.faults().refuse_reqs(1, "error: database error");
    relay.faults().swallow_eoses(1);

    subscribe(&mut client, "a", json!({"kinds": [1]})).await;
    assert_eq!(
        next(&mut client).await,
        closed("a", "error: database error")
    );
    subscribe(&mut client, "b", json!({"kinds": [1]})).await;
    assert_silent(&mut client).await;
    listen(&mut client, "c", json!({"kinds": [1]})).await;
}

#[tokio::test]
async fn a_history_can_break_off_without_eose_and_stay_live() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    for text in ["a", "b", "c"] {
        accept(&mut client, &note(&keys, text)).await;
    }
    relay.faults().cut_histories(1, 2);

    subscribe(&mut client, "s", json!({"kinds": [1]})).await;

    for _ in 0..2 {
        assert!(matches!(next(&mut client).await, Frame::Event { .. }));
    }
    assert_silent(&mut client).await;
    let event = note(&keys, "live");
    accept(&mut client, &event).await;
    assert_eq!(next(&mut client).await, live("s", &event));
}

#[tokio::test]
async fn a_history_can_be_empty_and_the_next_one_whole() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    let event = note(&keys, "hello");
    accept(&mut client, &event).await;
    relay.faults().empty_histories(1);

    let filter = json!({"kinds": [1]});
    assert_eq!(history(&mut client, filter.clone()).await, []);
    assert_eq!(history(&mut client, filter).await, [event]);
}

#[tokio::test]
async fn live_events_can_be_withheld_from_one_key() {
    let relay = relay().await;
    let (struck, spared) = (Keys::generate(), Keys::generate());
    let mut one = client(&relay, &struck).await;
    let mut other = client(&relay, &spared).await;
    for client in [&mut one, &mut other] {
        listen(client, "live", json!({"kinds": [1]})).await;
    }
    relay
        .faults()
        .withhold_live(Target::Key(struck.public().to_owned()), 1);
    let (lost, heard) = (note(&spared, "lost"), note(&spared, "heard"));

    accept(&mut other, &lost).await;
    accept(&mut other, &heard).await;

    assert_eq!(next(&mut other).await, live("live", &lost));
    assert_eq!(next(&mut other).await, live("live", &heard));
    assert_eq!(next(&mut one).await, live("live", &heard));
    assert_eq!(relay.stats_of(struck.public()).live_withheld, 1);
    assert_eq!(history(&mut one, json!({"ids": [lost.id]})).await, [lost]);
}

#[tokio::test]
async fn subscriptions_can_be_closed_with_any_text_and_frames_injected() {
    let relay = relay().await;
    let mut client = client(&relay, &Keys::generate()).await;
    listen(&mut client, "ch-1", json!({"kinds": [1]})).await;
    listen(&mut client, "other", json!({"kinds": [1]})).await;

    relay
        .faults()
        .close_subscriptions(&Target::Everyone, "ch-", "error: shutting down");
    assert_eq!(
        next(&mut client).await,
        closed("ch-1", "error: shutting down")
    );
    relay.faults().require_sync(&Target::Everyone);
    let signal = r#"["BUZZ_SYNC_REQUIRED","backpressure"]"#.to_owned();
    assert_eq!(next(&mut client).await, Frame::Other(signal));
    assert_silent(&mut client).await;
}

#[tokio::test]
async fn http_can_fail_with_any_status_body_and_header() {
    let relay = relay().await;
    let keys = Keys::generate();
    let event = note(&keys, "hello");
    let faults = relay.faults();
    for status in [404, 500, 502, 503] {
        faults.fail_events_posts(1, CannedReply::error(status, "odd"));
        assert_eq!(post_event(&relay, &keys, &event).await.status, status);
    }
    faults.fail_events_posts(1, CannedReply::html(429).with_header("retry-after", "7"));
    let page = post_event(&relay, &keys, &event).await;
    faults.fail_query_posts(1, CannedReply::error(500, "internal server error"));
    let failed = query(&relay, &keys, json!([])).await;
    faults.fail_http(1, CannedReply::html(502));
    let base = relay.http_url();
    let health = request(Method::GET, &base, "/health", &[], String::new());

    assert_eq!(page.status, 429);
    assert_eq!(page.headers["retry-after"], "7");
    assert_eq!(page.headers["content-type"], "text/html");
    assert_eq!(failed.json(), json!({"error": "internal server error"}));
    assert_eq!(guard(health).await.expect("HTTP answers").status, 502);
    assert_eq!(
        post_event(&relay, &keys, &event).await.json()["message"],
        ""
    );
}

#[tokio::test]
async fn a_lost_http_answer_hides_an_event_that_was_stored() {
    let relay = relay().await;
    let keys = Keys::generate();
    let event = note(&keys, "hello");
    relay
        .faults()
        .arm(Fault::LoseEventsReply(CannedReply::html(504)), 1);

    assert_eq!(post_event(&relay, &keys, &event).await.status, 504);

    assert_eq!(
        post_event(&relay, &keys, &event).await.json()["message"],
        "duplicate:"
    );
}

#[tokio::test]
async fn the_bridge_can_be_absent() {
    let relay = relay().await;
    let keys = Keys::generate();
    for status in [404, 405] {
        relay.faults().set_bridge_absent(Some(status));
        assert_eq!(
            post_event(&relay, &keys, &note(&keys, "x")).await.status,
            status
        );
        assert_eq!(query(&relay, &keys, json!([])).await.status, status);
    }
    relay.faults().set_bridge_absent(None);
    assert_eq!(query(&relay, &keys, json!([])).await.status, 200);
}

#[tokio::test]
async fn stalled_answers_come_when_the_stall_is_lifted() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    relay.faults().stall(&Target::Everyone, true);
    client
        .send_json(&json!(["EVENT", note(&keys, "x")]))
        .await
        .expect("the connection holds");
    let event = note(&keys, "y");
    let mut posting = Box::pin(post_event(&relay, &keys, &event));

    // The event is stored long before its answer is released.
    while relay.stats().accepted < 2 {
        tokio::select! {
            _ = &mut posting => panic!("answered during the stall"),
            () = tokio::task::yield_now() => {}
        }
    }
    relay.faults().stall(&Target::Everyone, false);

    assert_eq!(posting.await.status, 200);
    assert!(matches!(next(&mut client).await, Frame::Ok(_)));
    assert_eq!(relay.stats().http_in_flight_max, 1);
    assert_eq!(relay.stats().http_in_flight, 0);
}

#[tokio::test]
async fn an_unread_socket_is_read_again_later() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    relay.faults().stop_reading(&Target::Everyone, true);
    let event = note(&keys, "x");
    client
        .send_json(&json!(["EVENT", event]))
        .await
        .expect("the connection holds");
    assert_eq!(
        query(&relay, &keys, json!([{"kinds": [1]}])).await.body,
        "[]"
    );

    relay.faults().stop_reading(&Target::Everyone, false);

    assert!(matches!(next(&mut client).await, Frame::Ok(_)));
}

#[tokio::test]
async fn a_skewed_clock_shows_in_checks_and_in_the_date_header() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    relay.faults().set_clock_skew(-7200);

    let text = refusal(&mut client, &note(&keys, "x")).await;
    let reply = request(
        Method::GET,
        &relay.http_url(),
        "/health",
        &[],
        String::new(),
    )
    .await;

    assert_eq!(text, "invalid: event timestamp too far from server time");
    let reply = reply.expect("HTTP answers");
    let date = reply.headers["date"].to_str().expect("text");
    let date = httpdate::parse_http_date(date).expect("a date");
    let age = std::time::SystemTime::now()
        .duration_since(date)
        .expect("the past")
        .as_secs();
    assert!((7190..7300).contains(&age), "{age}");
    accept(
        &mut client,
        &keys.sign_event(1, vec![], "", unix_now() - 7200),
    )
    .await;
}

#[tokio::test]
async fn clearing_lifts_every_fault() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    relay.faults().refuse_events(u64::MAX, "error: no");
    assert_eq!(refusal(&mut client, &note(&keys, "x")).await, "error: no");

    relay.faults().clear();

    accept(&mut client, &note(&keys, "y")).await;
}
