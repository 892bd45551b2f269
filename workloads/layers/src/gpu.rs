//! The layer operations on a GPU, with kernels in CUDA (`cuda.rs`) or WGSL (`wgpu.rs`). Arrays, order of the kernels
//! and list of implementations are shared.

use ellwand_core::{Case, Device, DeviceKind, Dtype, Implementation, InputError, PrepareError, Prepared, Tensors};

use super::labels;
use super::op::Op;
use super::shape::{Allocation, Reduction, Shape};
use ellwand_gpu::{Arg, GpuError, Job, gpu};
use ellwand_simd::precision::Precision;

/// Destination of row losses: an array of all losses, or one value with their scaled sum.
#[derive(Debug, Clone, Copy)]
pub enum Losses {
    /// The array of all losses.
    Each(Arg),
    /// The place of the sum, and the factor of the sum.
    Sum(Arg, f64),
}

/// The kernels of one kind; each method adds launches to a job.
pub trait Kernels: 'static {
    /// Name of the implementations.
    const NAME: &'static str;
    /// Kind of device that they need.
    const NEEDS: DeviceKind = DeviceKind::Cuda;
    /// Descriptions of row-wise and element-wise kernels.
    const ABOUT: [&'static str; 2];

    /// Applies `kernel` to `n` elements: y from x and, if the operation has one, a second array.
    fn elements(job: &mut Job, kernel: &str, x: Arg, second: Option<Arg>, y: Arg, n: usize) -> Result<(), GpuError>;

    /// The sum of squared errors of `n` elements of x and the target, times `scale`, written to the last array. `come`
    /// is a word that is 0 before and after.
    fn mse(job: &mut Job, arrays: [Arg; 3], come: Arg, n: usize, scale: f64) -> Result<(), GpuError>;

    /// The cross-entropy of x and labels.
    fn cross_entropy(
        job: &mut Job,
        arrays: [Arg; 2],
        losses: Losses,
        come: Arg,
        rows: [usize; 2],
    ) -> Result<(), GpuError>;

    /// The softmax y of x.
    fn softmax(job: &mut Job, arrays: [Arg; 2], rows: [usize; 2]) -> Result<(), GpuError>;

    /// The layer norm y of x with gamma and beta, or of x + residual, which is then written to the second array of
    /// `residual`.
    fn norm(
        job: &mut Job,
        arrays: [Arg; 4],
        residual: Option<[Arg; 2]>,
        rows: [usize; 2],
        eps: f32,
    ) -> Result<(), GpuError>;

    /// y = GELU(x + bias), possibly in place.
    fn bias_gelu(job: &mut Job, arrays: [Arg; 3], rows: [usize; 2], tanh: bool) -> Result<(), GpuError>;
}

/// The shape of a case that the kernels can compute.
fn supported(op: Op, case: &Case) -> Result<Shape, PrepareError> {
    let shape = Shape::of(case)?;
    let why = if op.of(case) == Op::SoftCrossEntropyLoss {
        "the GPU kernels need integer labels: targets=labels"
    } else if shape.precision != Precision::F32 {
        "the GPU kernels need f32 arrays: precision=f32"
    } else if shape.allocation != Allocation::Reused {
        "on a GPU arrays are allocated once: allocation=reused"
    } else {
        return Ok(shape);
    };
    Err(PrepareError::Unsupported(why.into()))
}

/// The label of each row; no label may be the ignored one.
fn all_labels(case: &Case, inputs: &Tensors) -> Result<Vec<u64>, PrepareError> {
    let labels = labels::of(case, inputs)?;
    if labels::counted(&labels) < labels.len() {
        let why = "the GPU kernels skip no rows: use labels without the ignore-index";
        return Err(PrepareError::Unsupported(why.into()));
    }
    Ok(labels.iter().map(|&label| label as u64).collect())
}

