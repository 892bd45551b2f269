//! The first half of the fused form: six queries times a block of keys. The weights of one tile are computed while the
//! scores of the next are summed.
//!
//! The value subtracted from a row's scores need not be the largest score: any value close to it gives the same result.
//! The first visible tile sets it, and later tiles keep it, so no scores need to be compared. If it is no longer close
//! enough, the sum of a tile's weights shows that; its weights are then recomputed, and earlier sums are corrected.
//! Only if a weight is NaN or infinite does the caller repeat the block with [`super::softmax::Strip`], which handles
//! infinite and huge scores.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use super::softmax::shift;
use ellwand_gemm::{Beside, Panels, ROWS, each_row, most_vectors, tile_products};
use ellwand_simd::lanes::{Kernel, Simd};

/// Largest sum of the weights of one lane in a tile. The exponent is then at most 8, and its rounding error 2.4e-7,
/// less than that of the score.
const MOST: f32 = 256.0;

/// An exponent above this makes a row settle again: four vectors of weights below it sum to at most [`MOST`].
const FAR: f32 = 6.0;

/// Most scores in a tile: [`ROWS`] rows of four vectors of sixteen.
const TILE: usize = ROWS * 64;

/// Scores of two tiles: one is converted to weights while the other is summed.
pub(super) const TILES: usize = 2 * TILE;

/// The number of each lane.
pub(super) static LANES: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

/// Computes the weights of a strip of at most [`ROWS`] queries for a block of keys.
pub(super) struct Weigh<'a> {
    /// First query, and distance between queries.
    pub(super) q: *const f32,
    pub(super) q_stride: usize,
    /// Values per query.
    pub(super) head: usize,
    /// The packed keys, and their number.
    pub(super) keys: &'a [f32],
    pub(super) count: usize,
    /// Visible keys of the block for each row, and the largest such number.
    pub(super) visible: [usize; ROWS],
    pub(super) used: usize,
    /// Output: rows of weights, `stride` apart; whole vectors, with zeros for invisible keys.
    pub(super) weights: &'a mut [f32],
    pub(super) stride: usize,
    /// Buffer for [`TILES`] scores.
    pub(super) tiles: &'a mut [f32],
    /// The score subtracted from those of each row; -inf if not yet set.
    pub(super) top: &'a mut [f32],
    /// Sum of the weights of each row so far.
    pub(super) sum: &'a mut [f32],
    /// Output: the factors for the sums over values so far.
    pub(super) factors: &'a mut [f32; ROWS],
    /// Factor of the scores: log2 e / sqrt(head).
    pub(super) factor: f32,
}

/// What happened to a strip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weighed {
    /// All factors are 1.
    Kept,
    /// Some factors differ from 1.
    Corrected,
    /// A weight is NaN or infinite, or there are too few registers; only the weights were modified.
    Lost,
}

impl Kernel for Weigh<'_> {
    type Out = Weighed;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Weighed {
        if const { S::REGISTERS < 32 } {
            // With tiles a quarter of the size, the overhead per tile exceeds the gain: 2 to 5 % slower.
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

/// State of `M` rows during a block.
struct Rows<S: Simd, const M: usize> {
    top: [f32; M],
    shift: [f32; M],
    factors: [f32; M],
    sum: [S::F; M],
    corrected: bool,
}

/// A tile of scores.
#[derive(Clone, Copy)]
struct Tile {
    /// Its first key, and its number of vectors of keys.
    first: usize,
    vectors: usize,
    /// Which of the two buffers it uses.
    place: usize,
}

/// Converts the scores of a tile that every row sees completely to weights.
struct Work<'a, S: Simd, const M: usize> {
    tile: Tile,
    scores: &'a [f32],
    weights: &'a mut [f32],
    stride: usize,
    factor: f32,
    shift: &'a [f32; M],
    /// Output: sums of the weights.
    sum: &'a mut [S::F; M],
}

impl<S: Simd, const M: usize> Beside<S> for Work<'_, S, M> {
    const ANY: bool = true;
    #[inline(always)]
    fn row(&mut self, s: S, i: usize) {
        // With a constant number of vectors, their latencies overlap.
        if self.tile.vectors == 4 { self.vectors(s, i, 4) } else { self.vectors(s, i, self.tile.vectors) }
    }
}

impl<S: Simd, const M: usize> Work<'_, S, M> {
    #[inline(always)]
    fn vectors(&mut self, s: S, i: usize, vectors: usize) {
        let scores = &self.scores[i * vectors * S::LANES..][..vectors * S::LANES];
        let weights = &mut self.weights[i * self.stride + self.tile.first..][..vectors * S::LANES];
        let mut sum = s.splat(0.0);
        for j in 0..vectors {
            let weight = weight(s, s.load(&scores[j * S::LANES..]), self.factor, self.shift[i]);
            s.store(&mut weights[j * S::LANES..], weight);
            sum = s.add(sum, weight);
        }
        self.sum[i] = sum;
    }
}

