//! Attention as CUDA kernels: products of `product.cu`, the masked softmax and the fused core of `attention.cu`, all f32.

use ellwand_core::{Case, Device, DeviceKind, Implementation, PrepareError, Prepared, Tensors};

use super::shape::{Layout, Precision};
use super::steps::{self, Kernels, Steps};
use super::{EPSILON, Task, cuda_bf16};
use crate::device::{Arg, GpuError, Grid, Job, Source, gpu, whole};
use crate::gemm::{Place, Products};
use crate::layers;

/// The kernels.
pub(crate) static SOURCE: Source = Source { name: "attention.cu", text: include_str!("attention.cu"), options: &[] };

const THREADS: u32 = 256;
/// Queries and keys of a block of the fused kernel.
const TILE: usize = 64;
/// The kernels of `product.cu` and `attention.cu`.
struct Cuda;

impl Kernels for Cuda {
    const HEADS: [usize; 3] = [32, 64, 128];

    fn product(products: &Products, job: &mut Job) -> Result<(), GpuError> {
        products.launch(job)
    }

    fn softmax(steps: &mut Steps<'_, Self>, scores: Arg, weights: Arg) -> Result<(), GpuError> {
        let rows = steps.s.positions() * steps.s.heads;
        let (sees, lengths) = steps.sees.args();
        let grid = Grid::line(rows.div_ceil(THREADS as usize / 32), THREADS);
        let args =
            vec![scores, lengths, weights, whole(steps.s.sequence), whole(steps.s.heads), sees, Arg::U64(rows as u64)];
        steps.job.launch(&SOURCE, "softmax_rows", grid, args)
    }

    fn fused(
        steps: &mut Steps<'_, Self>,
        padded: usize,
        [q, k, v]: [Arg; 3],
        [queries, keys, to]: [Layout; 3],
        out: Arg,
    ) -> Result<(), GpuError> {
        let s = steps.s;
        let aligned = |at: Arg| matches!(at, Arg::At(at) if at.is_multiple_of(16));
        let wide = [q, k, v].into_iter().all(aligned)
            && [queries, keys].iter().all(|l| [l.batch, l.head, l.row].iter().all(|step| step.is_multiple_of(4)));
        let (sees, lengths) = steps.sees.args();
        let scale = s.scale() * std::f64::consts::LOG2_E;
        let mut args = vec![q, k, v, out, lengths, whole(s.sequence), whole(s.head()), whole(s.heads / s.kv_heads)];
        args.extend([sees, Arg::U32(u32::from(wide)), Arg::F32(scale as f32)]);
        let strides = |l: Layout| [l.batch, l.head, l.row].map(|step| Arg::U64(step as u64));
        args.extend([queries, keys, to].into_iter().flat_map(strides));
        let blocks = [s.sequence.div_ceil(TILE), s.heads, s.batch].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        if s.batch > 65_535 {
            let problem = format!("{} sequences; a grid takes 65535", s.batch);
            return Err(GpuError::Call { call: "cuLaunchKernel", problem });
        }
        // Queries, keys or values, and weights, each with four values more a row than they have.
        let shared = 4 * TILE * (2 * (padded + 4) + TILE + 4);
        let grid = Grid { blocks, threads: [THREADS, 1, 1], shared: 0 }.shared(shared);
        steps.job.launch(&SOURCE, &format!("attention_{padded}"), grid, args)
    }

    /// `h = x + attention(norm(x))`, `y = h + mlp(norm(h))`.
    fn layer(steps: &mut Steps<'_, Self>, input: &dyn Fn(&str) -> Arg, y: Arg) -> Result<(), PrepareError> {
        let (positions, d) = (steps.s.positions(), steps.s.dimension);
        let rows = [positions, d];
        let normed = steps.scratch(positions * d)?;
        let (sum, part) = (steps.scratch(positions * d)?, steps.scratch(positions * d)?);
        let hidden = steps.scratch(4 * positions * d)?;
        let norm = |gamma, beta, x, residual, y, sum| [x, residual, input(gamma), input(beta), y, sum];
        let nothing = Arg::At(0);
        let first = norm("gamma_1", "beta_1", input("x"), nothing, normed, nothing);
        layers::cuda_norm(&mut steps.job, first, rows, EPSILON as f32)?;
        steps.attention(normed, input, part)?;
        let second = norm("gamma_2", "beta_2", input("x"), part, normed, sum);
        layers::cuda_norm(&mut steps.job, second, rows, EPSILON as f32)?;
        // The bias goes with the activation, which reads and writes these values anyway.
        let up = Products::one(
            [positions, 4 * d, d],
            true,
            Place::one(normed, d),
            Place::one(input("w_up"), d),
            Place::one(hidden, 4 * d),
        );
        up.launch(&mut steps.job)?;
        layers::cuda_bias_gelu(&mut steps.job, [hidden, input("b_up"), hidden], [positions, 4 * d], true)?;
        steps.linear(hidden, [input("w_down"), input("b_down")], part, [positions, 4 * d, d])?;
        Ok(layers::cuda_add(&mut steps.job, [sum, part, y], positions * d)?)
    }
}

