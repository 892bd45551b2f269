//! The first half of the fused form: six queries times a block of keys, and the weights made of the scores while they are still
//! in registers.
//!
//! What is subtracted from the scores of a row need not be the largest of them: anything near it gives the same result. The
//! first tile that a row sees settles it, and later tiles keep it, so that no score is written, read again or compared. Where
//! that is no longer near enough, the sum of a tile's weights shows it; then this tile is taken again, and what was summed
//! before is corrected. Only where a weight is not a number does the caller take the block again by other means
//! ([`super::softmax::Strip`]), which knows what becomes of infinite scores.
#![allow(unsafe_code)]

use std::ops::Range;

use super::softmax::shift;
use crate::gemm::{Panels, ROWS, each_row, most_vectors, tile_products};
use crate::lanes::{Kernel, Simd};

/// Largest sum of the weights of one lane in a tile. An exponent is then at most 8, and its rounding 2.4e-7: less than that of
/// the score it is made of.
const MOST: f32 = 256.0;

/// The numbers of the lanes.
static LANES: [f32; 16] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

/// Weights of a strip of at most [`ROWS`] queries for a block of keys.
pub(super) struct Weigh<'a> {
    /// First query, and values from one to the next.
    pub(super) q: *const f32,
    pub(super) q_stride: usize,
    /// Values of a query.
    pub(super) head: usize,
    /// The keys, packed, and how many.
    pub(super) keys: &'a [f32],
    pub(super) count: usize,
    /// Keys of the block that each row sees, and the most of them.
    pub(super) visible: [usize; ROWS],
    pub(super) used: usize,
    /// Out: rows of weights, `stride` apart; whole vectors, zeros from what is visible on.
    pub(super) weights: &'a mut [f32],
    pub(super) stride: usize,
    /// The score that is subtracted from those of each row; -inf where none is settled.
    pub(super) top: &'a mut [f32],
    /// Sum of the weights of each row so far.
    pub(super) sum: &'a mut [f32],
    /// Out: what sums over values so far are to be multiplied by.
    pub(super) factors: &'a mut [f32; ROWS],
    /// Factor of the scores: log2 e / sqrt(head).
    pub(super) factor: f32,
}

/// What became of a strip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weighed {
    /// All factors are 1.
    Kept,
    /// Some are not.
    Corrected,
    /// Some weight is not a number, or there are too few registers; nothing but the weights was touched.
    Lost,
}

impl Kernel for Weigh<'_> {
    type Out = Weighed;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Weighed {
        if S::REGISTERS < 32 {
            // With tiles of a quarter of the size, what a tile costs is more than what this saves: 2 to 5 % slower.
            return Weighed::Lost;
        }
        match self.top.len() {
            1 => self.rows::<S, 1>(s),
            2 => self.rows::<S, 2>(s),
            3 => self.rows::<S, 3>(s),
            4 => self.rows::<S, 4>(s),
            5 => self.rows::<S, 5>(s),
            6 => self.rows::<S, 6>(s),
            rows => unreachable!("a strip of {rows} rows"),
        }
    }
}

/// What is known of `M` rows while they go through a block.
struct Rows<S: Simd, const M: usize> {
    top: [f32; M],
    shift: [f32; M],
    factors: [f32; M],
    sum: [S::F; M],
    /// Whether the next tile has a say in the tops.
    settle: bool,
    corrected: bool,
}

