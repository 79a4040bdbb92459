//! What grows has an end.

use buzz_proto::ids::Ticket;
use buzz_proto::relay::{Action, CloseCause, Command, Input, Receipt};
use buzz_sim::relay::given;
use buzz_sim::toy::Toy;

use crate::house::House;
use crate::player::Case;
use crate::transcript::{closes, when};

const A: u8 = 1;
const OFFERED: u64 = 10_000;

#[test]
fn snapview_tokio_tungstenite_286_frames_for_a_relay_that_reads_nothing_have_a_bound() {
    Case::new(|| House::with(given(&[A])).begin())
        .at(1000, |house| {
            house.is_writing = false;
            for n in 0..OFFERED {
                let (ticket, durable) = (Ticket(n), n % 2 == 0);
                let event = Toy::new(1000 + n).bytes();
                house.give(Input::Command(Command::Send {
                    ticket,
                    durable,
                    event,
                }));
            }
        })
        .must(1000, |house| {
            let kept = house.script.part().view().outbound;
            assert!(kept <= 256, "{kept}");
            let refused = when(house, |action| {
                let receipt = Receipt::NotSent;
                matches!(action, Action::Receipt { receipt: found, .. } if *found == receipt)
            });
            assert!(refused.len() as u64 >= OFFERED - 256, "{}", refused.len());
        })
        .must(12_000, |house| {
            assert_eq!(closes(house, CloseCause::Write).len(), 1);
        })
        .at(13_000, |house| house.is_writing = true)
        .finally(|house| assert!(house.is_live(A)))
        .play();
}
