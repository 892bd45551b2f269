//! Layer normalisation of rows, a few at a time so that their reductions overlap.
//!
//! Two passes over a block of rows; where stores are ordinary, the first over one block goes along with the second over the
//! block before, so that loads and reductions hide behind arithmetic. The first sums d = x - shift and d^2, where the shift is the mean of
//! the row's first vector; the mean and the variance follow by T. F. Chan, G. H. Golub, R. J. LeVeque, Algorithms for computing
//! the sample variance, 1983. So a mean of 1e4 costs no digit. Where the shift lies too far from the mean for that, the
//! row is summed again about its mean.
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
    /// [`SCRATCH`] rows, for the sums.
    pub(super) scratch: &'a mut [f32],
}

/// Rows of scratch that a normalisation with residual needs: two blocks, or those of a burst.
pub(super) const SCRATCH: usize = 8;

/// Values that are read, and then written, in one burst of streamed stores.
const BURST: usize = 4096;

/// (mean - shift)^2 over the variance, above which the digits that the correction costs begin to count.
const FAR: f32 = 1.0;

/// What the second pass does to a row: ((x - shift) scale + offset) gamma + beta.
#[derive(Clone, Copy, Default)]
struct Moments {
    shift: f32,
    scale: f32,
    offset: f32,
}

impl<const RESIDUAL: bool> Kernel for Norm<'_, RESIDUAL> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let rows = self.x.len() / self.d;
        assert!(self.residual.len() == self.x.len() && self.y.len() == self.x.len());
        assert!(self.gamma.len() == self.d && self.beta.len() == self.d);
        assert!(!RESIDUAL || (self.sum.len() == self.x.len() && self.scratch.len() >= SCRATCH * self.d));
        if self.stream {
            return self.bursts(s, rows);
        }
        // As many rows together as leave two blocks in the first-level cache beside what is written.
        let together = match self.d {
            ..=512 if S::REGISTERS >= 32 => 4,
            ..=1024 => 2,
            _ => 1,
        };
        let blocks = rows / together * together;
        match together {
            4 => self.pipeline::<S, 4>(s, 0, blocks),
            2 => self.pipeline::<S, 2>(s, 0, blocks),
            _ => {}
        }
        self.pipeline::<S, 1>(s, if together == 1 { 0 } else { blocks }, rows);
    }
}

