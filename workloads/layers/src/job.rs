//! Prepared implementations: arrays under the allocation policy of the case, steps, pieces, threads.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ellwand_core::{
    Better, Case, DeviceError, Implementation, InputError, Poison, PrepareError, Prepared, Reading, Tensor, Tensors,
};

use super::half::Element;
use super::input::Input;
use super::labels;
use super::op::{Op, Step};
use super::piece::{Piece, Plan, Way};
use super::shape::{Allocation, Reduction, Shape, Stores};
use ellwand_simd::buffer::{Buffer, Shared};
use ellwand_simd::isa::Isa;
use ellwand_simd::precision::Precision;
use ellwand_simd::{pool, stores};

/// Elements per piece: 256 KiB, little compared with a scheduler slice, much compared with the cost of distributing a
/// piece.
const PIECE: usize = 1 << 16;

/// Size of a cache line in bytes, which a streaming store should fill.
pub(super) const LINE: usize = 64;

/// A method of computing an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Method {
    pub(super) way: Way,
    pub(super) parallel: bool,
    /// True to compute a fused pair as two passes with an array in between.
    pub(super) unfused: bool,
}

impl Method {
    /// Calls `work(part)` for `0..parts`, on all threads if the method is parallel.
    pub(super) fn each(self, parts: usize, work: impl Fn(usize) + Sync) {
        match self.parallel {
            true => pool::for_each_chunk(parts, work),
            false => (0..parts).for_each(work),
        }
    }
}

/// The CPU implementations of an operation.
pub(super) fn implementations(op: Op) -> Vec<Implementation> {
    by_methods(op.name(), op.unfused().is_some(), move |method, case, inputs| {
        Ok(match Shape::of(case)?.precision {
            Precision::F32 => Box::new(Job::<f32>::new(op, method, case, inputs)?),
            Precision::Bf16 => Box::new(Job::<u16>::new(op, method, case, inputs)?),
        })
    })
}

/// The implementations of a workload, one per method; `fused` if there are also unfused ones.
pub(super) fn by_methods(
    workload: &str,
    fused: bool,
    prepare: impl Fn(Method, &Case, &Tensors) -> Result<Box<dyn Prepared>, PrepareError> + Copy + Send + Sync + 'static,
) -> Vec<Implementation> {
    let row = |name: &str, about: &str, parallel: bool, unfused: bool, way: fn(Isa) -> Way| {
        let row = Implementation::cpu(workload, name, about, move |case, inputs, _| {
            prepare(Method { way: way(Isa::of(case)?), parallel, unfused }, case, inputs)
        });
        if parallel { row.many_threads() } else { row }
    };
    let vector = Way::Vector;
    let mut all = vec![
        row("reference", "the definition in f64 on one thread", false, false, |_| Way::Reference),
        row("scalar", "plain f32 loops on one thread", false, false, |_| Way::Scalar),
        row("simd", "vector lanes on one thread: AVX-512, AVX2 or the baseline", false, false, vector),
        row("parallel", "the vector implementation on all threads", true, false, vector),
    ];
    if fused {
        all.push(row("unfused", "vector lanes, two passes with an array between, one thread", false, true, vector));
        all.push(row("unfused-parallel", "two passes with an array between, all threads", true, true, vector));
    }
    all
}

/// Lengths of the outputs y and sum, in values.
fn output_lengths(op: Op, shape: &Shape) -> [usize; 2] {
    let y = match (op, shape.reduction) {
        (op, Reduction::Mean | Reduction::Sum) if op.is_loss() => 0,
        (op, Reduction::None) if op.is_cross_entropy() => shape.rows(),
        _ => shape.elements(),
    };
    [y, if op == Op::ResidualLayerNorm { y } else { 0 }]
}

