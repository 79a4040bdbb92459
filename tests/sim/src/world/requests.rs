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
