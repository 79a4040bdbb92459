//! Heartbeat, slow consumers, limits on size, and the ways a connection ends.

use std::time::Duration;

use async_tungstenite::tungstenite::Message;
use buzz_dev_relay::client::{Client, ClientError, Frame, tag, unix_now};
use buzz_dev_relay::faults::{CannedReply, Fault, Target};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::Settings;
use buzz_dev_relay::rules::queue::Closing;
use buzz_dev_relay::{DevRelay, Options, StartError};
use serde_json::json;

use crate::common::*;

#[tokio::test]
async fn a_ping_comes_at_once() {
    let relay = relay().await;
    let mut client = guard(Client::open(&relay.url()))
        .await
        .expect("the port answers");

    let first = guard(client.next_message())
        .await
        .expect("the connection holds");

    assert!(matches!(first, Message::Ping(_)), "{first:?}");
}

#[tokio::test]
async fn pings_repeat_and_their_answers_are_seen() {
    let relay = relay_with(Settings {
        ping_every: Duration::from_millis(100),
        ..settings()
    })
    .await;
    let keys = Keys::generate();
    let mut client = client(&relay, &keys).await;

    for _ in 0..3 {
        let message = guard(client.next_message())
            .await
            .expect("the connection holds");
        assert!(matches!(message, Message::Ping(_)), "{message:?}");
    }

    assert_silent(&mut client).await;
    assert!(relay.stats_of(keys.public()).pongs > 0);
}

#[tokio::test]
async fn a_ping_can_be_sent_to_one_key_besides_those_of_the_heartbeat() {
    let relay = relay().await;
    let (asked, spared) = (Keys::generate(), Keys::generate());
    let mut one = client(&relay, &asked).await;
    let _other = client(&relay, &spared).await;
    let answered = relay.stats().pongs;

    relay.faults().ping(&Target::Key(asked.public().to_owned()));

    let message = guard(one.next_message())
        .await
        .expect("the connection holds");
    assert!(matches!(message, Message::Ping(_)), "{message:?}");
    assert_silent(&mut one).await;
    assert_eq!(relay.stats_of(asked.public()).pongs, 1);
    assert_eq!(relay.stats().pongs, answered + 1);
}

#[tokio::test]
async fn a_connection_whose_pongs_do_not_arrive_is_closed_without_status() {
    let relay = relay_with(Settings {
        ping_every: Duration::from_millis(100),
        ..settings()
    })
    .await;
    let mut client = client(&relay, &Keys::generate()).await;

    relay.faults().stop_reading(&Target::Everyone, true);

    assert_ended_without_status(&mut client).await;
}

#[tokio::test]
async fn a_full_queue_drops_silently_and_forgets_after_a_success() {
    let settings = Settings {
        queue_frames: 10,
        slow_consumer_grace: 15,
        ..settings()
    };
    let relay = relay_with(settings).await;
    let (mut listener, mut speaker, keys) = stalled_pair(&relay).await;

    let events = speak(&mut speaker, &keys, 10 + 14).await;
    relay.faults().clear();

    for event in &events[..10] {
        assert_eq!(next(&mut listener).await, live("live", event));
    }
    let after = note(&keys, "after");
    accept(&mut speaker, &after).await;
    assert_eq!(next(&mut listener).await, live("live", &after));
    assert_eq!(relay.stats().frames_dropped, 14);
    assert_eq!(relay.stats().slow_consumers, 0);
}

#[tokio::test]
async fn the_fifteenth_drop_in_a_row_ends_the_connection_and_its_queue() {
    let settings = Settings {
        queue_frames: 10,
        slow_consumer_grace: 15,
        ..settings()
    };
    let relay = relay_with(settings).await;
    let (mut listener, mut speaker, keys) = stalled_pair(&relay).await;

    speak(&mut speaker, &keys, 10 + 15).await;

    assert_ended_without_status(&mut listener).await;
    assert_eq!(relay.stats().slow_consumers, 1);
}

#[tokio::test]
async fn a_reader_that_never_reads_is_cut_off_without_any_fault() {
    let settings = Settings {
        queue_frames: 5,
        ..settings()
    };
    let relay = relay_with(settings).await;
    let (ears, mouth) = (Keys::generate(), Keys::generate());
    let mut listener = client(&relay, &ears).await;
    let mut speaker = client(&relay, &mouth).await;
    listen(&mut listener, "live", json!({"kinds": [1]})).await;
    let text = "x".repeat(200_000);

    let mut sent = 0;
    while relay.stats().slow_consumers == 0 {
        accept(&mut speaker, &note(&mouth, &format!("{sent}{text}"))).await;
        sent += 1;
        assert!(sent < 500, "the sockets swallow any amount");
    }

    // What the kernel had taken is delivered, then the connection is over.
    let end = loop {
        if let Err(error) = guard(listener.next()).await {
            break error;
        }
    };
    assert!(
        matches!(end, ClientError::Ended { .. } | ClientError::Socket(_)),
        "{end:?}"
    );
}

