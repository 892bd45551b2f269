//! The implementations: packed products and vector softmax in blocks of queries; the weights are kept or recomputed.
#![allow(unsafe_code)]

use ellwand_core::tensor::Buffer;
use ellwand_core::{
    Case, DeviceError, Dtype, Implementation, InputError, Poison, PrepareError, Prepared, Reading, Tensor, Tensors,
};
use ellwand_profile::span;
use ellwand_simd::isa::Isa;
use ellwand_simd::lanes::dispatch;

use super::{NAME, OUTPUTS, Task, UPSTREAM, arrays, dims, reference};
use crate::job::extra_memory;
use crate::shape::Shape;
use crate::softmax::Row;
use ellwand_gemm::{self as gemm, Product, Scratch, Source, zeros};

/// Queries whose weights are in memory at a time; their products with the keys are then long enough for full speed.
const ROWS: usize = 192;

/// How the backward pass gets the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weights {
    /// The f64 reference.
    Reference,
    /// Kept for all heads from the forward pass.
    Stored,
    /// Recomputed block by block from queries and keys.
    Recomputed,
}

/// The implementations, the reference first.
pub(super) fn implementations() -> [Implementation; 3] {
    let row = |name: &str, about: &str, weights: Weights| {
        Implementation::cpu(NAME, name, about, move |case, inputs, _| {
            Ok::<Box<dyn Prepared>, PrepareError>(Box::new(Job::new(weights, case, inputs)?))
        })
    };
    [
        row("reference", "step by step in f64", Weights::Reference).many_threads(),
        row("stored", "the weights of all heads are kept for the backward pass", Weights::Stored),
        row("recomputed", "the weights are recomputed in the backward pass (checkpointing)", Weights::Recomputed),
    ]
}

/// Estimated working memory of an implementation, in bytes.
pub(super) fn extra(s: &Shape, implementation: &str) -> u64 {
    let (keys, rows) = (s.keys as f64, ROWS.min(s.sequence) as f64);
    let all = 4.0 * s.positions() as f64 * s.heads as f64 * keys;
    let blocks = 4.0 * (3.0 * rows * keys + keys * s.head() as f64);
    (if implementation == "stored" { all + blocks } else { blocks }) as u64
}

/// One case with its arrays.
struct Job {
    weights: Weights,
    shape: Shape,
    isa: Isa,
    inputs: Tensors,
    lengths: Vec<i64>,
    /// In the order of [`OUTPUTS`].
    outputs: [Buffer<f32>; 4],
    /// Weights of all heads, if they are kept.
    kept: Buffer<f32>,
    /// Weights of a block of queries, their gradients, and one of them transposed.
    block: [Buffer<f32>; 3],
    /// The contribution of a block to dk or dv.
    part: Buffer<f32>,
    scratch: Scratch,
    done: Result<(), InputError>,
}

impl Job {
    fn new(weights: Weights, case: &Case, inputs: &Tensors) -> Result<Self, InputError> {
        let s = Shape::of(case)?;
        arrays::check(Task::Core, &s, inputs)?;
        let upstream = inputs.get(UPSTREAM)?;
        if upstream.shape() != dims(&s, true) {
            return Err(InputError::new(UPSTREAM, format!("its shape is {:?}", upstream.shape()), "the shape of q"));
        }
        let (keys, head, rows) = (s.keys, s.head(), ROWS.min(s.sequence));
        let fast = weights != Weights::Reference;
        let when = |yes: bool, len: usize| zeros(if yes { len } else { 0 });
        let products = [(keys, head), (head, keys), (head, rows)];
        let largest = products.iter().map(|(n, k)| gemm::scratch_len(*n, *k)).max().unwrap_or(0);
        Ok(Self {
            weights,
            isa: Isa::of(case)?,
            inputs: inputs.clone(),
            lengths: arrays::lengths(&s, inputs)?.to_vec(),
            outputs: OUTPUTS.map(|(_, _, of_queries)| zeros(dims(&s, of_queries).iter().product())),
            kept: when(weights == Weights::Stored, s.positions() * s.heads * keys),
            block: [(); 3].map(|()| when(fast, rows * keys)),
            part: when(fast, keys * head),
            scratch: Scratch::new(1, if fast { largest } else { 0 }),
            shape: s,
            done: Ok(()),
        })
    }

