//! The operations: names, arrays, work.

use ellwand_core::Case;

use crate::op::Op as Forward;
use crate::shape::{Reduction, Shape};

/// The gradient of one operation: a workload of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    LayerNorm,
    Gelu,
    Swish,
    MseLoss,
    CrossEntropyLoss,
    /// Against probabilities: a case of `cross-entropy-loss-backward`, see [`Op::of`].
    SoftCrossEntropyLoss,
}

/// Shape of the upstream gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Upstream {
    /// The shape of x.
    Whole,
    /// One value per row.
    Rows,
    /// A single value, for a reduced loss.
    One,
}

impl Op {
    /// In the order of their registration.
    pub(super) const ALL: [Op; 5] = [Op::LayerNorm, Op::Gelu, Op::Swish, Op::MseLoss, Op::CrossEntropyLoss];

    /// What a case of this workload computes.
    pub(super) fn of(self, case: &Case) -> Op {
        let soft = self.forward().of(case) == Forward::SoftCrossEntropyLoss;
        if soft { Op::SoftCrossEntropyLoss } else { self }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Op::LayerNorm => "layer-norm-backward",
            Op::Gelu => "gelu-backward",
            Op::Swish => "swish-backward",
            Op::MseLoss => "mse-loss-backward",
            Op::CrossEntropyLoss | Op::SoftCrossEntropyLoss => "cross-entropy-loss-backward",
        }
    }

    pub(super) fn about(self) -> &'static str {
        match self {
            Op::LayerNorm => "gradients of layer normalisation: dx, dgamma and dbeta",
            Op::Gelu => "gradient of GELU: dy (Phi(x) + x phi(x)), or that of the tanh approximation",
            Op::Swish => "gradient of Swish (SiLU): dy s (1 + x (1 - s)) with s = 1 / (1 + e^-x)",
            Op::MseLoss => "gradient of the squared error: 2 (x - target) dloss, over the number of values for a mean",
            Op::CrossEntropyLoss | Op::SoftCrossEntropyLoss => {
                "gradient of cross-entropy: (softmax(x) - 1 at the label) dloss, over the rows for a mean"
            }
        }
    }

    /// The operation whose gradient this is.
    pub(super) fn forward(self) -> Forward {
        match self {
            Op::LayerNorm => Forward::LayerNorm,
            Op::Gelu => Forward::Gelu,
            Op::Swish => Forward::Swish,
            Op::MseLoss => Forward::MseLoss,
            Op::CrossEntropyLoss => Forward::CrossEntropyLoss,
            Op::SoftCrossEntropyLoss => Forward::SoftCrossEntropyLoss,
        }
    }

    /// Name of the upstream gradient.
    pub(super) fn upstream_name(self) -> &'static str {
        if self.forward().is_loss() { "dloss" } else { "dy" }
    }

    pub(super) fn upstream(self, reduction: Reduction) -> Upstream {
        match (self, reduction) {
            (op, Reduction::Mean | Reduction::Sum) if op.forward().is_loss() => Upstream::One,
            (op, Reduction::None) if op.forward().is_cross_entropy() => Upstream::Rows,
            _ => Upstream::Whole,
        }
    }

    pub(super) fn has_parameters(self) -> bool {
        self == Op::LayerNorm
    }

    /// True if the operation works row by row.
    pub(super) fn rowwise(self) -> bool {
        self == Op::LayerNorm || self.forward().is_cross_entropy()
    }

    /// Floating-point operations per element, as in the formula: exponentials, roots and the error function count as
    /// one.
    fn flops(self, shape: &Shape) -> f64 {
        match self {
            Op::LayerNorm => 16.0,
            Op::Gelu if shape.tanh => 18.0,
            Op::Gelu => 10.0,
            Op::Swish => 9.0,
            Op::MseLoss if shape.reduction == Reduction::None => 3.0,
            Op::MseLoss => 2.0,
            Op::CrossEntropyLoss => 6.0,
            Op::SoftCrossEntropyLoss => 8.0,
        }
    }

    /// Floating-point operations of a case.
    pub(super) fn operations(self, shape: &Shape) -> f64 {
        self.flops(shape) * (shape.counted_rows() * shape.dimension) as f64
    }

    /// Bytes that must be read and written. Of a row that the loss skips, only the label is read; its gradient is 0.
    pub(super) fn traffic(self, shape: &Shape) -> (u64, u64) {
        let (n, rows, d) = (shape.elements() as u64, shape.rows() as u64, shape.dimension as u64);
        let counted = shape.counted_rows() as u64;
        let upstream = match self.upstream(shape.reduction) {
            Upstream::Whole => 4 * n,
            Upstream::Rows => 4 * counted,
            Upstream::One => 4,
        };
        let (parameters, gradients) = if self.has_parameters() { (4 * d, 8 * d) } else { (0, 0) };
        let target = if self.forward().second().is_some() { 4 * n } else { 0 };
        let labels = if self == Op::CrossEntropyLoss { 8 * rows } else { 0 };
        (4 * counted * d + upstream + parameters + target + labels, 4 * n + gradients)
    }
}
