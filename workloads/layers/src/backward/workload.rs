//! The workloads of the group `layers-backward`, and the tolerance of their answers.

use ellwand_core::verdict::compare_each;
use ellwand_core::{
    Case, Compared, Description, Dtype, Fit, HardSet, InputError, Port, Ports, Tensor, Tensors, Tolerance, Verdict,
    Work, Workload,
};

use super::data;
use super::job::bytes_of_sums;
use super::op::{Op, Upstream};
use super::reference::{self, moments};
use crate::shape::{self, Allocation, Reduction, Shape};
use crate::{hard, labels};
use ellwand_simd::pool;

pub(super) struct Backward {
    op: Op,
    description: Description,
}

impl Backward {
    pub(super) fn new(op: Op) -> Self {
        let description =
            Description::new(op.name(), op.about()).group("layers-backward").axes(shape::axes(op.forward()));
        Self { op, description: description.sizes(shape::sizes()).baseline("scalar") }
    }
}

/// Arrays that the reference adds for layer normalisation: the scales for errors of dx in each row, and of dgamma and
/// dbeta in each column.
const SCALES: [(&str, &str); 3] = [("dx", "dx-scale"), ("dgamma", "dgamma-scale"), ("dbeta", "dbeta-scale")];

fn required(op: Op, shape: Result<Shape, InputError>) -> Work {
    let Ok(shape) = shape else { return Work::items("elements", 0) };
    let (read, written) = op.traffic(&shape);
    Work::items("elements", shape.elements() as u64).in_order().flops(op.operations(&shape)).bytes(read, written)
}

impl Workload for Backward {
    fn description(&self) -> &Description {
        &self.description
    }

    fn check(&self, case: &Case) -> Result<(), InputError> {
        shape::check(case)
    }

    fn remarks(&self, case: &Case) -> Vec<String> {
        match Shape::of(case) {
            Ok(shape) if shape.allocation == Allocation::Fresh => vec![shape::FRESH.to_string()],
            _ => Vec::new(),
        }
    }

    fn footprint(&self, case: &Case) -> u64 {
        // Rows that the loss skips take memory too.
        let Ok(shape) = Shape::of(case).map(|shape| Shape { ignored: 0, ..shape }) else { return u64::MAX };
        let (read, written) = self.op.of(case).traffic(&shape);
        // Inputs and an implementation's copy of them; its outputs, the copy it returns and the reference's.
        read.saturating_mul(2).saturating_add(written.saturating_mul(3)).saturating_add(bytes_of_sums(self.op, &shape))
    }

    fn ports(&self, case: &Case) -> Ports {
        let f32s = |name, shape, about, required| Port { name, dtype: Dtype::F32, shape, about, required };
        let op = self.op.of(case);
        let about_x = if op.forward().is_cross_entropy() { "logits" } else { "values; rows are along the last axis" };
        let mut inputs = vec![f32s("x", "[batch, sequence, dimension] or any shape", about_x, true)];
        let name = self.op.upstream_name();
        let upstream = Shape::of(case).map_or(Upstream::Whole, |shape| self.op.upstream(shape.reduction));
        inputs.push(match upstream {
            Upstream::Whole if !self.op.forward().is_loss() => f32s(name, "as x", "upstream gradient", true),
            Upstream::Whole => f32s(name, "as x", "upstream gradient; 1 when absent", false),
            Upstream::Rows => f32s(name, "as x without its last axis", "upstream gradient; 1 when absent", false),
            Upstream::One => f32s(name, "[]", "upstream gradient; 1 when absent", false),
        });
        let mut outputs = vec![f32s("dx", "as x", "gradient of x", true)];
        match op {
            Op::SoftCrossEntropyLoss => {
                inputs.extend(op.forward().second().map(|(name, about)| f32s(name, "as x", about, true)));
            }
            Op::MseLoss => inputs.push(f32s("target", "as x", "target values of x; its gradient is -dx", true)),
            Op::CrossEntropyLoss => inputs.push(Port {
                name: "labels",
                dtype: Dtype::I64,
                shape: "as x without its last axis",
                about: "class of each row",
                required: true,
            }),
            Op::LayerNorm => {
                inputs.push(f32s("gamma", "[dimension]", "scale of each column; 1 when absent", false));
                outputs.push(f32s("dgamma", "[dimension]", "gradient of gamma", true));
                outputs.push(f32s("dbeta", "[dimension]", "gradient of beta", true));
            }
            Op::Gelu | Op::Swish => {}
        }
        Ports { inputs, outputs }
    }