    fn compute(&mut self) -> Result<(), InputError> {
        let s = self.shape;
        if self.weights == Weights::Reference {
            let made = reference::outputs(&s, &self.inputs)?;
            for ((name, ..), output) in OUTPUTS.iter().zip(&mut self.outputs) {
                output.copy_from_slice(made.f32(name)?);
            }
            return Ok(());
        }
        let get = |name: &str| self.inputs.f32(name);
        let given = [get("q")?, get("k")?, get("v")?, get(UPSTREAM)?];
        let Self { isa, lengths, outputs, kept, block, part, scratch, .. } = self;
        let steps = Steps { s, isa: *isa, scratch, lengths };
        let [context, dq, dk, dv] = outputs;
        dk.fill(0.0);
        dv.fill(0.0);
        let [weights, slopes, turned] = block;
        {
            let _span = span!("forward");
            for head in Head::all(&s, given) {
                for block in head.blocks(ROWS) {
                    let weights = head.weights(kept, weights, &block);
                    steps.weigh(&head, &block, weights);
                    let context = &mut context[head.query(&block)];
                    steps.product(weights, s.keys, (head.v, false), 1.0, context);
                }
            }
        }
        let _span = span!("backward");
        for head in Head::all(&s, given) {
            for block in head.blocks(ROWS) {
                let rows = block.len();
                let recompute = kept.is_empty();
                let weights = head.weights(kept, weights, &block);
                if recompute {
                    let _span = span!("recompute");
                    steps.weigh(&head, &block, weights);
                }
                let (q, upstream) = (&head.q[block.start * head.width..][..rows * head.width], head.upstream(&block));
                let slopes = &mut slopes[..rows * s.keys];
                steps.product(upstream, head.width, (head.v, true), 1.0, slopes);
                let context = &context[head.query(&block)];
                steps.slopes(weights, slopes, upstream, context);
                steps.product(slopes, s.keys, (head.k, false), s.scale() as f32, &mut dq[head.query(&block)]);
                let turned = &mut turned[..rows * s.keys];
                for (from, with, scale, to) in
                    [(&*weights, upstream, 1.0, &mut *dv), (&*slopes, q, s.scale() as f32, &mut *dk)]
                {
                    transpose(from, s.keys, turned);
                    steps.product(turned, rows, (with, false), scale, part);
                    to[head.keys.clone()].iter_mut().zip(&part[..]).for_each(|(to, part)| *to += part);
                }
            }
        }
        Ok(())
    }
}

/// One head of queries with its keys and values.
struct Head<'a> {
    b: usize,
    /// Values per position.
    width: usize,
    /// Queries, and their position among all.
    q: &'a [f32],
    upstream: &'a [f32],
    queries: std::ops::Range<usize>,
    k: &'a [f32],
    v: &'a [f32],
    keys: std::ops::Range<usize>,
    /// Rows of weights before those of this head.
    before: usize,
    rows: usize,
    count: usize,
}

impl<'a> Head<'a> {
    fn all(s: &Shape, [q, k, v, upstream]: [&'a [f32]; 4]) -> impl Iterator<Item = Head<'a>> {
        let (s, width) = (*s, s.head());
        (0..s.batch * s.heads).map(move |at| {
            let (b, head) = (at / s.heads, at % s.heads);
            let kv = b * s.kv_heads + head / (s.heads / s.kv_heads);
            let queries = at * s.sequence * width..(at + 1) * s.sequence * width;
            let keys = kv * s.keys * width..(kv + 1) * s.keys * width;
            Head {
                b,
                width,
                q: &q[queries.clone()],
                upstream: &upstream[queries.clone()],
                k: &k[keys.clone()],
                v: &v[keys.clone()],
                queries,
                keys,
                before: at * s.sequence,
                rows: s.sequence,
                count: s.keys,
            }
        })
    }

    fn blocks(&self, rows: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
        let all = self.rows;
        (0..all).step_by(rows).map(move |first| first..all.min(first + rows))
    }

    /// The position of a block of queries in an array of their shape.
    fn query(&self, block: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        let at = |row: usize| self.queries.start + row * self.width;
        at(block.start)..at(block.end)
    }

    fn upstream(&self, block: &std::ops::Range<usize>) -> &'a [f32] {
        &self.upstream[block.start * self.width..block.end * self.width]
    }

    /// Memory for the weights of a block: within the kept ones, or in the block's own buffer.
    fn weights<'b>(&self, kept: &'b mut [f32], own: &'b mut [f32], block: &std::ops::Range<usize>) -> &'b mut [f32] {
        let at = |row: usize| (self.before + row) * self.count;
        if kept.is_empty() { &mut own[..block.len() * self.count] } else { &mut kept[at(block.start)..at(block.end)] }
    }
}

/// Values shared by the steps.
struct Steps<'a> {
    s: Shape,
    isa: Isa,
    scratch: &'a Scratch,
    lengths: &'a [i64],
}

