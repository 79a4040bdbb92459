//! A relay that restarts, and says so.

use std::time::Duration;

use buzz_dev_relay::rules::queue::Closing;

use crate::scene::Scene;

/// The close code of a relay that restarts (RFC 6455, section 11.7).
const RESTART: u16 = 1012;
/// A relay that restarts wants its clients back no sooner.
const SPREAD_MIN: Duration = Duration::from_secs(1);
/// One whose waits after the first losses are short.
const SEED: u64 = 1;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_are_waited_out_within_their_span_and_lose_nothing() {
    let mut scene = Scene::open().await;
    let mut agent = scene.live_agent(|config| config.seed = SEED).await;

    let mut said = Vec::new();
    for _ in 0..3 {
        let target = scene.target();
        scene
            .relay
            .faults()
            .disconnect(&target, &Closing::restarting());
        agent.until(|relay| !relay.is_live).await;
        said.extend(scene.mentions(4).await);
        agent.is_live().await;
        said.extend(scene.mentions(1).await);
    }

    said.sort_unstable();
    assert_eq!(agent.take(15).await, said);
    scene.is_heard_by(&mut agent).await;
    agent.end().await;
    let calls = agent.calls();
    let lost: Vec<_> = calls
        .iter()
        .filter(|call| call.is_closed(RESTART))
        .collect();
    assert_eq!(lost.len(), 3);
    for lost in lost {
        let back = calls.iter().find(|it| it.at > lost.at && it.dials());
        let wait = back.expect("it is back").at - lost.at;
        assert!(Duration::from_nanos(wait) >= SPREAD_MIN, "{wait}");
    }
}