    /// Cases that differ only in computation or reduction get the same arrays, which are those of the forward workload.
    fn data_digest(&self, case: &Case) -> u64 {
        shape::data_digest(case)
    }

    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        data::seeded(self.op.of(case), &Shape::of(case)?, seed)
    }

    fn hard_sets(&self, case: &Case, seed: u64) -> Result<Vec<HardSet>, InputError> {
        hard::sets(self, self.op.of(case).forward(), case, seed)
    }

    fn adopt(&self, case: &Case, given: Tensors, fit: Fit) -> Result<(Case, Tensors), InputError> {
        data::adopt(self.op.of(case), case, given, fit)
    }

    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let shape = Shape::of(case)?;
        let mut outputs = reference::outputs(self.op.of(case), &shape, inputs)?;
        if self.op.has_parameters() {
            for ((_, name), scale) in SCALES.iter().zip(scales(&shape, inputs)?) {
                outputs.insert(name, Tensor::vector(&scale[..]));
            }
        }
        Ok(outputs)
    }

    fn work(&self, case: &Case) -> Work {
        required(self.op.of(case), Shape::of_work(case))
    }

    fn work_of(&self, case: &Case, inputs: &Tensors) -> Work {
        required(self.op.of(case), Shape::of_inputs(case, inputs))
    }

    /// `absolute` times the upstream gradient, because a gradient is linear in it (activations, cross-entropy), or
    /// times the scale of a row or column (layer normalisation).
    fn tolerance(&self, _: &Case) -> Tolerance {
        match self.op {
            Op::LayerNorm => Tolerance::Close { absolute: 2e-6, relative: 2e-6 },
            Op::Gelu | Op::Swish => Tolerance::Close { absolute: 1e-6, relative: 1e-6 },
            Op::MseLoss => Tolerance::Close { absolute: 0.0, relative: 4e-7 },
            // Small weights carry the error of an exponential far from 1.
            Op::CrossEntropyLoss | Op::SoftCrossEntropyLoss => Tolerance::Close { absolute: 4e-7, relative: 8e-6 },
        }
    }

    fn judge(&self, case: &Case, inputs: &Tensors, expected: &Tensors, got: &Tensors) -> Verdict {
        let judged = Shape::of(case).and_then(|shape| self.judged(&shape, case, inputs, expected, got));
        judged.unwrap_or_else(|error| Verdict::wrong(error.to_string()))
    }
}

impl Backward {
    fn judged(
        &self,
        shape: &Shape,
        case: &Case,
        inputs: &Tensors,
        expected: &Tensors,
        got: &Tensors,
    ) -> Result<Verdict, InputError> {
        let (d, tolerance) = (shape.dimension, self.tolerance(case));
        let (mut values, mut most) = (0, 0.0_f64);
        for (name, scale) in SCALES.iter().take(if self.op.has_parameters() { 3 } else { 1 }) {
            let want = expected.get(name)?;
            let have = match got.find(name) {
                Some(have) if have.shape() == want.shape() && have.dtype() == want.dtype() => have.f32()?,
                Some(have) => {
                    let (shape, dtype) = (have.shape(), have.dtype());
                    let wanted = (want.shape(), want.dtype());
                    return Ok(Verdict::wrong(format!("output {name} is {dtype} {shape:?}, the reference {wanted:?}")));
                }
                None => return Ok(Verdict::wrong(format!("output {name} is missing"))),
            };
            let want = want.f32()?;
            values += want.len();
            let found = if self.op.has_parameters() {
                let scale = expected.f32(scale)?;
                let of = if *name == "dx" { d } else { 1 };
                held(name, want, have, tolerance, |at| f64::from(scale[at / of]))
            } else {
                let upstream = inputs.f32(self.op.upstream_name())?;
                let op = self.op.of(case);
                let factor = match (op, shape.reduction) {
                    (Op::CrossEntropyLoss, Reduction::Mean) => {
                        1.0 / labels::counted(&labels::of(case, inputs)?).max(1) as f64
                    }
                    (Op::SoftCrossEntropyLoss, Reduction::Mean) => 1.0 / shape.rows() as f64,
                    _ => 1.0,
                };
                // Weights of a softmax are multiplied with the sum of the probabilities of their row.
                let sums =
                    if op == Op::SoftCrossEntropyLoss { sums_of_rows(inputs.f32("target")?, d) } else { Vec::new() };
                let scale = |at: usize| sums.get(at / d).map_or(factor, |sum| factor * sum.max(1.0));
                let per = want.len() / upstream.len().max(1);
                held(name, want, have, tolerance, |at| f64::from(upstream[at / per.max(1)]).abs() * scale(at))
            };
            if !found.passed {
                return Ok(found);
            }
            most = most.max(found.max_error.unwrap_or(0.0));
        }
        Ok(Verdict::agree(Compared::all(values), most))
    }
}

