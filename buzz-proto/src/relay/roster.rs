//! Which channels the agent belongs to.
//!
//! Notices are the fast path, the roster is the truth, and both converge: the roster is read when
//! the connection is live and again at intervals. An addition counts at once; a removal counts
//! when a notice says so, or when two complete reads in a row agree. A read that failed is no
//! information.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::sub_row::{MEMBER_ADDED, MEMBER_REMOVED};
use super::{Action, ChannelKind, HttpAnswer, Limits};
use crate::backoff::Ladder;
use crate::gate::Generation;
use crate::ids::{ChannelId, PubKey, Ticket};
use crate::quotas::Quotas;
use crate::retry_hint;
use crate::seed::Seed;
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::{self, Event, Filter};

/// Channel metadata and channel members (NIP-29).
const METADATA: u32 = 39_000;
const MEMBERS: u32 = 39_002;
/// The relay sends at most so many events to one query: a full answer may be cut.
const ANSWER_MAX: usize = 1000;
/// Complete reads in a row without a channel before it counts as left.
const MISSES: u32 = 2;
/// A message may have been posted before the notice of the addition, by clocks that differ by
/// what the relay allows.
const NOTICE_LOOK_BACK: Duration = Duration::from_secs(900);
/// After a read that failed: a relay that cannot answer, or has no such route, is not asked more
/// often than one that can.
const RETRY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(90));
/// A read that names no channel at all, where there were some, is believed from this one on: a
/// relay whose database has just come back answers so.
const EMPTY: u32 = 3;

#[derive(Clone, Debug)]
pub(super) struct Roster {
    me: PubKey,
    seed: Seed,
    reads: u64,
    phase: Phase,
    rows: BTreeMap<ChannelId, Row>,
    /// Channels that a notice named and no read has described yet.
    announced: BTreeMap<ChannelId, Announced>,
    /// The last complete read, in relay time.
    complete: Option<UnixTime>,
    /// Between reads that fail in a row.
    retry: Ladder,
    /// Reads in a row that named no channel at all.
    empty: u32,
}

/// An addition whose channel is not described yet: what it is decides who may speak there, so it
/// is joined when a read has told, or cannot tell.
#[derive(Clone, Copy, Debug)]
struct Announced {
    dated: UnixTime,
    /// Complete reads without it: the first may have begun before the addition.
    misses: u32,
}

#[derive(Clone, Debug)]
enum Phase {
    /// The next read is due then; at once when that is nothing.
    Idle {
        next: Option<MonoTime>,
    },
    Members {
        call: Call,
    },
    /// What the channels are is asked next.
    Describe {
        members: Vec<ChannelId>,
    },
    Metadata {
        call: Call,
        members: Vec<ChannelId>,
    },
}

#[derive(Clone, Copy, Debug)]
struct Call {
    ticket: Ticket,
    since: MonoTime,
    sent: Generation,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    kind: ChannelKind,
    misses: u32,
    /// When the last notice of an addition was dated.
    added: Option<UnixTime>,
}

/// What a notice or a read changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Joined {
        channel: ChannelId,
        kind: ChannelKind,
        floor: Option<UnixTime>,
    },
    /// Known before, and still named.
    Seen {
        channel: ChannelId,
    },
    /// Known before, as something else.
    Described {
        channel: ChannelId,
        kind: ChannelKind,
    },
    Left {
        channel: ChannelId,
    },
}

impl Roster {
    pub(super) fn new(me: PubKey, seed: Seed) -> Self {
        Self {
            me,
            seed,
            reads: 0,
            phase: Phase::Idle { next: None },
            rows: BTreeMap::new(),
            announced: BTreeMap::new(),
            complete: None,
            retry: Ladder::new(RETRY.0, RETRY.1),
            empty: 0,
        }
    }

    /// The next read is due at once.
    pub(super) const fn hasten(&mut self) {
        if let Phase::Idle { next } = &mut self.phase {
            *next = None;
        }
    }

    /// A genuine notice about this agent.
    pub(super) fn noticed(&mut self, event: &Event) -> Option<Change> {
        let channel = event.channel()?;
        let dated = event.created_at();
        if event.kind() == MEMBER_ADDED {
            let Some(row) = self.rows.get_mut(&channel) else {
                self.announced
                    .insert(channel, Announced { dated, misses: 0 });
                self.hasten();
                return None;
            };
            row.added = row.added.max(Some(dated));
            row.misses = 0;
            let floor = Some(dated.before(NOTICE_LOOK_BACK));
            let kind = row.kind;
            return Some(Change::Joined {
                channel,
                kind,
                floor,
            });
        }
        self.announced
            .retain(|announced, row| *announced != channel || row.dated > dated);
        let newer = self
            .rows
            .get(&channel)?
            .added
            .is_none_or(|added| dated > added);
        if event.kind() != MEMBER_REMOVED || !newer {
            self.hasten();
            return None;
        }
        self.rows.remove(&channel);
        Some(Change::Left { channel })
    }

