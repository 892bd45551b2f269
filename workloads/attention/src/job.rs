//! Prepared CPU implementations: buffers, poison, outputs, and the steps of each.
#![allow(unsafe_code)]

use ellwand_core::{
    Better, Case, DeviceError, Dtype, Implementation, InputError, Poison, PrepareError, Prepared, Reading, Tensor,
    Tensors,
};
use ellwand_profile::span;

use super::fused::{self, Core, Tiling};
use super::ops::Ops;
use super::shape::{Layout, Shape};
use super::way::{Way, ways};
use super::{Task, arrays, bf16, naive, reference::reference};
use ellwand_core::tensor::Buffer;
use ellwand_gemm::{Scratch, zeros};
use ellwand_simd::isa::Isa;
use ellwand_simd::pool;
use ellwand_simd::precision::Precision;

/// Evaluates an expression in a span.
macro_rules! within {
    ($name:literal, $body:expr) => {{
        let _span = span!($name);
        $body
    }};
}

/// Queries that the memory-efficient form takes from projection to output at a time.
const ROWS: usize = 192;

/// One task at one case, with its buffers.
pub(super) struct Job {
    task: Task,
    way: &'static Way,
    shape: Shape,
    inputs: Tensors,
    lengths: Vec<i64>,
    output: Tensor,
    /// Working memory; empty if the method needs none.
    buffers: Buffers,
    ops: Ops,
    tiles: Scratch,
    done: Result<(), InputError>,
    /// Maximum number of threads that the last run can have used.
    threads: usize,
}

/// Intermediate arrays of a method.
struct Buffers {
    qkv: Buffer<f32>,
    context: Buffer<f32>,
    scores: Buffer<f32>,
    normed: Buffer<f32>,
    hidden: Buffer<f32>,
}

impl Buffers {
    fn new(task: Task, way: &Way, s: &Shape) -> Self {
        let (positions, d) = (s.positions(), s.dimension);
        let when = |yes: bool, len: usize| zeros(if yes { len } else { 0 });
        let chain = matches!(task, Task::Whole | Task::Layer) && !way.is_reference();
        let small = way.is_streamed();
        let materialised = way.keeps_scores() && matches!(task, Task::Core | Task::Whole);
        let rows = ROWS.min(s.sequence);
        // The memory-efficient form holds the keys and values of one sequence, and queries of a few rows.
        let keys = 2 * s.kv_heads * s.head() * s.sequence;
        let layer = task == Task::Layer && !way.is_reference();
        Self {
            qkv: when(chain, if small { keys + rows * d } else { positions * s.projected() }),
            context: when(chain, if small { rows } else { positions } * d),
            scores: when(materialised, s.batch * s.heads * s.sequence * s.keys),
            normed: when(layer, positions * d),
            hidden: when(layer, 4 * positions * d),
        }
    }

    fn bytes(&self) -> u64 {
        let all = [&self.qkv, &self.context, &self.scores, &self.normed, &self.hidden];
        all.iter().map(|buffer| 4 * buffer.len() as u64).sum()
    }
}

/// Estimated working memory of a method besides inputs and output, in bytes; the job's own reading reports the actual
/// size.
pub(super) fn extra(task: Task, way: &Way, s: &Shape) -> u64 {
    // In f64, which no case overflows; the conversion to u64 saturates.
    let (d, n) = (s.dimension as f64, s.positions() as f64);
    let square = 4.0 * n * s.heads as f64 * s.keys as f64;
    let chain = 4.0 * n * (s.projected() as f64 + d);
    let core = match way.tiling() {
        Some(tiling) => 4.0 * tiling.len(s) as f64 * way.threads() as f64,
        None if way.keeps_scores() => square,
        None => 0.0,
    };
    let extra = match task {
        Task::Core => core,
        Task::Whole => core + chain,
        Task::Layer => core + chain + 20.0 * n * d,
        _ => 0.0,
    };
    extra as u64
}

