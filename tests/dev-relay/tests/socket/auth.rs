//! NIP-42: the challenge, its answer, and what is refused without it.

use std::time::Duration;

use buzz_dev_relay::client::{Client, ClientError, Frame, tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::{Auth, Settings};
use buzz_dev_relay::{DevRelay, faults::Fault};
use serde_json::json;

use crate::common::*;

const FAILED: &str = "auth-required: verification failed";

#[tokio::test]
async fn the_challenge_comes_unprompted_as_the_first_text_frame() {
    let relay = relay().await;

    let (_, challenge) = challenged(&relay).await;

    assert_eq!(challenge.len(), 64);
}

#[tokio::test]
async fn frames_before_authentication_get_the_documented_answers() {
    let relay = relay().await;
    let keys = Keys::generate();
    let (mut client, _) = challenged(&relay).await;
    let refused = "auth-required: not authenticated";

    assert_eq!(refusal(&mut client, &note(&keys, "early")).await, refused);
    subscribe(&mut client, "s", json!({"kinds": [1]})).await;
    assert_eq!(
        next(&mut client).await,
        notice("auth-required: authenticate before subscribing")
    );
    assert_eq!(next(&mut client).await, closed("s", refused));
    client
        .send_json(&json!(["COUNT", "c", {}]))
        .await
        .expect("the connection holds");
    assert_eq!(next(&mut client).await, closed("c", refused));
    assert_silent(&mut client).await;
}

#[tokio::test]
async fn a_failed_attempt_is_final_for_the_connection() {
    let relay = relay().await;
    let keys = Keys::generate();
    let (mut client, challenge) = challenged(&relay).await;

    let wrong = auth_event(&keys, "ws://127.0.0.1:1", &challenge, unix_now());
    let right = auth_event(&keys, &relay.url(), &challenge, unix_now());

    assert_eq!(
        authenticate(&mut client, wrong).await,
        (false, FAILED.to_owned())
    );
    let again = "auth-required: authentication already failed".to_owned();
    assert_eq!(authenticate(&mut client, right).await, (false, again));
}

#[tokio::test]
async fn a_second_authentication_is_refused_and_harmless() {
    let relay = relay().await;
    let keys = Keys::generate();
    let (mut client, challenge) = challenged(&relay).await;
    let event = || auth_event(&keys, &relay.url(), &challenge, unix_now());
    assert_eq!(
        authenticate(&mut client, event()).await,
        (true, String::new())
    );

    let again = "auth-required: already authenticated".to_owned();
    assert_eq!(authenticate(&mut client, event()).await, (false, again));

    accept(&mut client, &note(&keys, "still in")).await;
}

#[tokio::test]
async fn every_way_to_fail_looks_the_same() {
    let relay = relay().await;
    let keys = Keys::generate();
    let url = relay.url();
    for case in 0..7 {
        let (mut client, challenge) = challenged(&relay).await;
        let now = unix_now();
        let tags = |relay: &str| vec![tag("relay", relay), tag("challenge", &challenge)];
        let event = match case {
            0 => keys.sign_event(22_243, tags(&url), "", now),
            1 => auth_event(&keys, &url, &"0".repeat(64), now),
            2 => auth_event(&keys, &format!("{url}/path"), &challenge, now),
            3 => auth_event(&keys, &url.replace("ws:", "wss:"), &challenge, now),
            4 => auth_event(&keys, &url, &challenge, now - 70),
            5 => auth_event(&keys, &url, &challenge, now + 70),
            _ => {
                let mut event = auth_event(&keys, &url, &challenge, now);
                event.sig = note(&keys, "another").sig;
                event
            }
        };
        let outcome = authenticate(&mut client, event).await;
        assert_eq!(outcome, (false, FAILED.to_owned()), "case {case}");
    }
}

#[tokio::test]
async fn localhost_and_a_trailing_slash_are_tolerated_in_the_relay_tag() {
    let relay = relay().await;
    let keys = Keys::generate();
    let port = relay.addr().port();
    for url in [
        format!("ws://localhost:{port}"),
        format!("ws://127.0.0.1:{port}/"),
    ] {
        let (mut client, challenge) = challenged(&relay).await;
        let event = auth_event(&keys, &url, &challenge, unix_now());
        assert_eq!(
            authenticate(&mut client, event).await,
            (true, String::new()),
            "{url}"
        );
    }
}

#[tokio::test]
async fn behind_tls_the_secure_scheme_is_expected() {
    let relay = relay_with(Settings {
        tls_in_front: true,
        ..settings()
    })
    .await;
    let keys = Keys::generate();
    let (mut client, challenge) = challenged(&relay).await;
    let url = relay.url().replace("ws:", "wss:");

    let event = auth_event(&keys, &url, &challenge, unix_now());

    assert_eq!(
        authenticate(&mut client, event).await,
        (true, String::new())
    );
}

#[tokio::test]
async fn a_missed_deadline_closes_without_status_and_without_a_word() {
    let settings = Settings {
        auth_deadline: Duration::from_millis(150),
        ..settings()
    };
    let relay = relay_with(settings).await;
    let (mut client, _) = challenged(&relay).await;

    assert_ended_without_status(&mut client).await;
}

#[tokio::test]
async fn a_banned_key_and_the_agent_of_a_banned_owner_are_told_and_closed() {
    let relay = relay().await;
    let (keys, owner, agent) = (Keys::generate(), Keys::generate(), Keys::generate());
    relay.set_banned(keys.public(), true);
    relay.set_banned(owner.public(), true);
    let attested = owner.attest(agent.public(), "");
    for (keys, attestation) in [(keys, None), (agent, Some(attested))] {
        let mut client = guard(Client::open(&relay.url()))
            .await
            .expect("the port answers");
        let receipt = guard(client.authenticate(&relay.url(), &keys, attestation)).await;
        let receipt = receipt.expect("the answer is flushed before the end");
        assert_eq!(
            receipt.message,
            "blocked: you are banned from this community"
        );
        assert_ended_without_status(&mut client).await;
    }
}

#[tokio::test]
async fn a_closed_relay_admits_members_and_attested_agents_of_members() {
    let settings = Settings {
        membership_required: true,
        attested_agents_admitted: true,
        ..settings()
    };
    let relay = relay_with(settings).await;
    let (member, agent, outsider) = (Keys::generate(), Keys::generate(), Keys::generate());
    relay.add_relay_member(member.public());
    let url = relay.url();
    let good = member.attest(agent.public(), "created_at<1");
    let bad = member.attest(agent.public(), "created_at<01");

    assert!(guard(Client::connect(&url, &member)).await.is_ok());
    assert!(
        guard(Client::connect_attested(&url, &agent, Some(good)))
            .await
            .is_ok()
    );
    for (keys, attestation) in [(&outsider, None), (&agent, Some(bad))] {
        let Err(ClientError::Refused(text)) =
            guard(Client::connect_attested(&url, keys, attestation)).await
        else {
            panic!("admitted");
        };
        assert_eq!(text, "restricted: not a relay member");
    }
}

#[tokio::test]
async fn without_authentication_there_is_no_challenge_and_no_rule_of_channels() {
    let relay = relay_with(Settings {
        auth: Auth::None,
        ..settings()
    })
    .await;
    let keys = Keys::generate();
    let mut client = guard(Client::open(&relay.url()))
        .await
        .expect("the port answers");

    listen(&mut client, "all", json!({})).await;
    let event = keys.sign_event(9, vec![tag("h", "lobby")], "hi", unix_now());
    accept(&mut client, &event).await;

    assert_eq!(next(&mut client).await, live("all", &event));
    assert_eq!(
        history(&mut client, json!({"#h": ["lobby"]})).await,
        [event]
    );
}

#[tokio::test]
async fn faults_can_spoil_the_challenge_and_the_verdict() {
    let relay = relay().await;
    let keys = Keys::generate();
    let refused = |outcome| match outcome {
        Err(ClientError::Refused(text)) => text,
        other => panic!("{other:?}"),
    };

    relay.faults().arm(Fault::WrongChallenge, 1);
    assert_eq!(
        refused(guard(Client::connect(&relay.url(), &keys)).await),
        FAILED
    );
    relay
        .faults()
        .arm(Fault::RefuseAuth("error: try later".to_owned()), 1);
    assert_eq!(
        refused(guard(Client::connect(&relay.url(), &keys)).await),
        "error: try later"
    );

    assert!(guard(Client::connect(&relay.url(), &keys)).await.is_ok());
}

async fn challenged(relay: &DevRelay) -> (Client, String) {
    let mut client = guard(Client::open(&relay.url()))
        .await
        .expect("the port answers");
    let Frame::Auth(challenge) = next(&mut client).await else {
        panic!("no challenge")
    };
    (client, challenge)
}

fn auth_event(
    keys: &Keys,
    url: &str,
    challenge: &str,
    created_at: u64,
) -> buzz_dev_relay::rules::event::Event {
    keys.sign_event(
        22_242,
        vec![tag("relay", url), tag("challenge", challenge)],
        "",
        created_at,
    )
}

async fn authenticate(
    client: &mut Client,
    event: buzz_dev_relay::rules::event::Event,
) -> (bool, String) {
    client
        .send_json(&json!(["AUTH", event]))
        .await
        .expect("the connection holds");
    let Frame::Ok(receipt) = next(client).await else {
        panic!("no OK")
    };
    assert_eq!(receipt.id, event.id);
    (receipt.accepted, receipt.message)
}
