//! Keys of those who live in a world, and what they sign. Signatures are real (BIP-340), made
//! without auxiliary randomness so that they repeat.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use buzz_dev_relay::client::tag;
use buzz_dev_relay::keys::{InvalidSecret, Keys};
use buzz_dev_relay::rules::event::Event;
use buzz_dev_relay::rules::http::HttpRequest;
use buzz_proto::ids::{ChannelId, PubKey};
use buzz_proto::time::UnixTime;

/// The name under which everybody reaches the relay.
pub(super) const HOST: &str = "relay.example";
/// The URL of its socket.
pub(super) const URL: &str = "ws://relay.example";

/// Somebody who writes messages, told apart by a number. A relay meters each of them alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Person(pub u32);

/// Whose key it is; the number of a person is only unique among persons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Relay,
    Agent,
    Person(Person),
}

/// A key that is the same in every world.
pub(super) fn keys_of(role: Role) -> Result<Keys, InvalidSecret> {
    let (kind, number) = match role {
        Role::Relay => (1, 0),
        Role::Agent => (2, 0),
        Role::Person(Person(number)) => (3, number),
    };
    let mut secret = [0; 32];
    let [first, middle @ .., a, b, c, d] = &mut secret;
    *first = kind;
    middle.fill(0x5a);
    [*a, *b, *c, *d] = number.to_be_bytes();
    Keys::from_secret_bytes(secret)
}

/// The public half as the machine names it.
pub(super) fn public_key(keys: &Keys) -> Option<PubKey> {
    keys.public().parse().ok()
}

/// The channel of a number, the same in every world.
#[must_use]
pub const fn channel(number: u16) -> ChannelId {
    let [high, low] = number.to_be_bytes();
    let mut id = [0x5a; 16];
    id[14] = high;
    id[15] = low;
    ChannelId(id)
}

/// The answer to a challenge (NIP-42).
pub(super) fn auth_event(keys: &Keys, challenge: &str, now: UnixTime) -> Event {
    let tags = vec![tag("relay", URL), tag("challenge", challenge)];
    keys.sign_event(22_242, tags, "", now.0)
}

/// A `POST` with its proof (NIP-98); `nonce` tells apart calls of the same second.
pub(super) fn post(
    keys: &Keys,
    path: &str,
    body: Vec<u8>,
    nonce: u64,
    now: UnixTime,
) -> HttpRequest {
    let tags = vec![
        tag("u", &format!("http://{HOST}{path}")),
        tag("method", "POST"),
        tag("nonce", &nonce.to_string()),
    ];
    let proof = keys.sign_event(27_235, tags, "", now.0).to_json();
    HttpRequest {
        method: "POST".to_owned(),
        path: path.to_owned(),
        host: HOST.to_owned(),
        authorization: Some(format!("Nostr {}", STANDARD.encode(proof))),
        body,
        ..HttpRequest::default()
    }
}

/// The request for the information document (NIP-11).
pub(super) fn information() -> HttpRequest {
    HttpRequest {
        method: "GET".to_owned(),
        path: "/".to_owned(),
        host: HOST.to_owned(),
        accept: "application/nostr+json".to_owned(),
        ..HttpRequest::default()
    }
}

/// Whether id and signature of an event hold, recomputed.
pub(super) fn is_genuine(raw: &[u8]) -> bool {
    serde_json::from_slice::<Event>(raw).is_ok_and(|event| event.forgery().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_genuine_until_a_letter_of_it_changes() {
        let keys = keys_of(Role::Person(Person(7))).unwrap();
        let json = keys.sign_event(9, Vec::new(), "hello", 5).to_json();

        assert!(is_genuine(json.as_bytes()));
        assert!(!is_genuine(json.replace("hello", "hullo").as_bytes()));
        assert!(!is_genuine(b"{}"));
    }

    #[test]
    fn everybody_has_a_key_of_their_own() {
        let roles = [Role::Relay, Role::Agent, Role::Person(Person(0))];
        let keys = roles.map(|role| keys_of(role).unwrap().public().to_owned());

        assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
        assert!(keys_of(Role::Person(Person(u32::MAX))).is_ok());
    }
}
