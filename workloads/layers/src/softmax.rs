//! Row-wise operations with exponentials: softmax and cross-entropy.
//!
//! A few rows form a block. While the exponentials of one block are computed, the loads of the next block find its
//! largest values, and the terms of the previous block are scaled and stored. Memory and arithmetic are thus busy at
//! the same time, and a row is loaded from memory only once.
#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop, reason = "rows and columns of several arrays at once")]

use super::labels::class;
use ellwand_simd::lanes::{Kernel, Simd, ln};

/// Largest value of each of `ROWS` rows of `x`; may ignore NaN, which returns through the exponentials.
#[inline(always)]
pub(super) fn largest<S: Simd, const ROWS: usize>(s: S, x: &[f32], d: usize) -> [f32; ROWS] {
    assert!(x.len() >= ROWS * d);
    let whole = d - d % S::LANES;
    let mut most = [s.splat(f32::NEG_INFINITY); ROWS];
    for c in (0..whole).step_by(S::LANES) {
        for (r, most) in most.iter_mut().enumerate() {
            // SAFETY: c + LANES <= d, and x holds ROWS rows.
            *most = s.max(unsafe { s.load_at(x.as_ptr().add(r * d + c)) }, *most);
        }
    }
    if whole < d {
        for (r, most) in most.iter_mut().enumerate() {
            *most = s.max(s.load_part(&x[r * d + whole..r * d + d], f32::NEG_INFINITY), *most);
        }
    }
    most.map(|most| s.largest(most))
}

/// A block with known exponentials: writes terms times the factor of their row to y.
struct Finish<'a, const ROWS: usize> {
    terms: &'a [f32],
    factors: [f32; ROWS],
    y: &'a mut [f32],
}

impl<const ROWS: usize> Finish<'_, ROWS> {
    /// Scales one vector of columns starting at `c`.
    ///
    /// # Safety
    /// c + LANES must be within a row, and terms and y must hold `ROWS` rows; if `STREAM`, rows of y must be aligned to
    /// a vector.
    #[inline(always)]
    unsafe fn columns<S: Simd, const STREAM: bool>(&mut self, s: S, factors: &[S::F; ROWS], d: usize, c: usize) {
        for (r, factor) in factors.iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let v = s.mul(s.load_at(self.terms.as_ptr().add(r * d + c)), *factor);
                let to = self.y.as_mut_ptr().add(r * d + c);
                if STREAM { s.stream(std::slice::from_raw_parts_mut(to, S::LANES), v) } else { s.store_at(to, v) }
            }
        }
    }

    /// Scales the columns beyond the last whole vector.
    #[inline(always)]
    fn rest<S: Simd>(&mut self, s: S, factors: &[S::F; ROWS], d: usize) {
        let whole = d - d % S::LANES;
        if whole < d {
            for (r, factor) in factors.iter().enumerate() {
                let tail = r * d + whole..r * d + d;
                s.store_part(&mut self.y[tail.clone()], s.mul(s.load_part(&self.terms[tail], 0.0), *factor));
            }
        }
    }

    #[inline(always)]
    fn check(&self, d: usize) {
        assert!(self.terms.len() >= ROWS * d && self.y.len() >= ROWS * d);
    }

    #[inline(always)]
    fn factors<S: Simd>(&self, s: S) -> [S::F; ROWS] {
        self.factors.map(|factor| s.splat(factor))
    }

    /// Scales the whole block.
    #[inline(always)]
    fn all<S: Simd, const STREAM: bool>(mut self, s: S, d: usize) {
        self.check(d);
        let factors = self.factors(s);
        for c in (0..d - d % S::LANES).step_by(S::LANES) {
            // SAFETY: c + LANES <= d; the lengths were checked.
            unsafe { self.columns::<S, STREAM>(s, &factors, d, c) };
        }
        self.rest(s, &factors, d);
    }
}

/// Vectors of one row whose exponentials are computed together.
const TOGETHER: usize = 4;

