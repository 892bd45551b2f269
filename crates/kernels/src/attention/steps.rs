//! Attention as a series of kernels on a GPU, whoever wrote them: products, the masked softmax, and the fused core.

use ellwand_core::{Case, Dtype, PrepareError, Tensors};

use super::shape::{Layout, Mask, Shape};
use super::{Task, arrays};
use crate::device::{Arg, Buffer, Gpu, GpuError, Job};
use crate::gemm::{Masked, Place, Products, Sees};

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

/// The kernels of one kind.
pub(super) trait Kernels: Sized {
    /// Heads of as many values, or fewer, that the fused kernel is compiled for.
    const HEADS: [usize; 3];

    fn product(products: &Products, job: &mut Job) -> Result<(), GpuError>;

    fn softmax(steps: &mut Steps<'_, Self>, scores: Arg, weights: Arg) -> Result<(), GpuError>;

    /// The core by the kernel for heads of up to `padded` values.
    fn fused(
        steps: &mut Steps<'_, Self>,
        padded: usize,
        arrays: [Arg; 3],
        layouts: [Layout; 3],
        out: Arg,
    ) -> Result<(), GpuError>;

    /// The whole layer around attention, for those that have the kernels.
    fn layer(steps: &mut Steps<'_, Self>, input: &dyn Fn(&str) -> Arg, y: Arg) -> Result<(), PrepareError>;
}

/// A job in the making.
pub(super) struct Steps<'a, K> {
    gpu: &'a Gpu,
    pub(super) job: Job,
    pub(super) s: Shape,
    pub(super) sees: Sees,
    kernels: std::marker::PhantomData<K>,
}

impl<K: Kernels> Steps<'_, K> {
    fn new<'a>(gpu: &'a Gpu, s: Shape, lengths: &[i64]) -> Result<Steps<'a, K>, GpuError> {
        let mut job = Job::new(gpu);
        let sees = match s.mask {
            Mask::None => Sees::All,
            Mask::Causal => Sees::Causal,
            Mask::Padding => {
                let lengths: Vec<u64> = lengths.iter().map(|length| length.unsigned_abs()).collect();
                Sees::Lengths(job.hold(Buffer::of_u64(gpu, &lengths)?))
            }
        };
        Ok(Steps { gpu, job, s, sees, kernels: std::marker::PhantomData })
    }

    pub(super) fn scratch(&mut self, values: usize) -> Result<Arg, GpuError> {
        Ok(self.job.hold(Buffer::new(self.gpu, 4 * values)?))
    }

    /// `y = x w^T + b` with rows that lie one after another.
    pub(super) fn linear(
        &mut self,
        x: Arg,
        [w, b]: [Arg; 2],
        y: Arg,
        [rows, ins, outs]: [usize; 3],
    ) -> Result<(), GpuError> {
        let [x, w, y] = [(x, ins), (w, ins), (y, outs)].map(|(at, row)| Place::one(at, row));
        K::product(&Products { bias: Some(b), ..Products::one([rows, outs, ins], true, x, w, y) }, &mut self.job)
    }

    /// A product for every head.
    fn by_head(&self, size: [usize; 3], transposed: bool, [a, b, c]: [Place; 3]) -> Products {
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
        let products = self.by_head([n, n, self.s.head()], true, [q, k, self.square(scores)]);
        K::product(&Products { alpha, mask: Masked::C, ..products }, &mut self.job)
    }

    fn sums(&mut self, weights: Arg, v: Place, out: Place) -> Result<(), GpuError> {
        let (n, from) = (self.s.sequence, self.square(weights));
        let products = self.by_head([n, self.s.head(), n], false, [from, v, out]);
        K::product(&Products { mask: Masked::A, ..products }, &mut self.job)
    }

    /// The core, fused where there is a kernel for heads of this size; otherwise its three steps with all scores in memory.
    fn core(&mut self, [q, k, v]: [Arg; 3], [queries, keys, to]: [Layout; 3], out: Arg) -> Result<(), GpuError> {
        let s = self.s;
        let Some(padded) = K::HEADS.into_iter().find(|padded| s.head() <= *padded) else {
            let scores = self.scratch(s.batch * s.heads * s.sequence * s.sequence)?;
            self.scores(place(q, queries), place(k, keys), scores)?;
            K::softmax(self, scores, scores)?;
            return self.sums(scores, place(v, keys), place(out, to));
        };
        K::fused(self, padded, [q, k, v], [queries, keys, to], out)
    }

    /// From positions to the context between the projections.
    fn between(&mut self, qkv: Arg, context: Arg) -> Result<(), GpuError> {
        let s = self.s;
        let layout = Layout::together(&s, s.projected());
        let part = |heads: usize| further(qkv, heads * s.head());
        let parts = [part(0), part(s.heads), part(s.heads + s.kv_heads)];
        self.core(parts, [layout, layout, Layout::together(&s, s.dimension)], context)
    }

    pub(super) fn attention(&mut self, x: Arg, input: &dyn Fn(&str) -> Arg, y: Arg) -> Result<(), GpuError> {
        let (positions, d, width) = (self.s.positions(), self.s.dimension, self.s.projected());
        let qkv = self.scratch(positions * width)?;
        let context = self.scratch(positions * d)?;
        self.linear(x, [input("w_qkv"), input("b_qkv")], qkv, [positions, d, width])?;
        self.between(qkv, context)?;
        self.linear(context, [input("w_out"), input("b_out")], y, [positions, d, d])
    }
}

/// The task as a job of these kernels.
pub(super) fn job<K: Kernels>(task: Task, case: &Case, inputs: &Tensors, gpu: &Gpu) -> Result<Job, PrepareError> {
    let s = Shape::of(case)?;
    arrays::check(task, &s, inputs)?;
    let lengths = arrays::lengths(&s, inputs).unwrap_or_default();
    let mut steps = Steps::<K>::new(gpu, s, lengths)?;
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
        Task::Softmax => K::softmax(&mut steps, input("scores"), y)?,
        Task::WeightedSum => steps.sums(input("weights"), place(v, keys), place(y, queries))?,
        Task::Core => steps.core([q, k, v], [queries, keys, queries], y)?,
        Task::Whole => steps.attention(input("x"), &input, y)?,
        Task::Layer => K::layer(&mut steps, &input, y)?,
    }
    Ok(steps.job)
}
