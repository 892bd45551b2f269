//! Gradients of layer normalisation, a few rows at a time so that their reductions overlap and share the column sums.
//!
//! Two passes over a row. With d = x - shift, where the shift is the mean of the row's first vector, the first pass
//! sums d, d^2, g = dy gamma and g d. Mean and variance follow as in the forward direction (`layers/norm.rs`), and the
//! mean of g n, where n is the normalised x, from that of g d. If the shift is too far from the mean, or a sum leaves
//! f32, the sums with x are recomputed. The second pass reads what the first left in the cache, writes dx and updates the
//! column sums, which are moved to f64 every [`TOGETHER`] rows.
#![allow(unsafe_code)]

use crate::norm::{Moments, moments_about, near_enough, put, settle};
use ellwand_simd::lanes::{Kernel, Simd};

/// Rows of scratch: the column sums for dgamma and dbeta.
pub(super) const SCRATCH: usize = 2;

/// Rows whose terms are summed in f32 before the sums are moved to f64: the error is below 64 half units in the last
/// place, and usually a tenth of that. A multiple of every block size.
const TOGETHER: usize = 64;

/// Computes dx for every row, and dgamma and dbeta summed over the rows.
pub(super) struct NormGradient<'a> {
    pub(super) x: &'a [f32],
    pub(super) dy: &'a [f32],
    pub(super) d: usize,
    pub(super) eps: f32,
    pub(super) gamma: &'a [f32],
    pub(super) dx: &'a mut [f32],
    /// Output: dgamma, then dbeta.
    pub(super) sums: &'a mut [f64],
    /// Use non-temporal stores; every row of dx is then aligned to a vector.
    pub(super) stream: bool,
    /// Buffer of [`SCRATCH`] rows.
    pub(super) scratch: &'a mut [f32],
}

/// Values of a row for the second pass.
#[derive(Clone, Copy, Default)]
struct Row {
    moments: Moments,
    mean_g: f32,
    mean_gn: f32,
}

impl Kernel for NormGradient<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let d = self.d;
        let rows = self.x.len() / d;
        assert!(self.dy.len() == self.x.len() && self.dx.len() == self.x.len() && self.gamma.len() == d);
        assert!(self.x.len() == rows * d && self.sums.len() == 2 * d && self.scratch.len() == SCRATCH * d);
        self.scratch.fill(0.0);
        self.sums.fill(0.0);
        // The state of a row in the first pass takes five vectors, and what a block reads and writes must stay in the
        // L1 cache. Rows in memory are processed one by one.
        let together = match d {
            _ if self.stream => 0,
            ..=256 if S::REGISTERS >= 32 => 4,
            ..=512 => 2,
            _ => 1,
        };
        for from in (0..rows).step_by(TOGETHER) {
            let to = (from + TOGETHER).min(rows);
            match together {
                0 => self.blocks::<S, 1, true>(s, from, to),
                1 => self.blocks::<S, 1, false>(s, from, to),
                2 => self.blocks::<S, 2, false>(s, from, to),
                _ => self.blocks::<S, 4, false>(s, from, to),
            }
            for (sum, part) in self.sums.iter_mut().zip(&mut *self.scratch) {
                *sum += f64::from(*part);
                *part = 0.0;
            }
        }
        if self.stream {
            s.fence();
        }
    }
}

/// Adds one term to the sums of d, d^2, g and g d.
#[inline(always)]
fn added<S: Simd>(s: S, sums: [S::F; 4], deviation: S::F, dy: S::F, gamma: S::F) -> [S::F; 4] {
    let [all, squares, all_g, products] = sums;
    let g = s.mul(dy, gamma);
    [
        s.add(all, deviation),
        s.mul_add(deviation, deviation, squares),
        s.add(all_g, g),
        s.mul_add(g, deviation, products),
    ]
}

