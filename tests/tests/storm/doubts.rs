//! Messages whose answers are lost: the relay may have them, and stores each once all the same.

use std::time::Duration;

use buzz_proto::publish::Config;
use tokio::sync::watch;

use crate::front::{Call, Pause, Plan, answer, assert_fresh, first_post};
use crate::scene::{Scene, assert_all_stored};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_answer_was_lost_is_sent_again_as_it_was() {
    let scene = Scene::open().await;
    first_post(&scene.front, || Plan::Lose);

    assert_all_stored(vec![scene.publish("0")]).await;

    scene.assert_stored_once(1);
    let posts = scene.front.posts();
    assert_eq!(posts.len(), 2);
    assert_eq!(posts[0].body["id"], posts[1].body["id"]);
    assert_eq!(scene.relay.stats_of(&scene.agent).duplicates, 1);
    assert_fresh(&scene.front.calls());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_a_slow_relay_stores_after_its_repeat_is_stored_once() {
    let scene = Scene::open_with(Config {
        answer: Duration::from_secs(1),
        ..Config::default()
    })
    .await;
    let (go_on, slow) = watch::channel(false);
    first_post(&scene.front, move || {
        Plan::Lose.after(Pause::Until(slow.clone()))
    });

    assert_all_stored(vec![scene.publish("0")]).await;

    scene.assert_stored_once(1);
    go_on.send(true).expect("it is waited for");
    let is_over = |scene: &Scene| scene.front.posts().iter().all(|call| call.left.is_some());
    scene.until(is_over).await;
    scene.assert_stored_once(1);
    assert_eq!(scene.relay.stats_of(&scene.agent).duplicates, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_signed_long_ago_is_looked_for_and_not_sent_again_when_it_is_there() {
    let scene = Scene::open_with(soon_old()).await;
    first_post(&scene.front, || Plan::Lose);

    assert_all_stored(vec![scene.publish("0")]).await;

    scene.assert_stored_once(1);
    let posts = scene.front.posts();
    assert_eq!(posts.len(), 1);
    assert_eq!(looked_for(&scene), [posts[0].body["id"].clone()]);
    assert_fresh(&scene.front.calls());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_signed_long_ago_that_is_not_there_is_signed_anew() {
    let scene = Scene::open_with(soon_old()).await;
    first_post(&scene.front, || Plan::Cut);

    assert_all_stored(vec![scene.publish("0")]).await;

    scene.assert_stored_once(1);
    let posts = scene.front.posts();
    assert_eq!(posts.len(), 2);
    assert_ne!(posts[0].body["id"], posts[1].body["id"]);
    assert_eq!(looked_for(&scene), [posts[0].body["id"].clone()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nothing_can_be_looked_for_the_same_message_is_sent_again() {
    let scene = Scene::open_with(soon_old()).await;
    let mut is_first = true;
    scene.front.follow(move |call| {
        if call.is_look_up() {
            return answer(404, "", "");
        }
        if call.is_post() && std::mem::replace(&mut is_first, false) {
            return Plan::Lose;
        }
        Plan::Pass
    });

    assert_all_stored(vec![scene.publish("0")]).await;

    scene.assert_stored_once(1);
    let posts = scene.front.posts();
    assert_eq!(posts.len(), 2);
    assert_eq!(posts[0].body["id"], posts[1].body["id"]);
    assert_eq!(scene.relay.stats_of(&scene.agent).duplicates, 1);
}

/// The rest after a lost answer is longer than a signature may be old.
fn soon_old() -> Config {
    Config {
        signature_age: Duration::from_secs(1),
        ..Config::default()
    }
}

/// The events that were looked for.
fn looked_for(scene: &Scene) -> Vec<serde_json::Value> {
    let calls = scene.front.calls();
    let look_ups = calls.iter().filter(|call| Call::is_look_up(call));
    look_ups
        .map(|call| call.body[0]["ids"][0].clone())
        .collect()
}
