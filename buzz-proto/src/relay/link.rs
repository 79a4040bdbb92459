//! The connection: dialing, the wait between dials, liveness.
//!
//! One ladder serves every loss. A connection that opens and drops at once climbs it, because only
//! a minute of being live leads back to the first rung. Any inbound frame counts as life; silence
//! is answered with a ping, and a ping without an answer with a close.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Action, CloseCause, ConnectCause, Limits};
use crate::backoff::Ladder;
use crate::ids::ConnId;
use crate::note::{LinkNote, Note};
use crate::seed::Seed;
use crate::time::{MonoTime, Now, Why};

/// RFC 6455 section 7.4.1: the endpoint violates a policy; a relay whose community is gone.
const CLOSE_POLICY: u16 = 1008;
/// The registry of RFC 6455 section 11.7: service restart.
const CLOSE_RESTART: u16 = 1012;
/// A restarting relay asks its clients to spread over this span.
const RESTART_SPREAD: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// A tick that comes this late means that the machine slept: what the peer sent meanwhile was not
/// fed yet, so its silence proves nothing.
const SLEPT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(super) struct Link {
    url: Arc<str>,
    seed: Seed,
    next: ConnId,
    ladder: Ladder,
    losses: u64,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Not dialed yet.
    Idle,
    Dialing {
        conn: ConnId,
        since: MonoTime,
    },
    Open(Open),
    Waiting {
        until: MonoTime,
    },
    Stopped,
}

/// A socket after its upgrade.
#[derive(Clone, Debug)]
struct Open {
    conn: ConnId,
    since: MonoTime,
    /// Since when it carries subscriptions.
    live: Option<MonoTime>,
    stable: bool,
    heard: MonoTime,
    ping: Option<Ping>,
}

#[derive(Clone, Copy, Debug)]
struct Ping {
    sent: MonoTime,
    /// Whether this one was sent because the machine slept through the answer window of another.
    again: bool,
}

/// How soon the next dial may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Return {
    Ladder,
    Restart,
    Slow,
    Never,
    /// The machine ends.
    End,
}

impl Return {
    pub(super) const fn after_close(code: Option<u16>) -> Self {
        match code {
            Some(CLOSE_RESTART) => Self::Restart,
            Some(CLOSE_POLICY) => Self::Slow,
            Some(_) | None => Self::Ladder,
        }
    }

    pub(super) const fn after_failure(cause: &ConnectCause) -> Self {
        match cause {
            ConnectCause::Url => Self::Never,
            ConnectCause::Certificate => Self::Slow,
            ConnectCause::Resolve
            | ConnectCause::Transport
            | ConnectCause::Status { .. }
            | ConnectCause::Protocol => Self::Ladder,
        }
    }
}

impl Link {
    pub(super) fn new(url: &str, limits: &Limits, seed: Seed) -> Self {
        Self {
            url: url.into(),
            seed,
            next: ConnId(1),
            ladder: Ladder::new(limits.reconnect_first, limits.reconnect_top),
            losses: 0,
            phase: Phase::Idle,
        }
    }

    /// The socket, once upgraded.
    pub(super) const fn open(&self) -> Option<ConnId> {
        match &self.phase {
            Phase::Open(open) => Some(open.conn),
            Phase::Idle | Phase::Dialing { .. } | Phase::Waiting { .. } | Phase::Stopped => None,
        }
    }

    /// The socket, once it carries subscriptions.
    pub(super) const fn live(&self) -> Option<ConnId> {
        match &self.phase {
            Phase::Open(Open {
                conn,
                live: Some(_),
                ..
            }) => Some(*conn),
            Phase::Open(_)
            | Phase::Idle
            | Phase::Dialing { .. }
            | Phase::Waiting { .. }
            | Phase::Stopped => None,
        }
    }

    /// When the socket was upgraded.
    pub(super) const fn opened_at(&self) -> Option<MonoTime> {
        match &self.phase {
            Phase::Open(open) => Some(open.since),
            Phase::Idle | Phase::Dialing { .. } | Phase::Waiting { .. } | Phase::Stopped => None,
        }
    }

    /// The dial or socket that is under way.
    pub(super) const fn current(&self) -> Option<ConnId> {
        match &self.phase {
            Phase::Dialing { conn, .. } => Some(*conn),
            Phase::Open(open) => Some(open.conn),
            Phase::Idle | Phase::Waiting { .. } | Phase::Stopped => None,
        }
    }

    pub(super) const fn is_stopped(&self) -> bool {
        matches!(self.phase, Phase::Stopped)
    }

