//! Cross-entropy against probabilities p of classes: the loss of a row is sum(p) ln(sum of e^(x - m)) + sum(p (m - x))
//! with m the largest x, which involves no cancellation. Its gradient is a softmax with another last step: sum(p) softmax(x)
//! - p. As in PyTorch a class with x = -inf makes the loss infinite, or NaN if its p is 0.
#![allow(unsafe_code)]

use super::loss::in_range;
use super::softmax::{Weigh, largest};
use ellwand_simd::lanes::{Kernel, Simd};

/// Vectors of a row whose exponentials are computed together.
const TOGETHER: usize = 4;

/// Columns summed in f32 before the sums are moved to f64.
const BLOCK: usize = 4096;

/// Sum over the rows; if `each`, the individual losses in y.
pub(super) struct SoftCrossEntropy<'a> {
    pub(super) x: &'a [f32],
    pub(super) target: &'a [f32],
    pub(super) d: usize,
    pub(super) each: bool,
    pub(super) y: &'a mut [f32],
}

impl Kernel for SoftCrossEntropy<'_> {
    type Out = f64;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        let d = self.d;
        let mut total = 0.0;
        for (row, (x, target)) in self.x.chunks_exact(d).zip(self.target.chunks_exact(d)).enumerate() {
            let [most] = largest::<S, 1>(s, x, d);
            let mut sums = Sums::default();
            for (x, target) in x.chunks(BLOCK).zip(target.chunks(BLOCK)) {
                sums.add(&block(s, x, target, most));
            }
            let loss = sums.targets * sums.terms.ln() + sums.below;
            total += loss;
            if self.each {
                self.y[row] = loss as f32;
            }
        }
        total
    }
}

/// Sums over the columns of a row, with m its largest x.
#[derive(Default)]
struct Sums {
    /// Of e^(x - m).
    terms: f64,
    /// Of p (m - x).
    below: f64,
    targets: f64,
}

impl Sums {
    #[inline(always)]
    fn add(&mut self, more: &Sums) {
        self.terms += more.terms;
        self.below += more.below;
        self.targets += more.targets;
    }
}

#[inline(always)]
fn block<S: Simd>(s: S, x: &[f32], target: &[f32], most: f32) -> Sums {
    assert!(target.len() == x.len());
    let m = s.splat(most);
    let [mut terms, mut below, mut targets] = [[s.splat(0.0); TOGETHER]; 3];
    let step = TOGETHER * S::LANES;
    let whole = x.len() - x.len() % step;
    for c in (0..whole).step_by(step) {
        let mut down = [[s.splat(0.0); TOGETHER]];
        for i in 0..TOGETHER {
            let at = c + i * S::LANES;
            // SAFETY: at + LANES <= whole, which is within both arrays.
            let (x, p) = unsafe { (s.load_at(x.as_ptr().add(at)), s.load_at(target.as_ptr().add(at))) };
            down[0][i] = s.sub(x, m);
            below[i] = s.neg_mul_add(p, down[0][i], below[i]);
            targets[i] = s.add(targets[i], p);
        }
        let e = s.exp_down_each(down);
        for (terms, e) in terms.iter_mut().zip(e[0]) {
            *terms = s.add(*terms, e);
        }
    }
    for (x, target) in x[whole..].chunks(S::LANES).zip(target[whole..].chunks(S::LANES)) {
        let full = x.len() == S::LANES;
        // Lanes beyond the row: e^-infinity = 0 for the exponentials, and p = 0 times m - m for the rest.
        let [low, near] = [f32::NEG_INFINITY, most].map(|fill| if full { s.load(x) } else { s.load_part(x, fill) });
        let p = if full { s.load(target) } else { s.load_part(target, 0.0) };
        below[0] = s.neg_mul_add(p, s.sub(near, m), below[0]);
        targets[0] = s.add(targets[0], p);
        terms[0] = s.add(terms[0], s.exp_down(s.sub(low, m)));
    }
    let [terms, below, targets] = [terms, below, targets].map(|v| s.sum(s.add(s.add(v[0], v[1]), s.add(v[2], v[3]))));
    Sums {
        terms: f64::from(terms),
        below: in_range(below, || wide(x, target, most)),
        targets: in_range(targets, || target.iter().map(|p| f64::from(*p)).sum()),
    }
}

/// Sum of p (m - x) in f64, for differences that leave f32.
#[cold]
fn wide(x: &[f32], target: &[f32], most: f32) -> f64 {
    x.iter().zip(target).map(|(x, p)| f64::from(*p) * (f64::from(most) - f64::from(*x))).sum()
}

/// The last step of the gradient: (term / sum of terms) sum(p) - p, times the upstream gradient.
#[derive(Clone, Copy)]
pub(super) struct LessTarget<'a> {
    pub(super) target: &'a [f32],
    /// One value per row; empty if `factor` applies to all rows.
    pub(super) upstream: &'a [f32],
    pub(super) factor: f32,
    /// Number of classes.
    pub(super) d: usize,
}

impl Weigh for LessTarget<'_> {
    #[inline(always)]
    fn factors<const ROWS: usize>(&self, row: usize, sums: [f32; ROWS], terms: &mut [f32]) -> [f32; ROWS] {
        let mut factors = [0.0; ROWS];
        for r in 0..ROWS {
            let target = &self.target[(row + r) * self.d..][..self.d];
            let scale = sum_of(target);
            for (term, p) in terms[r * self.d..][..self.d].iter_mut().zip(target) {
                *term = *term * scale - p * sums[r];
            }
            factors[r] = self.upstream.get(row + r).copied().unwrap_or(self.factor) / sums[r];
        }
        factors
    }
}

/// Sum in sixteen interleaved sums of f32 within blocks, in f64 over the blocks.
#[inline(always)]
fn sum_of(values: &[f32]) -> f32 {
    let mut total = 0.0_f64;
    for block in values.chunks(BLOCK) {
        let mut sums = [0.0_f32; 16];
        let (sixteens, rest) = block.as_chunks::<16>();
        for values in sixteens {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += value;
            }
        }
        total += sums.iter().chain(rest).map(|x| f64::from(*x)).sum::<f64>();
    }
    total as f32
}
