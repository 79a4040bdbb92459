//! What the relay says to an EVENT decides what becomes of it, and of it alone.

use buzz_proto::publish::Verdict;

use crate::desk::Desk;
use crate::support::{Fact, Way, rejected, twice};

const DAY: u64 = 24 * 3600;
const IN_5_S: &str = "rate-limited: quota exceeded; retry in 5s";

#[test]
fn block_buzz_6961_a_refusal_on_an_ok_is_of_its_event_and_its_prefix_decides() {
    twice(Desk::live, |desk| {
        desk.at(0, [1, 2, 3, 4].map(|n| Fact::Submit(n, Way::Socket, DAY)));
        desk.at(
            1000,
            [
                Fact::Ok(1, false, IN_5_S),
                Fact::Ok(2, true, ""),
                Fact::Ok(3, false, "invalid: bad tag"),
                Fact::Ok(4, false, "auth-required: not authenticated"),
            ],
        );
        desk.must(desk.verdict(1).is_none(), "the first waits");
        desk.must(
            desk.verdict(2) == Some(&Verdict::Stored),
            "the second is stored",
        );
        let refused = rejected("invalid: bad tag");
        desk.must(desk.verdict(3) == Some(&refused), "the third is refused");
        desk.at(1500, [Fact::Challenge]);
        desk.until(15_000);
        let known = desk.known().last().copied().unwrap_or_default();
        let sends = desk.sends_ms(4);
        desk.must(known >= 1500, "the relay knows it again");
        desk.must(
            sends.len() == 2 && sends[1] >= known,
            "the fourth goes once after that",
        );
        let sends = desk.sends_ms(1);
        desk.must(
            sends.len() == 2 && sends[1] >= 6000,
            "the first is sent again after the gate",
        );
        let stored = [Fact::Ok(1, true, ""), Fact::Ok(4, true, "")];
        desk.at(15_000, stored);
        desk.until(120_000);
        desk.must(
            desk.verdict(1) == Some(&Verdict::Stored),
            "the first is stored at last",
        );
        desk.must(desk.sends(2).len() == 1, "the second is sent once");
        desk.must(desk.sends(3).len() == 1, "the third is sent once");
        for job in 1..=4 {
            desk.never(desk.ids(job).len() != 1, "another id");
            desk.never(desk.verdict(job).is_none(), "a job that is forgotten");
        }
    });
}

#[test]
fn block_buzz_6961_a_notice_of_a_quota_keeps_all_that_has_no_answer_and_their_deadlines() {
    twice(Desk::live, |desk| {
        desk.at(0, [1, 2, 3, 4].map(|n| Fact::Submit(n, Way::Socket, 60)));
        desk.at(1000, [Fact::Ok(2, true, "")]);
        desk.at(2000, [Fact::Ok(9, true, ""), Fact::Ok(2, true, "")]);
        desk.at(3000, [Fact::Notice(IN_5_S)]);
        desk.until(20_000);
        for job in [1, 3, 4] {
            let sends = desk.sends_ms(job);
            desk.must(sends.len() == 2, "all go again");
            desk.must((8000..14_000).contains(&sends[1]), "right after the gate");
            desk.never(desk.verdict(job).is_some(), "a verdict of no word");
        }
        desk.at(21_000, [Fact::Ok(1, true, "")]);
        desk.at(22_000, [Fact::Down]);
        desk.until(40_000);
        desk.must(
            desk.sends(3).len() >= 3,
            "what was lost with the socket goes again",
        );
        desk.must(desk.sends(1).len() == 2, "what is stored does not");
        desk.at(40_000, [Fact::Ok(3, true, "")]);
        desk.until(70_000);
        desk.must(
            desk.verdict(3) == Some(&Verdict::Stored),
            "the third is stored",
        );
        desk.never(
            desk.verdict(4) != Some(&Verdict::Unknown),
            "an event without an answer is known",
        );
        let settled = desk.settled_at(4).unwrap_or_default();
        desk.must((60_000..61_000).contains(&settled), "the deadline stands");
        for job in 1..=4 {
            desk.never(desk.ids(job).len() != 1, "another id");
        }
    });
}

#[test]
fn block_buzz_6170_a_refused_event_is_not_counted_as_stored_and_a_reaction_is_tried_again() {
    twice(Desk::live, |desk| {
        desk.at(0, [Fact::Submit(1, Way::Socket, DAY), Fact::React(50)]);
        desk.at(
            1000,
            [
                Fact::Ok(1, false, "blocked: you are not welcome"),
                Fact::Answer(0, 503, ""),
            ],
        );
        let refused = rejected("blocked: you are not welcome");
        desk.must(desk.verdict(1) == Some(&refused), "it is refused");
        desk.until(10_000);
        desk.must(desk.posts_of_no_job().len() == 2, "a second post");
        desk.at(
            10_000,
            [Fact::Web(200, r#"{"accepted":true,"message":""}"#)],
        );
        desk.until(60_000);
        let posts = desk.posts_of_no_job();
        desk.never(posts.len() < 2, "no second try");
        desk.never(posts.iter().any(|post| post.0 != posts[0].0), "another id");
        desk.never(
            desk.verdict(1) == Some(&Verdict::Stored),
            "a refused event is stored",
        );
        desk.never(desk.verdict(1).is_none(), "a refusal that is not told");
    });
}

#[test]
fn block_buzz_5165_a_refusal_in_a_notice_alone_costs_its_hint_and_not_the_deadline() {
    twice(Desk::live, |desk| {
        desk.at(0, [Fact::Submit(1, Way::Socket, 30)]);
        let notice = "rate-limited: quota exceeded; retry in 2s";
        desk.at(200, [Fact::Notice(notice)]);
        desk.until(10_000);
        let sends = desk.sends_ms(1);
        desk.must(sends.len() == 2, "it is sent again");
        desk.must(sends[1] >= 2200 && sends[1] < 5000, "soon after the hint");
        desk.until(40_000);
        let settled = desk.settled_at(1).unwrap_or_default();
        desk.must(
            (30_000..31_000).contains(&settled),
            "its verdict comes at its deadline",
        );
        desk.never(
            desk.verdict(1) != Some(&Verdict::Unknown),
            "a verdict that nobody gave",
        );
        desk.never(desk.ids(1).len() != 1, "another id");
    });
}
