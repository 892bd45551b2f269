//! The layer operations in WGSL (`layers.wgsl`): f32, with sums of losses in pairs of f32.

use ellwand_core::{Case, Device, Dtype, Implementation, InputError, PrepareError, Prepared, Tensors};

use super::op::Op;
use super::shape::{Allocation, Reduction, Shape};
use crate::device::{self, Arg, Buffer, Grid, Job, Source, gpu};

/// The kernels.
pub(crate) static SOURCE: Source = Source {
    name: "layers.wgsl",
    text: concat!(include_str!("layers.wgsl"), include_str!("../device/portable.wgsl")),
    options: &[],
};

/// Threads of a group along the elements; along a row it is the group that has a row.
const SPREAD: usize = 256;
/// Most groups of a kernel that loops.
const MOST_GROUPS: usize = 1024;

/// The numbers that every kernel gets: elements or rows, length of a row, one number, whether there is a second array.
fn numbers(n: usize, d: usize, number: f32, second: bool) -> Vec<Arg> {
    let whole = |value: usize| Arg::U32(u32::try_from(value).unwrap_or(u32::MAX));
    vec![whole(n), whole(d), Arg::F32(number), Arg::U32(u32::from(second))]
}

/// These arguments and then those.
fn with(mut args: Vec<Arg>, more: &[Arg]) -> Vec<Arg> {
    args.extend(more);
    args
}

fn prepare(op: Op, case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    let shape = Shape::of(case)?;
    if shape.allocation != Allocation::Reused {
        return Err(PrepareError::Unsupported("on a GPU arrays are made once: allocation=reused".into()));
    }
    let x = inputs.get("x")?;
    if x.len() != shape.elements() {
        return Err(InputError::new("x", format!("its shape is {:?}", x.shape()), "the shape of the case").into());
    }
    let (extents, n, rows, d) = (x.shape().to_vec(), shape.elements(), shape.rows(), shape.dimension);
    let mut job = Job::new(gpu);
    let from = job.hold(Buffer::of_f32(gpu, x.f32()?)?);
    let second = match op.second() {
        Some((name, _)) => Some(job.hold(Buffer::of_f32(gpu, inputs.f32(name)?)?)),
        None => None,
    };
    let (spread, by_row) = (Grid::line(n.div_ceil(SPREAD), SPREAD as u32), Grid::line(rows, 128));
    let scale = |count: usize| if shape.reduction == Reduction::Mean { (1.0 / count as f64) as f32 } else { 1.0 };
    let each = shape.reduction == Reduction::None;
    let elements = numbers(n, d, 0.0, second.is_some());
    let all_rows = numbers(rows, d, shape.eps, op == Op::ResidualLayerNorm);
    let with_second = |to: Arg| [from, second.unwrap_or(Arg::At(0)), to];
    let reduce = |job: &mut Job, sums: Arg, count: usize, scale: f32| -> Result<(), PrepareError> {
        let loss = job.output("loss", Dtype::F32, &[], 0)?;
        let args = with(numbers(count, 1, scale, false), &[sums, loss]);
        Ok(job.launch(&SOURCE, "reduce_sums", Grid::line(1, SPREAD as u32), args)?)
    };
    match op {
        Op::Gelu | Op::Swish => {
            let kernel = match (op, shape.tanh) {
                (Op::Swish, _) => "swish",
                (_, false) => "gelu",
                (_, true) => "gelu_approximate",
            };
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            job.launch(&SOURCE, kernel, spread, with(elements, &[from, y]))?;
        }
        Op::SwiGlu => {
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            job.launch(&SOURCE, "swiglu", spread, with(elements, &with_second(y)))?;
        }
        Op::BiasGelu => {
            let bias = job.hold(Buffer::of_f32(gpu, inputs.f32("bias")?)?);
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            let kernel = if shape.tanh { "bias_gelu_approximate" } else { "bias_gelu" };
            job.launch(&SOURCE, kernel, spread, with(elements, &[from, bias, y]))?;
        }
        Op::MseLoss if each => {
            let loss = job.output("loss", Dtype::F32, &extents, 0)?;
            job.launch(&SOURCE, "squared_errors", spread, with(elements, &with_second(loss)))?;
        }
        Op::MseLoss => {
            let groups = n.div_ceil(SPREAD).clamp(1, MOST_GROUPS);
            let sums = job.hold(Buffer::new(gpu, 8 * groups)?);
            let args = with(elements, &with_second(sums));
            job.launch(&SOURCE, "squared_error_sums", Grid::line(groups, SPREAD as u32), args)?;
            reduce(&mut job, sums, groups, scale(n))?;
        }
        Op::LayerNorm | Op::ResidualLayerNorm => {
            let gamma = job.hold(Buffer::of_f32(gpu, inputs.f32("gamma")?)?);
            let beta = job.hold(Buffer::of_f32(gpu, inputs.f32("beta")?)?);
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            // Every binding of a kernel needs an array, and what is read may not be what is written.
            let (second, sum) = match (op, second) {
                (Op::ResidualLayerNorm, Some(second)) => (second, job.output("sum", Dtype::F32, &extents, 0)?),
                _ => (job.hold(Buffer::new(gpu, 4)?), job.hold(Buffer::new(gpu, 4)?)),
            };
            job.launch(&SOURCE, "layer_norm", by_row, with(all_rows, &[from, second, gamma, beta, y, sum]))?;
        }
        Op::Softmax => {
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            job.launch(&SOURCE, "softmax", by_row, with(all_rows, &[from, y]))?;
        }
        Op::CrossEntropyLoss => {
            let labels: Vec<u64> = inputs.get("labels")?.i64()?.iter().map(|&label| label as u64).collect();
            let labels = job.hold(Buffer::of_u64(gpu, &labels)?);
            let sums = job.hold(Buffer::new(gpu, 8 * rows)?);
            let losses = if each {
                job.output("loss", Dtype::F32, &extents[..extents.len() - 1], 0)?
            } else {
                job.hold(Buffer::new(gpu, 4 * rows)?)
            };
            job.launch(&SOURCE, "cross_entropy", by_row, with(all_rows, &[from, labels, sums, losses]))?;
            if !each {
                reduce(&mut job, sums, rows, scale(rows))?;
            }
        }
    }
    Ok(job.boxed())
}

