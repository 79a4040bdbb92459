//! An event without an answer is repeated as it is, ever less often, until its time is over.

use buzz_proto::publish::Verdict;

use crate::desk::Desk;
use crate::support::{Fact, Way, gaps_grow, twice};

#[test]
fn unicity_sphere_sphere_sdk_555_an_event_without_an_answer_keeps_its_id_over_ever_rarer_tries() {
    for way in [Way::Socket, Way::SocketDraft, Way::Post] {
        twice(Desk::live, |desk| {
            desk.at(0, [Fact::Submit(1, way, 300)]);
            desk.until(310_000);
            let sends = desk.sends(1);
            desk.must(sends.len() >= 4, "it is tried again");
            desk.must(gaps_grow(&sends), "the gaps grow");
            desk.never(sends.len() > 10, "a flood");
            desk.never(desk.ids(1).len() != 1, "another id");
            desk.never(
                desk.verdict(1) != Some(&Verdict::Unknown),
                "a verdict of no word",
            );
        });
    }
}
