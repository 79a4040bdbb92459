//! What is said while there is no connection waits for one.

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
        let dials = desk.dials();
        let grown = dials.windows(2).any(|pair| pair[1] - pair[0] >= 16_000);
        desk.must(grown, "the waits grow");
        desk.at(120_000, [Fact::Network(true)]);
        desk.until(320_000);
        desk.never(!desk.is_live(), "no connection");
        desk.at(320_000, [Fact::Down]);
        let lost = desk.now_ms();
        desk.until(lost + 1000);
        let dialed = desk.dials().last().copied().unwrap_or_default();
        desk.must(
            (lost + 500..=lost + 1000).contains(&dialed),
            "the first wait",
        );
        desk.until(lost + 2000);
        let soon = desk.dials().iter().any(|at| *at > lost);
        desk.never(!soon, "a wait that remembers what is long past");
    });
}
