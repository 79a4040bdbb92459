//! Reading: REQ, COUNT, history, read gates, and the delivery of live events.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::channels::Channel;
use super::connection::NOT_AUTHENTICATED;
use super::event::Filed;
use super::filter::Filter;
use super::frame;
use super::kinds::{AUTHOR_ONLY, ENGRAM, P_GATED, P_GATED_BY_ID};
use super::queue::Pushed;
use super::session::{History, Scope, Subscription, named_channels};
use super::{ConnectionId, Effects, Generation, Revocation, Rules};
use crate::faults::Fault;

/// History events between two breaths of the delivery.
pub(crate) const HISTORY_CHUNK: usize = 100;
/// Candidates a COUNT may look at one by one.
pub(super) const COUNT_SCAN_MAX: usize = 5000;
const EXPLICIT_CHANNELS_MAX: usize = 128;
const NOT_A_MEMBER: &str = "restricted: not a channel member";
const REVOKED: &str = "restricted: channel access revoked";

impl Rules {
    /// Whether stored events of a long history still wait.
    #[must_use]
    pub fn has_history(&self, id: ConnectionId) -> bool {
        self.sessions
            .get(&id)
            .is_some_and(|session| !session.history.is_empty())
    }

    /// Free places in the queue of a connection.
    #[must_use]
    pub fn queue_room(&self, id: ConnectionId) -> usize {
        let used = self
            .sessions
            .get(&id)
            .map_or(0, |session| session.queue.len());
        self.settings.queue_frames.saturating_sub(used)
    }

    /// Queues the next 100 stored events of the oldest unfinished REQ. A full queue
    /// aborts that history: neither the rest nor EOSE will come.
    pub fn pump_history(&mut self, id: ConnectionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(mut history) = session.history.pop_front() else {
            return;
        };
        let key = session.key().map(str::to_owned);
        for _ in 0..HISTORY_CHUNK {
            if history.cut_after == Some(0) {
                self.ledger
                    .note(key.as_deref(), |stats| stats.histories_cut += 1);
                return;
            }
            let Some(filed) = history.events.pop_front() else {
                if !self.faults.strikes(key.as_deref(), &Fault::SwallowEose) {
                    self.send(id, frame::eose(&history.subscription));
                }
                return;
            };
            let text = frame::stored_event(&history.subscription, &filed.json);
            if self.send(id, text) != Pushed::Queued {
                self.ledger
                    .note(key.as_deref(), |stats| stats.histories_cut += 1);
                return;
            }
            history.cut_after = history.cut_after.map(|left| left - 1);
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.history.push_front(history);
        }
    }

    pub(super) fn receive_req(
        &mut self,
        id: ConnectionId,
        subscription: &str,
        filters: Vec<Filter>,
        now: Duration,
    ) {
        let key = self.key_of(id);
        self.ledger.note(key.as_deref(), |stats| stats.reqs += 1);
        if self.faults.strikes(key.as_deref(), &Fault::IgnoreReq) {
            self.faults.ignored.push(subscription.to_owned());
            return;
        }
        if let Err(text) = self.open_subscription(id, subscription, filters, now) {
            self.ledger
                .note(key.as_deref(), |stats| stats.reqs_refused += 1);
            self.send(id, frame::closed(subscription, &text));
        }
    }

    pub(super) fn receive_count(
        &mut self,
        id: ConnectionId,
        query: &str,
        filters: &[Filter],
        now: Duration,
    ) {
        let key = self.key_of(id);
        let key = key.as_deref();
        self.ledger.note(key, |stats| stats.counts += 1);
        let answer = if !self.is_admitted(id) {
            frame::closed(query, NOT_AUTHENTICATED)
        } else if let Err(text) = self.charge_frame(id, None, now) {
            match self.settings.generation {
                Generation::Old | Generation::New1 => frame::notice(&text),
                Generation::New2 => frame::closed(query, &text),
            }
        } else {
            match self.count(key, filters) {
                Ok(count) => frame::count(query, count),
                Err(text) => frame::closed(query, &format!("restricted: {text}")),
            }
        };
        self.send(id, answer);
    }

    /// The number of matches, or why it is not told, without prefix.
    pub(super) fn count(&self, key: Option<&str>, filters: &[Filter]) -> Result<usize, String> {
        if self.is_p_gated(key, filters) {
            return Err("p-gated kinds require #p tag matching your pubkey".to_owned());
        }
        let mut sum = 0;
        for filter in filters {
            let visible = |filed: &Filed| self.is_visible(filed, key);
            sum += self
                .store
                .count(filter, COUNT_SCAN_MAX, &visible)
                .ok_or_else(|| "count filter requires narrower constraints".to_owned())?;
        }
        Ok(sum)
    }

