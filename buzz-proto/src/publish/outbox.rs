//! The jobs that have no verdict yet: one row each, and the orders in which rows are asked for.

use alloc::collections::{BTreeMap, BTreeSet};

use super::job::{Content, Key, Phase, Rank, Row, Signature, Sort};
use super::{Config, LatestKey, Route};
use crate::ids::JobId;
use crate::time::{MonoTime, Now, Why};

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
    /// Those of `Durable` jobs.
    durable_bytes: u64,
    places: u64,
    posts: Ready,
    sends: Ready,
    unsure: BTreeSet<Key>,
    resting: BTreeSet<(MonoTime, JobId)>,
    expiries: BTreeSet<(MonoTime, JobId)>,
    /// Per key the job submitted last.
    newest: BTreeMap<LatestKey, JobId>,
    /// `Latest` jobs, the oldest first.
    latest: BTreeSet<(u64, JobId)>,
    /// The job that changes a mark.
    mark: Option<JobId>,
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
            durable_bytes: 0,
            places: 0,
            posts: Ready::default(),
            sends: Ready::default(),
            unsure: BTreeSet::new(),
            resting: BTreeSet::new(),
            expiries: BTreeSet::new(),
            newest: BTreeMap::new(),
            latest: BTreeSet::new(),
            mark: None,
        }
    }

    /// The job that has to go before `row` can come in; nothing when there is room for it.
    ///
    /// # Errors
    /// When there is no room, whoever else goes.
    pub(super) fn victim(&self, row: &Row) -> Result<Option<Victim>, Full> {
        if let Sort::Latest(key) = row.sort
            && let Some(job) = self.newest.get(&key)
            && self.replaceable(*job).is_some()
        {
            return Ok(Some(Victim::Replaced(*job)));
        }
        let has_place = !matches!(row.sort, Sort::Latest(_)) || self.latest.len() < self.latest_max;
        if has_place && self.has_room(row) {
            return Ok(None);
        }
        // Nobody is sent away for a job that finds no room all the same. A mark goes first, for it
        // comes back by itself; among the latest ones it frees no place.
        let mark = self.mark.filter(|_| has_place);
        let others = self.latest.iter().map(|(_, job)| *job);
        let replaceable = || {
            let jobs = mark.into_iter().chain(others.clone());
            jobs.filter_map(|job| self.replaceable(job))
        };
        let freed = replaceable().fold(0_u64, |sum, (_, row)| sum.saturating_add(row.bytes));
        let rest = self.bytes.saturating_sub(freed);
        if rest.saturating_add(row.bytes) > self.bytes_max {
            return Err(Full);
        }
        let first = replaceable().next();
        first.map(|(job, _)| Some(Victim::Crowded(job))).ok_or(Full)
    }

    /// Whether there is room for a job, but for the limits of its sort.
    pub(super) fn has_room(&self, row: &Row) -> bool {
        let has_bytes = self.bytes.saturating_add(row.bytes) <= self.bytes_max;
        has_bytes && self.rows.len() < self.jobs_max
    }

    /// Takes a job in. There must be room for it.
    pub(super) fn insert(&mut self, job: JobId, mut row: Row) {
        row.submitted = self.next_place();
        row.place = row.submitted;
        match row.sort {
            Sort::Durable => {}
            Sort::Latest(key) => {
                self.newest.insert(key, job);
                self.latest.insert((row.submitted, job));
            }
            Sort::Mark => self.mark = Some(job),
        }
        self.charge(row.sort, row.bytes);
        self.expiries.insert((row.expires, job));
        self.rows.insert(job, row);
        self.index(job);
        self.check();
    }

    /// Takes a job out, and with it all that is known of it.
    pub(super) fn remove(&mut self, job: JobId) -> Option<Row> {
        self.unindex(job);
        let row = self.rows.remove(&job)?;
        match row.sort {
            Sort::Durable => {}
            Sort::Latest(key) => {
                if self.newest.get(&key) == Some(&job) {
                    self.newest.remove(&key);
                }
                self.latest.remove(&(row.submitted, job));
            }
            Sort::Mark => self.mark = None,
        }
        self.discharge(row.sort, row.bytes);
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
    pub(super) fn sign(&mut self, job: JobId, signature: Option<Signature>) {
        let Some(row) = self.rows.get_mut(&job) else {
            return;
        };
        let Content::Draft { signed, .. } = &mut row.content else {
            return;
        };
        *signed = signature;
        let (sort, before) = (row.sort, row.bytes);
        row.weigh();
        let after = row.bytes;
        self.discharge(sort, before);
        self.charge(sort, after);
    }

    fn charge(&mut self, sort: Sort, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        if sort == Sort::Durable {
            self.durable_bytes = self.durable_bytes.saturating_add(bytes);
        }
    }

    fn discharge(&mut self, sort: Sort, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        if sort == Sort::Durable {
            self.durable_bytes = self.durable_bytes.saturating_sub(bytes);
        }
    }

    /// Forgets the signature of a job that waits its turn.
    pub(super) fn unsign(&mut self, job: JobId) {
        self.unindex(job);
        self.sign(job, None);
        self.index(job);
    }

    /// Puts a job behind the others of its rank. The job is not ready.
    pub(super) fn move_back(&mut self, job: JobId) {
        let place = self.next_place();
        if let Some(row) = self.rows.get_mut(&job) {
            row.place = place;
        }
    }

    /// Whether a newer job of its key came while this one was out.
    pub(super) fn is_outdated(&self, job: JobId) -> bool {
        match self.rows.get(&job).map(|row| row.sort) {
            Some(Sort::Latest(key)) => self.newest.get(&key) != Some(&job),
            Some(Sort::Durable | Sort::Mark) | None => false,
        }
    }

    /// The next job of a rank to take its turn: of all, or of those that need no signature.
    pub(super) fn next(&self, pick: Pick, rank: Rank, needs_signed: bool) -> Option<JobId> {
        let routes = match pick {
            Pick::Only(Route::Post) => [Some(&self.posts), None],
            Pick::Only(Route::Socket) => [Some(&self.sends), None],
            Pick::Any => [Some(&self.posts), Some(&self.sends)],
        };
        let first_of = |keys: &BTreeSet<Key>| {
            let first = keys.range(Key::first(rank)..).next().copied();
            first.filter(|key| key.rank == rank)
        };
        let first = |ready: &Ready| {
            let unsigned = first_of(&ready.unsigned).filter(|_| !needs_signed);
            first_of(&ready.signed).into_iter().chain(unsigned).min()
        };
        let key = routes.into_iter().flatten().filter_map(first).min()?;
        Some(key.job)
    }

    /// The next job that the relay is to be asked for.
    pub(super) fn unsure(&self) -> Option<JobId> {
        self.unsure.first().map(|key| key.job)
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

    /// The oldest `Latest` job other than this one.
    pub(super) fn oldest_latest(&self, but: Option<JobId>) -> Option<JobId> {
        let mut jobs = self.latest.iter().map(|(_, job)| *job);
        jobs.find(|job| Some(*job) != but)
    }

    /// The job of a key that was submitted last.
    pub(super) fn newest(&self, key: LatestKey) -> Option<JobId> {
        self.newest.get(&key).copied()
    }

    /// Brings the end of a job's time forward.
    pub(super) fn hasten(&mut self, job: JobId, expires: MonoTime) {
        if let Some(row) = self.rows.get_mut(&job)
            && expires < row.expires
        {
            self.expiries.remove(&(row.expires, job));
            self.expiries.insert((expires, job));
            row.expires = expires;
        }
    }

    /// Jobs without a verdict.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// `Durable` jobs among them.
    pub(super) fn durable_len(&self) -> usize {
        let others = self.latest.len().saturating_add(self.mark.iter().len());
        self.rows.len().saturating_sub(others)
    }

    /// Whether `Durable` jobs fill half of it, by number or by bytes.
    pub(super) fn is_half_full(&self) -> bool {
        self.durable_len().saturating_mul(2) >= self.jobs_max
            || self.durable_bytes.saturating_mul(2) >= self.bytes_max
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
                let (key, is_signed) = (row.key(job), row.signature().is_some());
                self.ready(row.route, is_signed).insert(key);
            }
            Phase::Unsure => {
                self.unsure.insert(row.key(job));
            }
            Phase::Resting { until } => {
                self.resting.insert((until, job));
            }
            Phase::Signing { .. }
            | Phase::Posting { .. }
            | Phase::LookingUp { .. }
            | Phase::Sending { .. } => {}
        }
    }

    fn unindex(&mut self, job: JobId) {
        let Some(row) = self.rows.get(&job) else {
            return;
        };
        match row.phase {
            Phase::Ready => {
                let (key, is_signed) = (row.key(job), row.signature().is_some());
                self.ready(row.route, is_signed).remove(&key);
            }
            Phase::Unsure => {
                self.unsure.remove(&row.key(job));
            }
            Phase::Resting { until } => {
                self.resting.remove(&(until, job));
            }
            Phase::Signing { .. }
            | Phase::Posting { .. }
            | Phase::LookingUp { .. }
            | Phase::Sending { .. } => {}
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

/// Who has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    /// The one that the newcomer is newer than.
    Replaced(JobId),
    /// One for which there is no room beside the newcomer.
    Crowded(JobId),
}

/// There is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;
