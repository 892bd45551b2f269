//! Judges implementations on the hard input sets of their workload.

use std::sync::atomic::Ordering::Relaxed;

use ellwand_core::error::InputError;
use ellwand_core::implementation::Implementation;
use ellwand_core::record::Outcome;
use ellwand_core::tensor::Tensors;
use ellwand_core::verdict::{Verdict, compare};
use ellwand_core::{Case, HardSet};

pub use crate::check::HardResult;
use crate::check::{self, SetupError, Task};
use crate::measure::Instrument;
use crate::plan::Cell;

/// The hard sets of a cell with their expected outputs.
pub type Hard = Vec<(HardSet, Tensors)>;

impl Instrument<'_> {
    /// Makes the hard sets of a cell.
    ///
    /// # Errors
    /// If inputs or reference cannot be computed.
    pub fn hard_sets(&self, cell: &Cell) -> Result<Hard, SetupError> {
        let workload = cell.workload.as_ref();
        Ok(check::guarded("the workload's hard sets", || {
            let sets = workload.hard_sets(&cell.case, self.seed)?;
            let with_expected = |set: HardSet| {
                let expected = workload.reference(&set.case, &set.inputs)?;
                Ok::<_, InputError>((set, expected))
            };
            sets.into_iter().map(with_expected).collect::<Result<Vec<_>, InputError>>()
        })??)
    }

    /// Runs an implementation once on each hard set and judges its answers; nothing is timed. An interrupt skips the
    /// remaining sets.
    ///
    /// # Errors
    /// The first wrong or failed outcome, which names its set.
    pub fn judged_on(
        &self,
        cell: &Cell,
        hard: &[(HardSet, Tensors)],
        row: &Implementation,
    ) -> Result<HardResult, Outcome> {
        let mut judged = HardResult::default();
        // The other cases choose among our instruction sets and tiles, which other libraries do not have.
        let forms = if row.foreign { 1 } else { usize::MAX };
        for (set, expected) in hard.iter().take_while(|_| !self.interrupt.load(Relaxed)) {
            if let Some(limit) = row.limits.iter().find(|limit| limit.set == set.name) {
                judged.excepted.push((set.name.clone(), limit.range.to_string()));
                continue;
            }
            let (mut right, mut wrong) = (false, None);
            for case in set.cases().take(forms) {
                match self.judged_at(cell, set, expected, case, row) {
                    Ok(()) => right = true,
                    Err(Outcome::Unsupported { .. }) => {}
                    Err(Outcome::Wrong { verdict }) if row.foreign => wrong = Some(verdict.detail),
                    Err(outcome) => return Err(named(outcome, set, case)),
                }
            }
            judged.right += usize::from(right && wrong.is_none());
            judged.excepted.extend(wrong.map(|why| (set.name.clone(), why)));
        }
        Ok(judged)
    }

    fn judged_at(
        &self,
        cell: &Cell,
        set: &HardSet,
        expected: &Tensors,
        case: &Case,
        row: &Implementation,
    ) -> Result<(), Outcome> {
        let device = self.device(row)?;
        let task = Task { workload: cell.workload.as_ref(), case, inputs: &set.inputs, allowed: cell.allowed };
        let mut ran = check::first_run(&task, row, device)?;
        let output = check::output(ran.prepared.as_mut())?;
        let Some(tolerance) = set.tolerance.filter(|_| cell.allowed.is_none()) else {
            return check::judge(&task, expected, &output).map(drop);
        };
        let verdict = compare(expected, &output, tolerance).of_something();
        if verdict.passed { Ok(()) } else { Err(Outcome::Wrong { verdict }) }
    }
}

/// The outcome with the hard set in its reason.
fn named(outcome: Outcome, set: &HardSet, case: &Case) -> Outcome {
    let place = format!("hard set '{}', {case}", set.name);
    match outcome {
        Outcome::Wrong { verdict } => {
            Outcome::Wrong { verdict: Verdict { detail: format!("{place}: {}", verdict.detail), ..verdict } }
        }
        Outcome::Failed { error } => Outcome::Failed { error: format!("{place}: {error}") },
        other => other,
    }
}