/// One operation at one case, with its arrays: f32, or u16 holding bf16.
pub(super) struct Job<T: Element = f32> {
    op: Op,
    method: Method,
    shape: Shape,
    /// The original extents of x.
    extents: Vec<usize>,
    x: Input<T>,
    second: Input<T>,
    vectors: [Input; 2],
    labels: Vec<i64>,
    pub(super) y: Buffer<T>,
    sum: Buffer<T>,
    /// Result of the first pass of an unfused pair.
    between: Buffer<T>,
    pieces: usize,
    /// Sum of the losses of each piece, as the bits of an f64; empty if the operation is not a loss.
    partial: Vec<AtomicU64>,
    loss: f32,
    stream: bool,
    stores: String,
    /// True if the outputs were overwritten since the last run. The next run then writes to them: newly allocated memory could
    /// hold the answer of the run before.
    renewed: bool,
}

impl<T: Element> Job<T> {
    /// Allocates the arrays of a case under its allocation policy.
    pub(super) fn new(op: Op, method: Method, case: &Case, inputs: &Tensors) -> Result<Self, PrepareError> {
        let (op, shape) = (op.of(case), Shape::of(case)?);
        let x = inputs.get("x")?;
        if x.len() != shape.elements() {
            return Err(InputError::new("x", format!("its shape is {:?}", x.shape()), "the shape of the case").into());
        }
        let pages = shape.allocation.pages();
        let second = op.second().map(|(name, _)| Input::of(inputs.get(name)?, name, pages)).transpose()?;
        let vector = |i: usize| {
            let vector = op.vectors().get(i).map(|(name, _, _)| Input::of(inputs.get(name)?, name, pages));
            vector.transpose().map(Option::unwrap_or_default)
        };
        let [y, sum] = output_lengths(op, &shape);
        let between = if method.unfused && op != Op::ResidualLayerNorm { shape.elements() } else { 0 };
        let (stream, stores) = choose_stores(op, method, &shape);
        let pieces = shape.rows().div_ceil(rows_of_a_piece(&shape));
        Ok(Self {
            op,
            method,
            extents: x.shape().to_vec(),
            x: Input::of(x, "x", pages)?,
            second: second.unwrap_or_default(),
            vectors: [vector(0)?, vector(1)?],
            labels: if op.has_labels() { labels::of(case, inputs)? } else { Vec::new() },
            y: Buffer::filled(y, T::default(), pages),
            sum: Buffer::filled(sum, T::default(), pages),
            between: Buffer::filled(between, T::default(), pages),
            pieces,
            partial: (0..if op.is_loss() { pieces } else { 0 }).map(|_| AtomicU64::new(0)).collect(),
            loss: 0.0,
            shape,
            stream,
            stores,
            renewed: false,
        })
    }

    /// Allocates the outputs again, if each run does.
    fn renew(&mut self) {
        if self.shape.allocation == Allocation::Fresh {
            for output in [&mut self.y, &mut self.sum, &mut self.between] {
                // SAFETY: a run writes every value of its outputs before it reads any.
                unsafe { output.renew(self.shape.allocation.pages()) };
            }
        }
    }

    /// Computes the operation once.
    pub(super) fn compute(&mut self) {
        if !std::mem::take(&mut self.renewed) {
            self.renew();
        }
        // Moved out while the threads write to them, and moved back afterwards.
        let [mut y, mut sum, mut between] = [&mut self.y, &mut self.sum, &mut self.between].map(std::mem::take);
        match self.op.unfused().filter(|_| self.method.unfused) {
            None => self.pass(Step::Whole(self.op), &self.x, &mut y, &mut sum),
            Some([first, last]) => {
                // The residual sum is a separate output.
                let between = if self.op == Op::ResidualLayerNorm { &mut sum } else { &mut between };
                self.pass(first, &self.x, between, &mut []);
                self.pass(last, between, &mut y, &mut []);
            }
        }
        [self.y, self.sum, self.between] = [y, sum, between];
        let total: f64 = self.partial.iter().map(|bits| f64::from_bits(bits.load(Relaxed))).sum();
        let count = match self.op {
            Op::CrossEntropyLoss => labels::counted(&self.labels),
            Op::SoftCrossEntropyLoss => self.shape.rows(),
            _ => self.shape.elements(),
        };
        self.loss = (if self.shape.reduction == Reduction::Mean { total / count as f64 } else { total }) as f32;
    }

