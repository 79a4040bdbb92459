//! Audits, when: live subscriptions are read back from their cursors now and then, because a relay
//! drops frames without a word.
//!
//! One read is under way at a time. It takes several subscriptions where the relay has `/query`,
//! and one where it has not. A history longer than a page is read on in later reads, so that the
//! pace counts pages. What is asked is in `audit_ask`, and what an answer means in `audit_end`.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::page::Page;
use crate::bucket::Bucket;
use crate::call::Call;
use crate::ids::{EventId, Ticket};
use crate::relay::Sub;
use crate::seed::Seed;
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::Filter;

/// From being live again to the next audit, for a subscription that had missed events.
const RECHECK: Duration = Duration::from_secs(60);
/// Between a read that failed and its repetition.
const RETRY: Duration = Duration::from_secs(60);
/// Reads of all subscriptions together, evenly spaced; half of them may be rechecks.
const READS_PER_MINUTE: u32 = 6;
/// Subscriptions of one read.
const GROUP_MAX: usize = 10;

/// The audits of all subscriptions.
#[derive(Clone, Debug)]
pub(in crate::relay) struct Audits {
    seed: Seed,
    /// Between two audits of a subscription, a fifth more or less.
    period: Duration,
    pub(in crate::relay) rows: BTreeMap<Sub, Row>,
    /// What is due, the earliest first.
    pub(in crate::relay) by_due: BTreeSet<(MonoTime, Sub)>,
    pub(in crate::relay) pace: Bucket,
    pub(in crate::relay) rechecks: Bucket,
    /// So many subscriptions are asked for at once: fewer after an answer that was too large.
    pub(in crate::relay) group: usize,
    pub(in crate::relay) read: Option<Read>,
    /// Events that only an audit has brought so far, and of which subscription.
    pub(in crate::relay) found: BTreeMap<EventId, Found>,
    /// Until when the live subscription may bring them.
    pub(in crate::relay) awaited: BTreeSet<(MonoTime, EventId)>,
    /// Subscriptions that missed events although they were requested anew for that, and when.
    pub(in crate::relay) repeated: BTreeMap<Sub, MonoTime>,
}

/// The audit of one subscription.
#[derive(Clone, Debug, Default)]
pub(in crate::relay) struct Row {
    phase: Phase,
    /// Audits begun, for the spread.
    round: u64,
    /// Whether it was requested anew because it had missed events.
    pub(in crate::relay) is_renewed: bool,
    /// Whether it is read alone, because an event did not name its channel.
    pub(in crate::relay) is_alone: bool,
    /// How far the audit has come, if it has begun.
    pub(in crate::relay) progress: Option<Progress>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    /// It is not live.
    #[default]
    Idle,
    Due(Turn),
    Reading(Turn),
}

/// When an audit is due, and for what.
#[derive(Clone, Copy, Debug)]
pub(in crate::relay) struct Turn {
    at: MonoTime,
    is_recheck: bool,
}

/// How far an audit has come.
#[derive(Clone, Copy, Debug)]
pub(in crate::relay) struct Progress {
    /// The relay's time when it began.
    pub(in crate::relay) begun: UnixTime,
    pub(in crate::relay) since: UnixTime,
    /// How far it was read, from the newest second down; nothing before the first page.
    pub(in crate::relay) until: Option<UnixTime>,
    /// Of the second `until`, what comes up to this id was read.
    pub(in crate::relay) after: Option<EventId>,
    pub(in crate::relay) pages: u32,
    /// Reads in a row that failed.
    pub(in crate::relay) failures: u32,
    /// How often the page is halved, because the answer was too large.
    pub(in crate::relay) halvings: u32,
    /// Whether all that came was compared.
    pub(in crate::relay) is_whole: bool,
    /// Whether it brought an event that was not seen before.
    pub(in crate::relay) has_found: bool,
}

/// An event that only an audit has brought so far.
#[derive(Clone, Copy, Debug)]
pub(in crate::relay) struct Found {
    pub(in crate::relay) sub: Sub,
    pub(in crate::relay) phase: FoundPhase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::relay) enum FoundPhase {
    /// It has no verdict yet.
    Verifying,
    /// It is genuine and handed over; the live subscription may bring it until then.
    Awaited(MonoTime),
}

