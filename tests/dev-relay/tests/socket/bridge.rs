//! HTTP: the bridge with its proofs, relay information, health.

use buzz_dev_relay::client::http::{Reply, authorization, post, request};
use buzz_dev_relay::client::{Client, tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::Visibility;
use buzz_dev_relay::rules::{Auth, Settings};
use buzz_dev_relay::{DevRelay, Options};
use hyper::Method;
use serde_json::json;

use crate::common::*;

#[tokio::test]
async fn an_event_can_be_published_and_read_by_http() {
    let relay = relay().await;
    let keys = Keys::generate();
    let event = note(&keys, "by post");

    let reply = post_event(&relay, &keys, &event).await;
    let again = post_event(&relay, &keys, &event).await;
    let found = query(&relay, &keys, json!([{"kinds": [1]}, {"ids": [event.id]}])).await;

    let expected = json!({"event_id": event.id, "accepted": true, "message": ""});
    assert_eq!((reply.status, reply.json()), (200, expected));
    let expected = json!({"event_id": event.id, "accepted": true, "message": "duplicate:"});
    assert_eq!((again.status, again.json()), (200, expected));
    assert_eq!((found.status, found.json()), (200, json!([event])));
    assert!(found.headers.contains_key("date"));
    assert_eq!(found.headers["content-type"], "application/json");
}

#[tokio::test]
async fn an_event_published_by_http_reaches_live_subscriptions() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    listen(&mut client, "live", json!({"kinds": [1]})).await;
    let event = note(&keys, "by post");

    post_event(&relay, &keys, &event).await;

    assert_eq!(next(&mut client).await, live("live", &event));
}

#[tokio::test]
async fn refusals_have_the_documented_statuses() {
    let relay = relay().await;
    let (keys, other) = (Keys::generate(), Keys::generate());
    let banned = Keys::generate();
    relay.set_banned(banned.public(), true);
    let own = |kind| keys.sign_event(kind, vec![], "", unix_now());
    let cases = [
        (
            &keys,
            own(20_001),
            400,
            "invalid: kind 20001 is only accepted via WebSocket",
        ),
        (
            &keys,
            own(1059),
            400,
            "invalid: kind 1059 is only accepted via WebSocket",
        ),
        (&keys, own(20_002), 400, "restricted: unknown event kind"),
        (&keys, own(24_200), 400, "restricted: unknown event kind"),
        (
            &keys,
            note(&other, "foreign"),
            403,
            "invalid: event pubkey does not match authenticated identity",
        ),
        (
            &banned,
            note(&banned, "x"),
            403,
            "blocked: you are banned from this community",
        ),
    ];

    for (keys, event, status, text) in cases {
        let reply = post_event(&relay, keys, &event).await;
        assert_eq!(
            (reply.status, reply.json()),
            (status, json!({"error": text}))
        );
    }
}

