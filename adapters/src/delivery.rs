//! The way from the driver to whoever takes the events of an agent, bounded in all it carries.
//!
//! Events are bounded by the slots of the machine. Of standings only the latest of each subject
//! is kept until it is taken, at the place where it was reached: a reader that is slow sees where
//! things are, not all the ways they went.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use buzz_proto::ids::ChannelId;
use buzz_proto::relay::Sub;

use crate::connect::Delivery;

/// The two ends.
pub(crate) fn deliveries() -> (Deliver, Deliveries) {
    let shared = Arc::new(Mutex::new(Shared::default()));
    (Deliver(Arc::clone(&shared)), Deliveries(shared))
}

/// The driver's end.
pub(crate) struct Deliver(Arc<Mutex<Shared>>);

impl Deliver {
    /// Hands one over, or tells that nobody will take it.
    pub(crate) fn send(&self, delivery: Delivery) -> Result<(), Gone> {
        let mut shared = lock(&self.0);
        if shared.is_abandoned {
            return Err(Gone);
        }
        shared.put(delivery);
        shared.wake();
        Ok(())
    }
}

impl Drop for Deliver {
    fn drop(&mut self) {
        let mut shared = lock(&self.0);
        shared.is_over = true;
        shared.wake();
    }
}

/// Nobody takes deliveries any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// The reader's end.
pub(crate) struct Deliveries(Arc<Mutex<Shared>>);

impl Deliveries {
    /// The next one; nothing once the other end is gone and all is taken.
    #[expect(
        clippy::needless_pass_by_ref_mut,
        reason = "one reader at a time: there is one waker"
    )]
    pub(crate) async fn next(&mut self) -> Option<Delivery> {
        poll_fn(|cx| lock(&self.0).poll_take(cx)).await
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        let mut shared = lock(&self.0);
        shared.is_abandoned = true;
        shared.waiting.clear();
        shared.places.clear();
    }
}

#[derive(Default)]
struct Shared {
    /// In the order in which they are taken.
    waiting: BTreeMap<u64, Delivery>,
    /// Where the standing of a subject waits.
    places: BTreeMap<Subject, u64>,
    next_place: u64,
    reader: Option<Waker>,
    is_over: bool,
    is_abandoned: bool,
}

/// What has a standing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Link,
    Channel(ChannelId),
    Subscription(Sub),
}

impl Subject {
    const fn of(delivery: &Delivery) -> Option<Self> {
        match delivery {
            Delivery::Event { .. } => None,
            Delivery::Subscription { sub, .. } => Some(Self::Subscription(*sub)),
            Delivery::Channel { channel, .. } => Some(Self::Channel(*channel)),
            Delivery::Link { .. } => Some(Self::Link),
        }
    }
}

impl Shared {
    fn put(&mut self, delivery: Delivery) {
        let place = self.next_place;
        self.next_place = place.wrapping_add(1);
        if let Some(subject) = Subject::of(&delivery)
            && let Some(former) = self.places.insert(subject, place)
        {
            self.waiting.remove(&former);
        }
        self.waiting.insert(place, delivery);
    }

    fn poll_take(&mut self, cx: &Context<'_>) -> Poll<Option<Delivery>> {
        let Some((_, delivery)) = self.waiting.pop_first() else {
            if self.is_over {
                return Poll::Ready(None);
            }
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        if let Some(subject) = Subject::of(&delivery) {
            self.places.remove(&subject);
        }
        Poll::Ready(Some(delivery))
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// Nothing panics while it holds the lock, and each change is whole.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use buzz_proto::relay::{ChannelKind, ChannelState};
    use futures_util::FutureExt as _;

    use super::*;

    const JOINED: ChannelState = ChannelState::Joined {
        kind: ChannelKind::Stream,
    };

    fn channel(number: u8, state: ChannelState) -> Delivery {
        Delivery::Channel {
            channel: ChannelId([number; 16]),
            state,
        }
    }

    fn taken(deliveries: &mut Deliveries) -> Vec<Delivery> {
        std::iter::from_fn(|| deliveries.next().now_or_never().flatten()).collect()
    }

    #[test]
    fn of_what_nobody_took_the_latest_standing_of_each_subject_is_kept() {
        let (deliver, mut deliveries) = deliveries();

        for live in [true, false].repeat(1000) {
            deliver.send(Delivery::Link { live }).unwrap();
            deliver.send(channel(1, JOINED)).unwrap();
            deliver.send(channel(2, JOINED)).unwrap();
        }

        let latest = [
            Delivery::Link { live: false },
            channel(1, JOINED),
            channel(2, JOINED),
        ];
        assert_eq!(taken(&mut deliveries), latest);
    }

    #[test]
    fn a_standing_is_told_again_after_it_was_taken() {
        let (deliver, mut deliveries) = deliveries();
        for live in [true, false] {
            deliver.send(Delivery::Link { live }).unwrap();
            assert_eq!(taken(&mut deliveries), [Delivery::Link { live }]);
        }
    }

    #[test]
    fn what_was_sent_before_the_end_can_still_be_taken() {
        let (deliver, mut deliveries) = deliveries();
        deliver.send(Delivery::Link { live: true }).unwrap();

        drop(deliver);

        let first = deliveries.next().now_or_never();
        assert_eq!(first, Some(Some(Delivery::Link { live: true })));
        assert_eq!(deliveries.next().now_or_never(), Some(None));
    }

    #[test]
    fn nothing_is_kept_for_a_reader_that_is_gone() {
        let (deliver, deliveries) = deliveries();
        drop(deliveries);
        assert_eq!(deliver.send(Delivery::Link { live: true }), Err(Gone));
    }
}
