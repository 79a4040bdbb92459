//! What several suites share; the suites themselves stand in `tests/`.

use quickcheck::{Gen, QuickCheck, Testable};

/// Runs a property on 300 inputs that follow from `seed`, so that each run is the same run.
///
/// # Panics
/// When the property does not hold, with the input that shows it.
pub fn check<P: Testable>(seed: u64, property: P) {
    QuickCheck::new()
        .rng(Gen::from_size_and_seed(80, seed))
        .tests(300)
        .quickcheck(property);
}
