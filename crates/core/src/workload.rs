//! Workloads: a mathematical task, its parameters, its inputs, and the reference that checks every implementation.

use std::borrow::Cow;

use crate::axis::{Axis, Size};
use crate::case::Case;
use crate::error::InputError;
use crate::hard::HardSet;
use crate::implementation::Implementation;
use crate::reading::Reading;
use crate::tensor::{Dtype, Tensors};
use crate::verdict::{Tolerance, Verdict, compare};
use crate::work::Work;

/// The part of a workload that is the same for all its cases: what `list` prints and a selection matches.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// Name on the command line (`lattice-encode`).
    pub name: Cow<'static, str>,
    /// One line for `list`.
    pub about: Cow<'static, str>,
    /// Names of groups that select the workload together with others (`lattice`).
    pub groups: Vec<&'static str>,
    /// The dimensions of the sweep.
    pub axes: Vec<Axis>,
    /// Named sizes for `--size`.
    pub sizes: Vec<Size>,
    /// The implementation that speed-ups refer to by default.
    pub baseline: Cow<'static, str>,
}

impl Description {
    /// A workload without groups, axes and sizes, whose baseline is the reference.
    pub fn new(name: impl Into<Cow<'static, str>>, about: impl Into<Cow<'static, str>>) -> Self {
        let baseline = Implementation::REFERENCE.into();
        let (groups, axes, sizes) = (Vec::new(), Vec::new(), Vec::new());
        Self { name: name.into(), about: about.into(), groups, axes, sizes, baseline }
    }

    /// Adds a group.
    #[must_use]
    pub fn group(mut self, group: &'static str) -> Self {
        self.groups.push(group);
        self
    }

    /// Sets the axes.
    #[must_use]
    pub fn axes(self, axes: Vec<Axis>) -> Self {
        Self { axes, ..self }
    }

    /// Sets the named sizes.
    #[must_use]
    pub fn sizes(self, sizes: Vec<Size>) -> Self {
        Self { sizes, ..self }
    }

    /// Sets the baseline.
    #[must_use]
    pub fn baseline(self, baseline: impl Into<Cow<'static, str>>) -> Self {
        Self { baseline: baseline.into(), ..self }
    }
}

/// An array that a workload reads or writes, for `apply`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Name of the array (`x`, `packed`).
    pub name: &'static str,
    /// Type of each element.
    pub dtype: Dtype,
    /// Shape as text (`[N, d] or any shape`).
    pub shape: &'static str,
    /// What the array holds.
    pub about: &'static str,
    /// Whether an input must be given, or an output is always written.
    pub required: bool,
}

/// The arrays that a workload reads and writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ports {
    /// The arrays that `apply` reads.
    pub inputs: Vec<Port>,
    /// The arrays that `apply` writes.
    pub outputs: Vec<Port>,
}

/// How the size of the user's arrays relates to the case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Use whole arrays; axes that give a size (batch) take it from the arrays.
    Whole,
    /// Use as much as the case asks for; it is an error if the arrays hold less.
    Case,
}

/// A mathematical task. Its implementations are checked against [`Workload::reference`].
pub trait Workload: Send + Sync {
    /// Name, axes, sizes and baseline.
    fn description(&self) -> &Description;

    /// [`Description::name`]; do not override this or the five methods after it.
    fn name(&self) -> &str {
        &self.description().name
    }

    /// [`Description::about`].
    fn about(&self) -> &str {
        &self.description().about
    }

    /// [`Description::groups`].
    fn groups(&self) -> &[&'static str] {
        &self.description().groups
    }

    /// [`Description::axes`].
    fn axes(&self) -> &[Axis] {
        &self.description().axes
    }

    /// [`Description::sizes`].
    fn sizes(&self) -> &[Size] {
        &self.description().sizes
    }

    /// [`Description::baseline`].
    fn baseline(&self) -> &str {
        &self.description().baseline
    }

    /// Checks constraints between axes.
    ///
    /// # Errors
    /// If the values of the axes are inconsistent; the error names the axis to change.
    fn check(&self, _case: &Case) -> Result<(), InputError> {
        Ok(())
    }

