//! The workloads of the group `layers`.

use ellwand_core::verdict::compare;
use ellwand_core::{
    Case, Description, Dtype, Fit, HardSet, InputError, Port, Ports, Tensors, Tolerance, Verdict, Work, Workload,
};

use super::op::Op;
use super::shape::{self, Allocation, Reduction, Shape};
use super::{data, half, hard, reference};
use ellwand_simd::precision::{self, Precision, narrowed, widened};

/// The workload of one operation.
pub(super) struct Layer {
    op: Op,
    description: Description,
}

impl Layer {
    pub(super) fn new(op: Op) -> Self {
        let mut axes = shape::axes(op);
        axes.extend(op.has_precision().then(shape::precision));
        let description = Description::new(op.name(), op.about()).group("layers").axes(axes);
        Self { op, description: description.sizes(shape::sizes()).baseline("scalar") }
    }
}

/// Bytes that must be read and written. Of a row that the loss skips, only the label is read.
fn traffic(op: Op, shape: &Shape) -> (u64, u64) {
    let (n, rows, d) = (shape.elements() as u64, shape.rows() as u64, shape.dimension as u64);
    let value = shape.precision.bytes() as u64;
    let read = value * shape.counted_rows() as u64 * d * (1 + u64::from(op.second().is_some()))
        + 4 * d * op.vectors().len() as u64
        + if op.has_labels() { 8 * rows } else { 0 };
    let written = match (op, shape.reduction) {
        (op, Reduction::Mean | Reduction::Sum) if op.is_loss() => 4,
        (op, Reduction::None) if op.is_cross_entropy() => value * rows,
        (Op::ResidualLayerNorm, _) => 2 * value * n,
        _ => value * n,
    };
    (read, written)
}

fn required(op: Op, shape: Result<Shape, InputError>) -> Work {
    let Ok(shape) = shape else { return Work::items("elements", 0) };
    let (read, written) = traffic(op, &shape);
    let n = (shape.counted_rows() * shape.dimension) as u64;
    let narrow = shape.precision == Precision::Bf16;
    Work::items("elements", n).in_order().flops(op.flops() * n as f64).bytes(read, written).narrow(narrow)
}

impl Workload for Layer {
    fn description(&self) -> &Description {
        &self.description
    }

    fn check(&self, case: &Case) -> Result<(), InputError> {
        shape::check(case)
    }

    fn remarks(&self, case: &Case) -> Vec<String> {
        match Shape::of(case) {
            Ok(shape)
                if shape.allocation == Allocation::Fresh
                    && !(self.op.is_loss() && shape.reduction != Reduction::None) =>
            {
                vec![shape::FRESH.to_string()]
            }
            _ => Vec::new(),
        }
    }

    fn footprint(&self, case: &Case) -> u64 {
        // Rows that the loss skips take memory too.
        let Ok(shape) = Shape::of(case).map(|shape| Shape { ignored: 0, ..shape }) else { return u64::MAX };
        let (read, written) = traffic(self.op.of(case), &shape);
        // Inputs and an implementation's copy of them; its outputs, the copy it returns and the reference's.
        let between = if self.op.unfused().is_some() { 4 * shape.elements() as u64 } else { 0 };
        read.saturating_mul(2).saturating_add(written.saturating_mul(3)).saturating_add(between)
    }

