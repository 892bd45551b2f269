//! Attention as CUDA kernels: products of `product.cu`, the masked softmax and the fused core of `attention.cu`, all f32.

use ellwand_core::{Case, Device, DeviceKind, Dtype, Implementation, PrepareError, Prepared, Tensors};

use super::shape::{Layout, Mask, Precision, Shape};
use super::{EPSILON, Task, arrays, cuda_bf16};
use crate::device::{Arg, Buffer, Gpu, GpuError, Grid, Job, Source, gpu, whole};
use crate::gemm::{Masked, Place, Products, Sees};
use crate::layers;

/// The kernels.
pub(crate) static SOURCE: Source = Source { name: "attention.cu", text: include_str!("attention.cu"), options: &[] };

const THREADS: u32 = 256;
/// Queries and keys of a block of the fused kernel.
const TILE: usize = 64;
/// Heads of as many values, or fewer, that the fused kernel is compiled for.
const HEADS: [usize; 3] = [32, 64, 128];

/// Where the heads of an array lie.
pub(super) fn place(at: Arg, layout: Layout) -> Place {
    Place { at, row: layout.row, head: layout.head, batch: layout.batch }
}

/// The same array from `values` values on.
pub(super) fn further(at: Arg, values: usize) -> Arg {
    match at {
        Arg::At(address) => Arg::At(address + 4 * values as u64),
        other => other,
    }
}

/// A job in the making.
struct Steps<'a> {
    gpu: &'a Gpu,
    job: Job,
    s: Shape,
    sees: Sees,
}

