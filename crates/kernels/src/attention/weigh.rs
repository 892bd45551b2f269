//! The first half of the fused form: six queries times a block of keys, and the weights made of the scores while they are still
//! in registers.
//!
//! What is subtracted from the scores of a row need not be the largest of them: anything near it gives the same result. The
//! first tile that a row sees settles it, and later tiles keep it, so that no score is written, read again or compared. Where
//! that was not near enough, the sum of the weights shows it, and the caller takes the block of this strip again by the
//! largest score ([`super::softmax::Strip`]).
#![allow(unsafe_code)]

use super::softmax::shift;
use crate::gemm::{Panels, ROWS, most_vectors, tile_products};
use crate::lanes::{Kernel, Simd};

/// Largest sum of the weights of a block that passes. A weight is then at most 2^13, and the rounding of an exponent of 13 is
/// 5e-7: as much as that of a score of 13.
const MOST: f32 = 8192.0;

/// The numbers of the lanes.
static LANES: [f32; 16] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

/// Weights of a strip of at most [`ROWS`] queries for a block of keys.
pub(super) struct Weigh<'a> {
    /// First query, and values from one to the next.
    pub(super) q: *const f32,
    pub(super) q_stride: usize,
    /// Values of a query.
    pub(super) head: usize,
    /// The keys times log2 e / sqrt(head), packed, and how many.
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
}

impl Kernel for Weigh<'_> {
    /// Whether the weights may stand. If not, nothing but `weights` was touched.
    type Out = bool;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> bool {
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
    /// Whether a row's top is not settled.
    fresh: bool,
    sum: [S::F; M],
}

impl Weigh<'_> {
    #[inline(always)]
    fn rows<S: Simd, const M: usize>(mut self, s: S) -> bool {
        let most = const { most_vectors(S::REGISTERS) };
        let top: [f32; M] = std::array::from_fn(|i| self.top[i]);
        let mut rows = Rows::<S, M> {
            top,
            shift: top.map(shift),
            fresh: top.contains(&f32::NEG_INFINITY),
            sum: [s.splat(0.0); M],
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
            match panel.vectors {
                1 => self.tile::<S, M, 1>(s, keys, panel.first, &mut rows),
                2 if most >= 2 => self.tile::<S, M, 2>(s, keys, panel.first, &mut rows),
                3 if most >= 3 => self.tile::<S, M, 3>(s, keys, panel.first, &mut rows),
                4 if most >= 4 => self.tile::<S, M, 4>(s, keys, panel.first, &mut rows),
                vectors => unreachable!("a panel of {vectors} vectors"),
            }
        }
        let sum: [f32; M] = std::array::from_fn(|i| s.sum(rows.sum[i]));
        // False for NaN as well.
        let near = sum.iter().all(|sum| *sum <= MOST);
        if near {
            self.top.copy_from_slice(&rows.top);
            self.sum.iter_mut().zip(sum).for_each(|(sum, more)| *sum += more);
        }
        near
    }

    /// `M` rows times `N` vectors of keys.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "row and vector are indices of more than one array")]
    fn tile<S: Simd, const M: usize, const N: usize>(
        &mut self,
        s: S,
        keys: &[f32],
        first: usize,
        rows: &mut Rows<S, M>,
    ) {
        assert!(keys.len() >= self.head * N * S::LANES);
        // SAFETY: `fused` promises that M queries of `head` values exist; so many steps of keys were just seen.
        let scores = unsafe { tile_products::<S, M, N>(s, self.q, self.q_stride, keys.as_ptr(), self.head) };
        let lanes = s.load(&LANES);
        // Lanes of vector j of row i that the row sees.
        let seen = |i: usize, j: usize| {
            let left = self.visible[i] as f32 - (first + j * S::LANES) as f32;
            s.lt(lanes, s.splat(left))
        };
        if rows.fresh {
            let nothing = s.splat(f32::NEG_INFINITY);
            for i in 0..M {
                let mut top = nothing;
                for j in 0..N {
                    top = s.max(s.select(seen(i, j), scores[i][j], nothing), top);
                }
                if rows.top[i] == f32::NEG_INFINITY {
                    rows.top[i] = s.largest(top);
                    rows.shift[i] = shift(rows.top[i]);
                }
            }
            rows.fresh = rows.top.contains(&f32::NEG_INFINITY);
        }
        let zero = s.splat(0.0);
        for i in 0..M {
            let less = s.splat(rows.shift[i]);
            let whole = first + N * S::LANES <= self.visible[i];
            let to = self.weights[i * self.stride + first..].as_mut_ptr();
            for j in 0..N {
                let mut weight = s.near_exp2(s.sub(scores[i][j], less));
                if !whole {
                    weight = s.select(seen(i, j), weight, zero);
                }
                rows.sum[i] = s.add(rows.sum[i], weight);
                // SAFETY: the row of weights holds all vectors of the block, as `rows` saw.
                unsafe { s.store_at(to.add(j * S::LANES), weight) };
            }
        }
    }
}
