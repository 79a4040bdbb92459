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
const AUTH: &str = r#"["AUTH",{"id":"bac1da587f73ac1ddc7e0bfe9ddaf2eefa74f5aea0ad72bf2836c447dc69f329","pubkey":"2f8bde4d1a07209355b4a7250a5c5128e88b84bddc619ab7cba8d569b240efe4","created_at":1787300000,"kind":22242,"tags":[["relay","wss://buzz.example.test"],["challenge","023212d1fd4f0a3ad03c45c52a40871f468abc416ec181f6eebfc3226cc4753c"],["auth","f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9","created_at<1789892000","cc6bcb57c2210ff2593aa9c74f611c6a66ad4e95b70af2c24cd60947db951e0a97ddffe1c27515df3a59fd0f8a154deeafcd79056a30b136f15144ae805e043a"]],"content":"","sig":"51185943f9fd28e0823057c9fcc52993288393836a3d44df5e858a1ff997f942c2ddce0bad3676938a9b1af61b1090960769adbbb4322022261adaff4f9af6f5"}]"#;
const QUERY: &str = r##"[{"kinds":[39002],"#p":["2f8bde4d1a07209355b4a7250a5c5128e88b84bddc619ab7cba8d569b240efe4"],"limit":500}]"##;
const PROOF: &str = "Nostr eyJpZCI6ImMyZTAzOTQzYWRhN2Q1MTBmMWNlZjUwNzg1YWE4Njg4NDc5ODhhOWJmMGE4ZGNiNjkyMjQyMjhlYzYwMDI4N2UiLCJwdWJrZXkiOiIyZjhiZGU0ZDFhMDcyMDkzNTViNGE3MjUwYTVjNTEyOGU4OGI4NGJkZGM2MTlhYjdjYmE4ZDU2OWIyNDBlZmU0IiwiY3JlYXRlZF9hdCI6MTc4NzMwMDAwMCwia2luZCI6MjcyMzUsInRhZ3MiOltbInUiLCJodHRwczovL2J1enouZXhhbXBsZS50ZXN0L3F1ZXJ5Il0sWyJtZXRob2QiLCJQT1NUIl0sWyJub25jZSIsIm4tMDAwMSJdLFsicGF5bG9hZCIsImFmOWQwNzY0NTg1MjJlYjI1NmNkOTkzOWUxOWQ2MzE2ODYwOTQ1NzVjNmQzMzRmMzFlMjc3NTM2NjY0NDNhOTgiXV0sImNvbnRlbnQiOiIiLCJzaWciOiJjMDI2Mzk4MjY0NDc1NDkxYWM1Y2EwMDE1MWY3NTBjMzcwNDZhNjhjOTAxNTljNTdkZWY3NmE1OGQ4M2RhN2VmOTQ1NDliOGE5MDgzNjlmNDJmZGY4ODA4YTBjMGIzNjVhZTMzYmJhY2UyNjAzOGVmNzIwMjA5OGMzMDFmMzk3NyJ9";

#[test]
fn the_published_auth_frame_proves_the_agent_and_its_owner() {
    let mut rules = rules();
    let (agent, owner) = (keys(5), keys(3));
    rules.add_relay_member(owner.public());
    let id = rules.open(HOST, CHALLENGE, NOW);
    rules.take(id);

    rules.receive(id, frame::parse(AUTH), NOW);

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
        authorization: Some(PROOF.to_owned()),
        body: QUERY.as_bytes().to_vec(),
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
