//! The rules without sockets, in virtual time.

use std::time::Duration;

use buzz_dev_relay::client::tag;
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::{ChannelKind, NewChannel, Role, Visibility};
use buzz_dev_relay::rules::filter::Filter;
use buzz_dev_relay::rules::http::HttpRequest;
use buzz_dev_relay::rules::queue::{Batch, Closing, Outgoing};
use buzz_dev_relay::rules::quota::{Bucket, Counters, Limit};
use buzz_dev_relay::rules::{ConnectionId, Rules, Settings, frame};
use serde_json::{Value, json};

const START: Duration = Duration::from_secs(1_787_300_000);
const HOST: &str = "buzz.example.test";

#[test]
fn a_window_opens_with_its_first_hit_and_frees_everything_at_its_end() {
    let mut counters = Counters::default();
    let limit = Limit::new(2, Duration::from_secs(5));
    let mut charge = |millis| {
        counters.charge(
            "key",
            Bucket::Socket,
            limit,
            START + Duration::from_millis(millis),
        )
    };

    assert_eq!(charge(0), Ok(()));
    assert_eq!(charge(4000), Ok(()));
    assert_eq!(charge(4000), Err(1));
    assert_eq!(charge(4500), Err(0));
    assert_eq!(charge(5000), Ok(()));
    assert_eq!(charge(5001), Ok(()));
    assert_eq!(charge(5002), Err(4));
}

#[test]
fn the_fifty_first_frame_within_five_seconds_is_refused() {
    let (mut rules, id, keys) = authenticated(Settings::default());
    for index in 0..50 {
        send(
            &mut rules,
            id,
            &json!(["REQ", format!("s{index}"), {"kinds": [0]}]),
            START,
        );
    }
    rules.take(id);

    send(
        &mut rules,
        id,
        &json!(["REQ", "late", {"kinds": [1]}]),
        START + Duration::from_secs(3),
    );
    let refused = texts(&rules.take(id));
    let event = keys.sign_event(1, vec![], "", START.as_secs());
    send(
        &mut rules,
        id,
        &json!(["EVENT", event]),
        START + Duration::from_secs(5),
    );

    assert_eq!(
        refused,
        [json!([
            "CLOSED",
            "late",
            "rate-limited: quota exceeded; retry in 2s"
        ])]
    );
    assert_eq!(texts(&rules.take(id)), [json!(["OK", event.id, true, ""])]);
}

#[test]
fn authentication_has_five_seconds() {
    let (mut rules, id, _) = opened(Settings::default());
    let deadline = START + Duration::from_secs(5);
    rules.take(id);

    assert_eq!(rules.deadline(id), Some(deadline));
    rules.tick(id, deadline - Duration::from_millis(1));
    assert_eq!(rules.take(id), Batch::default());
    rules.tick(id, deadline);

    assert_eq!(rules.take(id).closing, Some(Closing::Silent));
}

#[test]
fn an_authenticated_connection_outlives_the_deadline() {
    let (mut rules, id, _) = authenticated(Settings::default());

    rules.tick(id, START + Duration::from_secs(6));

    assert_eq!(rules.take(id), Batch::default());
    assert_eq!(rules.deadline(id), Some(START + Duration::from_secs(30)));
}

#[test]
fn without_any_pong_the_connection_ends_after_sixty_seconds() {
    let (mut rules, id, _) = authenticated(Settings::default());

    rules.tick(id, START + Duration::from_secs(30));
    assert_eq!(rules.take(id).frames, [Outgoing::Ping]);
    rules.tick(id, START + Duration::from_secs(60));

    assert_eq!(rules.take(id).closing, Some(Closing::Silent));
}

#[test]
fn after_an_answered_ping_the_connection_ends_ninety_seconds_later() {
    let (mut rules, id, _) = authenticated(Settings::default());
    rules.tick(id, START + Duration::from_secs(30));
    rules.pong(id);
    for tick in [60, 90] {
        rules.tick(id, START + Duration::from_secs(tick));
        assert_eq!(rules.take(id).closing, None);
    }

    rules.tick(id, START + Duration::from_secs(120));

    assert_eq!(rules.take(id).closing, Some(Closing::Silent));
}

