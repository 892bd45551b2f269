//! The gradient of cross-entropy as a softmax whose rows end differently: (softmax(x) - 1 at the label) times the upstream
//! gradient. The logits come from memory once.

use crate::layers::softmax::Weigh;

/// Less 1 at the label, and scaled by the upstream gradient.
#[derive(Clone, Copy)]
pub(super) struct LessLabel<'a> {
    /// The class of each row, below `d`.
    pub(super) labels: &'a [i64],
    /// One for each row; empty where `factor` is that of all.
    pub(super) upstream: &'a [f32],
    pub(super) factor: f32,
    /// Classes.
    pub(super) d: usize,
}

impl Weigh for LessLabel<'_> {
    #[inline(always)]
    fn factors<const ROWS: usize>(&self, row: usize, sums: [f32; ROWS], terms: &mut [f32]) -> [f32; ROWS] {
        let mut factors = [0.0; ROWS];
        for r in 0..ROWS {
            // (term / sum - 1) upstream = (term - sum) upstream / sum: where the label has nearly all, the difference is exact.
            terms[r * self.d + self.labels[row + r] as usize] -= sums[r];
            factors[r] = self.upstream.get(row + r).copied().unwrap_or(self.factor) / sums[r];
        }
        factors
    }
}