    /// Remarks printed with the results of this case, such as a level that the data never uses.
    fn remarks(&self, _case: &Case) -> Vec<String> {
        Vec::new()
    }

    /// Estimated bytes of memory for inputs, reference and one implementation together.
    fn footprint(&self, case: &Case) -> u64;

    /// The parts of [`Workload::footprint`] by name, in bytes, for `list`; empty if the workload does not know them.
    fn memory(&self, _case: &Case) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// As [`Workload::footprint`], for one implementation by name. Override it if implementations differ much, so that
    /// a small one is not refused because of a large one.
    fn footprint_of(&self, case: &Case, _implementation: &str) -> u64 {
        self.footprint(case)
    }

    /// The arrays that `apply` reads and writes.
    fn ports(&self, _case: &Case) -> Ports {
        Ports::default()
    }

    /// Makes the inputs of a case: the same bytes for the same case and seed on every machine.
    ///
    /// # Errors
    /// If no inputs can be made for the case.
    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError>;

    /// Inputs on which implementations tend to fail: offsets, ties, infinities, huge and tiny magnitudes, constant rows,
    /// odd sizes. `check` judges every implementation on them too. An implementation that is restricted to fewer inputs
    /// declares it ([`Implementation::except`]).
    ///
    /// # Errors
    /// If no inputs can be made for the case.
    fn hard_sets(&self, _case: &Case, _seed: u64) -> Result<Vec<HardSet>, InputError> {
        Ok(Vec::new())
    }

    /// Digest that seeds the inputs: that of the case, unless cases that treat the same data differently must share it.
    fn data_digest(&self, case: &Case) -> u64 {
        case.digest()
    }

    /// Checks the user's arrays, adds what the case implies, and returns the resulting case.
    ///
    /// # Errors
    /// If an array is missing, has the wrong type or shape, or holds values that the task does not accept.
    fn adopt(&self, _case: &Case, _given: Tensors, _fit: Fit) -> Result<(Case, Tensors), InputError> {
        Err(InputError::new(self.name(), "this workload does not accept arrays", "a workload that takes arrays"))
    }

    /// Axes that change the answer but do not follow from any array, such as the number of heads of packed weights;
    /// `apply` prints the default that it uses for them.
    fn open_axes(&self) -> &[&'static str] {
        &[]
    }

    /// Computes the outputs in f64 in the most obvious way; it may be slow.
    ///
    /// # Errors
    /// If the inputs do not belong to the case.
    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError>;

    /// The work that one iteration requires; a bound or a mean if it depends on the data.
    fn work(&self, case: &Case) -> Work;

    /// The work that one iteration on these inputs requires, which rates and shares of a ceiling use. Override it if the
    /// work depends on the data.
    fn work_of(&self, case: &Case, _inputs: &Tensors) -> Work {
        self.work(case)
    }

    /// Largest accepted difference between outputs and the reference.
    fn tolerance(&self, _case: &Case) -> Tolerance {
        Tolerance::Close { absolute: 1e-5, relative: 1e-5 }
    }

    /// Checks outputs. The default compares names, types, shapes, NaN and values within [`Workload::tolerance`].
    fn judge(&self, case: &Case, _inputs: &Tensors, expected: &Tensors, got: &Tensors) -> Verdict {
        compare(expected, got, self.tolerance(case))
    }

    /// Why the user cannot choose the tolerance; `None` if they can.
    fn fixed_tolerance(&self, case: &Case) -> Option<String> {
        (self.tolerance(case) == Tolerance::Exact).then(|| "outputs must equal the reference bit by bit".into())
    }

    /// Checks outputs within a tolerance that the user chose. A workload with a separate [`Workload::judge`] that
    /// compares values or forms differently from `compare` must override this method too.
    fn judge_within(&self, _case: &Case, expected: &Tensors, got: &Tensors, tolerance: Tolerance) -> Verdict {
        compare(expected, got, tolerance)
    }

    /// Values computed from the outputs, such as error, rate or compression.
    fn readings(&self, _case: &Case, _inputs: &Tensors, _outputs: &Tensors) -> Vec<Reading> {
        Vec::new()
    }
}
