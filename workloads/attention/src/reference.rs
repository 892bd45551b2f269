//! All tasks in f64, step by step as in the formulas. Rows are distributed over threads, because every check uses this.
//!
//! Masks, the scale of scores and offsets into arrays are computed here too: what the reference shares with the
//! implementations, it cannot judge. It shares the sizes of a case and the names and shapes of arrays.

use std::ops::Range;

use rayon::prelude::*;

use ellwand_core::{InputError, Tensor, Tensors};

use super::arrays::{self, output};
use super::shape::{Mask, Shape};
use super::task::{EPSILON, Task};
use ellwand_simd::pool;

/// Rows of a head computed together, so that a loaded key or value serves all of them. Each row is summed in the same
/// order as if computed separately.
const TOGETHER: usize = 8;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (a, b) in a.iter().zip(b) {
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum += a[i] * b[i];
        }
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

/// `y = x w^T + b`, where w has `b.len()` rows.
fn linear(x: &[f64], w: &[f64], b: &[f64]) -> Vec<f64> {
    let (outs, ins) = (b.len(), w.len() / b.len());
    let mut y = vec![0.0; x.len() / ins * outs];
    y.par_chunks_mut(outs).zip(x.par_chunks(ins)).for_each(|(y, x)| {
        for ((y, w), b) in y.iter_mut().zip(w.chunks(ins)).zip(b) {
            *y = dot(x, w) + b;
        }
    });
    y
}

/// Weights over the first `visible` scores, 0 beyond; all 0 if no score has any weight.
fn softmax(scores: &[f64], visible: usize) -> Vec<f64> {
    let seen = &scores[..visible];
    let top = seen.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut weights: Vec<f64> =
        seen.iter().map(|s| if *s == f64::NEG_INFINITY { 0.0 } else { (s - top).exp() }).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|w| *w = if sum == 0.0 { 0.0 } else { *w / sum });
    weights.resize(scores.len(), 0.0);
    weights
}

/// Number of leading keys that query `row` of sequence `b` sees.
pub(super) fn visible(shape: &Shape, lengths: &[i64], b: usize, row: usize) -> usize {
    match shape.mask {
        Mask::None => shape.keys,
        Mask::Causal if row < shape.keys => row + 1,
        Mask::Causal => shape.keys,
        Mask::Padding => lengths[b].clamp(0, shape.keys as i64) as usize,
    }
}

/// What scores are multiplied by: 1 / sqrt(head).
pub(super) fn scale(shape: &Shape) -> f64 {
    (shape.dimension as f64 / shape.heads as f64).sqrt().recip()
}

/// An array of rows of `head` values.
#[derive(Clone, Copy)]
enum Rows<'a> {
    /// [batch, heads, positions, head].
    Apart { values: &'a [f64], heads: usize, positions: usize },
    /// [batch, positions, width]: the heads of a position are next to each other, the first one at `from`.
    Together { values: &'a [f64], positions: usize, width: usize, from: usize },
}

impl<'a> Rows<'a> {
    fn queries(shape: &Shape, values: &'a [f64]) -> Self {
        Self::Apart { values, heads: shape.heads, positions: shape.sequence }
    }

    fn keys(shape: &Shape, values: &'a [f64]) -> Self {
        Self::Apart { values, heads: shape.kv_heads, positions: shape.keys }
    }

    /// The `length` values of a row.
    fn row(&self, length: usize, b: usize, head: usize, position: usize) -> &'a [f64] {
        match *self {
            Self::Apart { values, heads, positions } => {
                &values[((b * heads + head) * positions + position) * length..][..length]
            }
            Self::Together { values, positions, width, from } => {
                &values[(b * positions + position) * width + from + head * length..][..length]
            }
        }
    }
}

/// The steps between the projections.
#[derive(Clone, Copy)]
struct Core<'a> {
    shape: &'a Shape,
    lengths: &'a [i64],
    q: Rows<'a>,
    k: Rows<'a>,
    v: Rows<'a>,
}

