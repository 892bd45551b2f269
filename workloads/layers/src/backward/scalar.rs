//! The gradients as plain f32 loops with sums in f64: code written without regard to the machine. The compiler may
//! vectorise it.

use super::op::Op;
use super::piece::{Piece, Plan};
use crate::labels::class;
use crate::scalar::{half_erfc, largest, moments, pairs, total};

/// The derivative of GELU: the exact form by erfc, the tanh form by the logistic function.
fn gelu_slope(x: f32, tanh: bool) -> f32 {
    use std::f32::consts::PI;
    if !tanh {
        let e = (-0.5 * x * x).exp();
        let tail = half_erfc(x.abs(), e);
        return (if x < 0.0 { tail } else { 1.0 - tail }) + x * e * (1.0 / (2.0 * PI).sqrt());
    }
    let scale = 2.0 * (2.0 / PI).sqrt();
    // Far from 0 the cubic would overflow against a derivative of 0, so the slope is that at the limit. NaN stays NaN,
    // and infinity gives NaN through the last term.
    let near = x.clamp(-20.0, 20.0);
    let inner = scale * (near + 0.044_715 * near * near * near);
    let inner_slope = scale * (1.0 + 3.0 * 0.044_715 * near * near);
    // (1 + tanh u) / 2 = 1 / (1 + e^-2u), without cancellation.
    let (above, below) = (1.0 / (1.0 + (-inner).exp()), 1.0 / (1.0 + inner.exp()));
    above + near * inner_slope * above * below + 0.0 * x
}

fn swish_slope(x: f32) -> f32 {
    let s = 1.0 / (1.0 + (-x).exp());
    s * (1.0 + x * (1.0 - s))
}

fn norm(x: &[f32], dy: &[f32], plan: &Plan<'_>, dx: &mut [f32], sums: &mut [f64]) {
    let count = x.len() as f64;
    let (mean, inverse) = moments(x, plan.eps);
    let normal = |x: f32| (f64::from(x) - mean) * inverse;
    let (mut sum, mut product) = (0.0, 0.0);
    for ((x, dy), gamma) in x.iter().zip(dy).zip(plan.gamma) {
        let g = f64::from(dy * gamma);
        sum += g;
        product += g * normal(*x);
    }
    let (mean_g, mean_gn) = (sum / count, product / count);
    let (dgamma, dbeta) = sums.split_at_mut(plan.d);
    for (c, ((x, dy), gamma)) in x.iter().zip(dy).zip(plan.gamma).enumerate() {
        let normal = normal(*x);
        dx[c] = ((f64::from(dy * gamma) - mean_g - normal * mean_gn) * inverse) as f32;
        dgamma[c] += f64::from(*dy) * normal;
        dbeta[c] += f64::from(*dy);
    }
}

/// Computes a piece.
pub(super) fn piece(plan: &Plan<'_>, piece: Piece<'_>) {
    let Piece { x, target, upstream, labels, dx, sums } = piece;
    let (d, factor) = (plan.d, plan.factor as f32);
    match plan.op {
        Op::Gelu => pairs(x, upstream, dx, |x, dy| dy * gelu_slope(x, plan.tanh)),
        Op::Swish => pairs(x, upstream, dx, |x, dy| dy * swish_slope(x)),
        Op::MseLoss if upstream.is_empty() => {
            let factor = (2.0 * plan.factor) as f32;
            pairs(x, target, dx, |x, target| (x - target) * factor);
        }
        Op::MseLoss => {
            pairs(x, target, dx, |x, target| 2.0 * (x - target));
            dx.iter_mut().zip(upstream).for_each(|(dx, dloss)| *dx *= dloss);
        }
        Op::CrossEntropyLoss => {
            for (row, ((x, label), dx)) in x.chunks(d).zip(labels).zip(dx.chunks_mut(d)).enumerate() {
                if class(*label).is_none() {
                    dx.fill(0.0);
                    continue;
                }
                let most = largest(x);
                let mut sum = 0.0_f64;
                for (x, dx) in x.iter().zip(&mut *dx) {
                    *dx = (x - most).exp();
                    sum += f64::from(*dx);
                }
                let inverse = (1.0 / sum) as f32;
                let factor = upstream.get(row).copied().unwrap_or(factor);
                for (c, dx) in dx.iter_mut().enumerate() {
                    let is_label = if c as i64 == *label { 1.0 } else { 0.0 };
                    *dx = (*dx * inverse - is_label) * factor;
                }
            }
        }
        Op::SoftCrossEntropyLoss => {
            for (row, ((x, target), dx)) in x.chunks(d).zip(target.chunks(d)).zip(dx.chunks_mut(d)).enumerate() {
                let most = largest(x);
                pairs(x, x, dx, |x, _| (x - most).exp());
                let sum = total(dx, dx, |term, _| f64::from(term));
                let share = (total(target, target, |p, _| f64::from(p)) / sum) as f32;
                let factor = upstream.get(row).copied().unwrap_or(factor);
                dx.iter_mut().zip(target).for_each(|(dx, p)| *dx = (*dx * share - p) * factor);
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
