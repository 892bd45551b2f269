//! The fused form for few queries: it reads keys and values in place, because packing them would take as long as
//! several queries.
#![allow(unsafe_code)]

use std::ops::Range;

use super::fused::Core;
use super::softmax::{Finish, inverse, largest, shift, weights};
use ellwand_gemm::{ROWS, dot, each_row, most_vectors};
use ellwand_simd::lanes::{Kernel, Simd};

/// The number of each lane.
static LANES: [f32; 16] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

/// Maximum number of (query, key) pairs of a head for which [`plain`] is faster: the vector form waits for the latency
/// of each of its steps.
pub(super) const MAX_PLAIN: usize = 4;

/// Computes some rows of some heads of a sequence without vectors, for at most [`MAX_PLAIN`] keys.
///
/// # Safety
/// As for [`super::fused::single`], for these rows.
pub(super) unsafe fn plain(core: &Core<'_>, b: usize, heads: Range<usize>, rows: Range<usize>) {
    let (shape, group) = (core.shape, core.shape.heads / core.shape.kv_heads);
    let (width, scale) = (shape.head(), shape.scale() as f32);
    // SAFETY: the caller's promise; queries, keys and values hold `width` values.
    let at = |from: *const f32, at: usize| unsafe { std::slice::from_raw_parts(from.add(at), width) };
    let ((q, queries), (k, keys), (v, values)) = (core.q, core.k, core.v);
    for head in heads {
        let kv = if group == 1 { head } else { head / group };
        for row in rows.clone() {
            let q = at(q, queries.at(b, head, row));
            let mut weights = [0.0; MAX_PLAIN];
            let weights = &mut weights[..shape.visible(core.lengths, b, row)];
            for (key, weight) in weights.iter_mut().enumerate() {
                *weight = dot(q, at(k, keys.at(b, kv, key))) * scale;
            }
            let top = shift(weights.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            weights.iter_mut().for_each(|weight| *weight = (*weight - top).exp());
            let by = inverse(weights.iter().sum());
            let to = core.out.1.at(b, head, row);
            // SAFETY: the caller's promise.
            let out = unsafe { std::slice::from_raw_parts_mut(core.out.0.add(to), width) };
            out.fill(0.0);
            for (key, weight) in weights.iter().enumerate() {
                let (weight, value) = (weight * by, at(v, values.at(b, kv, key)));
                out.iter_mut().zip(value).for_each(|(out, v)| *out += weight * v);
            }
        }
    }
}

/// At most [`ROWS`] queries that share a head of keys and values.
pub(super) struct Few<'a> {
    pub(super) core: &'a Core<'a>,
    pub(super) b: usize,
    pub(super) kv: usize,
    /// Head and position of each query; the first `count` are used.
    pub(super) queries: &'a [(usize, usize); ROWS],
    pub(super) count: usize,
    /// Keys per block, and a buffer for the scores of [`ROWS`] queries, `stride` apart.
    pub(super) block: usize,
    pub(super) scores: &'a mut [f32],
    pub(super) stride: usize,
    /// Factor of the scores: log2 e / sqrt(head).
    pub(super) factor: f32,
}

/// Calls a method for `M` rows, where `M` is the number of queries.
macro_rules! rows {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self.count {
            1 => $self.$method::<S, 1>($($argument),*),
            2 => $self.$method::<S, 2>($($argument),*),
            3 => $self.$method::<S, 3>($($argument),*),
            4 => $self.$method::<S, 4>($($argument),*),
            5 => $self.$method::<S, 5>($($argument),*),
            6 => $self.$method::<S, 6>($($argument),*),
            rows => unreachable!("a strip of {rows} rows"),
        }
    };
}

impl Kernel for Few<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        if const { S::REGISTERS < 16 } {
            unreachable!("`most_direct` leaves it to the packed form");
        }
        let shape = self.core.shape;
        let (mut top, mut sum, mut factors) = ([f32::NEG_INFINITY; ROWS], [0.0; ROWS], [1.0; ROWS]);
        let mut seen = [0; ROWS];
        for (seen, (_, row)) in seen.iter_mut().zip(&self.queries[..self.count]) {
            *seen = shape.visible(self.core.lengths, self.b, *row);
        }
        let most = seen.into_iter().fold(0, usize::max);
        for first in (0..most).step_by(self.block) {
            let keys = first..most.min(first + self.block);
            rows!(self.scores(s, keys.clone(), &seen));
            // Whole vectors, so that the next step can load what one step stored without waiting for the cache.
            let used = keys.len().next_multiple_of(S::LANES);
            for i in 0..self.count {
                let row = &mut self.scores[i * self.stride..][..used];
                let before = top[i];
                top[i] = f32::max(before, largest(s, row));
                factors[i] = match () {
                    () if before == top[i] => 1.0,
                    () if before == f32::NEG_INFINITY => 0.0,
                    () => ((before - top[i]) * self.factor).exp2(),
                };
                sum[i] = sum[i] * factors[i] + weights(s, None, row, self.factor, shift(top[i]));
            }
            rows!(self.sums(s, keys, &factors));
        }
        let sum = &sum[..self.count];
        for (i, sum) in sum.chunks_exact(1).enumerate() {
            let rows = self.out(i);
            Finish { rows, stride: 0, width: shape.head(), sum }.run(s);
        }
    }
}