fn prepare(
    task: Task,
    graph: bool,
    case: &Case,
    inputs: &Tensors,
    device: &dyn Device,
) -> Result<Box<dyn Prepared>, PrepareError> {
    if Precision::of(case) == Precision::Bf16 {
        return cuda_bf16::prepare(case, inputs, device);
    }
    let job = steps::job::<Cuda>(task, case, inputs, gpu(device)?)?;
    Ok(if graph { job.replayed()?.boxed() } else { job.boxed() })
}

/// The rows of a task; where it takes several launches, also all of them as one graph.
pub(super) fn implementations(task: Task) -> Vec<Implementation> {
    let about = match task {
        Task::Softmax => "a warp a row, f32",
        Task::Core => "fused online softmax over tiles of 64 queries and 64 keys; f32, or bf16 on tensor cores",
        Task::Whole => "fused online softmax over tiles of 64 queries and 64 keys, f32",
        Task::Layer => "products in tiles, fused attention, f32; bias with GELU, residual with norm",
        _ => "products in tiles of registers and shared memory, f32",
    };
    let row = |name: &str, about: &str, graph: bool| {
        let prepared =
            move |case: &Case, inputs: &Tensors, device: &dyn Device| prepare(task, graph, case, inputs, device);
        Implementation { needs: DeviceKind::Cuda, ..Implementation::cpu(task.name(), name, about, prepared) }
    };
    let mut rows = vec![row("cuda", about, false)];
    if matches!(task, Task::Whole | Task::Layer) {
        rows.push(row("cuda-graph", "the same, its launches replayed as one graph", true));
    }
    rows
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Case, Registry, Value};

    use super::Task;
    use crate::device::judge;

    fn registry() -> Registry {
        let mut registry = Registry::new();
        crate::attention::register(&mut registry);
        registry
    }

    /// A case by batch, sequence, dimension, heads, kv-heads.
    fn case(registry: &Registry, task: Task, sizes: [i64; 5], mask: &str) -> Case {
        let axes = registry.find(task.name()).unwrap().axes();
        let mut case = Case::new(task.name(), axes.iter().map(|a| (a.name.to_owned(), a.default[0].clone())).collect());
        for (axis, size) in ["batch", "sequence", "dimension", "heads", "kv-heads"].into_iter().zip(sizes) {
            case.set(axis, Value::Int(size));
        }
        case.set("mask", mask);
        case
    }

    fn judged(task: Task, sizes: &[[i64; 5]]) {
        let registry = registry();
        for sizes in sizes {
            for mask in ["none", "causal", "padding"] {
                let case = case(&registry, task, *sizes, mask);
                let inputs = registry.find(task.name()).unwrap().inputs(&case, 9).unwrap();
                judge(&registry, &case, &inputs);
            }
        }
    }

    /// One value; ragged tiles; grouped heads; heads of 3 values; more than one tile of keys.
    const SIZES: [[i64; 5]; 5] =
        [[1, 1, 1, 1, 0], [2, 17, 64, 2, 0], [1, 65, 32, 4, 2], [2, 7, 24, 8, 4], [1, 130, 64, 1, 0]];

    #[test]
    fn the_components_are_judged_right_with_every_mask() {
        for task in [Task::Qkv, Task::Scores, Task::Softmax, Task::WeightedSum, Task::Output] {
            judged(task, &SIZES[..4]);
        }
    }

    #[test]
    fn the_fused_core_is_judged_right_for_heads_of_every_kernel() {
        judged(Task::Core, &SIZES);
        // Heads of 80 and of 128 values; of 3, which no 16 bytes hold.
        judged(Task::Core, &[[1, 66, 80, 1, 1], [1, 67, 256, 2, 1], [1, 70, 9, 3, 1]]);
    }

    #[test]
    fn attention_and_the_layer_around_it_are_judged_right() {
        judged(Task::Whole, &SIZES[..4]);
        judged(Task::Layer, &SIZES[..3]);
    }

    #[test]
    fn heads_beyond_the_fused_kernels_take_the_three_steps() {
        judged(Task::Core, &[[1, 20, 160, 1, 1]]);
        judged(Task::Whole, &[[1, 9, 264, 2, 1]]);
    }

    #[test]
    fn what_is_not_finite_goes_where_the_reference_has_it() {
        let registry = registry();
        let task = registry.find("attention-core").unwrap();
        let case = case(&registry, Task::Core, [2, 70, 64, 2, 1], "causal");
        let mut inputs = task.inputs(&case, 3).unwrap();
        for (name, at, value) in [("k", 66 * 32 + 5, f32::NAN), ("q", 3 * 32 + 1, f32::INFINITY)] {
            let mut array = inputs.take(name).unwrap();
            array.f32_mut().unwrap()[at] = value;
            inputs.insert(name, array);
        }
        judge(&registry, &case, &inputs);
    }
}