impl Core<'_> {
    /// Sequence, head and position of row `at` of [batch, heads, sequence].
    fn place(&self, at: usize) -> (usize, usize, usize) {
        let Shape { heads, sequence, .. } = *self.shape;
        (at / (heads * sequence), at / sequence % heads, at % sequence)
    }

    fn visible(&self, at: usize) -> usize {
        let (b, _, row) = self.place(at);
        visible(self.shape, self.lengths, b, row)
    }

    fn row<'a>(&self, of: Rows<'a>, b: usize, head: usize, row: usize) -> &'a [f64] {
        of.row(self.shape.head(), b, head, row)
    }

    /// Scores of each of these rows of one head; -inf where masked.
    fn scores(&self, rows: Range<usize>) -> Vec<Vec<f64>> {
        let (b, head, first) = self.place(rows.start);
        let kv = head / (self.shape.heads / self.shape.kv_heads);
        let (seen, scale) = (self.visible_keys(&rows), scale(self.shape));
        let mut scores = vec![vec![f64::NEG_INFINITY; self.shape.keys]; rows.len()];
        for j in 0..seen.iter().copied().max().unwrap_or(0) {
            let key = self.row(self.k, b, kv, j);
            for (r, scores) in scores.iter_mut().enumerate().filter(|(r, _)| j < seen[*r]) {
                scores[j] = dot(self.row(self.q, b, head, first + r), key) * scale;
            }
        }
        scores
    }

    /// Weighted sums of the values that each of these rows of one head sees.
    fn sums(&self, rows: Range<usize>, weights: &[impl AsRef<[f64]>]) -> Vec<Vec<f64>> {
        let (b, head, _) = self.place(rows.start);
        let kv = head / (self.shape.heads / self.shape.kv_heads);
        let seen = self.visible_keys(&rows);
        let mut sums = vec![vec![0.0; self.shape.head()]; rows.len()];
        for j in 0..seen.iter().copied().max().unwrap_or(0) {
            let values = self.row(self.v, b, kv, j);
            for (r, sums) in sums.iter_mut().enumerate().filter(|(r, _)| j < seen[*r]) {
                let weight = weights[r].as_ref()[j];
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
            }
        }
        sums
    }

    fn visible_keys(&self, rows: &Range<usize>) -> Vec<usize> {
        rows.clone().map(|at| self.visible(at)).collect()
    }

    /// Weights of each of these rows.
    fn weights(&self, rows: Range<usize>) -> Vec<Vec<f64>> {
        let scores = self.scores(rows.clone());
        scores.iter().zip(rows).map(|(scores, at)| softmax(scores, self.visible(at))).collect()
    }

    /// Concatenates `of(rows)` for all rows of [batch, heads, sequence], a few rows of one head at a time.
    fn rows(&self, of: impl Fn(Range<usize>) -> Vec<Vec<f64>> + Sync + Send) -> Vec<f64> {
        let Shape { heads, sequence, .. } = *self.shape;
        let blocks = sequence.div_ceil(TOGETHER);
        let of_block = |block: usize| {
            let head = block / blocks * sequence;
            let first = block % blocks * TOGETHER;
            of(head + first..head + (first + TOGETHER).min(sequence)).into_iter().flatten()
        };
        (0..self.shape.positions() / sequence.max(1) * heads * blocks).into_par_iter().flat_map_iter(of_block).collect()
    }

    /// Computes [`largest_score`] for this core.
    fn largest_score(&self) -> f64 {
        let longest = |of: Rows<'_>, heads: usize, count: usize| {
            let rows = (0..self.shape.batch * heads * count).map(|at| {
                let (b, head, row) = (at / (heads * count), at / count % heads, at % count);
                let row = self.row(of, b, head, row);
                dot(row, row)
            });
            // f64::max ignores NaN.
            rows.filter(|square| square.is_finite()).fold(0.0, f64::max).sqrt()
        };
        let Shape { sequence, keys, heads, kv_heads, .. } = *self.shape;
        longest(self.q, heads, sequence) * longest(self.k, kv_heads, keys) * scale(self.shape)
    }

    fn attend(&self, rows: Range<usize>) -> Vec<Vec<f64>> {
        self.sums(rows.clone(), &self.weights(rows))
    }
}