    /// Runs one step over all pieces.
    fn pass(&self, step: Step, x: &[T], y: &mut [T], sum: &mut [T]) {
        let plan = Plan {
            step,
            d: self.shape.dimension,
            eps: self.shape.eps,
            tanh: self.shape.tanh,
            each: self.op.is_loss() && self.shape.reduction == Reduction::None,
            stream: self.stream,
            far: (self.shape.precision.bytes() * self.shape.elements()) as u64
                > stores::threshold(self.method.parallel).bytes,
            vectors: [&self.vectors[0], &self.vectors[1]],
        };
        let whole = Piece { x, second: &self.second, labels: &self.labels, y, sum };
        pass(self.method, &plan, rows_of_a_piece(&self.shape), whole, &self.partial);
    }

    /// The arrays of the output ports.
    pub(super) fn outputs(&self) -> Result<Tensors, InputError> {
        if !self.op.is_loss() {
            let outputs = Tensors::new().with("y", T::tensor(&self.extents, &self.y)?);
            return Ok(match self.op {
                Op::ResidualLayerNorm => outputs.with("sum", T::tensor(&self.extents, &self.sum)?),
                _ => outputs,
            });
        }
        let loss = match (self.op, self.shape.reduction) {
            (_, Reduction::Mean | Reduction::Sum) => Tensor::new(&[], &[self.loss][..])?,
            (op, _) if op.is_cross_entropy() => T::tensor(&self.extents[..self.extents.len() - 1], &self.y)?,
            _ => T::tensor(&self.extents, &self.y)?,
        };
        Ok(Tensors::new().with("loss", loss))
    }
}

/// Runs one step over pieces of `rows` rows, and stores the loss of each in `partial` unless that is empty.
pub(super) fn pass<T: Element>(
    method: Method,
    plan: &Plan<'_>,
    rows: usize,
    whole: Piece<'_, T>,
    partial: &[AtomicU64],
) {
    let Piece { x, second, labels, y, sum } = whole;
    let (y, sum) = (Shared::new(y), Shared::new(sum));
    let d = plan.d;
    // One loss per row, or an element for each of x.
    let wide = if matches!(plan.step, Step::Whole(op) if op.is_cross_entropy()) { 1 } else { d };
    method.each(x.len().div_ceil(rows * d), |i| {
        let (from, to) = (i * rows, ((i + 1) * rows).min(x.len() / d));
        let piece = Piece {
            x: &x[from * d..to * d],
            second: second.get(from * d..to * d).unwrap_or(&[]),
            labels: labels.get(from..to).unwrap_or(&[]),
            // SAFETY: different pieces do not overlap.
            y: unsafe { y.piece(from * wide, to * wide) },
            // SAFETY: nor do these.
            sum: unsafe { sum.piece(from * d, to * d) },
        };
        let loss = T::run(method.way, plan, piece);
        if let Some(partial) = partial.get(i) {
            partial.store(loss.to_bits(), Relaxed);
        }
    });
}

/// Rows per piece: about [`PIECE`] elements, depending only on the shape, and a number for which pieces start on a
/// cache line for any dimension.
pub(super) fn rows_of_a_piece(shape: &Shape) -> usize {
    (PIECE / shape.dimension).max(1).next_multiple_of(LINE / shape.precision.bytes())
}

/// The same for rows of `dimension` values in f32.
pub(super) fn rows_of(dimension: usize) -> usize {
    (PIECE / dimension.max(1)).max(1).next_multiple_of(LINE / 4)
}

/// True to use non-temporal stores, and a description of the choice.
fn choose_stores(op: Op, method: Method, shape: &Shape) -> (bool, String) {
    if output_lengths(op, shape)[0] == 0 || op.is_cross_entropy() {
        return (false, String::new());
    }
    let rowwise = !matches!(op, Op::Gelu | Op::Swish | Op::MseLoss | Op::SwiGlu);
    let arrays = 1 + usize::from(op.second().is_some()) + output_lengths(op, shape).iter().filter(|n| **n > 0).count();
    stores_of(method, shape, rowwise, (shape.precision.bytes() * arrays * shape.elements()) as u64)
}

