//! Lines that are slow, and lose much of what is sent.

use std::time::Duration;

use buzz_dev_relay::line::{Lane, State};
use buzz_proto::relay::Limits;

use crate::agent::Call;
use crate::scene::Scene;

/// The round trip of a bad day.
const ROUND_TRIP: Duration = Duration::from_millis(3400);

/// With the limits that everybody has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_round_trip_of_more_than_three_seconds_an_agent_gets_live_and_delivers() {
    let mut scene = Scene::open().await;
    scene.line.set(State::both(Lane {
        delay: ROUND_TRIP / 2,
        ..Lane::default()
    }));

    let mut agent = scene.agent(|config| config.relay.limits = Limits::default());
    agent.is_live().await;
    scene.is_heard_by(&mut agent).await;

    // A goodbye takes its round trip too.
    scene.heal();
    agent.end().await;
    assert_eq!(agent.count(Call::dials), 1);
}

/// A fifth of all times: that of the line, and the limits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_forty_of_a_hundred_pieces_are_lost_everything_comes_once_and_late() {
    let mut scene = Scene::open().await;
    scene.line.set(State::both(Lane {
        delay: ROUND_TRIP / 10,
        loss: 40,
        resend: ROUND_TRIP / 5,
        ..Lane::default()
    }));
    let mut agent = scene.agent(|config| config.relay.limits = fifth());
    agent.is_live().await;

    let mut said = scene.mentions(10).await;
    scene.line.cut();
    said.extend(scene.mentions(10).await);
    said.sort_unstable();

    assert_eq!(agent.take(20).await, said);
    scene.heal();
    scene.is_heard_by(&mut agent).await;
    agent.end().await;
}

fn fifth() -> Limits {
    let day = Limits::default();
    Limits {
        dial: day.dial / 5,
        auth: day.auth / 5,
        challenge: day.challenge / 5,
        challenge_again: day.challenge_again / 5,
        write: day.write / 5,
        ping_after: day.ping_after / 5,
        pong: day.pong / 5,
        reconnect_first: day.reconnect_first / 5,
        reconnect_top: day.reconnect_top / 5,
        confirmation: day.confirmation / 5,
        answer: day.answer / 5,
        page_silence: day.page_silence / 5,
        ..day
    }
}
