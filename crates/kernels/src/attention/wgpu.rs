//! Attention in WGSL: components and projections as products (`product.wgsl`), softmax and the fused core
//! (`attention.wgsl`), and the norms of the layer (`layers.wgsl`).

use ellwand_core::{Case, Device, Dtype, Implementation, PrepareError, Prepared, Tensors};

use super::shape::{Layout, Mask, Precision, Shape};
use super::{EPSILON, Task, arrays};
use crate::device::{self, Arg, Buffer, Gpu, Grid, Job, Source, gpu};
use crate::gemm::wgpu::{self as products, Products, Rows, Seen, word};
use crate::layers::WGSL as LAYERS;

/// The kernels.
pub(crate) static SOURCE: Source = Source {
    name: "attention.wgsl",
    text: concat!(include_str!("attention.wgsl"), include_str!("../device/portable.wgsl")),
    options: &[],
};

/// Values of a head that the fused kernel has room for, and queries of a group.
const MOST_HEAD: usize = 128;
const QUERIES: usize = 16;

/// A job on its way.
struct Making<'a> {
    gpu: &'a Gpu,
    job: Job,
    shape: Shape,
    inputs: &'a Tensors,
    /// For bindings that are not looked at.
    nothing: Arg,
    /// Lengths of the sequences, where the mask asks for them.
    lengths: Arg,
}

fn rows(at: Arg, start: usize, layout: Layout) -> Rows {
    Rows { at, start, batch: layout.batch, head: layout.head, row: layout.row }
}

impl Making<'_> {
    fn input(&mut self, name: &str) -> Result<Arg, PrepareError> {
        Ok(self.job.hold(Buffer::of_f32(self.gpu, self.inputs.f32(name)?)?))
    }

    fn scratch(&mut self, values: usize) -> Result<Arg, PrepareError> {
        Ok(self.job.hold(Buffer::new(self.gpu, 4 * values)?))
    }

    fn mask(&self) -> u32 {
        match self.shape.mask {
            Mask::None => 0,
            Mask::Causal => 1,
            Mask::Padding => 2,
        }
    }

    fn seen(&self) -> Seen {
        match self.shape.mask {
            Mask::None => Seen::All,
            Mask::Causal => Seen::Causal,
            Mask::Padding => Seen::Within(self.lengths),
        }
    }

    /// `y = x w^T + b` for every position, then perhaps GELU, then perhaps another array is added.
    fn linear(
        &mut self,
        [x, y]: [Arg; 2],
        [ins, outs]: [usize; 2],
        names: [&str; 2],
        gelu: bool,
        added: Option<Arg>,
    ) -> Result<(), PrepareError> {
        let (w, bias) = (self.input(names[0])?, self.input(names[1])?);
        let all = Products {
            shape: [self.shape.positions(), outs, ins],
            many: [1, 1],
            group: 1,
            a: Rows::matrix(x, ins),
            b: Rows::matrix(w, ins),
            transposed: true,
            c: Rows::matrix(y, outs),
            alpha: 1.0,
            bias: Some(bias),
            gelu,
            added,
            seen: Seen::All,
            of_a: false,
        };
        products::launch(&mut self.job, &all, self.nothing)
    }

    /// Products of every head: of queries and keys, or of weights and values.
    fn heads(&mut self, a: Rows, b: Rows, c: Rows, scores: bool) -> Result<(), PrepareError> {
        let s = self.shape;
        let all = Products {
            shape: if scores { [s.sequence, s.sequence, s.head()] } else { [s.sequence, s.head(), s.sequence] },
            many: [s.batch, s.heads],
            group: s.heads / s.kv_heads,
            a,
            b,
            transposed: scores,
            c,
            alpha: if scores { s.scale() as f32 } else { 1.0 },
            bias: None,
            gelu: false,
            added: None,
            seen: self.seen(),
            of_a: !scores,
        };
        products::launch(&mut self.job, &all, self.nothing)
    }

    /// What both kernels of `attention.wgsl` are told, with rows as they are laid out.
    fn told(&self, q: Rows, k: Rows, v: Rows, out: Rows) -> Result<Vec<Arg>, PrepareError> {
        let s = &self.shape;
        let sizes = [s.batch, s.heads, s.heads / s.kv_heads, s.sequence, s.head()];
        let mut args = sizes.into_iter().map(word).collect::<Result<Vec<Arg>, _>>()?;
        args.extend([Arg::U32(self.mask()), Arg::F32(s.scale() as f32)]);
        let offsets = [q.start, q.batch, q.head, q.row, k.start, v.start, k.batch, k.head, k.row];
        for value in offsets.into_iter().chain([out.batch, out.head, out.row]) {
            args.push(word(value)?);
        }
        Ok(args)
    }

    fn softmax(&mut self, scores: Arg, weights: Arg) -> Result<(), PrepareError> {
        let none = rows(self.nothing, 0, Layout { batch: 0, head: 0, row: 0 });
        let mut args = self.told(none, none, none, none)?;
        args.extend([scores, self.lengths, weights]);
        let groups = self.shape.positions() * self.shape.heads;
        Ok(self.job.launch(&SOURCE, "softmax", Grid::line(groups, 128), args)?)
    }

    fn core(&mut self, q: Rows, k: Rows, v: Rows, out: Rows) -> Result<(), PrepareError> {
        let s = self.shape;
        if s.head() > MOST_HEAD {
            let why = format!("a head has {} values, and the fused kernel takes at most {MOST_HEAD}", s.head());
            return Err(PrepareError::Unsupported(why));
        }
        let mut args = self.told(q, k, v, out)?;
        args.extend([q.at, k.at, v.at, self.lengths, out.at]);
        let groups = s.batch * s.heads * s.sequence.div_ceil(QUERIES);
        Ok(self.job.launch(&SOURCE, "fused", Grid::line(groups, 128), args)?)
    }

    /// From positions to the context of their heads side by side, as far as the output's projection.
    fn context(&mut self, x: Arg) -> Result<Arg, PrepareError> {
        let s = self.shape;
        let (qkv, context) = (self.scratch(s.positions() * s.projected())?, self.scratch(s.positions() * s.dimension)?);
        self.linear([x, qkv], [s.dimension, s.projected()], ["w_qkv", "b_qkv"], false, None)?;
        let layout = Layout::together(&s, s.projected());
        let part = |heads: usize| rows(qkv, heads * s.head(), layout);
        let out = rows(context, 0, Layout::together(&s, s.dimension));
        self.core(part(0), part(s.heads), part(s.heads + s.kv_heads), out)?;
        Ok(context)
    }

    fn norm(&mut self, x: Arg, names: [&str; 2]) -> Result<Arg, PrepareError> {
        let s = self.shape;
        let (gamma, beta) = (self.input(names[0])?, self.input(names[1])?);
        let y = self.scratch(s.positions() * s.dimension)?;
        let unused = self.scratch(1)?;
        let mut args = vec![word(s.positions())?, word(s.dimension)?, Arg::F32(EPSILON as f32), Arg::U32(0)];
        args.extend([x, self.nothing, gamma, beta, y, unused]);
        self.job.launch(&LAYERS, "layer_norm", Grid::line(s.positions(), 128), args)?;
        Ok(y)
    }
}

