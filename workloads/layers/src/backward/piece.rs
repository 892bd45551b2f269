//! One piece of the work: whole rows of every array, and how to compute it.

use super::line::{EachDifference, GeluSlope, ScaledDifference, SwishSlope};
use super::loss::LessLabel;
use super::norm::{self, NormGradient};
use super::op::Op;
use super::{reference, scalar};
use crate::line::Flat;
use crate::piece::{Way, scratch_bytes, with_scratch};
use crate::soft_targets::LessTarget;
use crate::softmax::{self, Softmax};
use ellwand_simd::isa::Isa;
use ellwand_simd::lanes::dispatch;

/// Values shared by all pieces.
#[derive(Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) op: Op,
    /// Length of a row.
    pub(super) d: usize,
    pub(super) eps: f32,
    /// True for the tanh form of GELU.
    pub(super) tanh: bool,
    /// Factor of a loss gradient: dloss over the number of losses if they are reduced to a mean, dloss if to their sum,
    /// 1 if `upstream` has a value for each.
    pub(super) factor: f64,
    /// Use non-temporal stores; pieces and rows are then aligned to a vector.
    pub(super) stream: bool,
    pub(super) gamma: &'a [f32],
}

/// Rows of the arrays; unused arrays are empty.
pub(super) struct Piece<'a> {
    pub(super) x: &'a [f32],
    pub(super) target: &'a [f32],
    /// dy, or dloss of each loss; empty for a reduced loss.
    pub(super) upstream: &'a [f32],
    pub(super) labels: &'a [i64],
    pub(super) dx: &'a mut [f32],
    /// Output: sums over the rows of the piece, dgamma, then dbeta.
    pub(super) sums: &'a mut [f64],
}

/// Computes a piece.
pub(super) fn run(way: Way, plan: &Plan<'_>, piece: Piece<'_>) {
    let _span = span(plan.op);
    match way {
        Way::Reference => reference::piece(plan, piece),
        Way::Scalar => scalar::piece(plan, piece),
        Way::Vector(isa) => vector(isa, plan, piece),
    }
}

/// Bytes that a thread holds while it computes rows of `d` values.
pub(super) fn held(way: Way, op: Op, d: usize) -> usize {
    match (way, op) {
        (Way::Reference, Op::LayerNorm) => 2 * size_of::<f64>() * d,
        (Way::Vector(_), Op::CrossEntropyLoss | Op::SoftCrossEntropyLoss) => scratch_bytes(softmax::SCRATCH * d),
        (Way::Vector(_), Op::LayerNorm) => scratch_bytes(norm::SCRATCH * d),
        _ => 0,
    }
}

/// One span per piece, never per row.
fn span(op: Op) -> ellwand_profile::Guard {
    use ellwand_profile::span;
    match op {
        Op::LayerNorm => span!("layer-norm-backward"),
        Op::Gelu => span!("gelu-backward"),
        Op::Swish => span!("swish-backward"),
        Op::MseLoss => span!("mse-loss-backward"),
        Op::CrossEntropyLoss | Op::SoftCrossEntropyLoss => span!("cross-entropy-loss-backward"),
    }
}

fn vector(isa: Isa, plan: &Plan<'_>, piece: Piece<'_>) {
    let Piece { x, target, upstream, labels, dx: y, sums } = piece;
    let &Plan { d, eps, stream, gamma, .. } = plan;
    let factor = plan.factor as f32;
    match (plan.op, plan.tanh) {
        (Op::Gelu, false) => dispatch(isa, Flat { a: x, b: upstream, y, stream, op: GeluSlope::<false> }),
        (Op::Gelu, true) => dispatch(isa, Flat { a: x, b: upstream, y, stream, op: GeluSlope::<true> }),
        (Op::Swish, _) => dispatch(isa, Flat { a: x, b: upstream, y, stream, op: SwishSlope }),
        (Op::MseLoss, _) if upstream.is_empty() => {
            let op = ScaledDifference { factor: (2.0 * plan.factor) as f32 };
            dispatch(isa, Flat { a: x, b: target, y, stream, op });
        }
        (Op::MseLoss, _) => dispatch(isa, EachDifference { x, target, upstream, y, stream }),
        (Op::CrossEntropyLoss, _) => with_scratch(softmax::SCRATCH * d, |scratch| {
            let weigh = LessLabel { labels, upstream, factor, d };
            dispatch(isa, Softmax { x, d, y, stream, scratch, weigh });
        }),
        (Op::SoftCrossEntropyLoss, _) => with_scratch(softmax::SCRATCH * d, |scratch| {
            let weigh = LessTarget { target, upstream, factor, d };
            dispatch(isa, Softmax { x, d, y, stream, scratch, weigh });
        }),
        (Op::LayerNorm, _) => with_scratch(norm::SCRATCH * d, |scratch| {
            dispatch(isa, NormGradient { x, dy: upstream, d, eps, gamma, dx: y, sums, stream, scratch });
        }),
    }
}
