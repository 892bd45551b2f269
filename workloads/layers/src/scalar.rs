//! The operations as plain f32 loops with sums in f64: code written without regard to the machine. The compiler may
//! vectorise it.

use super::labels::class;
use super::op::{Op, Step};
use super::piece::{Piece, Plan};

/// Half of erfc(z / sqrt 2) for z >= 0, given e^(-z^2 / 2): a polynomial, fitted at Chebyshev nodes to 7e-8, times t
/// = 1 / (1 + 0.46 z / sqrt 2). Relative accuracy in the tail, and one exponential; `libm::erfcf` takes 8 times as long.
/// The terms are paired because a chain of ten multiply-adds costs their latencies.
#[inline]
pub(super) fn half_erfc(z: f32, e: f32) -> f32 {
    const C: [f32; 10] = [
        0.129_763_6,
        0.129_763_37,
        0.116_047_83,
        0.088_281_61,
        0.054_894_843,
        -0.003_762_637_5,
        0.045_753_475,
        -0.131_884_23,
        0.092_585_81,
        -0.021_443_697,
    ];
    let t = 1.0 / (1.0 + 0.46 * std::f32::consts::FRAC_1_SQRT_2 * z);
    let square = t * t;
    let fourth = square * square;
    let low = (C[0] + C[1] * t) + (C[2] + C[3] * t) * square;
    let high = (C[4] + C[5] * t) + (C[6] + C[7] * t) * square + (C[8] + C[9] * t) * fourth;
    t * (low + high * fourth) * e
}

/// GELU; the exact form by erfc, the tanh form by the logistic function, (1 + tanh u) / 2 = 1 / (1 + e^-2u), which has no
/// cancellation and costs one exponential instead of a slower tanh.
fn gelu(x: f32, tanh: bool) -> f32 {
    if tanh {
        let twice = 2.0 * (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
        x / (1.0 + (-twice).exp())
    } else {
        let tail = half_erfc(x.abs(), (-0.5 * x * x).exp());
        x * if x < 0.0 { tail } else { 1.0 - tail }
    }
}

fn swish(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// Sum of f(x, second) in f64, in eight interleaved sums: a single one costs the latency of an addition for every term.
pub(super) fn total(x: &[f32], second: &[f32], f: impl Fn(f32, f32) -> f64) -> f64 {
    let mut sums = [0.0; 8];
    let ((x, x_rest), (second, second_rest)) = (x.as_chunks::<8>(), second.as_chunks::<8>());
    for (x, second) in x.iter().zip(second) {
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum += f(x[i], second[i]);
        }
    }
    sums.iter().sum::<f64>() + x_rest.iter().zip(second_rest).map(|(x, second)| f(*x, *second)).sum::<f64>()
}

/// The mean of a row, and 1 / sqrt(variance + eps).
pub(super) fn moments(x: &[f32], eps: f32) -> (f64, f64) {
    let d = x.len() as f64;
    let mean = total(x, x, |x, _| f64::from(x)) / d;
    let variance = total(x, x, |x, _| (f64::from(x) - mean) * (f64::from(x) - mean)) / d;
    (mean, 1.0 / (variance + f64::from(eps)).sqrt())
}

fn norm(x: &[f32], plan: &Plan<'_>, y: &mut [f32]) {
    let (mean, inverse) = moments(x, plan.eps);
    let [gamma, beta] = plan.vectors;
    for (((y, x), gamma), beta) in y.iter_mut().zip(x).zip(gamma).zip(beta) {
        *y = ((f64::from(*x) - mean) * inverse) as f32 * gamma + beta;
    }
}

/// Writes f(a, b) for every element.
pub(super) fn pairs(a: &[f32], b: &[f32], y: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    for ((a, b), y) in a.iter().zip(b).zip(y) {
        *y = f(*a, *b);
    }
}

fn rows(x: &[f32], row: &[f32], y: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    for (x, y) in x.chunks(row.len()).zip(y.chunks_mut(row.len())) {
        pairs(x, row, y, &f);
    }
}

pub(super) fn largest(x: &[f32]) -> f32 {
    x.iter().copied().fold(f32::NEG_INFINITY, f32::max)
}

/// Computes a piece.
pub(super) fn piece(plan: &Plan<'_>, piece: Piece<'_>) -> f64 {
    let Piece { x, second, labels, y, sum } = piece;
    let d = plan.d;
    match (plan.step, plan.tanh) {
        (Step::Whole(Op::Gelu), tanh) => pairs(x, x, y, |x, _| gelu(x, tanh)),
        (Step::Whole(Op::BiasGelu), tanh) => rows(x, plan.vectors[0], y, |x, bias| gelu(x + bias, tanh)),
        (Step::Whole(Op::Swish), _) => pairs(x, x, y, |x, _| swish(x)),
        (Step::Whole(Op::SwiGlu), _) => pairs(x, second, y, |x, up| swish(x) * up),
        (Step::AddBias, _) => rows(x, plan.vectors[0], y, |x, bias| x + bias),
        (Step::Add, _) => pairs(x, second, y, |x, other| x + other),
        (Step::Multiply, _) => pairs(x, second, y, |x, other| x * other),
        (Step::Whole(Op::MseLoss), _) => {
            if plan.each {
                pairs(x, second, y, |x, target| (x - target) * (x - target));
                return 0.0;
            }
            return total(x, second, |x, target| f64::from((x - target) * (x - target)));
        }
        (Step::Whole(Op::LayerNorm), _) => {
            for (x, y) in x.chunks(d).zip(y.chunks_mut(d)) {
                norm(x, plan, y);
            }
        }
        (Step::Whole(Op::ResidualLayerNorm), _) => {
            pairs(x, second, sum, |x, residual| x + residual);
            for (sum, y) in sum.chunks(d).zip(y.chunks_mut(d)) {
                norm(sum, plan, y);
            }
        }
        (Step::Whole(Op::Softmax), _) => {
            for (x, y) in x.chunks(d).zip(y.chunks_mut(d)) {
                let most = largest(x);
                let mut sum = 0.0_f64;
                for (x, y) in x.iter().zip(&mut *y) {
                    *y = (x - most).exp();
                    sum += f64::from(*y);
                }
                let inverse = (1.0 / sum) as f32;
                y.iter_mut().for_each(|y| *y *= inverse);
            }
        }
        (Step::Whole(Op::SoftCrossEntropyLoss), _) => {
            let mut sum_of_losses = 0.0;
            for (row, (x, target)) in x.chunks(d).zip(second.chunks(d)).enumerate() {
                let most = largest(x);
                let sum: f64 = x.iter().map(|x| f64::from((x - most).exp())).sum();
                let log = sum.ln();
                let loss = total(x, target, |x, p| f64::from(p) * (log + (f64::from(most) - f64::from(x))));
                sum_of_losses += loss;
                if plan.each {
                    y[row] = loss as f32;
                }
            }
            return sum_of_losses;
        }
        (Step::Whole(Op::CrossEntropyLoss), _) => {
            let mut total = 0.0;
            for (row, (x, label)) in x.chunks(d).zip(labels).enumerate() {
                let loss = class(*label).map_or(0.0, |class| {
                    let most = largest(x);
                    let sum: f64 = x.iter().map(|x| f64::from((x - most).exp())).sum();
                    sum.ln() as f32 + (most - x[class])
                });
                total += f64::from(loss);
                if plan.each {
                    y[row] = loss;
                }
            }
            return total;
        }
    }
    0.0
}
