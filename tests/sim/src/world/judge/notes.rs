//! What the judge reads in notes: what nobody but the scheduler can know, and what is to be compared.

use std::time::Duration;

use buzz_proto::ids::{ChannelId, TurnId};
use buzz_proto::note::{Note, TurnFailure, TurnOutcome};
use buzz_proto::schedule::{Scope, Want};

use super::room::{Running, Waiting};
use super::{Judge, ROUNDING};

impl Judge {
    pub(super) fn read(&mut self, note: &Note) {
        if let Note::TurnStarted {
            turn,
            scope,
            worker,
            events,
        } = note
        {
            self.claim(*turn, *scope, *worker, *events);
        } else if let Note::TurnRetried {
            turn,
            scope,
            why,
            attempts,
            wait,
        } = note
        {
            self.retry((*turn, *scope), why, *attempts, *wait);
        } else if let Note::TurnEnded {
            turn,
            scope,
            outcome,
        } = note
        {
            self.end(*turn, *scope, outcome);
        } else if let Note::Controlled {
            scope,
            want,
            discarded,
        } = note
        {
            self.condemn(*scope, *want, *discarded);
        } else if let Note::Left { channel, dropped } = note {
            self.leave(*channel, *dropped);
        } else if let Note::HandedBack { scope, count } = note {
            self.outcomes.hand_back(*scope, *count);
        } else if let Note::Held { scope, .. } = note {
            self.rooms.entry(*scope).or_default().is_told_held = true;
        } else if let Note::HoldEnded { scope, wait, .. } = note {
            self.end_hold(*scope, *wait);
        }
    }

    /// What waits in a channel is dropped with it.
    fn leave(&mut self, channel: ChannelId, dropped: u32) {
        let in_channel = |scope: &&Scope| scope.channel() == channel;
        let scopes: Vec<_> = self.rooms.keys().filter(in_channel).copied().collect();
        let mut own: usize = 0;
        for scope in scopes {
            own = own.saturating_add(self.drop_waiting(scope));
        }
        if u32::try_from(own) != Ok(dropped) {
            self.fault(format_args!(
                "{dropped} are told as dropped with {channel}, and {own} waited there"
            ));
        }
    }

    /// What a turn was to answer waits again.
    fn retry(
        &mut self,
        (told, scope): (TurnId, Scope),
        why: &TurnFailure,
        attempts: u16,
        wait: Duration,
    ) {
        // For these it is only waited, together with all others.
        let is_attempt = !matches!(why, TurnFailure::UsageLimit | TurnFailure::Renewed);
        self.verdict.retries = self.verdict.retries.saturating_add(1);
        let retry_at = self.now.after(wait).round_up();
        let limits = self.limits.clone();
        let mut most = 0;
        let room = self.rooms.entry(scope).or_default();
        let Some(turn) = room.turn.take_if(|turn| turn.told == told) else {
            return self.fault(format_args!("turn {} is tried again, and is none", told.0));
        };
        if is_attempt {
            room.retry_at = retry_at;
        }
        room.remove(&turn.ids());
        let mut spent = Vec::new();
        for waiting in &turn.batch {
            let tried = Waiting {
                attempts: waiting.attempts.saturating_add(u16::from(is_attempt)),
                crashes: waiting.crashes.saturating_add(u16::from(turn.is_crashed)),
                is_begun: true,
                ..*waiting
            };
            if tried.attempts >= limits.attempts_max || tried.crashes >= limits.crashes_max {
                spent.push(tried.id);
            } else {
                most = tried.attempts.max(most);
                room.arrive(tried);
            }
        }
        // What is told of this turn from now on is told of these.
        self.outcomes.claim(told, spent);
        if !turn.is_over() {
            self.free(turn.worker);
        }
        if most != attempts {
            self.fault(format_args!(
                "{scope} was tried {most} times, and {attempts} times by the notes"
            ));
        }
    }

    /// The events of a turn have an outcome.
    fn end(&mut self, told: TurnId, scope: Scope, outcome: &TurnOutcome) {
        let batch = self.outcomes.batch(told);
        let room = self.rooms.entry(scope).or_default();
        let is_wanted = room.condemned.contains(&told);
        room.remove(&batch);
        let never_given = room
            .turn
            .take_if(|turn| turn.told == told && turn.given.is_none());
        if let Some(turn) = never_given {
            self.free(turn.worker);
        }
        if *outcome == TurnOutcome::Discarded && !is_wanted {
            self.fault(format_args!("nobody wanted turn {} discarded", told.0));
        }
        self.outcomes.end(told, outcome.clone());
    }

    /// Somebody controls a scope: its turn ends, or the attempts at what it was to answer do.
    fn condemn(&mut self, scope: Scope, want: Want, discarded: u32) {
        if !self.controlled.contains(&scope.channel()) {
            self.fault(format_args!("nobody controls {scope}"));
        }
        let room = self.rooms.entry(scope).or_default();
        let turn = room.turn.as_ref().filter(|turn| !turn.is_over());
        let is_running = turn.is_some();
        let mut own = 0;
        if let Some(turn) = turn
            && !room.condemned.contains(&turn.told)
        {
            own = turn.batch.len();
            room.condemned.push(turn.told);
        }
        let dropped = match want {
            Want::StopAndDrop => room.clear(),
            Want::Stop | Want::StopAndRotate if !is_running => room.clear_begun(),
            Want::Run | Want::Stop | Want::StopAndRotate => Vec::new(),
        };
        own = own.saturating_add(dropped.len());
        self.outcomes.discard(dropped);
        if u32::try_from(own) != Ok(discarded) {
            self.fault(format_args!(
                "{discarded} are told as discarded in {scope}, and {own} were to be"
            ));
        }
    }

    /// Nothing waits in a scope any more, and nobody wants it.
    fn drop_waiting(&mut self, scope: Scope) -> usize {
        self.end_wait(scope);
        let Some(room) = self.rooms.get_mut(&scope) else {
            return 0;
        };
        // What was claimed and not given yet ends with its turn.
        let claimed = room.turn.as_ref().filter(|turn| turn.given.is_none());
        let claimed = claimed.map(Running::ids).unwrap_or_default();
        let mut dropped = room.clear();
        dropped.retain(|id| !claimed.contains(id));
        let count = dropped.len();
        self.outcomes.discard(dropped);
        count
    }

    fn end_hold(&mut self, scope: Scope, wait: Duration) {
        let now = self.now;
        let room = self.rooms.entry(scope).or_default();
        room.is_told_held = false;
        let own = now.saturating_since(room.hold_began);
        if own.abs_diff(wait) > ROUNDING {
            self.fault(format_args!(
                "{scope} was held for {own:?}, and the note says {wait:?}"
            ));
        }
    }
}
