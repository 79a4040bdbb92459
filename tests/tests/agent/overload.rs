//! More mentions than there is room for, while nobody takes events.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::Duration;

use buzz_adapters::connect::RecordTo;
use buzz_proto::trace::Privacy;
use serde_json::Value;

use crate::hall::Hall;

const SLOTS: u32 = 256;
const CHANNELS: usize = 18;
const BUSY: usize = 6;
const ROUNDS: u64 = 3;
const MENTIONS: usize = 320;
const LOST: usize = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_found_no_room_comes_once_for_one_request_a_round_and_pings_are_answered_meanwhile() {
    let mut hall = Hall::open(CHANNELS).await;
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace");
    let file = File::create(&trace).expect("a file in it");
    let privacy = Privacy::Redacted;
    let mut agent = hall.agent(SLOTS, Some(RecordTo { file, privacy })).await;
    let before = hall.requests();
    let mut waits = Vec::new();

    for round in 0..ROUNDS {
        // Nothing is taken until all pings have their answer.
        let pings = hall.pings();
        let said = hall.mentions(BUSY, MENTIONS).await;
        agent
            .until(|relay| relay.lost == LOST && relay.verifying == 0)
            .await;
        waits.extend(pings.stop().await);
        let asked = hall.requests() - before;
        assert_eq!(asked, round, "a full consumer costs no request");

        let mut taken = agent.take(MENTIONS).await;

        taken.sort_unstable();
        let said: Vec<_> = said.into_iter().collect();
        assert_eq!(taken, said, "each once, and nothing else");
    }
    // One that came twice would come before these.
    let live = hall.mentions(BUSY + 1, 1).await;
    assert!(live.contains(&agent.take(1).await[0]));
    assert_eq!(hall.requests() - before, ROUNDS);
    assert_eq!((hall.over_quota(), hall.logins()), (0, 1));
    agent.end().await;
    assert_each_tick_was_due(&trace);
    tell(&waits);
}

/// The machine is woken when it asked for it, and at no other time: each tick uses up one wake.
fn assert_each_tick_was_due(trace: &Path) {
    let file = File::open(trace).expect("the trace was written");
    let (mut wake, mut ticks) = (None, 0);
    for line in BufReader::new(file).lines().skip(1) {
        let call: Value = serde_json::from_str(&line.expect("text")).expect("a call");
        let last = call["out"].as_array().and_then(|orders| orders.last());
        let ordered = last.and_then(|order| order.get("WakeAt"));
        if call["in"] == "Tick" {
            let is_due = wake.is_some_and(|wake| call["t"].as_u64() >= Some(wake));
            assert!(is_due, "{wake:?}: {call}");
            assert!(
                ordered.is_some(),
                "the next tick would come at once: {call}"
            );
            ticks += 1;
        }
        if let Some(at) = ordered {
            wake = at.as_u64();
        }
    }
    assert!(ticks > 0, "there is something to look at");
}

#[expect(
    clippy::print_stderr,
    reason = "a measurement that no verdict depends on"
)]
fn tell(waits: &[Duration]) {
    let slowest = waits.iter().max().copied().unwrap_or_default();
    let count = waits.len();
    eprintln!("the slowest of {count} pongs of a stalled consumer took {slowest:?}");
}