/// The weight of a score. The difference comes first, as in [`super::softmax`]; the top score has exactly weight 1.
#[inline(always)]
fn weight<S: Simd>(s: S, score: S::F, factor: f32, shift: f32) -> S::F {
    s.near_exp2(s.mul(s.sub(score, s.splat(shift)), s.splat(factor)))
}

impl Weigh<'_> {
    #[inline(always)]
    fn rows<S: Simd, const M: usize>(mut self, s: S) -> Weighed {
        let most = const { most_vectors(S::REGISTERS) };
        let top: [f32; M] = std::array::from_fn(|i| self.top[i]);
        let mut rows =
            Rows::<S, M> { top, shift: top.map(shift), factors: [1.0; M], sum: [s.splat(0.0); M], corrected: false };
        assert!(self.weights.len() >= (M - 1) * self.stride + self.count.next_multiple_of(S::LANES));
        let mut at = 0;
        let mut before: Option<Tile> = None;
        for (number, panel) in Panels::new(self.count, S::LANES, most).enumerate() {
            if panel.first >= self.used {
                break;
            }
            let size = self.head * panel.vectors * S::LANES;
            let keys = &self.keys[at..at + size];
            at += size;
            let tile = Tile { first: panel.first, vectors: panel.vectors, place: number % 2 };
            let made = match panel.vectors {
                1 => self.scores::<S, M, 1>(s, keys, tile, before, &rows.shift),
                2 if most >= 2 => self.scores::<S, M, 2>(s, keys, tile, before, &rows.shift),
                3 if most >= 3 => self.scores::<S, M, 3>(s, keys, tile, before, &rows.shift),
                4 if most >= 4 => self.scores::<S, M, 4>(s, keys, tile, before, &rows.shift),
                vectors => unreachable!("a panel of {vectors} vectors"),
            };
            if let Some(before) = before {
                self.finish(s, before, made, &mut rows);
            }
            if rows.top.contains(&f32::NEG_INFINITY) {
                self.settle(s, tile, &mut rows);
            }
            before = Some(tile);
        }
        if let Some(before) = before {
            self.finish(s, before, None, &mut rows);
        }
        // A loop, which is inlined: in a closure `sum` would be a call.
        let mut sum = [0.0; M];
        for (sum, lanes) in sum.iter_mut().zip(rows.sum) {
            *sum = s.sum(lanes);
        }
        // A score too far below the top for `near_exp2` may give infinity.
        if sum.iter().any(|sum| !sum.is_finite()) {
            return Weighed::Lost;
        }
        for (i, sum) in sum.into_iter().enumerate() {
            self.top[i] = rows.top[i];
            self.sum[i] = self.sum[i] * rows.factors[i] + sum;
            self.factors[i] = rows.factors[i];
        }
        if rows.corrected { Weighed::Corrected } else { Weighed::Kept }
    }

    /// True if every row sees all keys of the tile.
    #[inline(always)]
    fn whole<S: Simd>(&self, tile: Tile) -> bool {
        tile.first + tile.vectors * S::LANES <= self.visible[0]
    }

    /// Scores of `M` rows and `N` vectors of keys. Meanwhile computes the weights of the previous tile, if every row
    /// sees all of it, and returns their sums.
    #[inline(always)]
    fn scores<S: Simd, const M: usize, const N: usize>(
        &mut self,
        s: S,
        keys: &[f32],
        tile: Tile,
        before: Option<Tile>,
        shift: &[f32; M],
    ) -> Option<[S::F; M]> {
        assert!(keys.len() >= self.head * N * S::LANES);
        let before = before.filter(|tile| self.whole::<S>(*tile));
        let (even, odd) = self.tiles.split_at_mut(TILE);
        let (here, there) = if tile.place == 0 { (even, odd) } else { (odd, even) };
        let (q, stride, depth) = (self.q, self.q_stride, self.head);
        let mut sum = [s.splat(0.0); M];
        // SAFETY: `fused` guarantees that M queries of `head` values exist; the assertion checked the keys.
        let scores: [[S::F; N]; M] = unsafe {
            if let Some(tile) = before {
                let (stride_out, factor, weights) = (self.stride, self.factor, &mut *self.weights);
                let mut work = Work { tile, scores: there, weights, stride: stride_out, factor, shift, sum: &mut sum };
                tile_products(s, q, stride, keys.as_ptr(), depth, &mut work)
            } else {
                tile_products(s, q, stride, keys.as_ptr(), depth, &mut ())
            }
        };
        each_row!(M, I => {
            let to = &mut here[I * N * S::LANES..][..N * S::LANES];
            for j in 0..N {
                s.store(&mut to[j * S::LANES..], scores[I][j]);
            }
        });
        before.map(|_| sum)
    }

    /// Adds a tile's weights (`made` earlier or computed now) to the sums; recomputes them if the tops are too low.
    #[inline(always)]
    fn finish<S: Simd, const M: usize>(&mut self, s: S, tile: Tile, made: Option<[S::F; M]>, rows: &mut Rows<S, M>) {
        let mut sum = match made {
            Some(sum) => sum,
            None => self.weights(s, tile, &rows.shift),
        };
        let mut most = sum[0];
        for sum in &sum[1..] {
            most = s.max(most, *sum);
        }
        if s.any(s.lt(s.splat(MOST), most)) {
            // At most once: a value set by a tile is close enough for that tile.
            self.settle(s, tile, rows);
            sum = self.weights(s, tile, &rows.shift);
        }
        for (sum, more) in rows.sum.iter_mut().zip(sum) {
            *sum = s.add(*sum, more);
        }
    }

    /// Computes all weights of a tile; returns their sums.
    #[inline(always)]
    fn weights<S: Simd, const M: usize>(&mut self, s: S, tile: Tile, shift: &[f32; M]) -> [S::F; M] {
        let mut sum = [s.splat(0.0); M];
        if self.whole::<S>(tile) {
            let (stride, factor, weights) = (self.stride, self.factor, &mut *self.weights);
            let scores = &self.tiles[tile.place * TILE..];
            let mut work = Work { tile, scores, weights, stride, factor, shift, sum: &mut sum };
            for i in 0..M {
                work.row(s, i);
            }
        } else {
            each_row!(M, I => sum[I] = self.part(s, I, tile, shift[I]));
        }
        sum
    }

    /// Weights of a row that does not see all of a tile; returns their sum.
    #[inline(always)]
    fn part<S: Simd>(&mut self, s: S, i: usize, tile: Tile, shift: f32) -> S::F {
        let scores = &self.tiles[tile.place * TILE + i * tile.vectors * S::LANES..][..tile.vectors * S::LANES];
        let weights = &mut self.weights[i * self.stride + tile.first..][..tile.vectors * S::LANES];
        let mut sum = s.splat(0.0);
        for j in (0..tile.vectors * S::LANES).step_by(S::LANES) {
            let seen = seen(s, self.visible[i], tile.first + j);
            let weight = s.select(seen, weight(s, s.load(&scores[j..]), self.factor, shift), s.splat(0.0));
            sum = s.add(sum, weight);
            s.store(&mut weights[j..], weight);
        }
        sum
    }

    /// Raises the tops of rows to scores of a tile that are far above, and corrects the block's earlier weights of
    /// these rows.
    #[inline(always)]
    fn settle<S: Simd, const M: usize>(&mut self, s: S, tile: Tile, rows: &mut Rows<S, M>) {
        let nothing = s.splat(f32::NEG_INFINITY);
        for i in 0..M {
            let scores = &self.tiles[tile.place * TILE + i * tile.vectors * S::LANES..][..tile.vectors * S::LANES];
            let mut top = nothing;
            for j in (0..scores.len()).step_by(S::LANES) {
                top = s.max(s.select(seen(s, self.visible[i], tile.first + j), s.load(&scores[j..]), nothing), top);
            }
            let (before, top) = (rows.top[i], s.largest(top));
            let unsettled = before == f32::NEG_INFINITY;
            if top == f32::NEG_INFINITY || (!unsettled && (top - rows.shift[i]) * self.factor <= FAR) {
                continue;
            }
            rows.top[i] = top;
            let old = std::mem::replace(&mut rows.shift[i], shift(top));
            if unsettled {
                continue;
            }
            rows.corrected = true;
            let factor = ((old - rows.shift[i]) * self.factor).exp2();
            rows.factors[i] *= factor;
            rows.sum[i] = s.mul(rows.sum[i], s.splat(factor));
            for weights in self.weights[i * self.stride..][..tile.first].chunks_exact_mut(S::LANES) {
                s.store(weights, s.mul(s.load(weights), s.splat(factor)));
            }
        }
    }
}

/// Mask of the lanes, for keys starting at `at`, that a row with `visible` keys sees.
#[inline(always)]
fn seen<S: Simd>(s: S, visible: usize, at: usize) -> S::M {
    s.lt(s.load(&LANES), s.splat(visible as f32 - at as f32))
}
