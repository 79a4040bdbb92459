//! The channels that the agent belongs to, as notices and whole reads of the roster tell.
//!
//! An addition counts at once, but a channel is joined when it is known what it is. A removal
//! counts when a notice says so, or when two complete reads in a row agree. Notices come in any
//! order: their dates say which one is the last, and of two with one date the roster decides.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::time::Duration;

use super::ChannelKind;
use super::sub_row::{MEMBER_ADDED, MEMBER_REMOVED};
use crate::ids::{ChannelId, PubKey};
use crate::time::UnixTime;
use crate::wire::Event;

/// Channel metadata and channel members (NIP-29).
pub(super) const METADATA: u32 = 39_000;
pub(super) const MEMBERS: u32 = 39_002;
/// Complete reads in a row without a channel before it counts as left.
const MISSES: u32 = 2;
/// A message may have been posted before the notice of the addition, by clocks that differ by
/// what the relay allows.
const NOTICE_LOOK_BACK: Duration = Duration::from_secs(900);

#[derive(Clone, Debug)]
pub(super) struct Membership {
    /// Channels that can be kept, announced or described.
    max: usize,
    rows: BTreeMap<ChannelId, Row>,
    /// Channels that a notice named and no read has described yet.
    announced: BTreeMap<ChannelId, Announced>,
    /// The newest removals of which notices told.
    removed: BTreeMap<ChannelId, Removed>,
    /// The last complete read, in relay time.
    complete: Option<UnixTime>,
}

/// An addition whose channel is not described yet: what it is decides who may speak there, so it
/// is joined when a read has told, or cannot tell.
#[derive(Clone, Copy, Debug)]
struct Announced {
    dated: UnixTime,
    /// Complete reads without it: the first may have begun before the addition.
    misses: u32,
    /// Whether a removal bears the same date.
    is_doubted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Removed {
    dated: UnixTime,
    /// Whether a read was under way when the notice came: what it names may be of before.
    is_overtaking: bool,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    kind: ChannelKind,
    misses: u32,
    /// When the last notice of an addition was dated.
    added: Option<UnixTime>,
}

/// What a notice says to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noticed {
    Change(Change),
    /// The roster has to tell more.
    Open,
    /// Nothing that was not known.
    Old,
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
        kind: ChannelKind,
    },
    /// Known before, as something else.
    Described {
        channel: ChannelId,
        kind: ChannelKind,
    },
    Left {
        channel: ChannelId,
    },
    /// One too many.
    Refused {
        channel: ChannelId,
    },
}

impl Membership {
    pub(super) const fn new(max: usize) -> Self {
        Self {
            max,
            rows: BTreeMap::new(),
            announced: BTreeMap::new(),
            removed: BTreeMap::new(),
            complete: None,
        }
    }

