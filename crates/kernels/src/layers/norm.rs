//! Layer normalisation of rows, a few at a time so that their reductions overlap.
//!
//! A row comes from memory once; the later passes over it hit the first-level cache. The mean of the first pass is only a
//! shift: the second sums d = x - shift and d^2 and corrects both (T. F. Chan, G. H. Golub, R. J. LeVeque, Algorithms for
//! computing the sample variance, 1983), so that a mean of 1e4 costs no digit.
#![allow(unsafe_code)]

use crate::lanes::{Kernel, Simd};

/// y = (x - mean) / sqrt(variance + eps) * gamma + beta for every row; with `RESIDUAL`, of sum = x + residual.
pub(super) struct Norm<'a, const RESIDUAL: bool> {
    pub(super) x: &'a [f32],
    pub(super) residual: &'a [f32],
    pub(super) d: usize,
    pub(super) eps: f32,
    pub(super) gamma: &'a [f32],
    pub(super) beta: &'a [f32],
    pub(super) y: &'a mut [f32],
    pub(super) sum: &'a mut [f32],
    /// Past the caches; every row of the outputs starts on a vector then.
    pub(super) stream: bool,
    /// Four rows, for the sums.
    pub(super) scratch: &'a mut [f32],
}

impl<const RESIDUAL: bool> Kernel for Norm<'_, RESIDUAL> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let rows = self.x.len() / self.d;
        assert!(self.residual.len() == self.x.len() && self.y.len() == self.x.len());
        assert!(self.gamma.len() == self.d && self.beta.len() == self.d);
        assert!(!RESIDUAL || (self.sum.len() == self.x.len() && self.scratch.len() >= 4 * self.d));
        // As many rows together as stay in the first-level cache beside what is written.
        let together = match self.d {
            ..=512 => 4,
            513..=2048 => 2,
            _ => 1,
        };
        let mut row = 0;
        while row < rows {
            let step = if row + together <= rows { together } else { 1 };
            match (step, self.stream) {
                (4, true) => self.block::<S, 4, true>(s, row),
                (4, false) => self.block::<S, 4, false>(s, row),
                (2, true) => self.block::<S, 2, true>(s, row),
                (2, false) => self.block::<S, 2, false>(s, row),
                (_, true) => self.block::<S, 1, true>(s, row),
                (_, false) => self.block::<S, 1, false>(s, row),
            }
            row += step;
        }
        if self.stream {
            s.fence();
        }
    }
}

