//! Which events are for this agent: own ones are not, commands of the owner are obeyed, the others
//! pass the gates of author, kind and mention.

use alloc::vec::Vec;
use core::time::Duration;

use super::outcome::{Answer, Speech};
use super::queue::dispose;
use super::scope::{answer_tags, scope_of};
use super::{Action, Config, RespondTo, Scheduler, Scope, Target, Want};
use crate::ids::{ChannelId, PubKey};
use crate::note::{Note, RefusedWhy, TurnFailure};
use crate::relay::{ChannelKind, Disposal, Sub};
use crate::time::{MonoTime, UnixTime};
use crate::wire::{Event, OwnerCommand};

/// How far ahead of our clock a command may be dated: clocks differ.
const COMMAND_AHEAD_MAX: Duration = Duration::from_secs(60);

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
}

impl Scheduler {
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
                self.control(target, want, out);
            }
            Admission::Shutdown => {
                leave(Disposal::Accepted, out);
                out.push(Action::ShutdownRequested);
            }
            // Not disposed of: it is owed to the next life.
            Admission::Admitted(scope) if self.life.is_ending() => {
                out.push(Action::Note(Note::HandedBack { scope, count: 1 }));
                out.push(Action::Left { sub, count: 1 });
            }
            Admission::Admitted(scope) if lives >= self.config.limits.lives_max => {
                out.push(Action::Left { sub, count: 1 });
                self.report(scope, &event, out);
            }
            Admission::Admitted(scope) => self.enqueue(scope, sub, event, now, out),
        }
    }

    /// Says that an event is given up: whatever ended the agent at it so often would do it again.
    fn report(&mut self, scope: Scope, event: &Event, out: &mut Vec<Action>) {
        if !self.outcomes.has_room() {
            return dispose([event.id()], Disposal::RefusedForNow, out);
        }
        let answer = Answer {
            turn: self.next_turn.take(),
            events: alloc::vec![event.id()],
            tags: answer_tags(scope.channel(), event),
            speech: Speech::Notice {
                why: TurnFailure::Interrupted,
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
        if let Some(event) = self.queue.push(scope, sub, event, arrived) {
            out.push(Action::Left { sub, count: 1 });
            dispose([event.id()], Disposal::RefusedForNow, out);
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
        match refusal(&self.config, self.me, kind, event) {
            Some(why) => Admission::Refused(why),
            None => Admission::Admitted(scope_of(self.config.policy, kind, channel, event)),
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

/// Why an event is not for this agent, if it is not.
fn refusal(config: &Config, me: PubKey, kind: ChannelKind, event: &Event) -> Option<RefusedWhy> {
    if !may_address(config, kind, event.author()) {
        return Some(RefusedWhy::Author);
    }
    if !config.kinds.is_empty() && !config.kinds.contains(&event.kind()) {
        return Some(RefusedWhy::Kind);
    }
    if config.mention_only && !event.mentions(&me) {
        return Some(RefusedWhy::NoMention);
    }
    None
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

/// An old command may have been carried out in an earlier life, and one dated far ahead would be
/// fresh in every life to come.
fn is_fresh(config: &Config, created_at: UnixTime, wall: UnixTime) -> bool {
    wall.saturating_since(created_at) <= config.limits.command_age
        && created_at.saturating_since(wall) <= COMMAND_AHEAD_MAX
}
