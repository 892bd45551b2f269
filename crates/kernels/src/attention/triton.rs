//! Attention as Triton kernels: products of `product.py`, the masked softmax and the fused core of `attention.py`: f32, and
//! the core in bf16 as well.

use ellwand_core::{Case, Device, DeviceKind, Implementation, PrepareError, Prepared, Tensors};

use super::shape::{Layout, Precision};
use super::steps::{self, Kernels, Steps};
use super::{Task, cuda_bf16};
use crate::device::{Arg, Gpu, GpuError, Grid, Job, Source, gpu, whole};
use crate::gemm::Products;

/// The kernels.
pub(crate) static SOURCE: Source = Source { name: "attention.py", text: include_str!("attention.py"), options: &[] };

/// Queries of a program of the fused kernel.
const QUERIES: usize = 64;

/// Queries of a program of it in bf16.
const NARROW_QUERIES: usize = 128;
/// Heads that it is compiled for in bf16.
const NARROW_HEADS: [usize; 2] = [64, 128];

/// The core in bf16.
fn narrow(case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Box<dyn Prepared>, PrepareError> {
    let mut made = cuda_bf16::make(gpu, case, inputs)?;
    let s = made.s;
    let head = s.head();
    let padded = NARROW_HEADS.into_iter().find(|padded| head <= *padded && head.is_multiple_of(16));
    let Some(padded) = padded else {
        let why = format!("the kernel takes heads of 16 to 128 values, multiples of 16, not {head}; use other --heads");
        return Err(PrepareError::Unsupported(why));
    };
    let ([q, k, v], [lengths, sees]) = (made.inputs, made.sees);
    let mut args = vec![q, k, v, made.output, lengths, whole(s.sequence), whole(head), whole(s.heads / s.kv_heads)];
    args.extend([sees, made.scale()]);
    let (queries, keys) = (Layout::apart(&s, s.heads), Layout::apart(&s, s.kv_heads));
    args.extend(
        [queries, keys, queries].iter().flat_map(|l| [l.batch, l.head, l.row].map(|step| Arg::U64(step as u64))),
    );
    let blocks = [s.sequence.div_ceil(NARROW_QUERIES), s.heads, s.batch];
    let blocks = blocks.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    let kernel = format!("attention_bf16_{padded}_16");
    made.job.launch(&SOURCE, &kernel, Grid { blocks, threads: [1; 3], shared: 0 }, args)?;
    Ok(made.job.boxed())
}

/// The kernels of `product.py` and `attention.py`.
struct Triton;

impl Kernels for Triton {
    const HEADS: [usize; 3] = [32, 64, 128];

    fn product(products: &Products, job: &mut Job) -> Result<(), GpuError> {
        products.launch_triton(job)
    }

    fn softmax(steps: &mut Steps<'_, Self>, scores: Arg, weights: Arg) -> Result<(), GpuError> {
        let s = steps.s;
        let (sees, lengths) = steps.sees.args();
        let rows = s.positions() * s.heads;
        if i32::try_from(rows).is_err() {
            let problem = format!("{rows} rows of scores; a grid takes {}", i32::MAX);
            return Err(GpuError::Call { call: "cuLaunchKernel", problem });
        }
        let kernel = if s.sequence.is_multiple_of(16) { "softmax_rows_16" } else { "softmax_rows" };
        let args = vec![scores, lengths, weights, whole(s.sequence), whole(s.heads), sees];
        steps.job.launch(&SOURCE, kernel, Grid::line(rows, 1), args)
    }

    fn fused(
        steps: &mut Steps<'_, Self>,
        padded: usize,
        [q, k, v]: [Arg; 3],
        [queries, keys, to]: [Layout; 3],
        out: Arg,
    ) -> Result<(), GpuError> {
        let s = steps.s;
        let layouts = [queries, keys, to];
        let even = [q, k, v, out].iter().all(|at| at.word().is_multiple_of(16))
            && s.head().is_multiple_of(16)
            && layouts.iter().all(|l| [l.batch, l.head, l.row].iter().all(|step| step.is_multiple_of(16)));
        if s.batch.max(s.heads) > 65_535 {
            let problem = format!("{} sequences of {} heads; a grid takes 65535 of each", s.batch, s.heads);
            return Err(GpuError::Call { call: "cuLaunchKernel", problem });
        }
        let (sees, lengths) = steps.sees.args();
        let scale = (s.scale() * std::f64::consts::LOG2_E) as f32;
        let mut args = vec![q, k, v, out, lengths, whole(s.sequence), whole(s.head()), whole(s.heads / s.kv_heads)];
        args.extend([sees, Arg::F32(scale)]);
        args.extend(layouts.into_iter().flat_map(|l| [l.batch, l.head, l.row].map(|step| Arg::U64(step as u64))));
        let blocks = [s.sequence.div_ceil(QUERIES), s.heads, s.batch].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let kernel = format!("attention_{padded}{}", if even { "_16" } else { "" });
        steps.job.launch(&SOURCE, &kernel, Grid { blocks, threads: [1; 3], shared: 0 }, args)
    }

    fn layer(_: &mut Steps<'_, Self>, _: &dyn Fn(&str) -> Arg, _: Arg) -> Result<(), PrepareError> {
        Err(PrepareError::Unsupported("the layer has no row in Triton".into()))
    }
}

fn prepare(task: Task, case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    if Precision::of(case) == Precision::Bf16 {
        return narrow(case, inputs, gpu);
    }
    Ok(steps::job::<Triton>(task, case, inputs, gpu)?.boxed())
}

/// The row of a task; the layer around attention has none.
pub(super) fn implementation(task: Task) -> Option<Implementation> {
    let about = match task {
        Task::Layer => return None,
        Task::Softmax => "Triton: a program a row, f32",
        Task::Core => "Triton: fused online softmax; f32 without TF32, or bf16 on tensor cores",
        Task::Whole => "Triton: fused online softmax over tiles of 64 queries, f32 without TF32",
        _ => "Triton: products in tiles, f32 without TF32",
    };
    let prepared = move |case: &Case, inputs: &Tensors, device: &dyn Device| prepare(task, case, inputs, device);
    Some(Implementation { needs: DeviceKind::Cuda, ..Implementation::cpu(task.name(), "triton", about, prepared) })
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Case, Registry, Tensors, Value};

    use super::Task;
    use crate::device::judge_triton;

    /// A case by batch, sequence, dimension, heads, kv-heads, and what it is computed of.
    fn judged(task: Task, sizes: &[[i64; 5]], spoil: impl Fn(&mut Tensors)) {
        judged_in("f32", task, sizes, spoil);
    }

    fn judged_in(precision: &str, task: Task, sizes: &[[i64; 5]], spoil: impl Fn(&mut Tensors)) {
        let mut registry = Registry::new();
        crate::attention::register(&mut registry);
        let work = registry.find(task.name()).unwrap();
        for (sizes, mask) in sizes.iter().flat_map(|sizes| ["none", "causal", "padding"].map(|mask| (sizes, mask))) {
            let default = work.axes().iter().map(|a| (a.name.to_owned(), a.default[0].clone())).collect();
            let mut case = Case::new(task.name(), default);
            for (axis, size) in ["batch", "sequence", "dimension", "heads", "kv-heads"].into_iter().zip(sizes) {
                case.set(axis, Value::Int(*size));
            }
            case.set("mask", mask);
            if precision != "f32" {
                case.set("precision", precision);
            }
            let mut inputs = work.inputs(&case, 9).unwrap();
            spoil(&mut inputs);
            judge_triton(&registry, &case, &inputs);
        }
    }

    /// One value; ragged tiles; grouped heads; heads of 3 values; more than one tile of keys; all multiples of 16.
    const SIZES: [[i64; 5]; 6] = [
        [1, 1, 1, 1, 0],
        [2, 17, 64, 2, 0],
        [1, 65, 32, 4, 2],
        [2, 7, 24, 8, 4],
        [1, 130, 64, 1, 0],
        [2, 80, 64, 2, 1],
    ];

    #[test]
    fn the_components_are_judged_right_with_every_mask() {
        for task in [Task::Qkv, Task::Scores, Task::Softmax, Task::WeightedSum, Task::Output] {
            judged(task, &SIZES, |_| ());
        }
        // Six tiles of 128 x 128 fill the interpreter's three multiprocessors.
        for task in [Task::Scores, Task::WeightedSum] {
            judged(task, &[[1, 144, 192, 6, 3]], |_| ());
        }
    }

    #[test]
    fn the_fused_core_is_judged_right_for_heads_of_every_kernel() {
        judged(Task::Core, &SIZES, |_| ());
        judged(Task::Core, &[[1, 66, 80, 1, 1], [1, 67, 256, 2, 1], [1, 70, 9, 3, 1], [1, 66, 100, 1, 1]], |_| ());
    }

    #[test]
    fn the_core_in_bf16_is_judged_right() {
        let small = [[1, 1, 16, 1, 0], [2, 17, 64, 2, 0], [1, 65, 64, 4, 2], [1, 130, 64, 1, 0]];
        judged_in("bf16", Task::Core, &small, |_| ());
        judged_in("bf16", Task::Core, &[[1, 150, 160, 2, 1], [1, 67, 256, 2, 1]], |_| ());
    }

    #[test]
    fn whole_attention_and_heads_beyond_the_fused_kernels_are_judged_right() {
        judged(Task::Whole, &SIZES, |_| ());
        judged(Task::Core, &[[1, 20, 160, 1, 1]], |_| ());
        judged(Task::Whole, &[[1, 9, 264, 2, 1]], |_| ());
    }

    #[test]
    fn what_is_not_finite_goes_where_the_reference_has_it() {
        judged(Task::Core, &[[2, 70, 64, 2, 1]], |inputs| {
            for (name, at, value) in [("k", 30 * 32 + 5, f32::NAN), ("q", 3 * 32 + 1, f32::INFINITY)] {
                let mut array = inputs.take(name).unwrap();
                array.f32_mut().unwrap()[at] = value;
                inputs.insert(name, array);
            }
        });
    }
}
