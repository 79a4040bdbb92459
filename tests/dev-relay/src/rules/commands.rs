//! Events that change channels, and the relay-signed events that follow.

use std::time::Duration;

use super::channels::{
    Channel, ChannelKind, NewChannel, Role, Visibility, notice_content, pair, system_content,
};
use super::event::Event;
use super::filter::is_uuid;
use super::{Draft, Effects, Revocation, Rules};
use crate::keys::is_hex64;

const METADATA: u32 = 39_000;
const ADMINS: u32 = 39_001;
const MEMBERS: u32 = 39_002;
const SYSTEM: u32 = 40_099;
const MEMBER_ADDED: u32 = 44_100;
const MEMBER_REMOVED: u32 = 44_101;
const AGENT_PROFILE: u32 = 10_100;
const NOT_AUTHORIZED: &str = "restricted: not authorized to change this channel";

impl Rules {
    /// Creates a channel as `owner` would by kind 9007.
    ///
    /// # Errors
    /// When the id is taken.
    pub fn create_channel(&mut self, channel: NewChannel<'_>, now: Duration) -> Result<(), String> {
        if self.channels.contains_key(channel.id) {
            return Err("duplicate: channel already exists".to_owned());
        }
        let mut effects = Effects::default();
        self.found(channel, now, &mut effects);
        self.deliver(effects);
        Ok(())
    }

    /// Adds a member as `actor` would by kind 9000, without asking for its right to do so.
    ///
    /// # Errors
    /// When there is no such channel.
    pub fn add_member(
        &mut self,
        channel: &str,
        member: &str,
        role: Role,
        actor: &str,
        now: Duration,
    ) -> Result<(), String> {
        self.change(channel, now, |rules, step| {
            rules.admit(channel, member, role, actor, step);
        })
    }

    /// Removes a member as `actor` would by kind 9001.
    ///
    /// # Errors
    /// When there is no such channel.
    pub fn remove_member(
        &mut self,
        channel: &str,
        member: &str,
        actor: &str,
        now: Duration,
    ) -> Result<(), String> {
        self.change(channel, now, |rules, step| {
            rules.expel(channel, member, actor, step);
        })
    }

