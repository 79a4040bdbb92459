//! Deliveries to a consumer: genuine, once, and never more than there is room for.

use std::collections::BTreeMap;

use buzz_proto::action::Action;
use buzz_proto::ids::EventId;
use buzz_proto::input::Input;
use buzz_proto::relay::{self, Disposal};

use super::Fault;
use super::calls::Calls;

#[derive(Clone, Debug)]
pub(super) struct Deliveries {
    slots: u64,
    count: u64,
    taken: u64,
    is_gone: bool,
    events: BTreeMap<EventId, Standing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Delivered,
    HandedBack,
}

impl Deliveries {
    pub(super) fn new(slots: u32) -> Self {
        Self {
            slots: u64::from(slots),
            count: 0,
            taken: 0,
            is_gone: false,
            events: BTreeMap::new(),
        }
    }

    pub(super) fn learn(&mut self, input: &Input) {
        match input {
            Input::Relay(relay::Input::Capacity { taken }) => {
                self.taken = self.taken.max((*taken).min(self.count));
            }
            Input::Relay(relay::Input::ConsumerGone) => self.is_gone = true,
            Input::Relay(relay::Input::Disposed { event, how }) => {
                if *how == Disposal::RefusedForNow
                    && let Some(standing) = self.events.get_mut(event)
                {
                    *standing = Standing::HandedBack;
                }
            }
            _ => {}
        }
    }

    pub(super) fn order(&mut self, action: &Action, calls: &Calls) -> Result<(), Fault> {
        let Action::Relay(relay::Action::Deliver { event, .. }) = action else {
            return Ok(());
        };
        if self.is_gone {
            return Err("a delivery to a consumer that is gone".to_owned());
        }
        if !calls.is_genuine(event) {
            return Err("a delivery that was not verified".to_owned());
        }
        self.count = self.count.saturating_add(1);
        if self.count.saturating_sub(self.taken) > self.slots {
            return Err("a delivery without room".to_owned());
        }
        let before = self.events.insert(event.id(), Standing::Delivered);
        if before == Some(Standing::Delivered) {
            return Err("a second delivery".to_owned());
        }
        Ok(())
    }
}
