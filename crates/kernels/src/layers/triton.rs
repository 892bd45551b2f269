//! The layer operations as Triton kernels (`layers.py`), compiled ahead of time: f32, with sums of losses in f64.

use ellwand_core::{Case, Device, DeviceKind, Dtype, Implementation, InputError, PrepareError, Prepared, Tensors};

use super::op::Op;
use super::shape::{Allocation, Reduction, Shape};
use crate::device::{Arg, Buffer, GpuError, Grid, Job, Source, gpu, whole};

/// The kernels.
pub(crate) static SOURCE: Source = Source { name: "layers.py", text: include_str!("layers.py"), options: &[] };

/// Values of an element-wise program, and of a step of the squared errors, of which a program takes `STEPS`.
const BLOCK: usize = 1024;
const STEPS: usize = 16;
/// Rows and columns of a program that adds a bias.
const BIASED: [usize; 2] = [4, 256];
/// Values and rows of the tiles that rows fit into, as in `layers.py`.
const TILES: [(usize, usize); 5] = [(64, 16), (256, 4), (512, 2), (1024, 1), (4096, 1)];

/// The name of the variant for sizes that are multiples of 16, or not. Arrays begin at multiples of 256 bytes.
fn variant(kernel: &str, size: usize) -> String {
    if size.is_multiple_of(16) { format!("{kernel}_16") } else { kernel.to_string() }
}

/// The variant of a kernel by rows for rows of `d` values, and how many rows a program takes.
fn by_row(kernel: &str, d: usize) -> (String, usize) {
    // Rows that are no multiple of 16 values have the smallest tile alone.
    let tiles = if d.is_multiple_of(16) { &TILES[..] } else { &TILES[..1] };
    match tiles.iter().find(|(block, _)| d <= *block) {
        Some((block, rows)) => (variant(&format!("{kernel}_{block}"), d), *rows),
        None => (variant(&format!("{kernel}_long"), d), 1),
    }
}

/// A launch over one direction; the programs of Triton's kernels bring their own number of threads.
fn line(programs: usize) -> Grid {
    Grid::line(programs, 1)
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
    if i32::try_from(rows).is_err() {
        return Err(PrepareError::Unsupported(format!("{rows} rows; these kernels count rows in 32 bits")));
    }
    let mut job = Job::new(gpu);
    let x = job.hold(Buffer::of_f32(gpu, x.f32()?)?);
    // An operation without a second array is given the first for it and never reads it.
    let second = match op.second() {
        Some((name, _)) => job.hold(Buffer::of_f32(gpu, inputs.f32(name)?)?),
        None => x,
    };
    let scale = |count: usize| Arg::F64(if shape.reduction == Reduction::Mean { 1.0 / count as f64 } else { 1.0 });
    let each = shape.reduction == Reduction::None;
    let (long, by_elements) = (Arg::U64(n as u64), line(n.div_ceil(BLOCK)));
    match op {
        Op::Gelu | Op::Swish | Op::SwiGlu => {
            let kernel = match (op, shape.tanh) {
                (Op::Gelu, false) => "gelu",
                (Op::Gelu, true) => "gelu_approximate",
                (Op::Swish, _) => "swish",
                _ => "swiglu",
            };
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            job.launch(&SOURCE, &variant(kernel, n), by_elements, vec![x, second, y, long])?;
        }
        Op::MseLoss if each => {
            let loss = job.output("loss", Dtype::F32, &extents, 0)?;
            job.launch(&SOURCE, &variant("squared_errors", n), by_elements, vec![x, second, loss, long])?;
        }
        Op::MseLoss => {
            let programs = n.div_ceil(STEPS * BLOCK);
            let sums = job.hold(Buffer::new(gpu, 8 * programs)?);
            let loss = job.output("loss", Dtype::F32, &[], 0)?;
            let kernel = variant("squared_error_sums", n);
            job.launch(&SOURCE, &kernel, line(programs), vec![x, second, sums, long])?;
            job.launch(&SOURCE, "reduce_sums", line(1), vec![sums, loss, whole(programs), scale(n)])?;
        }
        Op::LayerNorm | Op::ResidualLayerNorm => {
            let gamma = job.hold(Buffer::of_f32(gpu, inputs.f32("gamma")?)?);
            let beta = job.hold(Buffer::of_f32(gpu, inputs.f32("beta")?)?);
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            let (kernel, sum) = match op {
                Op::LayerNorm => ("layer_norm", y),
                _ => ("residual_layer_norm", job.output("sum", Dtype::F32, &extents, 0)?),
            };
            let (kernel, each) = by_row(kernel, d);
            let args = vec![x, second, gamma, beta, y, sum, whole(rows), whole(d), Arg::F32(shape.eps)];
            job.launch(&SOURCE, &kernel, line(rows.div_ceil(each)), args)?;
        }
        Op::Softmax => {
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            let (kernel, each) = by_row("softmax", d);
            job.launch(&SOURCE, &kernel, line(rows.div_ceil(each)), vec![x, y, whole(rows), whole(d)])?;
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
            let (kernel, of_program) = by_row("cross_entropy", d);
            let args = vec![x, labels, sums, losses, whole(rows), whole(d)];
            job.launch(&SOURCE, &kernel, line(rows.div_ceil(of_program)), args)?;
            if !each {
                let loss = job.output("loss", Dtype::F32, &[], 0)?;
                job.launch(&SOURCE, "reduce_sums", line(1), vec![sums, loss, whole(rows), scale(rows)])?;
            }
        }
        Op::BiasGelu => {
            let bias = job.hold(Buffer::of_f32(gpu, inputs.f32("bias")?)?);
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            bias_gelu(&mut job, [x, bias, y], [rows, d], shape.tanh)?;
        }
    }
    Ok(job.boxed())
}

