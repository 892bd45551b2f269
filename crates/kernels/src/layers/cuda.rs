//! The layer operations as CUDA kernels (`layers.cu`): f32, with sums of losses in f64.

use ellwand_core::{Case, Device, DeviceKind, Dtype, Implementation, InputError, PrepareError, Prepared, Tensors};

use super::op::Op;
use super::shape::{Allocation, Reduction, Shape};
use crate::device::{Arg, Buffer, GpuError, Grid, Job, Source, gpu, whole};

/// The kernels.
pub(crate) static SOURCE: Source = Source { name: "layers.cu", text: include_str!("layers.cu"), options: &[] };

const THREADS: u32 = 256;
/// Blocks that a multiprocessor holds at once, for kernels that loop.
const RESIDENT: u32 = 8;

/// Threads for a row of `d` values: enough warps, and no more than a block should have.
fn row_threads(d: usize) -> u32 {
    u32::try_from(d.div_ceil(4).next_multiple_of(32)).unwrap_or(THREADS).clamp(32, THREADS)
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
    let nothing = Arg::At(0);
    let from = job.hold(Buffer::of_f32(gpu, x.f32()?)?);
    let second = match op.second() {
        Some((name, _)) => job.hold(Buffer::of_f32(gpu, inputs.f32(name)?)?),
        None => nothing,
    };
    let (spread, by_row) = (spread(&job, n), Grid::line(rows, row_threads(d)));
    let blocks = spread.blocks[0] as usize;
    let scale = |count: usize| Arg::F64(if shape.reduction == Reduction::Mean { 1.0 / count as f64 } else { 1.0 });
    let each = shape.reduction == Reduction::None;
    match op {
        Op::Gelu | Op::Swish | Op::SwiGlu => {
            let kernel = match (op, shape.tanh) {
                (Op::Gelu, false) => "gelu",
                (Op::Gelu, true) => "gelu_approximate",
                (Op::Swish, _) => "swish",
                _ => "swiglu",
            };
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            job.launch(&SOURCE, kernel, spread, vec![from, second, y, Arg::U64(n as u64)])?;
        }
        Op::MseLoss if each => {
            let loss = job.output("loss", Dtype::F32, &extents, 0)?;
            job.launch(&SOURCE, "squared_errors", spread, vec![from, second, loss, Arg::U64(n as u64)])?;
        }
        Op::MseLoss => {
            let sums = job.hold(Buffer::new(gpu, 8 * blocks)?);
            let loss = job.output("loss", Dtype::F32, &[], 0)?;
            job.launch(&SOURCE, "squared_error_sums", spread, vec![from, second, sums, Arg::U64(n as u64)])?;
            job.launch(&SOURCE, "reduce_sums", Grid::line(1, THREADS), vec![sums, loss, whole(blocks), scale(n)])?;
        }
        Op::LayerNorm | Op::ResidualLayerNorm => {
            let gamma = job.hold(Buffer::of_f32(gpu, inputs.f32("gamma")?)?);
            let beta = job.hold(Buffer::of_f32(gpu, inputs.f32("beta")?)?);
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            let sum = match op {
                Op::LayerNorm => nothing,
                _ => job.output("sum", Dtype::F32, &extents, 0)?,
            };
            norm(&mut job, [from, second, gamma, beta, y, sum], [rows, d], shape.eps)?;
        }
        Op::Softmax => {
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            job.launch(&SOURCE, "softmax", by_row, vec![from, y, whole(d)])?;
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
            job.launch(&SOURCE, "cross_entropy", by_row, vec![from, labels, sums, losses, whole(d)])?;
            if !each {
                let loss = job.output("loss", Dtype::F32, &[], 0)?;
                let args = vec![sums, loss, whole(rows), scale(rows)];
                job.launch(&SOURCE, "reduce_sums", Grid::line(1, THREADS), args)?;
            }
        }
        Op::BiasGelu => {
            let bias = job.hold(Buffer::of_f32(gpu, inputs.f32("bias")?)?);
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            bias_gelu(&mut job, [from, bias, y], [rows, d], shape.tanh)?;
        }
    }
    Ok(job.boxed())
}

