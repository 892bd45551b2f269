//! Attention as a sequence of GPU kernels of any kind: CUDA (`cuda.rs`), WGSL (`wgpu.rs`), and cuBLAS for pure products
//! (`cublas.rs`). Each kind provides the products, the masked softmax and the fused core; the steps in between and the
//! list of implementations are shared.

use ellwand_core::{Case, Device, Dtype, Implementation, PrepareError, Prepared, Tensors};

use super::arrays;
use super::shape::{Layout, Mask, Shape};
use super::task::{EPSILON, Task};
use ellwand_gpu::products::{Masked, Place, Products, Sees};
use ellwand_gpu::{Arg, Gpu, GpuError, Job, gpu, on_cuda};
use ellwand_layers::Kernels as Layers;
use ellwand_simd::precision::Precision;

/// Location of the heads of an array.
pub(super) fn place(at: Arg, layout: Layout) -> Place {
    Place { at, start: 0, row: layout.row, head: layout.head, batch: layout.batch }
}

/// The kernels of one kind.
pub(super) trait Kernels: Sized + 'static {
    /// Largest head sizes for which the fused kernel is compiled.
    const HEADS: &'static [usize];

    /// The kernels for the layer around attention.
    type Around: Layers;

    fn product(products: &Products, job: &mut Job) -> Result<(), GpuError>;

    fn softmax(steps: &mut Steps<Self>, scores: Arg, weights: Arg) -> Result<(), GpuError>;

    /// Launches the core from queries, keys and values to the output, with the kernel for heads of up to `padded`
    /// values.
    fn fused(steps: &mut Steps<Self>, padded: usize, places: [Place; 4]) -> Result<(), GpuError>;

    /// Uploads the lengths of the sequences.
    fn lengths(job: &mut Job, lengths: &[i64]) -> Result<Arg, GpuError> {
        let lengths: Vec<u64> = lengths.iter().map(|length| length.unsigned_abs()).collect();
        job.upload::<u64>(&lengths)
    }

    /// Launches the layer: `h = x + attention(norm(x))`, `y = h + mlp(norm(h))`.
    fn layer(steps: &mut Steps<Self>, input: &dyn Fn(&str) -> Arg, y: Arg) -> Result<(), GpuError> {
        let (positions, d, x) = (steps.s.positions(), steps.s.dimension, input("x"));
        let rows = [positions, d];
        let [normed, sum, part] =
            [steps.scratch(positions * d)?, steps.scratch(positions * d)?, steps.scratch(positions * d)?];
        let hidden = steps.scratch(4 * positions * d)?;
        steps.norm(x, ["gamma_1", "beta_1"].map(input), normed, None)?;
        steps.attention(normed, input, part)?;
        steps.norm(x, ["gamma_2", "beta_2"].map(input), normed, Some([part, sum]))?;
        // The activation adds the bias, since it reads and writes these values anyway.
        let up = steps.linear([normed, input("w_up"), hidden], None, [positions, d, 4 * d]);
        Self::product(&up, &mut steps.job)?;
        Self::Around::bias_gelu(&mut steps.job, [hidden, input("b_up"), hidden], [positions, 4 * d], true)?;
        let down = steps.linear([hidden, input("w_down"), part], Some(input("b_down")), [positions, 4 * d, d]);
        Self::product(&down, &mut steps.job)?;
        Self::Around::elements(&mut steps.job, "add", sum, Some(part), y, rows[0] * rows[1])
    }

    /// The bf16 core, for kinds that have it.
    fn narrow(_: &Case, _: &Tensors, _: &Gpu) -> Result<Job, PrepareError> {
        Err(PrepareError::Unsupported("there is no bf16 kernel; use precision=f32".into()))
    }
}

/// The keys that each query sees under the mask of the case.
pub(super) fn sees<K: Kernels>(job: &mut Job, mask: Mask, lengths: &[i64]) -> Result<Sees, GpuError> {
    Ok(match mask {
        Mask::None => Sees::All,
        Mask::Causal => Sees::Causal,
        Mask::Padding => Sees::Lengths(K::lengths(job, lengths)?),
    })
}

/// A job under construction.
pub(super) struct Steps<K> {
    pub(super) job: Job,
    pub(super) s: Shape,
    pub(super) sees: Sees,
    kernels: std::marker::PhantomData<K>,
}

impl<K: Kernels> Steps<K> {
    fn new(gpu: &Gpu, s: Shape, lengths: &[i64]) -> Result<Self, GpuError> {
        let mut job = Job::new(gpu);
        let sees = sees::<K>(&mut job, s.mask, lengths)?;
        Ok(Self { job, s, sees, kernels: std::marker::PhantomData })
    }