#[tokio::test]
async fn proofs_are_checked_before_anything_else() {
    let relay = relay().await;
    let keys = Keys::generate();
    let url = format!("{}/query", relay.http_url());
    let proof = |method: &str, url: &str, body: &str| authorization(&keys, method, url, body);
    let failed = "NIP-98: NIP-98 HTTP Auth verification failed: ";
    let cases = [
        (None, "missing Nostr auth"),
        (Some("Bearer x".to_owned()), "missing Nostr auth"),
        (Some("Nostr ###".to_owned()), "invalid base64 in Nostr auth"),
        (Some("Nostr e30=".to_owned()), "invalid NIP-98 event JSON"),
        (Some(proof("GET", &url, "[]")), failed),
        (Some(proof("POST", &url, "[{}]")), failed),
        (
            Some(proof("POST", &url.replace("127.0.0.1", "localhost"), "[]")),
            failed,
        ),
    ];

    for (header, text) in cases {
        let reply = with_proof(&relay, "/query", header.as_deref(), "[]").await;
        let error = reply.json()["error"]
            .as_str()
            .map(str::to_owned)
            .unwrap_or_default();
        assert_eq!(reply.status, 401, "{error}");
        assert!(error.starts_with(text), "{error}");
    }
    let reply = with_proof(&relay, "/query", Some(&proof("post", &url, "[]")), "[]").await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn a_proof_is_good_for_one_request() {
    let relay = relay().await;
    let keys = Keys::generate();
    let proof = authorization(&keys, "POST", &format!("{}/query", relay.http_url()), "[]");

    let first = with_proof(&relay, "/query", Some(&proof), "[]").await;
    let second = with_proof(&relay, "/query", Some(&proof), "[]").await;

    assert_eq!(first.status, 200);
    assert_eq!(
        (second.status, second.json()),
        (401, json!({"error": "NIP-98: replay detected"}))
    );
}

#[tokio::test]
async fn malformed_bodies_are_bad_requests() {
    let relay = relay().await;
    let keys = Keys::generate();
    let base = relay.http_url();
    let cases = [
        ("/events", "{", "invalid event JSON: "),
        ("/events", "{}", "invalid event JSON: "),
        ("/query", "{}", "invalid filters: "),
        ("/query", r#"[{"kinds":"x"}]"#, "invalid filters: "),
        (
            "/query",
            r#"[{"kinds":[1],"before_id":"00"}]"#,
            "before_id requires until to be set",
        ),
        (
            "/query",
            r#"[{"kinds":[1],"until":9,"before_id":"00"}]"#,
            "before_id must be a 64-char hex event id",
        ),
    ];

    for (path, body, text) in cases {
        let reply = guard(post(&base, path, Some(&keys), body.to_owned())).await;
        let reply = reply.expect("HTTP answers");
        let error = reply.json()["error"]
            .as_str()
            .map(str::to_owned)
            .unwrap_or_default();
        assert_eq!(reply.status, 400);
        assert!(error.starts_with(text), "{error}");
    }
}

#[tokio::test]
async fn before_id_pages_through_a_crowded_second() {
    let relay = relay().await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    room(&relay, ROOM, Visibility::Open, &keys);
    let now = unix_now();
    let mut expected = Vec::new();
    for index in 0..7 {
        let event = message_at(&keys, ROOM, &index.to_string(), now - u64::from(index > 4));
        accept(&mut client, &event).await;
        expected.push(event);
    }
    expected.sort_by(|a, b| (b.created_at, &a.id).cmp(&(a.created_at, &b.id)));

    let mut found = Vec::new();
    let mut filter = json!({"kinds": [9], "#h": [ROOM], "limit": 2});
    loop {
        let page = query(&relay, &keys, json!([filter])).await.json();
        let Some(last) = page.as_array().and_then(|page| page.last().cloned()) else {
            break;
        };
        found.extend(page.as_array().cloned().unwrap_or_default());
        filter["until"] = last["created_at"].clone();
        filter["before_id"] = last["id"].clone();
    }

    assert_eq!(json!(found), json!(expected));
}

#[tokio::test]
async fn count_works_by_http() {
    let relay = relay().await;
    let keys = Keys::generate();
    post_event(&relay, &keys, &note(&keys, "one")).await;

    let body = json!([{"kinds": [1]}]).to_string();
    let reply = guard(post(&relay.http_url(), "/count", Some(&keys), body)).await;

    assert_eq!(reply.expect("HTTP answers").json(), json!({"count": 1}));
}

#[tokio::test]
async fn a_closed_relay_refuses_outsiders_by_403() {
    let relay = relay_with(Settings {
        membership_required: true,
        ..settings()
    })
    .await;
    let keys = Keys::generate();

    let reply = query(&relay, &keys, json!([])).await;

    let expected = json!({
        "error": "relay_membership_required",
        "message": "You must be a relay member to access this relay",
    });
    assert_eq!((reply.status, reply.json()), (403, expected));
}

#[tokio::test]
async fn an_unknown_host_is_404_everywhere() {
    let hosts = vec!["localhost:1".to_owned()];
    let relay = relay_with(Settings {
        hosts,
        ..settings()
    })
    .await;
    let keys = Keys::generate();

    let reply = query(&relay, &keys, json!([])).await;

    assert_eq!(reply.status, 404);
    assert_eq!(
        reply.json()["error"],
        "relay: no community is configured for this host"
    );
    assert!(guard(Client::open(&relay.url())).await.is_err());
}

#[tokio::test]
async fn the_information_document_names_the_relays_key() {
    let relay = relay().await;
    let accept = [("accept", "application/nostr+json")];

    for (path, headers) in [("/", &accept[..]), ("/info", &[])] {
        let reply = fetch(&relay, path, headers).await;
        let document = reply.json();
        assert_eq!(reply.status, 200);
        assert_eq!(document["self"], relay.public_key());
        assert_eq!(document["version"], "0.2.1");
        assert_eq!(document["limitation"]["max_limit"], 1000);
        assert_eq!(document["limitation"]["auth_required"], true);
    }
}

#[tokio::test]
async fn health_is_ok_and_unknown_routes_are_not_found() {
    let relay = relay().await;

    let health = fetch(&relay, "/health", &[]).await;
    let ready = fetch(&relay, "/_readiness", &[]).await;

    assert_eq!((health.status, health.body.as_str()), (200, "ok"));
    assert_eq!(
        (ready.status, ready.json()),
        (200, json!({"status": "ready"}))
    );
    assert_eq!(fetch(&relay, "/api/channels", &[]).await.status, 404);
    assert_eq!(fetch(&relay, "/events", &[]).await.status, 405);
}

#[tokio::test]
async fn an_oversize_body_is_413_in_plain_text() {
    let relay = relay().await;
    let keys = Keys::generate();

    let reply = guard(post(
        &relay.http_url(),
        "/events",
        Some(&keys),
        "x".repeat(1_100_000),
    ))
    .await;

    // The relay answers before it has read everything, so the exchange may also break.
    if let Ok(reply) = reply {
        assert_eq!(reply.status, 413);
        assert_eq!(reply.headers["content-type"], "text/plain");
    }
}

#[tokio::test]
async fn without_authentication_http_needs_no_proof() {
    let relay = start(Options {
        settings: Settings {
            auth: Auth::None,
            ..settings()
        },
        ..Options::default()
    })
    .await;
    let keys = Keys::generate();
    let event = keys.sign_event(9, vec![tag("h", "lobby")], "hi", unix_now());
    let base = relay.http_url();

    let reply = guard(post(&base, "/events", None, event.to_json()))
        .await
        .expect("HTTP answers");
    let found = guard(post(
        &base,
        "/query",
        None,
        json!([{"kinds": [9]}]).to_string(),
    ))
    .await;

    assert_eq!(reply.json()["accepted"], true);
    assert_eq!(found.expect("HTTP answers").json(), json!([event]));
}

async fn with_proof(relay: &DevRelay, path: &str, proof: Option<&str>, body: &str) -> Reply {
    let headers: Vec<_> = proof
        .iter()
        .map(|proof| ("authorization", *proof))
        .collect();
    let exchange = request(
        Method::POST,
        &relay.http_url(),
        path,
        &headers,
        body.to_owned(),
    )
    .await;
    exchange.expect("HTTP answers")
}

async fn fetch(relay: &DevRelay, path: &str, headers: &[(&str, &str)]) -> Reply {
    let base = relay.http_url();
    let exchange = request(Method::GET, &base, path, headers, String::new());
    guard(exchange).await.expect("HTTP answers")
}