impl<const RESIDUAL: bool> Norm<'_, RESIDUAL> {
    /// Rows `from..to` in blocks of `ROWS`, which divides their number. The caller checked the lengths of all arrays.
    #[inline(always)]
    fn pipeline<S: Simd, const ROWS: usize>(&mut self, s: S, from: usize, to: usize) {
        if from == to {
            return;
        }
        let mut moments = self.pass::<S, ROWS, false, true, false>(s, from, [Moments::default(); ROWS]);
        for row in (from + ROWS..to).step_by(ROWS) {
            moments = self.pass::<S, ROWS, false, true, true>(s, row, moments);
        }
        self.pass::<S, ROWS, false, false, true>(s, to, moments);
    }

    /// All rows with streamed stores: a few are summed, then as many stored. Loads and streamed stores in turn cost the memory
    /// more than they hide.
    #[inline(always)]
    fn bursts<S: Simd>(&mut self, s: S, rows: usize) {
        let burst = (BURST / self.d).clamp(1, SCRATCH);
        let mut moments = [[Moments::default()]; SCRATCH];
        for from in (0..rows).step_by(burst) {
            let here = &mut moments[..burst.min(rows - from)];
            for (row, moments) in (from..).zip(&mut *here) {
                *moments = self.pass::<S, 1, true, true, false>(s, row, *moments);
            }
            for (row, moments) in (from..).zip(here) {
                self.pass::<S, 1, true, false, true>(s, row + 1, *moments);
            }
        }
        s.fence();
    }

    /// Where the sums of the block at `row` stand: blocks take turns in the scratch.
    #[inline(always)]
    fn kept<const ROWS: usize>(&mut self, row: usize) -> *mut f32 {
        // SAFETY: with RESIDUAL, which alone calls this, the scratch holds blocks of SCRATCH rows in all.
        unsafe { self.scratch.as_mut_ptr().add(row / ROWS % (SCRATCH / ROWS) * ROWS * self.d) }
    }

    /// Where the second pass over the block at `row` reads.
    #[inline(always)]
    fn near<const ROWS: usize>(&mut self, row: usize) -> *const f32 {
        // SAFETY: the block is within x.
        if RESIDUAL { self.kept::<ROWS>(row).cast_const() } else { unsafe { self.x.as_ptr().add(row * self.d) } }
    }

    /// The first pass over the block at `row`, and with it the second over the block before, whose moments are `before`.
    #[inline(always)]
    fn pass<S: Simd, const ROWS: usize, const STREAM: bool, const FIRST: bool, const SECOND: bool>(
        &mut self,
        s: S,
        row: usize,
        before: [Moments; ROWS],
    ) -> [Moments; ROWS] {
        let d = self.d;
        let whole = d - d % S::LANES;
        let put = |to: *mut f32, v: S::F| {
            // SAFETY: `to` points to LANES f32 of an output row (see the calls); for STREAM the caller says that it is aligned.
            unsafe {
                if STREAM { s.stream(std::slice::from_raw_parts_mut(to, S::LANES), v) } else { s.store_at(to, v) }
            }
        };
        let from = row * d;
        // The block before, where there is one.
        let last = if SECOND { row - ROWS } else { row };
        let (y, near) = (self.y.as_mut_ptr(), self.near::<ROWS>(last));
        let kept = if RESIDUAL { self.kept::<ROWS>(row) } else { std::ptr::null_mut() };
        let first_mean: [f32; ROWS] = std::array::from_fn(|r| if FIRST { self.mean_of_first(s, row + r) } else { 0.0 });
        let shift = first_mean.map(|mean| s.splat(mean));
        let mut sums = [s.splat(0.0); ROWS];
        let mut squares = [s.splat(0.0); ROWS];
        let [old_shift, scale, offset] = [
            before.map(|row| s.splat(row.shift)),
            before.map(|row| s.splat(row.scale)),
            before.map(|row| s.splat(row.offset)),
        ];

        for c in (0..whole).step_by(S::LANES) {
            if FIRST {
                for r in 0..ROWS {
                    let at = from + r * d + c;
                    // SAFETY: c + LANES <= d and ROWS rows from `row` on are within x, residual, sum and half of the scratch.
                    let mut x = unsafe { s.load_at(self.x.as_ptr().add(at)) };
                    if RESIDUAL {
                        // SAFETY: as above.
                        unsafe {
                            x = s.add(x, s.load_at(self.residual.as_ptr().add(at)));
                            s.store_at(kept.add(r * d + c), x);
                            put(self.sum.as_mut_ptr().add(at), x);
                        }
                    }
                    let deviation = s.sub(x, shift[r]);
                    sums[r] = s.add(sums[r], deviation);
                    squares[r] = s.mul_add(deviation, deviation, squares[r]);
                }
            }
            if SECOND {
                // SAFETY: c + LANES <= d, the length of gamma and beta; the block before is within y and where `near` points.
                unsafe {
                    let (gamma, beta) = (s.load_at(self.gamma.as_ptr().add(c)), s.load_at(self.beta.as_ptr().add(c)));
                    for r in 0..ROWS {
                        let x = s.load_at(near.add(r * d + c));
                        let normal = s.mul_add(s.sub(x, old_shift[r]), scale[r], offset[r]);
                        put(y.add((last + r) * d + c), s.mul_add(normal, gamma, beta));
                    }
                }
            }
        }
        if whole < d {
            let tail = whole..d;
            for r in 0..ROWS {
                if FIRST {
                    let at = from + r * d + whole..from + r * d + d;
                    // Lanes beyond the row deviate by nothing.
                    let mut x = s.load_part(&self.x[at.clone()], first_mean[r]);
                    if RESIDUAL {
                        x = s.add(
                            s.load_part(&self.x[at.clone()], first_mean[r]),
                            s.load_part(&self.residual[at.clone()], 0.0),
                        );
                        // SAFETY: the rest of a row of the block, which nothing else borrows.
                        let rest = unsafe { std::slice::from_raw_parts_mut(kept.add(r * d + whole), d - whole) };
                        s.store_part(rest, x);
                        s.store_part(&mut self.sum[at], x);
                    }
                    let deviation = s.sub(x, shift[r]);
                    sums[r] = s.add(sums[r], deviation);
                    squares[r] = s.mul_add(deviation, deviation, squares[r]);
                }
                if SECOND {
                    let gamma = s.load_part(&self.gamma[tail.clone()], 0.0);
                    let beta = s.load_part(&self.beta[tail.clone()], 0.0);
                    // SAFETY: the rest of a row where `near` points, of the block before.
                    let x = unsafe { std::slice::from_raw_parts(near.add(r * d + whole), d - whole) };
                    let normal = s.mul_add(s.sub(s.load_part(x, 0.0), old_shift[r]), scale[r], offset[r]);
                    let at = (last + r) * d;
                    s.store_part(&mut self.y[at + whole..at + d], s.mul_add(normal, gamma, beta));
                }
            }
        }
        let mut moments = [Moments::default(); ROWS];
        if FIRST {
            for r in 0..ROWS {
                // Divided, so that a constant row far from 0 leaves nothing.
                let (rest, square) = (s.sum(sums[r]) / d as f32, s.sum(squares[r]) / d as f32);
                moments[r] = if rest * rest > FAR * (square - rest * rest) {
                    let here = self.near::<ROWS>(row);
                    // SAFETY: a row of the block where `near` points.
                    again(s, unsafe { std::slice::from_raw_parts(here.add(r * d), d) }, first_mean[r] + rest, self.eps)
                } else {
                    settle(first_mean[r], rest, square, self.eps)
                };
            }
        }
        moments
    }

    /// Mean of the first vector of a row, or of the row where that is shorter.
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

/// Moments from the mean of x - shift and of its square.
#[inline(always)]
fn settle(shift: f32, rest: f32, square: f32, eps: f32) -> Moments {
    let variance = square - rest * rest;
    // Rounding may leave less than nothing of a constant row; NaN stays.
    let variance = if variance < 0.0 { 0.0 } else { variance };
    let scale = 1.0 / (variance + eps).sqrt();
    Moments { shift, scale, offset: -rest * scale }
}

/// Moments about `shift`, which is the mean but for its rounding. Rarely needed, so kept out of the loop.
#[cold]
#[inline(always)]
fn again<S: Simd>(s: S, x: &[f32], shift: f32, eps: f32) -> Moments {
    let (mut sum, mut square) = (s.splat(0.0), s.splat(0.0));
    for part in x.chunks(S::LANES) {
        let x = if part.len() == S::LANES { s.load(part) } else { s.load_part(part, shift) };
        let deviation = s.sub(x, s.splat(shift));
        sum = s.add(sum, deviation);
        square = s.mul_add(deviation, deviation, square);
    }
    settle(shift, s.sum(sum) / x.len() as f32, s.sum(square) / x.len() as f32, eps)
}
