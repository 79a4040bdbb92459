//! The events of an agent without workers, and what becomes of them.

use buzz_proto::ids::EventId;
use buzz_proto::input::Input;
use buzz_proto::relay::{self, Disposal};

use crate::connect::{Delivery, Ended};
use crate::delivery::Deliveries;
use crate::driver::{Inbox, Message};
use crate::runtime::Runtime;

/// The events of an agent without workers. While they are not taken, as many wait as its settings
/// have slots for, and the latest standing of each channel, subscription and the connection.
///
/// ```no_run
/// # use buzz_adapters::connect::{Delivery, Events};
/// # use buzz_adapters::runtime::Runtime;
/// # async fn f<R: Runtime>(mut events: Events<R>) {
/// while let Some(delivery) = events.next().await {
///     match delivery {
///         Delivery::Event { event, lives: 0, .. } => println!("{}", event.content()),
///         Delivery::Event { event, .. } => println!("{} may be done already", event.id()),
///         Delivery::Link { live } => println!("connected: {live}"),
///         Delivery::Subscription { sub, state } => println!("{sub}: {state:?}"),
///         Delivery::Channel { channel, state } => println!("{channel}: {state:?}"),
///     }
/// }
/// # }
/// ```
///
/// # What becomes of an event
///
/// An event that was taken counts as accepted when the next delivery is asked for, so a loop that
/// handles one after the other has nothing to tell. [`Events::dispose`] tells another outcome, or
/// the same one earlier. Whoever handles several at a time takes over with
/// [`Events::dispose_by_hand`].
///
/// # How often an event comes
///
/// - *Within one life, once*, among the ids that are remembered (262,144 by default). An event that
///   was refused for now comes again, when there is room.
/// - *Across lives, at least once*, where records are kept
///   ([`Setup::keeper`](crate::connect::Setup::keeper)). One that was not disposed of comes again
///   in the next life: it was never taken, or it was being handled when the process or this stream
///   ended, or it was taken after the agent had ended. So does one whose outcome was not yet
///   written when the process was killed: records are written about once a second. Where a second
///   handling would do harm, remember the id of an event together with its effect;
///   [`Delivery::Event::lives`](Delivery::Event) says whether that can be.
/// - Where no records are kept, what a life did not handle is lost with it.
pub struct Events<R: Runtime> {
    inbox: Inbox<R::Stream>,
    deliveries: Deliveries,
    taken: u64,
    has_workers: bool,
    /// The event that is being handled, unless somebody else tells what becomes of it.
    current: Option<EventId>,
    by_hand: bool,
}

impl<R: Runtime> Events<R> {
    pub(crate) const fn new(
        inbox: Inbox<R::Stream>,
        deliveries: Deliveries,
        has_workers: bool,
    ) -> Self {
        Self {
            inbox,
            deliveries,
            taken: 0,
            has_workers,
            current: None,
            by_hand: false,
        }
    }

    /// The next one; nothing once the agent has ended. The event taken before counts as accepted
    /// from the first poll on, unless something else was told of it. A wait that is given up takes
    /// nothing.
    pub async fn next(&mut self) -> Option<Delivery> {
        if let Some(handled) = self.current.take() {
            self.tell(disposed(handled, Disposal::Accepted));
        }
        let delivery = self.deliveries.next().await?;
        if let Delivery::Event { event, .. } = &delivery {
            self.taken = self.taken.saturating_add(1);
            self.current = (!self.by_hand).then(|| event.id());
            self.tell(relay::Input::Capacity { taken: self.taken });
        }
        Some(delivery)
    }

    /// Tells what became of an event that was taken. The first word about it counts; about an event
    /// that was not taken there is nothing to say, and a note says so.
    pub fn dispose(&mut self, event: EventId, how: Disposal) {
        self.current.take_if(|current| *current == event);
        self.tell(disposed(event, how));
    }

    /// From now on no event counts as accepted by itself: each that is taken, the one that is being
    /// handled included, has to be disposed of through what is returned, from any task and in any
    /// order. After 65,536 that were not, no further event comes.
    pub fn dispose_by_hand(&mut self) -> Disposer<R> {
        self.by_hand = true;
        self.current = None;
        Disposer {
            inbox: self.inbox.clone(),
        }
    }

    fn tell(&self, fact: relay::Input) {
        let _ended = self.inbox.unbounded_send(Message::Fact(Input::Relay(fact)));
    }
}

impl<R: Runtime> Drop for Events<R> {
    /// Without anyone to take events the agent ends; with workers nobody else takes them.
    fn drop(&mut self) {
        if !self.has_workers {
            self.tell(relay::Input::ConsumerGone);
        }
    }
}

/// Tells what became of events; cheap to clone. See [`Events::dispose_by_hand`].
pub struct Disposer<R: Runtime> {
    inbox: Inbox<R::Stream>,
}

impl<R: Runtime> Disposer<R> {
    /// Tells what became of an event that was taken; see [`Events::dispose`].
    ///
    /// # Errors
    /// When the agent has ended: where records are kept, the event comes again in the next life.
    pub fn dispose(&self, event: EventId, how: Disposal) -> Result<(), Ended> {
        let fact = Message::Fact(Input::Relay(disposed(event, how)));
        self.inbox.unbounded_send(fact).map_err(|_| Ended)
    }
}