impl Job {
    pub(super) fn new(task: Task, way: &'static Way, case: &Case, inputs: &Tensors) -> Result<Self, InputError> {
        let s = Shape::of(case)?;
        arrays::check(task, &s, inputs)?;
        let lengths = arrays::lengths(&s, inputs).unwrap_or_default().to_vec();
        let array = arrays::output(task, &s);
        let fused = matches!(task, Task::Core | Task::Whole | Task::Layer);
        let tiles = match way.tiling() {
            Some(tiling) if fused => fused::scratch(way.threads(), &s, tiling),
            _ => Scratch::new(0, 0),
        };
        Ok(Self {
            task,
            way,
            shape: s,
            inputs: inputs.clone(),
            lengths,
            output: Tensor::zeros(Dtype::F32, &array.dims)?,
            buffers: Buffers::new(task, way, &s),
            ops: Ops::new(Isa::of(case)?, way.parallel, &way.products(task, &s)),
            tiles,
            done: Ok(()),
            threads: pool::threads(),
        })
    }

    /// An input, for callers that compute it from something else.
    pub(super) fn input(&mut self, name: &str) -> Result<&mut [f32], InputError> {
        self.inputs.get(name)?;
        self.inputs.find_mut(name).map_or(Ok(&mut []), |tensor| tensor.f32_mut())
    }

    /// The output of the last run.
    pub(super) fn result(&self) -> Result<&[f32], InputError> {
        self.done.clone()?;
        self.output.f32()
    }

    fn compute(&mut self) -> Result<(), InputError> {
        let Self { task, way, shape: s, inputs, lengths, output, buffers, ops, tiles, .. } = self;
        if way.is_reference() {
            let mut made = reference(*task, s, inputs)?;
            if let Some(made) = made.take(arrays::output(*task, s).name) {
                *output = made;
            }
            return Ok(());
        }
        let get = |name: &str| inputs.f32(name);
        let y = output.f32_mut()?;
        let plain = way.is_plain();
        let linear = |x: &[f32], w: &[f32], b: &[f32], y: &mut [f32]| {
            if plain { naive::linear(x, w, b, y) } else { ops.linear(x, w, b, y) }
        };
        let (queries, keys) = (Layout::queries(s), Layout::keys(s));
        let nothing: (*const f32, Layout) = (std::ptr::null(), queries);
        let core = |q, k, v, out| Core { shape: *s, lengths, q, k, v, out };
        match task {
            Task::Qkv => linear(get("x")?, get("w_qkv")?, get("b_qkv")?, y),
            Task::Output => linear(get("context")?, get("w_out")?, get("b_out")?, y),
            Task::Scores => {
                let (q, k) = (get("q")?, get("k")?);
                if plain {
                    naive::scores(s, lengths, (q, queries), (k, keys), y);
                } else {
                    let core =
                        core((q.as_ptr(), queries), (k.as_ptr(), keys), nothing, (std::ptr::null_mut(), queries));
                    // SAFETY: `arrays::check` verified the shapes of q and k.
                    unsafe { ops.scores(&core, y) };
                    ops.mask(s, lengths, y);
                }
            }
            Task::Softmax => {
                if plain {
                    y.copy_from_slice(get("scores")?);
                    naive::softmax(s, lengths, y);
                } else {
                    ops.softmax(s, lengths, Some(get("scores")?), y);
                }
            }
            Task::WeightedSum => {
                let (weights, v) = (get("weights")?, get("v")?);
                if plain {
                    naive::sums(s, lengths, weights, (v, keys), (y, queries));
                } else {
                    let core = core(nothing, nothing, (v.as_ptr(), keys), (y.as_mut_ptr(), queries));
                    // SAFETY: `arrays::check` verified the shape of v; y has the shape of the output.
                    unsafe { ops.sums(&core, weights) };
                }
            }
            Task::Core => {
                let (q, k, v) = (get("q")?, get("k")?, get("v")?);
                let parts = Parts { s, lengths, q: (q, queries), k: (k, keys), v: (v, keys) };
                attend(way, &parts, (y, queries), &mut buffers.scores, ops, tiles);
            }
            Task::Whole if way.is_streamed() => small(s, lengths, inputs, y, buffers, ops, tiles)?,
            Task::Whole => {
                within!("qkv", linear(get("x")?, get("w_qkv")?, get("b_qkv")?, &mut buffers.qkv));
                between(way, s, lengths, buffers, ops, tiles);
                let _span = span!("output");
                linear(&buffers.context, get("w_out")?, get("b_out")?, y);
            }
            Task::Layer => layer(way, s, lengths, inputs, y, buffers, ops, tiles)?,
        }
        Ok(())
    }
}

