//! What an agent does on an ordinary day.

use crate::support::{CHANNEL, Scene, external, within, workers};
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use buzz_adapters::verify::Verifier;
use buzz_dev_relay::client::tag;
use buzz_dev_relay::faults::{CannedReply, Target};
use buzz_dev_relay::{DevRelay, Options};
use buzz_proto::publish::{Class, Verdict};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Draft;

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

/// Trusts nobody who says a certain word.
struct Wary;

impl Verifier for Wary {
    fn is_genuine(&self, json: &[u8]) -> bool {
        !String::from_utf8_lossy(json).contains("abracadabra")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_program_s_own_verifier_refuses_is_not_delivered() {
    let mut scene = Scene::open().await;
    let mut agent = scene.agent_with(external(16), |setup| setup.verifier = Arc::new(Wary));
    agent.until(|relay| relay.subscriptions_live > 1).await;

    scene.mention("abracadabra", Vec::new()).await;
    let plain = scene.mention("good morning", Vec::new()).await;

    assert_eq!(agent.take(1).await, [plain.id]);
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_waits_for_what_is_being_published() {
    let mut scene = Scene::open().await;
    let mut agent = scene.agent(external(16));
    agent.until(|relay| relay.subscriptions_live > 1).await;
    let target = Target::Key(scene.agent_key());
    scene.relay().faults().stall(&target, true);
    let draft = Draft {
        kind: 9,
        created_at: UnixTime(buzz_dev_relay::client::unix_now()),
        tags: vec![tag("h", CHANNEL)],
        content: "my last words".into(),
    };
    let verdict = agent.handle.publish(draft, Class::Durable, None);

    let ends = async {
        agent.handle.shutdown(Duration::from_secs(20));
        scene.relay().faults().stall(&target, false);
    };
    let (verdict, ()) = within(async { tokio::join!(verdict, ends) }).await;

    assert_eq!(verdict, Ok(Verdict::Stored));
    agent.end().await;
    assert_eq!(scene.said(9).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_comes_in_time_though_the_relay_neither_reads_nor_answers() {
    let mut scene = Scene::open().await;
    let mut agent = scene.agent(external(16));
    agent.until(|relay| relay.subscriptions_live > 1).await;
    let target = Target::Key(scene.agent_key());
    scene.relay().faults().stop_reading(&target, true);
    scene.relay().faults().stall(&target, true);
    let draft = Draft {
        kind: 9,
        created_at: UnixTime(buzz_dev_relay::client::unix_now()),
        tags: vec![tag("h", CHANNEL)],
        content: "never heard".into(),
    };
    let verdict = agent.handle.publish(draft, Class::Durable, None);

    let ends = async {
        // How things stand is told all the same.
        assert!(agent.handle.status().await.expect("it runs").relay.is_live);
        agent.handle.shutdown(Duration::from_secs(1));
    };
    let (verdict, ()) = within(async { tokio::join!(verdict, ends) }).await;

    assert_eq!(verdict, Ok(Verdict::Unknown));
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_quota_refuses_is_stored_in_the_end_once_each() {
    let mut scene = Scene::open().await;
    let mut agent = scene.agent(external(16));
    agent.until(|relay| relay.subscriptions_live > 1).await;
    let refusal = CannedReply::error(429, "rate-limited: quota exceeded; retry in 1s");
    scene.relay().faults().fail_events_posts(3, refusal);

    let draft = |number: u64| Draft {
        kind: 9,
        created_at: UnixTime(buzz_dev_relay::client::unix_now()),
        tags: vec![tag("h", CHANNEL)],
        content: format!("number {number}"),
    };
    let publish = |number| agent.handle.publish(draft(number), Class::Durable, None);
    let verdicts = within(async {
        let (one, two) = tokio::join!(publish(0), publish(1));
        let (three, four) = tokio::join!(publish(2), publish(3));
        [one, two, three, four]
    })
    .await;

    assert_eq!(verdicts, [(); 4].map(|()| Ok(Verdict::Stored)));
    let mut said: Vec<_> = scene
        .said(9)
        .into_iter()
        .map(|event| event.content)
        .collect();
    said.sort_unstable();
    assert_eq!(said, [0, 1, 2, 3].map(|number| format!("number {number}")));
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_is_reached_over_ipv6() {
    let options = Options {
        addr: (Ipv6Addr::LOCALHOST, 0).into(),
        ..Options::default()
    };
    let Ok(relay) = DevRelay::start(options).await else {
        return skipped("this machine has no IPv6 loopback");
    };
    let mut scene = Scene::of(relay).await;
    assert!(scene.url().contains("[::1]"));
    let mut agent = scene.agent(external(16));

    let mention = scene.mention("over six", Vec::new()).await;

    assert_eq!(agent.take(1).await, [mention.id]);
    agent.end().await;
}

#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}