    /// Stored events for filters, each event once.
    pub(super) fn stored(&self, key: Option<&str>, filters: &[Filter]) -> Vec<Arc<Filed>> {
        let mut seen = HashSet::new();
        let visible = |filed: &Filed| self.is_visible(filed, key);
        filters
            .iter()
            .flat_map(|filter| self.store.query(filter, &visible))
            .filter(|filed| seen.insert(filed.event.id.clone()))
            .collect()
    }

    /// The text that refuses filters because of what they could reveal.
    pub(super) fn gate(&self, key: Option<&str>, filters: &[Filter]) -> Result<(), String> {
        if self.is_plain() {
            return Ok(());
        }
        if self.is_p_gated(key, filters) {
            return Err("restricted: p-gated events require #p matching your pubkey".to_owned());
        }
        for filter in filters {
            let by_author = names_only(filter.authors.as_deref(), key);
            let by_reader = names_only(filter.tags.get(&'p').map(Vec::as_slice), key);
            if asks_for(filter, &[ENGRAM]) && !by_author && !by_reader {
                return Err(
                    "restricted: agent-engram reads require authors=[self] or #p=[self]".to_owned(),
                );
            }
            if asks_for(filter, &AUTHOR_ONLY) && !by_author {
                return Err("restricted: author-only kinds require authors=[self]".to_owned());
            }
        }
        Ok(())
    }

    pub(super) fn admits(&self, channel: &str, key: Option<&str>) -> bool {
        self.is_plain() || self.channels.get(channel).is_some_and(|it| it.admits(key))
    }

    /// Sends what an input caused, in order.
    pub(super) fn deliver(&mut self, effects: Effects) {
        for filed in effects.published {
            self.publish(&filed);
        }
        for revocation in effects.revoked {
            self.revoke(&revocation);
        }
    }

    fn open_subscription(
        &mut self,
        id: ConnectionId,
        subscription: &str,
        mut filters: Vec<Filter>,
        now: Duration,
    ) -> Result<(), String> {
        if !self.is_admitted(id) {
            self.send(
                id,
                frame::notice("auth-required: authenticate before subscribing"),
            );
            return Err(NOT_AUTHENTICATED.to_owned());
        }
        let key = self.key_of(id);
        let key = key.as_deref();
        self.charge_frame(id, None, now)?;
        let refusal = self.faults.take(key, |fault| {
            let Fault::RefuseReq(text) = fault else {
                return None;
            };
            Some(text.clone())
        });
        if let Some(text) = refusal {
            return Err(text);
        }
        for filter in &mut filters {
            // The cursor exists for HTTP only.
            filter.before_id = None;
        }
        let searches = filters
            .iter()
            .filter(|filter| filter.search.is_some())
            .count();
        if searches > 0 && searches < filters.len() {
            return Err("error: mixed search and non-search filters not supported".to_owned());
        }
        self.gate(key, &filters)?;
        let scope = self.scope(key, &filters)?;
        let events = if self.faults.strikes(key, &Fault::EmptyHistory) {
            VecDeque::new()
        } else {
            VecDeque::from(self.stored(key, &filters))
        };
        let cut_after = self.faults.take(key, |fault| {
            let Fault::CutHistory(after) = fault else {
                return None;
            };
            Some(*after)
        });
        let subscriptions_max = self.settings.subscriptions_max;
        let Some(session) = self.sessions.get_mut(&id) else {
            return Ok(());
        };
        if searches == 0 {
            let is_new = !session.subscriptions.contains_key(subscription);
            if is_new && session.subscriptions.len() >= subscriptions_max {
                return Err("error: too many subscriptions".to_owned());
            }
            session
                .subscriptions
                .insert(subscription.to_owned(), Subscription { filters, scope });
        }
        let subscription = subscription.to_owned();
        session.history.push_back(History {
            subscription,
            events,
            cut_after,
        });
        if session.history.len() == 1 {
            self.pump_history(id);
        }
        Ok(())
    }

