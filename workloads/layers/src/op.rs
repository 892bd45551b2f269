//! The operations: names, arrays, and the steps of an implementation.

use ellwand_core::Case;

use super::labels;

/// An operation: a workload of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    LayerNorm,
    Gelu,
    Swish,
    Softmax,
    MseLoss,
    CrossEntropyLoss,
    /// Cross-entropy against probabilities of classes: a case of `cross-entropy-loss`, see [`Op::of`].
    SoftCrossEntropyLoss,
    BiasGelu,
    ResidualLayerNorm,
    SwiGlu,
}

/// One pass over the arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The whole operation.
    Whole(Op),
    /// x + bias, row by row.
    AddBias,
    /// x + second, element by element.
    Add,
    /// x * second, element by element.
    Multiply,
}

impl Op {
    /// In the order of their registration.
    pub(super) const ALL: [Op; 9] = [
        Op::LayerNorm,
        Op::Gelu,
        Op::Swish,
        Op::Softmax,
        Op::MseLoss,
        Op::CrossEntropyLoss,
        Op::BiasGelu,
        Op::ResidualLayerNorm,
        Op::SwiGlu,
    ];

    /// What a case of this workload computes.
    pub(super) fn of(self, case: &Case) -> Op {
        let soft = self == Op::CrossEntropyLoss && labels::are_probabilities(case);
        if soft { Op::SoftCrossEntropyLoss } else { self }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Op::LayerNorm => "layer-norm",
            Op::Gelu => "gelu",
            Op::Swish => "swish",
            Op::Softmax => "softmax",
            Op::MseLoss => "mse-loss",
            Op::CrossEntropyLoss | Op::SoftCrossEntropyLoss => "cross-entropy-loss",
            Op::BiasGelu => "bias-gelu",
            Op::ResidualLayerNorm => "residual-layer-norm",
            Op::SwiGlu => "swiglu",
        }
    }

    pub(super) fn about(self) -> &'static str {
        match self {
            Op::LayerNorm => "layer normalisation over the last axis, with gamma and beta",
            Op::Gelu => "GELU, x Phi(x), exact or with the tanh approximation",
            Op::Swish => "Swish (SiLU), x / (1 + e^-x)",
            Op::Softmax => "softmax over the last axis",
            Op::MseLoss => "mean squared error against a target",
            Op::CrossEntropyLoss | Op::SoftCrossEntropyLoss => {
                "cross-entropy of logits [batch, sequence, classes] and labels [batch, sequence] or class probabilities"
            }
            Op::BiasGelu => "GELU of x + bias in one pass, as between two linear layers",
            Op::ResidualLayerNorm => "x + residual and its layer normalisation in one pass",
            Op::SwiGlu => "Swish(x) * up in one pass, the gate of a SwiGLU layer",
        }
    }

    /// Name and description of the second array with the shape of x, if any.
    pub(super) fn second(self) -> Option<(&'static str, &'static str)> {
        match self {
            Op::MseLoss => Some(("target", "target values of x")),
            Op::SoftCrossEntropyLoss => Some(("target", "probability of each class; rows usually sum to 1")),
            Op::ResidualLayerNorm => Some(("residual", "added to x before the normalisation")),
            Op::SwiGlu => Some(("up", "multiplied with Swish(x)")),
            _ => None,
        }
    }

    /// Vectors with the length of a row, and their default values.
    pub(super) fn vectors(self) -> &'static [(&'static str, &'static str, f32)] {
        match self {
            Op::LayerNorm | Op::ResidualLayerNorm => &[
                ("gamma", "scale of each column; 1 when absent", 1.0),
                ("beta", "added to each column; 0 when absent", 0.0),
            ],
            Op::BiasGelu => &[("bias", "added to each column; 0 when absent", 0.0)],
            _ => &[],
        }
    }

    pub(super) fn has_labels(self) -> bool {
        self == Op::CrossEntropyLoss
    }

    pub(super) fn is_loss(self) -> bool {
        self == Op::MseLoss || self.is_cross_entropy()
    }

    /// True for a loss with one value per row.
    pub(super) fn is_cross_entropy(self) -> bool {
        matches!(self, Op::CrossEntropyLoss | Op::SoftCrossEntropyLoss)
    }

    pub(super) fn has_form(self) -> bool {
        matches!(self, Op::Gelu | Op::BiasGelu)
    }

    pub(super) fn has_eps(self) -> bool {
        matches!(self, Op::LayerNorm | Op::ResidualLayerNorm)
    }

    /// True if its arrays may be bf16.
    pub(super) fn has_precision(self) -> bool {
        self.unfused().is_none()
    }

    /// The steps of the unfused form of a fused pair: the first writes an intermediate array, which the second reads.
    pub(super) fn unfused(self) -> Option<[Step; 2]> {
        match self {
            Op::BiasGelu => Some([Step::AddBias, Step::Whole(Op::Gelu)]),
            Op::ResidualLayerNorm => Some([Step::Add, Step::Whole(Op::LayerNorm)]),
            Op::SwiGlu => Some([Step::Whole(Op::Swish), Step::Multiply]),
            _ => None,
        }
    }

    /// Floating-point operations per element, as in the formula: exponentials and roots count as one.
    pub(super) fn flops(self) -> f64 {
        match self {
            Op::LayerNorm => 8.0,
            Op::Gelu => 8.0,
            Op::Swish => 4.0,
            Op::Softmax => 5.0,
            Op::MseLoss => 3.0,
            Op::CrossEntropyLoss => 4.0,
            Op::SoftCrossEntropyLoss => 6.0,
            Op::BiasGelu => 9.0,
            Op::ResidualLayerNorm => 9.0,
            Op::SwiGlu => 5.0,
        }
    }
}
