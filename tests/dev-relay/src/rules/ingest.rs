//! Accepting events: validity, access, storage.

use std::sync::Arc;
use std::time::Duration;

use super::auth::BANNED;
use super::channels::ChannelKind;
use super::event::{Event, Filed, Storage};
use super::frame::Submission;
use super::kinds::{is_known, is_relay_only, is_threaded, needs_channel};
use super::store::Inserted;
use super::{Effects, Rules};
use crate::keys::is_hex64;

const CONTENT_BYTES_MAX: usize = 262_144;
const DIFF_BYTES_MAX: usize = 61_440;
const D_TAG_BYTES_MAX: usize = 1024;
const REACTION_CHARS_MAX: usize = 64;
const PRESENCE_CHARS_MAX: usize = 128;
const THREAD_DEPTH_MAX: usize = 100;
const CLOCK_TOLERANCE: u64 = 900;
const OBSERVER_TOLERANCE: u64 = 300;
const ADMIN_TOLERANCE: u64 = 120;
const OBSERVER_CHARS: core::ops::RangeInclusive<usize> = 132..=87_472;
const TOO_FAR: &str = "invalid: event timestamp too far from server time";
const UNKNOWN_KIND: &str = "restricted: unknown event kind";
const NOT_A_MEMBER: &str = "restricted: not a channel member";
pub(super) const KEY_MISMATCH: &str = "invalid: event pubkey does not match authenticated identity";

/// How an event came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Socket,
    Http,
}

/// The relay's judgement of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Done; the text is that of the OK.
    Accepted(String),
    /// Not done.
    Refused(String),
}

impl Verdict {
    pub(super) fn as_answer(&self) -> (bool, &str) {
        match self {
            Self::Accepted(text) => (true, text),
            Self::Refused(text) => (false, text),
        }
    }
}

impl Rules {
    pub(super) fn ingest(
        &mut self,
        key: Option<&str>,
        submission: &Submission,
        way: Way,
        now: Duration,
    ) -> (Verdict, Effects) {
        let mut effects = Effects::default();
        let verdict = match self.check(key, submission, way, now) {
            Err(text) => Verdict::Refused(text),
            Ok(channel) => match self.carry_out(&submission.event, channel, now, &mut effects) {
                Err(text) => Verdict::Refused(text),
                Ok(text) => Verdict::Accepted(text),
            },
        };
        self.ledger.note(key, |stats| match &verdict {
            Verdict::Accepted(text) if text.starts_with("duplicate:") => stats.duplicates += 1,
            Verdict::Accepted(_) => stats.accepted += 1,
            Verdict::Refused(_) => stats.refused += 1,
        });
        (verdict, effects)
    }

    /// The channel an event belongs to, or why it is refused.
    fn check(
        &self,
        key: Option<&str>,
        submission: &Submission,
        way: Way,
        now: Duration,
    ) -> Result<Option<String>, String> {
        let event = &submission.event;
        if let Some(text) = &submission.forgery {
            return Err(text.clone());
        }
        self.check_kind(event, way)?;
        if !self.is_plain() && event.kind != 1059 && key != Some(event.pubkey.as_str()) {
            return Err(KEY_MISMATCH.to_owned());
        }
        let now = self.unix_seconds(now);
        check_form(event, now)?;
        if self.banned.contains(&event.pubkey) {
            return Err(BANNED.to_owned());
        }
        if let Some(until) = self
            .timed_out
            .get(&event.pubkey)
            .filter(|until| now < **until)
        {
            return Err(format!("restricted: you are timed out until {until}"));
        }
        let channel = self.channel_of(event)?;
        if let Some(channel) = &channel {
            self.check_channel(event, channel)?;
        }
        if event.kind == 24_200 {
            self.check_observer(event)?;
        }
        Ok(channel)
    }

    fn check_kind(&self, event: &Event, way: Way) -> Result<(), String> {
        if event.kind == 22_242 {
            return Err("invalid: AUTH events cannot be submitted via EVENT".to_owned());
        }
        if self.is_plain() {
            return Ok(());
        }
        if matches!(event.kind, 44_100 | 44_101) {
            return Err("invalid: membership notifications are relay-signed only".to_owned());
        }
        if is_relay_only(event.kind) {
            return Err("restricted: relay-only kind".to_owned());
        }
        if way == Way::Http && matches!(event.kind, 20_001 | 1059) {
            let kind = event.kind;
            return Err(format!(
                "invalid: kind {kind} is only accepted via WebSocket"
            ));
        }
        let is_by_http_alone = event.kind == 28_936;
        let is_ephemeral = event.storage() == Storage::Ephemeral && !is_by_http_alone;
        if !is_known(event.kind) || (way == Way::Http && is_ephemeral) {
            return Err(UNKNOWN_KIND.to_owned());
        }
        Ok(())
    }

