//! Controls as desired states, channels that come and go, and the end.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use super::queue::{count, dispose, tell_left};
use super::{Action, Scheduler, Scope, Target, Want};
use crate::ids::ChannelId;
use crate::note::Note;
use crate::relay::{ChannelState, Disposal};
use crate::time::{MonoTime, Now, Why};

/// How far the scheduler is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It takes work.
    Working,
    /// It takes none; what runs may end until then.
    Ending { until: MonoTime },
    /// What ran was cut short; workers are on their way out.
    Over,
    /// There is nothing left but the verdicts on messages under way.
    Ended,
}

impl Life {
    pub(super) const fn is_ending(self) -> bool {
        !matches!(self, Self::Working)
    }

    /// Whether the grace has passed: what ends now is handed back.
    pub(super) const fn is_over(self) -> bool {
        matches!(self, Self::Over | Self::Ended)
    }
}

impl Scheduler {
    /// Records what is wanted. The turns follow in every phase; what waited before the control is
    /// dropped here, so that nothing that comes later can be.
    pub(super) fn control(&mut self, target: Target, want: Want, out: &mut Vec<Action>) {
        let mut found = false;
        for scope in self.targets(target) {
            found |= self.control_scope(scope, want, out);
        }
        if !found {
            out.push(Action::Note(Note::NothingToControl { want }));
        }
    }

    /// Whether there was anything to act on.
    fn control_scope(&mut self, scope: Scope, want: Want, out: &mut Vec<Action>) -> bool {
        if want == Want::Run {
            return false;
        }
        let id = self.queue.turn(scope);
        let turn = id.and_then(|id| self.turns.get_mut(&id));
        let is_running = turn.is_some();
        let turn = turn.filter(|turn| !turn.is_cut());
        let mut found = turn.is_some();
        let mut discarded = turn.map_or(0, |turn| turn.want(want));
        if want == Want::StopAndDrop {
            let dropped = self.queue.clear(scope);
            found |= !dropped.is_empty();
            discarded = discarded.saturating_add(count(&dropped));
            tell_left(&dropped, out);
            dispose(
                dropped.iter().map(|waiting| waiting.event.id()),
                Disposal::Discarded,
                out,
            );
        }
        if want == Want::StopAndRotate
            && !is_running
            && let Some(session) = self.pool.current(scope)
        {
            self.pool.close(session, out);
            found = true;
        }
        if found {
            out.push(Action::Note(Note::Controlled {
                scope,
                want,
                discarded,
            }));
        }
        found
    }

    fn targets(&self, target: Target) -> BTreeSet<Scope> {
        match target {
            Target::Scope(scope) => BTreeSet::from([scope]),
            Target::Channel(channel) => self
                .queue
                .scopes()
                .chain(self.pool.scopes())
                .filter(|scope| scope.channel() == channel)
                .collect(),
        }
    }

    pub(super) fn channel(
        &mut self,
        channel: ChannelId,
        state: ChannelState,
        out: &mut Vec<Action>,
    ) {
        match state {
            ChannelState::Joined { kind } => {
                self.channels.insert(channel, kind);
            }
            ChannelState::Left => self.leave(channel, out),
        }
    }

    fn leave(&mut self, channel: ChannelId, out: &mut Vec<Action>) {
        let scopes = self.targets(Target::Channel(channel));
        if self.channels.remove(&channel).is_none() && scopes.is_empty() {
            return;
        }
        let mut dropped = Vec::new();
        for scope in scopes {
            dropped.extend(self.queue.clear(scope));
            self.control_scope(scope, Want::StopAndRotate, out);
        }
        out.push(Action::Note(Note::Left {
            channel,
            dropped: count(&dropped),
        }));
        tell_left(&dropped, out);
        dispose(
            dropped.iter().map(|waiting| waiting.event.id()),
            Disposal::Discarded,
            out,
        );
    }

    /// Begins the end; asked again, the shorter grace holds. What waits is handed back, not
    /// disposed of: it is owed to the next life.
    pub(super) fn shut_down(&mut self, grace: Duration, now: MonoTime, out: &mut Vec<Action>) {
        let until = now.after(grace);
        match self.life {
            Life::Working => self.life = Life::Ending { until },
            Life::Ending { until: earlier } => {
                self.life = Life::Ending {
                    until: until.min(earlier),
                };
                return;
            }
            Life::Over | Life::Ended => return,
        }
        let scopes: Vec<Scope> = self.queue.scopes().collect();
        for scope in scopes {
            let waiting = self.queue.clear(scope);
            if !waiting.is_empty() {
                let count = count(&waiting);
                out.push(Action::Note(Note::HandedBack { scope, count }));
                tell_left(&waiting, out);
            }
        }
        let dated = self.unix_time(now);
        self.cosmetics.say_offline(dated, out);
    }

    /// Moves towards the end; whether anything moved.
    pub(super) fn pump_ending(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        match self.life {
            Life::Working | Life::Ended => return false,
            Life::Ending { until } => {
                if now.reached(until, Why::Shutdown) {
                    self.life = Life::Over;
                    self.outcomes.hand_back(out);
                    self.cut_turns(now.time(), out);
                    return true;
                }
            }
            Life::Over => {}
        }
        let moved = self.pool.kill_spare(now.time(), out);
        // Past the grace a message under way is not waited for: its verdict is told all the same.
        let is_silent = self.outcomes.len() == 0 || self.life.is_over();
        if self.pool.is_down() && self.turns.is_empty() && is_silent {
            self.life = Life::Ended;
            out.push(Action::Ended);
            return true;
        }
        moved
    }
}
