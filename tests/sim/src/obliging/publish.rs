//! How orders of the publisher are carried out.

use buzz_proto::publish::{Action, Input, Publisher, View};
use buzz_proto::relay::{BrokeCause, Receipt};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Reason;
use bytes::Bytes;

use super::relay::answer;
use super::{Oblige, World};
use crate::toy::{self, Toy};

/// The numbers of what was signed, from this on.
const SIGNED: u64 = 2_000_000;

impl Oblige for Publisher {
    fn greet(wall: UnixTime) -> Vec<Input> {
        let live = true;
        vec![Input::WallClock(wall), Input::Link { live }]
    }

    fn is_sure(_order: &Action) -> bool {
        false
    }

    fn oblige(order: Action, world: &mut World) -> Vec<Input> {
        match order {
            Action::Sign { ticket, draft } => {
                let event = Toy::new(SIGNED + ticket.0).kind(draft.kind).bytes();
                vec![Input::Signed { ticket, event }]
            }
            Action::Post { ticket, .. } => {
                let answer = answer(Bytes::from_static(b"{\"accepted\":true}"));
                vec![Input::Answered { ticket, answer }]
            }
            Action::Query { ticket, .. } if world.silence.queries => {
                let cause = BrokeCause::Connection;
                vec![Input::Broke { ticket, cause }]
            }
            Action::Query { ticket, .. } => {
                let answer = answer(toy::events(&[]));
                vec![Input::Answered { ticket, answer }]
            }
            Action::Send { ticket, .. } => {
                let (accepted, reason) = (true, Reason::new(""));
                let receipt = Receipt::Answered { accepted, reason };
                vec![Input::Receipt { ticket, receipt }]
            }
            Action::Abort { .. }
            | Action::Settle { .. }
            | Action::Outbox { .. }
            | Action::Ended
            | Action::Note(_)
            | Action::WakeAt(_) => Vec::new(),
        }
    }

    fn unsettled(&self) -> Option<String> {
        unsettled(&self.view())
    }

    fn is_over(&self) -> bool {
        self.view().is_ended
    }

    fn is_desertion(_fact: &Input) -> bool {
        false
    }
}

/// What is still to be settled.
pub(super) fn unsettled(view: &View) -> Option<String> {
    let is_settled = view.waiting == 0 && view.in_flight == 0;
    (!is_settled).then(|| format!("{view:?}"))
}
