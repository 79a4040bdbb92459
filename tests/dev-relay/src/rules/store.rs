//! The stored events, their order, replacement and deletion.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use super::event::{Event, Filed, Storage};
use super::filter::Filter;

/// Events in memory, newest first and then by id, as a query delivers them.
#[derive(Debug, Default)]
pub struct Store {
    by_id: HashMap<String, Arc<Filed>>,
    all: Index,
    by_channel: HashMap<String, Index>,
    by_kind: HashMap<u32, Index>,
    current: HashMap<Coordinate, String>,
    reactions: HashSet<Reaction>,
    deleted: HashSet<String>,
    changes: Option<Vec<Change>>,
}

impl Store {
    /// A store that also remembers its changes, for a copy on disk.
    pub(crate) fn with_changes() -> Self {
        Self {
            changes: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Keeps an event unless it is known, deleted or superseded.
    pub fn insert(&mut self, filed: Arc<Filed>) -> Inserted {
        let event = &filed.event;
        if self.contains(&event.id) {
            return Inserted::Known;
        }
        if let Some(coordinate) = Coordinate::of(event) {
            if let Some(previous) = self.current_at(&coordinate) {
                if position(&previous.event) < position(event) {
                    return Inserted::Superseded;
                }
                self.remove(&previous.event.id.clone());
            }
            self.current.insert(coordinate, event.id.clone());
        }
        if let Some(reaction) = Reaction::of(event) {
            self.reactions.insert(reaction);
        }
        let at = position(event);
        self.by_id.insert(event.id.clone(), Arc::clone(&filed));
        self.all.insert(at.clone(), Arc::clone(&filed));
        self.by_kind
            .entry(event.kind)
            .or_default()
            .insert(at.clone(), Arc::clone(&filed));
        if let Some(channel) = &filed.channel {
            let index = self.by_channel.entry(channel.clone()).or_default();
            index.insert(at, Arc::clone(&filed));
        }
        if let Some(changes) = &mut self.changes {
            changes.push(Change::Insert(filed));
        }
        Inserted::Stored
    }

    /// Hides an event from every read, for ever.
    pub fn delete(&mut self, id: &str) {
        if self.remove(id) {
            self.mark_deleted(id.to_owned());
        }
    }

    pub(crate) fn mark_deleted(&mut self, id: String) {
        if let Some(changes) = &mut self.changes {
            changes.push(Change::Delete(id.clone()));
        }
        self.deleted.insert(id);
    }

    /// Whether the id was ever accepted and not superseded.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.by_id.contains_key(id) || self.deleted.contains(id)
    }

    /// A stored event.
    #[must_use]
    pub fn event(&self, id: &str) -> Option<&Arc<Filed>> {
        self.by_id.get(id)
    }

    /// The current event of a replaceable or addressable kind.
    #[must_use]
    pub fn current(&self, kind: u32, author: &str, d: &str) -> Option<&Arc<Filed>> {
        self.current_at(&Coordinate {
            kind,
            author: author.to_owned(),
            d: d.to_owned(),
        })
    }

    /// Whether this author has given this reaction to this target.
    #[must_use]
    pub fn has_reaction(&self, event: &Event) -> bool {
        Reaction::of(event).is_some_and(|reaction| self.reactions.contains(&reaction))
    }

    /// One page of a filter, among the events the reader may see.
    #[must_use]
    pub fn query(&self, filter: &Filter, visible: &dyn Fn(&Filed) -> bool) -> Vec<Arc<Filed>> {
        let page: Vec<_> = self
            .candidates(filter)
            .filter(|filed| filter.database_matches(filed) && visible(filed))
            .take(filter.effective_limit())
            .collect();
        page.into_iter()
            .filter(|filed| filter.rest_matches(filed))
            .cloned()
            .collect()
    }

    /// The number of matches, or `None` when more than `scan_max` candidates would have to be
    /// looked at one by one.
    #[must_use]
    pub fn count(
        &self,
        filter: &Filter,
        scan_max: usize,
        visible: &dyn Fn(&Filed) -> bool,
    ) -> Option<usize> {
        let candidates = self
            .candidates(filter)
            .filter(|filed| filter.database_matches(filed) && visible(filed));
        if filter.is_answered_by_database() {
            return Some(candidates.count());
        }
        let scanned: Vec<_> = candidates.take(scan_max.saturating_add(1)).collect();
        if scanned.len() > scan_max {
            return None;
        }
        Some(
            scanned
                .into_iter()
                .filter(|filed| filter.rest_matches(filed))
                .count(),
        )
    }

    /// All matches in order, without the limit of a page and without regard to readers.
    pub fn matching<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = &'a Arc<Filed>> {
        self.candidates(filter)
            .filter(|filed| filter.matches(filed))
    }

    /// The number of stored events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether nothing is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        self.changes
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    fn current_at(&self, coordinate: &Coordinate) -> Option<&Arc<Filed>> {
        self.current
            .get(coordinate)
            .and_then(|id| self.by_id.get(id))
    }

