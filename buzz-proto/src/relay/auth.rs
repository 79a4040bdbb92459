//! NIP-42: one AUTH in flight, the newest challenge first.
//!
//! A relay that wants to know who we are sends a challenge; a plain relay sends none, and after a
//! short wait it is used as it is. A challenge that comes later is answered in place.

use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;

use super::{Action, Limits};
use crate::bucket::Bucket;
use crate::ids::{EventId, Ticket, WriteId};
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::{AuthReason, Event, Reason, ReasonClass};

/// Each challenge costs a signature: a relay that floods us with them must not keep the signer busy.
const CHALLENGES_PER_MINUTE: u32 = 10;

#[derive(Clone, Debug)]
pub(super) struct Auth {
    phase: Phase,
    /// A challenge not yet taken up.
    challenge: Option<Arc<str>>,
    /// Since when an `auth-required:` answer awaits a challenge.
    wanted: Option<MonoTime>,
    bucket: Bucket,
}

#[derive(Clone, Debug)]
enum Phase {
    /// The relay has not asked.
    Unasked,
    Signing {
        ticket: Ticket,
        since: MonoTime,
    },
    Signed {
        id: EventId,
        frame: Bytes,
        since: MonoTime,
    },
    Sent {
        id: EventId,
        frame: Bytes,
        write: WriteId,
        since: MonoTime,
    },
    /// The relay said nothing to it. Some never do, and an OK can be lost: what is asked for next
    /// shows whether they know us.
    Presumed {
        id: EventId,
        since: MonoTime,
    },
    /// What was asked for next was refused: the OK is awaited after all, or a new challenge.
    Doubted {
        id: EventId,
        since: MonoTime,
        asked: MonoTime,
    },
    Accepted,
}

/// What the relay said to an AUTH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    /// It judged the answer to a challenge that it has replaced meanwhile.
    Outdated,
    Refused(Reason),
}

impl Auth {
    pub(super) fn new() -> Self {
        let minute = core::time::Duration::from_secs(60);
        Self {
            phase: Phase::Unasked,
            challenge: None,
            wanted: None,
            bucket: Bucket::new(CHALLENGES_PER_MINUTE, minute, CHALLENGES_PER_MINUTE),
        }
    }

    /// A socket has begun or ended: nothing of the last one counts.
    pub(super) fn reset(&mut self) {
        self.phase = Phase::Unasked;
        self.challenge = None;
        self.wanted = None;
    }

    pub(super) const fn is_accepted(&self) -> bool {
        matches!(self.phase, Phase::Accepted)
    }

    /// Whether the relay has asked, or has said that it will.
    pub(super) const fn is_under_way(&self) -> bool {
        self.challenge.is_some()
            || match self.phase {
                Phase::Unasked | Phase::Presumed { .. } | Phase::Accepted => false,
                Phase::Signing { .. }
                | Phase::Signed { .. }
                | Phase::Sent { .. }
                | Phase::Doubted { .. } => true,
            }
    }

    /// Whether subscriptions must wait for it.
    pub(super) const fn is_blocking(&self) -> bool {
        self.is_under_way() || self.wanted.is_some()
    }

    pub(super) fn challenged(&mut self, challenge: Arc<str>) {
        self.challenge = Some(challenge);
        self.wanted = None;
    }

    /// A frame was answered with `auth-required:`.
    pub(super) fn required(&mut self, now: MonoTime) {
        if let Phase::Presumed { id, since } = self.phase {
            let asked = now;
            self.phase = Phase::Doubted { id, since, asked };
            return;
        }
        if !self.is_under_way() && self.wanted.is_none() {
            self.wanted = Some(now);
        }
    }

    /// The AUTH event is signed. False when it is not awaited.
    pub(super) fn signed(&mut self, ticket: Ticket, event: &Event, now: MonoTime) -> bool {
        if !self.awaits(ticket) {
            return false;
        }
        let frame = crate::wire::auth(event.raw());
        self.phase = Phase::Signed {
            id: event.id(),
            frame,
            since: now,
        };
        true
    }

