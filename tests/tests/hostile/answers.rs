//! Answers over HTTP that have no end, are too large, or never come: to the upgrade, to the question
//! what relay it is, and to questions for what is stored.

use std::time::Duration;

use crate::agent::Scene;
use crate::liar::{Answer, Liar, Route};

const SECOND: Duration = Duration::from_secs(1);

fn heads() -> Vec<Answer> {
    vec![
        Answer::EndlessHead,
        Answer::EndlessHeader,
        Answer::EndlessInterim,
    ]
}

fn bodies() -> Vec<Answer> {
    vec![
        Answer::EndlessBody { chunked: false },
        Answer::EndlessBody { chunked: true },
        Answer::Announced(u64::MAX),
        Answer::Announced(10),
        Answer::Large(64 << 20),
        Answer::Text(200, "[".repeat(200_000)),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_has_no_end_is_given_up_and_tried_again() {
    let refused = Answer::Text(503, "x".repeat(1 << 20));
    for answer in heads().into_iter().chain([refused, Answer::Silence]) {
        let prepare = |liar: &Liar| liar.answers(Route::Upgrade, answer);
        let mut scene = Scene::open_with(prepare, |setup| {
            setup.config.relay.limits.dial = Duration::from_millis(500);
        })
        .await;
        scene.liar.until_asked(Route::Upgrade, 3).await;
        scene.keeps_its_deadlines().await;
        scene.liar.answers(Route::Upgrade, Answer::Upgrade);
        scene.comes_back().await;
        scene.end().await;
    }
}

/// Each connection asks what relay it is, and is answered so.
async fn documents_are_let_go(answers: Vec<Answer>) {
    let mut scene = Scene::open().await;
    let (mut line, _) = scene.live().await;
    scene.liar.until_over(Route::Document, 1).await;
    for (n, answer) in (2..).zip(answers) {
        scene.liar.answers(Route::Document, answer);
        line.hang_up().await;
        let (next, name) = scene.live().await;
        line = next;
        scene.delivers(&mut line, &name).await;
        scene.keeps_its_deadlines().await;
        scene.liar.until_over(Route::Document, n).await;
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_whose_head_has_no_end_is_let_go() {
    documents_are_let_go(heads()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_has_no_end_is_let_go() {
    documents_are_let_go(bodies()).await;
}

/// What is stored is asked for, and is answered so.
async fn answers_are_let_go(answers: Vec<Answer>) {
    for answer in answers {
        let prepare = |liar: &Liar| liar.answers(Route::Query, answer);
        let mut scene = Scene::open_with(prepare, |setup| {
            let limits = &mut setup.config.relay.limits;
            limits.answer = SECOND;
            limits.audit = SECOND;
        })
        .await;
        let (mut line, name) = scene.live().await;
        scene.delivers(&mut line, &name).await;
        scene.liar.until_asked(Route::Query, 1).await;
        scene.keeps_its_deadlines().await;
        scene.liar.until_over(Route::Query, 1).await;
        scene.delivers(&mut line, &name).await;
        scene.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_whose_head_has_no_end_is_let_go() {
    answers_are_let_go(heads()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_has_no_end_is_let_go() {
    answers_are_let_go(bodies()).await;
}