    /// The dial `conn` succeeded. False when it is not the one under way.
    pub(super) fn connected(&mut self, conn: ConnId, now: MonoTime) -> bool {
        if !matches!(self.phase, Phase::Dialing { conn: dialed, .. } if dialed == conn) {
            return false;
        }
        self.phase = Phase::Open(Open {
            conn,
            since: now,
            live: None,
            stable: false,
            heard: now,
            ping: None,
        });
        true
    }

    /// The socket carries subscriptions from now on.
    pub(super) const fn set_live(&mut self, now: MonoTime) {
        if let Phase::Open(open) = &mut self.phase {
            open.live = Some(now);
        }
    }

    /// Something came from the peer. False when it came over a socket that is over.
    pub(super) fn heard(&mut self, conn: ConnId, now: MonoTime) -> bool {
        let Phase::Open(open) = &mut self.phase else {
            return false;
        };
        if open.conn != conn {
            return false;
        }
        open.heard = now;
        open.ping = None;
        true
    }

    /// There is no connection any more: sets the wait before the next dial.
    pub(super) fn lose(
        &mut self,
        back: Return,
        limits: &Limits,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        if self.is_stopped() {
            return;
        }
        self.losses = self.losses.wrapping_add(1);
        let rung = self.ladder.climb_drawn(self.seed, self.losses);
        let wait = match back {
            Return::Ladder => rung,
            Return::Restart => {
                rung.max(
                    self.seed
                        .between(self.losses, 1, RESTART_SPREAD.0, RESTART_SPREAD.1),
                )
            }
            // A relay that turned many away at once must not see them all return at once.
            Return::Slow => {
                let least = limits.reconnect_slow;
                let fifth = least.checked_div(5).unwrap_or_default();
                let most = least.saturating_add(fifth);
                rung.max(self.seed.between(self.losses, 2, least, most))
            }
            Return::End => return self.stop(),
            Return::Never => {
                self.stop();
                out.push(Action::Note(Note::Link(LinkNote::Stopped)));
                return;
            }
        };
        out.push(Action::Note(Note::Link(LinkNote::Waiting { wait })));
        self.phase = Phase::Waiting {
            until: now.after(wait),
        };
    }

    /// Nothing is dialed any more.
    pub(super) fn stop(&mut self) {
        self.phase = Phase::Stopped;
    }

    /// Dials when it is time. True when it did.
    pub(super) fn dial(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let due = match self.phase {
            Phase::Idle => true,
            Phase::Waiting { until } => now.reached(until, Why::Reconnect),
            Phase::Dialing { .. } | Phase::Open(_) | Phase::Stopped => false,
        };
        if !due {
            return false;
        }
        let conn = self.next.take();
        self.phase = Phase::Dialing {
            conn,
            since: now.time(),
        };
        out.push(Action::Note(Note::Link(LinkNote::Dialing)));
        out.push(Action::Connect {
            conn,
            url: Arc::clone(&self.url),
        });
        true
    }

    /// Whether a limit of the connection itself has passed, so that it must be closed.
    pub(super) fn overdue(
        &mut self,
        limits: &Limits,
        now: &mut Now,
        out: &mut Vec<Action>,
    ) -> Option<CloseCause> {
        match &mut self.phase {
            Phase::Dialing { since, .. } => now
                .reached(since.after(limits.dial), Why::Dial)
                .then_some(CloseCause::DialLimit),
            Phase::Open(open) => open.liveness(limits, &mut self.ladder, now, out),
            Phase::Idle | Phase::Waiting { .. } | Phase::Stopped => None,
        }
    }
}

impl Open {
    fn liveness(
        &mut self,
        limits: &Limits,
        ladder: &mut Ladder,
        now: &mut Now,
        out: &mut Vec<Action>,
    ) -> Option<CloseCause> {
        if let Some(live) = self.live
            && !self.stable
            && now.reached(live.after(limits.stable), Why::Stable)
        {
            self.stable = true;
            ladder.reset();
        }
        let Some(ping) = self.ping else {
            if now.reached(self.heard.after(limits.ping_after), Why::Ping) {
                self.ping = Some(Ping {
                    sent: now.time(),
                    again: false,
                });
                out.push(Action::Ping { conn: self.conn });
                now.reached(now.time().after(limits.pong), Why::Pong);
            }
            return None;
        };
        let limit = ping.sent.after(limits.pong);
        if !now.reached(limit, Why::Pong) {
            return None;
        }
        let slept = now.reached(limit.after(SLEPT), Why::Pong);
        if ping.again || !slept {
            return Some(CloseCause::Silent);
        }
        self.ping = Some(Ping {
            sent: now.time(),
            again: true,
        });
        out.push(Action::Ping { conn: self.conn });
        now.reached(now.time().after(limits.pong), Why::Pong);
        None
    }
}