/// The same for an operation with `bytes` of traffic, row by row or element by element.
pub(super) fn stores_of(method: Method, shape: &Shape, rowwise: bool, bytes: u64) -> (bool, String) {
    let Some(isa) = method.way.isa() else { return (false, String::new()) };
    let why_not = match shape.stores {
        Stores::Ordinary => return (false, ", ordinary stores".into()),
        _ if isa == Isa::BASELINE => Some("the baseline has no others"),
        _ if rowwise && !(shape.precision.bytes() * shape.dimension).is_multiple_of(LINE) => {
            Some("rows do not start on a vector")
        }
        Stores::NonTemporal => return (true, ", non-temporal stores".into()),
        Stores::Auto => None,
    };
    if let Some(why) = why_not {
        return (false, format!(", ordinary stores: {why}"));
    }
    let stores::Threshold { bytes: threshold, origin } = stores::threshold(method.parallel);
    let mega = |bytes: u64| bytes as f64 / 1e6;
    let (stream, than, name) = if bytes >= threshold { (true, ">=", "non-temporal") } else { (false, "<", "ordinary") };
    (stream, format!(", {name} stores: {:.1} MB {than} {:.1} MB, {origin}", mega(bytes), mega(threshold)))
}

impl<T: Element> Prepared for Job<T> {
    fn run(&mut self) {
        self.compute();
    }

    fn poison(&mut self, poison: Poison) {
        self.renew();
        self.renewed = true;
        for output in [&mut self.y, &mut self.sum, &mut self.between] {
            poison.fill(output);
        }
        self.partial.iter().for_each(|partial| partial.store(poison.value(), Relaxed));
        self.loss = poison.value();
    }

    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(self.outputs()?)
    }

    fn threads(&self) -> Option<usize> {
        self.method.parallel.then(|| pool::threads().min(self.pieces))
    }

    /// Besides the arrays, each thread holds working memory for its rows.
    fn readings(&mut self) -> Vec<Reading> {
        let outputs = self.y.len() + self.sum.len();
        let inputs = self.x.len() + self.second.len();
        let values = size_of::<T>() * (inputs + outputs) + 4 * self.vectors.iter().map(|v| v.len()).sum::<usize>();
        let held = match self.op.unfused().filter(|_| self.method.unfused) {
            None => T::held(self.method.way, Step::Whole(self.op), self.shape.dimension),
            Some(steps) => {
                let each = steps.map(|step| T::held(self.method.way, step, self.shape.dimension));
                each.into_iter().max().unwrap_or(0)
            }
        };
        let extra = size_of::<T>() * self.between.len() + 8 * self.partial.len() + held * self.threads().unwrap_or(1);
        memory(values + 8 * self.labels.len(), extra)
    }

    fn what_ran(&self) -> String {
        let passes = if self.method.unfused { ", two passes" } else { T::ABOUT };
        describe(self.method.way, self.threads(), passes, &self.stores, self.shape.allocation)
    }
}

/// Readings of the bytes of inputs and outputs, and of the implementation's additional memory.
pub(super) fn memory(required: usize, extra: usize) -> Vec<Reading> {
    let of = |id: &str, title: &str, bytes: usize, about: &str| {
        Reading::derived(id, title, "B", Better::Lower, bytes as f64, about)
    };
    let beside = "memory that the implementation holds in addition to its inputs and outputs";
    vec![
        of(Reading::TOTAL_MEMORY, "memory", required + extra, "inputs, outputs and extra memory of the implementation"),
        of(Reading::EXTRA_MEMORY, "extra memory", extra, beside),
    ]
}

/// Describes what ran: method, threads if several, passes, stores, pages.
pub(super) fn describe(way: Way, threads: Option<usize>, passes: &str, stores: &str, allocation: Allocation) -> String {
    let way = match way {
        Way::Reference => "f64",
        Way::Scalar => "f32 loops",
        Way::Vector(isa) => isa.name(),
    };
    let threads = threads.map_or_else(String::new, |threads| format!(", {}", pool::about(threads, "rows")));
    let pages = match allocation {
        Allocation::Reused => "",
        Allocation::Arena => ", huge pages",
        Allocation::Fresh => ", fresh outputs",
    };
    format!("{way}{threads}{passes}{stores}{pages}")
}