fn prepare<K: Kernels>(
    op: Op,
    case: &Case,
    inputs: &Tensors,
    device: &dyn Device,
) -> Result<Box<dyn Prepared>, PrepareError> {
    let shape = supported(op, case)?;
    let mut job = Job::new(gpu(device)?);
    let array = inputs.get("x")?;
    if array.len() != shape.elements() {
        return Err(InputError::new("x", format!("its shape is {:?}", array.shape()), "the shape of the case").into());
    }
    let (extents, n, rows, d) = (array.shape().to_vec(), shape.elements(), shape.rows(), shape.dimension);
    let input = |job: &mut Job, name: &str| -> Result<Arg, PrepareError> { Ok(job.upload::<f32>(inputs.f32(name)?)?) };
    let x = input(&mut job, "x")?;
    let second = op.second().map(|(name, _)| input(&mut job, name)).transpose()?;
    let scale = |count: usize| if shape.reduction == Reduction::Mean { 1.0 / count as f64 } else { 1.0 };
    let each = shape.reduction == Reduction::None;
    match (op, second) {
        (Op::Gelu | Op::Swish | Op::SwiGlu, _) => {
            let kernel = match (op, shape.tanh) {
                (Op::Gelu, false) => "gelu",
                (Op::Gelu, true) => "gelu_approximate",
                (Op::Swish, _) => "swish",
                _ => "swiglu",
            };
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            K::elements(&mut job, kernel, x, second, y, n)?;
        }
        (Op::MseLoss, _) if each => {
            let loss = job.output("loss", Dtype::F32, &extents, 0)?;
            K::elements(&mut job, "squared_errors", x, second, loss, n)?;
        }
        (Op::MseLoss, target) => {
            let loss = job.output("loss", Dtype::F32, &[], 0)?;
            let come = job.upload::<u64>(&[0])?;
            K::mse(&mut job, [x, target.unwrap_or(x), loss], come, n, scale(n))?;
        }
        (Op::LayerNorm | Op::ResidualLayerNorm, residual) => {
            let (gamma, beta) = (input(&mut job, "gamma")?, input(&mut job, "beta")?);
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            let residual = match residual {
                Some(residual) => Some([residual, job.output("sum", Dtype::F32, &extents, 0)?]),
                None => None,
            };
            K::norm(&mut job, [x, gamma, beta, y], residual, [rows, d], shape.eps)?;
        }
        (Op::Softmax, _) => {
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            K::softmax(&mut job, [x, y], [rows, d])?;
        }
        (Op::CrossEntropyLoss | Op::SoftCrossEntropyLoss, _) => {
            let labels = job.upload::<u64>(&all_labels(case, inputs)?)?;
            let losses = if each {
                Losses::Each(job.output("loss", Dtype::F32, &extents[..extents.len() - 1], 0)?)
            } else {
                Losses::Sum(job.output("loss", Dtype::F32, &[], 0)?, scale(rows))
            };
            let come = job.upload::<u64>(&[0])?;
            K::cross_entropy(&mut job, [x, labels], losses, come, [rows, d])?;
        }
        (Op::BiasGelu, _) => {
            let bias = input(&mut job, "bias")?;
            let y = job.output("y", Dtype::F32, &extents, 0)?;
            K::bias_gelu(&mut job, [x, bias, y], [rows, d], shape.tanh)?;
        }
    }
    Ok(job.boxed())
}

/// One implementation of an operation.
fn row<K: Kernels>(op: Op) -> Implementation {
    let by_row = matches!(op, Op::LayerNorm | Op::ResidualLayerNorm | Op::Softmax | Op::CrossEntropyLoss);
    let about = K::ABOUT[usize::from(!by_row)];
    let prepared = move |case: &Case, inputs: &Tensors, device: &dyn Device| prepare::<K>(op, case, inputs, device);
    let row = Implementation { needs: K::NEEDS, ..Implementation::cpu(op.name(), K::NAME, about, prepared) };
    // Sums and squares are kept in f32.
    let range = "rows whose sums and squares keep their precision in f32";
    let sets: &[&'static str] = match op {
        Op::LayerNorm | Op::ResidualLayerNorm => &["constant rows", "huge"],
        Op::MseLoss | Op::CrossEntropyLoss if K::NEEDS == DeviceKind::Wgpu => &["huge"],
        _ => &[],
    };
    sets.iter().fold(row, |row, set| row.except(set, range))
}

