//! The gradients in f64 by definition, rounded once to f32.

use std::f64::consts::PI;

use super::op::Op;
use super::piece::{Piece, Plan};
use crate::layers::reference::{log_sum, phi};

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

/// Writes f(a, b) for every element.
fn pairs(a: &[f32], b: &[f32], y: &mut [f32], f: impl Fn(f64, f64) -> f64) {
    for ((a, b), y) in a.iter().zip(b).zip(y) {
        *y = f(f64::from(*a), f64::from(*b)) as f32;
    }
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
                let factor = plan.factor * upstream.get(row).map_or(1.0, |dloss| f64::from(*dloss));
                let (most, sum) = log_sum(x);
                for (c, (x, dx)) in x.iter().zip(dx).enumerate() {
                    let is_label = if c as i64 == *label { 1.0 } else { 0.0 };
                    *dx = (((f64::from(*x) - most).exp() / sum - is_label) * factor) as f32;
                }
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
