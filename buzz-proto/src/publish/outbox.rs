//! The jobs that have no verdict yet: one row each, and the orders in which rows are asked for.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use core::time::Duration;

use super::retry::History;
use super::{Body, Class, Config, LatestKey, Route};
use crate::ids::{JobId, Ticket};
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::{Draft, Event};

/// What a row weighs beside its texts: author, id, signature and field names of a signed event.
const ROW_BYTES: u64 = 512;
/// How far ahead of our clock a draft may be dated. Parts of an answer are dated a second apart to
/// keep their order; a date further ahead comes from a clock that was set back since. A third of
/// what a Buzz relay takes (900 s), so that there is room for a clock that is wrong.
pub(crate) const AHEAD_MAX: Duration = Duration::from_secs(300);

/// One job.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) class: Class,
    pub(super) content: Content,
    pub(super) expires: MonoTime,
    pub(super) history: History,
    route: Route,
    phase: Phase,
    /// Its place among those of its class; the submission's, until it goes behind the others.
    place: u64,
    submitted: u64,
    bytes: u64,
}

/// What a job publishes.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// An event signed by the caller.
    Signed(Event),
    /// A draft, and its last signature with the time it was asked for.
    Draft {
        draft: Draft,
        signed: Option<(Event, MonoTime)>,
    },
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It waits its turn.
    Ready,
    /// It waits before it waits its turn.
    Resting { until: MonoTime },
    /// Its draft is at the signer.
    Signing { ticket: Ticket },
    /// Its post awaits the answer.
    Posting { ticket: Ticket },
    /// Its EVENT awaits the receipt.
    Sending { ticket: Ticket },
}

impl Phase {
    /// Whether the event is out, so that it can be stored at any moment.
    pub(super) const fn is_out(self) -> bool {
        matches!(self, Self::Posting { .. } | Self::Sending { .. })
    }
}

impl Row {
    pub(super) const fn phase(&self) -> Phase {
        self.phase
    }

    /// The event as it can be sent.
    pub(super) const fn event(&self) -> Option<&Event> {
        match &self.content {
            Content::Signed(event)
            | Content::Draft {
                signed: Some((event, _)),
                ..
            } => Some(event),
            Content::Draft { signed: None, .. } => None,
        }
    }

    /// Whether the job was sent and may be stored, for all that is known.
    pub(super) const fn may_be_stored(&self) -> bool {
        self.history.is_doubtful || self.phase.is_out()
    }

    const fn key(&self, job: JobId) -> Key {
        let rank = match self.class {
            Class::Durable => Rank::Durable,
            Class::Latest(_) => Rank::Latest,
        };
        Key {
            rank,
            place: self.place,
            job,
        }
    }
}

/// The order in which jobs take their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    rank: Rank,
    place: u64,
    job: JobId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Durable,
    Latest,
}

/// Jobs that wait their turn, by what they need next.
#[derive(Clone, Debug, Default)]
struct Ready {
    signed: BTreeSet<Key>,
    unsigned: BTreeSet<Key>,
}

/// Which jobs are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// Those bound for this route.
    Only(Route),
    /// All.
    Any,
}

/// All jobs without a verdict.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    jobs_max: usize,
    bytes_max: u64,
    latest_max: usize,
    rows: BTreeMap<JobId, Row>,
    bytes: u64,
    places: u64,
    posts: Ready,
    sends: Ready,
    resting: BTreeSet<(MonoTime, JobId)>,
    expiries: BTreeSet<(MonoTime, JobId)>,
    /// Per key the job submitted last.
    newest: BTreeMap<LatestKey, JobId>,
    /// `Latest` jobs, the oldest first.
    latest: BTreeSet<(u64, JobId)>,
}

impl Outbox {
    pub(super) fn new(config: &Config) -> Self {
        let size = |limit: u32| usize::try_from(limit).unwrap_or(usize::MAX);
        Self {
            jobs_max: size(config.jobs_max),
            bytes_max: config.bytes_max,
            latest_max: size(config.latest_max),
            rows: BTreeMap::new(),
            bytes: 0,
            places: 0,
            posts: Ready::default(),
            sends: Ready::default(),
            resting: BTreeSet::new(),
            expiries: BTreeSet::new(),
            newest: BTreeMap::new(),
            latest: BTreeSet::new(),
        }
    }

