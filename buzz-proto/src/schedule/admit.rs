//! Which events are for this agent: own ones are not, commands of the owner are obeyed, the others
//! pass the gates of author, kind and mention.

use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use super::authors::Arrival;
use super::outcome::{Answer, Speech};
use super::part::Part;
use super::queue::dispose;
use super::scope::scope_of;
use super::{Action, Config, RespondTo, Scope, Target, Want, text};
use crate::ids::{ChannelId, PubKey};
use crate::note::{Note, RefusedWhy, TurnFailure};
use crate::publish::Mark;
use crate::relay::{ChannelKind, Disposal, Sub};
use crate::time::{MonoTime, UnixTime};
use crate::wire::{Event, OwnerCommand, answer_tags};

/// How far ahead of our clock a command may be dated: clocks differ.
const COMMAND_AHEAD_MAX: Duration = Duration::from_secs(60);

/// Deletion (NIP-09).
const DELETION: u32 = 5;
/// Reaction (NIP-25).
const REACTION: u32 = 7;
/// Kinds that are not stored (NIP-01).
const EPHEMERAL: Range<u32> = 20_000..30_000;

/// What an event is to this agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// Its own: an agent that hears itself would never stop talking.
    Own,
    /// A command to act on the turns of a target.
    Control(Target, Want),
    /// A command to end.
    Shutdown,
    /// Not for this agent.
    Refused(RefusedWhy),
    /// Work, in this scope.
    Admitted(Scope),
    /// It depends on whether this author, as which it counts, is an agent of the same owner.
    Unknown(PubKey),
}

impl Part {
    pub(super) fn arrived(
        &mut self,
        (sub, event): (Sub, Event),
        lives: u32,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let id = event.id();
        let leave = |how, out: &mut Vec<Action>| {
            out.push(Action::Left { sub, count: 1 });
            dispose([id], how, out);
        };
        match self.admission(sub, &event, now) {
            Admission::Own => leave(Disposal::Discarded, out),
            Admission::Refused(why) => {
                out.push(Action::Note(Note::Refused { event: id, why }));
                leave(Disposal::Discarded, out);
            }
            Admission::Control(target, want) => {
                leave(Disposal::Accepted, out);
                if !self.control(target, want, now, out) {
                    self.say_nothing_to_control(target, want, &event, out);
                }
            }
            Admission::Shutdown => {
                leave(Disposal::Accepted, out);
                out.push(Action::ShutdownRequested);
            }
            Admission::Unknown(_) if self.life.is_ending() => {
                out.push(Action::Left { sub, count: 1 });
                dispose([id], Disposal::RefusedForNow, out);
            }
            Admission::Unknown(author) => {
                let arrival = Arrival { sub, event, lives };
                self.look_up(author, arrival, now, out);
            }
            // Not disposed of: it is owed to the next life.
            Admission::Admitted(scope) if self.life.is_ending() => {
                out.push(Action::Note(Note::HandedBack { scope, count: 1 }));
                out.push(Action::Left { sub, count: 1 });
            }
            Admission::Admitted(scope) if lives >= self.config.limits.lives_max => {
                out.push(Action::Left { sub, count: 1 });
                self.report_interrupted(scope, &event, out);
            }
            Admission::Admitted(scope) => self.enqueue(scope, sub, event, now, out),
        }
    }

    /// Says that an event is given up: whatever ended the agent at it so often would do it again.
    fn report_interrupted(&mut self, scope: Scope, event: &Event, out: &mut Vec<Action>) {
        if !self.outcomes.has_room() {
            return dispose([event.id()], Disposal::RefusedForNow, out);
        }
        let answer = Answer {
            turn: self.next_turn.take(),
            events: alloc::vec![event.id()],
            tags: answer_tags(Some(scope.channel()), event),
            speech: Speech::Notice {
                why: TurnFailure::Interrupted,
                attempts: 1,
            },
        };
        self.outcomes.push(scope, answer, out);
    }

    /// Says to whoever gave a command that it had no effect.
    fn say_nothing_to_control(
        &mut self,
        target: Target,
        want: Want,
        event: &Event,
        out: &mut Vec<Action>,
    ) {
        if !self.outcomes.has_room() || self.life.is_ending() {
            return;
        }
        let scope = match target {
            Target::Scope(scope) => scope,
            Target::Channel(channel) => Scope::Conversation(channel),
        };
        let answer = Answer {
            turn: self.next_turn,
            events: Vec::new(),
            tags: answer_tags(Some(scope.channel()), event),
            speech: Speech::Remark {
                text: text::nothing_to_control(want),
            },
        };
        self.outcomes.push(scope, answer, out);
    }

