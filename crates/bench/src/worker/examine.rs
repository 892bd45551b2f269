//! A worker that judges answers and times nothing: one process for all cases, until it ends.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ellwand_core::case::Case;
use ellwand_core::record::Outcome;
use ellwand_core::registry::Registry;
use ellwand_core::tensor::Tensors;
use ellwand_core::verdict::Verdict;

use super::protocol::Pose;
use super::serve::{implementation, workload};
use crate::check::{HardResult, failed};
use crate::hard::Hard;
use crate::measure::Instrument;
use crate::plan::Cell;
use crate::settings::Effort;

/// The parent kills a worker instead of interrupting it.
static NEVER: AtomicBool = AtomicBool::new(false);

/// A case with its inputs, its reference and its hard sets.
pub(super) struct Examiner<'a> {
    registry: &'a mut Registry,
    seed: u64,
    cell: Cell,
    made: (Case, Tensors, Tensors),
    hard: Hard,
}

impl<'a> Examiner<'a> {
    /// `registry` keeps the devices found from one case to the next, because a driver allows a limited number of opens
    /// per process.
    ///
    /// # Errors
    /// [`Outcome::Failed`] if inputs, reference or hard sets cannot be made.
    pub(super) fn new(registry: &'a mut Registry, pose: &Pose) -> Result<Self, Outcome> {
        let cell = Cell {
            workload: Arc::clone(workload(registry, &pose.case.workload)?),
            case: pose.case.clone(),
            implementations: Vec::new(),
            allowed: pose.allowed,
        };
        let instrument = instrument(registry, pose.seed);
        let made = instrument.inputs_and_reference(&cell).map_err(failed)?;
        let hard = instrument.hard_sets(&cell).map_err(failed)?;
        Ok(Self { seed: pose.seed, cell, made, hard, registry })
    }

    /// Runs an implementation twice on the inputs of the case and once on each hard set, on `device` or the first
    /// device of its kind, and judges its answers.
    ///
    /// # Errors
    /// The first outcome that is not right.
    pub(super) fn check(&mut self, name: &str, device: Option<&str>) -> Result<(Verdict, HardResult), Outcome> {
        let row = implementation(self.registry, self.cell.workload.name(), name)?.clone();
        self.registry.look_for(row.needs);
        device.into_iter().for_each(|id| _ = self.registry.prefer(id));
        let instrument = instrument(self.registry, self.seed);
        let verdict = instrument.judged(&self.cell, &self.made, &row, true)?;
        Ok((verdict, instrument.judged_on(&self.cell, &self.hard, &row)?))
    }
}

fn instrument(registry: &Registry, seed: u64) -> Instrument<'_> {
    Instrument::new(registry, Effort::Quick.settings(), seed, &NEVER)
}