    /// Allocates working memory for `values` f32.
    pub(super) fn scratch(&mut self, values: usize) -> Result<Arg, GpuError> {
        self.job.scratch(4 * values)
    }

    /// The product `y = x w^T + b` with contiguous rows: arrays x, w and y; number of rows, values per row of x and of
    /// y.
    pub(super) fn linear(&self, arrays: [Arg; 3], bias: Option<Arg>, [rows, ins, outs]: [usize; 3]) -> Products {
        let [x, w, y] = arrays;
        let [x, w, y] = [(x, ins), (w, ins), (y, outs)].map(|(at, row)| Place::one(at, row));
        Products { bias, ..Products::one([rows, outs, ins], true, x, w, y) }
    }

    /// Launches the layer norm of every position, of x or of x + residual.
    pub(super) fn norm(
        &mut self,
        x: Arg,
        [gamma, beta]: [Arg; 2],
        y: Arg,
        residual: Option<[Arg; 2]>,
    ) -> Result<(), GpuError> {
        let rows = [self.s.positions(), self.s.dimension];
        K::Around::norm(&mut self.job, [x, gamma, beta, y], residual, rows, EPSILON as f32)
    }

    /// A product for every head.
    fn by_head(&self, size: [usize; 3], transposed: bool, [a, b, c]: [Place; 3]) -> Products {
        let s = &self.s;
        let (sequences, heads, group, sees) = (s.batch, s.heads, s.heads / s.kv_heads, self.sees);
        Products { sequences, heads, group, sees, ..Products::one(size, transposed, a, b, c) }
    }

    /// Location of an array [batch, heads, sequence, sequence].
    fn square(&self, at: Arg) -> Place {
        let n = self.s.sequence;
        Place { at, start: 0, row: n, head: n * n, batch: self.s.heads * n * n }
    }

    fn scores(&mut self, q: Place, k: Place, scores: Arg) -> Result<(), GpuError> {
        let (n, alpha) = (self.s.sequence, self.s.scale() as f32);
        let products = self.by_head([n, n, self.s.head()], true, [q, k, self.square(scores)]);
        K::product(&Products { alpha, mask: Masked::C, ..products }, &mut self.job)
    }

    fn sums(&mut self, weights: Arg, v: Place, out: Place) -> Result<(), GpuError> {
        let (n, from) = (self.s.sequence, self.square(weights));
        let products = self.by_head([n, self.s.head(), n], false, [from, v, out]);
        K::product(&Products { mask: Masked::A, ..products }, &mut self.job)
    }

    /// Launches the core, fused if there is a kernel for this head size; otherwise in three steps with all scores in
    /// memory.
    fn core(&mut self, [q, k, v, out]: [Place; 4]) -> Result<(), GpuError> {
        let s = self.s;
        let Some(padded) = K::HEADS.iter().find(|padded| s.head() <= **padded) else {
            let scores = self.scratch(s.batch * s.heads * s.sequence * s.sequence)?;
            self.scores(q, k, scores)?;
            K::softmax(self, scores, scores)?;
            return self.sums(scores, v, out);
        };
        K::fused(self, *padded, [q, k, v, out])
    }

    /// Launches everything from positions to the concatenated context of their heads, before the output projection.
    pub(super) fn context(&mut self, x: Arg, input: &dyn Fn(&str) -> Arg) -> Result<Arg, GpuError> {
        let s = self.s;
        let (qkv, context) = (self.scratch(s.positions() * s.projected())?, self.scratch(s.positions() * s.dimension)?);
        let sizes = [s.positions(), s.dimension, s.projected()];
        K::product(&self.linear([x, input("w_qkv"), qkv], Some(input("b_qkv")), sizes), &mut self.job)?;
        let layout = Layout::together(&s, s.projected());
        let part = |heads: usize| Place { start: heads * s.head(), ..place(qkv, layout) };
        let out = place(context, Layout::together(&s, s.dimension));
        self.core([part(0), part(s.heads), part(s.heads + s.kv_heads), out])?;
        Ok(context)
    }

    /// The output projection.
    pub(super) fn projected(&self, context: Arg, input: &dyn Fn(&str) -> Arg, y: Arg) -> Products {
        let (positions, d) = (self.s.positions(), self.s.dimension);
        self.linear([context, input("w_out"), y], Some(input("b_out")), [positions, d, d])
    }

    fn attention(&mut self, x: Arg, input: &dyn Fn(&str) -> Arg, y: Arg) -> Result<(), GpuError> {
        let context = self.context(x, input)?;
        K::product(&self.projected(context, input, y), &mut self.job)
    }
}

