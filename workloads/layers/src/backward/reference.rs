//! The gradients in f64 by definition, rounded once to f32.

use std::f64::consts::PI;

use ellwand_core::{InputError, Tensor, Tensors};
use ellwand_simd::pool;
use rayon::prelude::*;

use super::op::{Op, Upstream};
use super::piece::{Piece, Plan};
use crate::reference::{log_sum, pairs, phi};
use crate::shape::{Reduction, Shape};

/// The derivative of GELU: Phi(x) + x phi(x), with phi the normal density (D. Hendrycks and K. Gimpel, 2016).
///
/// For the tanh form x s(v(x)), with s the logistic function and v = 2 sqrt(2/pi) (x + 0.044715 x^3): s + x v' s (1 -
/// s).
pub(super) fn gelu_slope(x: f64, tanh: bool) -> f64 {
    if !tanh {
        return phi(x) + x * (-x * x / 2.0).exp() / (2.0 * PI).sqrt();
    }
    let scale = 2.0 * (2.0 / PI).sqrt();
    let inner = scale * (x + 0.044_715 * x * x * x);
    let inner_slope = scale * (1.0 + 3.0 * 0.044_715 * x * x);
    // s (1 - s), which is the same for v and -v, without overflow.
    let small = (-inner.abs()).exp();
    1.0 / (1.0 + (-inner).exp()) + x * inner_slope * (small / (1.0 + small).powi(2))
}

/// The derivative of Swish x s(x): s + x s (1 - s) = s (1 + x (1 - s)), where 1 - s(x) = s(-x).
pub(super) fn swish_slope(x: f64) -> f64 {
    let (above, below) = (1.0 / (1.0 + (-x).exp()), 1.0 / (1.0 + x.exp()));
    above * (1.0 + x * below)
}

/// Moments of a row: the mean and 1 / sqrt(variance + eps).
pub(super) fn moments(x: &[f32], eps: f32) -> (f64, f64) {
    let d = x.len() as f64;
    let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / d;
    let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / d;
    (mean, 1.0 / (variance + f64::from(eps)).sqrt())
}

/// With n = (x - mean) / sqrt(variance + eps) and g = dy gamma, dx = (g - mean(g) - n mean(g n)) / sqrt(variance +
/// eps). The sums of dy n and of dy over the rows are dgamma and dbeta (J. L. Ba, J. R. Kiros, G. E. Hinton, Layer
/// normalization, 2016, by the chain rule; S. Ioffe and C. Szegedy, Batch normalization, 2015, section 3, for columns).
fn norm(x: &[f32], dy: &[f32], plan: &Plan<'_>, dx: &mut [f32], sums: &mut [f64]) {
    let (mean, inverse) = moments(x, plan.eps);
    let count = x.len() as f64;
    let normal: Vec<f64> = x.iter().map(|x| (f64::from(*x) - mean) * inverse).collect();
    let g: Vec<f64> = dy.iter().zip(plan.gamma).map(|(dy, gamma)| f64::from(*dy) * f64::from(*gamma)).collect();
    let mean_g = g.iter().sum::<f64>() / count;
    let mean_gn = g.iter().zip(&normal).map(|(g, n)| g * n).sum::<f64>() / count;
    let (dgamma, dbeta) = sums.split_at_mut(plan.d);
    for c in 0..plan.d {
        dx[c] = ((g[c] - mean_g - normal[c] * mean_gn) * inverse) as f32;
        dgamma[c] += f64::from(dy[c]) * normal[c];
        dbeta[c] += f64::from(dy[c]);
    }
}

