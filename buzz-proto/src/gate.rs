//! The gate of one quota: a refusal shuts it for everybody, and what is waiting waits together.
//!
//! A gate is open, or shut until an instant. Everything sent through it carries the generation at
//! which it was sent; the generation moves when the gate opens. So the answers to a burst that was
//! under way when the gate shut are told apart from answers to what was sent after it opened: the
//! burst counts as one refusal, however many of its frames are refused.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::Ladder;
use crate::seed::Seed;
use crate::time::{MonoTime, Now, Why};

/// The wait when a refusal names none: shorter would ask many times within one quota window of a
/// minute, longer would idle after a passing fault.
const WAIT_WITHOUT_HINT: Duration = Duration::from_secs(5);
/// No refusal shuts the gate for longer, so that a wrong hint cannot silence an agent for hours.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// The least put on top of a wait: hints are whole seconds and may have been rounded down, and a
/// probe sent too early only renews the refusal.
const EXTRA_MIN: Duration = Duration::from_millis(500);
/// The most put on top of a short wait; a long one is spread over a fifth of itself, so that
/// agents refused together do not come back together.
const EXTRA_MAX_SHORT: Duration = Duration::from_millis(1500);
/// The ladder for refusals in a row.
const RUNG_FIRST: Duration = Duration::from_secs(1);
const RUNG_TOP: Duration = Duration::from_secs(60);

/// How often a gate has opened. Stamped on each call when it is sent.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Generation(pub u64);

/// What a refusal did to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The first refusal since the gate opened: the ladder was climbed.
    Counted,
    /// A refusal of a burst already counted, with a hint that moved the deadline.
    Lengthened,
    /// A refusal of a burst already counted, which says nothing more.
    Known,
}

/// One quota's gate. It outlives sockets: a quota is counted by the relay, not by the connection.
#[derive(Clone, Debug)]
pub struct Gate {
    seed: Seed,
    generation: Generation,
    until: Option<MonoTime>,
    /// Whether a refusal of the present generation has climbed the ladder.
    counted: bool,
    ladder: Ladder,
}

impl Gate {
    /// An open gate. Gates of one machine need seeds of their own, see [`Seed::derive`].
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self {
            seed,
            generation: Generation::default(),
            until: None,
            counted: false,
            ladder: Ladder::new(RUNG_FIRST, RUNG_TOP),
        }
    }

    /// A call sent at the generation `sent` was refused at `now`, with the relay's `hint` if it
    /// gave one.
    ///
    /// The first refusal of a generation shuts the gate for w + j. w is the longest of the hint
    /// (5 s without one) and the rung (1 s, doubling to 60 s), at most 300 s; j is drawn from
    /// 0.5 s to the larger of 1.5 s and w/5. Any other refusal can only lengthen, by its hint.
    /// The later deadline wins. A hint shuts the gate even when it comes late and finds it open.
    pub fn refuse(&mut self, hint: Option<Duration>, sent: Generation, now: MonoTime) -> Refusal {
        if sent == self.generation && !self.counted {
            self.counted = true;
            let rung = self.ladder.climb();
            self.shut(hint.unwrap_or(WAIT_WITHOUT_HINT).max(rung), now);
            return Refusal::Counted;
        }
        match hint {
            Some(hint) if self.shut(hint, now) => Refusal::Lengthened,
            Some(_) | None => Refusal::Known,
        }
    }

    /// Whether calls may be sent. A shut gate arms the wake for its opening.
    pub fn is_open(&mut self, now: &mut Now) -> bool {
        let Some(until) = self.until else {
            return true;
        };
        if !now.reached(until, Why::Gate) {
            return false;
        }
        self.until = None;
        self.counted = false;
        self.generation.0 = self.generation.0.wrapping_add(1);
        true
    }

    /// The stamp for a call sent now. Read it after [`is_open`](Self::is_open).
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// A call sent at the generation `sent` was accepted. The ladder goes back to its first rung,
    /// unless the call is older than the last opening and so proves nothing about the present.
    pub fn succeed(&mut self, sent: Generation) {
        if sent == self.generation {
            self.ladder.reset();
        }
    }

    /// When it opens; nothing while it is open.
    #[must_use]
    pub const fn until(&self) -> Option<MonoTime> {
        self.until
    }

    /// Refusals in a row.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.ladder.attempt()
    }

    /// Shuts the gate for `wait` and the extra, unless it already is for longer. Whether the
    /// deadline moved.
    fn shut(&mut self, wait: Duration, now: MonoTime) -> bool {
        let wait = wait.min(WAIT_MAX);
        let fifth = wait.checked_div(5).unwrap_or_default();
        // One draw per generation: with one per refusal the latest of a burst would win, and
        // agents with large bursts would gather at the upper end.
        let attempt = self.generation.0;
        let extra = self
            .seed
            .between(0, attempt, EXTRA_MIN, fifth.max(EXTRA_MAX_SHORT));
        let until = Some(now.after(wait.saturating_add(extra)));
        let moved = until > self.until;
        if moved {
            self.until = until;
        }
        moved
    }
}
