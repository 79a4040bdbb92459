//! A draft is signed when it is sent, and signed again when its date is too old.

use buzz_proto::publish::Verdict;

use crate::desk::Desk;
use crate::support::{Fact, Way, rejected, twice};

const TOO_FAR: &str = "invalid: event timestamp too far from server time";
const ACCEPTED: &str = r#"{"accepted":true,"message":""}"#;

#[test]
fn block_buzz_4967_what_waits_for_a_connection_is_dated_when_it_is_sent() {
    twice(Desk::away, |desk| {
        desk.at(0, [Fact::Submit(1, Way::SocketDraft, 3600)]);
        desk.at(1_000_000, [Fact::Network(true)]);
        desk.until(1_080_000);
        let dates = desk.signed();
        desk.must(!dates.is_empty(), "it is signed when there is a connection");
        desk.never(
            dates.iter().any(|date| *date < desk.wall(1_000_000)),
            "an old date",
        );
        desk.at(1_080_000, [Fact::Ok(1, true, "")]);
        desk.until(1_200_000);
        desk.never(
            desk.verdict(1) != Some(&Verdict::Stored),
            "it is not stored",
        );
    });
}

#[test]
fn block_buzz_4967_a_signature_that_grew_old_behind_a_gate_is_made_anew() {
    const WAIT: &str = r#"{"error":"rate-limited: quota exceeded; retry in 290s"}"#;
    twice(Desk::live, |desk| {
        let facts = [Fact::Web(429, WAIT), Fact::Submit(1, Way::PostDraft, 3600)];
        desk.at(0, facts);
        desk.at(700_000, [Fact::Web(200, ACCEPTED)]);
        desk.until(1_300_000);
        let dates = desk.signed();
        desk.must(dates.len() == 2, "signed at first, and once it was old");
        desk.must(dates[1] >= desk.wall(600_000), "with a new date");
        desk.must(desk.ids(1).len() == 2, "as another event");
        desk.never(
            desk.verdict(1) != Some(&Verdict::Stored),
            "it is not stored",
        );
        let is_old = |(sent, id)| desk.age_ms(sent, id) > 600_000;
        desk.never(desk.sent(1).any(is_old), "an old signature");
        desk.never(desk.ids(1).len() > 3, "signed for ever");
    });
}

#[test]
fn block_buzz_4967_a_date_that_is_refused_is_made_anew_once_and_then_it_is_over() {
    twice(Desk::live, |desk| {
        desk.at(0, [Fact::Submit(1, Way::SocketDraft, 24 * 3600)]);
        desk.at(1000, [Fact::Ok(1, false, TOO_FAR)]);
        desk.until(10_000);
        desk.must(desk.sends(1).len() == 2, "sent again");
        desk.must(desk.ids(1).len() == 2, "signed again");
        desk.at(10_000, [Fact::Ok(1, false, TOO_FAR)]);
        desk.until(3_600_000);
        desk.must(
            desk.verdict(1) == Some(&rejected(TOO_FAR)),
            "refused, and why",
        );
        desk.must(desk.sends(1).len() == 2, "no third time");
        desk.never(desk.ids(1).len() > 2, "signed for ever");
        desk.never(desk.sends(1).len() > 4, "sent for ever");
        desk.never(desk.verdict(1) == Some(&Verdict::Stored), "stored");
    });
}

#[test]
fn block_buzz_4967_an_event_that_others_signed_is_refused_for_its_date_at_once() {
    twice(Desk::live, |desk| {
        desk.at(0, [Fact::Submit(1, Way::Socket, 24 * 3600)]);
        desk.at(1000, [Fact::Ok(1, false, TOO_FAR)]);
        desk.must(
            desk.verdict(1) == Some(&rejected(TOO_FAR)),
            "refused, and why",
        );
        desk.until(600_000);
        desk.must(desk.sends(1).len() == 1, "the same bytes do not go again");
        desk.never(desk.sends(1).len() > 2, "the same bytes again and again");
        desk.never(desk.verdict(1).is_none(), "no verdict");
    });
}
