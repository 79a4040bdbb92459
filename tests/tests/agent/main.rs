//! A whole agent over real sockets: the embedded relay on one side, workers on the other.

mod consumer;
mod faults;
mod hall;
mod marks;
mod outage;
mod overload;
mod support;
mod work;

use buzz_dev_relay::client::tag;
use buzz_proto::publish::{Class, Verdict};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Draft;
use support::{CHANNEL, Scene, external, workers};

/// Not a test: the body of the workers that others start.
#[test]
fn test_worker() {
    if let Ok(folder) = std::env::var(work::worker::FOLDER) {
        work::worker::run(&folder);
        std::process::exit(0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mention_is_answered_in_its_thread_by_a_worker() {
    let mut scene = Scene::open().await;
    let mut agent = scene.agent(workers(2));

    let mention = scene.mention("hello there", Vec::new()).await;

    let reply = scene.reply_to(&mention.id).await;
    assert_eq!(reply.pubkey, scene.agent_key());
    assert_eq!(reply.content, "you said: hello there");
    assert!(reply.tags.contains(&tag("h", CHANNEL)));
    assert!(reply.tags.contains(&tag("p", &mention.pubkey)));
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_workers_hands_out_each_event_once_and_publishes() {
    let mut scene = Scene::open().await;
    let mut agent = scene.agent(external(16));

    let mention = scene.mention("for your eyes", Vec::new()).await;

    let event = agent.next_event().await;
    assert_eq!(event.id().to_string(), mention.id);
    let draft = Draft {
        kind: 9,
        created_at: UnixTime(buzz_dev_relay::client::unix_now()),
        tags: vec![
            tag("h", CHANNEL),
            ["e", &mention.id, "", "reply"].map(String::from).to_vec(),
        ],
        content: "seen".into(),
    };
    let verdict = agent.handle.publish(draft, Class::Durable, None).await;
    assert_eq!(verdict, Ok(Verdict::Stored));
    assert_eq!(scene.reply_to(&mention.id).await.content, "seen");
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_made_again_and_what_was_said_meanwhile_is_answered() {
    let mut scene = Scene::open().await;
    let mut agent = scene.agent(workers(1));
    let first = scene.mention("before", Vec::new()).await;
    scene.reply_to(&first.id).await;

    scene.drop_the_agents_connection();
    let second = scene.mention("meanwhile", Vec::new()).await;

    assert_eq!(
        scene.reply_to(&second.id).await.content,
        "you said: meanwhile"
    );
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_joined_later_is_listened_to() {
    let mut scene = Scene::open().await;
    let mut agent = scene.agent(workers(1));
    let first = scene.mention("in the first channel", Vec::new()).await;
    scene.reply_to(&first.id).await;

    let channel = scene.open_another_channel().await;
    let mention = scene
        .mention_in(channel, "in the second channel", Vec::new())
        .await;

    assert_eq!(
        scene.reply_to(&mention.id).await.content,
        "you said: in the second channel"
    );
    agent.end().await;
}
