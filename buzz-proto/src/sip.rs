//! SipHash, a keyed hash for tables whose keys are chosen by others.
//!
//! Whoever can choose the keys of a table with a known hash can make all of them collide, and the
//! table slow. SipHash with a secret key forbids that (Aumasson and Bernstein, 2012); its 1-3 form
//! is enough for tables and costs half of the original 2-4.

use core::hash::{BuildHasher, Hasher};

use crate::seed::Seed;

/// Builds hashers with a key derived from the seed.
#[derive(Clone, Debug)]
pub struct KeyedState {
    key: [u64; 2],
}

impl KeyedState {
    /// The key is the same for the same seed.
    #[must_use]
    pub const fn new(seed: Seed) -> Self {
        Self {
            key: [seed.draw(0, 0), seed.draw(0, 1)],
        }
    }
}

impl BuildHasher for KeyedState {
    type Hasher = SipHasher<1, 3>;

    fn build_hasher(&self) -> Self::Hasher {
        SipHasher::new(self.key)
    }
}

/// SipHash-C-D: C rounds for each word, D at the end.
#[derive(Clone, Debug)]
pub struct SipHasher<const C: usize, const D: usize> {
    v: [u64; 4],
    /// Bytes that do not fill a word yet, the first lowest.
    tail: u64,
    length: u64,
}

impl<const C: usize, const D: usize> SipHasher<C, D> {
    /// A hasher with a 128-bit key, low word first.
    #[must_use]
    pub const fn new([low, high]: [u64; 2]) -> Self {
        Self {
            v: [
                low ^ 0x736f_6d65_7073_6575,
                high ^ 0x646f_7261_6e64_6f6d,
                low ^ 0x6c79_6765_6e65_7261,
                high ^ 0x7465_6462_7974_6573,
            ],
            tail: 0,
            length: 0,
        }
    }

    fn absorb(&mut self, word: u64) {
        let [v0, v1, v2, v3] = self.v;
        let [v0, v1, v2, v3] = rounds::<C>([v0, v1, v2, v3 ^ word]);
        self.v = [v0 ^ word, v1, v2, v3];
    }
}

impl<const C: usize, const D: usize> Hasher for SipHasher<C, D> {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let place = self.length % 8;
            self.tail |= u64::from(*byte) << place.wrapping_mul(8);
            self.length = self.length.wrapping_add(1);
            if place == 7 {
                self.absorb(self.tail);
                self.tail = 0;
            }
        }
    }

    fn finish(&self) -> u64 {
        let mut last = self.clone();
        last.absorb(self.length << 56 | self.tail);
        let [v0, v1, v2, v3] = last.v;
        let [v0, v1, v2, v3] = rounds::<D>([v0, v1, v2 ^ 0xff, v3]);
        v0 ^ v1 ^ v2 ^ v3
    }
}

fn rounds<const N: usize>(v: [u64; 4]) -> [u64; 4] {
    let [mut v0, mut v1, mut v2, mut v3] = v;
    for _ in 0..N {
        v0 = v0.wrapping_add(v1);
        v2 = v2.wrapping_add(v3);
        v1 = v1.rotate_left(13) ^ v0;
        v3 = v3.rotate_left(16) ^ v2;
        v0 = v0.rotate_left(32);
        v2 = v2.wrapping_add(v1);
        v0 = v0.wrapping_add(v3);
        v1 = v1.rotate_left(17) ^ v2;
        v3 = v3.rotate_left(21) ^ v0;
        v2 = v2.rotate_left(32);
    }
    [v0, v1, v2, v3]
}

#[cfg(test)]
mod tests {
    use core::hash::Hasher as _;
    use std::hash::DefaultHasher;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn the_2_4_form_agrees_with_the_standard_library_under_any_key() {
        for length in 0..64_u8 {
            let bytes: Vec<u8> = (0..length).collect();
            let key = [0x0706_0504_0302_0100, u64::from(length)];
            let mut ours = SipHasher::<2, 4>::new(key);
            #[expect(deprecated, reason = "the only SipHash that takes a key there")]
            let mut theirs = core::hash::SipHasher::new_with_keys(key[0], key[1]);
            ours.write(&bytes);
            theirs.write(&bytes);
            assert_eq!(ours.finish(), theirs.finish());
        }
    }

    #[test]
    fn the_1_3_form_agrees_with_the_standard_library_under_the_key_of_zeros() {
        for length in 0..64_u8 {
            let bytes: Vec<u8> = (0..length).collect();
            let mut ours = SipHasher::<1, 3>::new([0, 0]);
            let mut theirs = DefaultHasher::new();
            for part in bytes.chunks(5) {
                ours.write(part);
            }
            theirs.write(&bytes);
            assert_eq!(ours.finish(), theirs.finish());
        }
    }
}
