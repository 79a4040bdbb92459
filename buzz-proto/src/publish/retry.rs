//! What a job makes of an answer: another try now, after a rest, or its verdict.

use core::time::Duration;

use super::Verdict;
use super::settle::{Blame, Failure, Found, Reading};
use crate::wire::Reason;

/// The rest before a refusal that may be about to change is tested again, doubled each time.
const REST_FIRST: Duration = Duration::from_secs(1);
const REST_TOP: Duration = Duration::from_secs(60);
/// Look-ups in a row that may fail before the same event is sent again without one, which is
/// harmless; a relay that answers posts but no queries would hold the job up for ever.
const LOOK_UPS_MAX: u8 = 3;

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
    /// Look-ups that failed since it was last sent.
    look_ups: u8,
    /// The refusal that waits for a look-up: the date is too far off, but it may be stored.
    misdated: Option<Reason>,
    /// Why the relay did not take it, in its words, when it was last sent.
    refusal: Option<Reason>,
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
    /// The relay is asked whether it is stored.
    LookUp,
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
    /// Whether the relay can be asked for the event.
    pub(super) can_look_up: bool,
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

    /// It is sent once more: what came of it before is of the past.
    pub(super) fn begin(&mut self) {
        self.look_ups = 0;
    }

    /// Whether a look-up is worth trying.
    pub(super) const fn may_look_up(&self) -> bool {
        self.is_doubtful && self.look_ups < LOOK_UPS_MAX
    }

    /// The verdict of a job whose time is over: not known when it may be stored, else what the relay
    /// said last, if that was about this job.
    pub(super) fn verdict_when_late(&mut self) -> Verdict {
        if self.is_doubtful {
            return Verdict::Unknown;
        }
        let refusal = self.refusal.take();
        refusal.map_or(Verdict::Expired, |reason| Verdict::Rejected { reason })
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
                self.refusal = Some(reason);
                Next::Again
            }
            Reading::Forbidden(reason) => {
                if core::mem::replace(&mut self.was_forbidden, true) {
                    return Next::Settle(Verdict::Rejected { reason });
                }
                self.refusal = Some(reason);
                Next::Rest(REST_FIRST)
            }
            // An event that may be stored keeps its id: with another it could be there twice.
            Reading::Misdated(reason) if self.is_doubtful => {
                if !around.can_look_up {
                    return Next::Settle(Verdict::Unknown);
                }
                self.misdated = Some(reason);
                Next::LookUp
            }
            Reading::Misdated(reason) => self.misdate(reason, around),
            Reading::Failed(failure) => self.failed(failure, around),
        }
    }

    /// Decides by what came of a look-up.
    pub(super) fn decide_found(&mut self, found: Found, around: Around) -> Next {
        match found {
            Found::Stored => Next::Settle(Verdict::Stored),
            Found::Missing => {
                self.is_doubtful = false;
                match self.misdated.take() {
                    Some(reason) => self.misdate(reason, around),
                    None if around.can_sign => Next::SignAgain,
                    None => Next::Again,
                }
            }
            Found::Failed(failure) => {
                if failure.blame == Blame::Job && !self.fail(around) {
                    return Next::Settle(Verdict::Unknown);
                }
                self.look_ups = self.look_ups.saturating_add(1);
                if self.look_ups < LOOK_UPS_MAX || self.misdated.is_some() {
                    return Next::LookUp;
                }
                Next::Again
            }
            Found::Unauthorized => {
                self.look_ups = self.look_ups.saturating_add(1);
                if self.look_ups < LOOK_UPS_MAX {
                    return Next::LookUp;
                }
                self.without_look_up()
            }
            Found::NoRoute => self.without_look_up(),
        }
    }

    /// What becomes of a job that waits for a look-up when there is none.
    pub(super) const fn without_look_up(&self) -> Next {
        if self.misdated.is_some() {
            return Next::Settle(Verdict::Unknown);
        }
        Next::Again
    }

    /// The date is too far off, and the event is known not to be stored.
    fn misdate(&mut self, reason: Reason, around: Around) -> Next {
        if !around.can_sign || core::mem::replace(&mut self.was_misdated, true) {
            return Next::Settle(Verdict::Rejected { reason });
        }
        Next::SignAgain
    }

    fn failed(&mut self, failure: Failure, around: Around) -> Next {
        let is_unanswered = failure.is_doubtful;
        self.is_doubtful |= is_unanswered;
        self.refusal = None;
        if failure.blame == Blame::Job {
            if !self.fail(around) {
                return Next::Settle(if self.is_doubtful {
                    Verdict::Unknown
                } else {
                    Verdict::Rejected {
                        reason: failure.reason,
                    }
                });
            }
            self.refusal = (!is_unanswered).then_some(failure.reason);
        }
        if around.is_gated {
            return Next::Again;
        }
        // A relay that takes it and says nothing is asked ever less often.
        let rest = if failure.blame == Blame::Job || is_unanswered {
            self.rest()
        } else {
            REST_FIRST
        };
        Next::Rest(failure.hint.map_or(rest, |hint| hint.wait.max(rest)))
    }

    fn rest(&mut self) -> Duration {
        let factor = 1_u32.checked_shl(self.rests).unwrap_or(u32::MAX);
        self.rests = self.rests.saturating_add(1);
        REST_FIRST.saturating_mul(factor).min(REST_TOP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::settle::Failure;
    use crate::wire::Reason;

    fn around(stored: u64) -> Around {
        Around {
            stored,
            attempts_max: 3,
            can_sign: true,
            can_look_up: true,
            is_gated: true,
        }
    }

    fn failed(blame: Blame) -> Reading {
        let reason = Reason::new("error: no");
        Reading::Failed(Failure {
            hint: None,
            is_doubtful: false,
            blame,
            reason,
        })
    }

    #[test]
    fn a_failure_is_spent_only_if_another_job_was_stored_since_the_last_one() {
        let mut history = History::new(5);
        for stored in [5, 5, 6, 6, 6, 9, 9] {
            assert_eq!(
                history.decide(failed(Blame::Job), around(stored)),
                Next::Again
            );
        }
        assert_eq!(
            history.decide(failed(Blame::Circumstance), around(12)),
            Next::Again
        );
        let last = history.decide(failed(Blame::Job), around(12));
        let reason = Reason::new("error: no");
        assert_eq!(last, Next::Settle(Verdict::Rejected { reason }));
    }

    #[test]
    fn rests_outside_the_gate_double_up_to_a_minute() {
        let mut history = History::new(0);
        let on_socket = Around {
            is_gated: false,
            ..around(0)
        };
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let rest = Next::Rest(Duration::from_secs(seconds));
            assert_eq!(history.decide(failed(Blame::Job), on_socket), rest);
        }
        for _ in 0..100 {
            let rest = history.decide(failed(Blame::Job), on_socket);
            assert_eq!(rest, Next::Rest(Duration::from_secs(60)));
        }
    }
}