    fn is_full(&self) -> bool {
        self.rows.len().saturating_add(self.announced.len()) >= self.max
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether a notice named a channel that is not described yet.
    pub(super) fn awaits_description(&self) -> bool {
        !self.announced.is_empty()
    }

    /// A genuine notice about this agent, that came while a read was under way or not.
    pub(super) fn noticed(&mut self, event: &Event, is_reading: bool) -> Noticed {
        let (channel, dated) = (event.channel(), event.created_at());
        match (event.kind(), channel) {
            (MEMBER_ADDED, Some(channel)) => self.added(channel, dated),
            (MEMBER_REMOVED, Some(channel)) => self.removed(channel, dated, is_reading),
            _ => Noticed::Old,
        }
    }

    fn added(&mut self, channel: ChannelId, dated: UnixTime) -> Noticed {
        if let Some(removed) = self.removed.get(&channel) {
            match removed.dated.cmp(&dated) {
                Ordering::Greater => return Noticed::Old,
                Ordering::Equal => return Noticed::Open,
                Ordering::Less => self.removed.remove(&channel),
            };
        }
        let is_full = self.is_full();
        if let Some(row) = self.rows.get_mut(&channel) {
            row.added = row.added.max(Some(dated));
            row.misses = 0;
            let floor = Some(dated.before(NOTICE_LOOK_BACK));
            let kind = row.kind;
            return Noticed::Change(Change::Joined {
                channel,
                kind,
                floor,
            });
        }
        if is_full && !self.announced.contains_key(&channel) {
            return Noticed::Change(Change::Refused { channel });
        }
        let row = Announced {
            dated,
            misses: 0,
            is_doubted: false,
        };
        self.announced.insert(channel, row);
        Noticed::Open
    }

    fn removed(&mut self, channel: ChannelId, dated: UnixTime, is_reading: bool) -> Noticed {
        let announced = self.announced.get_mut(&channel);
        let row = self.rows.get(&channel);
        let added = row.and_then(|row| row.added);
        let added = added.max(announced.as_ref().map(|row| row.dated));
        match added.cmp(&Some(dated)) {
            Ordering::Greater => return Noticed::Old,
            Ordering::Equal => {
                if let Some(announced) = announced {
                    announced.is_doubted = true;
                }
                return Noticed::Open;
            }
            Ordering::Less => {}
        }
        self.announced.remove(&channel);
        self.remember_removal(channel, dated, is_reading);
        match self.rows.remove(&channel) {
            Some(_) => Noticed::Change(Change::Left { channel }),
            None => Noticed::Old,
        }
    }

    /// The oldest makes room.
    fn remember_removal(&mut self, channel: ChannelId, dated: UnixTime, is_reading: bool) {
        if self.removed.len() >= self.max && !self.removed.contains_key(&channel) {
            let oldest = self.removed.iter().min_by_key(|(_, removed)| removed.dated);
            let oldest = oldest.map(|(channel, _)| *channel);
            oldest.map(|channel| self.removed.remove(&channel));
        }
        let removed = Removed {
            dated,
            is_overtaking: is_reading,
        };
        let known = self.removed.entry(channel).or_insert(removed);
        known.dated = known.dated.max(dated);
        known.is_overtaking |= is_reading;
    }

    /// The read under way is over: what begins now began after all notices so far.
    pub(super) fn read_over(&mut self) {
        for removed in self.removed.values_mut() {
            removed.is_overtaking = false;
        }
    }

    /// A read failed: what was announced is joined without being described, on the safe side.
    pub(super) fn give_up_describing(&mut self) -> Vec<Change> {
        let kind = ChannelKind::Direct;
        let announced = core::mem::take(&mut self.announced).into_iter();
        // Of an addition and a removal with one date, only a read tells which was the last.
        let (doubted, believed) = announced.partition(|(_, row)| row.is_doubted);
        self.announced = doubted;
        let believed: BTreeMap<_, _> = believed;
        let joins = believed.into_iter();
        joins
            .map(|(channel, row)| self.join(channel, kind, row))
            .collect()
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

    /// A whole read against what was known.
    pub(super) fn compare(
        &mut self,
        members: &[ChannelId],
        events: &[Event],
        relay_time: Option<UnixTime>,
    ) -> Vec<Change> {
        let described = describe(events);
        let mut changes = Vec::new();
        let is_overtaken = |channel: &ChannelId| {
            let removed = self.removed.get(channel);
            removed.is_some_and(|removed| removed.is_overtaking)
        };
        let members: Vec<_> = members
            .iter()
            .copied()
            .filter(|it| !is_overtaken(it))
            .collect();
        for channel in &members {
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
        self.read_over();
        changes
    }

    /// A read names a channel.
    fn present(&mut self, channel: ChannelId, kind: ChannelKind) -> Change {
        if let Some(announced) = self.announced.remove(&channel) {
            return self.join(channel, kind, announced);
        }
        let floor = self.complete.map(|read| read.before(NOTICE_LOOK_BACK));
        let is_full = self.is_full();
        match self.rows.get_mut(&channel) {
            Some(row) => {
                let same = row.kind == kind;
                *row = Row {
                    kind,
                    misses: 0,
                    ..*row
                };
                if same {
                    Change::Seen { channel, kind }
                } else {
                    Change::Described { channel, kind }
                }
            }
            None if is_full => Change::Refused { channel },
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
            .filter(|(_, row)| over(row) && !row.is_doubted)
            .map(|(channel, row)| (*channel, *row))
            .collect();
        self.announced.retain(|_, row| !over(row));
        let kind = ChannelKind::Direct;
        believed
            .into_iter()
            .map(|(channel, row)| self.join(channel, kind, row))
            .collect()
    }
}

/// What a channel's metadata says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metadata {
    Open(ChannelKind),
    Archived,
}

/// The channel of a member list that names `me`.
pub(super) fn membership(event: &Event, me: PubKey) -> Option<ChannelId> {
    if event.kind() != MEMBERS || !event.mentions(&me) {
        return None;
    }
    described_channel(event)
}

/// What each channel is, by the newest that is said of it.
fn describe(events: &[Event]) -> BTreeMap<ChannelId, Metadata> {
    let mut newest = BTreeMap::new();
    for event in events {
        let Some((channel, metadata)) = metadata(event) else {
            continue;
        };
        let dated = event.created_at();
        let said = newest.entry(channel).or_insert((dated, metadata));
        if dated > said.0 {
            *said = (dated, metadata);
        }
    }
    newest
        .into_iter()
        .map(|(channel, (_, metadata))| (channel, metadata))
        .collect()
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
