//! The seed of a machine, and jitter as a keyed hash of it.
//!
//! There is no generator with state: a draw is a function of (seed, key, attempt), so that a new
//! draw in one place cannot shift another, and a trace replays to the same waits.

use core::time::Duration;

use serde::{Deserialize, Serialize};

/// Where jitter comes from. Not a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// A seed for a part of the machine, independent of its siblings.
    #[must_use]
    pub const fn derive(self, label: u64) -> Self {
        Self(mix(self.0 ^ mix(label)))
    }

    /// A number drawn evenly from all 64-bit numbers, the same for the same arguments.
    #[must_use]
    pub const fn draw(self, key: u64, attempt: u64) -> u64 {
        mix(mix(self.0 ^ mix(key)) ^ attempt)
    }

    /// A span drawn from `low` to `high`, both included, to the nanosecond.
    /// `high` below `low` reads as `low`; spans above 584 years read as that.
    #[must_use]
    pub fn between(self, key: u64, attempt: u64, low: Duration, high: Duration) -> Duration {
        let low_nanos = u64::try_from(low.as_nanos()).unwrap_or(u64::MAX);
        let high_nanos = u64::try_from(high.as_nanos()).unwrap_or(u64::MAX);
        let width = high_nanos.saturating_sub(low_nanos);
        let draw = self.draw(key, attempt);
        let extra = width
            .checked_add(1)
            .map_or(draw, |sides| draw.checked_rem(sides).unwrap_or(0));
        Duration::from_nanos(low_nanos.saturating_add(extra))
    }
}

/// SplitMix64's finaliser: every input bit moves every output bit.
const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_stays_within_its_bounds_and_repeats() {
        let seed = Seed(7);
        let (low, high) = (Duration::from_millis(500), Duration::from_millis(1500));
        for attempt in 0..10_000 {
            let wait = seed.between(1, attempt, low, high);
            assert!(low <= wait && wait <= high);
            assert_eq!(wait, seed.between(1, attempt, low, high));
        }
        assert_eq!(seed.between(1, 1, high, low), high);
    }

    #[test]
    fn keys_attempts_and_seeds_draw_apart() {
        let seed = Seed(7);
        assert_ne!(seed.draw(1, 1), seed.draw(2, 1));
        assert_ne!(seed.draw(1, 1), seed.draw(1, 2));
        assert_ne!(seed.draw(1, 1), Seed(8).draw(1, 1));
        assert_ne!(seed.derive(1), seed.derive(2));
    }
}
