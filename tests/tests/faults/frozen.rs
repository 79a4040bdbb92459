//! Relays that take a connection, and then say nothing.

use std::time::Duration;

use buzz_dev_relay::line::{Dials, Lane, State};
use buzz_proto::note::{LinkNote, Note};
use buzz_proto::relay::CloseCause;

use crate::scene::Scene;

/// A connection dials for its socket and for what the relay tells of itself: one was given up.
const ENOUGH: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_only_accepts_is_given_up_at_the_limit_of_the_dial() {
    let state = State {
        dials: Dials::Ignored,
        ..State::default()
    };
    thaws(state, CloseCause::DialLimit).await;
}

/// It sends no challenge either, so it is taken for one that wants no login, until its silence
/// shows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_freezes_after_the_upgrade_is_given_up_for_its_silence() {
    let state = State {
        to_client: frozen(),
        ..State::default()
    };
    thaws(state, CloseCause::Silent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_freezes_after_its_challenge_is_given_up() {
    let state = State {
        to_relay: frozen(),
        ..State::default()
    };
    thaws(state, CloseCause::Silent).await;
}

const fn frozen() -> Lane {
    Lane {
        delay: Duration::ZERO,
        loss: 0,
        resend: Duration::ZERO,
        is_unread: false,
        is_held: false,
        is_held_after_head: true,
    }
}

/// Once in a first connection, and once in a later one.
async fn thaws(state: State, cause: CloseCause) {
    let mut scene = Scene::open().await;
    scene.line.set(state);
    let mut agent = scene.agent(|_| {});
    agent
        .tells(|note| *note == Note::Link(LinkNote::Closed { cause }))
        .await;
    scene.heal();
    agent.is_live().await;
    scene.is_heard_by(&mut agent).await;

    scene.line.set(state);
    scene.line.cut();
    let said = scene.mentions(5).await;
    let before = scene.line.dials().len();
    scene.is_dialed(before + ENOUGH).await;
    scene.heal();

    assert_eq!(agent.take(5).await, said);
    scene.is_heard_by(&mut agent).await;
    agent.end().await;
    assert!(agent.count(|call| call.gives_up(cause)) > 1);
}