    fn scope(&self, key: Option<&str>, filters: &[Filter]) -> Result<Scope, String> {
        if self.is_plain() {
            return Ok(Scope::Everything);
        }
        let named = named_channels(filters);
        if self.settings.generation != Generation::Old && named.len() > EXPLICIT_CHANNELS_MAX {
            return Err("restricted: too many explicit channels".to_owned());
        }
        let admitted: BTreeSet<String> = named
            .iter()
            .filter(|channel| self.admits(channel, key))
            .cloned()
            .collect();
        let is_refused = match self.settings.generation {
            Generation::Old => named.len() == 1 && admitted.is_empty(),
            Generation::New1 | Generation::New2 => !named.is_empty() && admitted.is_empty(),
        };
        if is_refused {
            return Err(NOT_A_MEMBER.to_owned());
        }
        Ok(match Scope::of(filters, self.settings.generation) {
            Scope::Channels(_) => Scope::Channels(admitted),
            other @ (Scope::Everything | Scope::Global | Scope::Deaf) => other,
        })
    }

    fn is_p_gated(&self, key: Option<&str>, filters: &[Filter]) -> bool {
        !self.is_plain()
            && filters.iter().any(|filter| {
                let by_reader = names_only(filter.tags.get(&'p').map(Vec::as_slice), key);
                let gated: &[u32] = if filter.ids.is_some() {
                    &P_GATED_BY_ID
                } else {
                    &P_GATED
                };
                let is_unbounded =
                    filter.kinds.is_none() && filter.channels().is_empty() && filter.ids.is_none();
                (asks_for(filter, gated) || is_unbounded) && !by_reader
            })
    }

    fn is_visible(&self, filed: &Filed, key: Option<&str>) -> bool {
        if self.is_plain() {
            return true;
        }
        let event = &filed.event;
        let is_reader_named = || key.is_some_and(|key| event.tag_values("p").any(|p| p == key));
        let is_author = key == Some(event.pubkey.as_str());
        let is_open_to_reader = match event.kind {
            30_622 | 44_200 => is_reader_named(),
            30_175 | 30_178 => {
                is_author || event.tags.iter().any(|tag| tag[..] == ["shared", "true"])
            }
            _ => true,
        };
        is_open_to_reader
            && filed
                .channel
                .as_ref()
                .is_none_or(|channel| self.admits(channel, key))
    }

    fn publish(&mut self, filed: &Filed) {
        let mut frames = Vec::new();
        for (id, session) in &self.sessions {
            let takers: Vec<_> = session
                .subscriptions
                .iter()
                .filter(|(_, subscription)| subscription.takes(filed))
                .map(|(name, _)| name.clone())
                .collect();
            if !takers.is_empty() && self.is_visible(filed, session.key()) {
                frames.push((*id, takers));
            }
        }
        for (id, takers) in frames {
            let key = self.key_of(id);
            if self.faults.strikes(key.as_deref(), &Fault::WithholdLive) {
                self.ledger
                    .note(key.as_deref(), |stats| stats.live_withheld += 1);
                continue;
            }
            for name in takers {
                self.send(id, frame::live_event(&name, &filed.json));
            }
        }
    }

    fn revoke(&mut self, revocation: &Revocation) {
        let channel: Option<&Channel> = self.channels.get(&revocation.channel);
        let mut ended = Vec::new();
        for (id, session) in &mut self.sessions {
            let key = session.key().map(str::to_owned);
            let is_struck = match &revocation.key {
                Some(struck) => key.as_ref() == Some(struck),
                None => !channel.is_some_and(|it| it.admits(key.as_deref())),
            };
            if !is_struck {
                continue;
            }
            session
                .subscriptions
                .retain(|name, subscription| match &mut subscription.scope {
                    Scope::Channels(channels) => {
                        // The loss of one channel among several is silent.
                        if channels.remove(&revocation.channel) && channels.is_empty() {
                            ended.push((*id, name.clone()));
                            return false;
                        }
                        true
                    }
                    Scope::Everything | Scope::Global | Scope::Deaf => true,
                });
        }
        for (id, name) in ended {
            self.send(id, frame::closed(&name, REVOKED));
        }
    }
}

fn asks_for(filter: &Filter, kinds: &[u32]) -> bool {
    filter
        .kinds
        .as_ref()
        .is_some_and(|asked| asked.iter().any(|kind| kinds.contains(kind)))
}

fn names_only(values: Option<&[String]>, key: Option<&str>) -> bool {
    match (values, key) {
        (Some([only]), Some(key)) => only == key,
        _ => false,
    }
}
