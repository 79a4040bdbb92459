//! Others on the same host, whose front counts everybody's calls together.

use std::time::{Duration, Instant};

use buzz_dev_relay::client::http;
use buzz_dev_relay::keys::Keys;

use serde_json::json;

use crate::front::{Plan, error};
use crate::scene::{Scene, within};

/// What the front lets through to the host in a second, whoever asks.
const BUDGET: usize = 20;
const SECOND: Duration = Duration::from_secs(1);
/// Between an answer and the next call of the neighbour.
const PACE: Duration = Duration::from_millis(100);
const CALLS: usize = 80;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_neighbour_is_answered_at_every_try_while_two_hundred_messages_wait() {
    let storms = ["", "; retry in 1s"].map(|hint| tokio::spawn(storm(hint)));
    for storm in storms {
        storm.await.expect("the neighbour is answered");
    }
}

async fn storm(hint: &'static str) {
    let scene = Scene::open().await;
    let agent = scene.agent.clone();
    let mut lately = Vec::new();
    scene.front.follow(move |call| {
        lately.retain(|at: &Instant| at.elapsed() < SECOND);
        lately.push(call.came);
        if lately.len() > BUDGET || call.key == agent {
            return error(429, &format!("rate-limited: quota exceeded{hint}"));
        }
        Plan::Pass
    });
    let _jobs = scene.publish_many(200);
    scene.until(|scene| !scene.front.posts().is_empty()).await;

    let (neighbour, url) = (Keys::generate(), scene.front.url("http"));
    let filter = json!([{"kinds": [9], "ids": ["0".repeat(64)]}]);
    for number in 0..CALLS {
        let reply = within(http::query(&url, &neighbour, &filter)).await;
        let status = reply.expect("it is answered").status;
        assert_eq!(status, 200, "call {number}");
        tokio::time::sleep(PACE).await;
    }
    assert!(scene.stored().is_empty());
}