/// Sum of the magnitudes of each row of `d` values.
fn sums_of_rows(values: &[f32], d: usize) -> Vec<f64> {
    values.chunks(d).map(|row| row.iter().map(|x| f64::from(x.abs())).sum()).collect()
}

/// Checks that every value is within `relative` of itself plus `absolute` of its scale; values below the normal numbers
/// may have been rounded to 0.
fn held(name: &str, want: &[f32], have: &[f32], tolerance: Tolerance, scale: impl Fn(usize) -> f64) -> Verdict {
    let Tolerance::Close { absolute, relative } = tolerance else { return Verdict::wrong("no tolerance") };
    let values = have.iter().zip(want).map(|(have, want)| (f64::from(*have), f64::from(*want)));
    compare_each(name, values, |at, w| absolute * scale(at) + relative * w.abs() + f64::from(f32::MIN_POSITIVE))
}

/// The scales for errors of layer normalisation's gradients.
///
/// dx = (g - mean(g) - n mean(g n)) / s, with s the standard deviation: g and the two means are computed to a few units
/// in the last place, and by Cauchy and Schwarz neither mean exceeds the root mean square q of g, so the scale of a row
/// is the largest |g| + q (1 + |n|), divided by s. Rounding errors of a sum over rows add up like its terms with random
/// signs: the scale of a column is the root of the sum of squares, of dy for dbeta and of dy sqrt(1 + n^2) for dgamma,
/// because the error of n depends on its row even where n itself is small.
fn scales(shape: &Shape, inputs: &Tensors) -> Result<[Vec<f32>; 3], InputError> {
    let d = shape.dimension;
    let (x, dy, gamma) = (inputs.f32("x")?, inputs.f32("dy")?, inputs.f32("gamma")?);
    let mut of_rows = vec![0.0_f32; shape.rows()];
    // Blocks of rows with separate column sums, added up in order.
    let rows = shape.rows().div_ceil(64).max(1);
    let mut of_columns = vec![0.0_f64; 2 * d * shape.rows().div_ceil(rows)];
    let parts: Vec<_> = of_rows.chunks_mut(rows).zip(of_columns.chunks_mut(2 * d)).collect();
    pool::for_each_part(parts, |i, (of_rows, of_columns)| {
        for (r, of_row) in of_rows.iter_mut().enumerate() {
            let row = (i * rows + r) * d..(i * rows + r + 1) * d;
            let (x, dy) = (&x[row.clone()], &dy[row]);
            let (mean, inverse) = moments(x, shape.eps);
            let g = |c: usize| f64::from(dy[c]) * f64::from(gamma[c]);
            let normal = |c: usize| (f64::from(x[c]) - mean) * inverse;
            let root = ((0..d).map(|c| g(c) * g(c)).sum::<f64>() / d as f64).sqrt();
            let most = (0..d).map(|c| g(c).abs() + root * (1.0 + normal(c).abs())).fold(0.0, f64::max);
            *of_row = (most * inverse) as f32;
            for c in 0..d {
                let square = f64::from(dy[c]).powi(2);
                of_columns[c] += square * (1.0 + normal(c).powi(2));
                of_columns[d + c] += square;
            }
        }
    });
    let column = |c: usize| of_columns.chunks(2 * d).map(|part| part[c]).sum::<f64>().sqrt() as f32;
    let [dgamma, dbeta] = [0, d].map(|first| (first..first + d).map(column).collect());
    Ok([of_rows, dgamma, dbeta])
}
