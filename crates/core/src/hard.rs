//! Hard inputs: arrays that a workload names because implementations tend to fail on them where ordinary inputs pass.

use crate::case::Case;
use crate::tensor::Tensors;
use crate::verdict::Tolerance;

/// One set of hard inputs, small enough that every check can afford it.
#[derive(Debug, Clone)]
pub struct HardSet {
    /// What is hard (`offset 1e6`), unique within the workload.
    pub name: String,
    /// The case of the inputs: sizes from the set, other axes from the requested case.
    pub case: Case,
    /// Further cases that compute the same outputs from these inputs, such as one for each instruction set.
    pub also: Vec<Case>,
    /// Arrays under the names of the workload's inputs.
    pub inputs: Tensors,
    /// Replaces the judge of the workload if that one is too lenient for these inputs.
    pub tolerance: Option<Tolerance>,
}

impl HardSet {
    /// Hard inputs that the workload itself judges, for one case.
    pub fn new(name: impl Into<String>, case: Case, inputs: Tensors) -> Self {
        Self { name: name.into(), case, also: Vec::new(), inputs, tolerance: None }
    }

    /// Judges this set by `tolerance` alone.
    #[must_use]
    pub fn within(mut self, tolerance: Tolerance) -> Self {
        self.tolerance = Some(tolerance);
        self
    }

    /// All cases that compute these inputs.
    pub fn cases(&self) -> impl Iterator<Item = &Case> {
        std::iter::once(&self.case).chain(&self.also)
    }
}