/// Adds y = GELU(x + bias).
fn bias_gelu(job: &mut Job, arrays: [Arg; 3], [rows, d]: [usize; 2], tanh: bool) -> Result<(), GpuError> {
    let across = d.div_ceil(BIASED[1]);
    // The hardware's limit of blocks in the second direction.
    if across > 65_535 {
        return Err(GpuError::Call {
            call: "cuLaunchKernel",
            problem: format!("rows of {d} values; a grid takes {} of them", 65_535 * BIASED[1]),
        });
    }
    let mut grid = line(rows.div_ceil(BIASED[0]));
    grid.blocks[1] = across as u32;
    let kernel = variant(if tanh { "bias_gelu_approximate" } else { "bias_gelu" }, d);
    job.launch(&SOURCE, &kernel, grid, arrays.into_iter().chain([whole(rows), whole(d)]).collect())
}

/// The row of an operation.
pub(super) fn implementation(op: Op) -> Implementation {
    let about = match op {
        Op::LayerNorm | Op::ResidualLayerNorm | Op::Softmax | Op::CrossEntropyLoss => {
            "Triton: whole rows in tiles, f32"
        }
        _ => "Triton: element by element, f32",
    };
    let row =
        Implementation::cpu(op.name(), "triton", about, move |case, inputs, device| prepare(op, case, inputs, device));
    Implementation { needs: DeviceKind::Cuda, ..row }
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Case, Registry, Value};

    use super::Op;
    use crate::device::judge_triton;

    fn judged(op: Op, [batch, sequence, dimension]: [i64; 3], more: &[(&str, &str)], spoil: bool) {
        let mut registry = Registry::new();
        crate::layers::register(&mut registry);
        let mut params = vec![
            ("batch".to_string(), Value::Int(batch)),
            ("sequence".to_string(), Value::Int(sequence)),
            ("dimension".to_string(), Value::Int(dimension)),
        ];
        params.extend(more.iter().map(|(name, value)| (name.to_string(), Value::from(*value))));
        let case = Case::new(op.name(), params);
        let mut inputs = registry.find(op.name()).unwrap().inputs(&case, 3).unwrap();
        if spoil {
            let mut x = inputs.take("x").unwrap();
            let values = x.f32_mut().unwrap();
            let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 90.0, -90.0, 1e-40, -0.0];
            for (value, at) in special.iter().zip((0..values.len()).step_by(61)) {
                values[at] = *value;
            }
            inputs.insert("x", x);
        }
        judge_triton(&registry, &case, &inputs);
    }

    fn axes(op: Op) -> &'static [&'static [(&'static str, &'static str)]] {
        match op {
            Op::Gelu | Op::BiasGelu => &[&[], &[("form", "tanh")]],
            Op::MseLoss | Op::CrossEntropyLoss => &[&[], &[("reduction", "sum")], &[("reduction", "none")]],
            _ => &[&[]],
        }
    }

    #[test]
    fn every_operation_is_judged_right_in_every_tile_and_beyond_them() {
        for op in Op::ALL {
            // One value; tiles of 64 that are full, odd and of few rows; every larger tile with a tail; steps of odd rows.
            let small = [[1, 1, 1], [1, 3, 5], [2, 9, 33], [3, 7, 64], [1, 5, 176]];
            for shape in small.into_iter().chain([[1, 3, 400], [1, 2, 768], [1, 2, 4000], [1, 1, 5001], [1, 2, 4112]]) {
                axes(op).iter().for_each(|more| judged(op, shape, more, false));
            }
        }
    }

    #[test]
    fn losses_of_many_programs_are_added_up() {
        judged(Op::MseLoss, [2, 130, 160], &[], false);
        judged(Op::MseLoss, [2, 131, 161], &[], false);
        judged(Op::CrossEntropyLoss, [2, 700, 3], &[], false);
    }

    #[test]
    fn nan_infinity_and_large_values_go_where_the_reference_has_them() {
        for op in Op::ALL {
            for shape in [[2, 9, 33], [1, 7, 176], [1, 2, 4112]] {
                axes(op).iter().for_each(|more| judged(op, shape, more, true));
            }
        }
    }
}