    /// Queues an event. One that finds no room is not lost: the relay part brings it again.
    fn enqueue(
        &mut self,
        scope: Scope,
        sub: Sub,
        event: Event,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        let arrived = (
            now,
            self.wall
                .map_or_else(|| event.created_at(), |wall| wall.at(now)),
        );
        let (id, author) = (event.id(), event.author());
        match self.queue.push(scope, sub, event, arrived) {
            Some(_) => {
                out.push(Action::Left { sub, count: 1 });
                dispose([id], Disposal::RefusedForNow, out);
            }
            None => self.marks.show(id, author, Mark::Seen, out),
        }
    }

    fn admission(&self, sub: Sub, event: &Event, now: MonoTime) -> Admission {
        if event.author() == self.me {
            return Admission::Own;
        }
        let channel = match sub {
            Sub::Channel(channel) => Some(channel),
            // The relay part keeps membership notices to itself; were one handed on, it would be
            // judged by the channel that it names.
            Sub::Membership => event.channel(),
        };
        let Some(channel) = channel else {
            return Admission::Refused(RefusedWhy::NoMatch);
        };
        let kind = self
            .channels
            .get(&channel)
            .copied()
            .unwrap_or(ChannelKind::Direct);
        if let Some(command) = self.command(channel, kind, event) {
            let is_fresh = self
                .wall
                .is_some_and(|wall| is_fresh(&self.config, event.created_at(), wall.at(now)));
            return if is_fresh {
                command
            } else {
                Admission::Refused(RefusedWhy::StaleCommand)
            };
        }
        let (author, mentions) = self.judged_as(event);
        if !is_answered(&self.config, event.kind()) {
            return Admission::Refused(RefusedWhy::Kind);
        }
        if self.config.mention_only && !mentions {
            return Admission::Refused(RefusedWhy::NoMention);
        }
        let scope = scope_of(self.config.policy, kind, channel, event);
        if may_address(&self.config, kind, author) {
            return Admission::Admitted(scope);
        }
        if !may_be_sibling(&self.config) {
            return Admission::Refused(RefusedWhy::Author);
        }
        match self.authors.is_sibling(author, now) {
            Some(true) => Admission::Admitted(scope),
            Some(false) => Admission::Refused(RefusedWhy::Author),
            None => Admission::Unknown(author),
        }
    }

    /// Whose word an event counts as, and whether it mentions this agent. A workflow posts with the
    /// relay's key, and speaks for its owner.
    fn judged_as(&self, event: &Event) -> (PubKey, bool) {
        let workflow = event
            .workflow()
            .filter(|_| self.relay_key == Some(event.author()));
        match workflow {
            Some(workflow) if workflow.mentions.contains(&self.me) => (workflow.owner, true),
            Some(_) | None => (event.author(), event.mentions(&self.me)),
        }
    }

    /// The command that an event gives, if its author owns this agent and names it.
    fn command(&self, channel: ChannelId, kind: ChannelKind, event: &Event) -> Option<Admission> {
        if self.config.owner != Some(event.author()) || !event.mentions(&self.me) {
            return None;
        }
        let command = OwnerCommand::of(event)?;
        let target = match event.thread().root {
            Some(_) => Target::Scope(scope_of(self.config.policy, kind, channel, event)),
            None => Target::Channel(channel),
        };
        Some(match command {
            OwnerCommand::Cancel => Admission::Control(target, Want::Stop),
            OwnerCommand::Rotate => Admission::Control(target, Want::StopAndRotate),
            OwnerCommand::Shutdown => Admission::Shutdown,
        })
    }
}

/// Clients mention everybody in a direct message, so there a mention gives no right.
fn may_address(config: &Config, kind: ChannelKind, author: PubKey) -> bool {
    let is_owner = config.owner == Some(author);
    match (&config.respond_to, kind) {
        (RespondTo::Nobody, _) => false,
        (RespondTo::Anyone, ChannelKind::Stream) => true,
        (RespondTo::Allowlist(list), ChannelKind::Stream) => is_owner || list.contains(&author),
        (RespondTo::OwnerOnly, _)
        | (RespondTo::Anyone | RespondTo::Allowlist(_), ChannelKind::Direct) => is_owner,
    }
}

/// Whether events of a kind are answered. What only says something of another event, or is not kept,
/// never is: agents would wake each other with it.
fn is_answered(config: &Config, kind: u32) -> bool {
    let is_noise = matches!(kind, DELETION | REACTION) || EPHEMERAL.contains(&kind);
    !is_noise && (config.kinds.is_empty() || config.kinds.contains(&kind))
}

/// Agents of the same owner may speak where the owner may and others may not.
const fn may_be_sibling(config: &Config) -> bool {
    match config.respond_to {
        RespondTo::Nobody => false,
        RespondTo::OwnerOnly | RespondTo::Allowlist(_) | RespondTo::Anyone => {
            config.owner.is_some()
        }
    }
}

/// An old command may have been carried out in an earlier life, and one dated far ahead would be
/// fresh in every life to come.
fn is_fresh(config: &Config, created_at: UnixTime, wall: UnixTime) -> bool {
    wall.saturating_since(created_at) <= config.limits.command_age
        && created_at.saturating_since(wall) <= COMMAND_AHEAD_MAX
}