#[test]
fn a_proof_may_be_used_again_after_two_minutes_but_is_stale_then() {
    let (mut rules, _, keys) = authenticated(Settings::default());
    let request = |created_at: u64| {
        let tags = vec![
            tag("u", &format!("http://{HOST}/query")),
            tag("method", "POST"),
        ];
        let proof = keys.sign_event(27_235, tags, "", created_at).to_json();
        HttpRequest {
            method: "POST".to_owned(),
            path: "/query".to_owned(),
            host: HOST.to_owned(),
            authorization: Some(format!("Nostr {}", base64(&proof))),
            body: b"[]".to_vec(),
            ..HttpRequest::default()
        }
    };
    let ahead = request(START.as_secs() + 60);

    assert_eq!(rules.http(&ahead, START).status, 200);
    let replayed = rules.http(&ahead, START + Duration::from_secs(119));
    assert_eq!(
        replayed.body,
        json!({"error": "NIP-98: replay detected"}).to_string()
    );
    let stale = rules.http(&ahead, START + Duration::from_secs(121));
    assert!(
        stale.body.contains("timestamp out of range"),
        "{}",
        stale.body
    );
}

#[test]
fn the_same_input_gives_the_same_output() {
    let run = || {
        let (mut rules, id, keys) = authenticated(Settings::default());
        let room = "0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501";
        send(
            &mut rules,
            id,
            &json!(["REQ", "s", {"kinds": [9, 40_099], "#h": [room]}]),
            START,
        );
        let tags = vec![
            tag("h", room),
            tag("name", "room"),
            tag("visibility", "open"),
        ];
        let creation = keys.sign_event(9007, tags, "", START.as_secs());
        send(&mut rules, id, &json!(["EVENT", creation]), START);
        send(
            &mut rules,
            id,
            &json!(["REQ", "t", {"kinds": [9, 40_099], "#h": [room]}]),
            START,
        );
        let event = keys.sign_event(9, vec![tag("h", room)], "hello", START.as_secs());
        send(
            &mut rules,
            id,
            &json!(["EVENT", event]),
            START + Duration::from_secs(1),
        );
        texts(&rules.take(id))
    };

    let first = run();

    assert_eq!(first.len(), 6, "{first:?}");
    assert_eq!(first, run());
}

#[test]
fn relay_signed_events_have_the_ids_of_the_published_examples() {
    let (mut rules, _, _) = opened(Settings::default());
    let room = "0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501";
    let owner = Keys::from_secret(&format!("{:0>64}", 4)).expect("a valid scalar");
    let agent = Keys::from_secret(&format!("{:0>64}", 5)).expect("a valid scalar");
    let now = START + Duration::from_secs(1);
    let channel = NewChannel {
        id: room,
        name: "build-room",
        about: "nightly builds",
        visibility: Visibility::Private,
        kind: ChannelKind::Stream,
        owner: owner.public(),
    };
    rules
        .create_channel(channel, START)
        .expect("the id is free");
    rules
        .add_member(room, agent.public(), Role::Bot, owner.public(), now)
        .expect("it exists");

    let id = |kind: u32| {
        let filter = Filter {
            kinds: Some(vec![kind]),
            ..Filter::default()
        };
        rules
            .store()
            .matching(&filter)
            .next()
            .map(|filed| filed.event.id[..16].to_owned())
    };

    assert_eq!(id(39_000).as_deref(), Some("b24d417be3c0af1d"));
    assert_eq!(id(39_002).as_deref(), Some("e93bcf159657c79b"));
    assert_eq!(id(40_099).as_deref(), Some("b5918c7e86b34ad5"));
    assert_eq!(id(44_100).as_deref(), Some("a3aa21af4dede24b"));
}

fn opened(settings: Settings) -> (Rules, ConnectionId, Keys) {
    let secret = |last: &str| format!("{last:0>64}");
    let mut rules = Rules::new(
        settings,
        Keys::from_secret(&secret("1")).expect("a valid scalar"),
    );
    let id = rules.open(HOST, [7; 32], START);
    (
        rules,
        id,
        Keys::from_secret(&secret("5")).expect("a valid scalar"),
    )
}

fn authenticated(settings: Settings) -> (Rules, ConnectionId, Keys) {
    let (mut rules, id, keys) = opened(settings);
    let challenge = texts(&rules.take(id))[0][1]
        .as_str()
        .map(str::to_owned)
        .unwrap_or_default();
    let tags = vec![
        tag("relay", &format!("ws://{HOST}")),
        tag("challenge", &challenge),
    ];
    let event = keys.sign_event(22_242, tags, "", START.as_secs());
    send(&mut rules, id, &json!(["AUTH", event]), START);
    assert_eq!(texts(&rules.take(id)), [json!(["OK", event.id, true, ""])]);
    (rules, id, keys)
}

fn send(rules: &mut Rules, id: ConnectionId, value: &Value, now: Duration) {
    rules.receive(id, frame::parse(&value.to_string()), now);
}

fn texts(batch: &Batch) -> Vec<Value> {
    batch
        .frames
        .iter()
        .filter_map(|frame| match frame {
            Outgoing::Text(text) => serde_json::from_str(text).ok(),
            Outgoing::Ping => None,
        })
        .collect()
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}
