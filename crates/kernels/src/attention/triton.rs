//! Attention as Triton kernels: products of `product.py`, the masked softmax and the fused core of `attention.py`, the norms and
//! the activation of `layers.py`: f32, and the core in bf16 as well.

use ellwand_core::{Case, PrepareError, Tensors};

use super::gpu::{Kernels, Steps, place};
use super::shape::{Layout, Mask, Shape};
use super::{Task, cuda_bf16};
use crate::device::{Arg, Gpu, GpuError, Grid, Job, Source, whole};
use crate::gemm::{Place, Products};
use crate::layers;

/// The kernels.
pub(crate) static SOURCE: Source = Source { name: "attention.py", text: include_str!("attention.py"), options: &[] };

/// Queries of a program of the fused kernel.
const QUERIES: usize = 64;

/// Queries of a program of it in bf16.
const NARROW_QUERIES: usize = 128;
/// Heads that it is compiled for in bf16.
const NARROW_HEADS: [usize; 2] = [64, 128];

/// Programs of so many queries, heads, sequences.
fn grid(s: &Shape, queries: usize) -> Grid {
    let blocks = [s.sequence.div_ceil(queries), s.heads, s.batch].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    Grid { blocks, threads: [1; 3], shared: 0 }
}

/// The core in bf16.
fn narrow(case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Job, PrepareError> {
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
    let places = [queries, keys, queries].map(|layout| place(Arg::At(0), layout));
    args.extend(places.iter().flat_map(|place| place.steps().map(|step| Arg::U64(step as u64))));
    let mut grid = grid(&s, NARROW_QUERIES);
    // All heads' last queries, which see the most keys, come first: `narrow`, which heads of up to 64 do not use.
    if s.mask == Mask::Causal && padded == 128 {
        grid.blocks.swap(0, 1);
    }
    made.job.launch(&SOURCE, &format!("attention_bf16_{padded}_16"), grid, args)?;
    Ok(made.job)
}

/// The kernels of `product.py`, `attention.py` and `layers.py`.
pub(super) struct Triton;

impl Kernels for Triton {
    const HEADS: &'static [usize] = &[32, 64, 128];
    type Around = layers::Triton;

    fn product(products: &Products, job: &mut Job) -> Result<(), GpuError> {
        products.launch_triton(job)
    }

    fn softmax(steps: &mut Steps<Self>, scores: Arg, weights: Arg) -> Result<(), GpuError> {
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

    fn fused(steps: &mut Steps<Self>, padded: usize, places: [Place; 4]) -> Result<(), GpuError> {
        let s = steps.s;
        let even = places.iter().all(|place| place.address().word().is_multiple_of(16))
            && s.head().is_multiple_of(16)
            && places.iter().all(|place| place.steps().iter().all(|step| step.is_multiple_of(16)));
        if s.batch.max(s.heads) > 65_535 {
            let problem = format!("{} sequences of {} heads; a grid takes 65535 of each", s.batch, s.heads);
            return Err(GpuError::Call { call: "cuLaunchKernel", problem });
        }
        let (sees, lengths) = steps.sees.args();
        let scale = (s.scale() * std::f64::consts::LOG2_E) as f32;
        let mut args = places.map(Place::address).to_vec();
        args.extend([lengths, whole(s.sequence), whole(s.head()), whole(s.heads / s.kv_heads)]);
        args.extend([sees, Arg::F32(scale)]);
        let [q, k, _, out] = places;
        args.extend([q, k, out].iter().flat_map(|place| place.steps().map(|step| Arg::U64(step as u64))));
        let kernel = format!("attention_{padded}{}", if even { "_16" } else { "" });
        steps.job.launch(&SOURCE, &kernel, grid(&s, QUERIES), args)
    }

    fn narrow(case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Job, PrepareError> {
        narrow(case, inputs, gpu)
    }
}

/// What the row of a task says of itself.
pub(super) fn about(task: Task) -> &'static str {
    match task {
        Task::Softmax => "Triton: a program a row, f32",
        Task::Core => "Triton: fused online softmax; f32 without TF32, or bf16 on tensor cores",
        Task::Whole => "Triton: fused online softmax over tiles of 64 queries, f32 without TF32",
        Task::Layer => "Triton: products in tiles, fused attention, f32 without TF32; residual with norm",
        _ => "Triton: products in tiles, f32 without TF32",
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{case, registry};
    use super::Task;
    use crate::device::judge_triton;

    #[test]
    fn the_core_in_bf16_is_judged_right() {
        let registry = registry();
        let task = registry.find(Task::Core.name()).unwrap();
        let small = [[1, 1, 16, 1, 0], [2, 17, 64, 2, 0], [1, 65, 64, 4, 2], [1, 130, 64, 1, 0]];
        for sizes in small.into_iter().chain([[1, 150, 160, 2, 1], [1, 67, 256, 2, 1]]) {
            for mask in ["none", "causal", "padding"] {
                let mut case = case(&registry, task.name(), sizes, mask);
                case.set("precision", "bf16");
                let inputs = task.inputs(&case, 9).unwrap();
                judge_triton(&registry, &case, &inputs);
            }
        }
    }
}
