//! An EVENT that was taken for one of a stranger waits for the new authentication.

use buzz_proto::publish::Verdict;

use crate::desk::Desk;
use crate::support::{Fact, Way, rejected, twice};

const STRANGER: &str = "auth-required: not authenticated";

#[test]
fn nostrdevkit_nostr_509_what_was_refused_to_a_stranger_goes_once_after_authentication() {
    twice(Desk::live, |desk| {
        desk.at(0, [Fact::Submit(1, Way::Socket, 600)]);
        desk.at(1000, [Fact::Ok(1, false, STRANGER)]);
        desk.at(3000, [Fact::Challenge]);
        desk.until(13_000);
        let (known, sends) = (desk.known(), desk.sends_ms(1));
        let last = known.last().copied().unwrap_or_default();
        desk.must(last >= 3000, "it authenticates again");
        desk.must(
            sends.len() == 2 && sends[1] >= last,
            "once, after the word of the relay",
        );
        desk.at(13_000, [Fact::Ok(1, true, "")]);
        desk.until(120_000);
        desk.must(desk.sends(1).len() == 2, "and no more");
        desk.never(
            desk.verdict(1) != Some(&Verdict::Stored),
            "an event that is lost",
        );
        desk.never(desk.ids(1).len() != 1, "another id");
    });
}

#[test]
fn divinevideo_divine_mobile_6583_the_reason_is_the_relay_s_last_word_and_not_that_it_is_away() {
    twice(Desk::live, |desk| {
        desk.at(0, [Fact::Submit(1, Way::Socket, 60)]);
        desk.at(
            1000,
            [
                Fact::Ok(1, false, STRANGER),
                Fact::RefuseAuth("restricted: not a member"),
            ],
        );
        desk.at(1500, [Fact::Challenge]);
        desk.until(70_000);
        desk.must(
            desk.sends(1).len() == 1,
            "it is not sent to a relay that does not know us",
        );
        desk.must(
            desk.verdict(1) == Some(&rejected(STRANGER)),
            "refused, and why",
        );
        let settled = desk.settled_at(1).unwrap_or_default();
        desk.must((60_000..61_000).contains(&settled), "at its deadline");
        desk.never(desk.verdict(1) == Some(&Verdict::Stored), "stored");
        desk.never(
            desk.verdict(1) == Some(&Verdict::Expired),
            "the reason is erased",
        );
        desk.never(desk.verdict(1).is_none(), "an event that is lost");
    });
}
