//! Keys, signatures, verification, addresses and the clock, without sockets.

#![cfg(feature = "tokio")]
#![expect(clippy::unwrap_used, reason = "support functions of tests")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bech32::{Bech32m, Hrp};
use buzz_adapters::clock::Clock;
use buzz_adapters::keys::{KeyError, SecretKey, npub, parse_public_key};
use buzz_adapters::sign::{
    Attestation, LocalSigner, SignError, Signer as _, auth_draft, http_auth,
};
use buzz_adapters::url::{RelayUrl, UrlError};
use buzz_adapters::verify::is_genuine;
use buzz_proto::ids::PubKey;
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Draft;
use serde_json::Value;

/// An AUTH of the agent with the owner's attestation, a notice of the relay, a message with
/// escapes and letters beyond ASCII. Their keys are the scalars 5, 1 and 4: public, worthless.
const EVENTS: &str = include_str!("support/events.jsonl");

/// The example of NIP-19.
const NSEC: &str = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5";
const NSEC_HEX: &str = "67dea2ed018072d675f5415ecfaed7d2597555e202d85b3d65ea4e58d2d92ffa";
const NPUB: &str = "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg";

const ATTESTATION: &str = include_str!("support/attestation.json").trim_ascii();

#[test]
fn events_of_the_relay_are_genuine() {
    for event in EVENTS.lines() {
        assert!(is_genuine(event.as_bytes()), "{event}");
    }
}

#[test]
fn an_event_with_any_field_changed_is_not_genuine() {
    for event in EVENTS.lines() {
        let event: Value = serde_json::from_str(event).unwrap();
        for (field, other) in [
            ("id", Value::from("00".repeat(32))),
            (
                "pubkey",
                Value::from("e493dbf1c10d80f3581e4904930b1404cc6c13900ee0758474fa94abe8c4cd14"),
            ),
            ("created_at", Value::from(1)),
            ("kind", Value::from(70_000)),
            ("kind", Value::from(1)),
            ("tags", serde_json::json!([["h", "x"]])),
            ("tags", serde_json::json!([[1]])),
            ("content", Value::from("other")),
            ("sig", Value::from("11".repeat(64))),
            ("sig", Value::from("short")),
        ] {
            let mut forged = event.clone();
            forged[field] = other;
            assert!(!is_genuine(forged.to_string().as_bytes()), "{forged}");
        }
    }
}

