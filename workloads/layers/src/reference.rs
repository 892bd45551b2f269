//! The operations in f64 by definition, rounded once to f32.

use ellwand_core::{InputError, Tensor, Tensors};
use ellwand_simd::pool;
use rayon::prelude::*;

use super::op::{Op, Step};
use super::piece::{Piece, Plan};
use super::shape::{Reduction, Shape};

/// Phi(x) = erfc(-x / sqrt 2) / 2, which is accurate in the tail.
pub(super) fn phi(x: f64) -> f64 {
    libm::erfc(-x / std::f64::consts::SQRT_2) / 2.0
}

/// GELU (D. Hendrycks and K. Gimpel, 2016); the tanh form uses PyTorch's constants.
pub(super) fn gelu(x: f64, tanh: bool) -> f64 {
    if !tanh {
        return x * phi(x);
    }
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    // (1 + tanh u) / 2 = 1 / (1 + e^-2u), without cancellation.
    x / (1.0 + (-2.0 * inner).exp())
}

/// Swish, x sigmoid(x).
pub(super) fn swish(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn norm(x: &[f64], plan: &Plan<'_>, y: &mut [f32]) {
    let d = x.len() as f64;
    let mean = x.iter().sum::<f64>() / d;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / d;
    let inverse = 1.0 / (variance + f64::from(plan.eps)).sqrt();
    let [gamma, beta] = plan.vectors;
    for (((y, x), gamma), beta) in y.iter_mut().zip(x).zip(gamma).zip(beta) {
        *y = ((x - mean) * inverse * f64::from(*gamma) + f64::from(*beta)) as f32;
    }
}

/// The largest value and the sum of e^(x - largest); NaN for rows whose log-sum-exp is NaN in PyTorch.
pub(super) fn log_sum(x: &[f32]) -> (f64, f64) {
    let most = x.iter().copied().fold(f64::NEG_INFINITY, |most, x| most.max(f64::from(x)));
    (most, x.iter().map(|x| (f64::from(*x) - most).exp()).sum())
}

/// Writes f(a, b) for every element of a; b may repeat.
pub(super) fn pairs(a: &[f32], b: &[f32], y: &mut [f32], f: impl Fn(f64, f64) -> f64) {
    for ((a, b), y) in a.iter().zip(b.iter().cycle()).zip(y) {
        *y = f(f64::from(*a), f64::from(*b)) as f32;
    }
}

/// The outputs of an operation. This function uses none of the job code around the kernels, because code that the
/// implementations share must not judge itself.
pub(super) fn outputs(op: Op, shape: &Shape, inputs: &Tensors) -> Result<Tensors, InputError> {
    let (extents, x, d) = (inputs.get("x")?.shape(), inputs.f32("x")?, shape.dimension);
    if x.len() != shape.elements() {
        return Err(InputError::new("x", format!("its shape is {extents:?}"), "the shape of the case"));
    }
    let second = op.second().map_or(Ok(&[][..]), |(name, _)| inputs.f32(name))?;
    // Skipped rows have label -1 from here on.
    let skipped = |label: &i64| if *label == shape.ignore_index { -1 } else { *label };
    let labels: Vec<i64> =
        if op.has_labels() { inputs.get("labels")?.i64()?.iter().map(skipped).collect() } else { Vec::new() };
    let mut vectors = [&[][..]; 2];
    for (vector, (name, _, _)) in vectors.iter_mut().zip(op.vectors()) {
        *vector = inputs.f32(name)?;
    }
    let each = op.is_loss() && shape.reduction == Reduction::None;
    // Results of a row.
    let width = match op {
        op if op.is_cross_entropy() => usize::from(each),
        Op::MseLoss if !each => 0,
        _ => d,
    };
    let mut y = vec![0.0; shape.rows() * width];
    let mut sum = vec![0.0; if op == Op::ResidualLayerNorm { x.len() } else { 0 }];
    let (eps, tanh) = (shape.eps, shape.tanh);
    let plan = &Plan { step: Step::Whole(op), d, eps, tanh, each, stream: false, far: false, vectors };
    let rows = shape.rows().div_ceil(pool::threads()).max(1);
    let losses: f64 = {
        let mut second = second.chunks(rows * d);
        let mut labels = labels.chunks(rows);
        let mut y = y.chunks_mut((rows * width).max(1));
        let mut sum = sum.chunks_mut(rows * d);
        let pieces: Vec<Piece<'_>> = x
            .chunks(rows * d)
            .map(|x| Piece {
                x,
                second: second.next().unwrap_or_default(),
                labels: labels.next().unwrap_or_default(),
                y: y.next().unwrap_or_default(),
                sum: sum.next().unwrap_or_default(),
            })
            .collect();
        // Added in the order of the rows, not in the order in which pieces finish.
        let losses: Vec<f64> = pool::run(|| pieces.into_par_iter().map(|piece| self::piece(plan, piece)).collect());
        losses.iter().sum()
    };
    if !op.is_loss() {
        let outputs = Tensors::new().with("y", Tensor::new(extents, &y[..])?);
        return Ok(if sum.is_empty() { outputs } else { outputs.with("sum", Tensor::new(extents, &sum[..])?) });
    }
    let kept = || labels.iter().filter(|label| **label != -1).count();
    let count = match op {
        Op::CrossEntropyLoss => kept(),
        Op::SoftCrossEntropyLoss => shape.rows(),
        _ => x.len(),
    };
    let loss = match (shape.reduction, op) {
        (Reduction::Mean, _) => Tensor::new(&[], &[(losses / count as f64) as f32][..])?,
        (Reduction::Sum, _) => Tensor::new(&[], &[losses as f32][..])?,
        (Reduction::None, op) if op.is_cross_entropy() => Tensor::new(&extents[..extents.len() - 1], &y[..])?,
        (Reduction::None, _) => Tensor::new(extents, &y[..])?,
    };
    Ok(Tensors::new().with("loss", loss))
}

/// Computes a piece.
pub(super) fn piece(plan: &Plan<'_>, piece: Piece<'_>) -> f64 {
    let Piece { x, second, labels, y, sum } = piece;
    let d = plan.d;
    match plan.step {
        Step::Whole(Op::Gelu) => pairs(x, x, y, |x, _| gelu(x, plan.tanh)),
        Step::Whole(Op::BiasGelu) => pairs(x, plan.vectors[0], y, |x, bias| gelu(x + bias, plan.tanh)),
        Step::Whole(Op::Swish) => pairs(x, x, y, |x, _| swish(x)),
        Step::Whole(Op::SwiGlu) => pairs(x, second, y, |x, up| swish(x) * up),
        Step::AddBias => pairs(x, plan.vectors[0], y, |x, bias| x + bias),
        Step::Add => pairs(x, second, y, |x, other| x + other),
        Step::Multiply => pairs(x, second, y, |x, other| x * other),
        Step::Whole(Op::MseLoss) => {
            let loss = |x: f32, target: f32| (f64::from(x) - f64::from(target)).powi(2);
            if plan.each {
                pairs(x, second, y, |x, target| (x - target).powi(2));
            }
            return x.iter().zip(second).map(|(x, target)| loss(*x, *target)).sum();
        }
        Step::Whole(Op::LayerNorm) => {
            for (x, y) in x.chunks(d).zip(y.chunks_mut(d)) {
                norm(&x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>(), plan, y);
            }
        }
        Step::Whole(Op::ResidualLayerNorm) => {
            pairs(x, second, sum, |x, residual| x + residual);
            let rows = x.chunks(d).zip(second.chunks(d)).zip(y.chunks_mut(d));
            for ((x, residual), y) in rows {
                let exact: Vec<f64> = x.iter().zip(residual).map(|(x, r)| f64::from(*x) + f64::from(*r)).collect();
                norm(&exact, plan, y);
            }
        }
        Step::Whole(Op::Softmax) => {
            for (x, y) in x.chunks(d).zip(y.chunks_mut(d)) {
                let (most, sum) = log_sum(x);
                pairs(x, x, y, |x, _| (x - most).exp() / sum);
            }
        }
        Step::Whole(Op::SoftCrossEntropyLoss) => {
            let mut total = 0.0;
            for (row, (x, target)) in x.chunks(d).zip(second.chunks(d)).enumerate() {
                let (most, sum) = log_sum(x);
                let each = |(x, p): (&f32, &f32)| f64::from(*p) * (sum.ln() + (most - f64::from(*x)));
                let loss: f64 = x.iter().zip(target).map(each).sum();
                total += loss;
                if plan.each {
                    y[row] = loss as f32;
                }
            }
            return total;
        }
        Step::Whole(Op::CrossEntropyLoss) => {
            let losses = x.chunks(d).zip(labels).map(|(x, label)| {
                if *label == -1 {
                    return 0.0;
                }
                let (most, sum) = log_sum(x);
                sum.ln() + (most - f64::from(x[*label as usize]))
            });
            let mut total = 0.0;
            for (row, loss) in losses.enumerate() {
                total += loss;
                if plan.each {
                    y[row] = loss as f32;
                }
            }
            return total;
        }
    }
    0.0
}