    /// Asks what is due. True when it did.
    pub(super) fn read(
        &mut self,
        quotas: &mut Quotas,
        tickets: &mut Ticket,
        now: &mut Now,
        out: &mut Vec<Action>,
    ) -> bool {
        let filter = match &self.phase {
            Phase::Idle { next } => {
                if !next.is_none_or(|next| now.reached(next, Why::Roster)) {
                    return false;
                }
                Filter {
                    mention: Some(self.me),
                    ..of_kind(MEMBERS)
                }
            }
            Phase::Describe { members } => Filter {
                d: members.clone(),
                ..of_kind(METADATA)
            },
            Phase::Members { .. } | Phase::Metadata { .. } => return false,
        };
        let Some(sent) = quotas.http.start(now) else {
            return false;
        };
        let call = Call {
            ticket: tickets.take(),
            since: now.time(),
            sent,
        };
        out.push(Action::Query {
            ticket: call.ticket,
            body: wire::query(&[filter]),
        });
        self.phase = match core::mem::replace(&mut self.phase, Phase::Idle { next: None }) {
            Phase::Describe { members } => Phase::Metadata { call, members },
            Phase::Idle { .. } | Phase::Members { .. } | Phase::Metadata { .. } => {
                Phase::Members { call }
            }
        };
        true
    }

    pub(super) fn awaits(&self, ticket: Ticket) -> bool {
        self.call().is_some_and(|call| call.ticket == ticket)
    }

    /// The call that took too long, given up.
    pub(super) fn overdue(
        &mut self,
        limits: &Limits,
        quotas: &mut Quotas,
        now: &mut Now,
    ) -> Option<Ticket> {
        let call = self.call()?;
        if !now.reached(call.since.after(limits.answer), Why::Answer) {
            return None;
        }
        self.broke(quotas, now.time());
        Some(call.ticket)
    }

    /// A read failed: what was announced is joined without being described, on the safe side.
    pub(super) fn give_up_describing(&mut self) -> Vec<Change> {
        let kind = ChannelKind::Direct;
        let mut changes = Vec::new();
        for (channel, row) in core::mem::take(&mut self.announced) {
            changes.push(self.join(channel, kind, row));
        }
        changes
    }

    fn join(&mut self, channel: ChannelId, kind: ChannelKind, row: Announced) -> Change {
        let added = Some(row.dated);
        self.rows.insert(
            channel,
            Row {
                kind,
                misses: 0,
                added,
            },
        );
        let floor = Some(row.dated.before(NOTICE_LOOK_BACK));
        Change::Joined {
            channel,
            kind,
            floor,
        }
    }

    /// The call has no answer.
    pub(super) fn broke(&mut self, quotas: &mut Quotas, now: MonoTime) {
        if let Some(call) = self.call() {
            quotas.http.fail(None, call.sent, now);
        }
        self.failed(now);
    }

    fn failed(&mut self, now: MonoTime) {
        self.phase = Phase::Idle {
            next: Some(now.after(self.retry.climb())),
        };
    }

    /// The call was answered. Gives the events of a good answer.
    pub(super) fn answered(
        &mut self,
        answer: &HttpAnswer,
        wall: Option<UnixTime>,
        limits: &Limits,
        quotas: &mut Quotas,
        now: MonoTime,
    ) -> Option<Vec<Event>> {
        let call = self.call()?;
        if is_overloaded(answer.status) {
            let header = answer.retry_after.as_ref().and_then(|value| {
                retry_hint::from_header(value, answer.date, wall.unwrap_or_default())
            });
            let hint = wire::body_reason(&answer.body).wait();
            let hint = header.map(|header| header.wait).max(hint);
            quotas.http.fail(hint, call.sent, now);
        } else {
            quotas.http.succeed(call.sent);
        }
        let events = (answer.status == 200)
            .then(|| read_events(&answer.body, limits))
            .flatten();
        if events.is_none() {
            self.failed(now);
        }
        events
    }

    /// Takes the events of a good answer further. The changes, once the read is complete.
    pub(super) fn advance(
        &mut self,
        events: &[Event],
        relay_time: Option<UnixTime>,
        limits: &Limits,
        now: MonoTime,
    ) -> Vec<Change> {
        let idle = Phase::Idle {
            next: Some(now.after(self.pause(limits))),
        };
        let members = match core::mem::replace(&mut self.phase, idle) {
            Phase::Members { .. } => {
                let me = self.me;
                let members: Vec<_> = events
                    .iter()
                    .filter_map(|event| membership(event, me))
                    .collect();
                if !members.is_empty() {
                    self.phase = Phase::Describe { members };
                    return Vec::new();
                }
                members
            }
            Phase::Metadata { members, .. } => members,
            Phase::Idle { .. } | Phase::Describe { .. } => return Vec::new(),
        };
        self.reads = self.reads.wrapping_add(1);
        self.retry.reset();
        self.empty = if members.is_empty() {
            self.empty.saturating_add(1)
        } else {
            0
        };
        if (1..EMPTY).contains(&self.empty) && !self.rows.is_empty() {
            return Vec::new();
        }
        self.compare(&members, events, relay_time)
    }

