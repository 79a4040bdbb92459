//! Requests that a relay takes and does not register.

use buzz_dev_relay::faults::Fault;
use buzz_proto::note::{Note, SubPhase};

use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_never_registered_is_repeated_by_another_name_and_the_first_means_nothing()
 {
    let mut scene = Scene::open().await;
    let mut agent = scene.live_agent(|_| {}).await;

    scene
        .relay
        .faults()
        .arm_for(Fault::IgnoreReq, scene.target(), u64::MAX);
    scene.line.cut();
    let is_given_up = |note: &Note| {
        let phase = SubPhase::Unconfirmed;
        matches!(note, Note::Subscription { phase: it, .. } if *it == phase)
    };
    agent.tells(is_given_up).await;
    let ignored = scene.relay.faults().ignored();
    scene.relay.faults().clear();
    let said = scene.mentions(5).await;
    agent.is_live().await;

    assert_eq!(agent.take(5).await, said);
    let requests = scene.requests();
    for name in ignored {
        for frame in [
            format!(r#"["EOSE","{name}"]"#),
            format!(r#"["CLOSED","{name}","error: shutting down"]"#),
        ] {
            scene.relay.faults().inject(&scene.target(), &frame);
        }
    }
    scene.is_heard_by(&mut agent).await;
    assert_eq!(scene.requests(), requests);
    agent.end().await;
}