    /// Does one step in an existing channel and delivers what follows from it.
    fn change(
        &mut self,
        channel: &str,
        now: Duration,
        step: impl FnOnce(&mut Self, &mut Step<'_>),
    ) -> Result<(), String> {
        self.existing(channel)?;
        let mut effects = Effects::default();
        step(
            self,
            &mut Step {
                now,
                effects: &mut effects,
            },
        );
        self.deliver(effects);
        Ok(())
    }

    pub(super) fn check_creation(&self, event: &Event) -> Result<(), String> {
        let Some(id) = event.tag("h").filter(|id| is_uuid(id)) else {
            return Err("invalid: channel id must be a UUID in an h tag".to_owned());
        };
        if self.channels.contains_key(id) {
            return Err("duplicate: channel already exists".to_owned());
        }
        let visibility = event.tag("visibility").unwrap_or("open");
        if Visibility::parse(visibility).is_none() {
            return Err(format!("invalid visibility: {visibility}"));
        }
        let kind = event.tag("channel_type").unwrap_or("stream");
        if ChannelKind::parse(kind).is_none() {
            return Err(format!("invalid channel_type: {kind}"));
        }
        Ok(())
    }

    /// Whether the author may do what a command asks.
    pub(super) fn check_command(&self, event: &Event) -> Result<(), String> {
        let Some(channel) = event.tag("h").and_then(|id| self.channels.get(id)) else {
            return Ok(());
        };
        let actor = event.pubkey.as_str();
        match event.kind {
            9000 => self.check_addition(event, channel),
            9001 => {
                let member = target(event)?;
                let is_own_agent = self.owners.get(member).is_some_and(|it| it == actor);
                allow(channel.is_governed_by(actor) || member == actor || is_own_agent)
            }
            9002 => {
                let visibility = event.tag("visibility");
                if let Some(text) = visibility.filter(|it| Visibility::parse(it).is_none()) {
                    return Err(format!("invalid visibility: {text}"));
                }
                allow(channel.is_governed_by(actor))
            }
            9005 => allow(channel.is_governed_by(actor)),
            9008 => allow(channel.role_of(actor) == Some(Role::Owner)),
            9021 if channel.visibility == Visibility::Private => {
                Err("restricted: channel is not open to joining".to_owned())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn apply_command(&mut self, event: &Event, now: Duration, effects: &mut Effects) {
        let Some(id) = event.tag("h").map(str::to_owned) else {
            return;
        };
        let actor = event.pubkey.as_str();
        if event.kind == 9007 {
            self.found(NewChannel::of(event, &id), now, effects);
            return;
        }
        if !self.channels.contains_key(&id) {
            return;
        }
        let mut step = Step { now, effects };
        match event.kind {
            9000 => {
                let role = event
                    .tag("role")
                    .and_then(Role::parse)
                    .unwrap_or(Role::Member);
                if let Ok(member) = target(event) {
                    self.admit(&id, member, role, actor, &mut step);
                }
            }
            9001 => {
                if let Ok(member) = target(event) {
                    self.expel(&id, member, actor, &mut step);
                }
            }
            9002 => self.edit(&id, event, &mut step),
            9005 => {
                for target in event.tag_values("e") {
                    let filed = self.store.event(target);
                    if filed.is_none_or(|it| it.channel.as_ref() != Some(&id)) {
                        continue;
                    }
                    self.store.delete(target);
                    self.announce(&id, "message_deleted", actor, Some(target), &mut step);
                }
            }
            9008 => {
                if let Some(channel) = self.channels.get_mut(&id) {
                    channel.deleted = true;
                    self.changed_channels.insert(id);
                }
            }
            9021 => self.admit(&id, actor, Role::Member, actor, &mut step),
            9022 => self.expel(&id, actor, actor, &mut step),
            _ => {}
        }
    }

    fn existing(&self, channel: &str) -> Result<(), String> {
        if self.channels.get(channel).is_some_and(|it| !it.deleted) {
            return Ok(());
        }
        Err(format!("there is no channel {channel}"))
    }

    fn check_addition(&self, event: &Event, channel: &Channel) -> Result<(), String> {
        let member = target(event)?;
        let actor = event.pubkey.as_str();
        if let Some(role) = event.tag("role").filter(|role| Role::parse(role).is_none()) {
            return Err(format!("invalid role: {role}"));
        }
        let is_owner = self.owners.get(member).is_some_and(|owner| owner == actor);
        let policy = self
            .store
            .current(AGENT_PROFILE, member, "")
            .and_then(|it| serde_json::from_str::<serde_json::Value>(&it.event.content).ok())
            .and_then(|it| it["channel_add_policy"].as_str().map(str::to_owned));
        match policy.as_deref() {
            Some("nobody") if member != actor => {
                return Err("restricted: agent may not be added to channels".to_owned());
            }
            Some("owner_only") if !is_owner && member != actor => {
                return Err("restricted: agent may be added by its owner only".to_owned());
            }
            Some(_) | None => {}
        }
        let is_open = channel.visibility == Visibility::Open;
        allow(channel.is_governed_by(actor) || (is_open && channel.role_of(actor).is_some()))
    }

    fn found(&mut self, channel: NewChannel<'_>, now: Duration, effects: &mut Effects) {
        let NewChannel {
            id, kind, owner, ..
        } = channel;
        self.channels.insert(id.to_owned(), Channel::new(channel));
        let what = match kind {
            ChannelKind::Stream | ChannelKind::Forum => "channel_created",
            ChannelKind::Dm => "dm_created",
        };
        let mut step = Step { now, effects };
        self.announce(id, what, owner, None, &mut step);
        self.restate(id, &mut step);
    }

    fn admit(&mut self, id: &str, member: &str, role: Role, actor: &str, step: &mut Step<'_>) {
        let Some(channel) = self.channels.get_mut(id) else {
            return;
        };
        let is_added = channel.set_role(member, role);
        if is_added {
            self.announce(id, "member_joined", actor, Some(member), step);
        }
        self.restate(id, step);
        if is_added {
            self.notify(MEMBER_ADDED, id, member, actor, step);
        }
    }

    fn expel(&mut self, id: &str, member: &str, actor: &str, step: &mut Step<'_>) {
        let Some(channel) = self.channels.get_mut(id) else {
            return;
        };
        if !channel.remove(member) {
            return;
        }
        let what = if member == actor {
            "member_left"
        } else {
            "member_removed"
        };
        self.announce(id, what, actor, Some(member), step);
        self.restate(id, step);
        self.notify(MEMBER_REMOVED, id, member, actor, step);
        step.effects.revoked.push(Revocation {
            channel: id.to_owned(),
            key: Some(member.to_owned()),
        });
    }

    fn edit(&mut self, id: &str, event: &Event, step: &mut Step<'_>) {
        let Some(channel) = self.channels.get_mut(id) else {
            return;
        };
        let before = channel.clone();
        let text = |name: &str, field: &mut String| {
            if let Some(value) = event.tag(name) {
                value.clone_into(field);
            }
        };
        text("name", &mut channel.name);
        text("about", &mut channel.about);
        text("topic", &mut channel.topic);
        text("purpose", &mut channel.purpose);
        if let Some(visibility) = event.tag("visibility").and_then(Visibility::parse) {
            channel.visibility = visibility;
        }
        if let Some(archived) = event.tag("archived") {
            channel.archived = archived == "true";
        }
        let after = channel.clone();
        let changes = [
            ("topic_changed", before.topic != after.topic),
            ("purpose_changed", before.purpose != after.purpose),
            ("visibility_changed", before.visibility != after.visibility),
            ("channel_archived", !before.archived && after.archived),
            ("channel_unarchived", before.archived && !after.archived),
        ];
        for (what, _) in changes.iter().filter(|(_, is_change)| *is_change) {
            self.announce(id, what, &event.pubkey, None, step);
        }
        self.restate(id, step);
        if before.archived && !after.archived {
            for (member, _) in &after.members {
                self.notify(MEMBER_ADDED, id, member, &event.pubkey, step);
            }
        }
        if before.visibility == Visibility::Open && after.visibility == Visibility::Private {
            step.effects.revoked.push(Revocation {
                channel: id.to_owned(),
                key: None,
            });
        }
    }

    /// A system message in the channel.
    fn announce(
        &mut self,
        id: &str,
        what: &str,
        actor: &str,
        target: Option<&str>,
        step: &mut Step<'_>,
    ) {
        let content = system_content(what, actor, target);
        let tags = vec![pair("h", id)];
        let draft = Draft {
            kind: SYSTEM,
            tags,
            content: &content,
            channel: Some(id),
        };
        self.issue(draft, step.now, step.effects);
    }

    /// Fresh metadata, admins and members.
    fn restate(&mut self, id: &str, step: &mut Step<'_>) {
        let Some(channel) = self.channels.get(id) else {
            return;
        };
        self.changed_channels.insert(id.to_owned());
        let states = [
            (METADATA, channel.metadata_tags()),
            (ADMINS, channel.admin_tags()),
            (MEMBERS, channel.member_tags()),
        ];
        for (kind, tags) in states {
            let draft = Draft {
                kind,
                tags,
                content: "",
                channel: Some(id),
            };
            self.issue(draft, step.now, step.effects);
        }
    }

    /// Tells a key about its own membership, outside the channel.
    fn notify(&mut self, kind: u32, id: &str, member: &str, actor: &str, step: &mut Step<'_>) {
        let what = if kind == MEMBER_ADDED {
            "member_added"
        } else {
            "member_removed"
        };
        let content = notice_content(what, actor, id);
        let tags = vec![pair("p", member), pair("h", id)];
        let draft = Draft {
            kind,
            tags,
            content: &content,
            channel: None,
        };
        self.issue(draft, step.now, step.effects);
    }
}

/// One command being carried out.
struct Step<'a> {
    now: Duration,
    effects: &'a mut Effects,
}

fn target(event: &Event) -> Result<&str, String> {
    event
        .tag("p")
        .filter(|key| is_hex64(key))
        .ok_or_else(|| "invalid: missing or malformed p tag".to_owned())
}

fn allow(is_allowed: bool) -> Result<(), String> {
    if is_allowed {
        Ok(())
    } else {
        Err(NOT_AUTHORIZED.to_owned())
    }
}