impl Steps<'_> {
    /// `c = alpha a b`, whole rows of each: `depth` values in a row of a; b is [depth, n], or [n, depth] if transposed.
    fn product(&self, a: &[f32], depth: usize, (b, transposed): (&[f32], bool), alpha: f32, c: &mut [f32]) {
        let (m, n) = (a.len() / depth, b.len() / depth);
        assert!(m * depth == a.len() && n * depth == b.len() && c.len() == m * n);
        let b = Source { at: b.as_ptr(), stride: if transposed { depth } else { n }, transposed };
        let (a, c) = (a.as_ptr(), c.as_mut_ptr());
        let p = Product { m, n, k: depth, a, a_stride: depth, b, alpha, bias: None, c, c_stride: n, stream: false };
        // SAFETY: the assertion checked the extents; c is borrowed by this call alone.
        unsafe { gemm::product(self.isa, &p, self.scratch) };
    }

    /// The weights of a block of queries.
    fn weigh(&self, head: &Head<'_>, block: &std::ops::Range<usize>, weights: &mut [f32]) {
        let q = &head.q[block.start * head.width..block.end * head.width];
        self.product(q, head.width, (head.k, true), self.s.scale() as f32, weights);
        let visible = |row: usize| self.s.visible(self.lengths, head.b, block.start + row);
        dispatch(self.isa, Row { x: None, y: weights, length: self.s.keys, visible: &visible });
    }

    /// Turns gradients of weights into those of scores: weight (gradient - dcontext context).
    fn slopes(&self, weights: &[f32], gradients: &mut [f32], upstream: &[f32], context: &[f32]) {
        let (keys, width) = (self.s.keys, self.s.head());
        let rows = weights.chunks_exact(keys).zip(gradients.chunks_exact_mut(keys));
        for ((weights, gradients), (upstream, context)) in
            rows.zip(upstream.chunks_exact(width).zip(context.chunks_exact(width)))
        {
            let mean = gemm::dot(upstream, context);
            gradients.iter_mut().zip(weights).for_each(|(gradient, weight)| *gradient = weight * (*gradient - mean));
        }
    }
}

/// Transposes columns of `from`, whose rows have `width` values, to rows of `to`, in squares that stay in the cache.
fn transpose(from: &[f32], width: usize, to: &mut [f32]) {
    const SIDE: usize = 16;
    let rows = from.len() / width;
    assert!(to.len() == from.len());
    for (first, some) in from.chunks(SIDE * width).enumerate() {
        let first = first * SIDE;
        for left in (0..width).step_by(SIDE) {
            for (row, values) in some.chunks_exact(width).enumerate() {
                for (column, value) in values[left..width.min(left + SIDE)].iter().enumerate() {
                    to[(left + column) * rows + first + row] = *value;
                }
            }
        }
    }
}

impl Prepared for Job {
    fn run(&mut self) {
        self.done = self.compute();
    }

    fn poison(&mut self, poison: Poison) {
        self.done = Ok(());
        self.outputs.iter_mut().for_each(|output| poison.fill(output));
    }

    fn output(&mut self) -> Result<Tensors, DeviceError> {
        self.done.clone()?;
        let mut outputs = Tensors::new();
        for ((name, _, of_queries), values) in OUTPUTS.iter().zip(&self.outputs) {
            let mut tensor = Tensor::zeros(Dtype::F32, &dims(&self.shape, *of_queries))?;
            tensor.f32_mut()?.copy_from_slice(values);
            outputs.insert(name, tensor);
        }
        Ok(outputs)
    }

    fn what_ran(&self) -> String {
        match self.weights {
            Weights::Reference => "f64".into(),
            Weights::Stored | Weights::Recomputed => self.isa.name().into(),
        }
    }

    fn readings(&mut self) -> Vec<Reading> {
        if self.weights == Weights::Reference {
            return Vec::new();
        }
        let values = self.kept.len() + self.part.len() + self.block.iter().map(|block| block.len()).sum::<usize>();
        extra_memory(4 * values as u64 + self.scratch.bytes())
    }
}
