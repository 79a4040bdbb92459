//! Frames without end, each of them harmless alone.

use serde_json::{Value, json};

use crate::agent::{CHANNEL, Scene};
use crate::line::{LAST, PING, frame, text};

/// Frames of one piece.
const BATCH: u32 = 1000;
const MANY: u32 = 100_000;

/// A piece of frames with these words.
fn batch(n: u32, words: impl Fn(u32) -> String) -> Vec<u8> {
    let numbers = n * BATCH..(n + 1) * BATCH;
    numbers.flat_map(|n| text(&words(n))).collect()
}

/// So many frames come; the agent lives, keeps its deadlines, and delivers afterwards on the same
/// socket. Gives what it said meanwhile.
async fn is_survived(least: u32, words: impl Fn(u32) -> String) -> Vec<Value> {
    let mut scene = Scene::open().await;
    let (mut line, name) = scene.live().await;
    let flood = scene.flood(&mut line, least / BATCH, 1, |n| batch(n, &words));
    flood.await.expect("it is no reason to go");
    scene.delivers(&mut line, &name).await;
    let said = line.heard();
    scene.end().await;
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notices() {
    let long = "x".repeat(500);
    is_survived(MANY, |n| {
        json!(["NOTICE", format!("{n} {long}")]).to_string()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_of_histories_that_nobody_asked_for() {
    is_survived(2 * MANY, |n| match n % 2 {
        0 => format!(r#"["EOSE","x{n}"]"#),
        _ => format!(r#"["EOSE","ch-{CHANNEL}-{}"]"#, n + 100),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receipts_that_nobody_waits_for() {
    is_survived(MANY, |n| {
        format!(r#"["OK","{n:064x}",false,"blocked: no"]"#)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_of_what_nobody_asked_for() {
    is_survived(MANY, |n| format!(r#"["CLOSED","x{n}","restricted: no"]"#)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn challenges() {
    let said = is_survived(MANY, |n| format!(r#"["AUTH","{n}"]"#)).await;
    let answers = said.iter().filter(|frame| frame[0] == "AUTH").count();
    assert!(answers <= 10, "{answers} signatures");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_of_lost_frames() {
    let said = is_survived(MANY, |_| r#"["BUZZ_SYNC_REQUIRED","x"]"#.to_owned()).await;
    let reads = said.iter().filter(|frame| frame[0] == "REQ").count();
    assert!(reads <= 5, "{reads} reads");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_beyond_all_numbers() {
    is_survived(MANY, |_| {
        r#"["NOTICE","rate-limited: retry in 9223372036854775808s"]"#.to_owned()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings() {
    let mut scene = Scene::open().await;
    let (mut line, name) = scene.live().await;
    let pings = |n: u32| frame(LAST | PING, &n.to_be_bytes()).repeat(BATCH as usize);
    let flood = scene.flood(&mut line, MANY / BATCH, 1, pings).await;
    flood.expect("it is no reason to go");
    scene.delivers(&mut line, &name).await;
    scene.end().await;
}

/// Nobody takes the answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_of_a_relay_that_reads_nothing() {
    let mut scene = Scene::open().await;
    let (mut line, name) = scene.live().await;
    line.turns_deaf();
    let pings = frame(LAST | PING, &[7; 125]).repeat(BATCH as usize);
    let flood = scene.flood(&mut line, 3 * MANY / BATCH, 1, |_| pings.clone());
    flood.await.expect("it is no reason to go");
    scene.delivers(&mut line, &name).await;
    scene.end().await;
}

/// Genuine events, each another one, in a history without an end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events() {
    let mut scene = Scene::open().await;
    let mut line = scene.liar.line().await;
    let name = line.welcome_to_request().await;
    let of = &scene;
    let events = |n: u32| {
        let numbers = n * 100..(n + 1) * 100;
        let frames = numbers.flat_map(|n| {
            let event = of.mention(&format!("message {n}"));
            text(&json!(["EVENT", name, event]).to_string())
        });
        frames.collect()
    };
    let flood = of.flood(&mut line, 50, 1, events).await;
    flood.expect("it is no reason to go");
    for n in 0..64 {
        let words = scene.next_event().await.content;
        assert_eq!(words, format!("message {n}"));
    }
    scene.end().await;
}
