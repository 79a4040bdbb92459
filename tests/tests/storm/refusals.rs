//! Refusals and losses that pass, each beside messages that go through.

use std::time::Duration;

use buzz_proto::publish::Verdict;

use crate::front::{Call, Plan, answer, assert_fresh, error, first_post, page};
use crate::scene::{Scene, assert_all_stored, verdicts};

/// How long a refusal without a hint is heeded.
const WITHOUT_HINT: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_without_a_hint_are_heeded_for_five_seconds_by_everybody() {
    let limiter = || error(503, "rate-limited: shared admission unavailable");
    let refusals: [fn() -> Plan; 4] = [|| page(429), || page(503), || page(502), limiter];
    let heeded = refusals.map(|refusal| {
        tokio::spawn(async move {
            let scene = Scene::open().await;
            first_post(&scene.front, refusal);
            let first = scene.publish("0");
            scene.until(|scene| scene.throttled().is_some()).await;
            let rest = scene.publish("1");

            assert_all_stored(vec![first, rest]).await;

            scene.assert_stored_once(2);
            let posts = scene.front.posts();
            let refused = posts[0].left.expect("it was answered");
            for call in &posts[1..] {
                assert!(call.came >= refused + WITHOUT_HINT, "too early: {call:?}");
            }
            assert_fresh(&scene.front.calls());
        })
    });
    for heeded in heeded {
        heeded.await.expect("it is heeded");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_taken_for_a_repeated_one_is_made_anew_once() {
    let scene = Scene::open().await;
    first_post(&scene.front, || error(401, "NIP-98: replay detected"));

    assert_all_stored(vec![scene.publish("0")]).await;

    scene.assert_stored_once(1);
    let posts = scene.front.posts();
    assert_eq!(posts.len(), 2);
    assert_eq!(posts[0].body["id"], posts[1].body["id"]);
    assert_fresh(&posts);

    scene
        .front
        .follow(|_| error(401, "NIP-98: replay detected"));
    let refused = verdicts(vec![scene.publish("1")]).await;
    assert!(
        matches!(refused[..], [Verdict::Rejected { .. }]),
        "{refused:?}"
    );
    assert_eq!(scene.front.posts().len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_message_that_may_not_yet_is_tried_once_more_and_holds_up_no_other() {
    let scene = Scene::open().await;
    let mut refused = false;
    scene.front.follow(move |call| {
        if call.content() == "1" && !std::mem::replace(&mut refused, true) {
            return error(403, "restricted: not a channel member");
        }
        Plan::Pass
    });

    let jobs = scene.publish_many(3);
    assert_all_stored(jobs).await;

    scene.assert_stored_once(3);
    let posts = scene.front.posts();
    assert_eq!(posts.len(), 4);
    let (refused, again) = {
        let mut its = posts.iter().filter(|call| call.content() == "1");
        (its.next().expect("it was sent"), its.next().expect("twice"))
    };
    let left = refused.left.expect("it was answered");
    assert!(again.came >= left + Duration::from_secs(1));
    assert_eq!(posts.last().map(Call::content), Some("1"));
    assert_fresh(&posts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_is_final_and_is_not_followed() {
    let scene = Scene::open().await;
    let elsewhere = format!("Location: {}/elsewhere\r\n", scene.front.url("http"));
    scene.front.follow(move |_| answer(307, &elsewhere, ""));
    let before = scene.front.calls().len();

    let verdict = verdicts(vec![scene.publish("0")]).await;

    assert!(
        matches!(verdict[..], [Verdict::Rejected { .. }]),
        "{verdict:?}"
    );
    assert_eq!(scene.front.calls().len(), before + 1);
}