/// Blocks of kernels that go over `n` values in a loop.
fn spread(job: &Job, n: usize) -> Grid {
    let most = (RESIDENT * job.multiprocessors()) as usize;
    Grid::line((n / 4).div_ceil(THREADS as usize).clamp(1, most), THREADS)
}

/// Adds the layer norm of x, or of x + residual, which then goes to `sum`; no residual is address 0.
pub(crate) fn norm(job: &mut Job, arrays: [Arg; 6], [rows, d]: [usize; 2], eps: f32) -> Result<(), GpuError> {
    let args = arrays.into_iter().chain([whole(d), Arg::F32(eps)]).collect();
    job.launch(&SOURCE, "layer_norm", Grid::line(rows, row_threads(d)), args)
}

/// Adds y = GELU(x + bias), which may be in place.
pub(crate) fn bias_gelu(job: &mut Job, arrays: [Arg; 3], [rows, d]: [usize; 2], tanh: bool) -> Result<(), GpuError> {
    let kernel = if tanh { "bias_gelu_approximate" } else { "bias_gelu" };
    let args = arrays.into_iter().chain([Arg::U64((rows * d) as u64), whole(d)]).collect();
    job.launch(&SOURCE, kernel, spread(job, rows * d), args)
}

/// Adds y = a + b.
pub(crate) fn add(job: &mut Job, arrays: [Arg; 3], n: usize) -> Result<(), GpuError> {
    job.launch(&SOURCE, "add", spread(job, n), arrays.into_iter().chain([Arg::U64(n as u64)]).collect())
}

/// The row of an operation.
pub(super) fn implementation(op: Op) -> Implementation {
    let about = match op {
        Op::LayerNorm | Op::ResidualLayerNorm | Op::Softmax | Op::CrossEntropyLoss => "a block a row, f32",
        _ => "16 bytes a thread, f32",
    };
    let row =
        Implementation::cpu(op.name(), "cuda", about, move |case, inputs, device| prepare(op, case, inputs, device));
    Implementation { needs: DeviceKind::Cuda, ..row }
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Case, Registry, Value};

    use super::Op;
    use crate::device::judge;

    fn case(op: Op, [batch, sequence, dimension]: [i64; 3], more: &[(&str, &str)]) -> Case {
        let mut params = vec![
            ("batch".to_string(), Value::Int(batch)),
            ("sequence".to_string(), Value::Int(sequence)),
            ("dimension".to_string(), Value::Int(dimension)),
        ];
        params.extend(more.iter().map(|(name, value)| (name.to_string(), Value::from(*value))));
        Case::new(op.name(), params)
    }

    fn each(mut check: impl FnMut(&Registry, Case)) {
        let mut registry = Registry::new();
        crate::layers::register(&mut registry);
        for op in Op::ALL {
            // One value, less than a warp, odd rows, a row beyond what a block keeps in registers.
            for shape in [[1, 1, 1], [1, 3, 5], [2, 3, 33], [1, 7, 255], [1, 2, 768], [1, 1, 5001]] {
                let axes: &[&[(&str, &str)]] = match op {
                    Op::Gelu | Op::BiasGelu => &[&[], &[("form", "tanh")]],
                    Op::MseLoss | Op::CrossEntropyLoss => &[&[], &[("reduction", "sum")], &[("reduction", "none")]],
                    _ => &[&[]],
                };
                axes.iter().for_each(|more| check(&registry, case(op, shape, more)));
            }
        }
    }

    #[test]
    fn every_operation_is_judged_right_at_every_shape_in_every_order() {
        each(|registry, case| {
            let inputs = registry.find(&case.workload).unwrap().inputs(&case, 3).unwrap();
            judge(registry, &case, &inputs);
        });
    }

    #[test]
    fn nan_infinity_and_large_values_go_where_the_reference_has_them() {
        each(|registry, case| {
            let mut inputs = registry.find(&case.workload).unwrap().inputs(&case, 4).unwrap();
            let mut x = inputs.take("x").unwrap();
            let values = x.f32_mut().unwrap();
            let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 90.0, -90.0, 1e-40, -0.0];
            // One to a row where rows are long, so that rows without any stay.
            for (value, at) in special.iter().zip((0..values.len()).step_by(61)) {
                values[at] = *value;
            }
            inputs.insert("x", x);
            judge(registry, &case, &inputs);
        });
    }
}
