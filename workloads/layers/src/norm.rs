//! Layer normalisation of rows, a few at a time so that their reductions overlap.
//!
//! Two passes over a row. The first sums d = x - shift and d^2, where the shift is the mean of the row's first vector;
//! mean and variance follow as in T. F. Chan, G. H. Golub, R. J. LeVeque, Algorithms for computing the sample
//! variance, 1983. A mean of 1e4 therefore costs no digits. If the shift is too far from the mean for that, the row is
//! summed again about its mean, and in f64 if the sums leave f32. The second pass reads what the first left in the
//! cache.
#![allow(unsafe_code)]

use ellwand_simd::isa::Isa;
use ellwand_simd::lanes::{Kernel, Simd, dispatch};

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
    /// Use non-temporal stores; every output row is then aligned to a vector.
    pub(super) stream: bool,
    /// Buffer of [`SCRATCH`] rows for the sums.
    pub(super) scratch: &'a mut [f32],
}

/// Rows of scratch that a normalisation with residual needs: the largest block size.
pub(super) const SCRATCH: usize = 2;

/// Normalises rows of `gamma.len()` values of x into y.
pub fn layer_norm(isa: Isa, x: &[f32], gamma: &[f32], beta: &[f32], eps: f32, y: &mut [f32]) {
    let (residual, d) = (x, gamma.len());
    let [sum, scratch] = [&mut [][..], &mut []];
    dispatch(isa, Norm::<false> { x, residual, d, eps, gamma, beta, y, sum, stream: false, scratch });
}

/// Ratio of (mean - shift)^2 to the variance above which the correction costs significant digits.
const FAR: f32 = 1.0;

/// True if the means of x - shift and of its square are in range and give an accurate variance.
#[inline(always)]
pub(super) fn near_enough(rest: f32, square: f32) -> bool {
    rest * rest <= FAR * (square - rest * rest) && square < f32::INFINITY
}

/// Constants of the second pass for a row: ((x - shift) scale + offset) gamma + beta.
#[derive(Clone, Copy, Default)]
pub(super) struct Moments {
    pub(super) shift: f32,
    pub(super) scale: f32,
    pub(super) offset: f32,
}

impl<const RESIDUAL: bool> Kernel for Norm<'_, RESIDUAL> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let rows = self.x.len() / self.d;
        assert!(self.residual.len() == self.x.len() && self.y.len() == self.x.len());
        assert!(self.gamma.len() == self.d && self.beta.len() == self.d);
        assert!(!RESIDUAL || (self.sum.len() == self.x.len() && self.scratch.len() >= SCRATCH * self.d));
        // Measured at 2^20 elements and at main-memory sizes: several rows hide the latency of their reductions, as
        // long as what they read and write stays in the L1 cache; streaming stores and the four arrays of a residual
        // work best with one row.
        match self.d {
            _ if self.stream => {
                self.blocks::<S, 1, 1, true>(s, rows);
                s.fence();
            }
            ..=128 if RESIDUAL => self.blocks::<S, 2, 2, false>(s, rows),
            _ if RESIDUAL => self.blocks::<S, 1, 1, false>(s, rows),
            ..=256 => self.blocks::<S, 4, 4, false>(s, rows),
            257..=2048 => self.blocks::<S, 2, 2, false>(s, rows),
            _ => self.blocks::<S, 1, 1, false>(s, rows),
        }
    }
}

