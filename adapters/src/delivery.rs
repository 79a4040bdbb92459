//! The way from the driver to whoever takes the events of an agent, bounded in all it carries.
//!
//! Events are bounded by the slots of the machine. Of standings only the latest of each subject
//! is kept until it is taken, at the place where it was reached: a reader that is slow sees where
//! things are, not all the ways they went. What is over is no subject of the machine any more, so
//! of that only the newest are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use buzz_proto::ids::ChannelId;
use buzz_proto::relay::{ChannelState, Sub, SubState};

use crate::connect::Delivery;

/// Standings of what is over. A relay can name channels and take them back without end; a reader
/// that is further behind than this has more to catch up on than which of them are gone.
const OVER_MAX: usize = 4096;

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
        shared.over.clear();
    }
}

#[derive(Default)]
struct Shared {
    /// In the order in which they are taken.
    waiting: BTreeMap<u64, Delivery>,
    /// Where the standing of a subject waits.
    places: BTreeMap<Subject, u64>,
    /// The places of standings of what is over.
    over: BTreeSet<u64>,
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
            self.over.remove(&former);
        }
        if is_over(&delivery) {
            self.over.insert(place);
        }
        self.waiting.insert(place, delivery);
        if self.over.len() > OVER_MAX
            && let Some(oldest) = self.over.pop_first()
            && let Some(subject) = self.waiting.remove(&oldest).as_ref().and_then(Subject::of)
        {
            self.places.remove(&subject);
        }
    }

    fn poll_take(&mut self, cx: &Context<'_>) -> Poll<Option<Delivery>> {
        let Some((place, delivery)) = self.waiting.pop_first() else {
            if self.is_over {
                return Poll::Ready(None);
            }
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        self.over.remove(&place);
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

/// Whether the machine has done with the subject.
const fn is_over(delivery: &Delivery) -> bool {
    match delivery {
        Delivery::Channel { state, .. } => matches!(state, ChannelState::Left),
        Delivery::Subscription { state, .. } => matches!(state, SubState::Refused { .. }),
        Delivery::Event { .. } | Delivery::Link { .. } => false,
    }
}

/// Nothing panics while it holds the lock, and each change is whole.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use buzz_proto::relay::ChannelKind;
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
    fn of_channels_that_came_and_went_untaken_the_newest_are_kept_and_all_that_still_stand() {
        let (deliver, mut deliveries) = deliveries();
        let numbered = |number: u32, state| {
            let mut bytes = [0; 16];
            let (head, _) = bytes.split_at_mut(4);
            head.copy_from_slice(&number.to_be_bytes());
            let channel = ChannelId(bytes);
            Delivery::Channel { channel, state }
        };
        deliver.send(numbered(0, JOINED)).unwrap();

        for number in 1..=10_000 {
            deliver.send(numbered(number, JOINED)).unwrap();
            deliver.send(numbered(number, ChannelState::Left)).unwrap();
        }

        let taken = taken(&mut deliveries);
        assert_eq!(taken.len(), 1 + OVER_MAX);
        assert_eq!(taken.first(), Some(&numbered(0, JOINED)));
        assert_eq!(taken.last(), Some(&numbered(10_000, ChannelState::Left)));
        let shared = lock(&deliveries.0);
        assert!(shared.places.is_empty() && shared.over.is_empty());
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
