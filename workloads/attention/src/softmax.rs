//! Softmax of rows in vector lanes: whole rows of scores, or one strip of a row after another for the fused forms.
//!
//! A row that sees no key, or whose scores are all -inf, gets weights of 0, as in PyTorch's attention (its plain
//! softmax gives NaN). NaN or +inf among the visible scores makes the whole row NaN.
#![allow(unsafe_code)]

use ellwand_gemm::ROWS;
use ellwand_simd::lanes::{Kernel, Simd, exp2};

/// Largest value of a row; ignores NaN, which returns through the weights.
#[inline(always)]
pub(super) fn largest<S: Simd>(s: S, x: &[f32]) -> f32 {
    let mut top = [s.splat(f32::NEG_INFINITY); 4];
    let mut fours = x.chunks_exact(4 * S::LANES);
    for four in fours.by_ref() {
        for (i, top) in top.iter_mut().enumerate() {
            *top = s.max(s.load(&four[i * S::LANES..]), *top);
        }
    }
    for one in fours.remainder().chunks(S::LANES) {
        let v = if one.len() == S::LANES { s.load(one) } else { s.load_part(one, f32::NEG_INFINITY) };
        top[0] = s.max(v, top[0]);
    }
    s.largest(s.max(s.max(top[0], top[1]), s.max(top[2], top[3])))
}

/// `y = 2^((x - shift) factor)`, in place if there is no x; returns the sum. The difference comes first: scores that
/// share a large offset differ by little, and `x factor` alone would round that away.
#[inline(always)]
pub(super) fn weights<S: Simd>(s: S, x: Option<&[f32]>, y: &mut [f32], factor: f32, shift: f32) -> f32 {
    let len = y.len();
    let (factor, shift) = (s.splat(factor), s.splat(shift));
    let mut sum = [s.splat(0.0); 2];
    let mut at = 0;
    while at + 2 * S::LANES <= len {
        for (i, sum) in sum.iter_mut().enumerate() {
            let at = at + i * S::LANES;
            let v = s.load(x.map_or(&y[at..], |x| &x[at..]));
            let p = exp2(s, s.mul(s.sub(v, shift), factor));
            s.store(&mut y[at..], p);
            *sum = s.add(*sum, p);
        }
        at += 2 * S::LANES;
    }
    while at < len {
        let end = len.min(at + S::LANES);
        let from = x.map_or(&y[at..end], |x| &x[at..end]);
        let whole = end - at == S::LANES;
        let v = if whole { s.load(from) } else { s.load_part(from, f32::NEG_INFINITY) };
        let p = exp2(s, s.mul(s.sub(v, shift), factor));
        if whole {
            s.store(&mut y[at..end], p)
        } else {
            s.store_part(&mut y[at..end], p)
        }
        sum[0] = s.add(sum[0], p);
        at = end;
    }
    s.sum(s.add(sum[0], sum[1]))
}

/// The value subtracted from the scores of a row whose largest score is `top`.
pub(super) fn shift(top: f32) -> f32 {
    // If all scores are -inf, any finite value gives weights of 0.
    if top == f32::NEG_INFINITY { 0.0 } else { top }
}

/// 1 / sum, or 0 for a row without any weight.
pub(super) fn inverse(sum: f32) -> f32 {
    if sum == 0.0 { 0.0 } else { 1.0 / sum }
}

/// Computes whole rows: `visible` weights in `y` and zeros beyond, from the scores `x`, or in place.
pub(super) struct Row<'a> {
    pub(super) x: Option<&'a [f32]>,
    pub(super) y: &'a mut [f32],
    pub(super) length: usize,
    pub(super) visible: &'a (dyn Fn(usize) -> usize + Sync),
}

impl Kernel for Row<'_> {
    type Out = ();
    /// `y` holds rows of `length` values; `visible` gives the number of visible keys of each.
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (i, y) in self.y.chunks_exact_mut(self.length).enumerate() {
            let visible = (self.visible)(i).min(self.length);
            let x = self.x.map(|x| &x[i * self.length..][..visible]);
            let (y, beyond) = y.split_at_mut(visible);
            beyond.fill(0.0);
            let factor = std::f32::consts::LOG2_E;
            let top = largest(s, x.unwrap_or(y));
            let sum = weights(s, x, y, factor, shift(top));
            scale(s, y, inverse(sum));
        }
    }
}

#[inline(always)]
fn scale<S: Simd>(s: S, y: &mut [f32], by: f32) {
    let by = s.splat(by);
    for y in y.chunks_mut(S::LANES) {
        if y.len() == S::LANES {
            let v = s.mul(s.load(y), by);
            s.store(y, v);
        } else {
            let v = s.mul(s.load_part(y, 0.0), by);
            s.store_part(y, v);
        }
    }
}

/// One strip of an online softmax (M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, 2018): the
/// scores of a block of keys become weights relative to the largest score so far.
pub(super) struct Strip<'a> {
    /// Rows of scores, `stride` apart; the first `used` scores of each become weights.
    pub(super) scores: &'a mut [f32],
    pub(super) stride: usize,
    pub(super) used: usize,
    /// Visible keys of the block for each row.
    pub(super) visible: [usize; ROWS],
    /// Largest score of each row so far.
    pub(super) top: &'a mut [f32],
    /// Sum of the weights of each row so far.
    pub(super) sum: &'a mut [f32],
    /// Output: the factors for the sums over values so far.
    pub(super) factors: &'a mut [f32; ROWS],
    /// Factor of the scores: log2 e / sqrt(head).
    pub(super) factor: f32,
}

impl Kernel for Strip<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // Each step goes over all rows, so that the latency of one row (sums and maxima across lanes) overlaps with
        // others.
        let count = self.top.len();
        let (mut shifts, mut grown) = ([0.0; ROWS], [f32::NEG_INFINITY; 16]);
        for i in 0..count {
            let row = &self.scores[i * self.stride..][..self.visible[i].min(self.used)];
            let before = self.top[i];
            let top = f32::max(before, largest(s, row));
            shifts[i] = shift(top);
            if before != f32::NEG_INFINITY {
                grown[i] = (before - top) * self.factor;
            }
            self.top[i] = top;
        }
        let raised = grown;
        for part in grown.chunks_exact_mut(S::LANES) {
            let v = exp2(s, s.load(part));
            s.store(part, v);
        }
        for i in 0..count {
            let row = &mut self.scores[i * self.stride..][..self.used];
            let (row, beyond) = row.split_at_mut(self.visible[i].min(self.used));
            beyond.fill(0.0);
            // `exp2` of 0 is 1 + 2^-23, which would add up over the blocks of a long sequence.
            let factor = if raised[i] == 0.0 { 1.0 } else { grown[i] };
            self.sum[i] = self.sum[i] * factor + weights(s, None, row, self.factor, shifts[i]);
            self.factors[i] = factor;
        }
    }
}

/// Divides rows of `width` values, `stride` apart, by the sums of their weights.
pub(super) struct Finish<'a> {
    pub(super) rows: *mut f32,
    pub(super) stride: usize,
    pub(super) width: usize,
    pub(super) sum: &'a [f32],
}

impl Kernel for Finish<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (i, sum) in self.sum.iter().enumerate() {
            // SAFETY: `fused::rows` and `Few` pass rows of their own output, one for each sum.
            let row = unsafe { std::slice::from_raw_parts_mut(self.rows.add(i * self.stride), self.width) };
            if *sum == 0.0 { row.fill(0.0) } else { scale(s, row, inverse(*sum)) }
        }
    }
}
