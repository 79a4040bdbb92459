//! Published example frames, made by other hands: the relay must accept them.

use std::time::Duration;

use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::http::HttpRequest;
use buzz_dev_relay::rules::queue::Outgoing;
use buzz_dev_relay::rules::{Rules, Settings, frame};

const NOW: Duration = Duration::from_secs(1_787_300_000);
const HOST: &str = "buzz.example.test";
const CHALLENGE: [u8; 32] = [
    0x02, 0x32, 0x12, 0xd1, 0xfd, 0x4f, 0x0a, 0x3a, 0xd0, 0x3c, 0x45, 0xc5, 0x2a, 0x40, 0x87, 0x1f,
    0x46, 0x8a, 0xbc, 0x41, 0x6e, 0xc1, 0x81, 0xf6, 0xee, 0xbf, 0xc3, 0x22, 0x6c, 0xc4, 0x75, 0x3c,
];
const AUTH: &str = include_str!("data/auth.json");
const QUERY: &str = include_str!("data/query.json");
/// The base64 of a kind 27235 event (NIP-98).
const PROOF: &str = include_str!("data/proof.txt");

#[test]
fn the_published_auth_frame_proves_the_agent_and_its_owner() {
    let mut rules = rules();
    let (agent, owner) = (keys(5), keys(3));
    rules.add_relay_member(owner.public());
    let id = rules.open(HOST, CHALLENGE, NOW);
    rules.take(id);

    rules.receive(id, frame::parse(AUTH.trim_end()), NOW);

    let [Outgoing::Text(answer)] = &rules.take(id).frames[..] else {
        panic!("one answer")
    };
    assert!(answer.ends_with(",true,\"\"]"), "{answer}");
    assert_eq!(rules.owner_of(agent.public()), Some(owner.public()));
}

#[test]
fn the_published_http_proof_is_accepted() {
    let mut rules = rules();
    rules.add_relay_member(keys(5).public());
    let request = HttpRequest {
        method: "POST".to_owned(),
        path: "/query".to_owned(),
        host: HOST.to_owned(),
        authorization: Some(format!("Nostr {}", PROOF.trim_end())),
        body: QUERY.trim_end().as_bytes().to_vec(),
        ..HttpRequest::default()
    };

    let reply = rules.http(&request, NOW);

    assert_eq!((reply.status, reply.body.as_str()), (200, "[]"));
}

/// A closed relay behind TLS.
fn rules() -> Rules {
    let settings = Settings {
        tls_in_front: true,
        membership_required: true,
        attested_agents_admitted: true,
        ..Settings::default()
    };
    Rules::new(settings, keys(1))
}

/// The public, worthless keys of the examples.
fn keys(scalar: u8) -> Keys {
    Keys::from_secret(&format!("{scalar:064x}")).expect("a valid scalar")
}
