//! Controls as desired states, channels that come and go, and the end.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use super::authors::Arrival;
use super::hold::tell_end;
use super::part::Part;
use super::queue::{Waiting, count, dispose, tell_left};
use super::{Action, Scope, Target, Want};
use crate::ids::ChannelId;
use crate::note::{HoldEnd, Note};
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

impl Part {
    /// Records what is wanted; whether there was anything to act on. The turns follow in every
    /// phase; what waited before the control is dropped here, so that nothing that comes later can
    /// be.
    pub(super) fn control(
        &mut self,
        target: Target,
        want: Want,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) -> bool {
        let mut found = false;
        for scope in self.targets(target) {
            found |= self.control_scope(scope, want, now, out);
        }
        if !found {
            out.push(Action::Note(Note::NothingToControl { want }));
        }
        found
    }

    /// Whether there was anything to act on.
    fn control_scope(
        &mut self,
        scope: Scope,
        want: Want,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) -> bool {
        if want == Want::Run {
            return false;
        }
        let id = self.queue.turn(scope);
        let turn = id.and_then(|id| self.turns.get_mut(&id));
        let is_running = turn.is_some();
        let turn = turn.filter(|turn| !turn.is_cut);
        let mut found = turn.is_some();
        let mut discarded = turn.map_or(0, |turn| turn.want(want));
        // A batch between two attempts is stopped as one that runs.
        let dropped = match want {
            Want::StopAndDrop => self.take(scope, |_| true, now, out),
            Want::Stop | Want::StopAndRotate if !is_running => {
                self.take(scope, |waiting| waiting.is_begun, now, out)
            }
            Want::Run | Want::Stop | Want::StopAndRotate => Vec::new(),
        };
        if !dropped.is_empty() {
            found = true;
            discarded = discarded.saturating_add(count(&dropped));
            discard(&dropped, out);
        }
        if want == Want::StopAndRotate
            && !is_running
            && let Some(session) = self.sessions.current(scope)
        {
            self.sessions.close(session, out);
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

    /// Takes out what waits in a scope and fits. A hold without work ends.
    fn take(
        &mut self,
        scope: Scope,
        fits: impl FnMut(&Waiting) -> bool,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) -> Vec<Waiting> {
        let (taken, hold) = self.queue.take(scope, fits);
        tell_end(scope, hold, HoldEnd::Dropped, now, out);
        taken
    }

    fn targets(&self, target: Target) -> BTreeSet<Scope> {
        match target {
            Target::Scope(scope) => BTreeSet::from([scope]),
            Target::Channel(channel) => self
                .queue
                .scopes()
                .chain(self.sessions.current_scopes())
                .filter(|scope| scope.channel() == channel)
                .collect(),
        }
    }

    pub(super) fn channel(
        &mut self,
        channel: ChannelId,
        state: ChannelState,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        match state {
            ChannelState::Joined { kind } => {
                self.channels.insert(channel, kind);
            }
            ChannelState::Left => self.leave(channel, now, out),
        }
    }

    fn leave(&mut self, channel: ChannelId, now: MonoTime, out: &mut Vec<Action>) {
        let scopes = self.targets(Target::Channel(channel));
        let unjudged = self.authors.take(channel);
        let is_known = self.channels.remove(&channel).is_some();
        if !is_known && scopes.is_empty() && unjudged.is_empty() {
            return;
        }
        let mut dropped = Vec::new();
        for scope in scopes {
            dropped.extend(self.take(scope, |_| true, now, out));
            self.control_scope(scope, Want::StopAndRotate, now, out);
        }
        out.push(Action::Note(Note::Left {
            channel,
            dropped: count(&dropped).saturating_add(count(&unjudged)),
        }));
        discard(&dropped, out);
        for Arrival { sub, event, .. } in unjudged {
            out.push(Action::Left { sub, count: 1 });
            dispose([event.id()], Disposal::Discarded, out);
        }
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
            let waiting = self.take(scope, |_| true, now, out);
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
        let moved = self.slots.kill_spare(now.time(), out);
        // Past the grace a message under way is not waited for: its verdict is told all the same.
        let is_silent = self.outcomes.len() == 0 || self.life.is_over();
        if self.slots.are_down() && self.turns.is_empty() && is_silent {
            self.life = Life::Ended;
            self.marks.clear(out);
            out.push(Action::Ended);
            return true;
        }
        moved
    }
}

/// Events leave the queue, discarded.
fn discard(events: &[Waiting], out: &mut Vec<Action>) {
    tell_left(events, out);
    let ids = events.iter().map(|waiting| waiting.event.id());
    dispose(ids, Disposal::Discarded, out);
}