/// State of `ROWS` rows during a pass: the largest values of the rows ahead, and the sums of exponentials.
struct State<F, const ROWS: usize> {
    next: [F; ROWS],
    sums: [F; ROWS],
}

impl<F: Copy, const ROWS: usize> State<F, ROWS> {
    /// Processes `COLUMNS` vectors of each row starting at column `c`.
    ///
    /// # Safety
    /// The columns must be within a row of d, and x and ahead must hold `ROWS` rows; if `KEEP`, so must terms.
    #[allow(clippy::too_many_arguments, reason = "the arrays of one loop")]
    #[inline(always)]
    unsafe fn columns<S: Simd<F = F>, const COLUMNS: usize, const KEEP: bool>(
        &mut self,
        s: S,
        d: usize,
        c: usize,
        x: &[f32],
        most: &[F; ROWS],
        ahead: &[f32],
        terms: &mut [f32],
    ) {
        let at = |r: usize, i: usize| r * d + c + i * S::LANES;
        let mut v = [[s.splat(0.0); COLUMNS]; ROWS];
        for r in 0..ROWS {
            for i in 0..COLUMNS {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    v[r][i] = s.sub(s.load_at(x.as_ptr().add(at(r, i))), most[r]);
                    self.next[r] = s.max(s.load_at(ahead.as_ptr().add(at(r, i))), self.next[r]);
                }
            }
        }
        let e = s.exp_down_each(v);
        for r in 0..ROWS {
            for i in 0..COLUMNS {
                if KEEP {
                    // SAFETY: guaranteed by the caller.
                    unsafe { s.store_at(terms.as_mut_ptr().add(at(r, i)), e[r][i]) };
                }
                // Added one after another, so that the sum does not depend on the grouping.
                self.sums[r] = s.add(self.sums[r], e[r][i]);
            }
        }
    }
}

/// Sums of e^(x - most) over each of `ROWS` rows; if `KEEP`, also stores the terms in `terms`. Meanwhile finds the
/// largest values of the rows `ahead` and finishes an earlier block.
#[inline(always)]
fn exponentials<S: Simd, const ROWS: usize, const KEEP: bool, const STREAM: bool>(
    s: S,
    d: usize,
    x: &[f32],
    most: [f32; ROWS],
    ahead: &[f32],
    terms: &mut [f32],
    mut finish: Option<Finish<'_, ROWS>>,
) -> ([f32; ROWS], [f32; ROWS]) {
    assert!(x.len() >= ROWS * d && ahead.len() >= ROWS * d && (!KEEP || terms.len() >= ROWS * d));
    let whole = d - d % S::LANES;
    let most = most.map(|most| s.splat(most));
    let factors = match &finish {
        Some(finish) => {
            finish.check(d);
            finish.factors(s)
        }
        None => [s.splat(0.0); ROWS],
    };
    let mut state = State { next: [s.splat(f32::NEG_INFINITY); ROWS], sums: [s.splat(0.0); ROWS] };
    // A single row takes several of its columns together, several rows one column of each.
    let groups = if ROWS == 1 { d - d % (TOGETHER * S::LANES) } else { 0 };
    for c in (0..groups).step_by(TOGETHER * S::LANES) {
        // SAFETY: c + TOGETHER LANES <= d, and all arrays hold ROWS rows.
        unsafe {
            state.columns::<S, TOGETHER, KEEP>(s, d, c, x, &most, ahead, terms);
            if let Some(finish) = &mut finish {
                for i in 0..TOGETHER {
                    finish.columns::<S, STREAM>(s, &factors, d, c + i * S::LANES);
                }
            }
        }
    }
    for c in (groups..whole).step_by(S::LANES) {
        // SAFETY: c + LANES <= d, and all arrays hold ROWS rows.
        unsafe {
            state.columns::<S, 1, KEEP>(s, d, c, x, &most, ahead, terms);
            if let Some(finish) = &mut finish {
                finish.columns::<S, STREAM>(s, &factors, d, c);
            }
        }
    }
    let State { mut next, mut sums } = state;
    if whole < d {
        for r in 0..ROWS {
            let row = r * d + whole..r * d + d;
            next[r] = s.max(s.load_part(&ahead[row.clone()], f32::NEG_INFINITY), next[r]);
            // Lanes beyond the row add e^-infinity = 0; in a row with nothing but -infinity everything is NaN.
            let e = s.exp_down(s.sub(s.load_part(&x[row.clone()], f32::NEG_INFINITY), most[r]));
            if KEEP {
                s.store_part(&mut terms[row], e);
            }
            sums[r] = s.add(sums[r], e);
        }
        if let Some(finish) = &mut finish {
            finish.rest(s, &factors, d);
        }
    }
    (sums.map(|sum| s.sum(sum)), next.map(|next| s.largest(next)))
}