    /// A row for a job, not yet in the outbox.
    pub(super) fn row(
        class: Class,
        route: Route,
        body: Body,
        expires: MonoTime,
        stored: u64,
    ) -> Row {
        let content = match body {
            Body::Signed(event) => Content::Signed(event),
            Body::SignWhenSent(draft) => Content::Draft {
                draft,
                signed: None,
            },
        };
        Row {
            bytes: ROW_BYTES.saturating_add(weight(&content)),
            history: History::new(stored),
            phase: Phase::Ready,
            place: 0,
            submitted: 0,
            class,
            content,
            expires,
            route,
        }
    }

    /// The job that has to go before `row` can come in; nothing when there is room for it.
    ///
    /// # Errors
    /// When there is no room, whoever else goes.
    pub(super) fn victim(&self, row: &Row) -> Result<Option<JobId>, Full> {
        if let Class::Latest(key) = row.class
            && let Some(job) = self.newest.get(&key)
            && self.replaceable(*job).is_some()
        {
            return Ok(Some(*job));
        }
        let is_durable = row.class == Class::Durable;
        let has_place = is_durable || self.latest.len() < self.latest_max;
        let has_bytes = self.bytes.saturating_add(row.bytes) <= self.bytes_max;
        if has_place && has_bytes && self.rows.len() < self.jobs_max {
            return Ok(None);
        }
        // Nobody is sent away for a job that finds no room all the same.
        let replaceable = || {
            self.latest
                .iter()
                .filter_map(|(_, job)| self.replaceable(*job))
        };
        let freed = replaceable().fold(0_u64, |sum, (_, row)| sum.saturating_add(row.bytes));
        let rest = self.bytes.saturating_sub(freed);
        if rest.saturating_add(row.bytes) > self.bytes_max {
            return Err(Full);
        }
        let oldest = replaceable().next();
        oldest.map(|(job, _)| Some(job)).ok_or(Full)
    }

    /// Takes a job in. There must be room for it.
    pub(super) fn insert(&mut self, job: JobId, mut row: Row) {
        row.submitted = self.next_place();
        row.place = row.submitted;
        if let Class::Latest(key) = row.class {
            self.newest.insert(key, job);
            self.latest.insert((row.submitted, job));
        }
        self.bytes = self.bytes.saturating_add(row.bytes);
        self.expiries.insert((row.expires, job));
        self.rows.insert(job, row);
        self.index(job);
        self.check();
    }

    /// Takes a job out, and with it all that is known of it.
    pub(super) fn remove(&mut self, job: JobId) -> Option<Row> {
        self.unindex(job);
        let row = self.rows.remove(&job)?;
        if let Class::Latest(key) = row.class {
            if self.newest.get(&key) == Some(&job) {
                self.newest.remove(&key);
            }
            self.latest.remove(&(row.submitted, job));
        }
        self.bytes = self.bytes.saturating_sub(row.bytes);
        self.expiries.remove(&(row.expires, job));
        self.check();
        Some(row)
    }

    pub(super) fn get(&self, job: JobId) -> Option<&Row> {
        self.rows.get(&job)
    }

    pub(super) fn row_mut(&mut self, job: JobId) -> Option<&mut Row> {
        self.rows.get_mut(&job)
    }

    /// Moves a job to another phase.
    pub(super) fn enter(&mut self, job: JobId, phase: Phase) {
        self.unindex(job);
        if let Some(row) = self.rows.get_mut(&job) {
            row.phase = phase;
        }
        self.index(job);
        self.check();
    }

    /// Keeps a signature asked for at `asked`, or forgets the one there is. The job is not ready.
    pub(super) fn sign(&mut self, job: JobId, signature: Option<(Event, MonoTime)>) {
        let Some(row) = self.rows.get_mut(&job) else {
            return;
        };
        let Content::Draft { signed, .. } = &mut row.content else {
            return;
        };
        *signed = signature;
        let bytes = ROW_BYTES.saturating_add(weight(&row.content));
        self.bytes = self.bytes.saturating_sub(row.bytes).saturating_add(bytes);
        row.bytes = bytes;
    }

    /// Forgets the signature of a job that waits its turn.
    pub(super) fn unsign(&mut self, job: JobId) {
        self.unindex(job);
        self.sign(job, None);
        self.index(job);
    }

    /// Puts a job behind the others of its class. The job is not ready.
    pub(super) fn move_back(&mut self, job: JobId) {
        let place = self.next_place();
        if let Some(row) = self.rows.get_mut(&job) {
            row.place = place;
        }
    }

    /// Whether a newer job of its key came while this one was out.
    pub(super) fn is_outdated(&self, job: JobId) -> bool {
        match self.rows.get(&job).map(|row| row.class) {
            Some(Class::Latest(key)) => self.newest.get(&key) != Some(&job),
            Some(Class::Durable) | None => false,
        }
    }

