//! What the agent asked the relay for, written down where it arrives there.

use std::collections::BTreeSet;

use buzz_dev_relay::rules::filter::Filter;
use buzz_proto::ids::ChannelId;
use buzz_proto::time::MonoTime;

/// How stored events were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// A REQ of this name.
    Req(String),
    /// `POST /query`.
    Query,
}

/// A REQ or a call of `/query` that reached the relay, refused ones included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it arrived.
    pub at: MonoTime,
    /// How it came.
    pub way: Way,
    /// What it asks for.
    pub filters: Vec<Filter>,
}

impl Request {
    /// The channels whose stored events it asks for. The relay's own lists of channels and members
    /// name theirs by another tag, so a read of the roster has none.
    #[must_use]
    pub fn channels(&self) -> BTreeSet<ChannelId> {
        let asking = self.filters.iter().filter(|filter| filter.limit != Some(0));
        asking
            .flat_map(Filter::channels)
            .filter_map(|text| text.parse().ok())
            .collect()
    }

    /// Whether it asks for stored events of a channel.
    #[must_use]
    pub fn is_history(&self) -> bool {
        !self.channels().is_empty()
    }

    /// Whether it compares what the relay stores with what came live: a call of `/query` that
    /// knows neither an event nor a place in the history to go on from.
    #[must_use]
    pub fn is_audit(&self) -> bool {
        let knows = |filter: &Filter| filter.ids.is_some() || filter.before_id.is_some();
        self.way == Way::Query && self.is_history() && !self.filters.iter().any(knows)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::world::channel;

    fn request(way: Way, filters: &[Value]) -> Request {
        let filters = filters.iter().map(|filter| Filter::parse(filter).unwrap());
        Request {
            at: MonoTime::ZERO,
            way,
            filters: filters.collect(),
        }
    }

    fn req(filter: Value) -> Request {
        request(Way::Req("page-1".into()), &[filter])
    }

    fn query(filter: Value) -> Request {
        request(Way::Query, &[filter])
    }

    #[test]
    fn a_request_for_stored_events_of_a_channel_is_history_and_names_it() {
        let room = channel(3).to_string();
        let live = req(json!({"kinds": [9], "#h": [room], "since": 5, "limit": 50}));

        assert_eq!(live.channels(), BTreeSet::from([channel(3)]));
        assert!(live.is_history() && !live.is_audit());
        assert!(query(json!({"kinds": [9], "#h": [room], "ids": ["ab".repeat(32)]})).is_history());
    }

    #[test]
    fn what_asks_for_no_stored_event_of_a_channel_is_no_history() {
        let room = channel(3).to_string();
        assert!(!req(json!({"kinds": [9], "#h": [room], "limit": 0})).is_history());
        assert!(!req(json!({"kinds": [44_100], "#p": ["ab".repeat(32)]})).is_history());
        assert!(!query(json!({"kinds": [39_000], "#d": [room]})).is_history());
    }

    #[test]
    fn a_query_that_knows_no_event_and_no_place_is_an_audit() {
        let room = channel(3).to_string();
        let filter = json!({"kinds": [9], "#h": [room], "since": 5, "limit": 100});
        let ids = json!({"kinds": [9], "#h": [room], "ids": ["ab".repeat(32)]});
        let place = json!({"#h": [room], "until": 5, "before_id": "ab".repeat(32)});

        assert!(query(filter.clone()).is_audit());
        assert!(!req(filter).is_audit());
        assert!(!query(ids).is_audit());
        assert!(!query(place).is_audit());
    }
}