impl<const RESIDUAL: bool> Norm<'_, RESIDUAL> {
    /// All rows in blocks of `ROWS`, the second pass on `WITH` of them at a time, which divides `ROWS`; the remainder
    /// row by row.
    #[inline(always)]
    fn blocks<S: Simd, const ROWS: usize, const WITH: usize, const STREAM: bool>(&mut self, s: S, rows: usize) {
        let whole = rows / ROWS * ROWS;
        for row in (0..whole).step_by(ROWS) {
            self.block::<S, ROWS, WITH, STREAM>(s, row);
        }
        for row in whole..rows {
            self.block::<S, 1, 1, STREAM>(s, row);
        }
    }

    /// Processes `ROWS` rows starting at `row`. The caller checked the lengths of all arrays.
    #[inline(always)]
    fn block<S: Simd, const ROWS: usize, const WITH: usize, const STREAM: bool>(&mut self, s: S, row: usize) {
        let (d, from) = (self.d, row * self.d);
        let whole = d - d % S::LANES;
        // Before the sums, so that these reductions overlap too.
        let mut shift = [0.0; ROWS];
        for (r, shift) in shift.iter_mut().enumerate() {
            *shift = self.mean_of_first(s, row + r);
        }
        let mut sums = [[s.splat(0.0); 2]; ROWS];
        for (r, sums) in sums.iter_mut().enumerate() {
            *sums = self.first_pass::<S, STREAM>(s, row + r, r, shift[r]);
        }
        // The second pass reads rows from where the first left them.
        let near = if RESIDUAL { self.scratch.as_ptr() } else { self.x[from..].as_ptr() };
        let mut moments = [Moments::default(); ROWS];
        let (mut means, mut far) = ([0.0; ROWS], [false; ROWS]);
        for (r, moments) in moments.iter_mut().enumerate() {
            // Division makes the deviation of a constant row far from 0 exactly 0.
            let (rest, square) = (s.sum(sums[r][0]) / d as f32, s.sum(sums[r][1]) / d as f32);
            *moments = settle(shift[r], rest, square, self.eps);
            if !near_enough(rest, square) {
                // A branch: with a select the compiler pairs the two sums, and rows of 64 took 1.14 times the time.
                std::hint::cold_path();
                (means[r], far[r]) = (shift[r] + rest, true);
            }
        }
        // After the loop: a call inside would make the compiler keep the sums of all rows in memory, a fifth of the time
        // of rows of 64.
        if far.contains(&true) {
            for r in (0..ROWS).filter(|r| far[*r]) {
                // SAFETY: a row of the block that `near` points to.
                let row = unsafe { std::slice::from_raw_parts(near.add(r * d), d) };
                moments[r] = moments_about(s, row, means[r], self.eps);
            }
        }

        let y = self.y.as_mut_ptr().wrapping_add(from);
        let (gamma, beta) = (self.gamma.as_ptr(), self.beta.as_ptr());
        for group in (0..ROWS).step_by(WITH) {
            let mut of = [[s.splat(0.0); 3]; WITH];
            for (of, m) in of.iter_mut().zip(&moments[group..]) {
                *of = [s.splat(m.shift), s.splat(m.scale), s.splat(m.offset)];
            }
            for c in (0..whole).step_by(S::LANES) {
                // SAFETY: c + LANES <= d, the length of gamma and beta; ROWS rows are within y and the block at `near`.
                unsafe {
                    let (gamma, beta) = (s.load_at(gamma.add(c)), s.load_at(beta.add(c)));
                    for (r, [shift, scale, offset]) in of.iter().enumerate() {
                        let at = (group + r) * d + c;
                        let normal = s.mul_add(s.sub(s.load_at(near.add(at)), *shift), *scale, *offset);
                        put::<S, STREAM>(s, y.add(at), s.mul_add(normal, gamma, beta));
                    }
                }
            }
            if whole == d {
                continue;
            }
            for (r, [shift, scale, offset]) in of.iter().enumerate() {
                let (gamma, beta) = (s.load_part(&self.gamma[whole..], 0.0), s.load_part(&self.beta[whole..], 0.0));
                let at = (group + r) * d + whole;
                // SAFETY: the remainder of a row of the block at `near`.
                let x = s.load_part(unsafe { std::slice::from_raw_parts(near.add(at), d - whole) }, 0.0);
                let normal = s.mul_add(s.sub(x, *shift), *scale, *offset);
                // SAFETY: the remainder of a row of y.
                let y = unsafe { std::slice::from_raw_parts_mut(y.add(at), d - whole) };
                s.store_part(y, s.mul_add(normal, gamma, beta));
            }
        }
    }

    /// Sums of x - shift and of its square over a row; with `RESIDUAL`, also writes the row to the sum and to row
    /// `kept` of the scratch. Uses several accumulators in turn to hide the latency of additions: twice as many if
    /// vectors are half as long.
    #[inline(always)]
    fn first_pass<S: Simd, const STREAM: bool>(&mut self, s: S, row: usize, kept: usize, shift: f32) -> [S::F; 2] {
        let (d, from, lanes) = (self.d, row * self.d, S::LANES);
        let turns = if lanes < 16 { 4 } else { 2 };
        let (whole, groups) = (d - d % lanes, d - d % (turns * lanes));
        let (x, residual) = (self.x.as_ptr().wrapping_add(from), self.residual.as_ptr().wrapping_add(from));
        let (sum, kept_at) = if RESIDUAL {
            (self.sum.as_mut_ptr().wrapping_add(from), self.scratch.as_mut_ptr().wrapping_add(kept * d))
        } else {
            (std::ptr::null_mut(), std::ptr::null_mut())
        };
        let from_shift = s.splat(shift);
        let (mut sums, mut squares) = ([s.splat(0.0); 4], [s.splat(0.0); 4]);
        let mut take = |i: usize, x: S::F| {
            let deviation = s.sub(x, from_shift);
            sums[i] = s.add(sums[i], deviation);
            squares[i] = s.mul_add(deviation, deviation, squares[i]);
        };
        let at = |c: usize| {
            // SAFETY: c + LANES <= d, for a row of x, residual, sum and scratch; if `STREAM`, rows are aligned to a
            // vector.
            unsafe {
                let mut v = s.load_at(x.add(c));
                if RESIDUAL {
                    v = s.add(v, s.load_at(residual.add(c)));
                    s.store_at(kept_at.add(c), v);
                    put::<S, STREAM>(s, sum.add(c), v);
                }
                v
            }
        };
        for c in (0..groups).step_by(turns * lanes) {
            for i in 0..turns {
                take(i, at(c + i * lanes));
            }
        }
        for i in 0..turns - 1 {
            let c = groups + i * lanes;
            if c < whole {
                take(i, at(c));
            }
        }
        if whole < d {
            let rest = from + whole..from + d;
            // Lanes beyond the row have deviation 0.
            let mut v = s.load_part(&self.x[rest.clone()], shift);
            if RESIDUAL {
                v = s.add(v, s.load_part(&self.residual[rest.clone()], 0.0));
                s.store_part(&mut self.scratch[kept * d + whole..kept * d + d], v);
                s.store_part(&mut self.sum[rest], v);
            }
            take(1, v);
        }
        for sums in [&mut sums, &mut squares] {
            if turns == 4 {
                sums[0] = s.add(sums[0], sums[2]);
                sums[1] = s.add(sums[1], sums[3]);
            }
            sums[0] = s.add(sums[0], sums[1]);
        }
        [sums[0], squares[0]]
    }

    /// Mean of the first vector of a row, or of the whole row if it is shorter.
    #[inline(always)]
    fn mean_of_first<S: Simd>(&self, s: S, row: usize) -> f32 {
        let n = S::LANES.min(self.d);
        let at = row * self.d..row * self.d + n;
        let part = |x: &[f32]| if n == S::LANES { s.load(x) } else { s.load_part(x, 0.0) };
        let mut x = part(&self.x[at.clone()]);
        if RESIDUAL {
            x = s.add(x, part(&self.residual[at]));
        }
        s.sum(x) / n as f32
    }
}

