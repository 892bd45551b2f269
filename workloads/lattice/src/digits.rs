//! Codes as plain digits, u8 [N, M, d]: level 0 (the finest) first, coordinate order within a level.

use ellwand_core::InputError;

use super::bits::{BitReader, BitWriter};
use super::params::{Codec, length};

impl Codec {
    /// Unpacks the codes of `n` vectors into digits.
    ///
    /// # Errors
    /// If the packed codes have the wrong length or hold an invalid index.
    pub fn digits(&self, packed: &[u8], n: usize) -> Result<Vec<u8>, InputError> {
        length("packed", packed.len(), self.packed_len(n), "pass the packed codes of exactly n vectors")?;
        let (d, levels, q) = (self.dimension(), self.levels(), u64::from(self.q()));
        let mut digits = vec![0; n * levels * d];
        let mut reader = BitReader::new(packed);
        for (row, digits) in digits.chunks_exact_mut(d).enumerate() {
            let index = reader.get(self.level_bits());
            if u128::from(index) >= self.level_points() {
                return Err(self.invalid_index(row / levels, row % levels, index));
            }
            let mut rest = index;
            for digit in digits.iter_mut().rev() {
                *digit = (rest % q) as u8;
                rest /= q;
            }
        }
        Ok(digits)
    }

    /// Packs digits.
    ///
    /// # Errors
    /// If the digits are not whole vectors, or one is not below q.
    pub fn pack(&self, digits: &[u8]) -> Result<Vec<u8>, InputError> {
        let (d, levels, q) = (self.dimension(), self.levels(), u64::from(self.q()));
        let vector = d * levels;
        length("digits", digits.len(), digits.len().next_multiple_of(vector), "pass digits of shape [N, M, d]")?;
        if let Some(at) = digits.iter().position(|&digit| u64::from(digit) >= q) {
            let problem = format!("digit {} of vector {} is not below q = {q}", digits[at], at / vector);
            return Err(InputError::new("digits", problem, "the digits that encoding wrote, with the same q"));
        }
        let mut packed = vec![0; self.packed_len(digits.len() / vector)];
        let mut writer = BitWriter::new(&mut packed);
        for row in digits.chunks_exact(d) {
            let index = row.iter().fold(0, |index, &digit| index * q + u64::from(digit));
            writer.put(index, self.level_bits());
        }
        writer.finish();
        Ok(packed)
    }
}
