//! A relay that refuses everything while the agent starts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use buzz_dev_relay::client::{Client, tag, unix_now};
use buzz_dev_relay::faults::{CannedReply, Fault, Target};
use buzz_dev_relay::rules::Settings;
use buzz_dev_relay::rules::stats::Stats;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::room::{CHANNEL, Room, blocking, is_joined, next_event};
use crate::support::{PATIENCE, PROGRAM, Running};

const QUOTA: &str = "rate-limited: quota exceeded; retry in 1s";
/// Between two looks at something that changes by itself.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// A hint of one second and the least that is put on top of it.
const WAIT_MIN: Duration = Duration::from_millis(1500);
/// What is asked for together at the start, or when a wait is over.
const TOGETHER_MAX: u64 = 3;
/// Lines for people in a whole life: few, though it is refused again and again.
const LINES_MAX: usize = 25;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_refused_in_the_relays_words_waits_and_then_answers() {
    starts_in_a_storm(CannedReply::error(429, QUOTA)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_refused_by_pages_of_a_front_waits_and_then_answers() {
    starts_in_a_storm(CannedReply::html(429)).await;
}

async fn starts_in_a_storm(refusal: CannedReply) {
    let room = Room::open(Settings::default()).await;
    for fault in [
        Fault::RefuseReq(QUOTA.into()),
        Fault::RefuseEvent(QUOTA.into()),
        Fault::FailQuery(refusal.clone()),
        Fault::FailEvents(refusal),
    ] {
        let agent = Target::Key(room.agent.public().to_owned());
        room.relay.faults().arm_for(fault, agent, u64::MAX);
    }
    let mut command = room.run(
        &["--give-up-after", "0", "--workers", "1"],
        &[PROGRAM, "echo-worker"],
    );
    let begun = Instant::now();
    let mut running = blocking(move || Running::start(&mut command)).await;
    let stats = until(&room, |stats| {
        stats.reqs_refused >= 3 && stats.http_errors >= 2
    })
    .await;
    let spans = u64::try_from(begun.elapsed().as_millis() / WAIT_MIN.as_millis()).unwrap();
    let polite = TOGETHER_MAX * (1 + spans);
    assert!(
        stats.reqs <= polite && stats.http_errors <= polite,
        "{stats:?} in {spans} waits"
    );

    room.relay.faults().clear();
    let running = blocking(move || {
        running.wait_for("channel", is_joined);
        running
    })
    .await;
    let answer = answer_to_a_mention(&room).await;

    assert_eq!(answer, "are you there?");
    let (status, said) = blocking(move || running.terminate()).await;
    assert_eq!(status.code(), Some(0), "{said}");
    assert_quiet(&said);
}

async fn until(room: &Room, is_so: impl Fn(&Stats) -> bool) -> Stats {
    let waits = async {
        loop {
            let stats = room.relay.stats_of(room.agent.public());
            if is_so(&stats) {
                return stats;
            }
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(PATIENCE, waits).await.unwrap()
}

async fn answer_to_a_mention(room: &Room) -> String {
    let mut client = Client::connect(&room.relay.url(), &room.owner)
        .await
        .unwrap();
    let filter = json!({"kinds": [9], "authors": [room.agent.public()], "#h": [CHANNEL]});
    client.subscribe("answers", filter).await.unwrap();
    let tags = vec![tag("h", CHANNEL), tag("p", room.agent.public())];
    let mention = room.owner.sign_event(9, tags, "are you there?", unix_now());
    assert!(client.publish(&mention).await.unwrap().accepted);
    timeout(PATIENCE, next_event(&mut client))
        .await
        .unwrap()
        .content
}

/// People read a page at most, and of each quota that it is short, once.
#[track_caller]
fn assert_quiet(said: &str) {
    let (facts, lines): (Vec<_>, Vec<_>) = said.lines().partition(|line| line.starts_with('{'));
    assert!(
        lines.len() <= LINES_MAX,
        "{} lines: {lines:#?}",
        lines.len()
    );
    let mut told = BTreeMap::<_, u32>::new();
    for fact in facts {
        let fact: Value = serde_json::from_str(fact).unwrap();
        if let Some(quota) = fact["Throttled"]["quota"].as_str() {
            *told.entry(quota.to_owned()).or_default() += 1;
        }
    }
    assert!(
        told.contains_key("Http") && told.contains_key("Operations"),
        "{told:?}"
    );
    assert!(told.values().all(|times| *times == 1), "{told:?}");
}
