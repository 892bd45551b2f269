//! The labels of cross-entropy: classes, and the label of rows that the loss skips (PyTorch's `ignore_index`).

use ellwand_core::{Axis, Case, InputError, Tensors};

/// PyTorch's default for the label of a skipped row.
const USUAL: i64 = -100;

/// The label of a skipped row inside the kernels.
const SKIPPED: i64 = -1;

/// The axes. They were added later, so their defaults leave case ids unchanged.
pub(super) fn axes() -> [Axis; 2] {
    let about = "label of rows that the loss skips: loss and gradient 0, and no part of the mean";
    let index = Axis::int("ignore-index", about, i64::from(i32::MIN), i64::from(i32::MAX), USUAL);
    let share = Axis::int("ignored", "rows of the generated labels that the loss skips, in percent", 0, 100, 0);
    [index, share].map(|mut axis| {
        axis.neutral = axis.default.first().cloned();
        axis
    })
}

/// The label of skipped rows in the arrays of a case.
pub(super) fn ignore_index(case: &Case) -> i64 {
    case.int("ignore-index").unwrap_or(USUAL)
}

/// The labels as the kernels take them: classes, or a negative number for a skipped row.
pub(super) fn of(case: &Case, inputs: &Tensors) -> Result<Vec<i64>, InputError> {
    let skipped = ignore_index(case);
    Ok(inputs.get("labels")?.i64()?.iter().map(|label| if *label == skipped { SKIPPED } else { *label }).collect())
}

/// The class of a row; `None` if the loss skips the row.
#[inline(always)]
pub(super) fn class(label: i64) -> Option<usize> {
    usize::try_from(label).ok()
}

/// Number of rows that the loss does not skip.
pub(super) fn counted(labels: &[i64]) -> usize {
    labels.iter().filter(|label| class(**label).is_some()).count()
}