#[test]
fn what_is_no_event_is_not_genuine() {
    let first = EVENTS.lines().next().unwrap();
    let twice = first.replacen('{', r#"{"content":"other","#, 1);
    for text in ["", "null", "[]", "{}", &twice, &"[".repeat(100_000)] {
        assert!(!is_genuine(text.as_bytes()));
    }
    assert!(!is_genuine(b"\xff"));
}

#[test]
fn the_auth_event_is_the_one_that_relays_accept() {
    let attestation = Attestation::parse(ATTESTATION).unwrap();
    let challenge = "023212d1fd4f0a3ad03c45c52a40871f468abc416ec181f6eebfc3226cc4753c";
    let url = RelayUrl::parse("wss://Buzz.example.test:443/").unwrap();

    let draft = auth_draft(
        &url.relay_tag(),
        challenge,
        Some(&attestation),
        UnixTime(1_787_300_000),
    );
    let event = agent().sign_now(&draft).unwrap();

    assert!(is_genuine(&event));
    let event: Value = serde_json::from_slice(&event).unwrap();
    let known: Value = serde_json::from_str(EVENTS.lines().next().unwrap()).unwrap();
    for field in ["id", "pubkey", "created_at", "kind", "tags", "content"] {
        assert_eq!(event[field], known[field]);
    }
}

#[test]
fn an_attestation_holds_for_its_agent_alone() {
    let attestation = Attestation::parse(ATTESTATION).unwrap();
    assert!(attestation.is_for(&agent().public_key()));
    assert!(!attestation.is_for(&scalar(6).public_key()));
    assert!(!attestation.is_for(&attestation.owner()));
    assert_eq!(attestation.header(), ATTESTATION);
    for text in [
        "",
        "[]",
        r#"["auth","a","b","c"]"#,
        &ATTESTATION.replace("auth", "p"),
    ] {
        assert!(Attestation::parse(text).is_err());
    }
}

#[tokio::test]
async fn an_http_signature_covers_url_method_and_body_and_never_repeats() {
    let (signer, now) = (agent(), UnixTime(1_787_300_000));
    let url = "https://buzz.example.test/query";

    let first = http_auth(&signer, url, "POST", Some(b"[]"), now)
        .await
        .unwrap();
    let second = http_auth(&signer, url, "POST", Some(b"[]"), now)
        .await
        .unwrap();

    assert_ne!(first, second);
    let event = STANDARD
        .decode(first.strip_prefix("Nostr ").unwrap())
        .unwrap();
    assert!(is_genuine(&event));
    let event: Value = serde_json::from_slice(&event).unwrap();
    assert_eq!(event["kind"], 27_235);
    assert_eq!(event["created_at"], 1_787_300_000);
    assert_eq!(event["tags"][0], serde_json::json!(["u", url]));
    assert_eq!(event["tags"][1], serde_json::json!(["method", "POST"]));
    assert_eq!(event["tags"][2][0], "nonce");
    let hash = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";
    assert_eq!(event["tags"][3], serde_json::json!(["payload", hash]));
}

#[tokio::test]
async fn a_draft_in_json_becomes_a_genuine_event() {
    let json = "{\"kind\":9,\"created_at\":7,\"tags\":[[\"h\",\"x\"],[]],\"content\":\"\\u0001\\u007f\\/\u{2028}\\n\"}";
    let draft = Draft::decode(json.as_bytes()).unwrap();

    let event = agent().sign(draft).await.unwrap();

    assert!(is_genuine(&event));
}

#[test]
fn a_kind_that_no_event_can_have_is_not_signed() {
    let draft = Draft {
        kind: 65_536,
        created_at: UnixTime(7),
        tags: Vec::new(),
        content: String::new(),
    };
    assert_eq!(agent().sign_now(&draft), Err(SignError::Refused));
}

#[test]
fn secret_keys_are_read_in_both_forms() {
    let public = SecretKey::parse(NSEC_HEX).unwrap().public_key();
    for text in [
        NSEC,
        &NSEC.to_uppercase(),
        &format!(" {NSEC}\n"),
        &NSEC_HEX.to_uppercase(),
    ] {
        let key = SecretKey::parse(text).unwrap();
        assert_eq!((key.public_key(), key.nsec().as_str()), (public, NSEC));
    }
}

#[test]
fn texts_that_are_no_secret_key_are_refused() {
    let bytes = [7; 32];
    let bech32m = bech32::encode_lower::<Bech32m>(Hrp::parse("nsec").unwrap(), &bytes).unwrap();
    let short =
        bech32::encode_lower::<bech32::Bech32>(Hrp::parse("nsec").unwrap(), &[7; 31]).unwrap();
    let typo = NSEC.replacen("029", "028", 1);
    for (text, error) in [
        ("", KeyError::Form),
        (&bech32m, KeyError::Form),
        (&short, KeyError::Form),
        (&typo, KeyError::Form),
        (&"g".repeat(64), KeyError::Form),
        (&"é".repeat(32), KeyError::Form),
        (&"0".repeat(64), KeyError::Range),
        (&"f".repeat(64), KeyError::Range),
        (NPUB, KeyError::PublicKey),
    ] {
        assert_eq!(SecretKey::parse(text).unwrap_err(), error);
    }
}

#[test]
fn public_keys_are_read_and_written() {
    let hex = "7e7e9c42a91bfef19fa929e5fda1b72e0ebc1a4c1141673e2794234d86addf4e";
    let key: PubKey = hex.parse().unwrap();
    assert_eq!(npub(&key), NPUB);
    assert_eq!(parse_public_key(NPUB), Ok(key));
    assert_eq!(parse_public_key(hex), Ok(key));
    assert_eq!(parse_public_key(NSEC), Err(KeyError::Form));
}

#[test]
fn printing_a_key_or_its_errors_never_shows_it() {
    let key = SecretKey::parse(NSEC).unwrap();
    let typo = SecretKey::parse(&NSEC.replacen("029", "028", 1)).unwrap_err();
    let shown = format!(
        "{key:?} {key:#?} {typo:?} {typo} {:?}",
        LocalSigner::new(key_of(NSEC))
    );
    for part in ["vl029mgpsp", "67dea2ed", "103, 222"] {
        assert!(!shown.contains(part), "{shown}");
    }
}

#[test]
fn a_key_file_is_for_its_owner_alone_and_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let key = SecretKey::generate().unwrap();

    key.write_file(&path).unwrap();

    assert_eq!(SecretKey::from_file(&path).unwrap().nsec(), key.nsec());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert!(scalar(5).write_file(&path).is_err());
    assert_eq!(
        SecretKey::from_file(&path).unwrap().public_key(),
        key.public_key()
    );
    // A key, but far more than a key.
    let large = folder.path().join("large");
    std::fs::write(&large, format!("{NSEC}{}", " ".repeat(5000))).unwrap();
    assert_eq!(SecretKey::from_file(&large).unwrap_err(), KeyError::Form);
    let missing = SecretKey::from_file(&folder.path().join("none")).unwrap_err();
    assert_eq!(missing, KeyError::File(std::io::ErrorKind::NotFound));
}

