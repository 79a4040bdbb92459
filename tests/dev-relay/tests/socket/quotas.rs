//! Quotas and how their refusals differ between generations.

use std::time::Duration;

use buzz_dev_relay::client::{Client, Frame, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::http::RetryAfter;
use buzz_dev_relay::rules::quota::{Limit, Quotas};
use buzz_dev_relay::rules::{Generation, Settings};
use serde_json::json;

use crate::common::*;

/// Longer than any run, so that no window ever closes by itself.
const LONG: Duration = Duration::from_secs(3600);
const MANY: Limit = Limit::new(1000, LONG);
const PREFIX: &str = "rate-limited: quota exceeded; retry in ";

#[tokio::test]
async fn an_event_over_quota_gets_a_notice_from_older_relays_and_ok_false_from_new2() {
    for generation in [Generation::Old, Generation::New1, Generation::New2] {
        let relay = relay_with(tight(generation)).await;
        let keys = Keys::generate();
        let mut client = client(&relay, &keys).await;
        accept(&mut client, &note(&keys, "one")).await;
        let event = note(&keys, "two");

        client
            .send_json(&json!(["EVENT", event]))
            .await
            .expect("the connection holds");

        let text = match (generation, next(&mut client).await) {
            (Generation::Old | Generation::New1, Frame::Notice(text)) => text,
            (Generation::New2, Frame::Ok(receipt)) => {
                assert_eq!((receipt.id, receipt.accepted), (event.id, false));
                receipt.message
            }
            (generation, frame) => panic!("{generation:?}: {frame:?}"),
        };
        assert!(text.starts_with(PREFIX) && text.ends_with('s'), "{text}");
        assert_silent(&mut client).await;
        assert_eq!(relay.stats_of(keys.public()).over_quota, 1);
    }
}

#[tokio::test]
async fn ephemeral_events_are_free_of_the_message_quota_on_new2_only() {
    for (generation, is_free) in [(Generation::Old, false), (Generation::New2, true)] {
        let relay = relay_with(tight(generation)).await;
        let keys = Keys::generate();
        let mut client = client(&relay, &keys).await;
        accept(&mut client, &note(&keys, "one")).await;
        let event = keys.sign_event(20_001, vec![], "online", unix_now());

        client
            .send_json(&json!(["EVENT", event]))
            .await
            .expect("the connection holds");

        let is_accepted = matches!(next(&mut client).await, Frame::Ok(receipt) if receipt.accepted);
        assert_eq!(is_accepted, is_free, "{generation:?}");
    }
}

#[tokio::test]
async fn a_req_over_quota_is_closed_and_an_older_subscription_of_that_id_lives_on() {
    let settings = socket_limit(2, Generation::Old);
    let relay = relay_with(settings).await;
    let (keys, other) = (Keys::generate(), Keys::generate());
    let mut listener = client(&relay, &keys).await;
    let mut speaker = client(&relay, &other).await;
    listen(&mut listener, "s", json!({"kinds": [1]})).await;
    listen(&mut listener, "t", json!({"kinds": [0]})).await;

    subscribe(&mut listener, "s", json!({"kinds": [0]})).await;

    let Frame::Closed {
        subscription,
        reason,
    } = next(&mut listener).await
    else {
        panic!("not closed")
    };
    assert_eq!(subscription, "s");
    assert!(reason.starts_with(PREFIX), "{reason}");
    let event = note(&other, "still heard");
    accept(&mut speaker, &event).await;
    assert_eq!(next(&mut listener).await, live("s", &event));
}

#[tokio::test]
async fn a_count_over_quota_gets_a_notice_or_closed() {
    for generation in [Generation::New1, Generation::New2] {
        let relay = relay_with(socket_limit(0, generation)).await;
        let mut client = client(&relay, &Keys::generate()).await;

        client
            .send_json(&json!(["COUNT", "c", {}]))
            .await
            .expect("the connection holds");

        match (generation, next(&mut client).await) {
            (Generation::New1, Frame::Notice(text)) => assert!(text.starts_with(PREFIX)),
            (
                Generation::New2,
                Frame::Closed {
                    subscription,
                    reason,
                },
            ) => {
                assert_eq!(subscription, "c");
                assert!(reason.starts_with(PREFIX));
            }
            (generation, frame) => panic!("{generation:?}: {frame:?}"),
        }
    }
}

#[tokio::test]
async fn all_connections_of_a_key_share_a_quota_and_other_keys_do_not() {
    let relay = relay_with(tight(Generation::New2)).await;
    let (keys, other) = (Keys::generate(), Keys::generate());
    let mut first = client(&relay, &keys).await;
    let mut second = client(&relay, &keys).await;
    let mut stranger = client(&relay, &other).await;
    accept(&mut first, &note(&keys, "one")).await;

    refused(&mut second, &note(&keys, "two"), PREFIX).await;

    accept(&mut stranger, &note(&other, "one")).await;
}

#[tokio::test]
async fn an_attested_agent_has_the_agents_quota() {
    let mut settings = tight(Generation::New2);
    settings.quotas.agent_messages = Limit::new(2, LONG);
    let relay = relay_with(settings).await;
    let (agent, owner) = (Keys::generate(), Keys::generate());
    let attestation = owner.attest(agent.public(), "");
    let url = relay.url();
    let connecting = Client::connect_attested(&url, &agent, Some(attestation));
    let mut client = guard(connecting).await.expect("the key is admitted");

    accept(&mut client, &note(&agent, "one")).await;
    accept(&mut client, &note(&agent, "two")).await;
    refused(&mut client, &note(&agent, "three"), PREFIX).await;
}

#[tokio::test]
async fn http_calls_have_their_own_bucket_and_answer_429() {
    let quotas = Quotas {
        api: Limit::new(1, LONG),
        ..Quotas::default()
    };
    let relay = relay_with(Settings {
        quotas,
        ..Settings::default()
    })
    .await;
    let keys = Keys::generate();
    assert_eq!(
        post_event(&relay, &keys, &note(&keys, "one")).await.status,
        200
    );

    let plain = post_event(&relay, &keys, &note(&keys, "two")).await;
    relay.faults().set_retry_after(RetryAfter::Seconds);
    let seconds = query(&relay, &keys, json!([])).await;
    relay.faults().set_retry_after(RetryAfter::Date);
    let date = query(&relay, &keys, json!([])).await;

    assert_eq!(plain.status, 429);
    let text = plain.json()["error"]
        .as_str()
        .map(str::to_owned)
        .unwrap_or_default();
    assert!(text.starts_with(PREFIX), "{text}");
    assert!(!plain.headers.contains_key("retry-after"));
    let header = |reply: &buzz_dev_relay::client::http::Reply| {
        reply.headers["retry-after"]
            .to_str()
            .map(str::to_owned)
            .unwrap_or_default()
    };
    assert!(
        header(&seconds)
            .parse::<u64>()
            .is_ok_and(|it| (3000..=3600).contains(&it))
    );
    assert!(header(&date).ends_with(" GMT"), "{}", header(&date));
    // An HTTP publication is not charged to the message bucket.
    assert_eq!(relay.stats_of(keys.public()).events, 0);
}

#[tokio::test]
async fn quotas_can_be_switched_while_running() {
    let relay = relay_with(tight(Generation::New2)).await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    accept(&mut client, &note(&keys, "one")).await;
    refused(&mut client, &note(&keys, "two"), PREFIX).await;

    relay.faults().enable_quotas(false);
    accept(&mut client, &note(&keys, "three")).await;
    relay.faults().enable_quotas(true);
    accept(&mut client, &note(&keys, "four")).await;
    refused(&mut client, &note(&keys, "five"), PREFIX).await;
}

#[tokio::test]
async fn without_the_quota_store_everything_metered_is_refused() {
    let relay = relay_with(settings()).await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;
    relay.faults().set_admission_available(false);

    let event = refusal(&mut client, &note(&keys, "one")).await;
    let reply = post_event(&relay, &keys, &note(&keys, "two")).await;

    assert_eq!(
        event,
        "rate-limited: shared admission unavailable; retry in 1s"
    );
    assert_eq!(reply.status, 503);
    assert_eq!(
        reply.json()["error"],
        "rate-limited: shared admission unavailable"
    );
}

/// One message of a person in a window that does not end.
fn tight(generation: Generation) -> Settings {
    let quotas = Quotas {
        enabled: true,
        socket: MANY,
        human_messages: Limit::new(1, LONG),
        agent_messages: MANY,
        api: MANY,
    };
    Settings {
        generation,
        quotas,
        ..Settings::default()
    }
}

fn socket_limit(hits: u32, generation: Generation) -> Settings {
    let quotas = Quotas {
        enabled: true,
        socket: Limit::new(hits, LONG),
        human_messages: MANY,
        agent_messages: MANY,
        api: MANY,
    };
    Settings {
        generation,
        quotas,
        ..Settings::default()
    }
}
