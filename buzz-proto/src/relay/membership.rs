//! The channels that the agent belongs to, as notices and whole reads of the roster tell.
//!
//! An addition counts at once, but a channel is joined when it is known what it is. A removal
//! counts when a notice says so, or when two complete reads in a row agree.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
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

    /// A genuine notice about this agent.
    pub(super) fn noticed(&mut self, event: &Event) -> Option<Change> {
        let channel = event.channel()?;
        let dated = event.created_at();
        if event.kind() == MEMBER_ADDED {
            let is_full = self.is_full();
            let Some(row) = self.rows.get_mut(&channel) else {
                if is_full && !self.announced.contains_key(&channel) {
                    return Some(Change::Refused { channel });
                }
                self.announced
                    .insert(channel, Announced { dated, misses: 0 });
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
            return None;
        }
        self.rows.remove(&channel);
        Some(Change::Left { channel })
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

    /// A whole read against what was known.
    pub(super) fn compare(
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
            .filter(|(_, row)| over(row))
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
