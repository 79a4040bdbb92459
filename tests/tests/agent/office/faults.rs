//! Workers that fail: what they were to answer is answered or told of, and nobody else waits.

use buzz_dev_relay::client::unix_now;
use buzz_proto::note::Note;

use super::{MS, Office, SECOND, is_in_thread};

/// A worker fails so at the first attempt; meanwhile another thread is answered.
async fn fails_once(how: &str) {
    let mut office = Office::open(2, |limits| limits.turn_idle = SECOND).await;
    let failing = office.begin(&format!("fail {how} tried")).await;
    let other = office.begin("and me?").await;

    assert_eq!(office.answer_to(&other).await.words, "and me?");
    let replies = office.replies_to(&failing, 1).await;

    let [reply] = &replies[..] else {
        panic!("{how}: {replies:?}");
    };
    assert!(
        reply.content.ends_with(&failing.content),
        "{how}: {}",
        reply.content
    );
    assert!(is_in_thread(reply, &failing));
    assert_eq!(office.lines("tried"), [how]);
    office.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_worker_did_not_answer_is_answered_in_another_attempt() {
    for how in ["exit", "half", "huge", "hang"] {
        fails_once(how).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_among_nonsense_is_one_answer() {
    for how in ["bytes", "twice", "reason"] {
        fails_once(how).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_the_worker_has_forgotten_is_replaced() {
    let mut office = Office::open(1, |_| {}).await;
    let thread = office.begin("one").await;
    let before = office.answer_to(&thread).await;

    let second = office.go_on(&thread, "fail forget tried").await;
    let after = office.answer_to(&second).await;

    assert_eq!(after.process, before.process);
    assert_ne!(after.session, before.session);
    office.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_at_which_every_worker_ends_is_given_up_in_its_thread() {
    let mut office = Office::open(2, |limits| {
        limits.breaker_ends = 100;
        limits.crashes_max = 3;
    })
    .await;
    let message = office.begin("fail exit -").await;
    let replies = office.replies_to(&message, 1).await;

    assert!(is_in_thread(&replies[0], &message));
    let is_end = |note: &Note| matches!(note, Note::TurnEnded { .. });
    office.until_noted(1, is_end).await;
    assert_eq!(office.replies_so_far(&message), replies);
    let retries = office.noted(|note| matches!(note, Note::TurnRetried { .. }));
    assert_eq!(retries.len(), 2);
    let other = office.begin("and me?").await;
    assert_eq!(office.answer_to(&other).await.words, "and me?");
    office.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_used_up_allowance_is_told_once_and_work_begins_again_when_it_ends() {
    let mut office = Office::open(2, |_| {}).await;
    // The adapter waits five seconds at least.
    let ends = unix_now() + 6;
    office.write("limit-ends", &ends.to_string());
    let message = office.begin("fail limit tried").await;
    let notice = office.replies_to(&message, 1).await;
    let is_start = |note: &Note| matches!(note, Note::TurnStarted { .. });
    let meanwhile = office.begin("and me?").await;

    let replies = office.replies_to(&message, 2).await;
    let begun = unix_now();
    office.answer_to(&meanwhile).await;

    assert!(begun >= ends, "{begun} {ends}");
    assert_eq!(replies[..1], notice);
    assert!(
        replies[1].content.ends_with("fail limit tried"),
        "{replies:?}"
    );
    assert_eq!(office.replies_so_far(&meanwhile).len(), 1);
    assert_eq!(office.noted(is_start).len(), 3);
    let is_limit = |note: &Note| matches!(note, Note::UsageLimited { .. });
    assert_eq!(office.noted(is_limit).len(), 1);
    office.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_ignores_a_cancel_is_replaced() {
    let mut office = Office::open(1, |limits| limits.cancel_grace = 200 * MS).await;
    let message = office.begin("fail deaf tried").await;
    office.until_written("tried").await;

    office.go_on(&message, "!cancel").await;

    let other = office.begin("and me?").await;
    let after = office.answer_to(&other).await;
    assert_eq!(office.lines("pids").last(), Some(&after.process));
    assert_eq!(office.lines("pids").len(), 2);
    office.close().await;
}