    fn channel_of(&self, event: &Event) -> Result<Option<String>, String> {
        let named = event.tag("h");
        if self.is_plain() {
            return Ok(named.map(str::to_owned));
        }
        if event.kind == 7 {
            let target = event
                .tag_values("e")
                .last()
                .and_then(|id| self.store.event(id));
            let Some(target) = target else {
                return Err("invalid: reaction target not found".to_owned());
            };
            return Ok(target.channel.clone());
        }
        if needs_channel(event.kind) {
            return match named {
                Some(channel) => Ok(Some(channel.to_owned())),
                None => Err("invalid: channel-scoped events must include an h tag".to_owned()),
            };
        }
        let is_filed = matches!(event.kind, 5 | 9007);
        Ok(named.filter(|_| is_filed).map(str::to_owned))
    }

    fn check_channel(&self, event: &Event, channel: &str) -> Result<(), String> {
        if self.is_plain() || event.kind == 9007 {
            return Ok(());
        }
        let Some(channel) = self
            .channels
            .get(channel)
            .filter(|channel| !channel.deleted)
        else {
            return Err(NOT_A_MEMBER.to_owned());
        };
        if !channel.admits(Some(&event.pubkey)) && event.kind != 9021 {
            return Err(match channel.kind {
                ChannelKind::Dm => "forbidden: not a member of this DM",
                ChannelKind::Stream | ChannelKind::Forum => NOT_A_MEMBER,
            }
            .to_owned());
        }
        if channel.archived && !matches!(event.kind, 9001 | 9002 | 9008 | 9022) {
            return Err("invalid: channel is archived".to_owned());
        }
        Ok(())
    }

    fn check_observer(&self, event: &Event) -> Result<(), String> {
        const REFUSED: &str = "restricted: observer frame is not authorized for this agent owner";
        let readers: Vec<&str> = event.tag_values("p").collect();
        let ([reader], Some(agent)) = (readers.as_slice(), event.tag("agent")) else {
            return Err("invalid: observer frame needs one p tag and an agent tag".to_owned());
        };
        let other = if event.pubkey == agent {
            *reader
        } else {
            event.pubkey.as_str()
        };
        let is_between_them = event.pubkey == agent || *reader == agent;
        let is_recorded = self.owners.get(agent).is_some_and(|owner| owner == other);
        if is_between_them && is_recorded {
            Ok(())
        } else {
            Err(REFUSED.to_owned())
        }
    }

    /// Stores the event and does what it asks; the text of the OK.
    fn carry_out(
        &mut self,
        event: &Event,
        channel: Option<String>,
        now: Duration,
        effects: &mut Effects,
    ) -> Result<String, String> {
        if event.kind == 9007 && !self.is_plain() {
            self.check_creation(event)?;
        }
        if self.store.contains(&event.id) {
            return Ok("duplicate:".to_owned());
        }
        if let Some(channel) = &channel
            && is_threaded(event.kind)
            && !self.is_plain()
        {
            self.check_thread(event, channel)?;
        }
        if event.kind == 7 && !self.is_plain() && self.store.has_reaction(event) {
            return Err("duplicate: reaction already exists".to_owned());
        }
        if event.kind == 5 {
            self.check_deletion(event)?;
        }
        self.check_command(event)?;
        let filed = Arc::new(Filed::new(event.clone(), channel));
        if event.kind == 28_936 {
            self.relay_members.remove(&event.pubkey);
            return Ok("info: you have left this relay".to_owned());
        }
        if event.storage() != Storage::Ephemeral {
            match self.store.insert(Arc::clone(&filed)) {
                Inserted::Stored => {}
                Inserted::Known | Inserted::Superseded => return Ok("duplicate:".to_owned()),
            }
        }
        let is_unknown_observer_frame =
            event.kind == 24_200 && !matches!(event.tag("frame"), Some("telemetry" | "control"));
        if !is_unknown_observer_frame {
            effects.published.push(filed);
        }
        if event.kind == 5 {
            self.delete_targets(event);
        }
        self.apply_command(event, now, effects);
        Ok(String::new())
    }