#[tokio::test]
async fn a_history_that_overruns_the_queue_breaks_off_without_eose() {
    let settings = Settings {
        queue_frames: 10,
        ..settings()
    };
    let patience = Duration::ZERO;
    let relay = start(Options {
        settings,
        history_patience: patience,
        ..Options::default()
    })
    .await;
    let (mut listener, mut speaker, keys) = stalled_pair(&relay).await;
    relay.faults().stall(&Target::Everyone, false);
    for index in 0..20 {
        let tags = vec![tag("d", &index.to_string())];
        let event = keys.sign_event(30_023, tags, "", unix_now());
        accept(&mut speaker, &event).await;
    }

    subscribe(&mut listener, "cut", json!({"kinds": [30_023]})).await;

    for _ in 0..10 {
        assert!(matches!(next(&mut listener).await, Frame::Event { .. }));
    }
    assert_silent(&mut listener).await;
    assert_eq!(relay.stats().histories_cut, 1);
}

#[tokio::test]
async fn an_oversize_message_ends_the_connection_without_a_notice() {
    let options = Options {
        settings: settings(),
        frame_bytes_max: 1000,
        ..Options::default()
    };
    let relay = start(options).await;
    let mut client = client(&relay, &Keys::generate()).await;

    client
        .send_text(&"x".repeat(1001))
        .await
        .expect("the connection holds");

    assert_ended_without_status(&mut client).await;
}

#[tokio::test]
async fn a_graceful_shutdown_closes_with_1012() {
    let relay = relay().await;
    let mut client = client(&relay, &Keys::generate()).await;

    let (end, ()) = tokio::join!(guard(client.next()), guard(relay.shutdown()));

    let Err(ClientError::Ended { code, reason }) = end else {
        panic!("{end:?}")
    };
    assert_eq!((code, reason.as_str()), (Some(1012), "relay restarting"));
}

#[tokio::test]
async fn a_killed_relay_says_nothing() {
    let relay = relay().await;
    let mut client = client(&relay, &Keys::generate()).await;

    guard(relay.kill()).await;

    let end = guard(client.next()).await;
    assert!(
        matches!(
            end,
            Err(ClientError::Socket(_) | ClientError::Ended { code: None, .. })
        ),
        "{end:?}"
    );
}

#[tokio::test]
async fn connections_can_be_closed_by_code_or_dropped_for_one_key() {
    let relay = relay().await;
    let (struck, spared) = (Keys::generate(), Keys::generate());
    let mut one = client(&relay, &struck).await;
    let mut other = client(&relay, &spared).await;
    let target = Target::Key(struck.public().to_owned());
    let deleted = Closing::Status {
        code: 1008,
        reason: "community deleted".to_owned(),
    };

    relay.faults().disconnect(&target, &deleted);

    let end = guard(one.next()).await;
    let Err(ClientError::Ended { code, reason }) = end else {
        panic!("{end:?}")
    };
    assert_eq!((code, reason.as_str()), (Some(1008), "community deleted"));
    assert_silent(&mut other).await;
    relay
        .faults()
        .disconnect(&Target::Everyone, &Closing::Abrupt);
    assert!(matches!(
        guard(other.next()).await,
        Err(ClientError::Socket(_) | ClientError::Ended { code: None, .. })
    ));
}

#[tokio::test]
async fn upgrades_can_be_refused_or_dropped() {
    let relay = relay().await;
    let keys = Keys::generate();
    relay.faults().arm(
        Fault::RefuseUpgrade(CannedReply::error(503, "relay restarting")),
        1,
    );
    relay.faults().arm(Fault::DropConnection, 1);

    for _ in 0..2 {
        let end = guard(Client::connect(&relay.url(), &keys)).await;
        assert!(matches!(
            end,
            Err(ClientError::Socket(_) | ClientError::Ended { code: None, .. })
        ));
    }

    assert!(guard(Client::connect(&relay.url(), &keys)).await.is_ok());
}

#[tokio::test]
async fn only_loopback_is_served() {
    let addr = "0.0.0.0:0".parse().expect("an address");

    let outcome = DevRelay::start(Options {
        addr,
        ..Options::default()
    })
    .await;

    assert!(matches!(outcome, Err(StartError::NotLoopback(refused)) if refused == addr));
}

/// A listener with a live subscription to notes to which nothing is written, and a speaker.
async fn stalled_pair(relay: &DevRelay) -> (Client, Client, Keys) {
    let (ears, mouth) = (Keys::generate(), Keys::generate());
    let mut listener = client(relay, &ears).await;
    listen(&mut listener, "live", json!({"kinds": [1]})).await;
    let speaker = client(relay, &mouth).await;
    relay
        .faults()
        .stall(&Target::Key(ears.public().to_owned()), true);
    (listener, speaker, mouth)
}

async fn speak(
    speaker: &mut Client,
    keys: &Keys,
    count: usize,
) -> Vec<buzz_dev_relay::rules::event::Event> {
    let mut events = Vec::new();
    for index in 0..count {
        let event = note(keys, &index.to_string());
        accept(speaker, &event).await;
        events.push(event);
    }
    events
}
