//! A world whose events go to workers: what people say to them, and what can be done to them.

use std::time::Duration;

use buzz_dev_relay::client::tag;
use buzz_dev_relay::rules::channels::ChannelKind;
use buzz_dev_relay::rules::filter::Filter;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::{ChannelId, EventId};
use buzz_proto::schedule::{self, Policy, RespondTo, Scope};
use serde_json::json;

use super::crew::{Conduct, Task};
use super::people::{Role, keys_of};
use super::record::Told;
use super::{MESSAGE, OWNER, Person, World, WorldError, config};

/// A message of the agent that the relay stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The event that it names as what it answers.
    pub to: Option<EventId>,
    /// Its words.
    pub words: String,
}

/// Settings of an agent whose workers answer everybody, each thread by itself. Nothing is shown but
/// answers and notices, so that a host where nothing happens is quiet.
#[must_use]
pub fn workers_config(workers: u16) -> Config {
    let mut schedule = schedule::Config::new(workers);
    schedule.respond_to = RespondTo::Anyone;
    schedule.cosmetics = false;
    schedule.marks = false;
    Config {
        consumer: Consumer::Workers(Box::new(schedule)),
        ..config(1)
    }
}

impl World {
    /// Opens a direct conversation of the agent and its owner.
    ///
    /// # Errors
    /// When it exists, in the relay's words.
    pub fn open_direct(&mut self, channel: ChannelId) -> Result<(), WorldError> {
        let owner = keys_of(Role::Person(OWNER)).map_err(|_| WorldError::Key)?;
        let agent = self.agent.public().to_owned();
        self.directs.insert(channel);
        let kind = ChannelKind::Dm;
        self.relay
            .open_channel((channel, kind), owner.public(), &agent, &mut self.clock)
            .map_err(WorldError::Refused)
    }

    /// Somebody mentions the agent in the thread of a root.
    ///
    /// # Errors
    /// When the relay does not store it, in its words; then nothing is owed.
    pub fn reply(
        &mut self,
        author: Person,
        (channel, root): (ChannelId, EventId),
        content: &str,
    ) -> Result<EventId, WorldError> {
        let tags = self.tags(channel, Some(root));
        let id = self.post(author, MESSAGE, tags, content, None)?;
        self.owed.insert(id, channel);
        self.roots.insert(id, root);
        Ok(id)
    }

    /// The owner gives a command, to a thread or to all of a channel.
    ///
    /// # Errors
    /// When the relay does not store it, in its words.
    pub fn command(
        &mut self,
        channel: ChannelId,
        root: Option<EventId>,
        command: &str,
    ) -> Result<EventId, WorldError> {
        let tags = self.tags(channel, root);
        self.post(OWNER, MESSAGE, tags, command, None)
    }

    /// The agent is no member of a channel any more.
    ///
    /// # Errors
    /// When there is no such channel, in the relay's words.
    pub fn expel(&mut self, channel: ChannelId) -> Result<(), WorldError> {
        let owner = keys_of(Role::Person(OWNER)).map_err(|_| WorldError::Key)?;
        let agent = self.agent.public().to_owned();
        let id = channel.to_string();
        self.relay
            .change(&mut self.clock, |rules, now| {
                rules.remove_member(&id, &agent, owner.public(), now)
            })
            .map_err(WorldError::Refused)
    }

    fn tags(&self, channel: ChannelId, root: Option<EventId>) -> Vec<Vec<String>> {
        let mut tags = vec![
            tag("h", &channel.to_string()),
            tag("p", self.agent.public()),
        ];
        if let Some(root) = root {
            let words = ["e", &root.to_string(), "", "reply"];
            tags.push(words.map(str::to_owned).to_vec());
        }
        tags
    }

    /// The turns that this event is part of go like this, one after the other.
    pub fn assign(&mut self, event: EventId, tasks: &[Task]) {
        self.agent.crew.assign(event, tasks);
    }

    /// From now on workers behave like this.
    pub fn set_conduct(&mut self, conduct: Conduct) {
        self.agent.crew.conduct = conduct;
    }

    /// The driver does not report the wall clock, or does again. With that, a host where nothing
    /// happens has no input for as long as the connection is quiet: 25 s and more.
    pub const fn hush(&mut self, is_hushed: bool) {
        self.agent.is_hushed = is_hushed;
    }

    /// From now on facts and orders are kept as they are, for a judge.
    pub fn listen(&mut self) {
        self.agent.recording.listen();
    }

    /// What was kept, in order.
    #[must_use]
    pub fn told(&self) -> &[Told] {
        self.agent.recording.told()
    }

    /// The scope of everything that is owed, by the policy of the workers.
    pub fn scopes(&self) -> impl Iterator<Item = (EventId, Scope)> {
        let is_thread = match &self.agent.config().consumer {
            Consumer::Workers(schedule) => schedule.policy == Policy::Thread,
            Consumer::External { .. } => false,
        };
        self.owed.iter().map(move |(id, channel)| {
            let root = self.roots.get(id).unwrap_or(id);
            let scope = if is_thread && !self.directs.contains(channel) {
                Scope::Thread(*channel, *root)
            } else {
                Scope::Conversation(*channel)
            };
            (*id, scope)
        })
    }

    /// The messages of the agent that the relay stores.
    #[must_use]
    pub fn said(&self) -> Vec<Said> {
        let filter = json!({"kinds": [MESSAGE], "authors": [self.agent.public()]});
        let filter = Filter::parse(&filter).unwrap_or_default();
        let events = self.store().matching(&filter);
        let said = events.map(|filed| Said {
            to: filed.event.marked("reply").and_then(|id| id.parse().ok()),
            words: filed.event.content.clone(),
        });
        said.collect()
    }

    /// The application ends the agent within this time. Whether it did.
    pub fn shut_down(&mut self, grace: Duration) -> bool {
        use buzz_proto::input::{Command, Input};
        self.feed(Input::Command(Command::Shutdown { grace }));
        // A message under way at the end has its verdict a moment later.
        self.run_until(grace.saturating_add(Duration::from_secs(1)), |world| {
            world.agent.has_ended
        })
    }
}
