//! Workloads: a mathematical task, its parameters, its inputs and the slow and obvious reference that judges everyone.

use crate::axis::{Axis, Size};
use crate::case::Case;
use crate::error::InputError;
use crate::implementation::Implementation;
use crate::reading::Reading;
use crate::tensor::{Dtype, Tensors};
use crate::verdict::{Tolerance, Verdict, compare};
use crate::work::Work;

/// An array that a workload takes or makes: a public name for `apply`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Name of the array (`x`, `packed`).
    pub name: &'static str,
    /// Element type.
    pub dtype: Dtype,
    /// Shape in words (`[N, d] or any shape`).
    pub shape: &'static str,
    /// What it holds.
    pub about: &'static str,
    /// Whether it must be given (an input) or is always made (an output).
    pub required: bool,
}

/// The arrays of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ports {
    /// What `apply` takes.
    pub inputs: Vec<Port>,
    /// What `apply` writes.
    pub outputs: Vec<Port>,
}

/// How arrays that the user gives meet the case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// All of the arrays: axes that state a size (batch) take the arrays' size.
    Whole,
    /// As much as the case asks for; an error when the arrays hold less.
    Case,
}

/// A mathematical task. Implementations of it are judged against [`Workload::reference`].
pub trait Workload: Send + Sync {
    /// Name (`lattice-encode`).
    fn name(&self) -> &str;

    /// One line for `list`.
    fn about(&self) -> &str;

    /// Groups that select it together with others (`lattice`).
    fn groups(&self) -> &[&'static str] {
        &[]
    }

    /// The dimensions of its sweep.
    fn axes(&self) -> &[Axis];

    /// Named sizes.
    fn sizes(&self) -> &[Size] {
        &[]
    }

    /// Constraints between axes.
    ///
    /// # Errors
    /// When the case makes no sense; names the axis that is to be changed.
    fn check(&self, _case: &Case) -> Result<(), InputError> {
        Ok(())
    }

    /// What a reader of the results must know about this case (a level that the data never uses).
    fn remarks(&self, _case: &Case) -> Vec<String> {
        Vec::new()
    }

    /// Estimate of the memory that inputs, reference and one implementation need together, in bytes.
    fn footprint(&self, case: &Case) -> u64;

    /// The same for one implementation by its name, where they differ much: one that keeps no squares of a sequence must not
    /// be refused for those of another.
    fn footprint_of(&self, case: &Case, _implementation: &str) -> u64 {
        self.footprint(case)
    }

    /// The arrays that `apply` takes and makes.
    fn ports(&self, _case: &Case) -> Ports {
        Ports::default()
    }

    /// The inputs of a case: the same bytes for the same case and seed, on every machine.
    ///
    /// # Errors
    /// When the case cannot have inputs.
    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError>;

    /// What the seed of the inputs is drawn from: the case's identity, unless cases that differ only in how the data are
    /// treated shall get the same data.
    fn data_digest(&self, case: &Case) -> u64 {
        case.digest()
    }

    /// Checks arrays that the user gave, completes them with what the case says, and returns the case that they make.
    ///
    /// # Errors
    /// When an array is missing, has the wrong type or shape, or holds values the task cannot take.
    fn adopt(&self, _case: &Case, _given: Tensors, _fit: Fit) -> Result<(Case, Tensors), InputError> {
        Err(InputError::new(self.name(), "this workload makes its own inputs", "a workload that takes arrays"))
    }

    /// The outputs, computed in f64 in the most obvious way. Slow is fine.
    ///
    /// # Errors
    /// When the inputs are not those of the case.
    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError>;

    /// Required work of one iteration.
    fn work(&self, case: &Case) -> Work;

    /// How far outputs may lie from the reference.
    fn tolerance(&self, _case: &Case) -> Tolerance {
        Tolerance::Close { absolute: 1e-5, relative: 1e-5 }
    }

    /// Judges outputs. The default compares names, types, shapes, NaN and values within [`Workload::tolerance`].
    fn judge(&self, case: &Case, _inputs: &Tensors, expected: &Tensors, got: &Tensors) -> Verdict {
        compare(expected, got, self.tolerance(case))
    }

    /// What the outputs say beside being right: error, rate, compression.
    fn readings(&self, _case: &Case, _inputs: &Tensors, _outputs: &Tensors) -> Vec<Reading> {
        Vec::new()
    }

    /// The implementation against which speed-up is stated unless the user names another.
    fn baseline(&self) -> &str {
        Implementation::REFERENCE
    }
}
