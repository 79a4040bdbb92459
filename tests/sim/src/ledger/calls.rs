//! Questions to the driver: each has a ticket of its own, and an event counts as genuine only when
//! its verification said so.

use std::collections::{BTreeMap, BTreeSet};

use buzz_proto::action::Action;
use buzz_proto::ids::Ticket;
use buzz_proto::input::Input;
use buzz_proto::wire::Event;
use buzz_proto::{publish, relay, schedule};
use bytes::Bytes;

use super::Fault;

/// Which part asks: tickets of different parts may be alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Asker {
    Relay,
    Publisher,
    Scheduler,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    used: BTreeSet<(Asker, Ticket)>,
    /// Events under verification for the relay part.
    doubted: BTreeMap<Ticket, Bytes>,
    genuine: BTreeSet<Bytes>,
}

impl Calls {
    pub(super) fn learn(&mut self, input: &Input) {
        if let Input::Relay(relay::Input::Verified { ticket, genuine }) = input
            && let Some(raw) = self.doubted.remove(ticket)
            && *genuine
        {
            self.genuine.insert(raw);
        }
    }

    pub(super) fn is_genuine(&self, event: &Event) -> bool {
        self.genuine.contains(event.raw())
    }

    pub(super) fn order(&mut self, action: &Action) -> Result<(), Fault> {
        if let Action::Relay(relay::Action::Verify { ticket, event }) = action {
            self.doubted.insert(*ticket, event.raw().clone());
        }
        let Some((asker, ticket)) = asked(action) else {
            return Ok(());
        };
        if !self.used.insert((asker, ticket)) {
            return Err("a ticket that was used".to_owned());
        }
        Ok(())
    }
}

fn asked(action: &Action) -> Option<(Asker, Ticket)> {
    use {publish::Action as P, relay::Action as R, schedule::Action as S};
    match action {
        Action::Relay(
            R::SignAuth { ticket, .. }
            | R::Verify { ticket, .. }
            | R::Query { ticket, .. }
            | R::Inform { ticket }
            | R::Persist { ticket, .. },
        ) => Some((Asker::Relay, *ticket)),
        Action::Publish(
            P::Sign { ticket, .. }
            | P::Post { ticket, .. }
            | P::Query { ticket, .. }
            | P::Send { ticket, .. },
        ) => Some((Asker::Publisher, *ticket)),
        Action::Schedule(S::Query { ticket, .. } | S::Verify { ticket, .. }) => {
            Some((Asker::Scheduler, *ticket))
        }
        _ => None,
    }
}
