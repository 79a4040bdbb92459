//! What is answered to a post: a refusal that may be about to change is tested again, and then no
//! more.

use buzz_proto::publish::Verdict;

use crate::desk::Desk;
use crate::support::{Fact, Way, rejected, twice};

const DAY: u64 = 24 * 3600;
const NO_MEMBER: &str = r#"{"error":"relay_membership_required"}"#;
const REPLAY: &str = r#"{"error":"NIP-98: replay detected"}"#;
const ACCEPTED: &str = r#"{"accepted":true,"message":""}"#;

#[test]
fn block_buzz_3888_a_membership_that_lands_a_second_later_costs_one_slow_repeat() {
    twice(Desk::live, |desk| {
        desk.at(0, [Fact::Submit(1, Way::Post, DAY)]);
        desk.at(100, [Fact::Answer(1, 403, NO_MEMBER)]);
        desk.must(desk.verdict(1).is_none(), "it is not given up at once");
        desk.until(2000);
        let sends = desk.sends_ms(1);
        desk.must(
            sends.len() == 2 && sends[1] >= 1100,
            "a second later it goes again",
        );
        desk.at(2000, [Fact::Answer(1, 200, ACCEPTED)]);
        desk.until(60_000);
        desk.never(
            desk.verdict(1) != Some(&Verdict::Stored),
            "given up at once",
        );
        desk.never(desk.sends(1).len() > 2, "a hot loop");
        desk.never(desk.ids(1).len() != 1, "another id");
    });
}

#[test]
fn block_buzz_3888_a_membership_that_does_not_come_is_told_after_the_second_refusal() {
    twice(Desk::live, |desk| {
        desk.at(0, [Fact::Submit(1, Way::Post, DAY)]);
        desk.at(100, [Fact::Answer(1, 403, NO_MEMBER)]);
        desk.at(2000, [Fact::Answer(1, 403, NO_MEMBER)]);
        let refused = rejected("relay_membership_required");
        desk.must(desk.verdict(1) == Some(&refused), "refused, and why");
        desk.until(600_000);
        desk.never(desk.sends(1).len() != 2, "a hot loop");
        desk.never(desk.verdict(1) != Some(&refused), "the reason is lost");
    });
}

#[test]
fn block_buzz_3489_a_request_taken_for_a_replay_is_signed_anew_exactly_once() {
    for (second, status) in [(ACCEPTED, 200), (REPLAY, 401)] {
        twice(Desk::live, |desk| {
            let both = [1, 2].map(|n| Fact::Submit(n, Way::Post, DAY));
            desk.at(0, both);
            desk.at(
                100,
                [Fact::Answer(1, 200, ACCEPTED), Fact::Answer(2, 401, REPLAY)],
            );
            desk.until(10_000);
            desk.must(desk.sends(2).len() == 2, "one more try");
            desk.at(10_000, [Fact::Answer(2, status, second)]);
            desk.until(120_000);
            desk.never(desk.sends(2).len() != 2, "not one more try");
            desk.never(desk.ids(2).len() != 1, "another id");
            let expected = match status {
                200 => Verdict::Stored,
                _ => rejected("NIP-98: replay detected"),
            };
            desk.never(desk.verdict(2) != Some(&expected), "another verdict");
            desk.never(desk.sends(1).len() != 1, "what is stored goes again");
        });
    }
}