    /// NIP-10: a parent must be in the same channel, a root must be the root of the parent.
    fn check_thread(&self, event: &Event, channel: &str) -> Result<(), String> {
        let Some(parent_id) = event.marked("reply") else {
            return Ok(());
        };
        let in_channel = |id: &str| {
            self.store
                .event(id)
                .filter(|it| it.channel.as_deref() == Some(channel))
        };
        let Some(parent) = in_channel(parent_id) else {
            return Err("invalid: reply parent not found".to_owned());
        };
        let mut ancestor = parent;
        let mut depth = 1;
        while let Some(next) = ancestor.event.marked("reply").and_then(in_channel) {
            ancestor = next;
            depth += 1;
            if depth >= THREAD_DEPTH_MAX {
                return Err("invalid: thread is too deep".to_owned());
            }
        }
        match event.marked("root") {
            Some(root) if root != ancestor.event.id => {
                Err("invalid: root tag does not match thread ancestry".to_owned())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn check_deletion(&self, event: &Event) -> Result<(), String> {
        let ids: Vec<&str> = event.tag_values("e").collect();
        let places: Vec<&str> = event.tag_values("a").collect();
        if !self.is_plain() && ids.len() + places.len() != 1 {
            return Err("invalid: deletion needs exactly one e or a tag".to_owned());
        }
        for target in ids.iter().filter_map(|id| self.store.event(id)) {
            let author = &target.event.pubkey;
            let is_owner = self.owners.get(author) == Some(&event.pubkey);
            if *author != event.pubkey && !is_owner {
                return Err("restricted: only the author may delete an event".to_owned());
            }
        }
        let is_own = |place: &&str| place.split(':').nth(1) == Some(event.pubkey.as_str());
        if !places.iter().all(is_own) {
            return Err("restricted: only the author may delete an event".to_owned());
        }
        Ok(())
    }

    fn delete_targets(&mut self, event: &Event) {
        for id in event.tag_values("e") {
            self.store.delete(id);
        }
        for place in event.tag_values("a") {
            let mut parts = place.splitn(3, ':');
            let kind = parts.next().and_then(|kind| kind.parse().ok());
            let (Some(kind), Some(author)) = (kind, parts.next()) else {
                continue;
            };
            let d = parts.next().unwrap_or_default();
            let current = self
                .store
                .current(kind, author, d)
                .map(|it| it.event.id.clone());
            if let Some(id) = current {
                self.store.delete(&id);
            }
        }
    }
}

fn check_form(event: &Event, now: u64) -> Result<(), String> {
    let away = event.created_at.abs_diff(now);
    if away > CLOCK_TOLERANCE {
        return Err(TOO_FAR.to_owned());
    }
    let bytes_max = if event.kind == 40_008 {
        DIFF_BYTES_MAX
    } else {
        CONTENT_BYTES_MAX
    };
    if event.content.len() > bytes_max {
        return Err(format!("invalid: content exceeds {bytes_max} bytes"));
    }
    if event.tag("d").is_some_and(|d| d.len() > D_TAG_BYTES_MAX) {
        return Err(format!("invalid: d tag exceeds {D_TAG_BYTES_MAX} bytes"));
    }
    match event.kind {
        7 if event.content.chars().count() > REACTION_CHARS_MAX => Err(format!(
            "invalid: reaction exceeds {REACTION_CHARS_MAX} characters"
        )),
        20_001 if event.content.chars().count() > PRESENCE_CHARS_MAX => Err(format!(
            "invalid: presence exceeds {PRESENCE_CHARS_MAX} characters"
        )),
        28_936 if away > ADMIN_TOLERANCE => Err(TOO_FAR.to_owned()),
        24_200 if away > OBSERVER_TOLERANCE => Err(TOO_FAR.to_owned()),
        24_200 if !OBSERVER_CHARS.contains(&event.content.len()) => {
            Err("invalid: observer frame has an impossible length".to_owned())
        }
        44_200 => {
            let readers: Vec<&str> = event.tag_values("p").collect();
            let is_whole = matches!(readers.as_slice(), [one] if is_hex64(one))
                && event.tag("agent") == Some(event.pubkey.as_str())
                && event.tag("h").is_none();
            if is_whole {
                Ok(())
            } else {
                Err("invalid: malformed turn metric".to_owned())
            }
        }
        _ => Ok(()),
    }
}