impl<const RESIDUAL: bool> Norm<'_, RESIDUAL> {
    /// `ROWS` rows from `row` on. The caller checked the lengths of all arrays.
    #[inline(always)]
    fn block<S: Simd, const ROWS: usize, const STREAM: bool>(&mut self, s: S, row: usize) {
        let d = self.d;
        let whole = d - d % S::LANES;
        let from = row * d;
        let put = |to: *mut f32, v: S::F| {
            // SAFETY: `to` points to LANES f32 of an output row (see the calls); for STREAM the caller says that it is aligned.
            unsafe {
                if STREAM { s.stream(std::slice::from_raw_parts_mut(to, S::LANES), v) } else { s.store_at(to, v) }
            }
        };

        // Row after row, as the memory system foresees it, with two sums a row so that additions overlap.
        let mut shift = [s.splat(0.0); ROWS];
        for (r, shift) in shift.iter_mut().enumerate() {
            let mut pair = [s.splat(0.0); 2];
            for c in (0..whole).step_by(S::LANES) {
                let at = from + r * d + c;
                // SAFETY: c + LANES <= d and row + ROWS rows are within x and residual; the scratch holds four rows.
                let mut x = unsafe { s.load_at(self.x.as_ptr().add(at)) };
                if RESIDUAL {
                    // SAFETY: as above.
                    unsafe {
                        x = s.add(x, s.load_at(self.residual.as_ptr().add(at)));
                        s.store_at(self.scratch.as_mut_ptr().add(r * d + c), x);
                        put(self.sum.as_mut_ptr().add(at), x);
                    }
                }
                pair = [pair[1], s.add(pair[0], x)];
            }
            *shift = s.add(pair[0], pair[1]);
        }
        if whole < d {
            for (r, shift) in shift.iter_mut().enumerate() {
                let tail = from + r * d + whole..from + r * d + d;
                let mut x = s.load_part(&self.x[tail.clone()], 0.0);
                if RESIDUAL {
                    x = s.add(x, s.load_part(&self.residual[tail.clone()], 0.0));
                    s.store_part(&mut self.scratch[r * d + whole..r * d + d], x);
                    s.store_part(&mut self.sum[tail], x);
                }
                *shift = s.add(*shift, x);
            }
        }
        let per = 1.0 / d as f32;
        let mean = shift.map(|sum| s.sum(sum) / d as f32);
        let shift = mean.map(|mean| s.splat(mean));

        // From here on the rows are read from where they are close.
        let (rows, first) = if RESIDUAL { (&self.scratch[..], 0) } else { (self.x, from) };
        let mut sums = [s.splat(0.0); ROWS];
        let mut squares = [s.splat(0.0); ROWS];
        for c in (0..whole).step_by(S::LANES) {
            for r in 0..ROWS {
                // SAFETY: c + LANES <= d, and `rows` holds ROWS rows from `first` on.
                let x = unsafe { s.load_at(rows.as_ptr().add(first + r * d + c)) };
                let deviation = s.sub(x, shift[r]);
                sums[r] = s.add(sums[r], deviation);
                squares[r] = s.mul_add(deviation, deviation, squares[r]);
            }
        }
        if whole < d {
            for r in 0..ROWS {
                let tail = &rows[first + r * d + whole..first + r * d + d];
                // Lanes beyond the row deviate by nothing.
                let deviation = s.sub(s.load_part(tail, mean[r]), shift[r]);
                sums[r] = s.add(sums[r], deviation);
                squares[r] = s.mul_add(deviation, deviation, squares[r]);
            }
        }
        let y = self.y.as_mut_ptr();
        let mut scale = [s.splat(0.0); ROWS];
        let mut offset = [s.splat(0.0); ROWS];
        for r in 0..ROWS {
            // Divided, so that a constant row far from 0 leaves nothing.
            let rest = s.sum(sums[r]) / d as f32;
            let variance = s.sum(squares[r]) * per - rest * rest;
            // Rounding may leave less than nothing of a constant row; NaN stays.
            let variance = if variance < 0.0 { 0.0 } else { variance };
            let inverse = 1.0 / (variance + self.eps).sqrt();
            scale[r] = s.splat(inverse);
            offset[r] = s.splat(-rest * inverse);
        }

        let finish = |r: usize, c: usize| {
            // SAFETY: c + LANES <= d, the length of gamma and beta; otherwise as above.
            unsafe {
                let (gamma, beta) = (s.load_at(self.gamma.as_ptr().add(c)), s.load_at(self.beta.as_ptr().add(c)));
                let x = s.load_at(rows.as_ptr().add(first + r * d + c));
                let normal = s.mul_add(s.sub(x, shift[r]), scale[r], offset[r]);
                put(y.add(from + r * d + c), s.mul_add(normal, gamma, beta));
            }
        };
        if STREAM {
            // One stream of stores at a time.
            for r in 0..ROWS {
                for c in (0..whole).step_by(S::LANES) {
                    finish(r, c);
                }
            }
        } else {
            for c in (0..whole).step_by(S::LANES) {
                for r in 0..ROWS {
                    finish(r, c);
                }
            }
        }
        if whole < d {
            let gamma = s.load_part(&self.gamma[whole..], 0.0);
            let beta = s.load_part(&self.beta[whole..], 0.0);
            for r in 0..ROWS {
                let x = s.load_part(&rows[first + r * d + whole..first + r * d + d], 0.0);
                let normal = s.mul_add(s.sub(x, shift[r]), scale[r], offset[r]);
                let tail = from + r * d + whole..from + r * d + d;
                s.store_part(&mut self.y[tail], s.mul_add(normal, gamma, beta));
            }
        }
    }
}
