//! Random numbers that depend only on the area and the number of the try, so that a failure can be repeated.

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

/// A stream of random numbers.
pub(crate) struct Coin(ChaCha8Rng);

impl Coin {
    pub(crate) fn new(area: &str, seed: usize) -> Self {
        let start = area.bytes().fold(seed as u64, |sum, byte| sum.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte));
        Self(ChaCha8Rng::seed_from_u64(start))
    }

    /// A number below `end`, which is not zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end.max(1) as u64) as usize
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