    /// The next job to take its turn: of all, or of those that need no signature.
    pub(super) fn next(&self, pick: Pick, needs_signed: bool) -> Option<JobId> {
        let routes = match pick {
            Pick::Only(Route::Post) => [Some(&self.posts), None],
            Pick::Only(Route::Socket) => [Some(&self.sends), None],
            Pick::Any => [Some(&self.posts), Some(&self.sends)],
        };
        let first = |ready: &Ready| {
            let unsigned = ready.unsigned.first().filter(|_| !needs_signed);
            ready
                .signed
                .first()
                .into_iter()
                .chain(unsigned)
                .min()
                .copied()
        };
        let key = routes.into_iter().flatten().filter_map(first).min()?;
        Some(key.job)
    }

    /// A job whose rest is over. The wake is armed for the next one.
    pub(super) fn rested(&self, now: &mut Now) -> Option<JobId> {
        let (until, job) = self.resting.first()?;
        now.reached(*until, Why::Retry).then_some(*job)
    }

    /// A job whose deadline is over. The wake is armed for the next one.
    pub(super) fn expired(&self, now: &mut Now) -> Option<JobId> {
        let (at, job) = self.expiries.first()?;
        now.reached(*at, Why::Expiry).then_some(*job)
    }

    /// Any job.
    pub(super) fn first(&self) -> Option<JobId> {
        self.rows.first_key_value().map(|(job, _)| *job)
    }

    /// The oldest `Latest` job.
    pub(super) fn oldest_latest(&self) -> Option<JobId> {
        self.latest.first().map(|(_, job)| *job)
    }

    /// Jobs without a verdict.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// `Latest` jobs among them.
    pub(super) fn latest_len(&self) -> usize {
        self.latest.len()
    }

    /// A job that can be sent away: it is not out.
    fn replaceable(&self, job: JobId) -> Option<(JobId, &Row)> {
        let row = self.rows.get(&job)?;
        (!row.phase.is_out()).then_some((job, row))
    }

    const fn next_place(&mut self) -> u64 {
        self.places = self.places.saturating_add(1);
        self.places
    }

    fn index(&mut self, job: JobId) {
        let Some(row) = self.rows.get(&job) else {
            return;
        };
        match row.phase {
            Phase::Ready => {
                let (key, is_signed) = (row.key(job), row.event().is_some());
                self.ready(row.route, is_signed).insert(key);
            }
            Phase::Resting { until } => {
                self.resting.insert((until, job));
            }
            Phase::Signing { .. } | Phase::Posting { .. } | Phase::Sending { .. } => {}
        }
    }

    fn unindex(&mut self, job: JobId) {
        let Some(row) = self.rows.get(&job) else {
            return;
        };
        match row.phase {
            Phase::Ready => {
                let (key, is_signed) = (row.key(job), row.event().is_some());
                self.ready(row.route, is_signed).remove(&key);
            }
            Phase::Resting { until } => {
                self.resting.remove(&(until, job));
            }
            Phase::Signing { .. } | Phase::Posting { .. } | Phase::Sending { .. } => {}
        }
    }

    const fn ready(&mut self, route: Route, is_signed: bool) -> &mut BTreeSet<Key> {
        let ready = match route {
            Route::Post => &mut self.posts,
            Route::Socket => &mut self.sends,
        };
        if is_signed {
            &mut ready.signed
        } else {
            &mut ready.unsigned
        }
    }

    /// The orders speak of the rows, and of nothing else.
    fn check(&self) {
        debug_assert_eq!(self.expiries.len(), self.rows.len());
        debug_assert!(self.rows.len() <= self.jobs_max);
        debug_assert!(self.latest.len() <= self.latest_max);
        debug_assert!(self.newest.len() <= self.latest.len());
    }
}

/// There is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// The draft as it is to be signed at `wall`: dated then, unless it is to come after another part.
pub(super) fn dated(draft: &Draft, wall: Option<UnixTime>) -> Draft {
    let mut draft = draft.clone();
    if let Some(wall) = wall
        && !(wall..=wall.after(AHEAD_MAX)).contains(&draft.created_at)
    {
        draft.created_at = wall;
    }
    draft
}

fn weight(content: &Content) -> u64 {
    let bytes = match content {
        Content::Signed(event) => event.raw().len(),
        Content::Draft { draft, signed } => {
            let cell = size_of::<String>();
            let tags = draft
                .tags
                .iter()
                .flatten()
                .map(|text| text.len().saturating_add(cell));
            let signed = signed.as_ref().map_or(0, |(event, _)| event.raw().len());
            tags.fold(draft.content.len(), usize::saturating_add)
                .saturating_add(signed)
        }
    };
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