/// The final step for the exponentials of a row and their sum.
pub(super) trait Weigh: Copy {
    /// The factors for the terms of `ROWS` rows starting at `row`, given their sums; may change the terms.
    fn factors<const ROWS: usize>(&self, row: usize, sums: [f32; ROWS], terms: &mut [f32]) -> [f32; ROWS];
}

/// Weights that sum to 1.
#[derive(Clone, Copy)]
pub(super) struct Share;

impl Weigh for Share {
    #[inline(always)]
    fn factors<const ROWS: usize>(&self, _: usize, sums: [f32; ROWS], _: &mut [f32]) -> [f32; ROWS] {
        sums.map(|sum| 1.0 / sum)
    }
}

/// Softmax of every row, with the final step `weigh`.
pub(super) struct Softmax<'a, W> {
    pub(super) x: &'a [f32],
    pub(super) d: usize,
    pub(super) y: &'a mut [f32],
    /// Use non-temporal stores; every row of y is then aligned to a vector.
    pub(super) stream: bool,
    /// Buffer of [`SCRATCH`] rows.
    pub(super) scratch: &'a mut [f32],
    pub(super) weigh: W,
}

/// Rows of scratch that a softmax needs: two blocks of terms.
pub(super) const SCRATCH: usize = 8;

impl<W: Weigh> Kernel for Softmax<'_, W> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let rows = self.x.len() / self.d;
        assert!(self.y.len() == self.x.len() && self.scratch.len() >= SCRATCH * self.d);
        if self.stream {
            self.pipeline::<S, 1, true>(s, 0, rows);
            return s.fence();
        }
        // Several short rows together, as many as their state fits into registers (largest, sum, next largest, 1 /
        // sum).
        let together = match self.d {
            ..=128 if S::REGISTERS >= 32 => 4,
            ..=128 => 2,
            _ => 1,
        };
        let blocks = rows / together * together;
        match together {
            4 => self.pipeline::<S, 4, false>(s, 0, blocks),
            2 => self.pipeline::<S, 2, false>(s, 0, blocks),
            _ => {}
        }
        self.pipeline::<S, 1, false>(s, if together == 1 { 0 } else { blocks }, rows);
    }
}

impl<W: Weigh> Softmax<'_, W> {
    /// Processes rows `from..to` in blocks of `ROWS`, which divides their number.
    #[inline(always)]
    fn pipeline<S: Simd, const ROWS: usize, const STREAM: bool>(&mut self, s: S, from: usize, to: usize) {
        if from == to {
            return;
        }
        let d = self.d;
        let n = ROWS * d;
        let x = &self.x[from * d..to * d];
        let (mut terms, mut before) = self.scratch.split_at_mut(n);
        let y = &mut self.y[from * d..to * d];
        let ahead = |at: usize| if at + n < x.len() { &x[at + n..] } else { &x[at..] };
        let most = largest::<S, ROWS>(s, x, d);
        let weigh = self.weigh;
        let (sums, mut most) = exponentials::<S, ROWS, true, STREAM>(s, d, x, most, ahead(0), terms, None);
        let mut factors = weigh.factors(from, sums, terms);
        for at in (n..x.len()).step_by(n) {
            std::mem::swap(&mut terms, &mut before);
            let finish = Finish { terms: before, factors, y: &mut y[at - n..at] };
            let sums;
            (sums, most) = exponentials::<S, ROWS, true, STREAM>(s, d, &x[at..], most, ahead(at), terms, Some(finish));
            factors = weigh.factors(from + at / d, sums, terms);
        }
        let last = x.len() - n;
        Finish { terms, factors, y: &mut y[last..] }.all::<S, STREAM>(s, d);
    }
}

