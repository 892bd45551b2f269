//! Random numbers that depend on the area and the number of the try alone, so that a failure can be repeated.

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

    /// The bytes with one to three changes.
    pub(crate) fn damage(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            let end = (at + 1 + self.below(16)).min(bytes.len());
            match self.below(6) {
                0 | 1 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                2 => bytes.truncate(at),
                3 => drop(bytes.drain(at..end)),
                4 => drop(bytes.splice(at..at, b"\x1b[2J99999999999".iter().copied())),
                _ => bytes[at..end].iter_mut().for_each(|byte| *byte = self.0.next_u32() as u8),
            }
        }
        bytes
    }
}
