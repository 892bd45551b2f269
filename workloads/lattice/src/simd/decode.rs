//! Decoding: with a table of a level's points if it stays in the cache, else with lane arithmetic.

use ellwand_core::InputError;

use super::kind::{Kind, Steps};
use super::lanes::Lanes;
use crate::bits::BitReader;
use crate::params::Codec;
use crate::scalar_decode::{Request, read_and_look_up};

/// Vectors unpacked at a time.
pub(super) const CHUNK: usize = 256;
/// Largest number of lanes.
const WIDEST: usize = 16;

/// Layout of the unpacked codes of a chunk.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Layout {
    /// One word per vector holds all levels.
    Word,
    /// Two rows per level: the low and the high half of the digits (q a power of two).
    Halves,
    /// D/2 rows of digit pairs per level, the last pair first (q not a power of two).
    Pairs,
}

impl Layout {
    fn rows(self, codec: &Codec) -> usize {
        match self {
            Layout::Word => 1,
            Layout::Halves => 2 * codec.levels(),
            Layout::Pairs => codec.levels() * codec.dimension() / 2,
        }
    }
}

/// Unpacks `n` vectors of at most 32 bits into a word each, and checks their indices; `first` is the number of the first.
#[inline(always)]
fn unpack_words(codec: &Codec, from: &[u8], first: usize, n: usize, words: &mut [u32]) -> Result<(), InputError> {
    let (bits, level_bits) = (codec.vector_bits(), codec.level_bits());
    let limit = codec.level_points();
    match bits {
        8 => words.iter_mut().zip(&from[..n]).for_each(|(w, &p)| *w = u32::from(p)),
        16 => {
            for (w, p) in words.iter_mut().zip(&from[..2 * n].as_chunks().0[..n]) {
                *w = u32::from(u16::from_le_bytes(*p));
            }
        }
        32 => {
            for (w, p) in words.iter_mut().zip(&from[..4 * n].as_chunks().0[..n]) {
                *w = u32::from_le_bytes(*p);
            }
        }
        _ => {
            // Eight bytes hold any vector of at most 32 bits wherever it starts, and unlike in a bit reader, the
            // loads are independent.
            let mask = (1u64 << bits) - 1;
            let safe = if from.len() < 8 { 0 } else { ((from.len() - 8) * 8 / bits + 1).min(n) };
            for (v, word) in words[..safe].iter_mut().enumerate() {
                let at = v * bits;
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&from[at / 8..at / 8 + 8]);
                *word = (u64::from_le_bytes(bytes) >> (at % 8) & mask) as u32;
            }
            let mut reader = BitReader::starting_at(from, safe * bits);
            for word in &mut words[safe..n] {
                *word = reader.get(bits as u32) as u32;
            }
        }
    }
    if !limit.is_power_of_two() {
        let mask = (1u64 << level_bits) - 1;
        for level in 0..codec.levels() {
            let index = |w: u32| u64::from(w) >> (level as u32 * level_bits) & mask;
            let largest = words[..n].iter().fold(0, |largest, &w| index(w).max(largest));
            if u128::from(largest) >= limit {
                let v = words[..n].iter().position(|&w| index(w) == largest).unwrap_or(0);
                return Err(codec.invalid_index(first + v, level, largest));
            }
        }
    }
    Ok(())
}