/// Builds the job of a task from these kernels.
fn job<K: Kernels>(task: Task, case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Job, PrepareError> {
    if Precision::of(case) == Precision::Bf16 {
        return K::narrow(case, inputs, gpu);
    }
    let s = Shape::of(case)?;
    s.check_one_length()?;
    arrays::check(task, &s, inputs)?;
    let lengths = arrays::lengths(&s, inputs).unwrap_or_default();
    let mut steps = Steps::<K>::new(gpu, s, lengths)?;
    let mut held = Vec::new();
    for array in arrays::inputs(task, &s) {
        held.push((array.name, steps.job.upload::<f32>(inputs.f32(array.name)?)?));
    }
    let input = |name: &str| held.iter().find(|(known, _)| *known == name).map_or(Arg::At(0), |(_, at)| *at);
    let output = arrays::output(task, &s);
    let y = steps.job.output(output.name, Dtype::F32, &output.dims, 0)?;
    let (queries, keys) = (Layout::queries(&s), Layout::keys(&s));
    let [q, k, v] = [("q", queries), ("k", keys), ("v", keys)].map(|(name, layout)| place(input(name), layout));
    match task {
        Task::Qkv => {
            let sizes = [s.positions(), s.dimension, s.projected()];
            let products = steps.linear([input("x"), input("w_qkv"), y], Some(input("b_qkv")), sizes);
            K::product(&products, &mut steps.job)?;
        }
        Task::Output => K::product(&steps.projected(input("context"), &input, y), &mut steps.job)?,
        Task::Scores => steps.scores(q, k, y)?,
        Task::Softmax => K::softmax(&mut steps, input("scores"), y)?,
        Task::WeightedSum => steps.sums(input("weights"), v, place(y, queries))?,
        Task::Core => steps.core([q, k, v, place(y, queries)])?,
        Task::Whole => steps.attention(input("x"), &input, y)?,
        Task::Layer => K::layer(&mut steps, &input, y)?,
    }
    Ok(steps.job)
}

/// One implementation of a task. `graph` replays its launches as one graph.
fn row<K: Kernels>(task: Task, name: &str, about: &str, graph: bool) -> Implementation {
    let prepared =
        move |case: &Case, inputs: &Tensors, device: &dyn Device| -> Result<Box<dyn Prepared>, PrepareError> {
            let job = job::<K>(task, case, inputs, gpu(device)?)?;
            Ok(if graph && Precision::of(case) == Precision::F32 { job.replayed()?.boxed() } else { job.boxed() })
        };
    limited(on_cuda(Implementation::cpu(task.name(), name, about, prepared)), task)
}

/// Declares the range of the GPU kernels. They subtract a row's largest score after scaling to base 2, so they round at the
/// magnitude of the score, and huge scores exceed f32.
pub(super) fn limited(row: Implementation, task: Task) -> Implementation {
    if !matches!(task, Task::Softmax | Task::Core) {
        return row;
    }
    let sets = ["offset 100", "offset 1e4", "offset 1e6", "offset -1e6", "growing scores", "huge"];
    sets.into_iter().fold(row, |row, set| row.except(set, "scores of magnitudes up to about 30"))
}

/// The GPU implementations of a task.
pub(super) fn implementations(task: Task) -> Vec<Implementation> {
    use super::{cublas, cuda, wgpu};
    let mut rows = vec![row::<cuda::Cuda>(task, "cuda", cuda::about(task), false)];
    // Tasks with several launches also run as one graph.
    if matches!(task, Task::Whole | Task::Layer) {
        rows.push(row::<cuda::Cuda>(task, "cuda-graph", "the same, its launches replayed as one graph", true));
    }
    if let Some(about) = cublas::about(task) {
        rows.push(row::<cublas::Library>(task, "cublas", about, false));
    }
    rows.push(ellwand_gpu::on_wgpu(row::<wgpu::Wgpu>(task, "wgpu", wgpu::about(task), false)));
    rows
}

#[cfg(test)]
mod tests {
    use ellwand_core::{Case, PrepareError, Registry, Tensors};

    use super::super::tests::{case, registry};
    use super::Task;
    use ellwand_gpu_lab::{judge, judge_cublas, test_devices};

    const MASKS: [&str; 3] = ["none", "causal", "padding"];

    /// Batch, sequence, dimension, heads, kv-heads: one value; partial tiles; grouped heads; heads of 3 values; more
    /// than one tile of keys; all multiples of 16.
    const SIZES: [[i64; 5]; 6] = [
        [1, 1, 1, 1, 0],
        [2, 17, 64, 2, 0],
        [1, 65, 32, 4, 2],
        [2, 7, 24, 8, 4],
        [1, 130, 64, 1, 0],
        [2, 80, 64, 2, 1],
    ];
    /// Heads of 80 and 128 values; of 3, which are not aligned to 16 bytes; of 100, which is not a multiple of 16.
    const HEADS: [[i64; 5]; 4] = [[1, 66, 80, 1, 1], [1, 67, 256, 2, 1], [1, 70, 9, 3, 1], [1, 66, 100, 1, 1]];
    const COMPONENTS: [Task; 5] = [Task::Qkv, Task::Scores, Task::Softmax, Task::WeightedSum, Task::Output];

    type Judge = fn(&Registry, &Case, &Tensors);
    const CUDA: Judge = |registry, case, inputs| drop(judge(registry, case, inputs));

    fn judged(judge: Judge, tasks: &[Task], sizes: &[[i64; 5]], masks: &[&str]) {
        let registry = registry();
        for (task, sizes) in tasks.iter().flat_map(|task| sizes.iter().map(move |sizes| (task, *sizes))) {
            for mask in masks {
                let case = case(&registry, task.name(), sizes, mask);
                let inputs = registry.find(task.name()).unwrap().inputs(&case, 9).unwrap();
                judge(&registry, &case, &inputs);
            }
        }
    }

    /// NaN in a key, infinity in a query.
    fn judged_spoilt(judge: Judge, key: usize, masks: &[&str]) {
        let registry = registry();
        for mask in masks {
            let case = case(&registry, Task::Core.name(), [2, 70, 64, 2, 1], mask);
            let mut inputs = registry.find(Task::Core.name()).unwrap().inputs(&case, 3).unwrap();
            for (name, at, value) in [("k", key * 32 + 5, f32::NAN), ("q", 3 * 32 + 1, f32::INFINITY)] {
                let mut array = inputs.take(name).unwrap();
                array.f32_mut().unwrap()[at] = value;
                inputs.insert(name, array);
            }
            judge(&registry, &case, &inputs);
        }
    }

    #[test]
    fn cuda_components_are_judged_right_with_every_mask() {
        judged(CUDA, &COMPONENTS, &SIZES[..4], &MASKS);
        // On three multiprocessors, tiles of 64 x 64 and 128 x 128.
        judged(CUDA, &[Task::Scores, Task::WeightedSum], &[[1, 192, 64, 1, 1], [1, 240, 336, 3, 1]], &MASKS);
    }

    #[test]
    fn cuda_softmax_is_judged_right_for_rows_that_no_warp_holds() {
        judged(CUDA, &[Task::Softmax], &[[1, 1028, 8, 1, 1], [1, 517, 8, 1, 1]], &MASKS);
    }

    #[test]
    fn cuda_fused_core_is_judged_right_for_heads_of_every_kernel() {
        judged(CUDA, &[Task::Core], &SIZES[..5], &MASKS);
        judged(CUDA, &[Task::Core], &HEADS[..3], &MASKS);
    }

    #[test]
    fn cuda_attention_and_the_layer_around_it_are_judged_right() {
        judged(CUDA, &[Task::Whole], &SIZES[..4], &MASKS);
        judged(CUDA, &[Task::Layer], &SIZES[..3], &MASKS);
    }

    #[test]
    fn cuda_takes_three_steps_for_heads_beyond_the_fused_kernels() {
        judged(CUDA, &[Task::Core], &[[1, 20, 160, 1, 1]], &MASKS);
        judged(CUDA, &[Task::Whole], &[[1, 9, 264, 2, 1]], &MASKS);
    }

    #[test]
    fn cuda_puts_what_is_not_finite_where_the_reference_has_it() {
        judged_spoilt(CUDA, 66, &["causal"]);
    }

    #[test]
    fn cublas_gets_the_products_of_attention_right_and_refuses_masks() {
        let tasks = [Task::Qkv, Task::Scores, Task::WeightedSum, Task::Output];
        judged(judge_cublas, &tasks, &SIZES[..4], &["none"]);
        let registry = registry();
        let masked = case(&registry, Task::Scores.name(), [1, 4, 4, 1, 0], "causal");
        let inputs = registry.find("attention-scores").unwrap().inputs(&masked, 9).unwrap();
        let row = registry.implementations("attention-scores").into_iter().find(|row| row.name == "cublas").unwrap();
        for (_, device) in test_devices() {
            let refused = (row.prepare)(&masked, &inputs, device.as_ref()).err();
            assert!(matches!(refused, Some(PrepareError::Unsupported(why)) if why.contains("mask=none")));
        }
    }
}