/// Stores a vector, with a non-temporal store if `STREAM`.
///
/// # Safety
/// `to` must point to LANES writable f32; if `STREAM`, it must be aligned as for [`Simd::stream`].
#[inline(always)]
pub(super) unsafe fn put<S: Simd, const STREAM: bool>(s: S, to: *mut f32, v: S::F) {
    // SAFETY: guaranteed by the caller.
    unsafe { if STREAM { s.stream(std::slice::from_raw_parts_mut(to, S::LANES), v) } else { s.store_at(to, v) } }
}

/// Moments from the mean of x - shift and of its square.
#[inline(always)]
pub(super) fn settle(shift: f32, rest: f32, square: f32, eps: f32) -> Moments {
    let variance = square - rest * rest;
    // Rounding may make the variance of a constant row negative; NaN stays NaN.
    let variance = if variance < 0.0 { 0.0 } else { variance };
    let scale = 1.0 / (variance + eps).sqrt();
    Moments { shift, scale, offset: -rest * scale }
}

/// Moments about `shift`, which is the mean up to rounding. Rarely needed.
#[cold]
#[inline(always)]
pub(super) fn moments_about<S: Simd>(s: S, x: &[f32], shift: f32, eps: f32) -> Moments {
    let (mut sum, mut square) = (s.splat(0.0), s.splat(0.0));
    for part in x.chunks(S::LANES) {
        let x = if part.len() == S::LANES { s.load(part) } else { s.load_part(part, shift) };
        let deviation = s.sub(x, s.splat(shift));
        sum = s.add(sum, deviation);
        square = s.mul_add(deviation, deviation, square);
    }
    let (rest, square) = (s.sum(sum) / x.len() as f32, s.sum(square) / x.len() as f32);
    if rest.is_finite() && square.is_finite() { settle(shift, rest, square, eps) } else { wide(x, eps) }
}

/// Moments of a row whose sums or squares leave f32. The result is NaN only if the row holds NaN or infinity.
#[cold]
#[inline(never)]
fn wide(x: &[f32], eps: f32) -> Moments {
    let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (variance + f64::from(eps)).sqrt();
    // Where a deviation from the mean leaves f32, the spread of the row is as large as its values, so that deviations
    // from 0 are as good.
    let in_range = x.iter().all(|x| (x - mean as f32).is_finite());
    let shift = if in_range { mean as f32 } else { 0.0 };
    Moments { shift, scale: scale as f32, offset: ((f64::from(shift) - mean) * scale) as f32 }
}