/// The GPU implementations of an operation.
pub(super) fn implementations(op: Op) -> [Implementation; 2] {
    [row::<super::cuda::Cuda>(op), row::<super::wgpu::Wgpu>(op)]
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Case, Registry, Tensors, Value};

    use super::Op;
    use ellwand_gpu_lab::judge;
    use ellwand_gpu_lab::testing::{self, judged_on_wgpu};

    /// One value; less than a warp; odd rows. Every kernel that holds rows, with full and partial rows, vectorised and
    /// value by value; rows longer than all of these.
    const SHAPES: [[i64; 3]; 16] = [
        [1, 1, 1],
        [1, 3, 5],
        [2, 17, 33],
        [1, 37, 64],
        [1, 7, 100],
        [1, 7, 127],
        [1, 19, 256],
        [1, 5, 255],
        [1, 2, 768],
        [1, 5, 1024],
        [1, 3, 1025],
        [1, 2, 4096],
        [1, 1, 5001],
        [1, 1, 12_000],
        [1, 1, 8195],
        [1, 1, 20_480],
    ];

    /// Enough values that a thread takes several vectors and blocks loop: whole rows of vectors, and odd rows with a
    /// tail.
    const MANY: [[i64; 3]; 3] = [[1, 101, 252], [1, 201, 250], [1, 3101, 3]];

    fn as_drawn(_: &mut [f32]) {}

    /// NaN, infinity and large values, at most one per row if rows are long, so that some rows stay clean.
    fn special(x: &mut [f32]) {
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 90.0, -90.0, 1e-40, -0.0];
        for (value, at) in special.iter().zip((0..x.len()).step_by(61)) {
            x[at] = *value;
        }
    }

    fn judged_one(
        registry: &Registry,
        op: Op,
        [batch, sequence, dimension]: [i64; 3],
        more: &[(&str, &str)],
        spoil: fn(&mut [f32]),
        judge: impl Fn(&Registry, &Case, &Tensors),
    ) {
        let mut set = vec![
            ("batch", Value::Int(batch)),
            ("sequence", Value::Int(sequence)),
            ("dimension", Value::Int(dimension)),
        ];
        set.extend(more.iter().map(|(name, value)| (*name, Value::from(*value))));
        let case = testing::case(registry, op.name(), &set);
        let mut inputs = registry.find(op.name()).unwrap().inputs(&case, 3).unwrap();
        let mut x = inputs.take("x").unwrap();
        spoil(x.f32_mut().unwrap());
        inputs.insert("x", x);
        judge(registry, &case, &inputs);
    }

    /// Checks every operation in all its forms.
    fn judged(shapes: &[[i64; 3]], spoil: fn(&mut [f32]), judge: impl Fn(&Registry, &Case, &Tensors)) {
        let mut registry = Registry::new();
        crate::register(&mut registry);
        for op in Op::ALL {
            let axes: &[&[(&str, &str)]] = match op {
                Op::Gelu | Op::BiasGelu => &[&[], &[("form", "tanh")]],
                Op::MseLoss | Op::CrossEntropyLoss => &[&[], &[("reduction", "sum")], &[("reduction", "none")]],
                _ => &[&[]],
            };
            for (shape, more) in shapes.iter().flat_map(|shape| axes.iter().map(move |more| (*shape, more))) {
                judged_one(&registry, op, shape, more, spoil, &judge);
            }
        }
    }

    #[test]
    fn cuda_is_judged_right_at_every_shape_in_every_order() {
        judged(&SHAPES, as_drawn, |registry, case, inputs| drop(judge(registry, case, inputs)));
    }

    #[test]
    fn cuda_is_judged_right_where_threads_take_several_vectors() {
        judged(&MANY, as_drawn, |registry, case, inputs| drop(judge(registry, case, inputs)));
    }

    #[test]
    fn cuda_puts_nan_infinity_and_large_values_where_the_reference_has_them() {
        judged(&[&SHAPES[..], &MANY[..1]].concat(), special, |registry, case, inputs| {
            drop(judge(registry, case, inputs))
        });
    }

    #[test]
    fn cuda_blocks_that_go_on_to_another_row_get_its_loss_right() {
        let mut registry = Registry::new();
        crate::register(&mut registry);
        for shape in [[1, 101, 1028], [1, 27, 4100], [1, 26, 8193]] {
            for more in [&[][..], &[("reduction", "none")]] {
                judged_one(&registry, Op::CrossEntropyLoss, shape, more, as_drawn, |registry, case, inputs| {
                    drop(judge(registry, case, inputs));
                });
            }
        }
    }

    #[test]
    fn cuda_normalises_rows_far_from_0() {
        let mut registry = Registry::new();
        crate::register(&mut registry);
        for shape in SHAPES {
            let far: [fn(&mut [f32]); 2] =
                [|x| x.iter_mut().for_each(|x| *x += 1e4), |x| x.iter_mut().for_each(|x| *x -= 3e5)];
            for far in far {
                judged_one(&registry, Op::LayerNorm, shape, &[], far, |registry, case, inputs| {
                    drop(judge(registry, case, inputs));
                });
            }
        }
    }

    #[test]
    fn wgpu_is_judged_right_at_every_shape() {
        judged(&SHAPES, as_drawn, |registry, case, inputs| judged_on_wgpu(registry, case, inputs, |_, _| {}));
    }

    #[test]
    fn wgpu_puts_nan_infinity_and_large_values_where_the_reference_has_them() {
        judged(&SHAPES, special, |registry, case, inputs| judged_on_wgpu(registry, case, inputs, |_, _| {}));
    }
}
