//! What is said while there is no connection waits for one.

use std::time::Duration;

use buzz_proto::publish::Verdict;

use crate::desk::Desk;
use crate::support::{Fact, Way, twice};

const ACCEPTED: &str = r#"{"accepted":true,"message":""}"#;

#[test]
fn topcheer_ggcode_964_what_is_said_while_disconnected_is_kept_and_is_not_told_as_sent() {
    twice(Desk::away, |desk| {
        desk.at(
            0,
            [
                Fact::Submit(1, Way::Socket, 3600),
                Fact::Submit(2, Way::Post, 3600),
                Fact::Submit(3, Way::Socket, 20),
            ],
        );
        desk.at(500, [Fact::Unreachable(2)]);
        desk.until(90_000);
        for job in [1, 2] {
            desk.never(
                desk.verdict(job).is_some(),
                "a verdict without a connection",
            );
        }
        desk.never(
            desk.verdict(3) != Some(&Verdict::Expired),
            "what was not sent in time is silent",
        );
        desk.at(90_000, [Fact::Network(true)]);
        desk.until(240_000);
        for job in [1, 2] {
            desk.never(desk.sends(job).is_empty(), "a message that is dropped");
            desk.never(
                desk.verdict(job) == Some(&Verdict::Stored),
                "success without a word",
            );
        }
        let answers = [Fact::Ok(1, true, ""), Fact::Answer(2, 200, ACCEPTED)];
        desk.at(240_000, answers);
        desk.until(250_000);
        desk.must(
            desk.verdict(1) == Some(&Verdict::Stored),
            "the EVENT is stored",
        );
        desk.must(desk.sends(3).is_empty(), "what is over does not go");
    });
}

#[test]
fn topcheer_ggcode_964_after_a_stable_run_the_next_wait_is_a_first_one() {
    twice(Desk::away, |desk| {
        desk.at(0, [Fact::Submit(1, Way::Post, 3600)]);
        desk.until(120_000);
        let before = desk.waits().last().copied().unwrap_or_default();
        desk.must(before >= Duration::from_secs(16), "the waits grow");
        desk.at(120_000, [Fact::Network(true)]);
        desk.until(200_000);
        desk.never(!desk.is_live(), "no connection");
        desk.until(320_000);
        let count = desk.waits().len();
        desk.at(320_000, [Fact::Down]);
        let after = desk.waits()[count..].first().copied();
        let first = Duration::from_millis(500)..=Duration::from_secs(1);
        let is_first = after.is_some_and(|after| first.contains(&after));
        desk.never(!is_first, "a wait that remembers what is long past");
    });
}
