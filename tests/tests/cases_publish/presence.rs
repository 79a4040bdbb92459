//! Presence is the newest or nothing, and is there again as soon as it can be.

use buzz_proto::config::Config;
use buzz_sim::machine::{config, workers};

use crate::desk::Desk;
use crate::support::{Fact, Way, twice};

const PRESENCE: u32 = 20_001;
const LONG: &str = "rate-limited: quota exceeded; retry in 125s";

#[test]
fn block_buzz_3795_presence_comes_once_right_after_a_gate_that_was_shut_over_two_of_them() {
    let begin = |variant| Desk::live_with(with_presence(), variant);
    twice(begin, |desk| {
        desk.until(4000);
        desk.at(4000, [Fact::Submit(1, Way::Socket, 3600)]);
        desk.at(5000, [Fact::Ok(1, false, LONG)]);
        desk.until(400_000);
        let shown = desk.events_of(PRESENCE);
        let early: Vec<u64> = shown.iter().copied().filter(|at| *at < 170_000).collect();
        desk.must(
            early.len() == 2 && early[0] < 1000,
            "one before the gate, one after it",
        );
        desk.must(
            (130_000..156_000).contains(&early[1]),
            "at once when it opens",
        );
        desk.must(
            shown[2..]
                .windows(2)
                .all(|pair| pair[1] - pair[0] == 60_000),
            "the rhythm",
        );
        desk.must(shown[2] == 180_000, "the rhythm goes on as it was");
        desk.never(
            shown.windows(2).any(|pair| pair[1] - pair[0] < 1000),
            "two were queued",
        );
        desk.never(
            !shown.iter().any(|at| (100_000..170_000).contains(at)),
            "none until 180 s",
        );
    });
}

#[test]
fn block_buzz_3795_presence_comes_at_once_with_a_new_connection() {
    let begin = |variant| Desk::live_with(with_presence(), variant);
    twice(begin, |desk| {
        desk.at(20_000, [Fact::Down]);
        desk.until(30_000);
        let known = desk.known().last().copied().unwrap_or_default();
        let shown = desk.events_of(PRESENCE);
        desk.must(shown.len() == 2, "one more");
        let last = shown.last().copied().unwrap_or_default();
        desk.never(last.abs_diff(known) > 3000, "none with the new connection");
        desk.until(25_000 + 120_000);
        let shown = desk.events_of(PRESENCE);
        desk.must(shown.len() == 4, "then the rhythm");
        desk.never(
            shown.windows(2).any(|pair| pair[1] - pair[0] < 1000),
            "two were queued",
        );
    });
}

fn with_presence() -> Config {
    config(workers())
}