/// Sum over the rows that are not skipped of ln(sum of e^x) - `x[label]`; if `each`, the individual losses in y.
pub(super) struct CrossEntropy<'a> {
    pub(super) x: &'a [f32],
    pub(super) labels: &'a [i64],
    pub(super) d: usize,
    pub(super) each: bool,
    /// True if the logits come from main memory.
    pub(super) far: bool,
    pub(super) y: &'a mut [f32],
}

/// Rows whose logarithms are computed together.
const GROUP: usize = 16;

impl Kernel for CrossEntropy<'_> {
    type Out = f64;
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) -> f64 {
        // Whole groups in blocks of as many short rows as their state fits into registers; the remainder and longer
        // rows one by one. Rows from memory are also processed one by one, because several rows of one page at a time
        // defeat the prefetcher (four rows of 512 took 1.8 times as long as one, four of 256 three times).
        let together = match self.d {
            ..=128 if !self.far => {
                if S::REGISTERS >= 32 {
                    4
                } else {
                    2
                }
            }
            _ => 1,
        };
        let whole = if together == 1 { 0 } else { self.labels.len() / GROUP * GROUP };
        let total = match together {
            4 => self.pipeline::<S, 4>(s, 0, whole),
            2 => self.pipeline::<S, 2>(s, 0, whole),
            _ => 0.0,
        };
        total + self.pipeline::<S, 1>(s, whole, self.labels.len())
    }
}

impl CrossEntropy<'_> {
    /// Sum of the losses of the rows `from..to` in blocks of `ROWS`, which divides their number and the group size.
    #[inline(always)]
    fn pipeline<S: Simd, const ROWS: usize>(&mut self, s: S, from: usize, to: usize) -> f64 {
        if from == to {
            return 0.0;
        }
        let d = self.d;
        let n = ROWS * d;
        let x = &self.x[from * d..to * d];
        let mut most = largest::<S, ROWS>(s, x, d);
        let mut total = 0.0;
        for (group, labels) in self.labels[from..to].chunks(GROUP).enumerate() {
            // largest - x[label], which is as exact as possible, and the sum of the exponentials.
            let (mut above, mut sums) = ([0.0_f32; GROUP], [1.0_f32; GROUP]);
            for row in (0..labels.len()).step_by(ROWS) {
                let at = (group * GROUP + row) * d;
                let ahead = if at + n < x.len() { &x[at + n..] } else { &x[at..] };
                let (sum, next) = exponentials::<S, ROWS, false, false>(s, d, &x[at..], most, ahead, &mut [], None);
                for r in 0..ROWS {
                    // A skipped row keeps its sum of 1 and thus its loss of 0.
                    if let Some(class) = class(labels[row + r]) {
                        above[row + r] = most[r] - x[at + r * d + class];
                        sums[row + r] = sum[r];
                    }
                }
                most = next;
            }
            let mut losses = [0.0_f32; GROUP];
            for c in (0..GROUP).step_by(S::LANES) {
                s.store(&mut losses[c..], s.add(ln(s, s.load(&sums[c..])), s.load(&above[c..])));
            }
            let losses = &losses[..labels.len()];
            total = losses.iter().fold(total, |total, loss| total + f64::from(*loss));
            if self.each {
                let first = from + group * GROUP;
                self.y[first..first + losses.len()].copy_from_slice(losses);
            }
        }
        total
    }
}