/// The core's output, and for each value the root of the sum of squares of weight times value, by which bf16 rounding
/// is measured.
pub(super) fn with_spread(shape: &Shape, inputs: &Tensors) -> Result<[Tensor; 2], InputError> {
    arrays::check(Task::Core, shape, inputs)?;
    let lengths = arrays::lengths(shape, inputs).unwrap_or_default();
    let get = |name: &str| Ok::<Vec<f64>, InputError>(inputs.f32(name)?.iter().map(|x| f64::from(*x)).collect());
    let (q, k, v) = (get("q")?, get("k")?, get("v")?);
    let squares: Vec<f64> = v.iter().map(|v| v * v).collect();
    let core = Core { shape, lengths, q: Rows::queries(shape, &q), k: Rows::keys(shape, &k), v: Rows::keys(shape, &v) };
    let squared = Core { v: Rows::keys(shape, &squares), ..core };
    let both = |rows: Range<usize>| {
        let mut weights = core.weights(rows.clone());
        let mut both = core.sums(rows.clone(), &weights);
        weights.iter_mut().flatten().for_each(|w| *w *= *w);
        for (both, squares) in both.iter_mut().zip(squared.sums(rows, &weights)) {
            both.extend(squares.iter().map(|sum| sum.sqrt()));
        }
        both
    };
    let both = pool::run(|| core.rows(both));
    let part = |first: usize| {
        let rows = both.chunks(2 * shape.head()).flat_map(|row| &row[first..first + shape.head()]);
        let values: Vec<f32> = rows.map(|value| *value as f32).collect();
        Tensor::new(&output(Task::Core, shape).dims, &values[..])
    };
    Ok([part(0)?, part(shape.head())?])
}

fn layer_norm(x: &[f64], gamma: &[f64], beta: &[f64]) -> Vec<f64> {
    let d = gamma.len();
    let norm = |x: &[f64]| {
        let mean = x.iter().sum::<f64>() / d as f64;
        let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / d as f64;
        let scale = 1.0 / (variance + EPSILON).sqrt();
        x.iter().zip(gamma).zip(beta).map(|((x, g), b)| (x - mean) * scale * g + b).collect::<Vec<f64>>()
    };
    x.chunks(d).flat_map(norm).collect()
}

fn gelu(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
}

/// The core over queries, keys and values interleaved as the projection leaves them.
fn projected<'a>(shape: &'a Shape, lengths: &'a [i64], qkv: &'a [f64]) -> Core<'a> {
    let width = (shape.heads + 2 * shape.kv_heads) * shape.head();
    let part =
        |heads: usize| Rows::Together { values: qkv, positions: shape.sequence, width, from: heads * shape.head() };
    Core { shape, lengths, q: part(0), k: part(shape.heads), v: part(shape.heads + shape.kv_heads) }
}

/// The core with its projections: [batch, sequence, dimension] in and out.
fn attention(
    shape: &Shape,
    lengths: &[i64],
    x: &[f64],
    get: &impl Fn(&str) -> Result<Vec<f64>, InputError>,
) -> Result<Vec<f64>, InputError> {
    let qkv = linear(x, &get("w_qkv")?, &get("b_qkv")?);
    let core = projected(shape, lengths, &qkv);
    let apart = core.rows(|rows| core.attend(rows));
    let mut context = vec![0.0; apart.len()];
    for (at, row) in apart.chunks(shape.head()).enumerate() {
        let (b, head, position) = core.place(at);
        let from = (b * shape.sequence + position) * shape.dimension + head * row.len();
        context[from..][..row.len()].copy_from_slice(row);
    }
    Ok(linear(&context, &get("w_out")?, &get("b_out")?))
}

