//! What owners, channels, the clock and others may do to a run of chance at any time.

use buzz_proto::ids::{ChannelId, EventId, JobId};
use buzz_proto::note::StaleWhat;
use buzz_proto::publish::Verdict;
use buzz_proto::relay::{ChannelKind, ChannelState};
use buzz_proto::schedule::{Command, DownCause, Input, Scope, StopReason, Target, TurnEnd, Want};
use buzz_proto::time::UnixTime;

use crate::property::RELAY;
use crate::support::{ROOM, START, id, joined, life, stale};
use crate::watch::Watch;

impl Watch {
    pub(super) fn control(&mut self, how: u16) {
        let want = [
            Want::Run,
            Want::Stop,
            Want::StopAndDrop,
            Want::StopAndRotate,
        ][usize::from(how % 4)];
        let target = if how.is_multiple_of(3) {
            Target::Channel(ROOM)
        } else {
            Target::Scope(Scope::Thread(ROOM, id(how % 4)))
        };
        if want == Want::StopAndRotate {
            match target {
                Target::Channel(channel) => self.rotate(channel),
                Target::Scope(scope) => {
                    self.rotated.insert(scope);
                }
            }
        }
        self.give(Input::Command(Command::Control { target, want }));
    }

    /// No scope of a channel goes on in its session.
    fn rotate(&mut self, channel: ChannelId) {
        let known = self.directory.keys().chain(self.owed.values());
        let of_it = known.filter(|scope| scope.channel() == channel);
        self.rotated.extend(of_it);
    }

    pub(super) fn disturb(&mut self, pick: usize, how: u16) {
        match how % 12 {
            0 => self.give(Input::Link {
                live: pick.is_multiple_of(2),
            }),
            1 | 10 | 11 => {
                let kind = [ChannelKind::Direct, ChannelKind::Stream][(pick % 4).min(1)];
                self.judge_anew(kind);
                self.give(joined(ROOM, kind));
            }
            2 => {
                self.rotate(ROOM);
                self.judge_anew(ChannelKind::Direct);
                self.give(Input::Channel {
                    channel: ROOM,
                    state: ChannelState::Left,
                });
                let mut waiting = self.queued.values().map(Scope::channel);
                assert!(waiting.all(|channel| channel != ROOM));
                let mut unjudged = self.unjudged.values().map(|(channel, _)| *channel);
                assert!(unjudged.all(|channel| channel != ROOM));
                if !pick.is_multiple_of(4) {
                    self.judge_anew(ChannelKind::Stream);
                    self.give(joined(ROOM, ChannelKind::Stream));
                }
            }
            3 => {
                if let Some((turn, _)) = self.turn(pick) {
                    self.give(Input::Progressed { turn });
                }
            }
            4 => self.say_what_is_stale(pick),
            5 => self.give(Input::Command(Command::Renew)),
            6 => {
                self.is_half_full = pick.is_multiple_of(3);
                let is_half_full = self.is_half_full;
                self.give(Input::Outbox { is_half_full });
            }
            7 => {
                let elapsed = self.script.now().as_nanos() / 1_000_000_000;
                let shown = (START + elapsed + u64::from(how)).saturating_sub(30_000);
                self.give(Input::WallClock(UnixTime(shown)));
            }
            8 => self.give(Input::RelayKey {
                key: pick.is_multiple_of(2).then_some(RELAY),
            }),
            _ => self.answer_what_is_over(pick),
        }
    }

    fn say_what_is_stale(&mut self, pick: usize) {
        let Some(turn) = self.over.iter().nth(pick % 8).copied() else {
            return;
        };
        let before = self.script.scheduler.view();
        let end = TurnEnd::Answered {
            reply: "late".to_string(),
            stop: StopReason::EndTurn,
        };
        let actions = self.script.give(Input::Finished { turn, end });
        assert_eq!(actions, [stale(StaleWhat::Turn)]);
        let worker = life(0, 0);
        let cause = DownCause::Killed;
        let actions = self.script.give(Input::WorkerDown { worker, cause });
        assert_eq!(actions, [stale(StaleWhat::Worker)]);
        let job = JobId(1 << 62);
        let verdict = Verdict::Stored;
        let actions = self.script.give(Input::Settled { job, verdict });
        assert_eq!(actions, [stale(StaleWhat::Job)]);
        assert_eq!(self.script.scheduler.view(), before);
    }

    /// The scope that an event has if it is let in now.
    pub(super) fn scope_of(&self, channel: ChannelId, root: EventId) -> Scope {
        if channel == ROOM && self.kind == ChannelKind::Stream {
            Scope::Thread(channel, root)
        } else {
            Scope::Conversation(channel)
        }
    }

    /// What is known of the room has changed, and with it what its events are.
    pub(super) fn judge_anew(&mut self, kind: ChannelKind) {
        self.kind = kind;
        for (event, (channel, root)) in self.unjudged.clone() {
            self.owed.insert(event, self.scope_of(channel, root));
        }
    }
}