#[test]
fn a_relay_url_gives_every_address_that_is_needed() {
    for (text, websocket, http, tag) in [
        (
            "wss://Relay.Example.",
            "wss://relay.example/",
            "https://relay.example/events",
            "wss://relay.example",
        ),
        (
            "https://relay.example:443/base/?key=1#part",
            "wss://relay.example/base/?key=1",
            "https://relay.example/base/events?key=1",
            "wss://relay.example",
        ),
        (
            "ws://127.0.0.1:3000",
            "ws://127.0.0.1:3000/",
            "http://127.0.0.1:3000/events",
            "ws://127.0.0.1:3000",
        ),
        (
            "http://[::1]:3000/base",
            "ws://[::1]:3000/base",
            "http://[::1]:3000/base/events",
            "ws://[::1]:3000",
        ),
    ] {
        let url = RelayUrl::parse(text).unwrap();
        assert_eq!(url.websocket(), websocket);
        assert_eq!(url.http("/events"), http);
        assert_eq!(url.relay_tag(), tag);
        assert_eq!(format!("{url} {url:?}"), format!("{tag} {tag}"));
    }
    let url = RelayUrl::parse("ws://[::1]").unwrap();
    assert_eq!((url.host(), url.port()), ("::1", 80));
    assert_eq!(RelayUrl::parse("wss://a").unwrap().port(), 443);
}

#[test]
fn texts_that_are_no_relay_url_are_refused() {
    for (text, error) in [
        ("", UrlError::Scheme),
        ("relay.example", UrlError::Scheme),
        ("ftp://relay.example", UrlError::Scheme),
        ("wss://", UrlError::Malformed),
        ("wss://relay.example:port", UrlError::Port),
        ("wss://relay.example:", UrlError::Port),
        ("wss://relay.example:0", UrlError::Port),
        ("wss://relay.example:65536", UrlError::Port),
        ("wss://me:secret@relay.example", UrlError::Credentials),
        ("wss://relay example", UrlError::Malformed),
        ("wss://.", UrlError::Host),
    ] {
        assert_eq!(RelayUrl::parse(text), Err(error), "{text}");
    }
}

#[test]
fn the_clock_starts_at_zero_and_never_falls() {
    let clock = Clock::start();
    let first = clock.now();
    assert!(first.as_nanos() < 60_000_000_000);
    assert!(clock.now() >= first);
    assert!(Clock::wall() > UnixTime(1_700_000_000));
}

fn agent() -> LocalSigner {
    LocalSigner::new(scalar(5))
}

fn scalar(number: u8) -> SecretKey {
    key_of(&format!("{number:064x}"))
}

fn key_of(text: &str) -> SecretKey {
    SecretKey::parse(text).unwrap()
}