fn prepare(task: Task, case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    if Precision::of(case) == Precision::Bf16 {
        return Err(PrepareError::Unsupported("WGSL has no bf16: --precision f32".into()));
    }
    let gpu = gpu(device)?;
    let s = Shape::of(case)?;
    arrays::check(task, &s, inputs)?;
    let mut job = Job::new(gpu);
    let nothing = products::nothing(&mut job, gpu)?;
    let lengths: Vec<i32> = arrays::lengths(&s, inputs)
        .unwrap_or_default()
        .iter()
        .map(|length| i32::try_from(*length).unwrap_or(i32::MAX))
        .collect();
    let lengths = if lengths.is_empty() { nothing } else { job.hold(Buffer::of_i32(gpu, &lengths)?) };
    let array = arrays::output(task, &s);
    let y = job.output(array.name, Dtype::F32, &array.dims, 0)?;
    let mut m = Making { gpu, job, shape: s, inputs, nothing, lengths };
    let (queries, keys) = (Layout::apart(&s, s.heads), Layout::apart(&s, s.kv_heads));
    let (n, d) = (s.sequence, s.dimension);
    // [batch, heads, sequence, sequence]
    let square = |at: Arg| Rows { at, start: 0, batch: s.heads * n * n, head: n * n, row: n };
    match task {
        Task::Qkv => {
            let x = m.input("x")?;
            m.linear([x, y], [d, s.projected()], ["w_qkv", "b_qkv"], false, None)?;
        }
        Task::Output => {
            let x = m.input("context")?;
            m.linear([x, y], [d, d], ["w_out", "b_out"], false, None)?;
        }
        Task::Scores => {
            let (q, k) = (m.input("q")?, m.input("k")?);
            m.heads(rows(q, 0, queries), rows(k, 0, keys), square(y), true)?;
        }
        Task::Softmax => {
            let scores = m.input("scores")?;
            m.softmax(scores, y)?;
        }
        Task::WeightedSum => {
            let (weights, v) = (m.input("weights")?, m.input("v")?);
            m.heads(square(weights), rows(v, 0, keys), rows(y, 0, queries), false)?;
        }
        Task::Core => {
            let (q, k, v) = (m.input("q")?, m.input("k")?, m.input("v")?);
            m.core(rows(q, 0, queries), rows(k, 0, keys), rows(v, 0, keys), rows(y, 0, queries))?;
        }
        Task::Whole => {
            let x = m.input("x")?;
            let context = m.context(x)?;
            m.linear([context, y], [d, d], ["w_out", "b_out"], false, None)?;
        }
        Task::Layer => {
            let x = m.input("x")?;
            let (between, hidden) = (m.scratch(s.positions() * d)?, m.scratch(4 * s.positions() * d)?);
            let normed = m.norm(x, ["gamma_1", "beta_1"])?;
            let context = m.context(normed)?;
            m.linear([context, between], [d, d], ["w_out", "b_out"], false, Some(x))?;
            let normed = m.norm(between, ["gamma_2", "beta_2"])?;
            m.linear([normed, hidden], [d, 4 * d], ["w_up", "b_up"], true, None)?;
            m.linear([hidden, y], [4 * d, d], ["w_down", "b_down"], false, Some(between))?;
        }
    }
    Ok(m.job.boxed())
}

/// The row of a task.
pub(super) fn implementation(task: Task) -> Implementation {
    let about = match task {
        Task::Qkv | Task::Output | Task::Scores | Task::WeightedSum => "tiles of 64 x 64 a group, 4 x 4 a thread",
        Task::Softmax => "a group a row",
        Task::Core => "online softmax, 16 queries a group, scores never leave it; heads up to 128",
        Task::Whole | Task::Layer => "tiled products around the fused core; heads up to 128",
    };
    let prepared = move |case: &Case, inputs: &Tensors, device: &dyn Device| prepare(task, case, inputs, device);
    device::on_wgpu(Implementation::cpu(task.name(), "wgpu", about, prepared))
}
