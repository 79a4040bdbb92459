//! When an event reaches the scheduler: as soon as it is verified and all that its subscription
//! brought before it is.

use std::collections::{BTreeMap, VecDeque};

use buzz_proto::ids::{ChannelId, Ticket};
use buzz_proto::wire::Event;

#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    lanes: BTreeMap<ChannelId, VecDeque<Pending>>,
}

#[derive(Clone, Debug)]
struct Pending {
    ticket: Ticket,
    event: Event,
    genuine: Option<bool>,
}

/// Membership notices are brought by a subscription of their own, and go no further.
const NOTICES: [u32; 2] = [44_100, 44_101];

impl Arrivals {
    pub(super) fn asked(&mut self, ticket: Ticket, event: &Event) {
        let Some(channel) = event.channel() else {
            return;
        };
        if NOTICES.contains(&event.kind()) {
            return;
        }
        self.lanes.entry(channel).or_default().push_back(Pending {
            ticket,
            event: event.clone(),
            genuine: None,
        });
    }

    /// Gives what arrives now.
    pub(super) fn verified(&mut self, ticket: Ticket, genuine: bool) -> Vec<Event> {
        let mut arrived = Vec::new();
        for lane in self.lanes.values_mut() {
            let Some(pending) = lane.iter_mut().find(|it| it.ticket == ticket) else {
                continue;
            };
            pending.genuine = Some(genuine);
            while let Some(first) = lane.pop_front() {
                match first.genuine {
                    None => {
                        lane.push_front(first);
                        break;
                    }
                    Some(true) => arrived.push(first.event),
                    Some(false) => {}
                }
            }
        }
        arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::{Toy, channel, id};

    #[test]
    fn an_event_arrives_when_those_before_it_in_its_channel_are_verified() {
        let mut arrivals = Arrivals::default();
        for (n, place) in [(1, 1), (2, 1), (3, 1), (4, 2)] {
            let event = Toy::mention(n, channel(place)).event();
            arrivals.asked(Ticket(n), &event);
        }
        let mut verified = |n, genuine| -> Vec<_> {
            let arrived = arrivals.verified(Ticket(n), genuine);
            arrived.iter().map(Event::id).collect()
        };

        assert_eq!(verified(4, true), [id(4)]);
        assert_eq!(verified(2, true), []);
        assert_eq!(verified(1, false), [id(2)]);
        assert_eq!(verified(3, true), [id(3)]);
        assert_eq!(verified(3, true), []);
    }
}