/// A read under way.
#[derive(Clone, Debug)]
pub(in crate::relay) enum Read {
    /// One page for each subscription, in one call.
    Http(Call, Vec<(Sub, Page)>),
    Socket(Sub, Box<Page>),
}

/// What is asked for of one subscription.
pub(in crate::relay) type Asked = (Sub, Progress, Filter);

impl Audits {
    pub(in crate::relay) fn new(period: Duration, seed: Seed) -> Self {
        let minute = Duration::from_secs(60);
        Self {
            seed,
            period,
            rows: BTreeMap::new(),
            by_due: BTreeSet::new(),
            pace: Bucket::new(READS_PER_MINUTE, minute, 1),
            rechecks: Bucket::new(READS_PER_MINUTE / 2, minute, 1),
            group: GROUP_MAX,
            read: None,
            found: BTreeMap::new(),
            awaited: BTreeSet::new(),
            repeated: BTreeMap::new(),
        }
    }

    /// The socket is over. A call under way is still answered, to nobody.
    pub(in crate::relay) fn reset(&mut self) {
        self.by_due.clear();
        self.found.clear();
        self.awaited.clear();
        self.repeated.clear();
        for row in self.rows.values_mut() {
            *row = Row {
                round: row.round,
                ..Row::default()
            };
        }
        match &mut self.read {
            Some(Read::Http(_, pages)) => pages.clear(),
            Some(Read::Socket(..)) | None => self.read = None,
        }
    }

    /// A subscription is let go.
    pub(in crate::relay) fn forget(&mut self, sub: Sub) {
        self.rest(sub);
        self.rows.remove(&sub);
        self.repeated.remove(&sub);
    }

    /// A subscription is live from now on, over a new request.
    pub(in crate::relay) fn is_live(&mut self, sub: Sub, now: MonoTime) {
        self.rest(sub);
        let row = self.rows.entry(sub).or_default();
        if row.is_renewed {
            let at = now.after(RECHECK);
            self.is_due(
                sub,
                Turn {
                    at,
                    is_recheck: true,
                },
            );
        } else {
            self.next_round(sub, now);
        }
    }

    /// A subscription is not live any more: nothing is awaited of it.
    pub(in crate::relay) fn rest(&mut self, sub: Sub) {
        if let Some(row) = self.rows.get_mut(&sub) {
            if let Phase::Due(turn) = row.phase {
                self.by_due.remove(&(turn.at, sub));
            }
            row.phase = Phase::Idle;
            row.progress = None;
        }
        let awaited = &mut self.awaited;
        self.found.retain(|id, found| {
            if let FoundPhase::Awaited(until) = found.phase
                && found.sub == sub
            {
                awaited.remove(&(until, *id));
            }
            found.sub != sub
        });
    }

    /// The audit of a subscription is over; the next one follows in its time.
    pub(in crate::relay) fn next_round(&mut self, sub: Sub, now: MonoTime) {
        let Some(row) = self.rows.get_mut(&sub) else {
            return;
        };
        row.round = row.round.saturating_add(1);
        row.is_alone = false;
        row.progress = None;
        let fifth = self.period.checked_div(5).unwrap_or_default();
        let (low, high) = (
            self.period.saturating_sub(fifth),
            self.period.saturating_add(fifth),
        );
        let key = key(self.seed, sub);
        let wait = self.seed.between(key, row.round, low, high);
        let turn = Turn {
            at: now.after(wait),
            is_recheck: false,
        };
        self.is_due(sub, turn);
    }

    /// A read of a subscription has ended, and its audit goes on with the next one.
    pub(in crate::relay) fn goes_on(&mut self, sub: Sub, turn: Turn, progress: Option<Progress>) {
        if let Some(row) = self.rows.get_mut(&sub) {
            row.progress = progress;
            self.is_due(sub, turn);
        }
    }

    /// A read of a subscription failed: it is repeated later.
    pub(in crate::relay) fn retry(
        &mut self,
        sub: Sub,
        turn: Turn,
        progress: Progress,
        now: MonoTime,
    ) {
        let at = now.after(RETRY);
        self.goes_on(sub, Turn { at, ..turn }, Some(progress));
    }