impl Few<'_> {
    /// Address of the output of query `i`.
    fn out(&self, i: usize) -> *mut f32 {
        let (out, layout) = self.core.out;
        let (head, row) = self.queries[i];
        out.wrapping_add(layout.at(self.b, head, row))
    }

    /// Computes the scores of `M` queries, which see the first `seen` keys, and some keys, in whole vectors: -inf for
    /// keys that are not seen.
    #[inline(always)]
    fn scores<S: Simd, const M: usize>(&mut self, s: S, keys: Range<usize>, seen: &[usize; ROWS]) {
        let width = self.core.shape.head();
        let whole = width / S::LANES * S::LANES;
        let ((q, layout), (k, rows)) = (self.core.q, self.core.k);
        let queries: [*const f32; M] =
            std::array::from_fn(|i| q.wrapping_add(layout.at(self.b, self.queries[i].0, self.queries[i].1)));
        let (lanes, nothing) = (s.load(&LANES), s.splat(f32::NEG_INFINITY));
        for base in keys.clone().step_by(S::LANES) {
            let mut scores = [nothing; M];
            for lane in 0..S::LANES.min(keys.end - base) {
                let key = k.wrapping_add(rows.at(self.b, self.kv, base + lane));
                let mut sum = [s.splat(0.0); M];
                for e in (0..whole).step_by(S::LANES) {
                    // SAFETY: queries and keys hold `width` values.
                    let right = unsafe { s.load_at(key.add(e)) };
                    // SAFETY: as above.
                    each_row!(M, I => sum[I] = s.mul_add(unsafe { s.load_at(queries[I].add(e)) }, right, sum[I]));
                }
                if whole < width {
                    // SAFETY: as above.
                    let right = unsafe { part(s, key, whole..width) };
                    // SAFETY: as above.
                    each_row!(M, I => sum[I] = s.mul_add(unsafe { part(s, queries[I], whole..width) }, right, sum[I]));
                }
                let here = s.eq(lanes, s.splat(lane as f32));
                each_row!(M, I => scores[I] = s.select(here, s.splat(s.sum(sum[I])), scores[I]));
            }
            each_row!(M, I => {
                let seen = s.lt(lanes, s.splat(seen[I].saturating_sub(base).min(S::LANES) as f32));
                s.store(&mut self.scores[I * self.stride + base - keys.start..], s.select(seen, scores[I], nothing));
            });
        }
    }

    /// Adds the values of some keys, times their weights, to the sums so far times `factors`.
    #[inline(always)]
    fn sums<S: Simd, const M: usize>(&mut self, s: S, keys: Range<usize>, factors: &[f32; ROWS]) {
        let width = self.core.shape.head();
        let mut at = 0;
        // These conditions are constants: the compiler drops the other cases.
        if const { most_vectors(S::REGISTERS) >= 4 } {
            while at + 4 * S::LANES <= width {
                self.columns::<S, M, 4>(s, keys.clone(), factors, at..at + 4 * S::LANES);
                at += 4 * S::LANES;
            }
        }
        if const { most_vectors(S::REGISTERS) >= 2 } {
            while at + 2 * S::LANES <= width {
                self.columns::<S, M, 2>(s, keys.clone(), factors, at..at + 2 * S::LANES);
                at += 2 * S::LANES;
            }
        }
        while at < width {
            let end = width.min(at + S::LANES);
            self.columns::<S, M, 1>(s, keys.clone(), factors, at..end);
            at = end;
        }
    }

    /// The part of [`Few::sums`] for `N` vectors of columns; only a single vector may be partial.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "row and vector are indices of more than one array")]
    fn columns<S: Simd, const M: usize, const N: usize>(
        &mut self,
        s: S,
        keys: Range<usize>,
        factors: &[f32; ROWS],
        columns: Range<usize>,
    ) {
        let (v, layout) = self.core.v;
        let (onto, weights) = (keys.start > 0, &self.scores[..(M - 1) * self.stride + keys.len()]);
        let mut sum = [[s.splat(0.0); N]; M];
        for (at, key) in keys.enumerate() {
            let value = v.wrapping_add(layout.at(self.b, self.kv, key));
            let mut right = [s.splat(0.0); N];
            for j in 0..N {
                // SAFETY: values hold `columns`.
                right[j] = unsafe { part(s, value, vector::<S>(&columns, j)) };
            }
            each_row!(M, I => {
                let left = s.splat(weights[I * self.stride + at]);
                for j in 0..N {
                    sum[I][j] = s.mul_add(left, right[j], sum[I][j]);
                }
            });
        }
        each_row!(M, I => {
            let (out, factor) = (self.out(I), s.splat(factors[I]));
            for j in 0..N {
                let to = vector::<S>(&columns, j);
                // SAFETY: `columns` of this query's output are writable and belong to this call alone.
                let to = unsafe { std::slice::from_raw_parts_mut(out.add(to.start), to.len()) };
                let whole = to.len() == S::LANES;
                let mut total = sum[I][j];
                if onto {
                    let before = if whole { s.load(to) } else { s.load_part(to, 0.0) };
                    total = s.mul_add(before, factor, total);
                }
                if whole { s.store(to, total) } else { s.store_part(to, total) }
            }
        });
    }
}

/// Columns of vector `j` of `columns`.
#[inline(always)]
fn vector<S: Simd>(columns: &Range<usize>, j: usize) -> Range<usize> {
    let from = columns.start + j * S::LANES;
    from..columns.end.min(from + S::LANES)
}

/// Reads a vector, or a partial one.
///
/// # Safety
/// Values `columns` from `x` on must be readable.
#[inline(always)]
unsafe fn part<S: Simd>(s: S, x: *const f32, columns: Range<usize>) -> S::F {
    // SAFETY: the caller's promise.
    let x = unsafe { std::slice::from_raw_parts(x.add(columns.start), columns.len()) };
    if x.len() == S::LANES { s.load(x) } else { s.load_part(x, 0.0) }
}
