//! Rows under an exponential: softmax and cross-entropy, four rows at a time so that their reductions overlap. A row comes from
//! memory once; the second look at it hits a cache.
#![allow(unsafe_code)]

use crate::lanes::{Kernel, Simd, ln};

/// Largest value of each of `ROWS` rows of `x`; NaN may be passed over, since the exponentials bring it back.
#[inline(always)]
fn largest<S: Simd, const ROWS: usize>(s: S, x: &[f32], d: usize) -> [f32; ROWS] {
    assert!(x.len() >= ROWS * d);
    let whole = d - d % S::LANES;
    let mut most = [s.splat(f32::NEG_INFINITY); ROWS];
    // Row after row, as the memory system foresees it.
    for (r, most) in most.iter_mut().enumerate() {
        let mut pair = [*most; 2];
        for c in (0..whole).step_by(S::LANES) {
            // SAFETY: c + LANES <= d, and x holds ROWS rows.
            pair = [pair[1], s.max(unsafe { s.load_at(x.as_ptr().add(r * d + c)) }, pair[0])];
        }
        *most = s.max(pair[0], pair[1]);
    }
    if whole < d {
        for (r, most) in most.iter_mut().enumerate() {
            *most = s.max(s.load_part(&x[r * d + whole..r * d + d], f32::NEG_INFINITY), *most);
        }
    }
    most.map(|most| s.largest(most))
}

/// Sums of e^(x - largest) over each of `ROWS` rows; with `KEEP` the terms too, in `terms`.
#[inline(always)]
fn exponentials<S: Simd, const ROWS: usize, const KEEP: bool>(
    s: S,
    x: &[f32],
    d: usize,
    largest: [f32; ROWS],
    terms: &mut [f32],
) -> [f32; ROWS] {
    assert!(x.len() >= ROWS * d && (!KEEP || terms.len() >= ROWS * d));
    let whole = d - d % S::LANES;
    let most = largest.map(|largest| s.splat(largest));
    let mut sums = [s.splat(0.0); ROWS];
    for c in (0..whole).step_by(S::LANES) {
        for r in 0..ROWS {
            // SAFETY: c + LANES <= d, and x and terms hold ROWS rows.
            unsafe {
                let e = s.fast_exp(s.sub(s.load_at(x.as_ptr().add(r * d + c)), most[r]));
                if KEEP {
                    s.store_at(terms.as_mut_ptr().add(r * d + c), e);
                }
                sums[r] = s.add(sums[r], e);
            }
        }
    }
    if whole < d {
        for r in 0..ROWS {
            let row = r * d + whole..r * d + d;
            // A lane beyond the row adds e^-105, which is 0; in a row of nothing but -infinity all is NaN.
            let e = s.fast_exp(s.sub(s.load_part(&x[row.clone()], f32::NEG_INFINITY), most[r]));
            if KEEP {
                s.store_part(&mut terms[row], e);
            }
            sums[r] = s.add(sums[r], e);
        }
    }
    sums.map(|sum| s.sum(sum))
}

/// As many rows together as stay in the first-level cache with their terms.
fn together(d: usize) -> usize {
    match d {
        ..=512 => 4,
        513..=1024 => 2,
        _ => 1,
    }
}

/// Softmax of every row.
pub(super) struct Softmax<'a> {
    pub(super) x: &'a [f32],
    pub(super) d: usize,
    pub(super) y: &'a mut [f32],
    /// Past the caches; every row of y starts on a vector then.
    pub(super) stream: bool,
    /// Four rows.
    pub(super) scratch: &'a mut [f32],
}

impl Kernel for Softmax<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let rows = self.x.len() / self.d;
        assert!(self.y.len() == self.x.len() && self.scratch.len() >= 4 * self.d);
        let together = together(self.d);
        let mut row = 0;
        while row < rows {
            let step = if row + together <= rows { together } else { 1 };
            match step {
                4 => self.block::<S, 4>(s, row),
                2 => self.block::<S, 2>(s, row),
                _ => self.block::<S, 1>(s, row),
            }
            row += step;
        }
        if self.stream {
            s.fence();
        }
    }
}

impl Softmax<'_> {
    #[inline(always)]
    fn block<S: Simd, const ROWS: usize>(&mut self, s: S, row: usize) {
        let d = self.d;
        let x = &self.x[row * d..(row + ROWS) * d];
        let most = largest::<S, ROWS>(s, x, d);
        let sums = exponentials::<S, ROWS, true>(s, x, d, most, self.scratch);
        let y = &mut self.y[row * d..(row + ROWS) * d];
        for ((terms, y), sum) in self.scratch.chunks(d).zip(y.chunks_mut(d)).zip(sums) {
            let inverse = s.splat(1.0 / sum);
            let whole = d - d % S::LANES;
            for c in (0..whole).step_by(S::LANES) {
                let v = s.mul(s.load(&terms[c..]), inverse);
                if self.stream { s.stream(&mut y[c..], v) } else { s.store(&mut y[c..], v) }
            }
            if whole < d {
                s.store_part(&mut y[whole..], s.mul(s.load_part(&terms[whole..], 0.0), inverse));
            }
        }
    }
}

/// Sum over the rows of ln(sum of e^x) - `x[label]`; with `each`, the losses themselves in y.
pub(super) struct CrossEntropy<'a> {
    pub(super) x: &'a [f32],
    pub(super) labels: &'a [i64],
    pub(super) d: usize,
    pub(super) each: bool,
    pub(super) y: &'a mut [f32],
}

/// Rows whose logarithms are taken together.
const GROUP: usize = 16;

impl Kernel for CrossEntropy<'_> {
    type Out = f64;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        let d = self.d;
        let mut total = 0.0;
        for (group, labels) in self.labels.chunks(GROUP).enumerate() {
            let first = group * GROUP;
            let x = &self.x[first * d..(first + labels.len()) * d];
            // largest - x[label], which is exact or as good as it gets, and the sum of the exponentials.
            let (mut above, mut sums) = ([0.0_f32; GROUP], [1.0_f32; GROUP]);
            let mut row = 0;
            while row < labels.len() {
                let x = &x[row * d..];
                if row + 4 <= labels.len() {
                    let most = largest::<S, 4>(s, x, d);
                    above[row..row + 4].copy_from_slice(&most);
                    sums[row..row + 4].copy_from_slice(&exponentials::<S, 4, false>(s, x, d, most, &mut []));
                    row += 4;
                } else {
                    let most = largest::<S, 1>(s, x, d);
                    above[row] = most[0];
                    sums[row] = exponentials::<S, 1, false>(s, x, d, most, &mut [])[0];
                    row += 1;
                }
            }
            for ((above, x), label) in above.iter_mut().zip(x.chunks(d)).zip(labels) {
                *above -= x[*label as usize];
            }
            let mut losses = [0.0_f32; GROUP];
            for c in (0..GROUP).step_by(S::LANES) {
                s.store(&mut losses[c..], s.add(ln(s, s.load(&sums[c..])), s.load(&above[c..])));
            }
            let losses = &losses[..labels.len()];
            total = losses.iter().fold(total, |total, loss| total + f64::from(*loss));
            if self.each {
                self.y[first..first + losses.len()].copy_from_slice(losses);
            }
        }
        total
    }
}