/// Upper bound on all scores for any signs of their products: the longest query times the longest key (Cauchy and
/// Schwarz), scaled. 0 for tasks that compute no scores and weights themselves.
pub(super) fn largest_score(task: Task, shape: &Shape, inputs: &Tensors) -> Result<f64, InputError> {
    let get = |name: &str| Ok::<Vec<f64>, InputError>(inputs.f32(name)?.iter().map(|x| f64::from(*x)).collect());
    let whole = |x: &[f64]| -> Result<f64, InputError> {
        let qkv = pool::run(|| Ok::<_, InputError>(linear(x, &get("w_qkv")?, &get("b_qkv")?)))?;
        Ok(projected(shape, &[], &qkv).largest_score())
    };
    Ok(match task {
        Task::Core => {
            let (q, k) = (get("q")?, get("k")?);
            let (q, k) = (Rows::queries(shape, &q), Rows::keys(shape, &k));
            Core { shape, lengths: &[], q, k, v: k }.largest_score()
        }
        Task::Whole => whole(&get("x")?)?,
        Task::Layer => whole(&layer_norm(&get("x")?, &get("gamma_1")?, &get("beta_1")?))?,
        Task::Qkv | Task::Scores | Task::Softmax | Task::WeightedSum | Task::Output => 0.0,
    })
}

/// The output of a task.
pub(super) fn reference(task: Task, shape: &Shape, inputs: &Tensors) -> Result<Tensors, InputError> {
    arrays::check(task, shape, inputs)?;
    let lengths = arrays::lengths(shape, inputs).unwrap_or_default();
    let get = |name: &str| Ok::<Vec<f64>, InputError>(inputs.f32(name)?.iter().map(|x| f64::from(*x)).collect());
    let or_empty = |name: &str| inputs.find(name).map_or(Ok(Vec::new()), |_| get(name));
    let (q, k, v) = (or_empty("q")?, or_empty("k")?, or_empty("v")?);
    let core = Core { shape, lengths, q: Rows::queries(shape, &q), k: Rows::keys(shape, &k), v: Rows::keys(shape, &v) };
    let n = shape.sequence;
    let y = pool::run(|| -> Result<Vec<f64>, InputError> {
        Ok(match task {
            Task::Qkv => linear(&get("x")?, &get("w_qkv")?, &get("b_qkv")?),
            Task::Scores => core.rows(|rows| core.scores(rows)),
            Task::Softmax => {
                let scores = get("scores")?;
                core.rows(|rows| rows.map(|at| softmax(&scores[at * n..][..n], core.visible(at))).collect())
            }
            Task::WeightedSum => {
                let weights = get("weights")?;
                core.rows(|rows| {
                    let weights: Vec<&[f64]> = rows.clone().map(|at| &weights[at * n..][..n]).collect();
                    core.sums(rows, &weights)
                })
            }
            Task::Output => linear(&get("context")?, &get("w_out")?, &get("b_out")?),
            Task::Core => core.rows(|rows| core.attend(rows)),
            Task::Whole => attention(shape, lengths, &get("x")?, &get)?,
            Task::Layer => {
                let x = get("x")?;
                let y = attention(shape, lengths, &layer_norm(&x, &get("gamma_1")?, &get("beta_1")?), &get)?;
                let h: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
                let mut up = linear(&layer_norm(&h, &get("gamma_2")?, &get("beta_2")?), &get("w_up")?, &get("b_up")?);
                up.iter_mut().for_each(|x| *x = gelu(*x));
                let down = linear(&up, &get("w_down")?, &get("b_down")?);
                h.iter().zip(&down).map(|(h, y)| h + y).collect()
            }
        })
    })?;
    let array = output(task, shape);
    let y: Vec<f32> = y.into_iter().map(|y| y as f32).collect();
    Ok(Tensors::new().with(array.name, Tensor::new(&array.dims, &y[..])?))
}
