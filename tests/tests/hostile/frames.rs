//! Frames that are too large, too deep, or none at all.

use std::time::Duration;

use buzz_adapters::connect::Setup;
use serde_json::json;

use crate::agent::Scene;
use crate::liar::within;
use crate::line::{LAST, Line, TEXT, frame, head, text};

const MIB: usize = 1 << 20;
/// A fragment that others follow begin with 1, and the others with 0.
const FRAGMENT: u8 = TEXT;
const MORE: u8 = 0;

/// The agent gives the socket up, comes back and delivers.
async fn ends_the_socket<T>(attacks: &[T], attack: impl AsyncFn(&mut Line, &T)) {
    let mut scene = Scene::open().await;
    for it in attacks {
        let (mut line, name) = scene.live().await;
        scene.delivers(&mut line, &name).await;
        attack(&mut line, it).await;
        line.closes().await;
    }
    scene.keeps_its_deadlines().await;
    scene.comes_back().await;
    scene.end().await;
}

/// Sends as much as the agent takes.
async fn pour(line: &mut Line, pieces: usize, piece: &[u8]) {
    for _ in 0..pieces {
        if line.raw(piece).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_64_mib_ends_the_socket() {
    ends_the_socket(&[()], async |line, ()| {
        // Nothing tells whether the head alone was enough.
        drop(line.raw(&head(LAST | TEXT, 64 << 20)).await);
        pour(line, 64, &vec![b' '; MIB]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_64_mib_in_fragments_ends_the_socket() {
    ends_the_socket(&[()], async |line, ()| {
        drop(line.raw(&frame(FRAGMENT, b"[")).await);
        pour(line, 64, &frame(MORE, &vec![b' '; MIB])).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_that_announces_more_than_there_is_ends_the_socket() {
    // Ten challenges a minute are answered, and each socket has one.
    let lengths = [i64::MAX.cast_unsigned(), 1 << 63, u64::MAX];
    let firsts = [LAST | TEXT, FRAGMENT];
    let heads = firsts.map(|first| lengths.map(|length| head(first, length)));
    ends_the_socket(heads.as_flattened(), async |line, head| {
        drop(line.raw(head).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_frame_ends_the_socket() {
    let not_utf8 = frame(LAST | TEXT, b"[\"NOTICE\",\"\xff\"]");
    let reserved = frame(LAST | 3, b"");
    let compressed = frame(LAST | TEXT | 0x40, b"[]");
    let unbegun = frame(LAST | MORE, b"[]");
    let masked = [0x81, 0x82, 1, 2, 3, 4, 5, 6].to_vec();
    let http = b"HTTP/1.1 400 Bad Request\r\n".repeat(10);
    let attacks = [not_utf8, reserved, compressed, unbegun, masked, http];
    ends_the_socket(&attacks, async |line, bytes| drop(line.raw(bytes).await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_frames_are_ignored() {
    let mut scene = Scene::open().await;
    let (mut line, name) = scene.live().await;
    let spaces = vec![b' '; MIB];
    let pieces = |n: u32| match n % 17 {
        0 => head(LAST | TEXT, 16 << 20),
        _ => spaces.clone(),
    };
    // Pieces of whole frames.
    let flood = scene.flood(&mut line, 17 * 8, 17, pieces).await;
    flood.expect("it is no reason to go");
    scene.delivers(&mut line, &name).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrays_of_a_million_depths_are_ignored() {
    let open = "[".repeat(MIB);
    let closed = format!("{open}{}", "]".repeat(MIB));
    let frames = [
        text(&open),
        text(&format!(r#"["EVENT","x",{open}"#)),
        text(&format!(r#"["EVENT","x",{closed}]"#)),
        text(&format!(r#"["EOSE","x",{closed}]"#)),
    ];
    let mut scene = Scene::open().await;
    let (mut line, name) = scene.live().await;
    let piece = |n: u32| frames[n as usize % frames.len()].clone();
    let flood = scene.flood(&mut line, 16, 1, piece).await;
    flood.expect("it is no reason to go");
    scene.delivers(&mut line, &name).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_endless_empty_fragments_holds_nothing_up() {
    let mut scene = Scene::open().await;
    let (mut line, name) = scene.live().await;
    line.raw(&frame(FRAGMENT, b"[")).await.expect("it is open");
    let empty = frame(MORE, b"").repeat(10_000);
    let flood = scene.flood(&mut line, 50, 1, |_| empty.clone()).await;
    flood.expect("it is no reason to go");
    line.raw(&frame(LAST | MORE, b"]"))
        .await
        .expect("it is open");
    scene.delivers(&mut line, &name).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_events_that_nobody_takes_are_kept_within_the_bytes_allowed() {
    let mut scene = Scene::open().await;
    let (mut line, name) = scene.live().await;
    let large = "x".repeat(900_000);
    let mut first = None;
    let mut number = 0;
    let scene_ref = &scene;
    let flood = scene_ref
        .flood(&mut line, 64, 1, |_| {
            number += 1;
            let event = scene_ref.mention(&format!("{number} {large}"));
            first.get_or_insert_with(|| event.clone());
            text(&json!(["EVENT", name, event]).to_string())
        })
        .await;
    flood.expect("it is no reason to go");
    assert_eq!(Some(scene.next_event().await), first);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_that_trickles_without_end_is_no_sign_of_life() {
    let quick = |setup: &mut Setup| {
        let limits = &mut setup.config.relay.limits;
        limits.ping_after = Duration::from_millis(1000);
        limits.pong = Duration::from_millis(1000);
    };
    let mut scene = Scene::open_with(|_| {}, quick).await;
    let (mut line, name) = scene.live().await;
    scene.delivers(&mut line, &name).await;
    let mut trickle = head(LAST | TEXT, 1 << 20);
    within(async {
        while line.raw(&trickle).await.is_ok() {
            trickle = b" ".to_vec();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    scene.comes_back().await;
    scene.end().await;
}
