//! What a consumer of events may do with them.

use buzz_proto::relay::Disposal;

use crate::support::{Scene, external, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_is_handed_back_comes_again_until_it_is_handled() {
    let mut scene = Scene::open().await;
    let mut agent = scene.agent(external(16));
    let mention = scene.mention("not now", Vec::new()).await;
    let event = agent.next_event().await;
    assert_eq!(event.id().to_string(), mention.id);

    agent.events.dispose(event.id(), Disposal::RefusedForNow);

    let again = agent.next_event().await;
    assert_eq!(again, event);
    let other = scene.mention("another", Vec::new()).await;
    assert_eq!(agent.take(1).await, [other.id]);
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_events_nobody_takes_any_more_ends_by_itself() {
    let mut scene = Scene::open().await;
    let mut agent = scene.agent(external(16));
    agent.until(|relay| relay.subscriptions_live > 0).await;
    scene.mention("for nobody", Vec::new()).await;

    drop(agent.events);

    within(agent.handle.ended()).await;
}