/// The row of an operation.
pub(super) fn implementation(op: Op) -> Implementation {
    let about = match op {
        Op::LayerNorm | Op::ResidualLayerNorm | Op::Softmax | Op::CrossEntropyLoss => "a group a row, f32",
        _ => "an element a thread, f32",
    };
    let prepared = move |case: &Case, inputs: &Tensors, device: &dyn Device| prepare(op, case, inputs, device);
    device::on_wgpu(Implementation::cpu(op.name(), "wgpu", about, prepared))
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Case, Registry, Tensors, Value};

    use super::Op;
    use crate::testing::judged_on_wgpu;

    fn each(mut inputs: impl FnMut(&Registry, &Case) -> Tensors) {
        let mut registry = Registry::new();
        crate::layers::register(&mut registry);
        for op in Op::ALL {
            // One value, odd rows, rows shorter and longer than a group, more elements than a group.
            for [batch, sequence, dimension] in
                [[1, 1, 1], [1, 3, 5], [2, 3, 33], [1, 7, 255], [1, 2, 768], [1, 1, 5001]]
            {
                let axes: &[&[(&str, &str)]] = match op {
                    Op::Gelu | Op::BiasGelu => &[&[], &[("form", "tanh")]],
                    Op::MseLoss | Op::CrossEntropyLoss => &[&[], &[("reduction", "sum")], &[("reduction", "none")]],
                    _ => &[&[]],
                };
                for more in axes {
                    let sizes = [("batch", batch), ("sequence", sequence), ("dimension", dimension)];
                    let sizes = sizes.iter().map(|(name, value)| (name.to_string(), Value::Int(*value)));
                    let words = more.iter().map(|(name, value)| (name.to_string(), Value::from(*value)));
                    let case = Case::new(op.name(), sizes.chain(words).collect());
                    let inputs = inputs(&registry, &case);
                    judged_on_wgpu(&registry, &case, &inputs, |_, _| {});
                }
            }
        }
    }

    #[test]
    fn every_operation_is_judged_right_at_every_shape() {
        each(|registry, case| registry.find(&case.workload).unwrap().inputs(case, 3).unwrap());
    }

    #[test]
    fn nan_infinity_and_large_values_go_where_the_reference_has_them() {
        each(|registry, case| {
            let mut inputs = registry.find(&case.workload).unwrap().inputs(case, 4).unwrap();
            let mut x = inputs.take("x").unwrap();
            let values = x.f32_mut().unwrap();
            let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 90.0, -90.0, 1e-40, -0.0];
            // One to a row where rows are long, so that rows without any stay.
            for (value, at) in special.iter().zip((0..values.len()).step_by(61)) {
                values[at] = *value;
            }
            inputs.insert("x", x);
            inputs
        });
    }
}