/// Slices of queries, keys and values with the layouts of their rows.
struct Parts<'a> {
    s: &'a Shape,
    lengths: &'a [i64],
    q: (&'a [f32], Layout),
    k: (&'a [f32], Layout),
    v: (&'a [f32], Layout),
}

/// Computes the core: scores, softmax and sums, separately or fused.
fn attend(way: &Way, parts: &Parts<'_>, out: (&mut [f32], Layout), scores: &mut [f32], ops: &Ops, tiles: &Scratch) {
    let Parts { s, lengths, q, k, v } = *parts;
    if way.is_plain() {
        within!("scores", naive::scores(s, lengths, q, k, scores));
        within!("softmax", naive::softmax(s, lengths, scores));
        let _span = span!("weighted-sum");
        return naive::sums(s, lengths, scores, v, out);
    }
    let at = |part: (&[f32], Layout)| (part.0.as_ptr(), part.1);
    let core = Core { shape: *s, lengths, q: at(q), k: at(k), v: at(v), out: (out.0.as_mut_ptr(), out.1) };
    // SAFETY: callers pass arrays with checked shapes, or buffers made for this shape, with matching layouts; only this
    // call borrows the output.
    unsafe {
        match way.tiling() {
            Some(tiling) if way.parallel => fused_span(|| fused::parallel(ops.isa, &core, tiling, tiles)),
            Some(tiling) => fused_span(|| fused::single(ops.isa, &core, tiling, tiles)),
            None => {
                within!("scores", ops.scores(&core, scores));
                within!("softmax", ops.softmax(s, lengths, None, scores));
                let _span = span!("weighted-sum");
                ops.sums(&core, scores);
            }
        }
    }
}

fn fused_span(body: impl FnOnce()) {
    let _span = span!("scores, softmax, weighted sum");
    body();
}

/// Computes the context from the projected positions.
fn between(way: &Way, s: &Shape, lengths: &[i64], buffers: &mut Buffers, ops: &Ops, tiles: &Scratch) {
    let layout = Layout::together(s, s.projected());
    let qkv = &buffers.qkv[..];
    let part = |heads: usize| (&qkv[heads * s.head()..], layout);
    let parts = Parts { s, lengths, q: part(0), k: part(s.heads), v: part(s.heads + s.kv_heads) };
    let out = (&mut buffers.context[..], Layout::together(s, s.dimension));
    attend(way, &parts, out, &mut buffers.scores, ops, tiles);
}

/// The whole task with the least memory: keys and values of one sequence, then a few queries at a time from projection
/// to output.
fn small(
    s: &Shape,
    lengths: &[i64],
    inputs: &Tensors,
    y: &mut [f32],
    buffers: &mut Buffers,
    ops: &Ops,
    tiles: &Scratch,
) -> Result<(), InputError> {
    let (x, w, b) = (inputs.f32("x")?, inputs.f32("w_qkv")?, inputs.f32("b_qkv")?);
    let (w_out, b_out) = (inputs.f32("w_out")?, inputs.f32("b_out")?);
    let (n, d, head) = (s.sequence, s.dimension, s.head());
    let width = 2 * s.kv_heads * head;
    let (kv, q) = buffers.qkv.split_at_mut(n * width);
    let mut work = tiles.borrow();
    for sequence in 0..s.batch {
        let x = &x[sequence * n * d..][..n * d];
        within!("qkv", ops.linear(x, &w[d * d..], &b[d..], kv));
        for first in (0..n).step_by(ROWS) {
            let rows = ROWS.min(n - first);
            within!("qkv", ops.linear(&x[first * d..][..rows * d], &w[..d * d], &b[..d], q));
            // Row `first` of the queries and of the context is at the start of its buffer.
            let back = |width: usize| Layout { batch: 0, head, row: width };
            let keys = back(width);
            let core = Core {
                shape: *s,
                lengths,
                q: (q.as_ptr().wrapping_sub(first * d), back(d)),
                k: (kv.as_ptr(), keys),
                v: (kv.as_ptr().wrapping_add(s.kv_heads * head), keys),
                out: (buffers.context.as_mut_ptr().wrapping_sub(first * d), back(d)),
            };
            for kv_head in 0..s.kv_heads {
                let _span = span!("scores, softmax, weighted sum");
                // SAFETY: of q and out, only rows first..first + rows are used, which the buffers hold; k and v hold
                // the whole sequence.
                unsafe {
                    fused::rows(ops.isa, &core, Tiling::SMALL, sequence, kv_head, first..first + rows, &mut work)
                };
            }
            let _span = span!("output");
            let to = &mut y[(sequence * n + first) * d..][..rows * d];
            ops.linear(&buffers.context[..rows * d], w_out, b_out, to);
        }
    }
    Ok(())
}

/// A pre-norm transformer layer: `h = x + attention(norm(x))`, `y = h + mlp(norm(h))`.
#[allow(clippy::too_many_arguments, reason = "the parts of a job, borrowed one by one")]
fn layer(
    way: &Way,
    s: &Shape,
    lengths: &[i64],
    inputs: &Tensors,
    y: &mut [f32],
    buffers: &mut Buffers,
    ops: &Ops,
    tiles: &Scratch,
) -> Result<(), InputError> {
    let get = |name: &str| inputs.f32(name);
    let x = get("x")?;
    within!("norm", ops.layer_norm(x, get("gamma_1")?, get("beta_1")?, &mut buffers.normed));
    within!("qkv", ops.linear(&buffers.normed, get("w_qkv")?, get("b_qkv")?, &mut buffers.qkv));
    between(way, s, lengths, buffers, ops, tiles);
    within!("output", ops.linear(&buffers.context, get("w_out")?, get("b_out")?, y));
    within!("residual", ops.add(x, y));
    within!("norm", ops.layer_norm(y, get("gamma_2")?, get("beta_2")?, &mut buffers.normed));
    within!("up", ops.linear(&buffers.normed, get("w_up")?, get("b_up")?, &mut buffers.hidden));
    within!("gelu", ops.gelu(&mut buffers.hidden));
    within!("down", ops.linear(&buffers.hidden, get("w_down")?, get("b_down")?, &mut buffers.context));
    let _span = span!("residual");
    ops.add(&buffers.context, y);
    Ok(())
}

impl Prepared for Job {
    fn run(&mut self) {
        (self.done, self.threads) = pool::most_threads(|| self.compute());
    }
    fn poison(&mut self, poison: Poison) {
        self.done = Ok(());
        poison.fill_tensor(&mut self.output);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        self.done.clone()?;
        Ok(Tensors::new().with(arrays::output(self.task, &self.shape).name, self.output.clone()))
    }
    fn threads(&self) -> Option<usize> {
        self.way.parallel.then_some(self.threads)
    }
    fn what_ran(&self) -> String {
        self.way.what_ran(self.ops.isa.name(), self.threads)
    }
    fn readings(&mut self) -> Vec<Reading> {
        if self.way.is_reference() {
            return Vec::new();
        }
        extra_memory(self.buffers.bytes() + self.ops.scratch.bytes() + self.tiles.bytes())
    }
}

/// The reading of the memory that an implementation holds in addition to its inputs and outputs.
pub(super) fn extra_memory(bytes: u64) -> Vec<Reading> {
    let about = "working memory that the implementation holds in addition to its inputs and outputs";
    vec![Reading::derived(Reading::EXTRA_MEMORY, "extra memory", "B", Better::Lower, bytes as f64, about)]
}

/// Builds the CPU implementations of a task.
pub(super) fn implementations(task: Task) -> Vec<Implementation> {
    let row = |way: &'static Way| {
        let row = Implementation::cpu(task.name(), way.name, way.about, move |case, inputs, _| {
            if Precision::of(case) == Precision::Bf16 {
                return bf16::prepared(way, case, inputs);
            }
            Ok::<Box<dyn Prepared>, PrepareError>(Box::new(Job::new(task, way, case, inputs)?))
        });
        if way.parallel { row.many_threads() } else { row }
    };
    ways(task).iter().map(row).collect()
}
