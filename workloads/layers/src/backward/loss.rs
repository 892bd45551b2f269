//! The gradient of cross-entropy as a softmax with a different final step: (softmax(x) - 1 at the label) times the
//! upstream gradient. Reads the logits from memory only once.

use crate::labels::class;
use crate::softmax::Weigh;

/// Subtracts 1 at the label and multiplies by the upstream gradient.
#[derive(Clone, Copy)]
pub(super) struct LessLabel<'a> {
    /// The class of each row, below `d`, or a negative number for a row that the loss skips.
    pub(super) labels: &'a [i64],
    /// One value per row; empty if `factor` applies to all rows.
    pub(super) upstream: &'a [f32],
    pub(super) factor: f32,
    /// Number of classes.
    pub(super) d: usize,
}

impl Weigh for LessLabel<'_> {
    #[inline(always)]
    fn factors<const ROWS: usize>(&self, row: usize, sums: [f32; ROWS], terms: &mut [f32]) -> [f32; ROWS] {
        let mut factors = [0.0; ROWS];
        for r in 0..ROWS {
            // (term / sum - 1) upstream = (term - sum) upstream / sum: the difference is exact if the label has nearly
            // all of the weight.
            let Some(class) = class(self.labels[row + r]) else {
                // Also where a term is NaN.
                terms[r * self.d..][..self.d].fill(0.0);
                continue;
            };
            terms[r * self.d + class] -= sums[r];
            factors[r] = self.upstream.get(row + r).copied().unwrap_or(self.factor) / sums[r];
        }
        factors
    }
}