    pub(super) fn awaits(&self, signature: Ticket) -> bool {
        matches!(self.phase, Phase::Signing { ticket, .. } if ticket == signature)
    }

    /// An OK came; nothing when it answers something else.
    pub(super) fn answered(
        &mut self,
        id: EventId,
        accepted: bool,
        reason: &Reason,
    ) -> Option<Verdict> {
        let awaited = match self.phase {
            Phase::Sent { id, .. } | Phase::Presumed { id, .. } | Phase::Doubted { id, .. } => {
                Some(id)
            }
            Phase::Unasked | Phase::Signing { .. } | Phase::Signed { .. } | Phase::Accepted => None,
        };
        if awaited != Some(id) {
            return None;
        }
        let known = ReasonClass::AuthRequired(AuthReason::AlreadyAuthenticated);
        if accepted || reason.class == known {
            self.phase = Phase::Accepted;
            self.wanted = None;
            return Some(Verdict::Accepted);
        }
        self.phase = Phase::Unasked;
        if self.challenge.is_some() {
            return Some(Verdict::Outdated);
        }
        Some(Verdict::Refused(reason.clone()))
    }

    /// Signs the newest challenge. True when it did.
    pub(super) fn sign(
        &mut self,
        wall: Option<UnixTime>,
        tickets: &mut Ticket,
        now: &mut Now,
        out: &mut Vec<Action>,
    ) -> bool {
        let idle = !matches!(
            self.phase,
            Phase::Signing { .. } | Phase::Signed { .. } | Phase::Sent { .. }
        );
        let (Some(created_at), true, Some(_)) = (wall, idle, &self.challenge) else {
            return false;
        };
        if !self.bucket.take(now, Why::Bucket) {
            return false;
        }
        let Some(challenge) = self.challenge.take() else {
            return false;
        };
        let ticket = tickets.take();
        self.phase = Phase::Signing {
            ticket,
            since: now.time(),
        };
        out.push(Action::SignAuth {
            ticket,
            challenge,
            created_at,
        });
        true
    }

    /// The AUTH frame, once signed; it counts as sent from now on, by a write of its own.
    pub(super) fn send(&mut self, writes: &mut WriteId, now: MonoTime) -> Option<(WriteId, Bytes)> {
        let Phase::Signed { id, frame, .. } = &self.phase else {
            return None;
        };
        let (id, frame, write) = (*id, frame.clone(), writes.take());
        self.phase = Phase::Sent {
            id,
            frame: frame.clone(),
            write,
            since: now,
        };
        Some((write, frame))
    }

    /// A write broke before anything of it left: an AUTH frame goes again.
    pub(super) fn not_sent(&mut self, write: WriteId) {
        if let Phase::Sent {
            id,
            frame,
            write: sent,
            since,
        } = &self.phase
            && *sent == write
        {
            self.phase = Phase::Signed {
                id: *id,
                frame: frame.clone(),
                since: *since,
            };
        }
    }

    /// Goes on without an answer that is too long in coming. True when it did.
    pub(super) fn presume(&mut self, limits: &Limits, now: &mut Now) -> bool {
        let Phase::Sent { id, since, .. } = self.phase else {
            return false;
        };
        let late = now.reached(since.after(limits.challenge_again), Why::Auth);
        if late {
            self.phase = Phase::Presumed { id, since };
        }
        late
    }

    /// Whether a limit has passed.
    pub(super) fn is_overdue(&self, limits: &Limits, now: &mut Now) -> bool {
        let step = match &self.phase {
            Phase::Unasked | Phase::Presumed { .. } | Phase::Accepted => false,
            Phase::Signing { since, .. } => now.reached(since.after(limits.sign), Why::Sign),
            Phase::Signed { since, .. } | Phase::Sent { since, .. } => {
                now.reached(since.after(limits.auth), Why::Auth)
            }
            Phase::Doubted { since, asked, .. } => {
                let challenge = asked.after(limits.challenge_again);
                now.reached(since.after(limits.auth).max(challenge), Why::Auth)
            }
        };
        let wait = self.wanted.is_some_and(|since| {
            now.reached(since.after(limits.challenge_again), Why::NoChallenge)
        });
        step || wait
    }
}