/// The normalised x, and dx.
#[inline(always)]
fn gradient<S: Simd>(s: S, of: &[S::F; 5], x: S::F, dy: S::F, gamma: S::F) -> (S::F, S::F) {
    let &[shift, scale, offset, mean_g, mean_gn] = of;
    let normal = s.mul_add(s.sub(x, shift), scale, offset);
    (normal, s.mul(s.neg_mul_add(normal, mean_gn, s.sub(s.mul(dy, gamma), mean_g)), scale))
}

impl NormGradient<'_> {
    /// Processes rows `from..to` in blocks of `ROWS`, and the remainder row by row.
    #[inline(always)]
    fn blocks<S: Simd, const ROWS: usize, const STREAM: bool>(&mut self, s: S, from: usize, to: usize) {
        let whole = from + (to - from) / ROWS * ROWS;
        for row in (from..whole).step_by(ROWS) {
            self.block::<S, ROWS, STREAM>(s, row);
        }
        for row in whole..to {
            self.block::<S, 1, STREAM>(s, row);
        }
    }

    /// Processes `ROWS` rows starting at `row`. The caller checked the lengths of all arrays.
    #[inline(always)]
    fn block<S: Simd, const ROWS: usize, const STREAM: bool>(&mut self, s: S, row: usize) {
        let rows = self.first_pass::<S, ROWS>(s, row);
        let (d, from) = (self.d, row * self.d);
        let whole = d - d % S::LANES;
        let (x, dy, dx) = (
            self.x.as_ptr().wrapping_add(from),
            self.dy.as_ptr().wrapping_add(from),
            self.dx.as_mut_ptr().wrapping_add(from),
        );
        let (dgamma, dbeta) = self.scratch.split_at_mut(d);
        let mut of = [[s.splat(0.0); 5]; ROWS];
        for (of, row) in of.iter_mut().zip(rows) {
            let Moments { shift, scale, offset } = row.moments;
            *of = [s.splat(shift), s.splat(scale), s.splat(offset), s.splat(row.mean_g), s.splat(row.mean_gn)];
        }
        for c in (0..whole).step_by(S::LANES) {
            // SAFETY: c + LANES <= d, the length of gamma and of the sums; ROWS rows are within x, dy and dx, whose
            // rows are aligned to a vector if `STREAM`.
            unsafe {
                let gamma = s.load_at(self.gamma.as_ptr().add(c));
                let (to_gamma, to_beta) = (dgamma.as_mut_ptr().add(c), dbeta.as_mut_ptr().add(c));
                let (mut for_gamma, mut for_beta) = (s.load_at(to_gamma), s.load_at(to_beta));
                for (r, of) in of.iter().enumerate() {
                    let dy = s.load_at(dy.add(r * d + c));
                    let (normal, v) = gradient(s, of, s.load_at(x.add(r * d + c)), dy, gamma);
                    put::<S, STREAM>(s, dx.add(r * d + c), v);
                    for_gamma = s.mul_add(dy, normal, for_gamma);
                    for_beta = s.add(for_beta, dy);
                }
                s.store_at(to_gamma, for_gamma);
                s.store_at(to_beta, for_beta);
            }
        }
        if whole < d {
            let gamma = s.load_part(&self.gamma[whole..], 0.0);
            let (mut for_gamma, mut for_beta) = (s.load_part(&dgamma[whole..], 0.0), s.load_part(&dbeta[whole..], 0.0));
            for (r, of) in of.iter().enumerate() {
                let rest = from + r * d + whole..from + r * d + d;
                let dy = s.load_part(&self.dy[rest.clone()], 0.0);
                let (normal, v) = gradient(s, of, s.load_part(&self.x[rest.clone()], 0.0), dy, gamma);
                s.store_part(&mut self.dx[rest], v);
                for_gamma = s.mul_add(dy, normal, for_gamma);
                for_beta = s.add(for_beta, dy);
            }
            s.store_part(&mut dgamma[whole..], for_gamma);
            s.store_part(&mut dbeta[whole..], for_beta);
        }
    }

    /// Moments and means of `ROWS` rows starting at `row`.
    #[inline(always)]
    fn first_pass<S: Simd, const ROWS: usize>(&self, s: S, row: usize) -> [Row; ROWS] {
        let (d, from) = (self.d, row * self.d);
        let whole = d - d % S::LANES;
        let first = S::LANES.min(d);
        let (mut shift, mut from_shift) = ([0.0; ROWS], [s.splat(0.0); ROWS]);
        for r in 0..ROWS {
            let x = &self.x[from + r * d..][..first];
            shift[r] = s.sum(if first == S::LANES { s.load(x) } else { s.load_part(x, 0.0) }) / first as f32;
            from_shift[r] = s.splat(shift[r]);
        }
        // Sums of d, d^2, g and g d.
        let mut sums = [[s.splat(0.0); 4]; ROWS];
        let (x, dy) = (self.x.as_ptr().wrapping_add(from), self.dy.as_ptr().wrapping_add(from));
        for c in (0..whole).step_by(S::LANES) {
            // SAFETY: c + LANES <= d, the length of gamma, and ROWS rows are within x and dy.
            unsafe {
                let gamma = s.load_at(self.gamma.as_ptr().add(c));
                for r in 0..ROWS {
                    let (x, dy) = (s.load_at(x.add(r * d + c)), s.load_at(dy.add(r * d + c)));
                    sums[r] = added(s, sums[r], s.sub(x, from_shift[r]), dy, gamma);
                }
            }
        }
        if whole < d {
            let gamma = s.load_part(&self.gamma[whole..], 0.0);
            for (r, shift) in shift.iter().enumerate() {
                let rest = from + r * d + whole..from + r * d + d;
                // Lanes beyond the row add nothing to any sum.
                let (x, dy) = (s.load_part(&self.x[rest.clone()], *shift), s.load_part(&self.dy[rest], 0.0));
                sums[r] = added(s, sums[r], s.sub(x, from_shift[r]), dy, gamma);
            }
        }
        let mut rows = [Row::default(); ROWS];
        let (mut means, mut far) = ([0.0; ROWS], [false; ROWS]);
        for (r, row) in rows.iter_mut().enumerate() {
            let [all, squares, all_g, products] = sums[r];
            let (rest, square) = (s.sum(all) / d as f32, s.sum(squares) / d as f32);
            let mean_g = s.sum(all_g) / d as f32;
            let moments = settle(shift[r], rest, square, self.eps);
            // n = d scale + offset
            let mean_gn = s.sum(products) / d as f32 * moments.scale + mean_g * moments.offset;
            *row = Row { moments, mean_g, mean_gn };
            if !near_enough(rest, square) {
                std::hint::cold_path();
                (means[r], far[r]) = (shift[r] + rest, true);
            }
        }
        // After the loop, as in `layers::norm`.
        if far.contains(&true) {
            for r in (0..ROWS).filter(|r| far[*r]) {
                let of_row = from + r * d..from + (r + 1) * d;
                let moments = moments_about(s, &self.x[of_row.clone()], means[r], self.eps);
                rows[r] = Row { moments, mean_gn: self.mean_gn(s, of_row, moments), ..rows[r] };
            }
        }
        rows
    }

    /// Mean of g n over a row with known moments. Rarely needed, so not inlined into the loop.
    #[cold]
    #[inline(always)]
    fn mean_gn<S: Simd>(&self, s: S, row: std::ops::Range<usize>, moments: Moments) -> f32 {
        let Moments { shift, scale, offset } = moments;
        let parts = self.x[row.clone()].chunks(S::LANES).zip(self.dy[row].chunks(S::LANES));
        let mut sum = s.splat(0.0);
        for ((x, dy), gamma) in parts.zip(self.gamma.chunks(S::LANES)) {
            let full = x.len() == S::LANES;
            let part = |values, fill| if full { s.load(values) } else { s.load_part(values, fill) };
            // Lanes beyond the row have g = 0.
            let g = s.mul(part(dy, 0.0), part(gamma, 0.0));
            let normal = s.mul_add(s.sub(part(x, shift), s.splat(shift)), s.splat(scale), s.splat(offset));
            sum = s.mul_add(g, normal, sum);
        }
        s.sum(sum) / self.d as f32
    }
}
