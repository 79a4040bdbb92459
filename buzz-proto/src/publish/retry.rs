//! What a job makes of an answer: another try now, after a rest, or its verdict.

use core::time::Duration;

use super::Verdict;
use super::settle::{Blame, Reading};

/// The rest before a refusal that may be about to change is tested again, doubled each time.
const REST_FIRST: Duration = Duration::from_secs(1);
const REST_TOP: Duration = Duration::from_secs(60);

/// What is remembered of a job's tries.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Times it was posted.
    pub(super) posts: u16,
    /// Whether it may be stored: it was sent, and what came back leaves that open.
    pub(super) is_doubtful: bool,
    /// How many jobs were stored when this one last failed.
    stored_before: u64,
    /// Failures counted against it.
    spent: u16,
    rests: u32,
    was_unauthorized: bool,
    was_replay: bool,
    was_forbidden: bool,
    was_misdated: bool,
}

/// What is to be done with a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It has its verdict.
    Settle(Verdict),
    /// It waits its turn.
    Again,
    /// It waits its turn, signed anew.
    SignAgain,
    /// It waits this long before it waits its turn.
    Rest(Duration),
}

/// What the decision depends on beside the answer and the job's own past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    /// Jobs stored so far.
    pub(super) stored: u64,
    /// Failures of its own that a job may have.
    pub(super) attempts_max: u16,
    /// Whether the event can be signed anew.
    pub(super) can_sign: bool,
    /// Whether the answer came over HTTP, where a gate makes the job wait.
    pub(super) is_gated: bool,
}

impl History {
    /// The past of a job that was just submitted.
    pub(super) fn new(stored: u64) -> Self {
        Self {
            stored_before: stored,
            ..Self::default()
        }
    }

    /// Counts a failure of the job's own: only if another job was stored since its last one, for
    /// then it is this job that fails and not the relay. Whether the job may try again.
    pub(super) const fn fail(&mut self, around: Around) -> bool {
        if around.stored > self.stored_before {
            self.spent = self.spent.saturating_add(1);
        }
        self.stored_before = around.stored;
        self.spent < around.attempts_max
    }

    /// Decides by an answer.
    pub(super) fn decide(&mut self, reading: Reading, around: Around) -> Next {
        match reading {
            Reading::Stored => Next::Settle(Verdict::Stored),
            Reading::Refused(reason) => Next::Settle(Verdict::Rejected { reason }),
            Reading::Lost => Next::Settle(Verdict::Unknown),
            Reading::NoRoute => Next::Again,
            Reading::NotSent => Next::Rest(REST_FIRST),
            Reading::Unauthorized { is_replay, reason } => {
                let before = if is_replay {
                    &mut self.was_replay
                } else {
                    &mut self.was_unauthorized
                };
                if core::mem::replace(before, true) {
                    return Next::Settle(Verdict::Rejected { reason });
                }
                Next::Again
            }
            Reading::Forbidden(reason) => {
                if core::mem::replace(&mut self.was_forbidden, true) {
                    return Next::Settle(Verdict::Rejected { reason });
                }
                Next::Rest(REST_FIRST)
            }
            Reading::Misdated(reason) => {
                // An event that may be stored keeps its id: with another it could be there twice.
                if self.is_doubtful {
                    return Next::Settle(Verdict::Unknown);
                }
                if !around.can_sign || core::mem::replace(&mut self.was_misdated, true) {
                    return Next::Settle(Verdict::Rejected { reason });
                }
                Next::SignAgain
            }
            Reading::Failed(failure) => {
                self.is_doubtful |= failure.is_doubtful;
                if failure.blame == Blame::Job && !self.fail(around) {
                    let rejected = Verdict::Rejected {
                        reason: failure.reason,
                    };
                    return Next::Settle(if self.is_doubtful {
                        Verdict::Unknown
                    } else {
                        rejected
                    });
                }
                if around.is_gated {
                    return Next::Again;
                }
                let rest = match failure.blame {
                    Blame::Circumstance => REST_FIRST,
                    Blame::Job => self.rest(),
                };
                Next::Rest(failure.hint.map_or(rest, |hint| hint.wait.max(rest)))
            }
        }
    }

    fn rest(&mut self) -> Duration {
        let factor = 1_u32.checked_shl(self.rests).unwrap_or(u32::MAX);
        self.rests = self.rests.saturating_add(1);
        REST_FIRST.saturating_mul(factor).min(REST_TOP)
    }
}
