//! Sockets that stay open, and say no more; sockets that end.

use buzz_dev_relay::line::{Lane, State};
use buzz_proto::relay::CloseCause;

use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_open_socket_is_noticed_by_its_ping_and_what_was_said_meanwhile_comes_once() {
    let held = Lane {
        is_held: true,
        ..Lane::default()
    };
    is_noticed(State::both(held)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_only_brings_nothing_any_more_is_noticed_by_its_ping() {
    is_noticed(State {
        to_client: Lane {
            is_held: true,
            ..Lane::default()
        },
        ..State::default()
    })
    .await;
}

async fn is_noticed(state: State) {
    let mut scene = Scene::open().await;
    let mut agent = scene.live_agent(|_| {}).await;

    scene.line.set(state);
    let mut said = scene.mentions(8).await;
    agent.until(|relay| !relay.is_live).await;
    said.extend(scene.mentions(4).await);
    scene.heal();

    said.sort_unstable();
    assert_eq!(agent.take(12).await, said);
    scene.is_heard_by(&mut agent).await;
    agent.end().await;
    assert!(agent.count(|call| call.gives_up(CloseCause::Silent)) > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_cut_again_and_again_loses_and_repeats_nothing() {
    let mut scene = Scene::open().await;
    let mut agent = scene.live_agent(|_| {}).await;

    let mut said = Vec::new();
    for _ in 0..5 {
        said.extend(scene.mentions(3).await);
        scene.line.cut();
        said.extend(scene.mentions(3).await);
        agent.until(|relay| !relay.is_live).await;
        agent.is_live().await;
    }

    said.sort_unstable();
    assert_eq!(agent.take(30).await, said);
    scene.is_heard_by(&mut agent).await;
    agent.end().await;
}