/// Unpacks vectors `first..first + n` and checks that every index is valid.
#[inline(always)]
pub(super) fn unpack(
    codec: &Codec,
    layout: Layout,
    request: &Request<'_>,
    first: usize,
    n: usize,
    words: &mut [u32],
) -> Result<(), InputError> {
    let (bits, level_bits) = (codec.vector_bits(), codec.level_bits());
    let limit = codec.level_points();
    let complete = limit.is_power_of_two();
    let from = &request.packed[first * bits / 8..];
    if layout == Layout::Word {
        return unpack_words(codec, from, request.first + first, n, words);
    }
    let mut reader = BitReader::new(from);
    let q = u64::from(codec.q());
    let rows = layout.rows(codec) / codec.levels();
    for v in 0..n {
        for level in 0..codec.levels() {
            let index = reader.get(level_bits);
            if !complete && u128::from(index) >= limit {
                return Err(codec.invalid_index(request.first + first + v, level, index));
            }
            let mut put = |row: usize, value: u64| words[(level * rows + row) * CHUNK + v] = value as u32;
            match layout {
                Layout::Word => put(0, index),
                Layout::Halves => {
                    let half = 4 * q.trailing_zeros();
                    put(0, index & ((1 << half) - 1));
                    put(1, index >> half);
                }
                Layout::Pairs => {
                    let mut rest = index;
                    for row in 0..rows {
                        put(row, rest % (q * q));
                        rest /= q * q;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Decodes whole vectors; arguments are already checked.
#[inline(always)]
pub(super) fn decode<S: Lanes, K: Kind<D>, const D: usize, const POW2: bool>(
    s: S,
    codec: &Codec,
    request: &Request<'_>,
    out: &mut [f32],
) -> Result<(), InputError> {
    // With a table `POW2` makes no difference. Passing true compiles half as many copies.
    let table = if POW2 { codec.level_table() } else { None };
    let narrow = codec.vector_bits() <= 32;
    let layout = match (narrow, table.is_some(), POW2) {
        (true, true, _) | (true, false, true) => Layout::Word,
        // Reading bits takes longer than looking up, so one pass does both.
        (false, true, _) => return read_and_look_up::<D>(codec, request, out),
        (false, false, true) => Layout::Halves,
        (_, false, false) => Layout::Pairs,
    };
    let mut short = [0u32; CHUNK];
    let mut long = if layout == Layout::Word { Vec::new() } else { vec![0u32; layout.rows(codec) * CHUNK] };
    let words = if layout == Layout::Word { &mut short[..] } else { &mut long[..] };
    let steps = Steps::new(s, codec.q(), K::SCALE);
    for (c, out) in out.chunks_mut(CHUNK * D).enumerate() {
        let (first, n) = (c * CHUNK, out.len() / D);
        unpack(codec, layout, request, first, n, words)?;
        let retries = request.retries.map(|t| &t[first..first + n]);
        let chunk = Chunk { codec, words, retries, dropped: codec.levels() - request.depth };
        match table {
            Some(table) => match (layout, request.depth) {
                (Layout::Word, 1) => chunk.look_up::<D, 1>(table, out),
                (Layout::Word, 2) => chunk.look_up::<D, 2>(table, out),
                (Layout::Word, 3) => chunk.look_up::<D, 3>(table, out),
                _ => chunk.look_up::<D, 0>(table, out),
            },
            None => {
                let blocks = out.chunks_mut(S::LANES * D);
                for (b, out) in blocks.enumerate() {
                    let at = b * S::LANES;
                    let y = chunk.block::<S, K, D, POW2>(s, &steps, layout, at);
                    chunk.finish::<S, K, D>(s, y, at, out);
                }
            }
        }
    }
    Ok(())
}

/// A chunk being decoded.
struct Chunk<'a> {
    codec: &'a Codec,
    words: &'a [u32],
    retries: Option<&'a [u8]>,
    /// Number of finest levels to skip.
    dropped: usize,
}

/// How a word is decoded by table.
struct Digits<'a, const D: usize> {
    /// The point of each bit pattern of an index.
    table: &'a [f32],
    /// Power of q for each level, innermost first.
    weights: &'a [f32],
    shift: [f32; D],
    /// First bit of the first level, and bits of each.
    first: u32,
    bits: u32,
    mask: usize,
}

impl<const D: usize> Digits<'_, D> {
    /// Always inlined: a copy outside the loop would be compiled without the loop's instruction set.
    #[inline(always)]
    fn point(&self, word: u32, scale: f32, out: &mut [f32; D]) {
        let mut sum = [0.0f32; D];
        for (i, &weight) in self.weights.iter().enumerate() {
            let index = (word >> (self.first + i as u32 * self.bits)) as usize & self.mask;
            // SAFETY: index <= mask, and the table holds (mask + 1) * D values.
            let point = unsafe { &*self.table.as_ptr().add(index * D).cast::<[f32; D]>() };
            for k in 0..D {
                // Exact: integers or half-integers far below 2^24.
                sum[k] += weight * point[k];
            }
        }
        for k in 0..D {
            out[k] = (sum[k] - self.shift[k]) * scale;
        }
    }
}

impl Chunk<'_> {
    /// Sums table entries for `DEPTH` levels, or any number if it is 0.
    #[inline(always)]
    fn look_up<const D: usize, const DEPTH: usize>(&self, table: &[f32], out: &mut [f32]) {
        let codec = self.codec;
        let bits = codec.level_bits();
        let mask = ((1u64 << bits) - 1) as usize;
        assert_eq!(table.len(), (mask + 1) * D, "one point for every bit pattern of an index");
        // The loops read slices of equal length, and everything that depends on the options is looked up first: otherwise
        // each vector would pay for bounds checks and a branch.
        let mut shift = [0.0; D];
        shift.copy_from_slice(&codec.shift()[..D]);
        let mut weights = [1.0f32; 20];
        for m in 1..codec.levels() {
            weights[m] = weights[m - 1] * codec.q() as f32;
        }
        let depth = if DEPTH == 0 { codec.levels() - self.dropped } else { DEPTH };
        let weights = &weights[self.dropped..][..depth];
        let digits = Digits { table, weights, shift, first: self.dropped as u32 * bits, bits, mask };
        let scales = codec.scales();
        let vectors = out.as_chunks_mut::<D>().0.iter_mut().zip(self.words);
        match self.retries {
            Some(retries) => {
                for ((out, &word), &t) in vectors.zip(retries) {
                    digits.point(word, scales[usize::from(t)], out);
                }
            }
            None => {
                let scale = scales[0];
                for (out, &word) in vectors {
                    digits.point(word, scale, out);
                }
            }
        }
    }

    /// The sum of q^m y_m for the block of vectors at `at`, in the lane order of the vector unit.
    #[inline(always)]
    fn block<S: Lanes, K: Kind<D>, const D: usize, const POW2: bool>(
        &self,
        s: S,
        steps: &Steps<S>,
        layout: Layout,
        at: usize,
    ) -> [S::I; D] {
        let levels = self.codec.levels();
        let row = |row: usize| s.shuffled::<D>(s.load(&self.words[row * CHUNK + at..]));
        let mut sum = [s.splat(0); D];
        // From the coarsest level down, by Horner's rule.
        for m in (self.dropped..levels).rev() {
            let mut digits = [s.splat(0); D];
            if POW2 {
                let (mut low, high) = if layout == Layout::Word {
                    (s.shr(row(0), m as u32 * self.codec.level_bits()), None)
                } else {
                    (row(2 * m), Some(row(2 * m + 1)))
                };
                for k in (0..D).rev() {
                    if k == 3 && D == 8 {
                        low = high.unwrap_or(low);
                    }
                    digits[k] = s.and(low, steps.mask);
                    low = s.shr(low, steps.log_q);
                }
            } else {
                for pair in 0..D / 2 {
                    let value = row(m * D / 2 + pair);
                    let last = steps.digit::<false>(s, value);
                    let whole = s.float(s.sub(value, last));
                    digits[D - 1 - 2 * pair] = last;
                    // An exact multiple of q below 2^16, so the rounded quotient is exact.
                    digits[D - 2 - 2 * pair] = s.round(s.mul_f(whole, steps.inverse_q));
                }
            }
            let mut g = K::combine(s, &digits);
            let mut y = [s.splat(0); D];
            for k in 0..D {
                (g[k], y[k]) = steps.divide::<POW2>(s, g[k]);
            }
            K::settle(s, &mut g, &mut y, steps.unit);
            for k in 0..D {
                let raised = if POW2 { s.shl(sum[k], steps.log_q) } else { s.mul(sum[k], steps.q) };
                sum[k] = s.add(raised, y[k]);
            }
        }
        for sum in &mut sum {
            for _ in 0..self.dropped {
                *sum = if POW2 { s.shl(*sum, steps.log_q) } else { s.mul(*sum, steps.q) };
            }
        }
        sum
    }

    /// Halves, un-centres, scales and stores a block; the last one may be incomplete.
    #[inline(always)]
    fn finish<S: Lanes, K: Kind<D>, const D: usize>(&self, s: S, sum: [S::I; D], at: usize, out: &mut [f32]) {
        let scales = self.codec.scales();
        let unit = s.splat_f(1.0 / K::SCALE as f32);
        let mut lanes = [s.splat_f(0.0); D];
        for k in 0..D {
            let moved = s.sub_f(s.mul_f(s.float(sum[k]), unit), s.splat_f(self.codec.shift()[k]));
            lanes[k] = if self.retries.is_some() { moved } else { s.mul_f(moved, s.splat_f(scales[0])) };
        }
        if out.len() == S::LANES * D {
            K::store(s, lanes, out);
        } else {
            let mut padded = [0.0; WIDEST * 8];
            K::store(s, lanes, &mut padded);
            out.copy_from_slice(&padded[..out.len()]);
        }
        if let Some(retries) = self.retries {
            for (vector, &t) in out.chunks_exact_mut(D).zip(&retries[at..]) {
                vector.iter_mut().for_each(|x| *x *= scales[usize::from(t)]);
            }
        }
    }
}
