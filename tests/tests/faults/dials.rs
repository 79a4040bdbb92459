//! Dials that lead to nothing: how many there are, and how soon one is made when they would again.

use std::time::Duration;

use buzz_dev_relay::line::{Dials, Line, State};
use buzz_proto::relay::ConnectCause;
use tokio::time::Instant;

use crate::agent::{Agent, Call, limits};
use crate::scene::Scene;

/// Long enough for the last rung, many times.
const LONG: Duration = Duration::from_secs(7);
/// A reset of the ladder would allow more.
const NEVER_STABLE: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_accepts_and_closes_is_dialed_by_the_ladder_until_it_serves_again() {
    let mut scene = Scene::open().await;
    let never_stable = |config: &mut buzz_proto::config::Config| {
        config.relay.limits.stable = NEVER_STABLE;
    };
    let mut agent = scene.live_agent(never_stable).await;

    let (since, before) = (Instant::now(), scene.line.dials().len());
    scene.line.set(State {
        dials: Dials::Closed,
        ..State::default()
    });
    scene.line.cut();
    let said = scene.mentions(5).await;
    tokio::time::sleep(LONG).await;
    let dials = scene.line.dials().len() - before;
    let most = dials_within(since.elapsed());
    assert!(dials <= most, "{dials} dials, at most {most}");

    comes_back_at_once(&mut scene, &mut agent, said, |scene| scene.heal()).await;
    assert_waits_climb(&agent.calls());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_is_not_there_is_dialed_by_the_ladder_until_it_is() {
    let mut scene = Scene::open().await;
    let mut agent = scene.live_agent(|_| {}).await;

    let addr = scene.line.addr();
    let relay = scene.relay.addr();
    scene.line.end().await;
    let said = scene.mentions(5).await;
    agent.fails(6).await;

    comes_back_at_once(&mut scene, &mut agent, said, |scene| {
        scene.line = Line::open_at(addr, relay, 8).expect("its former port");
    })
    .await;
    assert!(agent.count(|call| call.hears_of(&ConnectCause::Transport)) >= 6);
}

/// One wait may be under way, and one dial that came too soon; the next must do.
async fn comes_back_at_once(
    scene: &mut Scene,
    agent: &mut Agent,
    said: Vec<String>,
    heal: impl FnOnce(&mut Scene),
) {
    heal(scene);
    let before = agent.failed();
    agent.is_live().await;
    let failed = agent.failed() - before;
    assert!(failed <= 1, "{failed}");

    assert_eq!(agent.take(said.len()).await, said);
    scene.is_heard_by(agent).await;
    agent.end().await;
}

/// Each wait is at least half of its rung: more dials than this are none of the ladder.
fn dials_within(span: Duration) -> usize {
    let limits = limits();
    let (mut rung, mut waited, mut dials) = (limits.reconnect_first, Duration::ZERO, 0);
    while waited + rung / 2 <= span {
        waited += rung / 2;
        rung = (2 * rung).min(limits.reconnect_top);
        dials += 1;
    }
    dials
}

fn assert_waits_climb(calls: &[Call]) {
    let limits = limits();
    let (mut rung, mut lost, mut waits) = (limits.reconnect_first, None, 0);
    for call in calls {
        if call.dials()
            && let Some(lost) = lost.take()
        {
            let wait = Duration::from_nanos(call.at - lost);
            assert!(rung / 2 <= wait, "{wait:?} of {rung:?}");
            rung = (2 * rung).min(limits.reconnect_top);
            waits += 1;
        }
        if call.loses() {
            lost = Some(call.at);
        }
    }
    assert!(waits > 6, "{waits}");
}
