//! The targets of cross-entropy, as in PyTorch: labels, i.e. classes or the label of rows that the loss skips
//! (`ignore_index`), or a probability for each class. With probabilities no row is skipped, a mean is over all rows, and
//! a row need not sum to 1.

use ellwand_core::{Axis, Case, InputError, Tensors};

/// PyTorch's default for the label of a skipped row.
const USUAL: i64 = -100;

/// The label of a skipped row inside the kernels.
const SKIPPED: i64 = -1;

/// The axes. They were added later, so their defaults leave case ids unchanged.
pub(super) fn axes() -> [Axis; 3] {
    let about = "what a row is compared with: the label of its class, or a probability per class";
    let targets = Axis::choice("targets", about, &["labels", "probabilities"], "labels");
    let about = "label of rows that the loss skips: loss and gradient are 0, and the mean ignores them";
    let index = Axis::int("ignore-index", about, i64::from(i32::MIN), i64::from(i32::MAX), USUAL);
    let share = Axis::int("ignored", "rows of the generated labels that the loss skips, in percent", 0, 100, 0);
    [targets, index, share].map(|mut axis| {
        axis.neutral = axis.default.first().cloned();
        axis
    })
}

/// True if the case compares rows with probabilities.
pub(super) fn are_probabilities(case: &Case) -> bool {
    case.text("targets") == Some("probabilities")
}

/// Rejects axes of labels in a case with probabilities: they would have no effect.
pub(super) fn check(case: &Case) -> Result<(), InputError> {
    if are_probabilities(case) && case.int("ignored").is_some_and(|share| share > 0) {
        let problem = "with targets=probabilities the loss skips no row";
        return Err(InputError::setting("ignored", problem, "ignored=0, or targets=labels"));
    }
    Ok(())
}

/// Turns normally distributed values into probabilities, row by row.
pub(super) fn make_probabilities(values: &mut [f32], classes: usize) {
    for row in values.chunks_mut(classes) {
        row.iter_mut().for_each(|x| *x = libm::expf(*x));
        let sum: f64 = row.iter().map(|x| f64::from(*x)).sum();
        row.iter_mut().for_each(|x| *x = (f64::from(*x) / sum) as f32);
    }
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