impl Steps<'_> {
    fn new<'a>(gpu: &'a Gpu, s: Shape, lengths: &[i64]) -> Result<Steps<'a>, GpuError> {
        let mut job = Job::new(gpu);
        let sees = match s.mask {
            Mask::None => Sees::All,
            Mask::Causal => Sees::Causal,
            Mask::Padding => {
                let lengths: Vec<u64> = lengths.iter().map(|length| length.unsigned_abs()).collect();
                Sees::Lengths(job.hold(Buffer::of_u64(gpu, &lengths)?))
            }
        };
        Ok(Steps { gpu, job, s, sees })
    }

    fn scratch(&mut self, values: usize) -> Result<Arg, GpuError> {
        Ok(self.job.hold(Buffer::new(self.gpu, 4 * values)?))
    }

    /// `y = x w^T + b` with rows that lie one after another.
    fn linear(&mut self, x: Arg, [w, b]: [Arg; 2], y: Arg, [rows, ins, outs]: [usize; 3]) -> Result<(), GpuError> {
        let [x, w, y] = [(x, ins), (w, ins), (y, outs)].map(|(at, row)| Place::one(at, row));
        Products { bias: Some(b), ..Products::one([rows, outs, ins], true, x, w, y) }.launch(&mut self.job)
    }

    /// A product for every head.
    fn by_head(&mut self, size: [usize; 3], transposed: bool, [a, b, c]: [Place; 3]) -> Products {
        let s = &self.s;
        let (sequences, heads, group, sees) = (s.batch, s.heads, s.heads / s.kv_heads, self.sees);
        Products { sequences, heads, group, sees, ..Products::one(size, transposed, a, b, c) }
    }

    /// [batch, heads, sequence, sequence].
    fn square(&self, at: Arg) -> Place {
        let n = self.s.sequence;
        Place { at, row: n, head: n * n, batch: self.s.heads * n * n }
    }

    fn scores(&mut self, q: Place, k: Place, scores: Arg) -> Result<(), GpuError> {
        let (n, alpha) = (self.s.sequence, self.s.scale() as f32);
        let to = self.square(scores);
        let products = self.by_head([n, n, self.s.head()], true, [q, k, to]);
        Products { alpha, mask: Masked::C, ..products }.launch(&mut self.job)
    }

    fn softmax(&mut self, scores: Arg, weights: Arg) -> Result<(), GpuError> {
        let rows = self.s.positions() * self.s.heads;
        let (sees, lengths) = self.sees.args();
        let grid = Grid::line(rows.div_ceil(THREADS as usize / 32), THREADS);
        let args =
            vec![scores, lengths, weights, whole(self.s.sequence), whole(self.s.heads), sees, Arg::U64(rows as u64)];
        self.job.launch(&SOURCE, "softmax_rows", grid, args)
    }

    fn sums(&mut self, weights: Arg, v: Place, out: Place) -> Result<(), GpuError> {
        let (n, from) = (self.s.sequence, self.square(weights));
        let products = self.by_head([n, self.s.head(), n], false, [from, v, out]);
        Products { mask: Masked::A, ..products }.launch(&mut self.job)
    }

    /// The core, fused where there is a kernel for heads of this size; otherwise its three steps with all scores in memory.
    fn core(&mut self, [q, k, v]: [Arg; 3], [queries, keys, to]: [Layout; 3], out: Arg) -> Result<(), GpuError> {
        let s = self.s;
        let Some(padded) = HEADS.into_iter().find(|padded| s.head() <= *padded) else {
            let scores = self.scratch(s.batch * s.heads * s.sequence * s.sequence)?;
            self.scores(place(q, queries), place(k, keys), scores)?;
            self.softmax(scores, scores)?;
            return self.sums(scores, place(v, keys), place(out, to));
        };
        let aligned = |at: Arg| matches!(at, Arg::At(at) if at.is_multiple_of(16));
        let wide = [q, k, v].into_iter().all(aligned)
            && [queries, keys].iter().all(|l| [l.batch, l.head, l.row].iter().all(|step| step.is_multiple_of(4)));
        let (sees, lengths) = self.sees.args();
        let scale = s.scale() * std::f64::consts::LOG2_E;
        let mut args = vec![q, k, v, out, lengths, whole(s.sequence), whole(s.head()), whole(s.heads / s.kv_heads)];
        args.extend([sees, Arg::U32(u32::from(wide)), Arg::F32(scale as f32)]);
        let steps = |l: Layout| [l.batch, l.head, l.row].map(|step| Arg::U64(step as u64));
        args.extend([queries, keys, to].into_iter().flat_map(steps));
        let blocks = [s.sequence.div_ceil(TILE), s.heads, s.batch].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        if s.batch > 65_535 {
            let problem = format!("{} sequences; a grid takes 65535", s.batch);
            return Err(GpuError::Call { call: "cuLaunchKernel", problem });
        }
        // Queries, keys or values, and weights, each with four values more a row than they have.
        let shared = 4 * TILE * (2 * (padded + 4) + TILE + 4);
        let grid = Grid { blocks, threads: [THREADS, 1, 1], shared: 0 }.shared(shared);
        self.job.launch(&SOURCE, &format!("attention_{padded}"), grid, args)
    }

    /// From positions to the context between the projections.
    fn between(&mut self, qkv: Arg, context: Arg) -> Result<(), GpuError> {
        let s = self.s;
        let layout = Layout::together(&s, s.projected());
        let part = |heads: usize| further(qkv, heads * s.head());
        let parts = [part(0), part(s.heads), part(s.heads + s.kv_heads)];
        self.core(parts, [layout, layout, Layout::together(&s, s.dimension)], context)
    }

    fn attention(&mut self, x: Arg, input: &dyn Fn(&str) -> Arg, y: Arg) -> Result<(), GpuError> {
        let (positions, d, width) = (self.s.positions(), self.s.dimension, self.s.projected());
        let qkv = self.scratch(positions * width)?;
        let context = self.scratch(positions * d)?;
        self.linear(x, [input("w_qkv"), input("b_qkv")], qkv, [positions, d, width])?;
        self.between(qkv, context)?;
        self.linear(context, [input("w_out"), input("b_out")], y, [positions, d, d])
    }

    /// `h = x + attention(norm(x))`, `y = h + mlp(norm(h))`.
    fn layer(&mut self, input: &dyn Fn(&str) -> Arg, y: Arg) -> Result<(), GpuError> {
        let (positions, d) = (self.s.positions(), self.s.dimension);
        let rows = [positions, d];
        let normed = self.scratch(positions * d)?;
        let (sum, part) = (self.scratch(positions * d)?, self.scratch(positions * d)?);
        let hidden = self.scratch(4 * positions * d)?;
        let norm = |gamma, beta, x, residual, y, sum| [x, residual, input(gamma), input(beta), y, sum];
        let nothing = Arg::At(0);
        let first = norm("gamma_1", "beta_1", input("x"), nothing, normed, nothing);
        layers::cuda_norm(&mut self.job, first, rows, EPSILON as f32)?;
        self.attention(normed, input, part)?;
        let second = norm("gamma_2", "beta_2", input("x"), part, normed, sum);
        layers::cuda_norm(&mut self.job, second, rows, EPSILON as f32)?;
        // The bias goes with the activation, which reads and writes these values anyway.
        let up = Products::one(
            [positions, 4 * d, d],
            true,
            Place::one(normed, d),
            Place::one(input("w_up"), d),
            Place::one(hidden, 4 * d),
        );
        up.launch(&mut self.job)?;
        layers::cuda_bias_gelu(&mut self.job, [hidden, input("b_up"), hidden], [positions, 4 * d], true)?;
        self.linear(hidden, [input("w_down"), input("b_down")], part, [positions, 4 * d, d])?;
        layers::cuda_add(&mut self.job, [sum, part, y], positions * d)
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
    let gpu = gpu(device)?;
    let s = Shape::of(case)?;
    arrays::check(task, &s, inputs)?;
    let lengths = arrays::lengths(&s, inputs).unwrap_or_default();
    let mut steps = Steps::new(gpu, s, lengths)?;
    let mut held = Vec::new();
    for array in arrays::inputs(task, &s) {
        held.push((array.name, steps.job.hold(Buffer::of_f32(gpu, inputs.f32(array.name)?)?)));
    }
    let input = |name: &str| held.iter().find(|(known, _)| *known == name).map_or(Arg::At(0), |(_, at)| *at);
    let output = arrays::output(task, &s);
    let y = steps.job.output(output.name, Dtype::F32, &output.dims, 0)?;
    let (positions, d) = (s.positions(), s.dimension);
    let (queries, keys) = (Layout::apart(&s, s.heads), Layout::apart(&s, s.kv_heads));
    let [q, k, v] = ["q", "k", "v"].map(input);
    match task {
        Task::Qkv => steps.linear(input("x"), ["w_qkv", "b_qkv"].map(input), y, [positions, d, s.projected()])?,
        Task::Output => steps.linear(input("context"), ["w_out", "b_out"].map(input), y, [positions, d, d])?,
        Task::Scores => steps.scores(place(q, queries), place(k, keys), y)?,
        Task::Softmax => steps.softmax(input("scores"), y)?,
        Task::WeightedSum => steps.sums(input("weights"), place(v, keys), place(y, queries))?,
        Task::Core => steps.core([q, k, v], [queries, keys, queries], y)?,
        Task::Whole => steps.attention(input("x"), &input, y)?,
        Task::Layer => steps.layer(&input, y)?,
    }
    Ok(if graph { steps.job.replayed()?.boxed() } else { steps.job.boxed() })
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