/// The gradients. This function uses none of the job code around the kernels, because code that the implementations share
/// must not judge itself.
pub(super) fn outputs(op: Op, shape: &Shape, inputs: &Tensors) -> Result<Tensors, InputError> {
    let (extents, x, d) = (inputs.get("x")?.shape(), inputs.f32("x")?, shape.dimension);
    let given = inputs.f32(op.upstream_name())?;
    // Values of the upstream gradient for a row, or one factor for all of them.
    let (upstream, width, mut factor) = match op.upstream(shape.reduction) {
        Upstream::Whole => (given, d, 1.0),
        Upstream::Rows => (given, 1, 1.0),
        Upstream::One => (&[][..], 1, given.first().copied().map_or(1.0, f64::from)),
    };
    // Skipped rows have label -1 from here on.
    let skipped = |label: &i64| if *label == shape.ignore_index { -1 } else { *label };
    let labels: Vec<i64> =
        if op.forward().has_labels() { inputs.get("labels")?.i64()?.iter().map(skipped).collect() } else { Vec::new() };
    if op.forward().is_loss() && shape.reduction == Reduction::Mean {
        let kept = || labels.iter().filter(|label| **label != -1).count();
        factor /= match op {
            Op::CrossEntropyLoss => kept(),
            Op::SoftCrossEntropyLoss => shape.rows(),
            _ => x.len(),
        } as f64;
    }
    let target = op.forward().second().map_or(Ok(&[][..]), |(name, _)| inputs.f32(name))?;
    let gamma = if op.has_parameters() { inputs.f32("gamma")? } else { &[] };
    let (eps, tanh) = (shape.eps, shape.tanh);
    let plan = &Plan { op, d, eps, tanh, factor, stream: false, gamma };
    let rows = shape.rows().div_ceil(pool::threads()).max(1);
    let mut dx = vec![0.0; x.len()];
    let parts: Vec<Vec<f64>> = {
        let mut target = target.chunks(rows * d);
        let mut upstream = upstream.chunks(rows * width);
        let mut labels = labels.chunks(rows);
        let pieces: Vec<_> = x
            .chunks(rows * d)
            .zip(dx.chunks_mut(rows * d))
            .map(|(x, dx)| {
                let target = target.next().unwrap_or_default();
                let upstream = upstream.next().unwrap_or_default();
                let labels = labels.next().unwrap_or_default();
                (x, target, upstream, labels, dx)
            })
            .collect();
        let sums = |(x, target, upstream, labels, dx)| {
            let mut sums = vec![0.0; 2 * plan.gamma.len()];
            self::piece(plan, Piece { x, target, upstream, labels, dx, sums: &mut sums });
            sums
        };
        pool::run(|| pieces.into_par_iter().map(sums).collect())
    };
    let outputs = Tensors::new().with("dx", Tensor::new(extents, &dx[..])?);
    if !op.has_parameters() {
        return Ok(outputs);
    }
    let total = |c: usize| parts.iter().map(|sums| sums[c]).sum::<f64>() as f32;
    let [dgamma, dbeta] = [0, d].map(|from| (from..from + d).map(total).collect::<Vec<f32>>());
    Ok(outputs.with("dgamma", Tensor::vector(&dgamma[..])).with("dbeta", Tensor::vector(&dbeta[..])))
}

/// Computes a piece.
pub(super) fn piece(plan: &Plan<'_>, piece: Piece<'_>) {
    let Piece { x, target, upstream, labels, dx, sums } = piece;
    let d = plan.d;
    match plan.op {
        Op::Gelu => pairs(x, upstream, dx, |x, dy| dy * gelu_slope(x, plan.tanh)),
        Op::Swish => pairs(x, upstream, dx, |x, dy| dy * swish_slope(x)),
        Op::MseLoss => {
            for (i, ((x, target), dx)) in x.iter().zip(target).zip(dx).enumerate() {
                let factor = plan.factor * upstream.get(i).map_or(1.0, |dloss| f64::from(*dloss));
                *dx = (2.0 * (f64::from(*x) - f64::from(*target)) * factor) as f32;
            }
        }
        Op::CrossEntropyLoss => {
            for (row, ((x, label), dx)) in x.chunks(d).zip(labels).zip(dx.chunks_mut(d)).enumerate() {
                if *label == -1 {
                    dx.fill(0.0);
                    continue;
                }
                let factor = plan.factor * upstream.get(row).map_or(1.0, |dloss| f64::from(*dloss));
                let (most, sum) = log_sum(x);
                for (c, (x, dx)) in x.iter().zip(dx).enumerate() {
                    let is_label = if c as i64 == *label { 1.0 } else { 0.0 };
                    *dx = (((f64::from(*x) - most).exp() / sum - is_label) * factor) as f32;
                }
            }
        }
        Op::SoftCrossEntropyLoss => {
            for (row, ((x, target), dx)) in x.chunks(d).zip(target.chunks(d)).zip(dx.chunks_mut(d)).enumerate() {
                let factor = plan.factor * upstream.get(row).map_or(1.0, |dloss| f64::from(*dloss));
                let ((most, sum), all) = (log_sum(x), target.iter().map(|p| f64::from(*p)).sum::<f64>());
                pairs(x, target, dx, |x, p| ((x - most).exp() / sum * all - p) * factor);
            }
        }
        Op::LayerNorm => {
            sums.fill(0.0);
            for ((x, dy), dx) in x.chunks(d).zip(upstream.chunks(d)).zip(dx.chunks_mut(d)) {
                norm(x, dy, plan, dx, sums);
            }
        }
    }
}