impl Weigh<'_> {
    #[inline(always)]
    fn rows<S: Simd, const M: usize>(mut self, s: S) -> Weighed {
        let most = const { most_vectors(S::REGISTERS) };
        let top: [f32; M] = std::array::from_fn(|i| self.top[i]);
        let mut rows = Rows::<S, M> {
            top,
            shift: top.map(|top| shift(top, self.factor)),
            factors: [1.0; M],
            sum: [s.splat(0.0); M],
            settle: top.contains(&f32::NEG_INFINITY),
            corrected: false,
        };
        assert!(self.weights.len() >= (M - 1) * self.stride + self.count.next_multiple_of(S::LANES));
        let mut at = 0;
        for panel in Panels::new(self.count, S::LANES, most) {
            if panel.first >= self.used {
                break;
            }
            let size = self.head * panel.vectors * S::LANES;
            let keys = &self.keys[at..at + size];
            at += size;
            loop {
                let near = match panel.vectors {
                    1 => self.tile::<S, M, 1>(s, keys, panel.first, &mut rows),
                    2 if most >= 2 => self.tile::<S, M, 2>(s, keys, panel.first, &mut rows),
                    3 if most >= 3 => self.tile::<S, M, 3>(s, keys, panel.first, &mut rows),
                    4 if most >= 4 => self.tile::<S, M, 4>(s, keys, panel.first, &mut rows),
                    vectors => unreachable!("a panel of {vectors} vectors"),
                };
                // Once more at most: what is settled by a tile is near enough for it.
                if near || rows.settle {
                    break;
                }
                rows.settle = true;
            }
            rows.settle = rows.top.contains(&f32::NEG_INFINITY);
        }
        let sum: [f32; M] = std::array::from_fn(|i| s.sum(rows.sum[i]));
        if sum.iter().any(|sum| sum.is_nan()) {
            return Weighed::Lost;
        }
        for (i, sum) in sum.into_iter().enumerate() {
            self.top[i] = rows.top[i];
            self.sum[i] = self.sum[i] * rows.factors[i] + sum;
            self.factors[i] = rows.factors[i];
        }
        if rows.corrected { Weighed::Corrected } else { Weighed::Kept }
    }

    /// `M` rows times `N` vectors of keys. False where the tops are too far below: then nothing but weights of this tile was
    /// written.
    #[inline(always)]
    fn tile<S: Simd, const M: usize, const N: usize>(
        &mut self,
        s: S,
        keys: &[f32],
        first: usize,
        rows: &mut Rows<S, M>,
    ) -> bool {
        assert!(keys.len() >= self.head * N * S::LANES);
        // SAFETY: `fused` promises that M queries of `head` values exist; so many steps of keys were just seen.
        let scores = unsafe { tile_products::<S, M, N>(s, self.q, self.q_stride, keys.as_ptr(), self.head) };
        if rows.settle {
            // By way of the place for the weights.
            each_row!(M, I => {
                let to = &mut self.weights[I * self.stride + first..][..N * S::LANES];
                for j in 0..N {
                    s.store(&mut to[j * S::LANES..], scores[I][j]);
                }
            });
            for i in 0..M {
                self.settle(s, i, first..first + N * S::LANES, rows);
            }
        }
        let mut sum = [s.splat(0.0); M];
        each_row!(M, I => sum[I] = self.row(s, I, scores[I], first, rows.shift[I]));
        let mut most = sum[0];
        for sum in &sum[1..] {
            most = s.max(most, *sum);
        }
        if s.any(s.lt(s.splat(MOST), most)) {
            return false;
        }
        for (sum, more) in rows.sum.iter_mut().zip(sum) {
            *sum = s.add(*sum, more);
        }
        true
    }

    /// Weights of a row of a tile; returns their sum.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "the vector is an index of more than one array")]
    fn row<S: Simd, const N: usize>(&mut self, s: S, i: usize, scores: [S::F; N], first: usize, shift: f32) -> S::F {
        let (factor, shift) = (s.splat(self.factor), s.splat(shift));
        let mut weights = scores;
        for j in 0..N {
            // Not fused, so that the top score itself has a weight of 1.
            weights[j] = s.near_exp2(s.sub(s.mul(scores[j], factor), shift));
        }
        let to = &mut self.weights[i * self.stride + first..][..N * S::LANES];
        if first + N * S::LANES <= self.visible[i] {
            let mut sum = weights[0];
            s.store(to, weights[0]);
            for j in 1..N {
                sum = s.add(sum, weights[j]);
                s.store(&mut to[j * S::LANES..], weights[j]);
            }
            return sum;
        }
        let mut sum = s.splat(0.0);
        for j in 0..N {
            let weight = s.select(seen(s, self.visible[i], first + j * S::LANES), weights[j], s.splat(0.0));
            sum = s.add(sum, weight);
            s.store(&mut to[j * S::LANES..], weight);
        }
        sum
    }

    /// Takes a row's top from the scores that stand in the place of its weights, where they are larger, and corrects what the
    /// block has of this row.
    #[inline(always)]
    fn settle<S: Simd, const M: usize>(&mut self, s: S, i: usize, tile: Range<usize>, rows: &mut Rows<S, M>) {
        let first = tile.start;
        let nothing = s.splat(f32::NEG_INFINITY);
        let mut top = nothing;
        for at in tile.step_by(S::LANES) {
            let scores = s.load(&self.weights[i * self.stride + at..]);
            top = s.max(s.select(seen(s, self.visible[i], at), scores, nothing), top);
        }
        let (before, top) = (rows.top[i], s.largest(top));
        if top <= before {
            return;
        }
        rows.top[i] = top;
        let old = std::mem::replace(&mut rows.shift[i], shift(top, self.factor));
        if before == f32::NEG_INFINITY {
            return;
        }
        rows.corrected = true;
        let factor = (old - rows.shift[i]).exp2();
        rows.factors[i] *= factor;
        rows.sum[i] = s.mul(rows.sum[i], s.splat(factor));
        for weights in self.weights[i * self.stride..][..first].chunks_exact_mut(S::LANES) {
            s.store(weights, s.mul(s.load(weights), s.splat(factor)));
        }
    }
}

/// Lanes of the vector of keys from `at` on that a row sees which sees the first `visible`.
#[inline(always)]
fn seen<S: Simd>(s: S, visible: usize, at: usize) -> S::M {
    s.lt(s.load(&LANES), s.splat(visible as f32 - at as f32))
}