    /// A whole read against what was known.
    fn compare(
        &mut self,
        members: &[ChannelId],
        events: &[Event],
        relay_time: Option<UnixTime>,
    ) -> Vec<Change> {
        let described: BTreeMap<_, _> = events.iter().filter_map(metadata).collect();
        let mut changes = Vec::new();
        for channel in members {
            match described.get(channel) {
                Some(Metadata::Open(kind)) => changes.push(self.present(*channel, *kind)),
                Some(Metadata::Archived) => {}
                None => changes.push(self.present(*channel, ChannelKind::Direct)),
            }
        }
        changes.extend(self.miss_announced());
        let present = |channel: &ChannelId| {
            members.contains(channel) && !matches!(described.get(channel), Some(Metadata::Archived))
        };
        self.rows.retain(|channel, row| {
            if present(channel) {
                return true;
            }
            row.misses = row.misses.saturating_add(1);
            if row.misses >= MISSES {
                changes.push(Change::Left { channel: *channel });
            }
            row.misses < MISSES
        });
        self.complete = relay_time.or(self.complete);
        changes
    }

    /// A read names a channel.
    fn present(&mut self, channel: ChannelId, kind: ChannelKind) -> Change {
        if let Some(announced) = self.announced.remove(&channel) {
            return self.join(channel, kind, announced);
        }
        let floor = self.complete.map(|read| read.before(NOTICE_LOOK_BACK));
        match self.rows.get_mut(&channel) {
            Some(row) => {
                let same = row.kind == kind;
                *row = Row {
                    kind,
                    misses: 0,
                    ..*row
                };
                if same {
                    Change::Seen { channel }
                } else {
                    Change::Described { channel, kind }
                }
            }
            None => {
                self.rows.insert(
                    channel,
                    Row {
                        kind,
                        misses: 0,
                        added: None,
                    },
                );
                Change::Joined {
                    channel,
                    kind,
                    floor,
                }
            }
        }
    }

    /// A whole read did not name what was announced: another one follows at once, and then the
    /// notice is believed.
    fn miss_announced(&mut self) -> Vec<Change> {
        for row in self.announced.values_mut() {
            row.misses = row.misses.saturating_add(1);
        }
        let over = |row: &Announced| row.misses >= MISSES;
        let believed: Vec<_> = self
            .announced
            .iter()
            .filter(|(_, row)| over(row))
            .map(|(channel, row)| (*channel, *row))
            .collect();
        self.announced.retain(|_, row| !over(row));
        if !self.announced.is_empty() {
            self.hasten();
        }
        let kind = ChannelKind::Direct;
        believed
            .into_iter()
            .map(|(channel, row)| self.join(channel, kind, row))
            .collect()
    }

    /// Between two reads: the interval, a fifth more or less.
    fn pause(&self, limits: &Limits) -> Duration {
        let fifth = limits.sweep.checked_div(5).unwrap_or_default();
        let (low, high) = (
            limits.sweep.saturating_sub(fifth),
            limits.sweep.saturating_add(fifth),
        );
        self.seed.between(self.reads, 0, low, high)
    }

    const fn call(&self) -> Option<Call> {
        match &self.phase {
            Phase::Members { call } | Phase::Metadata { call, .. } => Some(*call),
            Phase::Idle { .. } | Phase::Describe { .. } => None,
        }
    }
}

/// What a channel's metadata says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metadata {
    Open(ChannelKind),
    Archived,
}

fn of_kind(kind: u32) -> Filter {
    Filter {
        kinds: [kind].into_iter().collect(),
        ..Filter::default()
    }
}

/// Statuses that ask for less traffic, or tell of a relay in trouble.
const fn is_overloaded(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502..=504)
}

/// The events of an answer that is complete.
fn read_events(body: &Bytes, limits: &Limits) -> Option<Vec<Event>> {
    let bytes_max = usize::try_from(limits.frame_bytes_max).unwrap_or(usize::MAX);
    let answer = wire::decode_events(body, bytes_max).ok()?;
    (answer.malformed == 0 && answer.events.len() < ANSWER_MAX).then_some(answer.events)
}

/// The channel of a member list that names `me`.
fn membership(event: &Event, me: PubKey) -> Option<ChannelId> {
    if event.kind() != MEMBERS || !event.mentions(&me) {
        return None;
    }
    described_channel(event)
}

fn metadata(event: &Event) -> Option<(ChannelId, Metadata)> {
    if event.kind() != METADATA {
        return None;
    }
    let channel = described_channel(event)?;
    let has = |name: &str, value: Option<&str>| {
        event.tags().any(|tag| {
            tag.name() == name && value.is_none_or(|value| tag.value(1).as_deref() == Some(value))
        })
    };
    let state = if has("archived", Some("true")) {
        Metadata::Archived
    } else if has("hidden", None) || has("t", Some("dm")) {
        Metadata::Open(ChannelKind::Direct)
    } else {
        Metadata::Open(ChannelKind::Stream)
    };
    Some((channel, state))
}

fn described_channel(event: &Event) -> Option<ChannelId> {
    event
        .tags()
        .find(|tag| tag.name() == "d")?
        .value(1)?
        .parse()
        .ok()
}
