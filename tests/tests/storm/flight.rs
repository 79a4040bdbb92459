//! How many calls are under way, and what becomes of what has no place or no time.

use std::collections::BTreeMap;
use std::time::Duration;

use buzz_proto::publish::{self, Verdict};
use tokio::sync::watch;

use crate::front::{Pause, Plan};
use crate::scene::{Scene, assert_all_stored, verdicts};

const IN_FLIGHT: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hundred_messages_four_are_under_way_and_each_has_a_verdict_at_the_end() {
    let scene = Scene::open().await;
    let hold = Duration::from_millis(20);
    scene
        .front
        .follow(move |_| Plan::Pass.after(Pause::Span(hold)));

    let jobs = scene.publish_many(200);
    scene.until(|scene| scene.stored().len() >= 30).await;
    scene.handle.shutdown(Duration::from_millis(200));

    let verdicts = verdicts(jobs).await;
    assert_eq!(scene.front.in_flight_max(), IN_FLIGHT);
    let stored = scene.stored();
    assert!(stored.values().all(|count| *count == 1), "{stored:?}");
    let mut unknown = 0;
    for (number, verdict) in verdicts.iter().enumerate() {
        if *verdict == Verdict::Unknown {
            unknown += 1;
            continue;
        }
        let is_there = stored.contains_key(&number.to_string());
        let expected = if is_there {
            Verdict::Stored
        } else {
            Verdict::Cancelled
        };
        assert_eq!(*verdict, expected, "{number}");
    }
    assert!(unknown <= IN_FLIGHT, "{verdicts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_answer_stalls_holds_up_no_other() {
    let scene = Scene::open().await;
    let (go_on, stalls) = watch::channel(false);
    scene.front.follow(move |call| match call.content() {
        "stalled" => Plan::Pass.after(Pause::Until(stalls.clone())),
        _ => Plan::Pass,
    });
    let stalled = scene.publish("stalled");
    scene.until(|scene| !scene.front.posts().is_empty()).await;

    assert_all_stored(scene.publish_many(12)).await;

    scene.assert_stored_once(12);
    go_on.send(true).expect("it is waited for");
    assert_all_stored(vec![stalled]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_finds_no_room_is_told_at_once_and_the_others_at_the_end() {
    let jobs_max = 8;
    let scene = Scene::open_with(publish::Config {
        jobs_max,
        ..publish::Config::default()
    })
    .await;
    let (_never, stalls) = watch::channel(false);
    scene
        .front
        .follow(move |_| Plan::Pass.after(Pause::Until(stalls.clone())));
    let jobs = scene.publish_many(8);
    scene
        .until(|scene| scene.front.posts().len() == IN_FLIGHT)
        .await;

    assert_eq!(
        verdicts(vec![scene.publish("no room")]).await,
        [Verdict::Evicted]
    );

    scene.handle.shutdown(Duration::from_millis(100));
    let mut counts = BTreeMap::new();
    for verdict in verdicts(jobs).await {
        *counts.entry(format!("{verdict:?}")).or_insert(0) += 1;
    }
    let expected = [("Cancelled".to_owned(), 4), ("Unknown".to_owned(), 4)];
    assert_eq!(counts, BTreeMap::from(expected));
    assert_eq!(scene.front.posts().len(), IN_FLIGHT);
}