    fn is_due(&mut self, sub: Sub, turn: Turn) {
        if let Some(row) = self.rows.get_mut(&sub) {
            if let Phase::Due(former) = row.phase {
                self.by_due.remove(&(former.at, sub));
            }
            row.phase = Phase::Due(turn);
            self.by_due.insert((turn.at, sub));
        }
    }

    /// What is being read of a subscription, if the read under way still concerns it.
    pub(in crate::relay) fn reading(&self, sub: Sub) -> Option<(Turn, Progress)> {
        let row = self.rows.get(&sub)?;
        let Phase::Reading(turn) = row.phase else {
            return None;
        };
        Some((turn, row.progress?))
    }

    /// Whether what is due is a recheck.
    pub(in crate::relay) fn is_recheck(&self, sub: Sub) -> bool {
        self.turn(sub).is_some_and(|turn| turn.is_recheck)
    }

    fn turn(&self, sub: Sub) -> Option<Turn> {
        match self.rows.get(&sub)?.phase {
            Phase::Due(turn) => Some(turn),
            Phase::Idle | Phase::Reading(_) => None,
        }
    }

    /// Whether this call is an audit's.
    pub(in crate::relay) fn awaits(&self, ticket: Ticket) -> bool {
        matches!(&self.read, Some(Read::Http(call, _)) if call.ticket == ticket)
    }

    /// The page on the socket.
    pub(in crate::relay) fn page_mut(&mut self) -> Option<&mut Page> {
        match &mut self.read {
            Some(Read::Socket(_, page)) => Some(page),
            Some(Read::Http(..)) | None => None,
        }
    }

    /// Takes the call under way, with the page of each subscription.
    pub(in crate::relay) fn take_call(&mut self) -> Option<(Call, Vec<(Sub, Page)>)> {
        match self.read.take()? {
            Read::Http(call, pages) => Some((call, pages)),
            read @ Read::Socket(..) => {
                self.read = Some(read);
                None
            }
        }
    }

    /// Takes the page on the socket.
    pub(in crate::relay) fn take_page(&mut self) -> Option<(Sub, Page)> {
        match self.read.take()? {
            Read::Socket(sub, page) => Some((sub, *page)),
            read @ Read::Http(..) => {
                self.read = Some(read);
                None
            }
        }
    }

    /// An answer had a good size, or was too large for so many subscriptions.
    pub(in crate::relay) fn resize(&mut self, too_large_for: Option<usize>) {
        let group = match too_large_for {
            Some(count) => count / 2,
            None => self.group.saturating_add(1),
        };
        self.group = group.clamp(1, GROUP_MAX);
    }

    /// A read is ordered.
    pub(in crate::relay) fn begin(&mut self, asked: &[Asked], read: Read, now: &mut Now) {
        self.pace.take(now, Why::Audit);
        let mut is_recheck = false;
        for (sub, progress, _) in asked {
            let Some(turn) = self.turn(*sub) else {
                continue;
            };
            is_recheck |= turn.is_recheck;
            self.by_due.remove(&(turn.at, *sub));
            if let Some(row) = self.rows.get_mut(sub) {
                row.phase = Phase::Reading(turn);
                row.progress = Some(*progress);
            }
        }
        if is_recheck {
            self.rechecks.take(now, Why::Audit);
        }
        self.read = Some(read);
    }
}

impl Progress {
    /// An audit that begins.
    pub(in crate::relay) const fn new(begun: UnixTime, since: UnixTime) -> Self {
        Self {
            begun,
            since,
            until: None,
            after: None,
            pages: 0,
            failures: 0,
            halvings: 0,
            is_whole: true,
            has_found: false,
        }
    }
}

/// What tells subscriptions apart in the spread of their audits.
fn key(seed: Seed, sub: Sub) -> u64 {
    match sub {
        Sub::Membership => 0,
        Sub::Channel(channel) => {
            let bytes = channel.0.iter();
            bytes.fold(1, |key, byte| seed.draw(key, u64::from(*byte)))
        }
    }
}