    fn ports(&self, case: &Case) -> Ports {
        let x = "[batch, sequence, dimension] or any shape";
        let port = |name, dtype, shape, about, required| Port { name, dtype, shape, about, required };
        let op = self.op.of(case);
        let about_x = if op.is_cross_entropy() { "logits" } else { "values; rows are along the last axis" };
        let mut inputs = vec![port("x", Dtype::F32, x, about_x, true)];
        inputs.extend(op.second().map(|(name, about)| port(name, Dtype::F32, "as x", about, true)));
        inputs.extend(
            self.op.vectors().iter().map(|(name, about, _)| port(name, Dtype::F32, "[dimension]", about, false)),
        );
        if op.has_labels() {
            inputs.push(port("labels", Dtype::I64, "as x without its last axis", "class of each row", true));
        }
        let outputs = match self.op {
            op if op.is_loss() => {
                vec![port("loss", Dtype::F32, "[], or one per loss without reduction", "the loss", true)]
            }
            Op::ResidualLayerNorm => vec![
                port("y", Dtype::F32, "as x", "the normalised sum", true),
                port("sum", Dtype::F32, "as x", "x + residual", true),
            ],
            _ => vec![port("y", Dtype::F32, "as x", "the result", true)],
        };
        let ports = Ports { inputs, outputs };
        if precision(case) == Precision::Bf16 { half::ports(case, ports) } else { ports }
    }

    /// Cases that differ only in computation or reduction get the same arrays, and so do all operations.
    fn data_digest(&self, case: &Case) -> u64 {
        shape::data_digest(case)
    }

    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        let arrays = data::seeded(self.op.of(case), &Shape::of(case)?, seed)?;
        if precision(case) == Precision::Bf16 { narrowed(arrays, &half::INPUTS) } else { Ok(arrays) }
    }

    fn hard_sets(&self, case: &Case, seed: u64) -> Result<Vec<HardSet>, InputError> {
        hard::sets(self, self.op.of(case), case, seed)
    }

    fn adopt(&self, case: &Case, given: Tensors, fit: Fit) -> Result<(Case, Tensors), InputError> {
        if precision(case) == Precision::F32 {
            return data::adopt(self.op.of(case), case, given, fit);
        }
        let (case, arrays) = data::adopt(self.op.of(case), case, widened(given, &half::INPUTS)?, fit)?;
        Ok((case, narrowed(arrays, &half::INPUTS)?))
    }

    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let wide =
            if precision(case) == Precision::Bf16 { widened(inputs.clone(), &half::INPUTS)? } else { inputs.clone() };
        // Always in f32, because a bf16 result is compared with an unrounded one.
        reference::outputs(self.op.of(case), &Shape::of(case)?, &wide)
    }

    fn work(&self, case: &Case) -> Work {
        required(self.op.of(case), Shape::of_work(case))
    }

    fn work_of(&self, case: &Case, inputs: &Tensors) -> Work {
        required(self.op.of(case), Shape::of_inputs(case, inputs))
    }

    fn tolerance(&self, case: &Case) -> Tolerance {
        let tolerance = self.tolerance_in_f32();
        if precision(case) == Precision::Bf16 { precision::tolerance(tolerance) } else { tolerance }
    }

    fn judge(&self, case: &Case, _: &Tensors, expected: &Tensors, got: &Tensors) -> Verdict {
        self.judge_within(case, expected, got, self.tolerance_in_f32())
    }

    fn judge_within(&self, case: &Case, expected: &Tensors, got: &Tensors, tolerance: Tolerance) -> Verdict {
        match precision(case) {
            Precision::F32 => compare(expected, got, tolerance),
            Precision::Bf16 => precision::judge(tolerance, &self.ports(case), expected, got),
        }
    }
}

impl Layer {
    fn tolerance_in_f32(&self) -> Tolerance {
        match self.op {
            Op::LayerNorm | Op::ResidualLayerNorm => Tolerance::Close { absolute: 2e-6, relative: 1e-6 },
            // Small weights carry the error of an exponential far from 1.
            Op::Softmax => Tolerance::Close { absolute: 1e-7, relative: 8e-6 },
            Op::MseLoss | Op::CrossEntropyLoss | Op::SoftCrossEntropyLoss => {
                Tolerance::Close { absolute: 1e-6, relative: 2e-6 }
            }
            _ => Tolerance::Close { absolute: 1e-6, relative: 1e-6 },
        }
    }
}

/// The precision of a case's arrays.
fn precision(case: &Case) -> Precision {
    Shape::of(case).map_or(Precision::F32, |shape| shape.precision)
}
