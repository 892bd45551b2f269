//! The layer operations as functions on the caller's arrays: the kernels of `parallel`, without copies.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ellwand_core::InputError;
use ellwand_simd::isa::Isa;
use ellwand_simd::stores;

use super::job::{LINE, Method, pass, rows_of};
use super::op::{Op, Step};
use super::piece::{Piece, Plan, Way};

/// The inputs of an operation; arrays that it does not use are empty.
#[derive(Debug, Clone, Copy)]
pub struct Layer<'a> {
    /// Name of the workload (`layer-norm`).
    pub name: &'a str,
    /// Values per row: the extent of the last axis.
    pub dimension: usize,
    /// The main input, in complete rows.
    pub x: &'a [f32],
    /// `target`, `residual` or `up`, with the length of `x`; for `cross-entropy-loss` without labels the probabilities
    /// of the classes.
    pub second: &'a [f32],
    /// `gamma` and `beta`, or `bias`, with one value per column.
    pub vectors: [&'a [f32]; 2],
    /// Class of each row, for `cross-entropy-loss`.
    pub labels: &'a [i64],
    /// Added to the variance.
    pub eps: f32,
    /// True for the tanh form of GELU.
    pub tanh: bool,
    /// True to use all threads, false to use only the calling one.
    pub parallel: bool,
}

impl<'a> Layer<'a> {
    /// The operation `name` on rows of `dimension` values, with only its main input.
    pub fn new(name: &'a str, x: &'a [f32], dimension: usize) -> Self {
        Self {
            name,
            dimension,
            x,
            second: &[],
            vectors: [&[], &[]],
            labels: &[],
            eps: 1e-5,
            tanh: false,
            parallel: true,
        }
    }

    /// Writes the result to `y`, and x + residual to `sum` if the operation is `residual-layer-norm`.
    ///
    /// # Errors
    /// If the operation is unknown or an array has the wrong length; the error names it.
    pub fn compute(&self, y: &mut [f32], sum: &mut [f32]) -> Result<(), InputError> {
        let op = self.checked()?;
        if op.is_loss() {
            return Err(InputError::new(
                self.name,
                "it is a loss, which returns one number",
                "another layer operation",
            ));
        }
        length("y", y.len(), self.x.len())?;
        length("sum", sum.len(), if op == Op::ResidualLayerNorm { self.x.len() } else { 0 })?;
        self.pieces(op, y, sum);
        Ok(())
    }

    /// The mean loss over all elements (`mse-loss`) or rows (`cross-entropy-loss`).
    ///
    /// # Errors
    /// As [`Layer::compute`]; also if a label is not a class.
    pub fn mean_loss(&self) -> Result<f32, InputError> {
        let op = self.checked()?;
        let count = match op {
            Op::MseLoss => self.x.len(),
            Op::CrossEntropyLoss | Op::SoftCrossEntropyLoss => self.x.len() / self.dimension,
            _ => return Err(InputError::new(self.name, "it is not a loss", "mse-loss or cross-entropy-loss")),
        };
        #[allow(clippy::cast_possible_truncation)]
        Ok((self.pieces(op, &mut [], &mut []) / count as f64) as f32)
    }

    fn checked(&self) -> Result<Op, InputError> {
        let names = Op::ALL.map(Op::name).join(", ");
        let op = Op::ALL.into_iter().find(|op| op.name() == self.name).ok_or_else(|| {
            InputError::new("operation", format!("'{}' is unknown", self.name), format!("one of {names}"))
        })?;
        let soft = op == Op::CrossEntropyLoss && self.labels.is_empty() && !self.second.is_empty();
        let op = if soft { Op::SoftCrossEntropyLoss } else { op };
        if self.dimension == 0 || self.x.is_empty() || !self.x.len().is_multiple_of(self.dimension) {
            let problem = format!("{} values do not divide into rows of {}", self.x.len(), self.dimension);
            return Err(InputError::new("x", problem, "at least one whole row"));
        }
        let second = op.second();
        length(second.map_or("second", |(name, _)| name), self.second.len(), second.map_or(0, |_| self.x.len()))?;
        for (i, vector) in self.vectors.iter().enumerate() {
            let name = op.vectors().get(i).map(|(name, ..)| *name);
            length(name.unwrap_or("vector"), vector.len(), name.map_or(0, |_| self.dimension))?;
        }
        length("labels", self.labels.len(), if op.has_labels() { self.x.len() / self.dimension } else { 0 })?;
        match self.labels.iter().position(|label| !usize::try_from(*label).is_ok_and(|class| class < self.dimension)) {
            None => Ok(op),
            Some(at) => Err(InputError::new(
                "labels",
                format!("label {at} is {}", self.labels[at]),
                format!("a class from 0 to {}", self.dimension - 1),
            )),
        }
    }

    /// Computes all pieces; returns the sum of the losses.
    fn pieces(&self, op: Op, y: &mut [f32], sum: &mut [f32]) -> f64 {
        let (isa, d) = (Isa::best(), self.dimension);
        let bytes = (size_of_val(self.x) + size_of_val(self.second) + size_of_val(y) + size_of_val(sum)) as u64;
        let aligned = |array: &[f32]| (array.as_ptr() as usize).is_multiple_of(LINE);
        let whole = (4 * d).is_multiple_of(LINE) && aligned(y) && aligned(sum) | sum.is_empty();
        let plan = Plan {
            step: Step::Whole(op),
            d,
            eps: self.eps,
            tanh: self.tanh,
            each: false,
            stream: whole && isa != Isa::BASELINE && !op.is_loss() && bytes >= stores::threshold(self.parallel).bytes,
            far: size_of_val(self.x) as u64 > stores::threshold(self.parallel).bytes,
            vectors: self.vectors,
        };
        let rows = rows_of(d);
        let losses: Vec<AtomicU64> = (0..self.x.len().div_ceil(rows * d)).map(|_| AtomicU64::new(0)).collect();
        let method = Method { way: Way::Vector(isa), parallel: self.parallel, unfused: false };
        pass(method, &plan, rows, Piece { x: self.x, second: self.second, labels: self.labels, y, sum }, &losses);
        losses.iter().map(|bits| f64::from_bits(bits.load(Relaxed))).sum()
    }
}

fn length(name: &str, got: usize, expected: usize) -> Result<(), InputError> {
    if got == expected {
        return Ok(());
    }
    Err(InputError::new(name, format!("it has {got} values"), format!("{expected}")))
}