    fn remove(&mut self, id: &str) -> bool {
        let Some(filed) = self.by_id.remove(id) else {
            return false;
        };
        let at = position(&filed.event);
        self.all.remove(&at);
        if let Some(index) = self.by_kind.get_mut(&filed.event.kind) {
            index.remove(&at);
        }
        if let Some(index) = filed
            .channel
            .as_ref()
            .and_then(|it| self.by_channel.get_mut(it))
        {
            index.remove(&at);
        }
        if let Some(reaction) = Reaction::of(&filed.event) {
            self.reactions.remove(&reaction);
        }
        if let Some(coordinate) = Coordinate::of(&filed.event) {
            self.current.remove(&coordinate);
        }
        if let Some(changes) = &mut self.changes {
            changes.push(Change::Remove(id.to_owned()));
        }
        true
    }

    /// A superset of the matches within the time bounds, in delivery order.
    fn candidates<'a>(
        &'a self,
        filter: &'a Filter,
    ) -> Box<dyn Iterator<Item = &'a Arc<Filed>> + 'a> {
        if filter.since > filter.until && filter.until.is_some() {
            return Box::new(std::iter::empty());
        }
        if let Some(ids) = &filter.ids {
            let mut found: Vec<_> = ids
                .iter()
                .filter_map(|id| self.by_id.get(id))
                .filter(|filed| is_behind_cursor(filter, &filed.event))
                .collect();
            found.sort_by_key(|filed| position(&filed.event));
            found.dedup_by_key(|filed| filed.event.id.clone());
            return Box::new(found.into_iter());
        }
        if let [channel] = filter.channels() {
            let index = self.by_channel.get(channel);
            return Box::new(index.into_iter().flat_map(|index| range(index, filter)));
        }
        if let Some(kinds) = &filter.kinds {
            let mut kinds = kinds.clone();
            kinds.sort_unstable();
            kinds.dedup();
            let indexes = kinds.iter().filter_map(|kind| self.by_kind.get(kind));
            return Box::new(merged(indexes.map(|index| range(index, filter)).collect()));
        }
        Box::new(range(&self.all, filter))
    }
}

/// What became of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// It is stored.
    Stored,
    /// Its id is stored or was deleted.
    Known,
    /// A later event holds its place.
    Superseded,
}

/// A change to repeat on disk.
#[derive(Debug)]
pub(crate) enum Change {
    Insert(Arc<Filed>),
    Remove(String),
    Delete(String),
}

type Position = (Reverse<u64>, String);
type Index = BTreeMap<Position, Arc<Filed>>;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Coordinate {
    kind: u32,
    author: String,
    d: String,
}

impl Coordinate {
    fn of(event: &Event) -> Option<Self> {
        let d = match event.storage() {
            Storage::Replaceable => "",
            Storage::Addressable => event.tag("d").unwrap_or_default(),
            Storage::Regular | Storage::Ephemeral => return None,
        };
        Some(Self {
            kind: event.kind,
            author: event.pubkey.clone(),
            d: d.to_owned(),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Reaction {
    author: String,
    target: String,
    text: String,
}

impl Reaction {
    fn of(event: &Event) -> Option<Self> {
        if event.kind != 7 {
            return None;
        }
        Some(Self {
            author: event.pubkey.clone(),
            target: event.tag_values("e").last()?.to_owned(),
            text: event.content.clone(),
        })
    }
}

fn position(event: &Event) -> Position {
    (Reverse(event.created_at), event.id.clone())
}

fn is_behind_cursor(filter: &Filter, event: &Event) -> bool {
    match (&filter.before_id, filter.until) {
        (Some(before), Some(until)) => event.created_at < until || event.id > *before,
        (None, _) | (_, None) => true,
    }
}

fn range<'a>(index: &'a Index, filter: &Filter) -> impl Iterator<Item = &'a Arc<Filed>> + use<'a> {
    let start = match (filter.until, &filter.before_id) {
        (Some(until), Some(before)) => Bound::Excluded((Reverse(until), before.clone())),
        (Some(until), None) => Bound::Included((Reverse(until), String::new())),
        (None, _) => Bound::Unbounded,
    };
    // Ids are hex digits, all of which sort before a tilde.
    let end = filter.since.map_or(Bound::Unbounded, |since| {
        Bound::Included((Reverse(since), "~".to_owned()))
    });
    index.range((start, end)).map(|(_, filed)| filed)
}

fn merged<'a>(
    sources: Vec<impl Iterator<Item = &'a Arc<Filed>>>,
) -> impl Iterator<Item = &'a Arc<Filed>> {
    let mut sources: Vec<_> = sources.into_iter().map(Iterator::peekable).collect();
    std::iter::from_fn(move || {
        let mut first: Option<(Position, usize)> = None;
        for (at, source) in sources.iter_mut().enumerate() {
            let Some(place) = source.peek().map(|filed| position(&filed.event)) else {
                continue;
            };
            if first.as_ref().is_none_or(|(best, _)| place < *best) {
                first = Some((place, at));
            }
        }
        let (_, at) = first?;
        sources[at].next()
    })
}