impl<R: Runtime> Clone for Disposer<R> {
    fn clone(&self) -> Self {
        Self {
            inbox: self.inbox.clone(),
        }
    }
}

const fn disposed(event: EventId, how: Disposal) -> relay::Input {
    relay::Input::Disposed { event, how }
}

#[cfg(feature = "tokio")]
#[cfg(test)]
mod tests {
    use buzz_proto::relay::Sub;
    use buzz_proto::wire::Event;
    use bytes::Bytes;
    use futures_channel::mpsc::{self, UnboundedReceiver};
    use futures_util::FutureExt as _;

    use super::*;
    use crate::delivery::{Deliver, deliveries};
    use crate::runtime::Runtime;
    use crate::tokio::Tokio;

    type Told = UnboundedReceiver<Message<<Tokio as Runtime>::Stream>>;

    fn events() -> (Deliver, Events<Tokio>, Told) {
        let (inbox, told) = mpsc::unbounded();
        let (deliver, deliveries) = deliveries();
        (deliver, Events::new(inbox, deliveries, false), told)
    }

    fn event(number: u8) -> Event {
        let (id, key, sig) = ([number; 32], [1; 32], "0".repeat(128));
        let (id, key) = (EventId(id), EventId(key));
        let raw = format!(
            r#"{{"id":"{id}","pubkey":"{key}","created_at":1,"kind":9,"tags":[],"content":"","sig":"{sig}"}}"#
        );
        Event::decode(Bytes::from(raw)).unwrap()
    }

    fn put(deliver: &Deliver, number: u8) {
        let delivery = Delivery::Event {
            sub: Sub::Membership,
            event: event(number),
            lives: 0,
        };
        deliver.send(delivery).unwrap();
    }

    /// Takes what is there; nothing where the stream waits.
    fn take(events: &mut Events<Tokio>) -> Option<Delivery> {
        events.next().now_or_never().flatten()
    }

    fn facts(told: &mut Told) -> Vec<relay::Input> {
        let messages = std::iter::from_fn(|| told.try_recv().ok());
        messages
            .map(|message| match message {
                Message::Fact(Input::Relay(fact)) => fact,
                Message::Fact(_)
                | Message::Dialed { .. }
                | Message::Kept(_)
                | Message::Publish { .. }
                | Message::Status(_) => panic!("not a fact of the relay part"),
            })
            .collect()
    }

    fn taken(taken: u64) -> relay::Input {
        relay::Input::Capacity { taken }
    }

    fn accepted(number: u8) -> relay::Input {
        disposed(EventId([number; 32]), Disposal::Accepted)
    }

    #[test]
    fn an_event_counts_as_accepted_when_the_next_delivery_is_asked_for() {
        let (deliver, mut events, mut told) = events();
        put(&deliver, 1);
        put(&deliver, 2);

        take(&mut events).unwrap();
        assert_eq!(facts(&mut told), [taken(1)]);
        take(&mut events).unwrap();
        assert_eq!(facts(&mut told), [accepted(1), taken(2)]);

        // The stream is empty, and waiting for more is asking, too.
        assert_eq!(take(&mut events), None);
        assert_eq!(facts(&mut told), [accepted(2)]);
        assert_eq!(take(&mut events), None);
        assert_eq!(facts(&mut told), []);
    }

    #[test]
    fn an_event_that_is_being_handled_when_the_stream_ends_is_not_accepted() {
        let (deliver, mut events, mut told) = events();
        put(&deliver, 1);
        take(&mut events).unwrap();

        drop(events);

        assert_eq!(facts(&mut told), [taken(1), relay::Input::ConsumerGone]);
    }

    #[test]
    fn what_was_told_of_an_event_is_not_followed_by_its_acceptance() {
        let (deliver, mut events, mut told) = events();
        put(&deliver, 1);
        take(&mut events).unwrap();

        let id = EventId([1; 32]);
        events.dispose(id, Disposal::RefusedForNow);
        take(&mut events);

        let refused = disposed(id, Disposal::RefusedForNow);
        assert_eq!(facts(&mut told), [taken(1), refused]);
    }

    #[test]
    fn a_word_about_another_event_leaves_the_present_one_to_be_accepted() {
        let (deliver, mut events, mut told) = events();
        put(&deliver, 1);
        take(&mut events).unwrap();

        events.dispose(EventId([7; 32]), Disposal::Discarded);
        take(&mut events);

        let other = disposed(EventId([7; 32]), Disposal::Discarded);
        assert_eq!(facts(&mut told), [taken(1), other, accepted(1)]);
    }

    #[test]
    fn by_hand_nothing_is_accepted_but_what_the_disposer_says() {
        let (deliver, mut events, mut told) = events();
        put(&deliver, 1);
        put(&deliver, 2);
        take(&mut events).unwrap();

        let disposer = events.dispose_by_hand();
        take(&mut events).unwrap();
        take(&mut events);
        assert_eq!(facts(&mut told), [taken(1), taken(2)]);

        let another = disposer.clone();
        another
            .dispose(EventId([2; 32]), Disposal::Accepted)
            .unwrap();
        disposer
            .dispose(EventId([1; 32]), Disposal::Accepted)
            .unwrap();
        assert_eq!(facts(&mut told), [accepted(2), accepted(1)]);
        drop(told);
        let late = disposer.dispose(EventId([1; 32]), Disposal::Accepted);
        assert_eq!(late, Err(Ended));
    }
}
