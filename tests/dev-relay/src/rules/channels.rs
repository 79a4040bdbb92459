//! Channels and who belongs to them (NIP-29 as Buzz uses it).

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::event::Event;

/// A channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// UUID chosen by the creator.
    pub id: String,
    /// Shown name.
    pub name: String,
    /// Longer description, possibly empty.
    pub about: String,
    /// Possibly empty.
    pub topic: String,
    /// Possibly empty.
    pub purpose: String,
    /// Who may read and write.
    pub visibility: Visibility,
    /// What it is for.
    pub kind: ChannelKind,
    /// Public keys and roles, in the order of joining.
    pub members: Vec<(String, Role)>,
    /// An archived channel refuses writes.
    pub archived: bool,
    /// A deleted channel is as if it never was, except that its id stays taken.
    pub deleted: bool,
}

impl Channel {
    pub(crate) fn new(new: NewChannel<'_>) -> Self {
        Self {
            id: new.id.to_owned(),
            name: new.name.to_owned(),
            about: new.about.to_owned(),
            topic: String::new(),
            purpose: String::new(),
            visibility: new.visibility,
            kind: new.kind,
            members: vec![(new.owner.to_owned(), Role::Owner)],
            archived: false,
            deleted: false,
        }
    }

    /// Whether this key may read and write.
    #[must_use]
    pub fn admits(&self, key: Option<&str>) -> bool {
        !self.deleted
            && (self.visibility == Visibility::Open
                || key.is_some_and(|key| self.role_of(key).is_some()))
    }

    /// The role of a member.
    #[must_use]
    pub fn role_of(&self, key: &str) -> Option<Role> {
        self.members
            .iter()
            .find(|(member, _)| member == key)
            .map(|(_, role)| *role)
    }

    /// Adds a member or changes its role; whether it is new.
    pub(crate) fn set_role(&mut self, key: &str, role: Role) -> bool {
        if let Some((_, held)) = self.members.iter_mut().find(|(member, _)| member == key) {
            *held = role;
            return false;
        }
        self.members.push((key.to_owned(), role));
        true
    }

    /// Whether the key was a member.
    pub(crate) fn remove(&mut self, key: &str) -> bool {
        let before = self.members.len();
        self.members.retain(|(member, _)| member != key);
        self.members.len() < before
    }

    /// Whether this key may change members and settings.
    #[must_use]
    pub fn is_governed_by(&self, key: &str) -> bool {
        matches!(self.role_of(key), Some(Role::Owner | Role::Admin))
    }

    /// Tags of the metadata event, kind 39000.
    pub(crate) fn metadata_tags(&self) -> Vec<Vec<String>> {
        let mut tags = vec![pair("d", &self.id), pair("name", &self.name)];
        let texts = [
            ("about", &self.about),
            ("topic", &self.topic),
            ("purpose", &self.purpose),
        ];
        tags.extend(
            texts
                .iter()
                .filter(|(_, text)| !text.is_empty())
                .map(|(n, t)| pair(n, t)),
        );
        tags.push(vec![
            match self.visibility {
                Visibility::Open => "public",
                Visibility::Private => "private",
            }
            .to_owned(),
        ]);
        if self.kind == ChannelKind::Dm {
            tags.push(vec!["hidden".to_owned()]);
        }
        tags.push(vec!["closed".to_owned()]);
        tags.push(pair("t", self.kind.name()));
        if self.archived {
            tags.push(pair("archived", "true"));
        }
        if self.kind == ChannelKind::Dm {
            tags.extend(self.members.iter().map(|(key, _)| pair("p", key)));
        }
        tags
    }

    /// Tags of the list of admins, kind 39001.
    pub(crate) fn admin_tags(&self) -> Vec<Vec<String>> {
        let admins = self
            .members
            .iter()
            .filter(|(key, _)| self.is_governed_by(key));
        let mut tags = vec![pair("d", &self.id)];
        tags.extend(
            admins.map(|(key, role)| vec!["p".to_owned(), key.clone(), role.name().to_owned()]),
        );
        tags
    }

    /// Tags of the list of members, kind 39002.
    pub(crate) fn member_tags(&self) -> Vec<Vec<String>> {
        let mut tags = vec![pair("d", &self.id)];
        tags.extend(self.members.iter().map(|(key, role)| {
            vec![
                "p".to_owned(),
                key.clone(),
                String::new(),
                role.name().to_owned(),
            ]
        }));
        tags
    }
}

/// A channel to create.
#[derive(Debug, Clone, Copy)]
pub struct NewChannel<'a> {
    /// A UUID.
    pub id: &'a str,
    /// Shown name.
    pub name: &'a str,
    /// Longer description, possibly empty.
    pub about: &'a str,
    /// Who may read and write.
    pub visibility: Visibility,
    /// What it is for.
    pub kind: ChannelKind,
    /// Public key of its creator.
    pub owner: &'a str,
}

impl<'a> NewChannel<'a> {
    pub(crate) fn of(event: &'a Event, id: &'a str) -> Self {
        let visibility = event.tag("visibility").and_then(Visibility::parse);
        let kind = event.tag("channel_type").and_then(ChannelKind::parse);
        Self {
            id,
            name: event.tag("name").unwrap_or_default(),
            about: event.tag("about").unwrap_or_default(),
            visibility: visibility.unwrap_or(Visibility::Open),
            kind: kind.unwrap_or(ChannelKind::Stream),
            owner: &event.pubkey,
        }
    }
}

/// Who may read and write a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Visibility {
    /// Everybody on the relay.
    Open,
    /// Members.
    Private,
}

impl Visibility {
    /// Reads the value of a `visibility` tag.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "open" | "public" => Some(Self::Open),
            "private" => Some(Self::Private),
            _ => None,
        }
    }
}

/// What a channel is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChannelKind {
    /// A conversation.
    Stream,
    /// Topics with comments.
    Forum,
    /// A direct conversation, hidden from lists.
    Dm,
}

impl ChannelKind {
    /// Reads the value of a `channel_type` tag.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "stream" => Some(Self::Stream),
            "forum" => Some(Self::Forum),
            "dm" => Some(Self::Dm),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Forum => "forum",
            Self::Dm => "dm",
        }
    }
}

/// What a member may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Everything.
    Owner,
    /// Members and settings.
    Admin,
    /// Read and write.
    Member,
    /// Read and write.
    Guest,
    /// Read and write; a program.
    Bot,
}

impl Role {
    /// Reads the value of a `role` tag.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "owner" => Some(Self::Owner),
            "admin" => Some(Self::Admin),
            "member" => Some(Self::Member),
            "guest" => Some(Self::Guest),
            "bot" => Some(Self::Bot),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Admin => "admin",
            Self::Member => "member",
            Self::Guest => "guest",
            Self::Bot => "bot",
        }
    }
}

/// The content of a system message, kind 40099. Keys stand in the order of the alphabet, here and
/// below: the id depends on it, and whether `serde_json` sorts depends on the features of a build.
pub(crate) fn system_content(what: &str, actor: &str, target: Option<&str>) -> String {
    match target {
        Some(target) => json!({ "actor": actor, "target": target, "type": what }),
        None => json!({ "actor": actor, "type": what }),
    }
    .to_string()
}

/// The content of a membership notice, kinds 44100 and 44101.
pub(crate) fn notice_content(what: &str, actor: &str, channel: &str) -> String {
    json!({ "actor": actor, "channel_id": channel, "type": what }).to_string()
}

pub(crate) fn pair(name: &str, value: &str) -> Vec<String> {
    vec![name.to_owned(), value.to_owned()]
}
