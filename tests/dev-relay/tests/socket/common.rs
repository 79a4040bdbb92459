//! Support for the suites.

use std::time::Duration;

use buzz_dev_relay::client::{Client, ClientError, Frame, Receipt, http, tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::Settings;
use buzz_dev_relay::rules::channels::{ChannelKind, Role, Visibility};
use buzz_dev_relay::rules::event::Event;
use buzz_dev_relay::rules::quota::Quotas;
use buzz_dev_relay::{DevRelay, Options};
use serde_json::{Value, json};

pub(crate) const ROOM: &str = "0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501";
pub(crate) const OTHER_ROOM: &str = "5ea9b7d4-1183-4c60-8f0e-33a6d2947b10";
pub(crate) const NOT_A_MEMBER: &str = "restricted: not a channel member";
pub(crate) const REVOKED: &str = "restricted: channel access revoked";
/// Only a hang is caught by it; no verdict depends on it.
const GUARD: Duration = Duration::from_secs(20);

pub(crate) fn settings() -> Settings {
    Settings {
        quotas: Quotas::off(),
        ..Settings::default()
    }
}

pub(crate) async fn relay() -> DevRelay {
    relay_with(settings()).await
}

pub(crate) async fn relay_with(settings: Settings) -> DevRelay {
    start(Options {
        settings,
        linger: Duration::from_millis(500),
        ..Options::default()
    })
    .await
}

pub(crate) async fn start(options: Options) -> DevRelay {
    DevRelay::start(options).await.expect("the relay starts")
}

/// A relay with a private room that belongs to `owner`.
pub(crate) fn room(relay: &DevRelay, id: &str, visibility: Visibility, owner: &Keys) {
    relay
        .create_channel(
            id,
            "build-room",
            visibility,
            ChannelKind::Stream,
            owner.public(),
        )
        .expect("the room is new");
}

pub(crate) fn join(relay: &DevRelay, id: &str, member: &Keys, actor: &Keys) {
    relay
        .add_member(id, member.public(), Role::Member, actor.public())
        .expect("the room exists");
}

pub(crate) async fn client(relay: &DevRelay, keys: &Keys) -> Client {
    guard(Client::connect(&relay.url(), keys))
        .await
        .expect("the key is admitted")
}

/// A room with its owner and a plain member, both connected.
pub(crate) struct Party {
    pub(crate) relay: DevRelay,
    pub(crate) owner: Keys,
    pub(crate) member: Keys,
    pub(crate) admin: Client,
    pub(crate) client: Client,
}

impl Party {
    /// A party in the private [`ROOM`].
    pub(crate) async fn meet() -> Self {
        let relay = relay().await;
        let (owner, member) = (Keys::generate(), Keys::generate());
        room(&relay, ROOM, Visibility::Private, &owner);
        join(&relay, ROOM, &member, &owner);
        Self {
            admin: client(&relay, &owner).await,
            client: client(&relay, &member).await,
            relay,
            owner,
            member,
        }
    }
}

pub(crate) async fn guard<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(GUARD, future)
        .await
        .expect("an answer comes")
}

pub(crate) fn message(keys: &Keys, channel: &str, text: &str) -> Event {
    keys.sign_event(9, vec![tag("h", channel)], text, unix_now())
}

pub(crate) fn message_at(keys: &Keys, channel: &str, text: &str, created_at: u64) -> Event {
    keys.sign_event(9, vec![tag("h", channel)], text, created_at)
}

pub(crate) fn note(keys: &Keys, text: &str) -> Event {
    keys.sign_event(1, vec![], text, unix_now())
}

pub(crate) async fn publish(client: &mut Client, event: &Event) -> Receipt {
    guard(client.publish(event))
        .await
        .expect("the connection holds")
}

pub(crate) async fn accept(client: &mut Client, event: &Event) {
    let receipt = publish(client, event).await;
    assert!(receipt.accepted, "{}", receipt.message);
}

pub(crate) async fn refusal(client: &mut Client, event: &Event) -> String {
    let receipt = publish(client, event).await;
    assert!(!receipt.accepted, "accepted: {}", receipt.message);
    receipt.message
}

/// Asserts that the relay refuses an event in words that begin so.
pub(crate) async fn refused(client: &mut Client, event: &Event, beginning: &str) {
    let text = refusal(client, event).await;
    assert!(text.starts_with(beginning), "{text}");
}

pub(crate) async fn next(client: &mut Client) -> Frame {
    guard(client.next()).await.expect("the connection holds")
}

pub(crate) async fn subscribe(client: &mut Client, id: &str, filter: Value) {
    guard(client.subscribe(id, filter))
        .await
        .expect("the connection holds");
}

/// Subscribes to live events only.
pub(crate) async fn listen(client: &mut Client, id: &str, mut filter: Value) {
    filter["limit"] = json!(0);
    subscribe(client, id, filter).await;
    assert_eq!(next(client).await, Frame::Eose(id.to_owned()));
}

pub(crate) async fn history(client: &mut Client, filter: Value) -> Vec<Event> {
    let events = guard(client.history("history", filter))
        .await
        .expect("history is served");
    guard(client.unsubscribe("history"))
        .await
        .expect("the connection holds");
    assert_eq!(next(client).await, closed("history", ""));
    events
}

/// Asserts that nothing but the answer to this CLOSE is waiting.
pub(crate) async fn assert_silent(client: &mut Client) {
    guard(client.unsubscribe("silence"))
        .await
        .expect("the connection holds");
    assert_eq!(next(client).await, closed("silence", ""));
}

/// Asserts that the relay closes now, with an empty close frame.
pub(crate) async fn assert_ended_without_status(client: &mut Client) {
    let end = guard(client.next()).await;
    let Err(ClientError::Ended { code, .. }) = end else {
        panic!("no end: {end:?}")
    };
    assert_eq!(code, Some(1005));
}

pub(crate) fn closed(subscription: &str, reason: &str) -> Frame {
    Frame::Closed {
        subscription: subscription.to_owned(),
        reason: reason.to_owned(),
    }
}

pub(crate) fn notice(text: &str) -> Frame {
    Frame::Notice(text.to_owned())
}

pub(crate) fn live(subscription: &str, event: &Event) -> Frame {
    Frame::Event {
        subscription: subscription.to_owned(),
        event: Box::new(event.clone()),
    }
}

pub(crate) async fn live_event(client: &mut Client) -> Event {
    let frame = next(client).await;
    let Frame::Event { event, .. } = frame else {
        panic!("no event: {frame:?}")
    };
    *event
}

pub(crate) fn ids(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.id.as_str()).collect()
}

pub(crate) async fn post_event(relay: &DevRelay, keys: &Keys, event: &Event) -> http::Reply {
    guard(http::publish(&relay.http_url(), keys, event))
        .await
        .expect("HTTP answers")
}

pub(crate) async fn query(relay: &DevRelay, keys: &Keys, filters: Value) -> http::Reply {
    guard(http::query(&relay.http_url(), keys, &filters))
        .await
        .expect("HTTP answers")
}

/// The filter of a key for notices about its own membership.
pub(crate) fn notices(keys: &Keys) -> Value {
    json!({"kinds": [44_100, 44_101], "#p": [keys.public()]})
}
